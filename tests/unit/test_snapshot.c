/* SPDX-License-Identifier: BSD-3-Clause */
/* Snapshot files: their bytes, and that none that is cut, flipped or forged is taken for whole. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"
#include "common/region/hash.h"
#include "common/snapshot/snapshot.h"
#include "tests/rig/cases.h"

#define MOMENT UINT64_C(1800000000123)

static uint8_t *file;
static size_t size;

static const struct snapshot_record few[] = {
	{"a", "one", 1, 3, 7, 0, 0},
	{"bb", "", 2, 0, UINT64_MAX, 5000, 0xfedcba98},
	{"\0key", "\0value\n", 4, 7, 1, 0, 1},
};

static int memory_file(const void *data, size_t len)
{
	int fd = memfd_create("snapshot", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, data, len), (ssize_t)len);
	ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

/* What the writer made of these records is then in `file`. */
static void save(const struct snapshot_record *recs, size_t n)
{
	int fd = memory_file("", 0);
	struct snapshot_writer w = {.fd = fd, .name = "file"};

	ck_assert_int_eq(snapshot_write_begin(&w, MOMENT), 0);
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(snapshot_write(&w, &recs[i]), 0);
	w.totals.took_ms = 12;
	ck_assert_int_eq(snapshot_write_end(&w), 0);
	ck_assert_uint_eq(w.totals.records, n);
	size = (size_t)w.bytes;
	snapshot_write_free(&w);
	free(file);
	file = malloc(size + 1);
	ck_assert_int_eq(pread(fd, file, size + 1, 0), (ssize_t)size);
	close(fd);
}

static bool same(const struct snapshot_record *a, const struct snapshot_record *b)
{
	return a->key_len == b->key_len && memcmp(a->key, b->key, a->key_len) == 0 &&
	       a->value_len == b->value_len && memcmp(a->value, b->value, a->value_len) == 0 &&
	       a->version == b->version && a->ttl_ms == b->ttl_ms && a->user == b->user;
}

/* Read a file whose records, as far as there are any, are the first of these. */
static int read_file(const void *data, size_t len, const struct snapshot_record *recs,
		     size_t *n_out)
{
	int fd = memory_file(data, len), err;
	struct snapshot_reader r = {.fd = fd, .name = "file"};
	struct snapshot_record rec;
	bool got = true;

	*n_out = 0;
	err = snapshot_read_begin(&r);
	while (!err && got) {
		err = snapshot_read_chunk(&r, &got);
		while (!err && snapshot_next(&r, &rec))
			ck_assert(same(&rec, &recs[(*n_out)++]));
	}
	if (!err) {
		ck_assert_uint_eq(r.moment_ms, MOMENT);
		ck_assert_uint_eq(r.totals.records, *n_out);
		ck_assert_uint_eq(r.totals.took_ms, 12);
		ck_assert_uint_eq(r.bytes, len);
	}
	snapshot_read_free(&r);
	close(fd);
	return err;
}

static void is_refused(const void *data, size_t len, const char *why)
{
	size_t n;

	err_clear();
	ck_assert_int_eq(read_file(data, len, few, &n), FARKV_EFORMAT);
	ck_assert_msg(strstr(err_detail(), "file: ") == err_detail() && strstr(err_detail(), why),
		      "%s", err_detail());
}

TEST(records_written_are_the_records_read)
{
	size_t n;

	save(few, ARRAY_SIZE(few));
	ck_assert_int_eq(read_file(file, size, few, &n), 0);
	ck_assert_uint_eq(n, ARRAY_SIZE(few));
	save(few, 0);
	ck_assert_uint_eq(size, SNAPSHOT_HEADER_BYTES + SNAPSHOT_TRAILER_BYTES);
	ck_assert_int_eq(read_file(file, size, few, &n), 0);
	ck_assert_uint_eq(n, 0);
}

static uint64_t at(size_t off, size_t bytes)
{
	uint64_t v = 0;

	memcpy(&v, file + off, bytes);
	return v;
}

/* The bytes of the document, on a little-endian machine. */
TEST(bytes_are_those_of_the_document)
{
	size_t chunk = SNAPSHOT_HEADER_BYTES, rec, tail;
	static const uint8_t first[] = {1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0,
					0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'a', 'o', 'n', 'e'};
	XXH3_state_t *sum = XXH3_createState();

	save(few, ARRAY_SIZE(few));
	ck_assert_int_eq(memcmp(file, "farkvsnp\1\0\0\0\0\0\0\0", 16), 0);
	ck_assert_uint_eq(at(16, 8), MOMENT);
	ck_assert_uint_eq(at(24, 8), XXH3_64bits(file, 24));
	ck_assert_int_eq(memcmp(file + chunk, "CHNK\3\0\0\0\0\0\0\0\0\0\0\0", 16), 0);
	ck_assert_uint_eq(at(chunk + 16, 8), 3 * 32 + 4 + 2 + 11);
	rec = chunk + 40;
	ck_assert_uint_eq(at(chunk + 24, 8), XXH3_64bits(file + rec, 3 * 32 + 17));
	ck_assert_uint_eq(at(chunk + 32, 8), XXH3_64bits(file + chunk, 32));
	ck_assert_int_eq(memcmp(file + rec, first, sizeof(first)), 0);
	rec += sizeof(first);
	ck_assert_uint_eq(at(rec + 4, 4), 0xfedcba98);
	ck_assert_uint_eq(at(rec + 24, 8), 5000);
	tail = chunk + 40 + 3 * 32 + 17;
	ck_assert_int_eq(memcmp(file + tail, "TAIL\0\0\0\0\1\0\0\0\0\0\0\0\3", 17), 0);
	ck_assert_uint_eq(at(tail + 24, 8), 7);
	ck_assert_uint_eq(at(tail + 32, 8), 10);
	ck_assert_uint_eq(at(tail + 40, 8), 1);
	ck_assert_uint_eq(at(tail + 48, 8), 12);
	XXH3_64bits_reset(sum);
	XXH3_64bits_update(sum, file, 32);
	XXH3_64bits_update(sum, file + chunk, 40);
	XXH3_64bits_update(sum, file + tail, 56);
	ck_assert_uint_eq(at(tail + 56, 8), XXH3_64bits_digest(sum));
	ck_assert_uint_eq(size, tail + 64);
	XXH3_freeState(sum);
}

TEST(file_cut_at_any_byte_is_refused)
{
	save(few, ARRAY_SIZE(few));
	for (size_t len = 0; len < 8; len++)
		is_refused(file, len, "no snapshot");
	for (size_t len = 8; len < size; len++) {
		char where[40];

		snprintf(where, sizeof(where), "cut off at byte %zu;", len);
		is_refused(file, len, where);
	}
	file[size] = 0;
	is_refused(file, size + 1, "more bytes follow");
}

TEST(file_with_any_bit_flipped_is_refused)
{
	save(few, ARRAY_SIZE(few));
	for (size_t bit = 0; bit < 8 * size; bit++) {
		size_t off = bit / 8 - SNAPSHOT_HEADER_BYTES;
		bool frame = off >= 4 && off < SNAPSHOT_FRAME_BYTES;

		file[bit / 8] ^= (uint8_t)(1u << bit % 8);
		is_refused(file, size, frame ? "the checksum of its header differs" : "");
		file[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

/* ---- several chunks --------------------------------------------------------------- */

#define MANY 5u
static struct snapshot_record many[MANY];
static char *big;

/* Chunks: 0 with records 0 and 1, 1 with record 2 of 3 MiB, 2 with 3 and 4. */
static void save_many(void)
{
	static const size_t lens[MANY] = {500000, 500000, 3 << 20, 1000, 1000};
	static const char *const keys[MANY] = {"0", "1", "2", "3", "4"};

	big = realloc(big, 3 << 20);
	for (size_t i = 0; i < 3 << 20; i++)
		big[i] = (char)(i * i >> 8);
	for (size_t i = 0; i < MANY; i++)
		many[i] = (struct snapshot_record){.key = keys[i], .key_len = 1,
						   .value = big + i, .value_len = lens[i] - i};
	save(many, MANY);
}

static size_t chunk_begin(unsigned number)
{
	size_t off = SNAPSHOT_HEADER_BYTES;

	while (number--)
		off += SNAPSHOT_FRAME_BYTES + at(off + 16, 8);
	return off;
}

TEST(record_over_a_chunk_is_a_chunk_of_its_own)
{
	size_t n;

	save_many();
	ck_assert_int_eq(read_file(file, size, many, &n), 0);
	ck_assert_uint_eq(n, MANY);
	ck_assert_uint_eq(at(chunk_begin(0) + 4, 4), 2);
	ck_assert_uint_eq(at(chunk_begin(1) + 4, 4), 1);
	ck_assert_uint_gt(at(chunk_begin(1) + 16, 8), SNAPSHOT_CHUNK);
	ck_assert_uint_eq(at(chunk_begin(2) + 4, 4), 2);
	ck_assert_uint_eq(chunk_begin(3) + SNAPSHOT_TRAILER_BYTES, size);
}

TEST(chunk_that_is_damaged_lets_only_those_before_it_through)
{
	size_t n;

	save_many();
	file[chunk_begin(2) + SNAPSHOT_FRAME_BYTES + 1500] ^= 1;
	ck_assert_int_eq(read_file(file, size, many, &n), FARKV_EFORMAT);
	ck_assert_ptr_nonnull(strstr(err_detail(), "chunk 2"));
	ck_assert_uint_eq(n, 3);
}

TEST(chunk_that_is_missing_or_twice_there_is_refused)
{
	size_t second, third, n;
	uint8_t *twice;

	save_many();
	second = chunk_begin(1);
	third = chunk_begin(2);
	twice = malloc(size + (third - second));
	memcpy(twice, file, third);
	memcpy(twice + third, file + second, size - second);
	ck_assert_int_eq(read_file(twice, size + third - second, many, &n), FARKV_EFORMAT);
	ck_assert_ptr_nonnull(strstr(err_detail(), "another chunk is in its place"));
	memmove(file + second, file + third, size - third);
	ck_assert_int_eq(read_file(file, size - (third - second), many, &n), FARKV_EFORMAT);
	ck_assert_ptr_nonnull(strstr(err_detail(), "another chunk is in its place"));
	ck_assert_uint_eq(n, 2);
	free(twice);
}

/* The last chunk missing leaves an end whose totals differ. */
TEST(end_of_another_file_is_refused)
{
	size_t n;

	save_many();
	memmove(file + chunk_begin(2), file + chunk_begin(3), SNAPSHOT_TRAILER_BYTES);
	ck_assert_int_eq(read_file(file, chunk_begin(2) + SNAPSHOT_TRAILER_BYTES, many, &n),
			 FARKV_EFORMAT);
	ck_assert_ptr_nonnull(strstr(err_detail(), "whole file differs"));
}

/* ---- forged: every checksum right --------------------------------------------------- */

static void put(size_t off, uint64_t v, size_t bytes)
{
	memcpy(file + off, &v, bytes);
}

/* Make the sums of a file of one chunk right. */
static void seal(void)
{
	size_t chunk = SNAPSHOT_HEADER_BYTES, tail = size - SNAPSHOT_TRAILER_BYTES;
	size_t rec = chunk + SNAPSHOT_FRAME_BYTES;
	XXH3_state_t *sum = XXH3_createState();

	put(24, XXH3_64bits(file, 24), 8);
	put(chunk + 24, XXH3_64bits(file + rec, tail - rec), 8);
	put(chunk + 32, XXH3_64bits(file + chunk, 32), 8);
	XXH3_64bits_reset(sum);
	XXH3_64bits_update(sum, file, 32);
	XXH3_64bits_update(sum, file + chunk, 40);
	XXH3_64bits_update(sum, file + tail, 56);
	put(tail + 56, XXH3_64bits_digest(sum), 8);
	XXH3_freeState(sum);
}

static const struct {
	size_t off; /* from the chunk's begin, or the file's */
	uint64_t value;
	size_t bytes;
	bool header; /* from the file's */
	const char *why;
} forged[] = {
	{8, 2, 4, true, "format 2 with flags 0, but this program reads format 1"},
	{12, 1, 4, true, "format 1 with flags 1"},
	{4, 0, 4, false, "its header is malformed"},
	{4, 2, 4, false, "its records are malformed"},
	{4, 4, 4, false, "its records are malformed"},
	{8, 1, 8, false, "another chunk is in its place"},
	{16, 112, 8, false, "its checksum differs"},
	{16, SNAPSHOT_CHUNK + 1, 8, false, "its header is malformed"},
	{40, 0, 2, false, "its records are malformed"},      /* no key */
	{42, 1, 2, false, "its records are malformed"},      /* unknown flags */
	{48, 4, 8, false, "its records are malformed"},      /* the value's end is elsewhere */
	{48, UINT64_MAX, 8, false, "its records are malformed"},
	{40, 65535, 2, false, "its records are malformed"},
	{113 + 40 + 4, 1, 4, false, "totals at the end differ"},
	{113 + 40 + 8, 2, 8, false, "totals at the end differ"},
	{113 + 40 + 16, 2, 8, false, "totals at the end differ"},
	{113 + 40 + 24, 2, 8, false, "totals at the end differ"},
	{113 + 40 + 32, 2, 8, false, "totals at the end differ"},
	{113 + 40 + 40, 2, 8, false, "totals at the end differ"},
};

TEST_EACH(forged_file_is_refused, forged)
{
	save(few, ARRAY_SIZE(few));
	put(forged[_i].off + (forged[_i].header ? 0 : SNAPSHOT_HEADER_BYTES), forged[_i].value,
	    forged[_i].bytes);
	seal();
	is_refused(file, size, forged[_i].why);
}

/* A chunk that claims to be huge takes memory only as it arrives. */
TEST(chunk_of_any_claimed_length_is_cut_off)
{
	save(few, 1);
	put(SNAPSHOT_HEADER_BYTES + 16, UINT64_MAX - 7, 8);
	seal();
	is_refused(file, size, "cut off");
}

/* ---- descriptors -------------------------------------------------------------------- */

TEST(disk_that_is_full_is_an_error)
{
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct snapshot_writer w = {.fd = fd, .name = "file"};

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(snapshot_write_begin(&w, MOMENT), FARKV_ESYS);
	ck_assert_ptr_nonnull(strstr(err_detail(), "cannot write file: No space left"));
	snapshot_write_free(&w);
	close(fd);
}

TEST(folder_cannot_be_read)
{
	int fd = open("/", O_RDONLY | O_CLOEXEC);
	struct snapshot_reader r = {.fd = fd, .name = "file"};

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(snapshot_read_begin(&r), FARKV_ESYS);
	snapshot_read_free(&r);
	close(fd);
}

TEST(signal_ends_reading_and_writing)
{
	static volatile sig_atomic_t stop;
	int fd = memory_file("", 0);
	struct snapshot_writer w = {.fd = fd, .name = "file", .stop = &stop};
	struct snapshot_reader r = {.fd = fd, .name = "file", .stop = &stop};

	ck_assert_int_eq(snapshot_write_begin(&w, MOMENT), 0);
	stop = SIGTERM;
	ck_assert_int_eq(snapshot_write_end(&w), FARKV_EABORTED);
	ck_assert_int_eq(snapshot_read_begin(&r), FARKV_EABORTED);
	ck_assert_int_eq(lseek(fd, 0, SEEK_END), SNAPSHOT_HEADER_BYTES);
	snapshot_write_free(&w);
	snapshot_read_free(&r);
	close(fd);
}

TEST_SUITE("snapshot")
