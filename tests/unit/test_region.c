/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's memory: pages, and the region that holds them. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/err.h"
#include "server/memory/heap.h"
#include "server/memory/region.h"
#include "tests/rig/cases.h"

#define FIRST 64

/* ---- heap ------------------------------------------------------------------------ */

TEST(heap_take_gives_runs_and_takes_them_back)
{
	struct heap *h = heap_new(FIRST, 10 + HEAP_RESERVE);
	uint64_t a, b, c;

	ck_assert_uint_eq(heap_total(h), 10 + HEAP_RESERVE);
	a = heap_take(h, 4);
	b = heap_take(h, 3);
	c = heap_take(h, 3);
	ck_assert_uint_eq(a, FIRST);
	ck_assert_uint_eq(b, FIRST + 4);
	ck_assert_uint_eq(c, FIRST + 7);
	ck_assert_uint_eq(heap_used(h), 10);
	ck_assert_uint_eq(heap_take(h, 1), 0);
	heap_give(h, b, 3);
	ck_assert_uint_eq(heap_take(h, 4), 0);
	ck_assert_uint_eq(heap_take(h, 2), b);
	ck_assert_uint_eq(heap_take(h, 1), b + 2);
	heap_give(h, a, 4);
	heap_give(h, b, 3);
	ck_assert_uint_eq(heap_take(h, 7), a);
	ck_assert_uint_eq(heap_take(h, 0), 0);
	heap_free(h);
}

static uint64_t told, told_low, told_high;

static void note_spread(void *arg, uint64_t low, uint64_t high)
{
	ck_assert_ptr_eq(arg, &told);
	told++;
	told_low = low;
	told_high = high;
}

TEST(heap_reports_its_used_extent)
{
	struct heap *h = heap_new(FIRST, 20 + HEAP_RESERVE);
	uint64_t a = heap_take(h, 4);

	ck_assert_uint_eq(heap_take_index(h), FIRST + 19 + HEAP_RESERVE);
	heap_watch(h, note_spread, &told);
	ck_assert_uint_eq(told, 1);
	ck_assert_uint_eq(told_low, 4);
	ck_assert_uint_eq(told_high, 1);
	heap_give(h, a, 4);
	ck_assert_uint_eq(heap_take(h, 3), a); /* where some have been */
	ck_assert_uint_eq(told, 1);
	ck_assert_uint_eq(heap_take(h, 3), a + 3);
	ck_assert_uint_eq(told, 2);
	ck_assert_uint_eq(told_low, 6);
	ck_assert_uint_ne(heap_take_index(h), 0);
	ck_assert_uint_eq(told, 3);
	ck_assert_uint_eq(told_low, 6);
	ck_assert_uint_eq(told_high, 2);
	heap_free(h);
}

TEST(heap_take_finds_runs_of_any_length)
{
	struct heap *h = heap_new(FIRST, 10 + HEAP_RESERVE);
	uint64_t a = heap_take(h, 10);

	heap_give(h, a + 2, 2);
	heap_give(h, a + 5, 2);
	ck_assert_uint_eq(heap_take(h, 3), 0);
	ck_assert_uint_eq(heap_take(h, 3), 0);
	ck_assert_uint_eq(heap_take(h, 2), a + 2);
	heap_give(h, a + 7, 1);
	ck_assert_uint_eq(heap_take(h, 3), a + 5);
	heap_free(h);
}

/* Values come and go below; a large one finds all pages outside of the index. */
/* A run between others leaves no gap that its neighbour cannot fill. */
TEST(heap_take_aligns_runs_where_possible)
{
	struct heap *h = heap_new(FIRST, 64 + HEAP_RESERVE);

	ck_assert_uint_eq(heap_take(h, 1), FIRST);
	ck_assert_uint_eq(heap_take(h, 2), FIRST + 2);
	ck_assert_uint_eq(heap_take(h, 3), FIRST + 4);
	ck_assert_uint_eq(heap_take(h, 4), FIRST + 8);
	ck_assert_uint_eq(heap_take(h, 16), FIRST + 16);
	ck_assert_uint_eq(heap_take(h, 12), FIRST + 12 + 20);
	heap_give(h, FIRST, 1);
	ck_assert_uint_eq(heap_take(h, 2), FIRST);
	/* Unaligned rather than not at all: 20 pages are left from 44 on. */
	ck_assert_uint_eq(heap_take(h, 19), FIRST + 44);
	ck_assert_uint_eq(heap_take(h, 1), FIRST + 7);
	heap_give(h, FIRST + 5, 2);
	heap_give(h, FIRST + 17, 2);
	ck_assert_uint_eq(heap_take(h, 2), FIRST + 12);
	ck_assert_uint_eq(heap_take(h, 2), FIRST + 14);
	ck_assert_uint_eq(heap_take(h, 2), FIRST + 64);
	ck_assert_uint_eq(heap_take(h, 2), FIRST + 5);
	heap_free(h);
}

TEST(heap_take_looks_for_aligned_runs_nearby)
{
	enum { NEAR = 4096 };
	struct heap *h = heap_new(FIRST, 2 * NEAR);

	ck_assert_uint_eq(heap_take(h, 2 * NEAR - HEAP_RESERVE), FIRST);
	ck_assert_uint_ne(heap_take_index(h), 0);
	ck_assert_uint_ne(heap_take_index(h), 0);
	heap_give(h, FIRST + 5, 2);
	heap_give(h, FIRST + 5 + NEAR + 1, 2);
	heap_give(h, FIRST + NEAR, 2);
	ck_assert_uint_eq(heap_take(h, 2), FIRST + NEAR);
	ck_assert_uint_eq(heap_take(h, 2), FIRST + 5);
	heap_free(h);
}

TEST(heap_take_index_takes_the_highest)
{
	struct heap *h = heap_new(FIRST, 10 + HEAP_RESERVE);
	uint64_t last = FIRST + 10 + HEAP_RESERVE - 1, a;

	ck_assert_uint_eq(heap_take_index(h), last);
	a = heap_take(h, 2);
	ck_assert_uint_eq(a, FIRST);
	ck_assert_uint_eq(heap_take_index(h), last - 1);
	heap_retire(h, last, 1);
	ck_assert_uint_eq(heap_take_index(h), last - 2);
	ck_assert(heap_barrier_begin(h));
	heap_barrier_passed(h);
	ck_assert_uint_eq(heap_take_index(h), last);
	heap_give(h, a, 2);
	ck_assert_uint_eq(heap_take(h, 7), FIRST);
	for (uint64_t page = last - 3; page >= FIRST + 7; page--)
		ck_assert_uint_eq(heap_take_index(h), page);
	ck_assert_uint_eq(heap_take_index(h), 0);
	ck_assert_uint_eq(heap_used(h), 10 + HEAP_RESERVE);
	heap_give(h, FIRST + 3, 1);
	ck_assert_uint_eq(heap_take_index(h), FIRST + 3);
	heap_free(h);
}

TEST(heap_retire_pages_are_free_after_a_barrier_that_began_later)
{
	struct heap *h = heap_new(FIRST, 10 + HEAP_RESERVE);
	uint64_t a = heap_take(h, 10);

	ck_assert(!heap_barrier_begin(h));
	heap_retire(h, a, 4);
	ck_assert(heap_barrier_begin(h));
	heap_retire(h, a + 4, 6);
	ck_assert_uint_eq(heap_retired(h), 10);
	ck_assert_uint_eq(heap_take(h, 1), 0);
	heap_barrier_passed(h);
	ck_assert_uint_eq(heap_retired(h), 6);
	ck_assert_uint_eq(heap_left(h), 4);
	ck_assert_uint_eq(heap_take(h, 5), 0);
	ck_assert_uint_eq(heap_take(h, 4), a);
	ck_assert(heap_barrier_begin(h));
	heap_barrier_passed(h);
	ck_assert_uint_eq(heap_take(h, 6), a + 4);
	ck_assert_uint_eq(heap_used(h), 10);
	heap_free(h);
}

/* ---- region ---------------------------------------------------------------------- */

static const struct region_config config = {
	.memory = 16 << 20,
	.max_value = 1 << 20,
	.max_key = 100,
	.grace_ns = 100,
};

static void check_sealed(int fd, uint64_t bytes)
{
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_uint_eq(st.st_size, bytes);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert_int_ne(ftruncate(fd, (off_t)bytes / 2), 0);
	ck_assert_int_ne(ftruncate(fd, (off_t)bytes * 2), 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_uint_eq(st.st_size, bytes);
}

TEST(region_is_sealed_and_metadata_cannot_be_written)
{
	struct region r;
	char path[64];
	uint64_t data;
	void *p;
	int fd;

	ck_assert_int_eq(region_create(&config, &r), 0);
	ck_assert_int_eq(superblock_verify(&r.sb), 0);
	ck_assert_mem_eq(r.meta, &r.sb, sizeof(r.sb));
	data = r.sb.region_bytes - r.sb.meta_bytes;
	ck_assert_uint_eq(data, 16 << 20);
	check_sealed(r.meta_fd, r.sb.meta_bytes);
	check_sealed(r.data_fd, data);
	/* A client that may write must not be able to seal the file against others. */
	ck_assert_int_lt(fcntl(r.data_fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
	ck_assert_int_eq(errno, EPERM);
	/* Nobody can map the metadata for writing again, not even root. */
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, r.meta_fd, 0);
	ck_assert_ptr_eq(p, MAP_FAILED);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, r.meta_ro_fd,
		 0);
	ck_assert_ptr_eq(p, MAP_FAILED);
	ck_assert_int_lt(pwrite(r.meta_fd, "x", 1, 0), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", r.meta_ro_fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		ck_assert_int_lt(pwrite(fd, "x", 1, 0), 0);
		p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		ck_assert_ptr_eq(p, MAP_FAILED);
		close(fd);
	}
	/* A read-only client's descriptor of the data cannot be written. */
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, r.data_ro_fd,
		 0);
	ck_assert_ptr_eq(p, MAP_FAILED);
	ck_assert_int_eq(errno, EACCES);
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, r.data_ro_fd, 0);
	ck_assert_ptr_ne(p, MAP_FAILED);
	munmap(p, 4096);
	ck_assert_mem_eq(r.meta, &r.sb, sizeof(r.sb));
	region_destroy(&r);
}

TEST(region_directory_leads_to_empty_subtables)
{
	struct region_config c = config;
	struct region r;
	const uint64_t *d, *array;

	c.index_slots = 3 * SUBTABLE_SLOTS; /* rounded up to four */
	ck_assert_int_eq(region_create(&c, &r), 0);
	ck_assert_uint_eq(r.subtables, 4);
	d = (const uint64_t *)(const void *)(r.meta + REGION_D_OFF);
	ck_assert_uint_eq(*d, dirword_pack(region_dir_off(2), 2));
	array = (const uint64_t *)(const void *)(r.meta + region_dir_off(2));
	for (unsigned i = 0; i < 4; i++) {
		const uint64_t *slot;

		ck_assert(region_page_ok(&r.sb, entry_page(array[i])));
		ck_assert_uint_eq(entry_depth(array[i]), 2);
		slot = region_at(&r, entry_page(array[i]) * PAGE_BYTES);
		for (unsigned s = 0; s < SUBTABLE_SLOTS; s++)
			ck_assert_uint_eq(slot[s],
					  slot_empty(entry_gen(array[i])));
		for (unsigned j = 0; j < i; j++) {
			ck_assert_uint_ne(entry_page(array[i]),
					  entry_page(array[j]));
			ck_assert_uint_ne(entry_gen(array[i]),
					  entry_gen(array[j]));
		}
	}
	ck_assert_uint_eq(heap_used(r.heap), 4);
	region_destroy(&r);
}

TEST(region_ids_differ)
{
	struct region a, b;

	ck_assert_int_eq(region_create(&config, &a), 0);
	ck_assert_int_eq(region_create(&config, &b), 0);
	ck_assert_mem_ne(a.sb.region_id, b.sb.region_id, 16);
	ck_assert_uint_ne(a.sb.hash_seed, b.sb.hash_seed);
	region_destroy(&a);
	region_destroy(&b);
}

TEST(region_with_too_large_an_index_is_refused)
{
	struct region_config c = config;
	struct region r;

	memset(&r, 0xA5, sizeof(r));
	c.index_slots = 1 << 21;
	ck_assert_int_eq(region_create(&c, &r), FARKV_EINVAL);
	ck_assert_ptr_nonnull(strstr(err_detail(), "index-slots: 2097152"));
	ck_assert_int_eq(r.meta_fd, (int)0xA5A5A5A5);
}

TEST_SUITE("region")
