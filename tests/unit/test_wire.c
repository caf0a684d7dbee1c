/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <string.h>

#include "common/base/wire.h"
#include "tests/rig/cases.h"

TEST(wire_numbers_are_little_endian_both_ways)
{
	static const uint8_t want[] = {0x01, 0x03, 0x02, 0x07, 0x06, 0x05,
				       0x04, 0x0F, 0x0E, 0x0D, 0x0C, 0x0B,
				       0x0A, 0x09, 0x08};
	uint8_t b[sizeof(want)];
	struct wire w = wire_writer(b, sizeof(b));

	wire_put_u8(&w, 0x01);
	wire_put_u16(&w, 0x0203);
	wire_put_u32(&w, 0x04050607);
	wire_put_u64(&w, 0x08090A0B0C0D0E0F);
	ck_assert(!w.error);
	ck_assert_uint_eq(wire_left(&w), 0);
	ck_assert_mem_eq(b, want, sizeof(want));
	w = wire_reader(b, sizeof(b));
	ck_assert_uint_eq(wire_get_u8(&w), 0x01);
	ck_assert_uint_eq(wire_get_u16(&w), 0x0203);
	ck_assert_uint_eq(wire_get_u32(&w), 0x04050607);
	ck_assert_uint_eq(wire_get_u64(&w), 0x08090A0B0C0D0E0F);
	ck_assert(!w.error);
	ck_assert_uint_eq(wire_left(&w), 0);
}

static uint64_t get(struct wire *w, unsigned bytes)
{
	switch (bytes) {
	case 1:
		return wire_get_u8(w);
	case 2:
		return wire_get_u16(w);
	case 4:
		return wire_get_u32(w);
	default:
		return wire_get_u64(w);
	}
}

static void put(struct wire *w, unsigned bytes)
{
	switch (bytes) {
	case 1:
		wire_put_u8(w, 0xFF);
		break;
	case 2:
		wire_put_u16(w, 0xFFFF);
		break;
	case 4:
		wire_put_u32(w, UINT32_MAX);
		break;
	default:
		wire_put_u64(w, UINT64_MAX);
		break;
	}
}

/* One byte short: zero, error, and the error stays. Nothing is written. */
TEST_LOOP(wire_number_at_the_end_is_whole_or_nothing, 0, 4)
{
	static const unsigned sizes[] = {1, 2, 4, 8};
	unsigned n = sizes[_i];
	uint8_t *b = malloc(n), one = 0x77;
	struct wire w;

	memset(b, 0xFF, n);
	w = wire_reader(b, n);
	ck_assert_uint_ne(get(&w, n), 0);
	ck_assert(!w.error);
	w = wire_reader(b, n - 1);
	ck_assert_uint_eq(get(&w, n), 0);
	ck_assert(w.error);
	ck_assert_uint_eq(wire_get_u8(&w), 0);
	ck_assert(w.error);

	memset(b, 0, n);
	w = wire_writer(b, n);
	put(&w, n);
	ck_assert(!w.error);
	ck_assert_uint_eq(b[n - 1], 0xFF);
	memset(b, 0, n);
	w = wire_writer(b, n - 1);
	put(&w, n);
	ck_assert(w.error);
	for (unsigned i = 0; i < n; i++)
		ck_assert_uint_eq(b[i], 0);
	wire_put_bytes(&w, &one, 0);
	ck_assert(w.error);
	free(b);
}

TEST(wire_blob_length_beyond_the_end_is_an_error)
{
	static const uint8_t b[] = {3, 0, 'a', 'b', 'c'};
	uint16_t len = 99;
	struct wire w = wire_reader(b, sizeof(b));
	const uint8_t *p = wire_get_blob(&w, &len);

	ck_assert_ptr_eq(p, b + 2);
	ck_assert_uint_eq(len, 3);
	for (size_t n = 0; n < sizeof(b); n++) {
		w = wire_reader(b, n);
		len = 99;
		ck_assert_ptr_null(wire_get_blob(&w, &len));
		ck_assert(w.error);
		ck_assert_uint_eq(len, 0);
	}
	w = wire_reader(b, sizeof(b));
	ck_assert_ptr_null(wire_get_bytes(&w, SIZE_MAX));
	ck_assert(w.error);
}

TEST(wire_blob_written_is_read_back_and_too_long_writes_nothing)
{
	uint8_t b[8] = {0};
	uint16_t len;
	struct wire w = wire_writer(b, 7);

	wire_put_blob(&w, "hello", 5);
	ck_assert(!w.error);
	w = wire_reader(b, 7);
	ck_assert_mem_eq(wire_get_blob(&w, &len), "hello", 5);
	for (size_t cap = 0; cap < 7; cap++) {
		memset(b, 0xEE, sizeof(b));
		w = wire_writer(b, cap);
		wire_put_blob(&w, "hello", 5);
		ck_assert(w.error);
		ck_assert_uint_eq(wire_left(&w), cap);
		for (size_t i = 0; i < sizeof(b); i++)
			ck_assert_uint_eq(b[i], 0xEE);
	}
}

TEST(wire_null_is_empty_and_full)
{
	struct wire w = wire_reader(NULL, 8);

	ck_assert_uint_eq(wire_left(&w), 0);
	ck_assert_uint_eq(wire_get_u8(&w), 0);
	ck_assert(w.error);
	w = wire_writer(NULL, 8);
	wire_put_u8(&w, 1);
	ck_assert(w.error);
}

TEST_SUITE("wire")
