/* SPDX-License-Identifier: BSD-3-Clause */
/* Redis's requests as kvgate reads them: the same in whatever pieces they arrive. */
#include "config.h"

#include "fuzz.h"

#include "tests/rig/gate_feed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FUZZ_CHECK(gate_feed_same(gate_feed_resp, data, size));
	return 0;
}
