/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "seal.h"

#include <string.h>

#include "common/region/hash.h"
#include "common/proto/msg.h"
#include "common/base/wire.h"

void seal_message(uint8_t *buf, size_t len, uint8_t type)
{
	struct wire w = wire_writer(buf, MSG_HEADER_BYTES);

	wire_put_u16(&w, MSG_MAGIC);
	wire_put_u8(&w, type);
	wire_put_u8(&w, MSG_PROTOCOL);
	wire_put_u32(&w, (uint32_t)(len - MSG_HEADER_BYTES));
	w.pos += 4;
	wire_put_u32(&w, (uint32_t)XXH3_64bits_withSeed(
				 buf + MSG_HEADER_BYTES, len - MSG_HEADER_BYTES,
				 hash_image(buf, MSG_HEADER_BYTES - 4)));
}

size_t seal_body(uint8_t *buf, size_t cap, uint8_t type, uint32_t req,
		 const void *body, size_t len)
{
	if (len > cap - MSG_HEADER_BYTES)
		len = cap - MSG_HEADER_BYTES;
	memcpy(buf + 8, &req, 4);
	if (len)
		memcpy(buf + MSG_HEADER_BYTES, body, len);
	seal_message(buf, MSG_HEADER_BYTES + len, type);
	return MSG_HEADER_BYTES + len;
}

void seal_block(uint8_t *block, size_t have, struct block_ref ref,
		uint64_t seed)
{
	struct block_header h;
	uint64_t binding = block_binding(ref), sum, room;

	if (have < sizeof(h))
		return;
	memcpy(&h, block, sizeof(h));
	if (sizeof(h) + h.key_len > have)
		return;
	h.head_sum = block_head_sum(&h, binding,
				    hash_key(seed, block + sizeof(h), h.key_len));
	memcpy(block, &h, sizeof(h));
	room = block_room_of(&h);
	if (room > have)
		return;
	sum = hash_image(block, block_end(&h)) ^ binding;
	memcpy(block + room - sizeof(sum), &sum, sizeof(sum));
}
