/* SPDX-License-Identifier: BSD-3-Clause */
/* keys and clear: all keys of the store. */
#include "config.h"

#include "cli.h"

#include <inttypes.h>
#include <stdio.h>

#include "glob.h"
#include "output.h"
#include "records.h"

/* ---- keys ------------------------------------------------------------------------ */

struct keys {
	struct cli *cli;
	uint64_t printed;
};

static int keys_print(struct keys *k, const struct farkv_scan_item *it)
{
	if (k->cli->match && !glob_match(k->cli->match, it->key, it->key_len))
		return CLI_OK;
	k->printed++;
	if (k->cli->json) {
		json_t *o = json_object();

		output_bytes(o, "key", it->key, it->key_len);
		output_count(o, "length", it->value_len);
		output_count(o, "version", it->version);
		output_ttl(o, it->ttl_ms, 0);
		output_print(o);
	} else if (k->cli->csv || (k->cli->pretty && !k->cli->format)) {
		output_text(k->cli, it->key, it->key_len);
		putchar('\n');
	} else if (!writer_put_key(&k->cli->records, it->key, it->key_len)) {
		return cli_key_error(k->cli, CLI_USAGE, it->key, it->key_len, RECORD_NOT_NUL);
	}
	return cli_output_check(k->cli, CLI_OK);
}

static bool keys_enough(const struct keys *k)
{
	return cli_signal || (k->cli->count && k->printed == k->cli->count);
}

int cmd_keys(struct cli *cli, int argc, char **argv)
{
	struct keys k = {.cli = cli};
	struct cli_scan scan = {.cli = cli};
	int code = CLI_OK;

	(void)argc;
	(void)argv;
	if (cli->format)
		cli->records.format = (enum record_format)(cli->format - 1);
	if (cli->records.format == RECORD_CDB)
		return cli_error(cli, CLI_USAGE, "cdb has no form for keys alone; use tsv or nul");
	code = cli_connect(cli);
	while (!code && !keys_enough(&k) && cli_scan_next(&scan, &code))
		for (size_t i = 0; i < scan.n && !code && !keys_enough(&k); i++)
			code = keys_print(&k, &scan.items[i]);
	return code ? code : scan.code;
}

/* ---- every command that lists keys ---------------------------------------------------- */

bool cli_scan_next(struct cli_scan *s, int *code_out)
{
	int err;

	if (s->begun && !s->cursor)
		return false;
	s->begun = true;
	err = farkv_scan(s->cli->kv, &s->cursor, SIZE_MAX, &s->items, &s->n);
	if (err == FARKV_ECORRUPT)
		s->code = cli_fail(s->cli, err, NULL, 0);
	else if (err)
		*code_out = cli_fail(s->cli, err, NULL, 0);
	return err == 0 || err == FARKV_ECORRUPT;
}

/* ---- clear ---------------------------------------------------------------------------- */

int cmd_clear(struct cli *cli, int argc, char **argv)
{
	uint64_t n = 0;
	int code = cli_connect(cli), err;

	(void)argc;
	(void)argv;
	if (code)
		return code;
	/* In other shells this word clears the screen. */
	if (cli->conn->asks && !cli_ask("Remove all keys of the store?"))
		return CLI_OK;
	err = farkv_clear(cli->kv, &n);
	if (err)
		code = cli_fail(cli, err, NULL, 0);
	if (cli->json)
		printf("{\"removed\":%" PRIu64 ",\"complete\":%s}\n", n, err ? "false" : "true");
	else if (!cli->quiet)
		printf("removed %" PRIu64 " keys%s\n", n, err ? "; others may be left" : "");
	return code;
}
