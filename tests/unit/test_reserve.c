/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages are allocated before they are granted; and the memory limits of a machine and its
 * cgroups.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/err.h"
#include "server/memory/memlimit.h"
#include "tests/rig/cases.h"

/* The kernel and the limits, played by the test. */
static int refuses; /* errno of fallocate(2), or 0 */
static uint64_t most = UINT64_MAX; /* bytes in one call */
static uint64_t left = UINT64_MAX;
static unsigned calls, looks;

static int allocate(int fd, int mode, off_t off, off_t n)
{
	calls++;
	errno = (uint64_t)n > most ? ENOSPC : refuses;
	return errno ? -1 : (fallocate)(fd, mode, off, n);
}

static void look(const char *root, struct room *out)
{
	looks++;
	ck_assert_str_eq(root, "");
	*out = (struct room){.total = left, .left = left};
}

#define fallocate(fd, mode, off, n) allocate(fd, mode, off, n)
#define memlimit_read look
#include "server/memory/reserve.c"
#undef memlimit_read
#undef fallocate

#include "server/memory/region.h"

#define MIB (UINT64_C(1) << 20)

static struct reserve *r;
static int fd;

static void setup(bool bounded)
{
	refuses = 0;
	calls = looks = 0;
	most = left = UINT64_MAX;
	fd = memfd_create("test", 0);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, 64 * MIB), 0);
	r = reserve_new(fd, bounded);
	ck_assert_ptr_nonnull(r);
}

static void teardown(void)
{
	reserve_free(r);
	close(fd);
}

static uint64_t taken(void)
{
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

/* ---- reserve --------------------------------------------------------------------- */

TEST(reserve_takes_bytes_from_the_kernel_and_extra_ones)
{
	setup(true);
	ck_assert_uint_eq(taken(), 0);
	ck_assert_uint_eq(reserve_bytes(r, MIB, MIB, 0), MIB);
	ck_assert_uint_eq(taken(), MIB);
	ck_assert_uint_eq(reserve_bytes(r, 2 * MIB, MIB, 3 * MIB), 4 * MIB);
	ck_assert_uint_eq(taken(), 5 * MIB);
	ck_assert_uint_eq(reserve_refused(r), 0);
	teardown();
}

TEST(reserve_takes_no_extra_bytes_when_memory_is_short)
{
	setup(true);
	most = MIB;
	ck_assert_uint_eq(reserve_bytes(r, 0, MIB, MIB), MIB);
	ck_assert_uint_eq(reserve_refused(r), 0);
	teardown();
}

TEST_LOOP(reserve_refused_once_is_refused_for_a_while, 0, 2)
{
	static const int why[] = {ENOSPC, ENOMEM};

	setup(true);
	refuses = why[_i];
	ck_assert_uint_eq(reserve_bytes(r, 0, MIB, MIB), 0);
	ck_assert_ptr_nonnull(strstr(err_detail(), strerror(why[_i])));
	ck_assert(reserve_failing(r));
	ck_assert_uint_eq(reserve_refused(r), 1);
	/* At once, without a call. */
	refuses = 0;
	calls = 0;
	r->again_ns = UINT64_MAX;
	ck_assert_uint_eq(reserve_bytes(r, 0, MIB, 0), 0);
	ck_assert_uint_eq(calls, 0);
	r->again_ns = 0;
	ck_assert_uint_eq(reserve_bytes(r, 0, MIB, 0), MIB);
	ck_assert(!reserve_failing(r));
	teardown();
}

TEST(reserve_beyond_a_limit_does_not_ask_the_kernel)
{
	setup(true);
	left = 20 * MIB;
	ck_assert_uint_eq(reserve_bytes(r, 0, MIB, 0), MIB);
	ck_assert_uint_eq(looks, 1);
	/* An eighth of the rest is assumed to be available. */
	ck_assert_uint_eq(reserve_bytes(r, MIB, MIB, 0), MIB);
	ck_assert_uint_eq(looks, 1);
	left = MIB / 2;
	ck_assert_uint_eq(reserve_bytes(r, 2 * MIB, MIB, 0), 0);
	ck_assert_uint_eq(taken(), 2 * MIB);
	teardown();
}

/* Of what another thread is just taking the limits' usage may show nothing yet. */
TEST(reserve_leaves_what_another_thread_was_admitted_to_take)
{
	setup(true);
	left = 20 * MIB;
	ck_assert(!limits_admit(16 * MIB, 5 * MIB));
	ck_assert(limits_admit(16 * MIB, 4 * MIB));
	ck_assert(!limits_admit(3 * MIB, 2 * MIB));
	ck_assert_uint_eq(reserve_bytes(r, 0, 5 * MIB, 0), 0);
	r->again_ns = 0;
	ck_assert_uint_eq(reserve_bytes(r, 0, 4 * MIB, 0), 4 * MIB);
	limits_taken(16 * MIB);
	ck_assert_uint_eq(reserve_bytes(r, 4 * MIB, 20 * MIB, 0), 20 * MIB);
	teardown();
}

TEST(reserve_of_present_pages_needs_no_memory)
{
	uint8_t *p;

	setup(true);
	p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(p, MAP_FAILED);
	memset(p, 1, MIB);
	left = 0;
	ck_assert_uint_eq(reserve_bytes(r, 0, MIB, 0), MIB);
	ck_assert_uint_eq(calls, 0);
	munmap(p, MIB);
	teardown();
}

/* Its reserved pages are in no account. */
TEST(reserve_from_a_huge_page_pool_has_no_limit)
{
	setup(false);
	left = 0;
	ck_assert_uint_eq(reserve_bytes(r, 0, MIB, 0), MIB);
	ck_assert_uint_eq(looks, 0);
	teardown();
}

/* ---- the heap -------------------------------------------------------------------- */

static uint8_t backed[1000];
static uint64_t pages_left;

static uint64_t back(void *arg, uint64_t at, uint64_t n, uint64_t more)
{
	ck_assert_ptr_null(arg);
	if (n > pages_left)
		return 0;
	n += n + more <= pages_left ? more : 0;
	for (uint64_t i = at; i < at + n; i++) {
		ck_assert_uint_eq(backed[i], 0);
		backed[i] = 1;
	}
	pages_left -= n;
	return n;
}

static void check_backed(uint64_t page, uint64_t n)
{
	for (uint64_t i = page - 7; i < page - 7 + n; i++)
		ck_assert_uint_eq(backed[i], 1);
}

TEST(heap_take_gives_backed_pages_only)
{
	struct heap *h = heap_new(7, 1000);
	uint64_t at, n;

	pages_left = 1000;
	heap_set_back(h, back, NULL);
	for (unsigned i = 0;; i++) {
		n = i % 3 == 0 ? 1 : 1 + i % 8;
		at = i % 3 == 0 ? heap_take_index(h) : heap_take(h, n);
		if (!at)
			break;
		check_backed(at, n);
		if (i % 7 == 0)
			heap_give(h, at, n);
	}
	ck_assert_uint_gt(heap_used(h), 900);
	heap_free(h);
}

TEST(heap_take_fails_when_the_machine_has_no_memory)
{
	struct heap *h = heap_new(7, 1000);
	uint64_t low, high, n;

	pages_left = 12;
	heap_set_back(h, back, NULL);
	low = heap_take(h, 8);
	high = heap_take_index(h);
	ck_assert_uint_eq(pages_left, 12 - 8 - 1 - HEAP_RESERVE);
	ck_assert_uint_ne(low, 0);
	ck_assert_uint_ne(high, 0);
	n = heap_used(h);
	ck_assert_uint_eq(heap_take(h, 8), 0);
	ck_assert_uint_eq(heap_used(h), n);
	/* The index can grow for a while; returned pages serve it. */
	for (unsigned i = 0; i < HEAP_RESERVE; i++)
		ck_assert_uint_ne(heap_take_index(h), 0);
	while (heap_take_index(h))
		;
	ck_assert_uint_eq(heap_take_index(h), 0);
	heap_give(h, low, 8);
	ck_assert_uint_eq(heap_take(h, 8), low);
	heap_give(h, high, 1);
	ck_assert_uint_eq(heap_take_index(h), high);
	/* And when there is memory again. */
	pages_left = 100;
	ck_assert_uint_ne(heap_take(h, 8), 0);
	heap_free(h);
}

/* ---- the region ------------------------------------------------------------------ */

static uint64_t blocks_of(int file)
{
	struct stat st;

	ck_assert_int_eq(fstat(file, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

TEST(region_create_takes_little_and_all_that_it_will_touch)
{
	struct region_config cfg = {.memory = 64 * MIB, .max_value = MIB,
				    .max_key = 100, .grace_ns = 1000000,
				    .pages = PAGES_NEVER};
	struct region region;
	uint64_t before;

	ck_assert_int_eq(region_create(&cfg, &region), 0);
	before = blocks_of(region.data_fd);
	ck_assert_uint_le(before, 4 * PAGE_BYTES);
	ck_assert_uint_gt(before, 0);
	/* The first value's pages are allocated with it, before it is written. */
	ck_assert_uint_ne(heap_take(region.heap, 8), 0);
	ck_assert_uint_ge(blocks_of(region.data_fd), before + 8 * PAGE_BYTES);
	region_destroy(&region);
}

TEST(region_create_for_a_device_takes_all)
{
	struct region_config cfg = {.memory = 16 * MIB, .max_value = MIB,
				    .max_key = 100, .grace_ns = 1000000,
				    .pages = PAGES_NEVER, .pinned = true};
	struct region region;

	ck_assert_int_eq(region_create(&cfg, &region), 0);
	ck_assert_uint_ge(blocks_of(region.data_fd), 16 * MIB);
	ck_assert_uint_ge(blocks_of(region.meta_fd), region.sb.meta_bytes);
	region_destroy(&region);
	/* More than the machine has: refused before anything is allocated. */
	cfg.memory = UINT64_C(511) << 30;
	ck_assert_int_eq(region_create(&cfg, &region), FARKV_ENOMEM);
	ck_assert_ptr_nonnull(strstr(err_detail(), "RDMA pins all of it"));
}

/* ---- limits of machines ------------------------------------------------------------ */

static char root[] = "/tmp/farkv-room-XXXXXX";

static void file(const char *path, const char *text)
{
	char command[600];
	FILE *out;

	snprintf(command, sizeof(command), "mkdir -p $(dirname '%s%s')", root, path);
	ck_assert_int_eq(system(command), 0);
	snprintf(command, sizeof(command), "%s%s", root, path);
	out = fopen(command, "w");
	ck_assert_ptr_nonnull(out);
	fputs(text, out);
	fclose(out);
}

static void machine(void)
{
	strcpy(root + sizeof(root) - 7, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	file("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  1 kB\n"
			      "MemAvailable:    8388608 kB\nSwapFree: 1048576 kB\n");
}

static void machine_gone(void)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	ck_assert_int_eq(system(command), 0);
}

TEST(limit_of_a_machine_counts_available_memory_and_swap)
{
	struct room room;

	machine();
	memlimit_read(root, &room);
	ck_assert_uint_eq(room.total, 16384 * MIB);
	ck_assert_uint_eq(room.left, 9 * 1024 * MIB - 32 * MIB);
	ck_assert_str_eq(room.what, "this machine's memory");
	machine_gone();
	memlimit_read(root, &room);
	ck_assert_uint_eq(room.left, UINT64_MAX);
}

TEST(limit_of_a_cgroup_is_the_smallest_of_its_ancestors)
{
	struct room room;

	machine();
	file("/proc/self/cgroup", "0::/a/b\n");
	file("/sys/fs/cgroup/a/b/memory.max", "max\n");
	file("/sys/fs/cgroup/a/memory.max", "1073741824\n");
	file("/sys/fs/cgroup/a/memory.current", "536870912\n");
	file("/sys/fs/cgroup/a/memory.stat", "anon 7\ninactive_file 104857600\n"
					     "active_file 1048576\n");
	memlimit_read(root, &room);
	ck_assert_uint_eq(room.total, 1024 * MIB);
	ck_assert_uint_eq(room.left, (512 + 100 + 1 - 32) * MIB);
	ck_assert_str_eq(room.what, "the limit of the cgroup /a (memory.max)");
	/* With its own swap limit. */
	file("/sys/fs/cgroup/a/memory.swap.max", "104857600\n");
	file("/sys/fs/cgroup/a/memory.swap.current", "20971520\n");
	memlimit_read(root, &room);
	ck_assert_uint_eq(room.left, (512 + 101 + 80 - 32) * MIB);
	machine_gone();
}

/* The path does not exist; the mounted cgroup is the process's own. */
TEST(limit_in_a_container_is_that_of_the_mounted_cgroup)
{
	struct room room;

	machine();
	file("/proc/self/cgroup", "0::/\n");
	file("/sys/fs/cgroup/memory.max", "134217728\n");
	file("/sys/fs/cgroup/memory.current", "1048576\n");
	memlimit_read(root, &room);
	ck_assert_uint_eq(room.total, 128 * MIB);
	ck_assert_uint_eq(room.left, 127 * MIB - 128 * MIB / 12);
	file("/proc/self/cgroup", "5:cpu,memory:/docker/0123\n0::/\n");
	file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "67108864\n");
	file("/sys/fs/cgroup/memory/memory.usage_in_bytes", "2097152\n");
	file("/sys/fs/cgroup/memory/memory.stat", "cache 9\ntotal_inactive_file 1048576\n");
	memlimit_read(root, &room);
	ck_assert_uint_eq(room.total, 64 * MIB);
	ck_assert_uint_eq(room.left, 63 * MIB - 64 * MIB / 12);
	ck_assert_str_eq(room.what, "the limit of the cgroup / (memory.limit_in_bytes)");
	/* Version 1 without a limit gives a large number. */
	file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	memlimit_read(root, &room);
	ck_assert_uint_eq(room.total, 128 * MIB);
	machine_gone();
}

TEST_SUITE("reserve")
