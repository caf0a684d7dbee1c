/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands for keys given on the command line. */
#include "config.h"

#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/util.h"

#include "input.h"
#include "output.h"
#include "records.h"

/* "not_found", ...: result names in JSON. */
static const char *result_name(int err)
{
	switch (err) {
	case FARKV_OK:
		return "ok";
	case FARKV_ENOTFOUND:
		return "not_found";
	case FARKV_EEXISTS:
		return "exists";
	default:
		return "version_differs";
	}
}

/*
 * End a command for one key. With --json a negative result goes to stdout, otherwise to
 * stderr.
 */
static int conclude(struct cli *cli, int err, const struct input_key *key)
{
	if (cli->json && (err == 0 || cli_exit_for(err) == CLI_NO)) {
		output_print(output_object(key->data, key->len,
					   result_name(err)));
		return err ? CLI_NO : CLI_OK;
	}
	return err ? cli_fail(cli, err, key->data, key->len) : CLI_OK;
}

/* Parse an argument as key, and connect. */
static int key_of(struct cli *cli, char *arg, struct input_key *key)
{
	int code = input_key(cli, arg, key);

	return code ? code : cli_connect(cli);
}

/* Parse all arguments as keys; the caller frees *keys_out. */
static int keys_of(struct cli *cli, int argc, char **argv,
		   struct input_key **keys_out)
{
	struct input_key *keys = calloc((size_t)argc, sizeof(*keys));
	int code = CLI_OK;

	if (!keys) {
		(void)cli_fail(cli, FARKV_ENOMEM, NULL, 0);
		return CLI_FAILED;
	}
	for (int i = 0; i < argc && !code; i++)
		code = input_key(cli, argv[i], &keys[i]);
	if (!code)
		code = cli_connect(cli);
	if (code)
		free(keys);
	else
		*keys_out = keys;
	return code;
}

/* True if a command for several keys continues with the next key after this exit status. */
static bool goes_on(int code)
{
	return code <= CLI_NO || code == CLI_USAGE;
}

/* ---- reading ------------------------------------------------------------------- */

static void print_json_value(const void *key, size_t key_len,
			     const struct farkv_value *v)
{
	json_t *o = output_object(key, key_len, "ok");

	output_bytes(o, "value", v->data, v->len);
	output_count(o, "version", v->version);
	output_ttl(o, v->ttl_ms, v->user);
	output_print(o);
}

static void print_value(struct cli *cli, const struct input_key *key, const struct farkv_value *v,
			bool with_version)
{
	if (cli->json) {
		print_json_value(key->data, key->len, v);
		return;
	}
	if (with_version)
		printf("%" PRIu64 "%c", v->version, cli->raw ? '\n' : cli->csv ? ',' : '\t');
	output_text(cli, v->data, v->len);
	if (!cli->raw)
		putchar('\n');
}

static int get(struct cli *cli, char *arg, bool with_version)
{
	struct input_key key;
	struct farkv_value v;
	int code = key_of(cli, arg, &key), err;

	if (code)
		return code;
	err = farkv_get(cli->kv, key.data, key.len, &v);
	if (err)
		return conclude(cli, err, &key);
	print_value(cli, &key, &v, with_version);
	return CLI_OK;
}

int cmd_get(struct cli *cli, int argc, char **argv)
{
	(void)argc;
	return get(cli, argv[0], false);
}

/* ---- watch ----------------------------------------------------------------------- */

#define WATCH_FIRST_NS NS_PER_MS
#define WATCH_LAST_NS (100 * NS_PER_MS)

/* Wait until the version is another one than *version, 0 for no value. */
static int watch_change(struct cli *cli, const struct input_key *key, uint64_t *version,
			struct farkv_value *v)
{
	uint64_t pause_ns = WATCH_FIRST_NS, now;

	for (;;) {
		int err = farkv_get(cli->kv, key->data, key->len, v);

		now = err ? 0 : v->version;
		if ((err && err != FARKV_ENOTFOUND) || now != *version || cli_signal) {
			*version = now;
			return err;
		}
		clock_sleep_ns(pause_ns);
		pause_ns = UTIL_MIN(pause_ns * 2, WATCH_LAST_NS);
	}
}

int cmd_watch(struct cli *cli, int argc, char **argv)
{
	uint64_t times = UTIL_MAX(cli->repeat, UINT64_C(1)), version = UINT64_MAX;
	struct input_key key;
	struct farkv_value v;
	int code = input_key(cli, argv[0], &key), err;

	(void)argc;
	if (!code)
		code = cli_connect(cli);
	if (code)
		return code;
	cli_catch_signals();
	err = watch_change(cli, &key, &version, &v); /* the current value */
	for (uint64_t i = 0; (!err || err == FARKV_ENOTFOUND) && i < times; i++) {
		err = watch_change(cli, &key, &version, &v);
		if (cli_signal)
			return CLI_FAILED;
		code = err ? conclude(cli, err, &key) : (print_value(cli, &key, &v, false), CLI_OK);
		if (cli_finish(cli, CLI_OK))
			return CLI_FAILED;
	}
	return err && err != FARKV_ENOTFOUND && !code ? cli_fail(cli, err, NULL, 0) : code;
}

int cmd_gets(struct cli *cli, int argc, char **argv)
{
	(void)argc;
	return get(cli, argv[0], true);
}

/* A line of key and text: as CSV, for a person, or as a record. */
static void print_pair(struct cli *cli, const struct farkv_put_item *pair)
{
	if (!cli->csv && !cli->pretty) {
		writer_put(&cli->records, pair);
		return;
	}
	output_text(cli, pair->key, pair->key_len);
	putchar(cli->csv ? ',' : '\t');
	output_text(cli, pair->value, pair->value_len);
	putchar('\n');
}

static int mget_print(struct cli *cli, const struct farkv_get_item *it)
{
	if (it->result && cli_exit_for(it->result) != CLI_NO)
		return cli_exit_for(it->result);
	if (cli->json && it->result == 0)
		print_json_value(it->key, it->key_len, &it->value);
	else if (cli->json)
		output_print(output_object(it->key, it->key_len, "not_found"));
	else if (it->result)
		return cli_fail(cli, it->result, it->key, it->key_len);
	else if (cli->raw)
		fwrite(it->value.data, 1, it->value.len, stdout);
	else
		print_pair(cli, &(struct farkv_put_item){.key = it->key,
							 .key_len = it->key_len,
							 .value = it->value.data,
							 .value_len = it->value.len});
	return it->result ? CLI_NO : CLI_OK;
}

/* Up to CLI_BATCH_MAX keys. Returns the worst exit status; *bytes_out: bytes found. */
static int mget_some(struct cli *cli, const struct input_key *keys, size_t n,
		     uint64_t *bytes_out)
{
	struct farkv_get_item items[CLI_BATCH_MAX];
	uint64_t bytes = 0;
	int code = CLI_OK, err;

	for (size_t i = 0; i < n; i++)
		items[i] = (struct farkv_get_item){.key = keys[i].data,
						   .key_len = keys[i].len};
	err = farkv_mget(cli->kv, items, n);
	if (err)
		code = cli_fail(cli, err, NULL, 0);
	for (size_t i = 0; i < n; i++) {
		int one = mget_print(cli, &items[i]);

		code = cli_output_check(cli, UTIL_MAX(code, one));
		if (items[i].result == 0)
			bytes += items[i].value.len;
	}
	*bytes_out = bytes;
	return code;
}

int cmd_mget(struct cli *cli, int argc, char **argv)
{
	size_t n = (size_t)argc, at = 0, some = 1;
	struct input_key *keys;
	int worst = CLI_OK, code = keys_of(cli, argc, argv, &keys);

	if (code)
		return code;
	while (at < n && goes_on(code)) {
		uint64_t bytes;

		some = UTIL_MIN(some, n - at);
		code = mget_some(cli, keys + at, some, &bytes);
		worst = UTIL_MAX(worst, code);
		at += some;
		some = cli_batch_next(some, bytes);
	}
	free(keys);
	return worst;
}

/* Print whether a key has a value, or why that is not known; `alone`: it is the only one. */
static int exists_print(struct cli *cli, const struct input_key *key, int err, bool alone)
{
	bool there = err == 0;

	if (cli->json || (err && err != FARKV_ENOTFOUND))
		return conclude(cli, err, key);
	if (cli->quiet)
		return there ? CLI_OK : CLI_NO;
	if (alone) {
		puts(there ? "yes" : "no");
	} else if (cli->pretty) {
		output_quoted(key->data, key->len);
		puts(there ? "\tyes" : "\tno");
	} else {
		print_pair(cli, &(struct farkv_put_item){.key = key->data,
							 .key_len = key->len,
							 .value = there ? "yes" : "no",
							 .value_len = there ? 3 : 2});
	}
	return there ? CLI_OK : CLI_NO;
}

/* Up to CLI_BATCH_MAX keys of `all`. Returns the worst exit status. */
static int exists_some(struct cli *cli, const struct input_key *keys, size_t n, size_t all)
{
	struct farkv_key asked[CLI_BATCH_MAX] = {{NULL, 0}};
	uint8_t bitmap[CLI_BATCH_MAX / 8];
	int code = CLI_OK, failed, one = CLI_OK;

	for (size_t i = 0; i < n; i++)
		asked[i] = (struct farkv_key){keys[i].data, keys[i].len};
	failed = farkv_mexists(cli->kv, asked, n, bitmap, NULL);
	for (size_t i = 0; i < n && goes_on(one); i++) {
		int err = bitmap[i / 8] >> i % 8 & 1 ? FARKV_OK : FARKV_ENOTFOUND;

		/* The bitmap does not show which keys have no answer. */
		if (failed && err)
			err = farkv_exists(cli->kv, keys[i].data, keys[i].len);
		one = exists_print(cli, &keys[i], err, all == 1);
		code = cli_output_check(cli, UTIL_MAX(code, one));
	}
	return code;
}

int cmd_exists(struct cli *cli, int argc, char **argv)
{
	size_t n = (size_t)argc, at = 0;
	struct input_key *keys;
	int worst = CLI_OK, code = keys_of(cli, argc, argv, &keys);

	if (code)
		return code;
	while (at < n && goes_on(code)) {
		size_t some = UTIL_MIN((size_t)CLI_BATCH_MAX, n - at);

		code = exists_some(cli, keys + at, some, n);
		worst = UTIL_MAX(worst, code);
		at += some;
	}
	free(keys);
	return worst;
}

/* ---- writing ------------------------------------------------------------------- */

/* Prepare key, value and connection of a writing command; end with input_close(). */
static int prepare(struct cli *cli, char *key_arg, const char *value_arg,
		   struct input_key *key, struct input_value *value)
{
	int code = input_key(cli, key_arg, key);

	if (!code)
		code = input_open(cli, value_arg, value);
	if (code)
		return code;
	code = cli_connect(cli);
	if (!code)
		code = input_read(cli, value);
	if (code)
		input_close(value);
	return code;
}

/* Parse a time to live. */
static int input_ttl(struct cli *cli, const char *text, uint64_t *ms_out)
{
	if (strcmp(text, "never") == 0)
		*ms_out = 0;
	else if (!util_parse_duration(text, ms_out) || *ms_out > FARKV_TTL_MAX_MS)
		return cli_error(cli, CLI_USAGE,
				 "'%s' is no time; give a number of seconds, or as in 500ms, "
				 "10s, 5m, 2h, 7d, at most %llus, or never",
				 text, (unsigned long long)FARKV_TTL_MAX_MS / 1000);
	return CLI_OK;
}

static void print_version(struct cli *cli, const struct input_key *key,
			  uint64_t version)
{
	json_t *o;

	if (cli->json) {
		o = output_object(key->data, key->len, "ok");
		output_count(o, "version", version);
		output_print(o);
	} else if (!cli->quiet) {
		printf("%" PRIu64 "\n", version);
	}
}

/* Write a value under the key of argv[0], as `how` says, with the options of the command line. */
static int write_value(struct cli *cli, char **argv, const char *value_arg,
		       const struct farkv_request *how)
{
	struct farkv_write_options options = {.size = sizeof(options)};
	struct farkv_request req = *how;
	struct input_value value;
	struct input_key key;
	uint64_t version;
	int code, err;

	code = cli->ttl ? input_ttl(cli, cli->ttl, &options.ttl_ms) : CLI_OK;
	if (!code)
		code = prepare(cli, argv[0], value_arg, &key, &value);
	if (code)
		return code;
	req.key = key.data;
	req.key_len = key.len;
	req.value = value.buf;
	req.value_len = value.len;
	req.options = &options;
	err = farkv_write(cli->kv, &req, &version);
	if (!err && req.kind == FARKV_REQUEST_CAS)
		print_version(cli, &key, version);
	else
		code = conclude(cli, err, &key);
	input_close(&value);
	return code;
}

static int store(struct cli *cli, char **argv, enum farkv_request_kind kind)
{
	struct farkv_request req = {.kind = (uint32_t)kind};

	return write_value(cli, argv, argv[1], &req);
}

int cmd_put(struct cli *cli, int argc, char **argv)
{
	(void)argc;
	return store(cli, argv, FARKV_REQUEST_PUT);
}

int cmd_add(struct cli *cli, int argc, char **argv)
{
	(void)argc;
	return store(cli, argv, FARKV_REQUEST_ADD);
}

int cmd_replace(struct cli *cli, int argc, char **argv)
{
	(void)argc;
	return store(cli, argv, FARKV_REQUEST_REPLACE);
}

int cmd_cas(struct cli *cli, int argc, char **argv)
{
	struct farkv_request req = {.kind = FARKV_REQUEST_CAS};

	(void)argc;
	if (!util_parse_u64(argv[1], &req.expected))
		return cli_error(cli, CLI_USAGE,
				 "'%s' is no version; take the number that gets "
				 "prints",
				 argv[1]);
	return write_value(cli, argv, argv[2], &req);
}

/* ---- time to live ---------------------------------------------------------------- */

static void print_ttl(struct cli *cli, const struct input_key *key, uint64_t ttl_ms)
{
	json_t *o;

	if (cli->json) {
		o = output_object(key->data, key->len, "ok");
		json_object_set_new(o, "ttl_ms",
				    ttl_ms ? json_integer((json_int_t)ttl_ms) : json_null());
		output_print(o);
	} else if (ttl_ms == 0) {
		puts("never");
	} else {
		printf("%" PRIu64 ".%03" PRIu64 "\n", ttl_ms / 1000, ttl_ms % 1000);
	}
}

int cmd_ttl(struct cli *cli, int argc, char **argv)
{
	struct input_key key;
	struct farkv_value v;
	int code = key_of(cli, argv[0], &key), err;

	(void)argc;
	if (code)
		return code;
	err = farkv_get(cli->kv, key.data, key.len, &v);
	if (err)
		return conclude(cli, err, &key);
	print_ttl(cli, &key, v.ttl_ms);
	return CLI_OK;
}

int cmd_touch(struct cli *cli, int argc, char **argv)
{
	struct input_key key;
	uint64_t ttl_ms;
	int code;

	(void)argc;
	code = input_ttl(cli, argv[1], &ttl_ms);
	if (!code)
		code = key_of(cli, argv[0], &key);
	if (code)
		return code;
	return conclude(cli, farkv_touch(cli->kv, key.data, key.len, ttl_ms), &key);
}

/* Add argv[1] to the value of argv[0]. */
static int extend(struct cli *cli, char **argv,
		  int (*add)(struct farkv *kv, const void *key, size_t key_len, const void *data,
			     size_t len))
{
	struct input_value value;
	struct input_key key;
	int code = prepare(cli, argv[0], argv[1], &key, &value);

	if (code)
		return code;
	code = conclude(cli, add(cli->kv, key.data, key.len, value.buf, value.len), &key);
	input_close(&value);
	return code;
}

int cmd_append(struct cli *cli, int argc, char **argv)
{
	(void)argc;
	return extend(cli, argv, farkv_append);
}

int cmd_prepend(struct cli *cli, int argc, char **argv)
{
	(void)argc;
	return extend(cli, argv, farkv_prepend);
}

static int number_of(struct cli *cli, const char *text, const char *what, uint64_t *number_out)
{
	if (util_parse_u64(text, number_out))
		return CLI_OK;
	return cli_error(cli, CLI_USAGE, "%s '%s' is no number from 0 to %" PRIu64, what, text,
			 UINT64_MAX);
}

static void print_number(struct cli *cli, const struct input_key *key, uint64_t number)
{
	char text[24];
	int len = snprintf(text, sizeof(text), "%" PRIu64, number);
	json_t *o;

	if (cli->json) {
		o = output_object(key->data, key->len, "ok");
		output_bytes(o, "value", text, (size_t)len);
		output_print(o);
	} else if (!cli->quiet) {
		puts(text);
	}
}

typedef int count_fn(struct farkv *kv, const void *key, size_t key_len,
		     const struct farkv_incr_options *opts, uint64_t *value_out);

static int count(struct cli *cli, int argc, char **argv, count_fn *fn)
{
	struct farkv_incr_options o = {.size = sizeof(o), .delta = 1};
	struct input_key key;
	uint64_t number;
	int code = CLI_OK, err;

	if (argc > 1)
		code = number_of(cli, argv[1], "DELTA", &o.delta);
	if (!code && cli->initial) {
		o.flags = FARKV_INCR_CREATE;
		code = number_of(cli, cli->initial, "--initial", &o.initial);
	}
	if (!code && cli->ttl)
		code = cli->initial ? input_ttl(cli, cli->ttl, &o.ttl_ms) :
				      cli_error(cli, CLI_USAGE,
						"--ttl is for the first number: give --initial, "
						"too; other numbers keep their time");
	if (!code)
		code = key_of(cli, argv[0], &key);
	if (code)
		return code;
	err = fn(cli->kv, key.data, key.len, &o, &number);
	if (err)
		return conclude(cli, err, &key);
	print_number(cli, &key, number);
	return CLI_OK;
}

int cmd_incr(struct cli *cli, int argc, char **argv)
{
	return count(cli, argc, argv, farkv_incr);
}

int cmd_decr(struct cli *cli, int argc, char **argv)
{
	return count(cli, argc, argv, farkv_decr);
}

int cmd_del(struct cli *cli, int argc, char **argv)
{
	struct input_key *keys;
	int worst = CLI_OK, code = keys_of(cli, argc, argv, &keys);

	if (code)
		return code;
	for (int i = 0; i < argc && worst <= CLI_NO; i++) {
		int err = farkv_delete(cli->kv, keys[i].data, keys[i].len);

		code = conclude(cli, err, &keys[i]);
		worst = UTIL_MAX(worst, code);
	}
	free(keys);
	return worst;
}

/* ---- ping ---------------------------------------------------------------------- */

static void print_ping(const struct cli *cli, uint64_t ns)
{
	if (cli->json)
		printf("{\"rtt_ns\":%" PRIu64 "}\n", ns);
	else if (!cli->quiet)
		printf("the server answered in %.1f us\n", (double)ns / 1e3);
}

int cmd_ping(struct cli *cli, int argc, char **argv)
{
	int code = cli_connect(cli);

	(void)argc;
	(void)argv;
	for (uint64_t i = 0; i < UTIL_MAX(cli->count, UINT64_C(1)) && !code; i++) {
		uint64_t ns;
		int err;

		if (i > 0)
			clock_sleep_ns(NS_PER_SEC);
		err = farkv_ping(cli->kv, &ns);
		if (err)
			return cli_fail(cli, err, NULL, 0);
		print_ping(cli, ns);
		code = cli_finish(cli, CLI_OK);
	}
	return code;
}
