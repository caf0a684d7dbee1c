/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers in a program with jemalloc: small ones share pages; their memory stays
 * registered, mapped and in place under every jemalloc option; closing the handle removes
 * the arena.
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jemalloc/jemalloc.h>

#include "client/buffers.h"
#include "tests/rig/buffers_churn.h"
#include "tests/rig/cases.h"
#include "tests/rig/handle_rig.h"

#define PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)
#define CHUNKS_MAX 64u

/* ---- jemalloc, as the client sees it --------------------------------------------- */

int __real_mallctl(const char *name, void *old, size_t *old_len, void *new,
		   size_t new_len);
int __wrap_mallctl(const char *name, void *old, size_t *old_len, void *new,
		   size_t new_len);

static bool no_arenas, aborts;
static unsigned arena; /* made last */

int __wrap_mallctl(const char *name, void *old, size_t *old_len, void *new,
		   size_t new_len)
{
	int err;

	if (strcmp(name, "opt.xmalloc") == 0 && aborts) {
		*(bool *)old = true;
		return 0;
	}
	if (strcmp(name, "arenas.create") != 0)
		return __real_mallctl(name, old, old_len, new, new_len);
	if (no_arenas)
		return EAGAIN;
	err = __real_mallctl(name, old, old_len, new, new_len);
	if (!err)
		arena = *(unsigned *)old;
	return err;
}

static void *purge_all(void *arg)
{
	ck_assert_int_eq(__real_mallctl("arena.4096.decay", NULL, NULL, NULL, 0),
			 0);
	ck_assert_int_eq(__real_mallctl("arena.4096.purge", NULL, NULL, NULL, 0),
			 0);
	return arg;
}

/* Everything a program can do to make jemalloc return memory. */
static void purge(void)
{
	pthread_t t;

	ck_assert_int_eq(pthread_create(&t, NULL, purge_all, NULL), 0);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	(void)purge_all(NULL);
}

/* Adjacent chunks, as a kernel may place them. */
void *__real_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t off);

int __real_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes);

static uint8_t *next_chunk; /* NULL: the kernel chooses */

void *__wrap_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t off)
{
	if (next_chunk && fd < 0 && bytes >= 2 * HUGE_PAGE &&
	    prot == (PROT_READ | PROT_WRITE)) {
		at = next_chunk;
		next_chunk += bytes - HUGE_PAGE;
		flags |= MAP_FIXED;
	}
	return __real_mmap(at, bytes, prot, flags, fd, off);
}

/* Freed addresses are not reused, which would block the next chunk. */
int __wrap_munmap(void *at, size_t bytes)
{
	if (next_chunk)
		return mprotect(at, bytes, PROT_NONE);
	return __real_munmap(at, bytes);
}

/* ---- the lane ----------------------------------------------------------------------- */

static struct {
	uint8_t *at;
	size_t len;
} shown[CHUNKS_MAX];
static unsigned n_shown;
static bool refuses;

static int lane_add(struct xport_lane *lane, void *mem, size_t bytes)
{
	(void)lane;
	if (refuses)
		return FARKV_ENOMEM;
	ck_assert_uint_lt(n_shown, CHUNKS_MAX);
	shown[n_shown].at = mem;
	shown[n_shown++].len = bytes;
	return 0;
}

static const struct xport_ops ops = {.name = "counts", .mem_add = lane_add};
static struct xport_lane lane = {.ops = &ops, .caps = XPORT_SEGMENTS};
static struct buffers b;

static void setup_buffers(void)
{
	no_arenas = aborts = refuses = false;
	n_shown = 0;
	b = (struct buffers){0};
	buffers_attach(&b, &lane);
}

static void teardown_buffers(void)
{
	buffers_detach(&b);
	buffers_fini(&b);
}

static bool is_shown(const uint8_t *p, size_t len)
{
	for (unsigned i = 0; i < n_shown; i++)
		if (p >= shown[i].at &&
		    p + len <= shown[i].at + shown[i].len)
			return true;
	return false;
}

static uint8_t *take(size_t bytes)
{
	void *p = NULL;

	ck_assert_int_eq(buffers_alloc(&b, bytes, &p), 0);
	ck_assert_ptr_nonnull(p);
	ck_assert(is_shown(p, bytes));
	ck_assert_uint_eq((uintptr_t)p % (bytes % PAGE ? 64 : PAGE), 0);
	return p;
}

static bool is_mapped(const void *p)
{
	unsigned char in;

	return mincore((void *)((uintptr_t)p & ~(PAGE - 1)), PAGE, &in) == 0;
}

/* ---- cases ---------------------------------------------------------------------------- */

/* Number of pages that n buffers of a size need, with those that they share. */
static size_t pages_of(size_t bytes, unsigned n)
{
	static uint8_t used[64 * HUGE_PAGE / PAGE];
	size_t pages = 0;

	memset(used, 0, sizeof(used));
	for (unsigned i = 0; i < n; i++) {
		uint8_t *p = take(bytes);
		size_t first = (size_t)(p - shown[0].at) / PAGE;
		size_t last = (size_t)(p + bytes - 1 - shown[0].at) / PAGE;

		ck_assert_uint_lt(last, sizeof(used));
		memset(p, 0x5a, bytes);
		for (size_t k = first; k <= last; k++)
			pages += !used[k]++;
	}
	return pages;
}

TEST_GROUP(.setup = setup_buffers, .teardown = teardown_buffers);

TEST(small_buffers_share_pages)
{
	ck_assert_uint_le(pages_of(100, 128), 128 * 128 / PAGE + 1);
	ck_assert_uint_le(pages_of(1000, 64), 64 * 1024 / PAGE + 1);
	ck_assert_uint_le(pages_of(5000, 64), 64 * 5120 / PAGE + 5);
	ck_assert_uint_eq(n_shown, 1);
}

static const size_t sizes[] = {1,     63,    64,     100,     1000,   4095,
			       4096,  4097,  5000,   8192,    9999,   12288,
			       14337, 16384, 100003, 1 << 20, 3 << 20};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* No line of 64 bytes belongs to two buffers. */
TEST(buffers_are_aligned_and_disjoint)
{
	uint8_t *p[2 * N_SIZES];

	for (unsigned i = 0; i < 2 * N_SIZES; i++) {
		p[i] = take(sizes[i / 2]);
		memset(p[i], (int)i, sizes[i / 2]);
	}
	for (unsigned i = 0; i < 2 * N_SIZES; i++)
		for (unsigned k = 0; k < 2 * N_SIZES; k++) {
			uint8_t *end = p[i] + ((sizes[i / 2] + 63) & ~63u);

			ck_assert(i == k || p[k] < p[i] || p[k] >= end);
			ck_assert_uint_eq(p[i][sizes[i / 2] / 2], i);
		}
}

static uint8_t *take_shown(struct buffers *from, size_t bytes)
{
	ck_assert_ptr_eq(from, &b);
	return take(bytes);
}

static size_t length_of_three_kinds(uint64_t rnd)
{
	return 1 + (rnd >> 8) % (rnd & 64	 ? 16000
				 : rnd & 128 ? 200000
					     : 1500000);
}

static const struct churn of_three_kinds = {take_shown, length_of_three_kinds};

TEST(steady_state_registers_nothing)
{
	unsigned before;

	buffers_churn(&b, 10000, &of_three_kinds);
	before = n_shown;
	ck_assert_uint_gt(before, 1);
	for (unsigned i = 0; i < 4; i++) {
		if (i % 2)
			purge();
		buffers_churn(&b, 10000, &of_three_kinds);
	}
	ck_assert_uint_eq(n_shown, before);
}

/* Memory that was freed in small pieces, and then joined, serves any size. */
TEST(freed_memory_serves_other_sizes)
{
	static const size_t of[] = {9000, 5000, 9000, 300, 100000, 4096, 1 << 20,
				    9000};
	static uint8_t *p[100000];
	unsigned before = 0;

	for (unsigned k = 0; k < sizeof(of) / sizeof(of[0]); k++) {
		/* Fewer than the first time, in classes that are larger by a fifth. */
		size_t n = (k ? 24u << 20 : 36u << 20) / of[k];

		for (unsigned i = 0; i < n; i++)
			p[i] = take(of[k]);
		for (unsigned i = 0; i < n; i++)
			buffers_free(&b, p[i]);
		before = k ? before : n_shown;
		ck_assert_uint_eq(n_shown, before);
	}
}

/* A card that knows the old pages would never see new ones. */
TEST(pages_stay_where_they_are)
{
	enum { N = 400 };
	uint8_t *p[N], *large = take(3 << 20);
	unsigned char in[64 * HUGE_PAGE / PAGE];

	for (unsigned i = 0; i < N; i++) {
		p[i] = take(10000);
		memset(p[i], 1 + i % 255, 10000);
	}
	memset(large, 0x77, 3 << 20);
	for (unsigned i = 0; i < N; i++)
		if (i % 50)
			buffers_free(&b, p[i]);
	buffers_free(&b, large);
	purge();
	for (unsigned i = 0; i < N; i++)
		for (unsigned k = 0; k < 10000; k += 999)
			ck_assert_uint_eq(p[i][k], 1 + i % 255);
	for (size_t k = 0; k < 3 << 20; k += 1000)
		ck_assert_uint_eq(large[k], 0x77);
	ck_assert_int_eq(mincore((void *)((uintptr_t)large & ~(PAGE - 1)),
				 3 << 20, in), 0);
	for (unsigned k = 0; k < (3 << 20) / PAGE; k++)
		ck_assert_uint_eq(in[k] & 1, 1);
}

/* jemalloc would join them if `retain` is off. */
TEST(no_buffer_lies_in_two_chunks)
{
	enum { ROOM = 512 };
	uint8_t *room = __real_mmap(NULL, ROOM * HUGE_PAGE, PROT_NONE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static uint8_t *p[3000];

	ck_assert_ptr_ne(room, MAP_FAILED);
	(void)take(1); /* the arena's own memory */
	next_chunk = (uint8_t *)(((uintptr_t)room + 2 * HUGE_PAGE) &
				 ~(HUGE_PAGE - 1));
	/* Up to the last page of each; then in larger pieces. */
	for (size_t bytes = PAGE, n = 3000; n > 2; bytes *= 3, n /= 3) {
		for (unsigned i = 0; i < n; i++)
			p[i] = take(bytes);
		for (unsigned i = 0; i < n; i++)
			buffers_free(&b, p[i]);
		purge();
	}
	ck_assert_uint_gt(n_shown, 2);
	ck_assert_ptr_eq(shown[1].at + shown[1].len, shown[2].at);
	next_chunk = NULL;
}

static void thread_arena(unsigned i)
{
	ck_assert_int_eq(__real_mallctl("thread.arena", NULL, NULL, &i,
					sizeof(i)), 0);
}

static size_t address_pages(void)
{
	size_t pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%zu", &pages), 1);
	fclose(f);
	return pages;
}

TEST(end_frees_all_memory)
{
	uint8_t *p = take(100), *q = take(5 << 20);
	unsigned first = arena;
	size_t before;

	buffers_detach(&b);
	buffers_fini(&b);
	ck_assert(!is_mapped(p) && !is_mapped(q));
	ck_assert_ptr_null(b.extents);
	before = address_pages();
	for (unsigned i = 0; i < 300; i++) {
		n_shown = 0;
		buffers_attach(&b, &lane);
		(void)take(100);
		buffers_free(&b, take(5000));
		(void)take(5 << 20);
		ck_assert_uint_eq(arena, first);
		buffers_detach(&b);
		buffers_fini(&b);
	}
	ck_assert_uint_lt(address_pages(), before + 20 * HUGE_PAGE / PAGE);
}

/* No thread should, but memory that one still uses must not go. */
TEST(end_leaves_memory_that_a_thread_uses)
{
	uint8_t *p = take(100);
	char *other;

	ck_assert_ptr_nonnull(b.extents);
	thread_arena(arena);
	other = mallocx(30000, MALLOCX_TCACHE_NONE);
	ck_assert_ptr_nonnull(other);
	memset(other, 0x44, 30000);
	buffers_fini(&b);
	thread_arena(0);
	ck_assert(is_shown((uint8_t *)other, 30000));
	ck_assert(is_mapped(p));
	for (unsigned i = 0; i < 30000; i++)
		ck_assert_int_eq(other[i], 0x44);
	dallocx(other, MALLOCX_TCACHE_NONE);
	purge();
}

static void in_child(uint8_t *mine)
{
	void *p[200];

	/* A child has nothing of the parent's buffers until it closes the handle. */
	if (*mine)
		_exit(4);
	for (unsigned i = 0; i < 200; i++) {
		p[i] = malloc(1 + i * 2000);
		if (!p[i])
			_exit(2);
		memset(p[i], 1, 1 + i * 2000);
	}
	for (unsigned i = 0; i < n_shown; i++)
		for (size_t at = 0; at < shown[i].len; at += 64)
			if (shown[i].at[at])
				_exit(3);
	purge();
	buffers_abandon(&b);
	for (unsigned i = 0; i < n_shown; i++)
		if (is_mapped(shown[i].at))
			_exit(5);
	for (unsigned i = 0; i < 200; i++)
		free(p[i]);
	n_shown = 0;
	buffers_attach(&b, &lane);
	buffers_churn(&b, 2000, &of_three_kinds);
	(void)take(100);
	buffers_fini(&b);
	_exit(0);
}

/* jemalloc visits all arenas, but the buffers' memory holds no metadata of it. */
TEST(child_allocates_from_plain_memory)
{
	uint8_t *mine = take(100);
	pid_t child;
	int status;

	*mine = 7;
	buffers_churn(&b, 500, &of_three_kinds);
	child = fork();
	if (child == 0)
		in_child(mine);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	ck_assert_uint_eq(*mine, 7);
	buffers_churn(&b, 500, &of_three_kinds);
}

TEST_LOOP(failed_arena_falls_back_to_pages, 0, 2)
{
	uint8_t *p, *q;

	*(_i ? &aborts : &no_arenas) = true;
	p = take(100);
	q = take(100);
	ck_assert_ptr_null(b.extents);
	ck_assert_uint_eq((uintptr_t)p % PAGE, 0);
	ck_assert_uint_eq((uintptr_t)q % PAGE, 0);
	ck_assert_ptr_ne(p, q);
	/* It stays so: the chunks already belong to the extents. */
	no_arenas = aborts = false;
	ck_assert_uint_eq((uintptr_t)take(100) % PAGE, 0);
	buffers_churn(&b, 2000, &of_three_kinds);
}

TEST(free_of_a_foreign_pointer_changes_nothing)
{
	uint8_t *p[8], *n[200], *q = take(100000), *gone = take(320);
	int local;

	for (unsigned i = 0; i < 8; i++)
		p[i] = take(320);
	buffers_free(&b, gone);
	for (unsigned i = 0; i < 8; i++) {
		memset(p[i], (int)i, 320);
		for (unsigned at = 1; at < 320; at++)
			buffers_free(&b, p[i] + at); /* within */
	}
	buffers_free(&b, gone); /* again */
	buffers_free(&b, q + 64);
	buffers_free(&b, q + PAGE);
	buffers_free(&b, q + 200000); /* not mapped */
	buffers_free(&b, shown[0].at + shown[0].len);
	buffers_free(&b, &local);
	buffers_free(&b, NULL);
	/* A buffer that was freed twice would be allocated twice. */
	ck_assert_ptr_ne(take(320), take(320));
	for (unsigned i = 0; i < 200; i++) {
		n[i] = take(320);
		for (unsigned k = 0; k < 8; k++)
			ck_assert_ptr_ne(n[i], p[k]);
		for (unsigned k = 0; k < i; k++)
			ck_assert_ptr_ne(n[i], n[k]);
	}
}

/* Memory that the lane refuses is not used; existing memory still is. */
TEST(memory_that_the_lane_refuses_is_not_allocated)
{
	uint8_t *p = take(5000);
	void *q = &refuses;

	refuses = true;
	ck_assert_int_eq(buffers_alloc(&b, HUGE_PAGE, &q), FARKV_ENOMEM);
	ck_assert_int_eq(buffers_alloc(&b, SIZE_MAX, &q), FARKV_ENOMEM);
	ck_assert_int_eq(buffers_alloc(&b, SIZE_MAX / 2, &q), FARKV_ENOMEM);
	ck_assert_ptr_eq(q, &refuses);
	ck_assert_uint_eq(n_shown, 1);
	for (unsigned i = 0; i < 100; i++)
		(void)take(5000);
	refuses = false;
	(void)take(HUGE_PAGE);
	ck_assert_uint_eq(n_shown, 2);
	buffers_free(&b, p);
}

/* All cases again under each of these jemalloc options. */
static const char *const confs[] = {
	"retain:false",
	"junk:alloc,lg_tcache_max:22",
	"zero:true,dirty_decay_ms:0,muzzy_decay_ms:0",
	"background_thread:true,dirty_decay_ms:1,thp:always",
	"tcache:false,narenas:1",
};

/* The program runs itself again, without this group. */
TEST_GROUP(.name = "jemalloc options", .timeout_s = 300);

TEST_EACH(all_cases_pass_under_each_jemalloc_option, confs)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		(void)setenv("MALLOC_CONF", confs[_i], 1);
		(void)setenv("CK_RUN_CASE", "extents", 1);
		execl("/proc/self/exe", "test_extents", NULL);
		_exit(127);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s",
		      confs[_i]);
}

TEST_SUITE("extents")
