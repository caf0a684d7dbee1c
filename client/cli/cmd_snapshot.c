/* SPDX-License-Identifier: BSD-3-Clause */
/* save, restore, info and fsck --file: snapshots. */
#include "config.h"

#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "common/snapshot/snapshot.h"

#include "outfile.h"
#include "output.h"
#include "progress.h"

#define BATCH CLI_BATCH_MAX
/* Values of one farkv_mget(), unless it is a single one. */
#define BATCH_BYTES ((uint64_t)1 << 20)

static uint64_t wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / NS_PER_MS;
}

/* By the user, not by a closed pipe, which is not reported. */
static bool interrupted(void)
{
	return cli_signal != 0 && cli_signal != SIGPIPE;
}

/*
 * Report an error of the snapshot's module, with `then` after it; what interrupted it is told by
 * others. A damaged file is wrong input.
 */
static int file_error(const struct cli *cli, int err, const char *then)
{
	if (err == FARKV_EABORTED)
		return CLI_FAILED;
	return cli_error(cli, err == FARKV_EFORMAT ? CLI_USAGE : CLI_FAILED, "%s%s", err_detail(),
			 then);
}

/* ---- save ------------------------------------------------------------------------ */

struct save {
	struct cli *cli;
	struct outfile file;
	struct snapshot_writer writer;
	struct progress progress;
	uint64_t moment_ns; /* of the snapshot */
};

static uint64_t since_moment_ms(const struct save *s)
{
	return (clock_now_ns() - s->moment_ns) / NS_PER_MS;
}

static const char *old_file_stays(const struct save *s)
{
	return s->file.temp ? "; nothing was saved, and a file of that name is as it was" : "";
}

static int save_error(const struct save *s, int err)
{
	if (err == FARKV_EDISCONNECTED) {
		cli_signal = SIGPIPE;
		return CLI_FAILED;
	}
	return file_error(s->cli, err, old_file_stays(s));
}

static int save_item(struct save *s, const struct farkv_get_item *it)
{
	struct snapshot_record rec = {
		.key = it->key,
		.key_len = it->key_len,
		.value = it->value.data,
		.value_len = it->value.len,
		.version = it->value.version,
		.user = it->value.user,
	};
	int err;

	if (it->result == FARKV_ENOTFOUND) /* deleted since it was listed */
		return CLI_OK;
	if (it->result)
		return cli_fail(s->cli, it->result, it->key, it->key_len);
	if (it->value.ttl_ms)
		rec.ttl_ms = it->value.ttl_ms + since_moment_ms(s);
	err = snapshot_write(&s->writer, &rec);
	return err ? save_error(s, err) : CLI_OK;
}

/* Save some of the keys; *n_out is how many. */
static int save_batch(struct save *s, const struct farkv_scan_item *keys, size_t n, size_t *n_out)
{
	struct farkv_get_item items[BATCH];
	uint64_t bytes = 0;
	size_t some = 0;
	int code = CLI_OK, err;

	while (some < UTIL_MIN(n, (size_t)BATCH) &&
	       (some == 0 || bytes + keys[some].value_len <= BATCH_BYTES)) {
		items[some] = (struct farkv_get_item){.key = keys[some].key,
						      .key_len = keys[some].key_len};
		bytes += keys[some++].value_len;
	}
	err = farkv_mget(s->cli->kv, items, some);
	if (err && err != FARKV_ECORRUPT) /* of a key: reported with it */
		return cli_fail(s->cli, err, NULL, 0);
	for (size_t i = 0; i < some && !code; i++)
		code = save_item(s, &items[i]);
	*n_out = some;
	return code;
}

/* A cursor is a position among the keys' hashes, which are spread evenly. */
static double part_done(uint64_t cursor)
{
	return cursor ? (double)cursor / 0x1p64 : 1.0;
}

static int save_records(struct save *s)
{
	struct cli_scan scan = {.cli = s->cli};
	int code = CLI_OK;

	while (!code && !cli_signal && cli_scan_next(&scan, &code)) {
		code = scan.code; /* a snapshot has all keys */
		for (size_t at = 0, some = 0; at < scan.n && !code && !cli_signal; at += some)
			code = save_batch(s, scan.items + at, scan.n - at, &some);
		outfile_flush(&s->file);
		progress_show_part(&s->progress, part_done(scan.cursor), s->writer.bytes,
				   s->writer.totals.records);
	}
	return cli_signal ? CLI_FAILED : code;
}

static int save_all(struct save *s)
{
	int err, code;

	s->writer.fd = s->file.fd;
	s->writer.name = s->file.name;
	s->writer.stop = &cli_signal;
	err = snapshot_write_begin(&s->writer, wall_ms());
	s->moment_ns = clock_now_ns();
	code = err ? save_error(s, err) : save_records(s);
	if (!code) {
		s->writer.totals.took_ms = since_moment_ms(s);
		err = snapshot_write_end(&s->writer);
		code = err ? save_error(s, err) : CLI_OK;
	}
	snapshot_write_free(&s->writer);
	return code;
}

static void save_summary(const struct save *s, uint64_t ns)
{
	const struct snapshot_writer *w = &s->writer;
	double seconds = (double)ns / 1e9;
	char size[24], speed[24];
	json_t *o;

	if (s->cli->json) {
		o = json_object();
		output_count(o, "records", w->totals.records);
		output_count(o, "bytes", w->bytes);
		json_object_set_new(o, "seconds", json_real(seconds));
		output_print(o);
	} else if (!s->cli->quiet) {
		fprintf(stderr, "saved %" PRIu64 " records, %s, in %.2f s (%s/s)\n",
			w->totals.records, util_format_size(w->bytes, size, sizeof(size)), seconds,
			util_format_size((uint64_t)((double)w->bytes / seconds), speed,
					 sizeof(speed)));
	}
}

int cmd_save(struct cli *cli, int argc, char **argv)
{
	struct save s = {.cli = cli};
	uint64_t ns;
	int code, err;

	(void)argc;
	if (strcmp(argv[0], "-") == 0 && cli->json)
		return cli_error(cli, CLI_USAGE, "--json prints to stdout, where the snapshot goes");
	if (strcmp(argv[0], "-") == 0 && isatty(STDOUT_FILENO))
		return cli_error(cli, CLI_USAGE,
				 "a snapshot is no text for a terminal; give a file's name, or a "
				 "pipe");
	code = cli_connect(cli);
	if (code)
		return code;
	cli_catch_signals();
	err = outfile_open(&s.file, argv[0]);
	if (err)
		return file_error(cli, err, "");
	progress_begin(&s.progress, cli->quiet, 0);
	code = save_all(&s);
	if (interrupted())
		cli_error(cli, CLI_FAILED, "interrupted%s", old_file_stays(&s));
	err = 0;
	if (code)
		outfile_abort(&s.file);
	else
		err = outfile_commit(&s.file);
	ns = progress_end(&s.progress);
	if (err)
		code = file_error(cli, err, "");
	if (!code)
		save_summary(&s, ns);
	return code;
}

/* ---- reading a snapshot ---------------------------------------------------------------- */

struct input {
	int fd;
	const char *name; /* for messages */
	uint64_t size;    /* of a regular file; otherwise 0 */
};

/* Open `path`; "-" is stdin. */
static int open_input(struct cli *cli, const char *path, struct input *in)
{
	bool is_stdin = strcmp(path, "-") == 0;
	struct stat st;

	if (is_stdin && cli_stdin(cli))
		return CLI_USAGE;
	*in = (struct input){.name = is_stdin ? "stdin" : path};
	in->fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	if (in->fd < 0)
		return cli_error(cli, CLI_USAGE, "cannot open %s: %s", path, strerror(errno));
	if (fstat(in->fd, &st) == 0 && S_ISREG(st.st_mode))
		in->size = (uint64_t)st.st_size;
	return CLI_OK;
}

static void close_input(const struct input *in)
{
	if (in->fd != STDIN_FILENO)
		close(in->fd);
}

/* Read and verify a whole snapshot; returns the error of snapshot.h. */
static int verify(struct progress *p, struct snapshot_reader *r, const struct input *in)
{
	bool got = true;
	int err;

	*r = (struct snapshot_reader){.fd = in->fd, .name = in->name, .stop = &cli_signal};
	err = snapshot_read_begin(r);
	while (!err && got) {
		err = snapshot_read_chunk(r, &got);
		progress_show(p, r->bytes, 0);
	}
	snapshot_read_free(r);
	return err;
}

/* Verify a file by its name. Returns `damaged` for one that is. */
static int verify_file(struct cli *cli, const char *path, int damaged, struct snapshot_reader *r)
{
	struct progress p;
	struct input in;
	int code = open_input(cli, path, &in), err;

	if (code)
		return code;
	progress_begin(&p, cli->quiet, in.size);
	err = verify(&p, r, &in);
	progress_end(&p);
	if (err)
		code = file_error(cli, err, "");
	close_input(&in);
	return err == FARKV_EFORMAT ? damaged : code;
}

static const struct {
	const char *name, *text;
	size_t offset; /* in struct snapshot_totals */
	bool bytes;
} rows[] = {
#define ROW(f, text, bytes) {#f, text, offsetof(struct snapshot_totals, f), bytes}
	ROW(records, "records", false),
	ROW(expiring, "  of which expire", false),
	ROW(key_bytes, "bytes of keys", true),
	ROW(value_bytes, "bytes of values", true),
	ROW(chunks, "chunks", false),
#undef ROW
};

static uint64_t total_of(const struct snapshot_reader *r, size_t row)
{
	return output_field(&r->totals, rows[row].offset);
}

static void info_json(const struct snapshot_reader *r)
{
	json_t *o = json_object();

	output_count(o, "moment_ms", r->moment_ms);
	output_count(o, "took_ms", r->totals.took_ms);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		output_count(o, rows[i].name, total_of(r, i));
	output_count(o, "file_bytes", r->bytes);
	output_print(o);
}

static void info_table(const struct snapshot_reader *r)
{
	time_t t = (time_t)(r->moment_ms / 1000);
	char text[40], size[24];
	struct tm tm;

	if (!gmtime_r(&t, &tm) || !strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm))
		snprintf(text, sizeof(text), "%" PRIu64 " ms since 1970", r->moment_ms);
	printf("%-20s%s\n", "saved", text);
	printf("%-20s%.3f s\n", "that took", (double)r->totals.took_ms / 1000);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		printf("%-20s%" PRIu64, rows[i].text, total_of(r, i));
		if (rows[i].bytes)
			printf(" (%s)", util_format_size(total_of(r, i), size, sizeof(size)));
		putchar('\n');
	}
	printf("%-20s%" PRIu64 " (%s)\n", "bytes of the file", r->bytes,
	       util_format_size(r->bytes, size, sizeof(size)));
}

int cmd_info(struct cli *cli, int argc, char **argv)
{
	struct snapshot_reader r;
	int code = verify_file(cli, argv[0], CLI_USAGE, &r);

	(void)argc;
	if (code)
		return code;
	if (cli->json)
		info_json(&r);
	else
		info_table(&r);
	return CLI_OK;
}

int snapshot_fsck(struct cli *cli)
{
	struct snapshot_reader r;
	int code;

	if (cli->socket || cli->uri || cli->keys || cli->key)
		return cli_error(cli, CLI_USAGE, "--file needs no server: leave out --%s",
				 cli->socket ? "socket" :
				 cli->uri    ? "uri" :
				 cli->keys   ? "keys" :
					       "key");
	code = verify_file(cli, cli->file, CLI_NO, &r);
	if (code)
		return code;
	if (cli->json)
		info_json(&r);
	else if (!cli->quiet)
		printf("%" PRIu64 " records, nothing is wrong\n", r.totals.records);
	return CLI_OK;
}

/* ---- restore --------------------------------------------------------------------- */

struct restore {
	struct cli *cli;
	struct input in;
	struct snapshot_reader reader;
	struct progress progress;
	bool begun;     /* a chunk was verified; of a regular file all of it */
	uint64_t total; /* records of the file; 0: not known */
	uint64_t stored, kept, bytes; /* kept: --if-absent found a value */
	uint64_t expired;
	struct farkv_request reqs[BATCH];
	struct farkv_write_options options[BATCH];
	size_t n;
};

static int restore_failed(const struct restore *r, const struct farkv_completion *c)
{
	const struct farkv_request *req = &r->reqs[c->tag];

	return cli_key_error(r->cli, cli_exit_for(c->result), req->key, req->key_len, c->detail);
}

static int restore_done(struct restore *r, const struct farkv_completion *c)
{
	const struct farkv_request *req = &r->reqs[c->tag];

	if (c->result == FARKV_EEXISTS) {
		r->kept++;
		return CLI_OK;
	}
	if (c->result)
		return restore_failed(r, c);
	r->stored++;
	r->bytes += req->key_len + req->value_len;
	return CLI_OK;
}

/* Write the batch. After an error the requests in flight end, and no more are submitted. */
static int restore_batch(struct restore *r)
{
	struct farkv_completion done[BATCH];
	struct farkv *kv = r->cli->kv;
	size_t sent = 0;
	int code = CLI_OK;

	while ((!code && sent < r->n) || farkv_in_flight(kv)) {
		int n = !code && sent < r->n ? farkv_submit(kv, r->reqs + sent, r->n - sent) : 0;

		if (n >= 0)
			sent += (size_t)n;
		else if (n != FARKV_EAGAIN)
			code = cli_fail(r->cli, n, r->reqs[sent].key, r->reqs[sent].key_len);
		n = farkv_wait(kv, done, BATCH, UINT32_MAX);
		if (n < 0)
			return code ? code : cli_fail(r->cli, n, NULL, 0);
		for (int i = 0; i < n; i++) {
			int c = code ? CLI_OK : restore_done(r, &done[i]);

			code = code ? code : c;
		}
	}
	r->n = 0;
	return code;
}

/* Time to live that is left of `ttl_ms`: time in a file counts. */
static uint64_t ttl_left(const struct restore *r, uint64_t ttl_ms)
{
	uint64_t now = wall_ms(), moment = r->reader.moment_ms;
	uint64_t gone = now > moment ? now - moment : 0;

	return ttl_ms > gone ? UTIL_MIN(ttl_ms - gone, FARKV_TTL_MAX_MS) : 0;
}

static void restore_add(struct restore *r, const struct snapshot_record *rec)
{
	struct farkv_write_options *o = &r->options[r->n];

	*o = (struct farkv_write_options){.size = sizeof(*o), .user = rec->user};
	if (rec->ttl_ms) {
		o->ttl_ms = ttl_left(r, rec->ttl_ms);
		if (!o->ttl_ms) {
			r->expired++;
			return;
		}
	}
	r->reqs[r->n] = (struct farkv_request){
		.tag = r->n,
		.kind = r->cli->if_absent ? FARKV_REQUEST_ADD : FARKV_REQUEST_PUT,
		.key = rec->key,
		.key_len = rec->key_len,
		.value = rec->value,
		.value_len = rec->value_len,
		.options = o,
	};
	r->n++;
}

static int restore_chunk(struct restore *r)
{
	struct snapshot_record rec;
	int code = CLI_OK;

	while (!code && snapshot_next(&r->reader, &rec)) {
		restore_add(r, &rec);
		if (r->n == BATCH)
			code = restore_batch(r);
	}
	if (!code)
		code = restore_batch(r);
	return code;
}

static int restore_records(struct restore *r)
{
	int err, code = CLI_OK;
	bool got = true;

	r->reader = (struct snapshot_reader){.fd = r->in.fd, .name = r->in.name,
					     .stop = &cli_signal};
	err = snapshot_read_begin(&r->reader);
	while (!err && !code && got && !cli_signal) {
		err = snapshot_read_chunk(&r->reader, &got);
		if (!err && got) {
			r->begun = true;
			code = restore_chunk(r);
		}
		progress_show(&r->progress, r->in.size + r->reader.bytes, r->stored);
	}
	snapshot_read_free(&r->reader);
	if (err)
		code = file_error(r->cli, err, r->begun ? "" : "; nothing was restored");
	return cli_signal ? CLI_FAILED : code;
}

/* A regular file is read twice: nothing is written before all of it is verified. */
static int restore_verified(struct restore *r)
{
	off_t begin = lseek(r->in.fd, 0, SEEK_CUR);
	int err = verify(&r->progress, &r->reader, &r->in);

	if (err)
		return file_error(r->cli, err, "; nothing was restored");
	r->total = r->reader.totals.records;
	if (lseek(r->in.fd, begin, SEEK_SET) < 0)
		return cli_error(r->cli, CLI_FAILED, "cannot read %s: %s", r->in.name,
				 strerror(errno));
	return restore_records(r);
}

static void restore_json(const struct restore *r, double seconds, int code)
{
	json_t *o = json_object();

	output_count(o, "restored", r->stored);
	output_count(o, "kept", r->kept);
	output_count(o, "expired", r->expired);
	output_count(o, "bytes", r->bytes);
	json_object_set_new(o, "seconds", json_real(seconds));
	json_object_set_new(o, "complete", json_boolean(code == 0));
	output_print(o);
}

static void restore_summary(const struct restore *r, uint64_t ns, int code)
{
	double seconds = (double)ns / 1e9;
	char size[24], of[40] = "";

	if (interrupted() && (r->cli->json || r->cli->quiet))
		cli_error(r->cli, code, "interrupted");
	if (r->cli->json)
		restore_json(r, seconds, code);
	if (r->cli->json || r->cli->quiet)
		return;
	if (r->total && code)
		snprintf(of, sizeof(of), " of %" PRIu64, r->total);
	fprintf(stderr, "%s %" PRIu64 "%s records, %s, in %.2f s (%.0f records/s)",
		interrupted() ? "interrupted; restored"
		: code	      ? "stopped by an error; restored"
			      : "restored",
		r->stored, of, util_format_size(r->bytes, size, sizeof(size)), seconds,
		(double)r->stored / seconds);
	if (r->cli->if_absent)
		fprintf(stderr, "; %" PRIu64 " keys had a value and kept it", r->kept);
	if (r->expired)
		fprintf(stderr, "; %" PRIu64 " had expired", r->expired);
	fputc('\n', stderr);
}

int cmd_restore(struct cli *cli, int argc, char **argv)
{
	struct restore r = {.cli = cli};
	int code = open_input(cli, argv[0], &r.in);
	uint64_t ns;

	(void)argc;
	if (code)
		return code;
	code = cli_connect(cli);
	if (!code) {
		cli_catch_signals();
		progress_begin(&r.progress, cli->quiet, 2 * r.in.size);
		code = r.in.size ? restore_verified(&r) : restore_records(&r);
		ns = progress_end(&r.progress);
		if (!code || r.begun || interrupted())
			restore_summary(&r, ns, code);
	}
	close_input(&r.in);
	return code;
}
