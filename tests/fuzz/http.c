/* SPDX-License-Identifier: BSD-3-Clause */
/* First lines of HTTP requests: one that parses has a path of the line, and its end. */
#include "config.h"

#include "fuzz.h"

#include <string.h>

#include "server/loop/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_request r = {0};
	unsigned status = http_parse((const char *)data, size, &r);
	size_t len = strnlen(r.path, sizeof(r.path));

	FUZZ_CHECK(status == 0 || status == 400 || status == 404 || status == 405);
	FUZZ_CHECK(len < sizeof(r.path));
	if (status)
		return 0;
	FUZZ_CHECK(memmem(data, size, " HTTP/1.", 8));
	FUZZ_CHECK(memcmp(data, r.head ? "HEAD " : "GET ", r.head ? 5 : 4) == 0);
	FUZZ_CHECK(len == 0 || memmem(data, size, r.path, len));
	FUZZ_CHECK(!strchr(r.path, '?') && !strchr(r.path, ' ') && !strchr(r.path, '\n'));
	return 0;
}
