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

#include "common/base/err.h"
#include "common/base/util.h"
#include "common/snapshot/outfile.h"
#include "common/snapshot/restore.h"
#include "common/snapshot/save.h"
#include "common/snapshot/snapshot.h"

#include "output.h"
#include "progress.h"

/*
 * Report an error of the snapshot module, followed by `then`; not an interrupt, which is reported
 * elsewhere. A damaged file is wrong input.
 */
static int file_error(const struct cli *cli, int err, const char *then)
{
	if (err == FARKV_EABORTED)
		return CLI_FAILED;
	return cli_error(cli, err == FARKV_EFORMAT ? CLI_USAGE : CLI_FAILED, "%s%s", err_detail(),
			 then);
}

/* ---- save ------------------------------------------------------------------------ */

struct saving {
	struct cli *cli;
	struct outfile file;
	struct progress progress;
};

static void save_progress(void *arg, double part, uint64_t bytes, uint64_t records)
{
	progress_show_part(&((struct saving *)arg)->progress, part, bytes, records);
}

static void save_store_failed(void *arg, int err, const void *key, size_t key_len,
			      const char *detail)
{
	cli_key_error(((struct saving *)arg)->cli, cli_exit_for(err), key, key_len, detail);
}

static const char *old_file_stays(const struct saving *s)
{
	return s->file.temp ? "; nothing was saved, and a file of that name is as it was" : "";
}

static int save_failed(const struct saving *s, const struct save *store, int err)
{
	if (store->of_store)
		return cli_exit_for(err);
	if (err == FARKV_EDISCONNECTED) {
		cli_signal = SIGPIPE;
		return CLI_FAILED;
	}
	return file_error(s->cli, err, old_file_stays(s));
}

static void save_summary(const struct saving *s, const struct save *w, uint64_t ns)
{
	double seconds = (double)ns / 1e9;
	char size[24], speed[24];
	json_t *o;

	if (s->cli->json) {
		o = json_object();
		output_count(o, "records", w->records);
		output_count(o, "bytes", w->bytes);
		json_object_set_new(o, "seconds", json_real(seconds));
		output_print(o);
	} else if (!s->cli->quiet) {
		fprintf(stderr, "saved %" PRIu64 " records, %s, in %.2f s (%s/s)\n",
			w->records, util_format_size(w->bytes, size, sizeof(size)), seconds,
			util_format_size((uint64_t)((double)w->bytes / seconds), speed,
					 sizeof(speed)));
	}
}

int cmd_save(struct cli *cli, int argc, char **argv)
{
	struct saving s = {.cli = cli};
	struct save store = {.progress = save_progress, .store_failed = save_store_failed,
			     .arg = &s, .stop = &cli_signal, .file = &s.file};
	uint64_t ns;
	int code, err;

	(void)argc;
	if (cli->consistent)
		return cli_error(cli, CLI_USAGE,
				 "--consistent: writers use the blocks that they replace again "
				 "without asking, so values of one moment do not stay until they "
				 "are copied; stop the writers during the save, or save without "
				 "it: each record is then exact by itself");
	if (!argv[0][0])
		return cli_error(cli, CLI_USAGE, "the file's name is empty");
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
	store.kv = cli->kv;
	err = save_store(&store);
	code = err ? save_failed(&s, &store, err) : CLI_OK;
	if (cli_interrupted())
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
		save_summary(&s, &store, ns);
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

static void verify_progress(void *arg, uint64_t bytes, uint64_t records)
{
	progress_show(arg, bytes, records);
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
	*r = (struct snapshot_reader){.fd = in.fd, .name = in.name, .stop = &cli_signal};
	err = snapshot_verify(r, verify_progress, &p);
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

struct restoring {
	struct cli *cli;
	struct input in;
	struct progress progress;
	struct restore store;
};

static void restore_progress(void *arg, uint64_t bytes, uint64_t records)
{
	progress_show(&((struct restoring *)arg)->progress, bytes, records);
}

static void restore_store_failed(void *arg, int err, const void *key, size_t key_len,
				 const char *detail)
{
	cli_key_error(((struct restoring *)arg)->cli, cli_exit_for(err), key, key_len, detail);
}

static int restore_all(struct restoring *r)
{
	struct restore *s = &r->store;
	int err;

	*s = (struct restore){.kv = r->cli->kv,
			      .fd = r->in.fd,
			      .name = r->in.name,
			      .size = r->in.size,
			      .if_absent = r->cli->if_absent,
			      .stop = &cli_signal,
			      .progress = restore_progress,
			      .store_failed = restore_store_failed,
			      .arg = r};
	err = restore_store(s);
	if (!err)
		return CLI_OK;
	if (s->of_store)
		return cli_exit_for(err);
	return file_error(r->cli, err, s->begun ? "" : "; nothing was restored");
}

static void restore_json(const struct restoring *r, double seconds, int code)
{
	json_t *o = json_object();

	output_count(o, "restored", r->store.stored);
	output_count(o, "kept", r->store.kept);
	output_count(o, "expired", r->store.expired);
	output_count(o, "bytes", r->store.bytes);
	json_object_set_new(o, "seconds", json_real(seconds));
	json_object_set_new(o, "complete", json_boolean(code == 0));
	output_print(o);
}

static void restore_summary(const struct restoring *r, uint64_t ns, int code)
{
	double seconds = (double)ns / 1e9;
	char size[24], of[40] = "";

	if (cli_interrupted() && (r->cli->json || r->cli->quiet))
		cli_error(r->cli, code, "interrupted");
	if (r->cli->json)
		restore_json(r, seconds, code);
	if (r->cli->json || r->cli->quiet)
		return;
	if (r->store.total && code)
		snprintf(of, sizeof(of), " of %" PRIu64, r->store.total);
	fprintf(stderr, "%s %" PRIu64 "%s records, %s, in %.2f s (%.0f records/s)",
		cli_interrupted() ? "interrupted; restored"
		: code	      ? "stopped by an error; restored"
			      : "restored",
		r->store.stored, of, util_format_size(r->store.bytes, size, sizeof(size)), seconds,
		(double)r->store.stored / seconds);
	if (r->cli->if_absent)
		fprintf(stderr, "; %" PRIu64 " keys had a value and kept it", r->store.kept);
	if (r->store.expired)
		fprintf(stderr, "; %" PRIu64 " had expired", r->store.expired);
	fputc('\n', stderr);
}

int cmd_restore(struct cli *cli, int argc, char **argv)
{
	struct restoring r = {.cli = cli};
	int code = open_input(cli, argv[0], &r.in);
	uint64_t ns;

	(void)argc;
	if (code)
		return code;
	code = cli_connect(cli);
	if (!code) {
		cli_catch_signals();
		progress_begin(&r.progress, cli->quiet, 2 * r.in.size);
		code = restore_all(&r);
		ns = progress_end(&r.progress);
		if (!code || r.store.begun || cli_interrupted())
			restore_summary(&r, ns, code);
	}
	close_input(&r.in);
	return code;
}
