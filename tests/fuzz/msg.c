/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control messages: whatever decodes is encoded to the same bytes again. An input is
 * a message; it is also tried with its header made right.
 */
#include "config.h"

#include "fuzz.h"

#include "common/base/err.h"
#include "common/proto/msg.h"
#include "seal.h"

static bool has_blocks(uint8_t type)
{
	return type == MSG_RETURN || type == MSG_GRANT || type == MSG_BYE ||
	       type == MSG_SWEEP_QUERY || type == MSG_SWEEP_CLAIM;
}

static void check(const uint8_t *bytes, size_t len)
{
	struct block_ref refs[MSG_REFS_MAX];
	uint8_t back[MSG_MAX_BYTES];
	struct msg m, before;
	size_t back_len = 0;

	memset(&m, 0x5A, sizeof(m));
	before = m;
	err_clear();
	if (msg_decode(bytes, len, &m)) {
		FUZZ_CHECK(memcmp(&m, &before, sizeof(m)) == 0);
		FUZZ_CHECK(fuzz_detail_ok());
		return;
	}
	if (has_blocks(m.type))
		for (uint32_t i = 0; i < m.blocks.n; i++)
			refs[i] = msg_ref(&m, i);
	FUZZ_CHECK(strcmp(msg_type_name(m.type), "?") != 0);
	FUZZ_CHECK(msg_encode(&m, refs, back, sizeof(back), &back_len) == 0);
	FUZZ_CHECK(back_len == len && memcmp(back, bytes, len) == 0);
	/* A buffer of one byte less is refused, and no byte is written after it. */
	FUZZ_CHECK(msg_encode(&m, refs, back, len - 1, &back_len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	check(data, size);
	if (size < MSG_HEADER_BYTES)
		return 0;
	copy = malloc(size);
	FUZZ_CHECK(copy);
	memcpy(copy, data, size);
	seal_message(copy, size, data[2]);
	check(copy, size);
	free(copy);
	return 0;
}
