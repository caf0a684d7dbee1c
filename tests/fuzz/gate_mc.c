/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcached's requests as kvgate reads them. The first two bytes say in what pieces the others
 * arrive; what is read does not depend on that.
 */
#include "config.h"

#include "fuzz.h"

#include "tests/rig/gate_feed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole = {0}, pieces = {0};

	if (size < 2)
		return 0;
	gate_feed_mc(data + 2, size - 2, size, 1, &whole);
	gate_feed_mc(data + 2, size - 2, data[0], data[1] + 1u, &pieces);
	FUZZ_CHECK(whole.len == pieces.len);
	FUZZ_CHECK(!whole.len || memcmp(whole.p, pieces.p, whole.len) == 0);
	buf_free(&whole);
	buf_free(&pieces);
	return 0;
}
