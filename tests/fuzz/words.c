/* SPDX-License-Identifier: BSD-3-Clause */
/* Words of the command line: sizes, numbers, keys in base64, lines to be shown or split. */
#include "config.h"

#include "fuzz.h"

#include <sodium.h>

#include "client/cli/input.h"
#include "client/cli/words.h"
#include "common/base/util.h"

/* The functions of kvcli that input.c calls; no key leads further than cli_error(). */
int cli_error(const struct cli *cli, int code, const char *fmt, ...)
{
	(void)cli;
	(void)fmt;
	return code;
}

int cli_fail(const struct cli *cli, int err, const void *key, size_t key_len)
{
	(void)cli;
	(void)key;
	(void)key_len;
	return err;
}

int cli_stdin(const struct cli *cli)
{
	(void)cli;
	return 0;
}

/* In double quotes with all bytes as \xHH, the words of a line are the same words again. */
static void check_split(const uint8_t *line, size_t size)
{
	struct words w, again;
	char *quoted, *to;

	if (words_split((const char *)line, size, &w))
		return;
	to = quoted = malloc(4 * size + 3 * w.n + 1);
	FUZZ_CHECK(quoted);
	for (size_t i = 0; i < w.n; i++) {
		FUZZ_CHECK(w.v[i][w.len[i]] == '\0' && words_length(&w, w.v[i]) == w.len[i]);
		*to++ = '"';
		for (size_t k = 0; k < w.len[i]; k++)
			to += sprintf(to, "\\x%02x", (unsigned char)w.v[i][k]);
		to += sprintf(to, "\" ");
	}
	FUZZ_CHECK(w.v[w.n] == NULL);
	FUZZ_CHECK(!words_split(quoted, (size_t)(to - quoted), &again) && again.n == w.n);
	for (size_t i = 0; i < w.n; i++)
		FUZZ_CHECK(again.len[i] == w.len[i] &&
			   memcmp(again.v[i], w.v[i], w.len[i]) == 0);
	words_free(&again);
	words_free(&w);
	free(quoted);
}

static void check_numbers(const char *text)
{
	uint64_t v = 1, size = 1;
	char shown[24];

	if (util_parse_u64(text, &v)) {
		FUZZ_CHECK(text[strspn(text, "0123456789")] == '\0');
		FUZZ_CHECK(strtoull(text, NULL, 10) == v);
		FUZZ_CHECK(util_parse_size(text, 1, &size) && size == v);
	}
	if (util_parse_size(text, 1, &size))
		FUZZ_CHECK(strlen(util_format_size(size, shown,
						   sizeof(shown))) < 16);
}

/* The only text that encodes these bytes. */
static void check_key(const char *text, size_t size)
{
	static const struct cli cli = {.key_base64 = true};
	char *arg = fuzz_text(text, size), *back;
	struct input_key k;

	if (input_key(&cli, arg, &k) == CLI_OK) {
		size_t cap = sodium_base64_encoded_len(
			k.len, sodium_base64_VARIANT_ORIGINAL);

		back = malloc(cap);
		FUZZ_CHECK(back);
		sodium_bin2base64(back, cap, k.data, k.len,
				  sodium_base64_VARIANT_ORIGINAL);
		FUZZ_CHECK(strcmp(back, text) == 0);
		free(back);
	}
	free(arg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	size_t len = strlen(text);

	check_numbers(text);
	check_key(text, len);
	check_split(data, size);
	FUZZ_CHECK(util_one_line(text) == text && strlen(text) == len);
	for (size_t i = 0; i < len; i++)
		FUZZ_CHECK((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
	free(text);
	return 0;
}
