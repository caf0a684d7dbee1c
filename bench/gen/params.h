/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * params.h - every property of kvbench, checked as a whole.
 *
 * Names, defaults and meanings up to `exportfile` are those of YCSB's CoreWorkload and
 * Client; the later ones are kvbench's own.
 */
#ifndef BENCH_GEN_PARAMS_H
#define BENCH_GEN_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/base/props.h"

#include "trace.h"
#include "values.h"

enum key_dist {
	DIST_UNIFORM,
	DIST_SEQUENTIAL,
	DIST_ZIPFIAN, /* YCSB's: gen_scrambled.h */
	DIST_LATEST,
	DIST_HOTSPOT,
	DIST_EXPONENTIAL,
	DIST_ZIPFIAN_EXACT,
};

enum op_kind {
	OP_READ,
	OP_UPDATE,
	OP_INSERT,
	OP_SCAN,
	OP_RMW,
	OP_KINDS,
};

enum interval_mode {
	INTERVAL_OP,       /* from call to end */
	INTERVAL_INTENDED, /* from due time to end */
	INTERVAL_BOTH,
};

enum exporter {
	EXPORTER_TEXT,
	EXPORTER_JSON,
	EXPORTER_JSON_ARRAY,
	EXPORTER_CSV,
};

/** The form in which each series is printed; measuring is the same. */
enum measurement_type {
	TYPE_HDR,
	TYPE_HISTOGRAM,
	TYPE_BOTH,
	TYPE_HDR_RAW, /* refused */
	TYPE_TIMESERIES,
	TYPE_RAW,     /* refused */
};

enum arrivals_kind {
	ARRIVALS_CONSTANT,
	ARRIVALS_POISSON,
};

enum update_mode {
	UPDATE_REPLACE, /* an update writes the whole value */
	UPDATE_FIELD,   /* reads the value and writes it with a new field */
};

#define PERCENTILES_MAX 32

/** Longest value, in bytes; a store may allow less. */
#define VALUE_MAX (UINT64_C(64) << 20)

struct params {
	/* records */
	uint64_t record_count;
	uint64_t insert_start;
	uint64_t insert_count;
	uint64_t field_count;
	uint64_t field_len;
	uint64_t field_len_min;
	int field_len_dist; /* enum field_length_dist */
	const char *field_len_histogram;
	uint64_t value_max; /* bytes; see params_read_files() */
	const char *key_prefix;
	uint64_t zero_padding;
	int insert_order; /* 0 hashed, 1 ordered */
	bool data_integrity;
	const char *table;
	bool read_all_fields;
	bool write_all_fields;
	bool ignored_bool;

	/* operations */
	uint64_t operation_count;
	double proportion_read;
	double proportion_update;
	double proportion_insert;
	double proportion_scan;
	double proportion_rmw;
	double proportion[OP_KINDS]; /* by kind of operation */
	int dist;                    /* enum key_dist */
	double zipfian_theta;
	double hotspot_data_frac;
	double hotspot_op_frac;
	double exponential_percentile;
	double exponential_frac;
	uint64_t insert_retries;
	uint64_t insert_retry_interval; /* s */
	bool keep_going;                /* a load continues after failed records */
	int update_mode;                /* enum update_mode */

	/* the store as a cache */
	const char *trace_file; /* "": none */
	struct trace *trace;    /* what params_read_files() read; NULL: none */
	double replay_speed;    /* of the trace's own time; 0: without pauses */
	double replay_warmup;   /* part of the requests that are not counted */
	bool replay_no_ttl;     /* values never expire */
	uint64_t blocks;        /* most blocks of a request; 0: plain operations */

	/* execution */
	bool transactions; /* YCSB's name for a run, if given */
	bool track_jvm;    /* out of memory */
	uint64_t threads;
	uint64_t processes; /* with that many threads each */
	uint64_t target;   /* operations per second of all threads; 0: unlimited */
	uint64_t max_time; /* s; 0: unlimited */
	bool open_loop;    /* arrivals do not wait for completions */
	int arrivals;      /* enum arrivals_kind */
	uint64_t queue_depth; /* open loop: most in flight per session; 0: calls */
	bool spin_sleep;
	uint64_t batch;
	uint64_t rounds;
	double warmup; /* s */
	uint64_t seed;
	bool has_seed;
	int load_first; /* 0 auto, 1 true, 2 false */
	const char *db;

	/* measurement and report */
	bool status;
	uint64_t status_interval; /* s */
	const char *label;
	int measurement_type; /* enum measurement_type */
	uint64_t histogram_ms; /* number of 1 ms buckets */
	uint64_t granularity;  /* ms, of a time series */
	int interval; /* enum interval_mode */
	const char *percentiles_text;
	double percentiles[PERCENTILES_MAX];
	unsigned n_percentiles;
	bool hdr_files;
	const char *hdr_path;  /* prefix of .hdr file names */
	uint64_t timeline_ms;  /* interval of the timeline */
	const char *plot_file; /* file of the plot; "": none */
	const char *csv_file;  /* file of the timeline table; "": none */
	const char *html_file; /* file of the page; "": none */
	bool histogram_verbose;
	bool error_latencies;        /* one series per kind of failure */
	const char *tracked_errors;  /* or for those in this list only */
	const char *exporter_text;
	enum exporter exporter;
	const char *export_file;
	const char *workload_class;
};

/** True if a missing value is not a failure but is stored: a trace, or blocks. */
static inline bool params_is_cache(const struct params *p)
{
	return p->trace_file[0] || p->blocks;
}

/** True if an operation is a request for several blocks. */
static inline bool params_has_blocks(const struct params *p)
{
	return p->blocks || (p->trace && p->trace->has_blocks);
}

/** Requests of the trace; 0 without one. */
static inline uint64_t params_requests(const struct params *p)
{
	return p->trace ? p->trace->n : 0;
}

/** Number of different keys. */
static inline uint64_t params_keys(const struct params *p)
{
	return p->blocks ? p->record_count * p->blocks : p->record_count;
}

/**
 * Fill *out from the properties for a load or a run and check their combination. Strings
 * belong to `p`. Without -p seed= the seed is random. FARKV_EINVAL with a detail naming
 * property, file and line.
 */
int params_read(struct props *p, bool load, struct params *out);

/**
 * Read the files that properties name, and set value_max from them; a trace also sets the
 * numbers of records and operations. FARKV_ESYS, FARKV_EINVAL or FARKV_ENOMEM with a detail
 * naming file and line. End with params_free_files(), which allows a zeroed struct.
 */
int params_read_files(const struct props *p, struct params *v);
void params_free_files(struct params *v);

/**
 * Warn on stderr about unknown properties and those without meaning for a key-value store.
 * Once, after all were read.
 */
void params_warn(const struct props *p, const struct params *v);

/** FARKV_EINVAL with a detail if `dotransactions` contradicts the command. */
int params_check_command(const struct props *p, const struct params *v,
			 bool load);

/** Operations of a load: insertcount. */
uint64_t params_load_count(const struct params *v);

/** "zipfian (YCSB's, ...)": the request distribution in words. */
const char *params_dist_name(const struct params *v);

#endif
