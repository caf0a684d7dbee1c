/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses: what is understood is terminated, printable and within its bounds. */
#include "config.h"

#include "fuzz.h"

#include <farkv.h>

#include "client/uri.h"
#include "common/base/err.h"

static void check_text(const char *text, size_t cap)
{
	size_t n = strnlen(text, cap);

	FUZZ_CHECK(n < cap);
	for (size_t i = 0; i < n; i++)
		FUZZ_CHECK((unsigned char)text[i] >= ' ' && text[i] != 0x7f);
}

static void check_uri(const struct uri *u)
{
	check_text(u->path, sizeof(u->path));
	check_text(u->host, sizeof(u->host));
	check_text(u->port, sizeof(u->port));
	check_text(u->keys, sizeof(u->keys));
	check_text(u->key, sizeof(u->key));
	check_text(u->shown, sizeof(u->shown));
	FUZZ_CHECK(u->shown[0]);
	FUZZ_CHECK(!u->path[0] != !u->host[0]);
	if (u->path[0])
		return;
	FUZZ_CHECK(atoi(u->port) > 0 && atoi(u->port) < 65536);
	FUZZ_CHECK(u->ack_timeout >= 1 && u->ack_timeout <= 31);
}

static void check_list(const char *text)
{
	struct uri *list = NULL;
	size_t n = 0;

	err_clear();
	if (uri_resolve_list(text, &list, &n)) {
		FUZZ_CHECK(!list && fuzz_detail_ok());
		return;
	}
	FUZZ_CHECK(n > 0 && n <= URI_LIST_MAX);
	for (size_t i = 0; i < n; i++)
		check_uri(&list[i]);
	free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct uri u, before;

	memset(&u, 0x5A, sizeof(u));
	before = u;
	err_clear();
	if (uri_resolve(text, &u) == 0) {
		check_uri(&u);
	} else {
		FUZZ_CHECK(fuzz_detail_ok());
		FUZZ_CHECK(memcmp(&u, &before, sizeof(u)) == 0);
	}
	check_list(text);
	free(text);
	return 0;
}
