/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * wire.h - a bounds-checked cursor over bytes, little-endian, sticky error.
 *
 * Reading past the end yields zeros and sets the error; writing past the end
 * writes nothing and sets it. The caller checks once, at the end.
 */
#ifndef COMMON_BASE_WIRE_H
#define COMMON_BASE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire {
	uint8_t *pos;
	uint8_t *end;
	bool error;
};

/** A cursor for reading; the bytes are not changed. NULL counts as empty. */
struct wire wire_reader(const void *buf, size_t len);
/** A cursor for writing into `cap` bytes. NULL counts as full. */
struct wire wire_writer(void *buf, size_t cap);

uint8_t wire_get_u8(struct wire *w);
uint16_t wire_get_u16(struct wire *w);
uint32_t wire_get_u32(struct wire *w);
uint64_t wire_get_u64(struct wire *w);
/** `len` bytes in place; NULL (and the error) if fewer are left. */
const uint8_t *wire_get_bytes(struct wire *w, size_t len);
/**
 * u16 length, then that many bytes in place; NULL, length 0 and the error if they are
 * incomplete.
 */
const uint8_t *wire_get_blob(struct wire *w, uint16_t *len_out);

void wire_put_u8(struct wire *w, uint8_t v);
void wire_put_u16(struct wire *w, uint16_t v);
void wire_put_u32(struct wire *w, uint32_t v);
void wire_put_u64(struct wire *w, uint64_t v);
void wire_put_bytes(struct wire *w, const void *src, size_t len);
void wire_put_blob(struct wire *w, const void *src, uint16_t len);

/** Bytes left. */
size_t wire_left(const struct wire *w);

#endif
