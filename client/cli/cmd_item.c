/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands for keys given on the command line. */
#include "config.h"

#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/util.h"
#include "output.h"
#include "records.h"

/* "not_found", ...: the results that commands of JSON name. */
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
 * The end of a command for one key. A "no" is an answer: under --json it goes to
 * stdout, otherwise to stderr.
 */
static int conclude(struct cli *cli, int err, const char *key)
{
	size_t len = strlen(key);

	if (cli->json && (err == 0 || cli_exit_for(err) == CLI_NO)) {
		output_print(output_object(key, len, result_name(err)));
		return err ? CLI_NO : CLI_OK;
	}
	return err ? cli_fail(cli, err, key, len) : CLI_OK;
}

/* ---- reading ------------------------------------------------------------------- */

static void print_json_value(const void *key, size_t key_len,
			     const struct farkv_value *v)
{
	json_t *o = output_object(key, key_len, "ok");

	output_bytes(o, "value", v->data, v->len);
	json_object_set_new(o, "version", json_integer((json_int_t)v->version));
	output_print(o);
}

static int get(struct cli *cli, const char *key, bool with_version)
{
	struct farkv_value v;
	int err = farkv_get(cli->kv, key, strlen(key), &v);

	if (err)
		return conclude(cli, err, key);
	if (cli->json) {
		print_json_value(key, strlen(key), &v);
		return CLI_OK;
	}
	if (with_version)
		printf("%" PRIu64 "%c", v.version, cli->raw ? '\n' : '\t');
	fwrite(v.data, 1, v.len, stdout);
	if (!cli->raw)
		putchar('\n');
	return CLI_OK;
}

int cmd_get(struct cli *cli, int argc, char **argv)
{
	(void)argc;
	return get(cli, argv[0], false);
}

int cmd_gets(struct cli *cli, int argc, char **argv)
{
	(void)argc;
	return get(cli, argv[0], true);
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
		record_write(stdout, RECORD_TSV, it->key, it->key_len,
			     it->value.data, it->value.len);
	return it->result ? CLI_NO : CLI_OK;
}

int cmd_mget(struct cli *cli, int argc, char **argv)
{
	struct farkv_get_item *items = calloc((size_t)argc, sizeof(*items));
	int code = CLI_OK, err;

	if (!items)
		return cli_fail(cli, FARKV_ENOMEM, NULL, 0);
	for (int i = 0; i < argc; i++) {
		items[i].key = argv[i];
		items[i].key_len = strlen(argv[i]);
	}
	err = farkv_mget(cli->kv, items, (size_t)argc);
	if (err)
		code = cli_fail(cli, err, NULL, 0);
	for (int i = 0; i < argc; i++) {
		int one = mget_print(cli, &items[i]);

		code = UTIL_MAX(code, one);
	}
	free(items);
	return code;
}

int cmd_exists(struct cli *cli, int argc, char **argv)
{
	int code = CLI_OK;

	for (int i = 0; i < argc; i++) {
		struct farkv_value v;
		int err = farkv_get(cli->kv, argv[i], strlen(argv[i]), &v);

		if (err && err != FARKV_ENOTFOUND)
			return conclude(cli, err, argv[i]);
		if (err)
			code = CLI_NO;
		if (cli->json)
			(void)conclude(cli, err, argv[i]);
		else if (!cli->quiet && argc == 1)
			puts(err ? "no" : "yes");
		else if (!cli->quiet)
			record_write(stdout, RECORD_TSV, argv[i],
				     strlen(argv[i]), err ? "no" : "yes",
				     err ? 2 : 3);
	}
	return code;
}

/* ---- writing ------------------------------------------------------------------- */

typedef int put_fn(struct farkv *kv, const void *key, size_t key_len,
		   const void *value, size_t value_len);

static int store(struct cli *cli, char **argv, put_fn *put)
{
	uint8_t *value;
	size_t len;
	int code = cli_value(cli, argv[1], &value, &len);

	if (code)
		return code;
	code = conclude(cli, put(cli->kv, argv[0], strlen(argv[0]), value, len),
			argv[0]);
	free(value);
	return code;
}

int cmd_put(struct cli *cli, int argc, char **argv)
{
	(void)argc;
	return store(cli, argv, farkv_put);
}

int cmd_add(struct cli *cli, int argc, char **argv)
{
	(void)argc;
	return store(cli, argv, farkv_add);
}

int cmd_replace(struct cli *cli, int argc, char **argv)
{
	(void)argc;
	return store(cli, argv, farkv_replace);
}

int cmd_cas(struct cli *cli, int argc, char **argv)
{
	uint64_t expected, version;
	uint8_t *value;
	size_t len;
	json_t *o;
	int code, err;

	(void)argc;
	if (!util_parse_u64(argv[1], &expected))
		return cli_error(cli, CLI_USAGE,
				 "'%s' is no version; take the number that gets "
				 "prints",
				 argv[1]);
	code = cli_value(cli, argv[2], &value, &len);
	if (code)
		return code;
	err = farkv_cas(cli->kv, argv[0], strlen(argv[0]), value, len, expected,
			&version);
	free(value);
	if (err)
		return conclude(cli, err, argv[0]);
	if (cli->json) {
		o = output_object(argv[0], strlen(argv[0]), "ok");
		json_object_set_new(o, "version",
				    json_integer((json_int_t)version));
		output_print(o);
	} else if (!cli->quiet) {
		printf("%" PRIu64 "\n", version);
	}
	return CLI_OK;
}

int cmd_del(struct cli *cli, int argc, char **argv)
{
	int code = CLI_OK;

	for (int i = 0; i < argc; i++) {
		int one = conclude(cli,
				   farkv_delete(cli->kv, argv[i],
						strlen(argv[i])),
				   argv[i]);

		code = UTIL_MAX(code, one);
		if (one > CLI_NO)
			break;
	}
	return code;
}

/* ---- ping ---------------------------------------------------------------------- */

int cmd_ping(struct cli *cli, int argc, char **argv)
{
	(void)argc;
	(void)argv;
	for (uint64_t i = 0; i < cli->count; i++) {
		uint64_t ns;
		int err = farkv_ping(cli->kv, &ns);

		if (err)
			return cli_fail(cli, err, NULL, 0);
		if (cli->json)
			printf("{\"rtt_ns\":%" PRIu64 "}\n", ns);
		else if (!cli->quiet)
			printf("the server answered in %.1f us\n",
			       (double)ns / 1e3);
		fflush(stdout);
		if (i + 1 < cli->count)
			clock_sleep_ns(NS_PER_SEC);
	}
	return CLI_OK;
}
