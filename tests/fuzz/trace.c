/* SPDX-License-Identifier: BSD-3-Clause */
/* Traces for kvbench's replay. */
#include "config.h"

#include "fuzz.h"

#include "bench/gen/trace.h"
#include "common/base/err.h"

static void check_key(const struct trace *t, uint32_t key)
{
	FUZZ_CHECK(key < t->n_keys);
	FUZZ_CHECK(t->keys[key].len > 0 && t->keys[key].len <= t->key_len_max);
	FUZZ_CHECK(t->keys[key].at + t->keys[key].len <= t->text_len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace t;

	err_clear();
	if (trace_load(fuzz_file(data, size), &t)) {
		FUZZ_CHECK(fuzz_detail_ok());
		FUZZ_CHECK(!t.n && !t.n_keys && !t.requests);
		return 0;
	}
	FUZZ_CHECK(t.n > 0 && t.key_len_max <= TRACE_KEY_MAX);
	for (size_t i = 0; i < t.n; i++) {
		const struct trace_request *q = &t.requests[i];

		FUZZ_CHECK(q->op <= TRACE_DELETE && q->size <= t.size_max);
		if (!t.has_blocks)
			check_key(&t, q->key);
		else
			FUZZ_CHECK((size_t)q->key + q->size <= t.n_blocks);
	}
	for (size_t i = 0; i < t.n_blocks; i++)
		check_key(&t, t.blocks[i]);
	trace_free(&t);
	return 0;
}
