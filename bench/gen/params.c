/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "params.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "bench/base/ticks.h"
#include "bench/store/db.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/util.h"

#include "gen_exponential.h"
#include "gen_histogram.h"
#include "keys.h"

static const char *const dists[] = {
	"uniform", "sequential", "zipfian", "latest",
	"hotspot", "exponential", "zipfian-exact", NULL,
};

static const char *const field_dists[] = {"constant", "uniform", "zipfian",
					  "histogram", NULL};
static const char *const orders[] = {"hashed", "ordered", NULL};
static const char *const intervals[] = {"op", "intended", "both", NULL};
static const char *const autos[] = {"auto", "true", "false", NULL};
static const char *const updates[] = {"replace", "field", NULL};
static const char *const arrival_kinds[] = {"constant", "poisson", NULL};
static const char *const scan_dists[] = {"uniform", "zipfian", NULL};
static const char *const types[] = {
	"hdrhistogram", "histogram", "hdrhistogram+histogram",
	"hdrhistogram+raw", "timeseries", "raw", NULL,
};

struct ignored {
	uint64_t number;
	int choice;
	const char *text;
};

#define AT(f) offsetof(struct params, f)
#define U64(name, f, deflt, min, max) \
	{name, PROP_U64, AT(f), deflt, min, max, NULL}
#define DOUBLE(name, f, deflt, min, max) \
	{name, PROP_DOUBLE, AT(f), deflt, min, max, NULL}
#define BOOL(name, f, deflt) {name, PROP_BOOL, AT(f), deflt, 0, 0, NULL}
#define STR(name, f, deflt) {name, PROP_STR, AT(f), deflt, 0, 0, NULL}
#define ENUM(name, f, deflt, choices) \
	{name, PROP_ENUM, AT(f), deflt, 0, 0, choices}

static const struct prop_spec specs[] = {
	U64("recordcount", record_count, "0", 0, 0),
	U64("insertstart", insert_start, "0", 0, 0),
	U64("insertcount", insert_count, NULL, 0, 0),
	U64("fieldcount", field_count, "10", 1, 1 << 20),
	U64("fieldlength", field_len, "100", 0, 1 << 26),
	U64("minfieldlength", field_len_min, "1", 0, 1 << 26),
	ENUM("fieldlengthdistribution", field_len_dist, "constant",
	     field_dists),
	STR("fieldlengthhistogram", field_len_histogram, "hist.txt"),
	U64("zeropadding", zero_padding, "1", 0, KEY_PADDING_MAX),
	ENUM("insertorder", insert_order, "hashed", orders),
	BOOL("dataintegrity", data_integrity, "false"),
	STR("table", table, "usertable"),
	BOOL("readallfields", read_all_fields, "true"),
	BOOL("readallfieldsbyname", ignored_bool, "false"),
	BOOL("writeallfields", write_all_fields, "false"),

	U64("operationcount", operation_count, "0", 0, 0),
	DOUBLE("readproportion", proportion_read, "0.95", 0, 0),
	DOUBLE("updateproportion", proportion_update, "0.05", 0, 0),
	DOUBLE("insertproportion", proportion_insert, "0", 0, 0),
	DOUBLE("scanproportion", proportion_scan, "0", 0, 0),
	DOUBLE("readmodifywriteproportion", proportion_rmw, "0", 0, 0),
	ENUM("requestdistribution", dist, "uniform", dists),
	DOUBLE("hotspotdatafraction", hotspot_data_frac, "0.2", 0, 1),
	DOUBLE("hotspotopnfraction", hotspot_op_frac, "0.8", 0, 1),
	DOUBLE("exponential.percentile", exponential_percentile, "95", 0, 100),
	DOUBLE("exponential.frac", exponential_frac, "0.8571428571", 0, 0),
	U64("core_workload_insertion_retry_limit", insert_retries, "0", 0, 0),
	U64("core_workload_insertion_retry_interval", insert_retry_interval,
	    "3", 0, 3600),
	BOOL("core_workload_insertion_keep_going_on_error", keep_going,
	     "false"),

	STR("replay.file", trace_file, ""),
	DOUBLE("replay.speed", replay_speed, "0", 0, 0),
	DOUBLE("replay.warmup", replay_warmup, "0", 0, 0.99),
	BOOL("replay.nottl", replay_no_ttl, "false"),
	U64("kvcache.blocks", blocks, "0", 0, 65536),

	BOOL("dotransactions", transactions, NULL),
	BOOL("measurement.trackjvm", track_jvm, "false"),
	U64("threadcount", threads, "1", 1, 4096),
	U64("processes", processes, "1", 1, 256),
	U64("target", target, "0", 0, 0),
	U64("maxexecutiontime", max_time, "0", 0, 1e9),
	BOOL("spin.sleep", spin_sleep, "false"),
	BOOL("status", status, "false"),
	U64("status.interval", status_interval, "10", 1, 86400),
	STR("label", label, ""),
	ENUM("measurementtype", measurement_type, "hdrhistogram", types),
	ENUM("measurement.interval", interval, NULL, intervals),
	U64("histogram.buckets", histogram_ms, "1000", 1, 1 << 24),
	U64("timeseries.granularity", granularity, "1000", 10, 3600000),
	STR("hdrhistogram.percentiles", percentiles_text, "50,95,99"),
	BOOL("hdrhistogram.fileoutput", hdr_files, "false"),
	STR("hdrhistogram.output.path", hdr_path, ""),
	BOOL("measurement.histogram.verbose", histogram_verbose, "false"),
	BOOL("reportlatencyforeacherror", error_latencies, "false"),
	STR("latencytrackederrors", tracked_errors, ""),
	STR("workload", workload_class, "site.ycsb.workloads.CoreWorkload"),
	STR("exporter", exporter_text, "TextMeasurementsExporter"),
	STR("exportfile", export_file, ""),

	STR("db", db, "farkv"),
	STR("keyprefix", key_prefix, "user"),
	DOUBLE("zipfian.theta", zipfian_theta, "0.99", 0, 1),
	ENUM("update", update_mode, "replace", updates),
	BOOL("openloop", open_loop, "false"),
	ENUM("arrivals", arrivals, "constant", arrival_kinds),
	U64("queuedepth", queue_depth, "128", 0, 4096),
	U64("batch", batch, "1", 1, DB_BATCH_MAX),
	U64("rounds", rounds, "1", 1, 1000),
	DOUBLE("warmup", warmup, "0", 0, 86400),
	U64("seed", seed, NULL, 0, 0),
	ENUM("loadfirst", load_first, "auto", autos),
	U64("timeline.interval", timeline_ms, "200", 10, 3600000),
	STR("csv", csv_file, ""),
	STR("plot", plot_file, ""),
	STR("html", html_file, ""),
};

/* Properties without effect: scans are refused, and fields have no names in a value. */
#define IGNORED_U64(name) \
	{name, PROP_U64, offsetof(struct ignored, number), NULL, 0, 0, NULL}

static const struct prop_spec ignored_specs[] = {
	IGNORED_U64("minscanlength"),
	IGNORED_U64("maxscanlength"),
	{"fieldnameprefix", PROP_STR, offsetof(struct ignored, text), NULL, 0, 0,
	 NULL},
	{"scanlengthdistribution", PROP_ENUM, offsetof(struct ignored, choice),
	 NULL, 0, 0, scan_dists},
};

/* ---- checks ---- */

static int check_class(struct props *p, const struct params *v)
{
	const char *dot = strrchr(v->workload_class, '.');
	char text[256];

	if (!strcmp(dot ? dot + 1 : v->workload_class, "CoreWorkload"))
		return 0;
	snprintf(text, sizeof(text),
		 "unknown workload class '%.120s'; kvbench has CoreWorkload "
		 "only", v->workload_class);
	return props_error(p, "workload", text);
}

static int check_records(struct props *p, struct params *v)
{
	if (!v->record_count)
		return props_error(p, "recordcount",
				   "not set or 0: give the number of records, "
				   "as in -p recordcount=1000000");
	if (v->record_count > UINT64_MAX / 4)
		return props_error(p, "recordcount", "over 2^62");
	if (v->insert_start >= v->record_count)
		return props_error(p, "insertstart",
				   "has to be below recordcount");
	if (!props_find(p, "insertcount"))
		v->insert_count = v->record_count - v->insert_start;
	if (!v->insert_count ||
	    v->insert_count > v->record_count - v->insert_start)
		return props_error(p, "insertcount",
				   "insertstart + insertcount has to be at "
				   "most recordcount, and insertcount above 0");
	return 0;
}

static int check_fields(struct props *p, const struct params *v)
{
	if (v->field_len_dist != FIELD_LENGTH_HISTOGRAM &&
	    v->field_count * v->field_len > VALUE_MAX)
		return props_error(p, "fieldlength",
				   "fieldcount * fieldlength is over 64 MiB");
	if ((v->field_len_dist == FIELD_LENGTH_UNIFORM ||
	     v->field_len_dist == FIELD_LENGTH_ZIPFIAN) &&
	    v->field_len_min > v->field_len)
		return props_error(p, "minfieldlength",
				   "has to be at most fieldlength");
	if (v->update_mode == UPDATE_FIELD &&
	    v->field_len_dist != FIELD_LENGTH_CONSTANT)
		return props_error(p, "update",
				   "replacing one field needs "
				   "fieldlengthdistribution=constant");
	if (v->write_all_fields && v->update_mode == UPDATE_FIELD)
		return props_error(p, "update",
				   "update=field writes one field, and "
				   "writeallfields=true all of them");
	if (strlen(v->key_prefix) > KEY_PREFIX_MAX)
		return props_error(p, "keyprefix", "longer than 64 characters");
	return 0;
}

static int check_mix(struct props *p, struct params *v)
{
	double sum;

	v->proportion[OP_READ] = v->proportion_read;
	v->proportion[OP_UPDATE] = v->proportion_update;
	v->proportion[OP_INSERT] = v->proportion_insert;
	v->proportion[OP_SCAN] = v->proportion_scan;
	v->proportion[OP_RMW] = v->proportion_rmw;
	if (v->proportion_scan > 0.0)
		return props_error(p, "scanproportion",
				   "a scan reads neighbours in the order of the "
				   "keys, which a hash table does not have; "
				   "workload E cannot run here");
	sum = v->proportion_read + v->proportion_update +
	      v->proportion_insert + v->proportion_rmw;
	if (sum <= 0.0)
		return props_error(p, "readproportion",
				   "all proportions of operations are 0");
	if (!isfinite(sum))
		return props_error(p, "readproportion",
				   "the proportions of operations have no sum");
	return 0;
}

static int check_dist(struct props *p, const struct params *v)
{
	if (v->zipfian_theta <= 0.0 || v->zipfian_theta >= 1.0)
		return props_error(p, "zipfian.theta",
				   "has to lie between 0 and 1, without both");
	if (v->zipfian_theta != ZIPFIAN_THETA && v->dist != DIST_ZIPFIAN_EXACT)
		return props_error(p, "zipfian.theta",
				   "needs requestdistribution=zipfian-exact: "
				   "YCSB's own zipfian is made for 0.99");
	if (v->dist == DIST_EXPONENTIAL &&
	    (v->exponential_percentile <= 0.0 ||
	     v->exponential_percentile >= 100.0))
		return props_error(p, "exponential.percentile",
				   "has to lie between 0 and 100, without "
				   "both");
	if (v->dist == DIST_EXPONENTIAL && v->exponential_frac <= 0.0)
		return props_error(p, "exponential.frac",
				   "has to be above 0");
	return 0;
}

static int check_counts(struct props *p, const struct params *v)
{
	if (!v->operation_count && !v->max_time)
		return props_error(p, "operationcount",
				   "not set or 0: give a number of operations, "
				   "as in -p operationcount=1000000, or a time "
				   "in seconds, as in -p maxexecutiontime=10");
	/* Draws of missing records are repeated; a thousand times each is too much. */
	if (v->dist == DIST_ZIPFIAN &&
	    (double)v->operation_count * v->proportion_insert * 2.0 >
		    1e3 * (double)v->record_count)
		return props_error(p, "operationcount",
				   "requestdistribution=zipfian is laid out for "
				   "twice the records that a run will insert, "
				   "and these are over a thousand times those "
				   "that there are; operationcount=0 and "
				   "maxexecutiontime=SECONDS set no number");
	if (v->dist == DIST_EXPONENTIAL &&
	    !gen_exponential_reaches(v->exponential_percentile,
				     v->exponential_frac *
					     (double)v->record_count,
				     v->record_count))
		return props_error(p, "exponential.frac",
				   "of a thousand draws not one would be of a "
				   "record that there is");
	return 0;
}

static int check_processes(struct props *p, const struct params *v)
{
	return v->processes > 1 && v->processes * v->threads > 1024
		       ? props_error(p, "processes",
				     "processes * threadcount is over 1024")
		       : 0;
}

static int check_open(struct props *p, const struct params *v)
{
	if (!v->open_loop && v->arrivals != ARRIVALS_CONSTANT)
		return props_error(p, "arrivals", "needs openloop=true");
	/* 0 explicitly selects calls, which a closed loop uses anyway. */
	if (!v->open_loop && v->queue_depth && props_find(p, "queuedepth"))
		return props_error(p, "queuedepth", "needs openloop=true");
	if (!v->open_loop)
		return 0;
	if (!v->target)
		return props_error(p, "openloop",
				   "needs a rate: give -target N, operations "
				   "that arrive in a second");
	if (v->batch > 1)
		return props_error(p, "batch", "openloop=true needs batch=1");
	return 0;
}

/* A cache has a flow of its own: get, and put what is missing. */
static int check_cache(struct props *p, const struct params *v, bool load)
{
	const char *cause = v->trace_file[0] ? "replay.file" : "kvcache.blocks";

	if (v->blocks && v->trace_file[0])
		return props_error(p, "kvcache.blocks",
				   "a trace has requests of its own");
	if (v->replay_speed > 0.0 && v->target)
		return props_error(p, "replay.speed",
				   "gives the requests' times, and so does "
				   "-target; give one of them");
	if (!params_is_cache(v))
		return 0;
	if (load)
		return props_error(p, cause, "there is nothing to load: what is "
					     "missing is stored when asked for");
	if (v->open_loop)
		return props_error(p, "openloop", "a cache's client waits for "
						  "what it asked for");
	if (v->batch > 1)
		return props_error(p, "batch", "a cache's client has one request "
					       "at a time");
	if (v->load_first == 1)
		return props_error(p, "loadfirst", "there is nothing to load");
	if (v->trace_file[0] && v->warmup > 0.0)
		return props_error(p, "warmup", "of a trace give the part that "
						"does not count, as in -p "
						"replay.warmup=0.3");
	if (v->blocks && (v->proportion_update > 0.0 ||
			  v->proportion_insert > 0.0 || v->proportion_rmw > 0.0))
		return props_error(p, "kvcache.blocks",
				   "a request reads what is there and stores the "
				   "rest; set the other proportions to 0");
	if (v->blocks && v->record_count > UINT32_MAX)
		return props_error(p, "recordcount", "over 2^32 prompts");
	return 0;
}

static int check_batch(struct props *p, const struct params *v)
{
	if (v->batch > 1 && v->update_mode == UPDATE_FIELD)
		return props_error(p, "update", "update=field needs batch=1");
	return 0;
}

static int read_percentiles(struct props *p, struct params *v)
{
	const char *at = v->percentiles_text;

	while (*at) {
		char *end;
		double x = strtod(at, &end);

		while (isspace((unsigned char)*end))
			end++;
		if (end == at || (*end && *end != ',') ||
		    strspn(at, " \t0123456789.+-eE") < (size_t)(end - at) ||
		    !(x > 0.0 && x <= 100.0) ||
		    v->n_percentiles == PERCENTILES_MAX)
			return props_error(p, "hdrhistogram.percentiles",
					   "expected up to 32 numbers above 0 "
					   "and up to 100 with commas, as in "
					   "50,95,99.9");
		v->percentiles[v->n_percentiles++] = x;
		at = *end ? end + 1 : end;
	}
	return 0;
}

static int read_exporter(struct props *p, struct params *v)
{
	const char *dot = strrchr(v->exporter_text, '.');
	const char *name = dot ? dot + 1 : v->exporter_text;

	if (!strcmp(name, "TextMeasurementsExporter"))
		v->exporter = EXPORTER_TEXT;
	else if (!strcmp(name, "JSONMeasurementsExporter"))
		v->exporter = EXPORTER_JSON;
	else if (!strcmp(name, "JSONArrayMeasurementsExporter"))
		v->exporter = EXPORTER_JSON_ARRAY;
	else if (!strcmp(name, "CSVMeasurementsExporter"))
		v->exporter = EXPORTER_CSV;
	else
		return props_error(p, "exporter",
				   "expected TextMeasurementsExporter, "
				   "JSONMeasurementsExporter, "
				   "JSONArrayMeasurementsExporter or "
				   "CSVMeasurementsExporter");
	return 0;
}

/* Refuse what YCSB can measure and kvbench cannot, by name. */
static int check_measurement(struct props *p, const struct params *v)
{
	if (v->measurement_type == TYPE_RAW ||
	    v->measurement_type == TYPE_HDR_RAW)
		return props_error(p, "measurementtype",
				   "kvbench keeps no line for each operation, "
				   "which at millions a second would be what is "
				   "measured; hdrhistogram.fileoutput=true and "
				   "csv=FILE show what happened when");
	return 0;
}

static void pick_seed(const struct props *p, struct params *v)
{
	v->has_seed = props_find(p, "seed") != NULL;
	if (v->has_seed)
		return;
	/* 53 bits, which every reader of reports keeps exactly. */
	if (getrandom(&v->seed, sizeof(v->seed), GRND_NONBLOCK) !=
	    sizeof(v->seed))
		v->seed = ticks_clock_ns();
	v->seed >>= 11;
}

/* Workload files contain a number of operations; a time set elsewhere replaces it. */
static bool time_replaces_count(const struct props *p)
{
	const struct prop *count = props_find(p, "operationcount");
	const struct prop *span = props_find(p, "maxexecutiontime");

	return count && count->in_file && span && !span->in_file;
}

int params_read(struct props *p, bool load, struct params *out)
{
	struct params v = {.interval = -1};
	struct ignored ignored;
	int err = props_read(p, specs, ARRAY_SIZE(specs), &v);

	if (!err)
		err = props_read(p, ignored_specs, ARRAY_SIZE(ignored_specs),
				 &ignored);
	if (!err && v.max_time && time_replaces_count(p))
		v.operation_count = 0;
	if (!err)
		err = check_class(p, &v);
	/* A trace has its own records and operations. */
	if (!err && !v.trace_file[0])
		err = check_records(p, &v);
	if (!err)
		err = check_fields(p, &v);
	if (!err && !load && !v.trace_file[0])
		err = check_mix(p, &v);
	if (!err && !load && !v.trace_file[0])
		err = check_dist(p, &v);
	if (!err && !load && !v.trace_file[0])
		err = check_counts(p, &v);
	if (!err)
		err = check_cache(p, &v, load);
	if (!err)
		err = check_batch(p, &v);
	if (!err)
		err = check_open(p, &v);
	if (!err)
		err = check_processes(p, &v);
	if (!err)
		err = check_measurement(p, &v);
	if (!err)
		err = read_percentiles(p, &v);
	if (!err)
		err = read_exporter(p, &v);
	if (err)
		return err;
	if (v.measurement_type == TYPE_TIMESERIES)
		v.timeline_ms = v.granularity;
	/* A schedule hides its queue unless latency starts when due. */
	if (v.interval < 0)
		v.interval = v.target ? INTERVAL_BOTH : INTERVAL_OP;
	pick_seed(p, &v);
	*out = v;
	return 0;
}

/* Bytes of a block unless fieldcount and fieldlength are given. */
#define BLOCK_BYTES (2 << 20)

/* One value per key, of the length that the trace has, or of the workload's. */
static int read_trace(const struct props *p, struct params *v)
{
	struct trace *t = calloc(1, sizeof(*t));
	int err = t ? trace_load(v->trace_file, t)
		    : err_set(FARKV_ENOMEM, "no memory for a trace");

	if (err) {
		free(t);
		return err;
	}
	v->trace = t;
	v->record_count = v->insert_count = t->n_keys;
	v->insert_start = 0;
	v->operation_count =
		t->n - (uint64_t)(v->replay_warmup * (double)t->n);
	v->proportion_read = v->proportion[OP_READ] = 1.0;
	v->dist = DIST_UNIFORM;
	if (!t->has_blocks || !props_find(p, "fieldcount"))
		v->field_count = 1;
	if (!t->has_blocks) {
		v->field_len_dist = FIELD_LENGTH_CONSTANT;
		v->field_len = UTIL_MIN(t->size_max, VALUE_MAX);
	} else if (!props_find(p, "fieldlength")) {
		v->field_len = BLOCK_BYTES;
	}
	return 0;
}

void params_free_files(struct params *v)
{
	if (v->trace)
		trace_free(v->trace);
	free(v->trace);
	v->trace = NULL;
}

int params_read_files(const struct props *p, struct params *v)
{
	struct gen_histogram h;
	uint64_t field;
	int err = v->trace_file[0] ? read_trace(p, v) : 0;

	if (err)
		return err;
	field = v->field_len;
	if (v->field_len_dist == FIELD_LENGTH_HISTOGRAM) {
		err = gen_histogram_load(&h, v->field_len_histogram);
		if (err)
			return err;
		field = gen_histogram_max(&h);
		gen_histogram_fini(&h);
	}
	if (field > VALUE_MAX / v->field_count)
		return err_set(FARKV_EINVAL,
			       "%s: fieldcount times the longest field is over "
			       "64 MiB", v->field_len_histogram);
	v->value_max = v->field_count * field;
	return 0;
}

int params_check_command(const struct props *p, const struct params *v,
			 bool load)
{
	if (!props_find(p, "dotransactions") || v->transactions == !load)
		return 0;
	return props_error(p, "dotransactions",
			   load ? "true says run, and the command is load"
				: "false says load, and the command is run");
}

uint64_t params_load_count(const struct params *v)
{
	return v->insert_count;
}

const char *params_dist_name(const struct params *v)
{
	if (v->dist == DIST_ZIPFIAN)
		return "zipfian-scrambled";
	return dists[v->dist];
}

/* True for a property of a binding in this build, whether used or not. */
static bool is_binding_prop(const char *key)
{
	for (size_t i = 0; db_bindings[i]; i++)
		for (size_t k = 0; k < db_bindings[i]->n_props; k++)
			if (!strcmp(db_bindings[i]->props[k].name, key))
				return true;
	return false;
}

/* Suggest the property that may have been meant: YCSB's redis.host is redis.uri here. */
static void warn_unknown(const struct prop *e)
{
	size_t len = strcspn(e->key, "."), n = 0;
	const struct db_ops *db = e->key[len] ? db_find(e->key, len) : NULL;
	char known[256] = "";

	for (size_t i = 0; db && i < db->n_props && n < sizeof(known); i++)
		n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s",
				      i ? ", " : "; there are: ",
				      db->props[i].name);
	log_warn("%s: %s: unknown property, ignored%s", e->where, e->key, known);
}

void params_warn(const struct props *p, const struct params *v)
{
	const struct prop *e;

	for (size_t i = 0; i < p->n; i++) {
		e = &p->v[i];
		if (!e->used && !is_binding_prop(e->key))
			warn_unknown(e);
	}
	e = props_find(p, "table");
	if (e && strcmp(v->table, "usertable") != 0)
		log_warn("%s: table: the store has no tables, ignored",
			 e->where);
	e = props_find(p, "readallfields");
	if (e && !v->read_all_fields)
		log_warn("%s: readallfields: a read always gives the whole "
			 "record", e->where);
	e = props_find(p, "writeallfields");
	if (e && !v->write_all_fields && !props_find(p, "update"))
		log_warn("%s: writeallfields: an update writes the whole "
			 "record; update=field reads it and writes it with one "
			 "new field", e->where);
	e = props_find(p, "measurement.trackjvm");
	if (e && v->track_jvm)
		log_warn("%s: measurement.trackjvm: there is no JVM here",
			 e->where);
}
