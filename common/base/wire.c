/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "wire.h"

#include <endian.h>
#include <string.h>

struct wire wire_writer(void *buf, size_t cap)
{
	static uint8_t nothing;
	uint8_t *p = buf ? buf : &nothing; /* NULL + 0 is undefined in C */

	return (struct wire){.pos = p, .end = p + (buf ? cap : 0)};
}

struct wire wire_reader(const void *buf, size_t len)
{
	/* A reader never writes through the pointer, so one struct serves both directions. */
	return wire_writer((void *)(uintptr_t)buf, len);
}

size_t wire_left(const struct wire *w)
{
	return (size_t)(w->end - w->pos);
}

/*
 * Advance by `len` bytes and return where they begin; NULL and the sticky error if fewer are left.
 */
static uint8_t *wire_step(struct wire *w, size_t len)
{
	uint8_t *p = w->pos;

	if (w->error || wire_left(w) < len) {
		w->error = true;
		return NULL;
	}
	w->pos += len;
	return p;
}

static inline uint64_t get_le(struct wire *w, size_t len)
{
	const uint8_t *p = wire_step(w, len);
	uint64_t v = 0;

	if (p)
		memcpy(&v, p, len);
	return le64toh(v);
}

static inline void put_le(struct wire *w, uint64_t v, size_t len)
{
	uint8_t *p = wire_step(w, len);

	v = htole64(v);
	if (p)
		memcpy(p, &v, len);
}

uint8_t wire_get_u8(struct wire *w)
{
	return (uint8_t)get_le(w, 1);
}
uint16_t wire_get_u16(struct wire *w)
{
	return (uint16_t)get_le(w, 2);
}
uint32_t wire_get_u32(struct wire *w)
{
	return (uint32_t)get_le(w, 4);
}
uint64_t wire_get_u64(struct wire *w)
{
	return get_le(w, 8);
}

const uint8_t *wire_get_bytes(struct wire *w, size_t len)
{
	return wire_step(w, len);
}

const uint8_t *wire_get_blob(struct wire *w, uint16_t *len_out)
{
	uint16_t len = wire_get_u16(w);
	const uint8_t *p = wire_step(w, len);

	*len_out = p ? len : 0;
	return p;
}

void wire_put_u8(struct wire *w, uint8_t v)
{
	put_le(w, v, 1);
}
void wire_put_u16(struct wire *w, uint16_t v)
{
	put_le(w, v, 2);
}
void wire_put_u32(struct wire *w, uint32_t v)
{
	put_le(w, v, 4);
}
void wire_put_u64(struct wire *w, uint64_t v)
{
	put_le(w, v, 8);
}

void wire_put_bytes(struct wire *w, const void *src, size_t len)
{
	uint8_t *p = wire_step(w, len);

	if (p && len)
		memcpy(p, src, len);
}

void wire_put_blob(struct wire *w, const void *src, uint16_t len)
{
	uint8_t *p = wire_step(w, 2 + (size_t)len); /* both or nothing */

	if (!p)
		return;
	p[0] = (uint8_t)len;
	p[1] = (uint8_t)(len >> 8);
	if (len)
		memcpy(p + 2, src, len);
}
