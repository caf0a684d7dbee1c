/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "input.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"

#include "words.h"

/* Values up to this size are read without asking the server for the longest allowed value. */
#define UNASKED_BYTES ((size_t)1 << 20)

/* ---- keys ----------------------------------------------------------------------- */

static int base64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decode in place. Only canonical base64: padded, unused bits 0. */
static bool base64_decode(char *text, size_t *len_out)
{
	size_t chars = strlen(text), n = 0;
	unsigned acc = 0, bits = 0;

	if (chars % 4 != 0)
		return false;
	for (int pad = 0; pad < 2 && chars && text[chars - 1] == '='; pad++)
		chars--;
	for (size_t i = 0; i < chars; i++) {
		int d = base64_digit(text[i]);

		if (d < 0)
			return false;
		acc = acc << 6 | (unsigned)d;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			text[n++] = (char)(acc >> bits);
			acc &= (1u << bits) - 1;
		}
	}
	*len_out = n;
	return acc == 0 && bits < 6;
}

int input_key(const struct cli *cli, char *arg, struct input_key *out)
{
	size_t len = words_length(cli->words, arg);

	if (cli->key_base64 && !base64_decode(arg, &len))
		return cli_error(cli, CLI_USAGE,
				 "a key is not base64 (RFC 4648, padded with "
				 "=); leave --key-base64 out for plain keys");
	*out = (struct input_key){.data = arg, .len = len};
	return CLI_OK;
}

/* ---- values --------------------------------------------------------------------- */

int input_open(const struct cli *cli, const char *arg, struct input_value *out)
{
	struct input_value v = {.text = arg, .len = words_length(cli->words, arg)};

	if (strcmp(arg, "-") == 0) {
		if (cli_stdin(cli))
			return CLI_USAGE;
		v.text = "stdin";
		v.file = stdin;
	} else if (arg[0] == '@' && arg[1] == '@') {
		v.text = arg + 1;
		v.len--;
	} else if (arg[0] == '@') {
		v.text = arg + 1;
		v.file = fopen(v.text, "re");
		if (!v.file)
			return cli_error(cli, CLI_USAGE,
					 "cannot open '%s': %s; a value that "
					 "begins with @ is written @@...",
					 v.text, strerror(errno));
	}
	*out = v;
	return CLI_OK;
}

void input_close(struct input_value *v)
{
	if (v->file && v->file != stdin)
		fclose(v->file);
	free(v->buf);
	*v = (struct input_value){0};
}

static int over_limit(const struct cli *cli, const struct input_value *v,
		      uint64_t most)
{
	char size[24];

	return cli_error(cli, CLI_USAGE,
			 "%s is longer than the longest value of this store, "
			 "%s; see kvserver --max-item-size",
			 v->text, util_format_size(most, size, sizeof(size)));
}

/* Make space for more. *most is 0 until the longest value is needed and fetched. */
static int grow(const struct cli *cli, struct input_value *v, size_t *cap,
		uint64_t *most)
{
	struct farkv_stats s = {.size = sizeof(s)};
	uint8_t *p;
	int err;

	if (*cap >= UNASKED_BYTES && *most == 0) {
		err = farkv_stats(cli->kv, &s);
		if (err)
			return cli_fail(cli, err, NULL, 0);
		*most = s.max_value;
	}
	if (*most && v->len > *most)
		return over_limit(cli, v, *most);
	p = realloc(v->buf, *cap * 2);
	if (!p)
		return cli_error(cli, CLI_FAILED, "no memory for a value of "
						  "%zu bytes", *cap * 2);
	v->buf = p;
	*cap *= 2;
	return CLI_OK;
}

static int read_file(const struct cli *cli, struct input_value *v)
{
	size_t cap = 64 << 10;
	uint64_t most = 0;

	v->len = 0;
	v->buf = malloc(cap);
	if (!v->buf)
		return cli_fail(cli, FARKV_ENOMEM, NULL, 0);
	for (;;) {
		int code;

		errno = 0;
		v->len += fread(v->buf + v->len, 1, cap - v->len, v->file);
		if (ferror(v->file))
			return cli_error(cli, CLI_FAILED, "cannot read %s: %s",
					 v->text, strerror(errno));
		if (v->len < cap)
			break;
		code = grow(cli, v, &cap, &most);
		if (code)
			return code;
	}
	return most && v->len > most ? over_limit(cli, v, most) : CLI_OK;
}

int input_read(const struct cli *cli, struct input_value *v)
{
	if (v->file)
		return read_file(cli, v);
	v->buf = malloc(v->len + 1);
	if (!v->buf)
		return cli_fail(cli, FARKV_ENOMEM, NULL, 0);
	memcpy(v->buf, v->text, v->len);
	return CLI_OK;
}
