/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of field lengths of kvbench. */
#include "config.h"

#include "fuzz.h"

#include "bench/gen/gen_histogram.h"
#include "common/base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gen_histogram h;
	struct rng r;

	err_clear();
	if (gen_histogram_load(&h, fuzz_file(data, size))) {
		FUZZ_CHECK(fuzz_detail_ok());
		return 0;
	}
	rng_seed(&r, 1, 1);
	for (int i = 0; i < 16; i++) {
		uint64_t n = gen_histogram_next(&h, &r);

		FUZZ_CHECK(n > 0 && n <= gen_histogram_max(&h));
	}
	gen_histogram_fini(&h);
	return 0;
}
