/* SPDX-License-Identifier: BSD-3-Clause */
/* load and dump: many records between a file and the store. */
#include "config.h"

#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "common/base/err.h"
#include "common/base/util.h"

#include "output.h"
#include "progress.h"
#include "records.h"

/* Most records and bytes of one call. */
#define BATCH_RECORDS CLI_BATCH_MAX
#define BATCH_BYTES ((size_t)4 << 20)
/* Larger records free their memory after the call. */
#define RECORD_KEEP ((size_t)256 << 10)

struct batch {
	struct record rec[BATCH_RECORDS];
	size_t n;
	size_t bytes;
};

static void batch_free(struct batch *b)
{
	for (size_t i = 0; i < BATCH_RECORDS; i++)
		record_trim(&b->rec[i], 0);
	free(b);
}

/* Fill up to `most` records; stops at an error without counting that record. */
static int batch_fill(struct batch *b, struct reader *r, size_t most,
		      bool *end_out)
{
	b->n = b->bytes = 0;
	*end_out = false;
	while (b->n < most && b->bytes < BATCH_BYTES && !cli_signal) {
		struct record *rec = &b->rec[b->n];
		bool got = false;
		int err;

		record_trim(rec, RECORD_KEEP);
		err = reader_next(r, rec, &got);
		if (err)
			return err;
		if (!got) {
			*end_out = true;
			return 0;
		}
		b->bytes += rec->key_len + rec->value_len;
		b->n++;
	}
	return 0;
}

size_t cli_batch_next(size_t n, uint64_t bytes)
{
	size_t mean = (size_t)(bytes / UTIL_MAX(n, (size_t)1)) + 1;
	size_t fit = UTIL_MAX(BATCH_BYTES / mean, (size_t)1);

	return UTIL_MIN(UTIL_MIN((size_t)BATCH_RECORDS, n * 2), fit);
}

static enum record_format format_for(const struct cli *cli, const char *path)
{
	return cli->format ? (enum record_format)(cli->format - 1)
			   : record_format_of(path);
}

/* Size of a regular file; otherwise 0. */
static uint64_t size_of(FILE *f)
{
	struct stat st;

	return fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode)
		       ? (uint64_t)st.st_size
		       : 0;
}

/* Wrong input is a usage error; unreadable input is a failure. */
static int input_error(const struct cli *cli, int err)
{
	return cli_error(cli, err == FARKV_EINVAL ? CLI_USAGE : CLI_FAILED, "%s",
			 err_detail());
}

/* Open the file, then the store. */
static int bulk_open(struct cli *cli, const char *path, bool keys_only,
		     struct reader *r)
{
	int code;

	if (strcmp(path, "-") == 0 && cli_stdin(cli))
		return CLI_USAGE;
	if (reader_open(r, path, format_for(cli, path), keys_only))
		return cli_error(cli, CLI_USAGE, "%s", err_detail());
	code = cli_connect(cli);
	if (code)
		reader_close(r);
	return code;
}

/* ---- load ------------------------------------------------------------------------ */

struct load {
	struct cli *cli;
	struct reader reader;
	struct progress progress;
	uint64_t stored, kept, bytes; /* kept: --if-absent found a value */
};

static void count_stored(struct load *l, const struct record *rec)
{
	l->stored++;
	l->bytes += rec->key_len + rec->value_len;
}

/* Report the failed record by its position in the file. */
static int store_error(struct load *l, const struct batch *b, size_t i, int err)
{
	const char *detail = farkv_errdetail();
	int batch = 0;

	/* Drop the item's position in the call, which has no meaning for a file. */
	(void)sscanf(detail, "item %*u of %*u: %n", &batch);
	detail += batch;
	return cli_error(l->cli, cli_exit_for(err), "%s: %s %" PRIu64 ": %s",
			 l->reader.name, reader_unit(&l->reader),
			 b->rec[i].number,
			 detail[0] ? detail : farkv_strerror(err));
}

static int store_absent(struct load *l, const struct batch *b)
{
	for (size_t i = 0; i < b->n; i++) {
		const struct record *rec = &b->rec[i];
		int err = farkv_add(l->cli->kv, rec->buf, rec->key_len,
				    rec->buf + rec->key_len, rec->value_len);

		if (err == FARKV_EEXISTS)
			l->kept++;
		else if (err)
			return store_error(l, b, i, err);
		else
			count_stored(l, rec);
	}
	return CLI_OK;
}

static int store_batch(struct load *l, const struct batch *b)
{
	struct farkv_put_item items[BATCH_RECORDS];
	size_t bad = b->n;
	int err;

	for (size_t i = 0; i < b->n; i++) {
		const struct record *rec = &b->rec[i];

		items[i] = (struct farkv_put_item){
			.key = rec->buf,
			.key_len = rec->key_len,
			.value = rec->buf + rec->key_len,
			.value_len = rec->value_len,
		};
	}
	err = farkv_mput(l->cli->kv, items, b->n);
	for (size_t i = 0; i < b->n; i++) {
		if (items[i].result == 0)
			count_stored(l, &b->rec[i]);
		else if (bad == b->n)
			bad = i;
	}
	return err ? store_error(l, b, bad, err) : CLI_OK;
}

static int load_batches(struct load *l, struct batch *b)
{
	bool end = false;
	int code = CLI_OK;

	while (!end && !code) {
		int err = batch_fill(b, &l->reader, BATCH_RECORDS, &end);

		/* Store what was read before an error. */
		if (b->n)
			code = l->cli->if_absent ? store_absent(l, b)
						 : store_batch(l, b);
		if (err && !code && !cli_signal)
			code = input_error(l->cli, err);
		if (cli_signal && !code)
			code = CLI_FAILED;
		end = end || err;
		progress_show(&l->progress, l->reader.offset, l->stored);
	}
	return code;
}

static void load_summary(const struct load *l, uint64_t ns, int code)
{
	double s = (double)ns / 1e9;
	char size[24];
	json_t *o;

	if (cli_interrupted() && (l->cli->json || l->cli->quiet))
		cli_error(l->cli, code, "interrupted");
	if (l->cli->json) {
		o = json_object();
		output_count(o, "stored", l->stored);
		output_count(o, "kept", l->kept);
		output_count(o, "bytes", l->bytes);
		json_object_set_new(o, "seconds", json_real(s));
		json_object_set_new(o, "complete", json_boolean(code == 0));
		output_print(o);
		return;
	}
	if (l->cli->quiet)
		return;
	fprintf(stderr, "%s %" PRIu64 " records, %s, in %.2f s (%.0f records/s)",
		cli_interrupted() ? "interrupted; stored"
		: code	      ? "stopped by an error; stored"
			      : "loaded",
		l->stored,
		util_format_size(l->bytes, size, sizeof(size)), s,
		(double)l->stored / s);
	if (l->cli->if_absent)
		fprintf(stderr, "; %" PRIu64 " keys had a value and kept it",
			l->kept);
	if (l->reader.unended)
		fputs("; the last line has no newline: is the file whole?",
		      stderr);
	fputc('\n', stderr);
}

/*
 * Check the length of a large value. If the server does not answer, the store refuses the value
 * later.
 */
static void ask_max_value(struct reader *r, void *arg)
{
	struct farkv_stats s = {.size = sizeof(s)};
	const struct cli *cli = arg;

	if (farkv_stats(cli->kv, &s) == 0)
		r->max_value = s.max_value;
}

int cmd_load(struct cli *cli, int argc, char **argv)
{
	struct batch *b = calloc(1, sizeof(*b));
	struct load l = {.cli = cli};
	int code;

	(void)argc;
	if (!b)
		return cli_fail(cli, FARKV_ENOMEM, NULL, 0);
	code = bulk_open(cli, argv[0], false, &l.reader);
	if (code)
		goto err_batch;
	l.reader.ask = ask_max_value;
	l.reader.ask_arg = cli;
	progress_begin(&l.progress, cli->quiet, size_of(l.reader.in));
	cli_catch_signals();
	code = load_batches(&l, b);
	load_summary(&l, progress_end(&l.progress), code);
	reader_close(&l.reader);
err_batch:
	batch_free(b);
	return code;
}

/* ---- dump ------------------------------------------------------------------------ */

struct dump {
	struct cli *cli;
	struct reader reader;
	struct progress progress;
	uint64_t found, missing, bytes;
	size_t at_once; /* keys of the next call: fewer for large values */
	int code; /* the exit status at the end: CLI_FAILED if values are damaged */
};

static void dump_json(const struct farkv_get_item *it)
{
	json_t *o = output_object(it->key, it->key_len, "ok");

	output_bytes(o, "value", it->value.data, it->value.len);
	output_ttl(o, it->value.ttl_ms, it->value.user);
	output_print(o);
}

static void dump_csv(const struct farkv_get_item *it)
{
	output_csv(it->key, it->key_len);
	putchar(',');
	output_csv(it->value.data, it->value.len);
	putchar('\n');
}

/* `record`: the key's place in the file that names it, or NULL. */
static int dump_refuse(struct dump *d, const struct farkv_get_item *it,
		       const struct record *record)
{
	if (record)
		return cli_error(d->cli, CLI_USAGE, "%s: %s %" PRIu64 ": " RECORD_NOT_NUL,
				 d->reader.name, reader_unit(&d->reader), record->number);
	return cli_key_error(d->cli, CLI_USAGE, it->key, it->key_len, RECORD_NOT_NUL);
}

static int dump_item(struct dump *d, const struct farkv_get_item *it,
		     const struct record *record)
{
	if (it->result == FARKV_ENOTFOUND) {
		d->missing++;
		return CLI_OK;
	}
	if (it->result == FARKV_ECORRUPT) { /* continue with the others */
		d->code = cli_fail(d->cli, it->result, it->key, it->key_len);
		return CLI_OK;
	}
	if (it->result)
		return cli_fail(d->cli, it->result, it->key, it->key_len);
	d->found++;
	d->bytes += it->key_len + it->value.len;
	if (d->cli->json)
		dump_json(it);
	else if (d->cli->csv)
		dump_csv(it);
	else if (!writer_put(&d->cli->records,
			     &(struct farkv_put_item){.key = it->key,
						      .key_len = it->key_len,
						      .value = it->value.data,
						      .value_len = it->value.len}))
		return dump_refuse(d, it, record);
	return cli_output_check(d->cli, CLI_OK);
}

/* `records`: the keys' places, or NULL. */
static int dump_items(struct dump *d, struct farkv_get_item *items, size_t n,
		      const struct record *records)
{
	uint64_t before = d->bytes;
	int code = CLI_OK, err = farkv_mget(d->cli->kv, items, n);

	if (err && err != FARKV_ECORRUPT)
		return cli_fail(d->cli, err, NULL, 0);
	for (size_t i = 0; i < n && !code; i++)
		code = dump_item(d, &items[i], records ? &records[i] : NULL);
	d->at_once = cli_batch_next(n, d->bytes - before);
	return code;
}

static int dump_batch(struct dump *d, const struct batch *b)
{
	struct farkv_get_item items[BATCH_RECORDS];

	for (size_t i = 0; i < b->n; i++)
		items[i] = (struct farkv_get_item){.key = b->rec[i].buf,
						   .key_len = b->rec[i].key_len};
	return dump_items(d, items, b->n, b->rec);
}

/* Dump some keys of a scan. */
static int dump_scanned(struct dump *d, const struct farkv_scan_item *keys, size_t n)
{
	struct farkv_get_item items[BATCH_RECORDS];
	int code = CLI_OK;

	for (size_t at = 0; at < n && !code && !cli_signal;) {
		size_t some = UTIL_MIN(d->at_once, n - at);

		for (size_t i = 0; i < some; i++, at++)
			items[i] = (struct farkv_get_item){.key = keys[at].key,
							   .key_len = keys[at].key_len};
		code = dump_items(d, items, some, NULL);
		progress_show(&d->progress, d->bytes, d->found);
	}
	return code;
}

static int dump_all(struct dump *d)
{
	struct cli_scan scan = {.cli = d->cli};
	int code = CLI_OK;

	while (!code && !cli_signal && cli_scan_next(&scan, &code))
		code = dump_scanned(d, scan.items, scan.n);
	if (cli_signal && !code)
		code = CLI_FAILED;
	if (!code && !d->cli->json && !d->cli->csv)
		writer_end(&d->cli->records);
	d->missing = 0; /* deleted after they were listed */
	if (scan.code)
		d->code = scan.code;
	return code;
}

static int dump_batches(struct dump *d, struct batch *b)
{
	bool end = false;
	int code = CLI_OK;

	while (!end && !code) {
		int err = batch_fill(b, &d->reader, d->at_once, &end);

		if (b->n)
			code = dump_batch(d, b);
		if (err && !code && !cli_signal)
			code = input_error(d->cli, err);
		if (cli_signal && !code)
			code = CLI_FAILED;
		end = end || err;
		progress_show(&d->progress, d->reader.offset, d->found);
	}
	if (!code && !d->cli->json && !d->cli->csv)
		writer_end(&d->cli->records);
	return code;
}

static int dump_missing(const struct dump *d)
{
	if (d->cli->quiet)
		return CLI_NO;
	return cli_error(d->cli, CLI_NO,
			 "%" PRIu64 " of %" PRIu64 " keys have no value",
			 d->missing, d->missing + d->found);
}

/* Dump the keys that a file names. */
static int dump_named(struct dump *d, const char *path)
{
	struct batch *b = calloc(1, sizeof(*b));
	int code;

	if (!b)
		return cli_fail(d->cli, FARKV_ENOMEM, NULL, 0);
	code = bulk_open(d->cli, path, true, &d->reader);
	if (code)
		goto err_batch;
	progress_begin(&d->progress, d->cli->quiet, size_of(d->reader.in));
	cli_catch_signals();
	code = dump_batches(d, b);
	reader_close(&d->reader);
err_batch:
	batch_free(b);
	return code;
}

int cmd_dump(struct cli *cli, int argc, char **argv)
{
	struct dump d = {.cli = cli, .at_once = 1};
	int code;

	cli->records.format = format_for(cli, argc ? argv[0] : "-");
	if (argc) {
		code = dump_named(&d, argv[0]);
	} else {
		code = cli_connect(cli);
		if (code)
			return code;
		progress_begin(&d.progress, cli->quiet, 0);
		cli_catch_signals();
		code = dump_all(&d);
	}
	progress_end(&d.progress);
	if (cli_interrupted())
		cli_error(cli, code, "interrupted");
	if (!code && d.missing)
		code = dump_missing(&d);
	return d.code ? d.code : code;
}
