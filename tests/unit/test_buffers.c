/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers of farkv_buf_alloc() and memory of farkv_buf_register() with a real kvserver, over
 * shared memory or RDMA: values are carried from and to any memory, and in steady state nothing
 * is registered.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farkv.h>

#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"

#define LARGEST ((size_t)1 << 20)

static struct real_server srv;
static struct farkv *kv;

static void setup(void)
{
	static const char *const args[] = {"-m", "128m", "-I", "2m", NULL};

	real_server_init(&srv, args);
	kv = e2e_open(srv.path, 20000);
}

static void teardown(void)
{
	farkv_close(kv);
	real_server_fini(&srv);
}

static uint8_t *buffer(size_t bytes)
{
	void *p = NULL;

	OK(farkv_buf_alloc(kv, bytes, &p));
	ck_assert_ptr_nonnull(p);
	ck_assert_uint_eq((uintptr_t)p % (bytes % 4096 ? 64 : 4096), 0);
	return p;
}

static uint64_t registrations(void)
{
	struct farkv_counters c = {.size = sizeof(c)};

	OK(farkv_counters(kv, &c));
	return c.registrations;
}

/* Lengths around the bound between copied and direct, around classes and pages. */
static const size_t lengths[] = {0,    1,     1000,  4095,   4096,   4097,
				 4100, 16384, 65535, 262144, 524289, LARGEST};
#define N_LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

/* Each length through each memory, and from each into each. */
static void round_trips(uint8_t *const mem[4], unsigned seed)
{
	/* By software RDMA the two longest, of most bytes, travel in each kind of memory only. */
	size_t n = real_server_is_remote() && seed >= 4 ? N_LENGTHS - 2 : N_LENGTHS;

	for (size_t k = 0; k < n; k++) {
		size_t len = lengths[k], cap = len + seed % 3 * 100, got = 1;
		uint8_t *from = mem[seed % 2], *to = mem[2 + seed / 2 % 2];
		uint64_t version = 0;

		e2e_fill(from, len, seed * 100 + k);
		OK(farkv_put(kv, &k, sizeof(k), from, len));
		memset(to, POISON, cap);
		OK(farkv_get_into(kv, &k, sizeof(k), to, cap, &got, &version));
		ck_assert_uint_eq(got, len);
		ck_assert_uint_ne(version, 0);
		ck_assert(memcmp(to, from, len) == 0);
		e2e_expect(kv, &k, sizeof(k), from, len);
	}
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(buffer_of_any_memory_carries_values)
{
	uint8_t *mem[4] = {malloc(2 * LARGEST), buffer(2 * LARGEST),
			   malloc(2 * LARGEST), buffer(2 * LARGEST)};

	for (unsigned seed = 0; seed < 12; seed++)
		round_trips(mem, seed);
	farkv_buf_free(kv, mem[1]);
	farkv_buf_free(kv, mem[3]);
	free(mem[0]);
	free(mem[2]);
}

static void busy(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		uint8_t *mem[4] = {buffer(LARGEST), buffer(2 * LARGEST),
				   buffer(LARGEST + 200), buffer(2 * LARGEST)};

		round_trips(mem, i);
		for (unsigned k = 0; k < 4; k++)
			farkv_buf_free(kv, mem[k]);
	}
}

/* With jemalloc small buffers share pages. */
TEST(small_buffers_share_pages)
{
	enum { N = 256, LEN = 5000 };
	uint8_t *p[N], *lowest, *highest;
	uint64_t before;

	for (unsigned round = 0; round < 4; round++) {
		lowest = (uint8_t *)UINTPTR_MAX, highest = NULL;
		for (unsigned i = 0; i < N; i++) {
			p[i] = buffer(LEN);
			lowest = p[i] < lowest ? p[i] : lowest;
			highest = p[i] > highest ? p[i] : highest;
			e2e_fill(p[i], LEN, i);
			OK(farkv_put(kv, &i, sizeof(i), p[i], LEN));
			memset(p[i], POISON, LEN);
		}
		for (unsigned i = 0; i < N; i++) {
			size_t got = 0;

			OK(farkv_get_into(kv, &i, sizeof(i), p[i], LEN, &got,
					  NULL));
			ck_assert_uint_eq(got, LEN);
		}
		for (unsigned i = 0; i < N; i++) {
			e2e_expect(kv, &i, sizeof(i), p[i], LEN);
			farkv_buf_free(kv, p[i]);
		}
		if (round == 0)
			before = registrations();
		ck_assert_uint_eq(registrations(), before);
	}
#ifdef WITH_JEMALLOC
	ck_assert_uint_lt(highest - lowest, N * 5200);
#endif
}

TEST(buffer_used_again_is_not_registered_again)
{
	uint64_t before;

	busy(3);
	before = registrations();
	ck_assert_int_eq(before > 0, real_server_is_remote());
	busy(6);
	ck_assert_uint_eq(registrations(), before);
}

TEST(buffer_too_small_tells_the_length)
{
	uint8_t *from = buffer(100000), *to = buffer(100000);

	e2e_fill(from, 100000, 1);
	OK(farkv_put(kv, "k", 1, from, 100000));
	for (size_t cap = 0; cap < 100000; cap += 9090) {
		size_t len = 0;

		memset(to, POISON, 100000);
		FAILS(FARKV_ETOOSMALL,
		      farkv_get_into(kv, "k", 1, to, cap, &len, NULL));
		ck_assert_uint_eq(len, 100000);
		ck_assert(e2e_poisoned(to + cap, 100000 - cap));
	}
}

/* The server goes and comes back: the buffers stay, and serve the new one. */
TEST(buffer_after_a_restart_serves_the_new_server)
{
	static const char *const args[] = {"-m", "128m", "-I", "2m", NULL};
	uint8_t *mem[4] = {buffer(2 * LARGEST), buffer(2 * LARGEST),
			   buffer(2 * LARGEST), buffer(2 * LARGEST)};
	struct farkv_value v;
	int err = 0;

	round_trips(mem, 1);
	e2e_fill(mem[0], LARGEST, 5);
	(void)real_server_end(&srv, SIGKILL);
	real_server_start(&srv, args);
	/* Memory of another mapping is recognized as foreign. */
	for (unsigned i = 0; i < 1000 && err != FARKV_EDISCONNECTED; i++) {
		err = farkv_get(kv, "none", 4, &v);
		usleep(err == FARKV_EDISCONNECTED ? 0 : 10000);
	}
	ck_assert_int_eq(err, FARKV_EDISCONNECTED);
	for (unsigned i = 0; i < 3 && err != FARKV_ENOTFOUND; i++)
		err = farkv_get(kv, "none", 4, &v);
	ck_assert_int_eq(err, FARKV_ENOTFOUND);
	for (unsigned seed = 1; seed < 5; seed++)
		round_trips(mem, seed);
}

TEST(buffer_with_bad_arguments_is_refused)
{
	void *p = &srv;

	FAILS(FARKV_EINVAL, farkv_buf_alloc(NULL, 1, &p));
	FAILS(FARKV_EINVAL, farkv_buf_alloc(kv, 1, NULL));
	FAILS(FARKV_EINVAL, farkv_buf_alloc(kv, 0, &p));
	FAILS(FARKV_ENOMEM, farkv_buf_alloc(kv, SIZE_MAX - 5000, &p));
	ck_assert_ptr_eq(p, &srv);
	ck_assert_str_ne(farkv_errdetail(), "");
	farkv_buf_free(NULL, NULL);
	farkv_buf_free(kv, NULL);
	farkv_buf_free(NULL, &srv);
	farkv_buf_free(kv, &srv);
}

/* A child has neither the pages nor the right to free them. */
TEST(buffer_of_the_parent_is_gone_in_a_child)
{
	uint8_t *mine = buffer(LARGEST);
	void *other = NULL;
	pid_t child;
	int status;

	mine[0] = 7;
	child = fork();
	if (child == 0) {
		int err = farkv_buf_alloc(kv, 4096, &other);

		farkv_buf_free(kv, mine);
		farkv_close(kv);
		_exit(err == FARKV_EDISCONNECTED && !other ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	ck_assert_uint_eq(mine[0], 7);
	OK(farkv_buf_alloc(kv, LARGEST, &other));
	ck_assert_ptr_ne(other, mine);
}

/* ---- the program's own memory -------------------------------------------------------- */

#define OWN_BYTES (4 * LARGEST)

static uint8_t *map_pages(size_t bytes, int prot)
{
	void *p = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	return p;
}

/* Two halves of `own` as source and destination. */
static void own_round_trips(uint8_t *own, unsigned seed)
{
	uint8_t *mem[4] = {own, own, own + OWN_BYTES / 2, own + OWN_BYTES / 2};

	round_trips(mem, seed);
}

TEST(registered_memory_of_any_kind_carries_values)
{
	uint8_t *odd = malloc(OWN_BYTES + 3);
	uint8_t *own[3] = {odd + 3, map_pages(OWN_BYTES, PROT_READ | PROT_WRITE),
			   map_pages(OWN_BYTES, PROT_READ | PROT_WRITE)};
	uint64_t before = registrations();

	(void)madvise(own[2], OWN_BYTES, MADV_HUGEPAGE);
	for (unsigned i = 0; i < 3; i++)
		OK(farkv_buf_register(kv, own[i], OWN_BYTES));
	ck_assert_uint_eq(registrations() - before, real_server_is_remote() ? 3 : 0);
	for (unsigned seed = 0; seed < 6; seed++)
		own_round_trips(own[seed % 3], seed);
	before = registrations();
	for (unsigned seed = 6; seed < 12; seed++)
		own_round_trips(own[seed % 3], seed);
	ck_assert_uint_eq(registrations(), before);
	/* Afterwards the program may do as it likes with it, and the values are copied. */
	for (unsigned i = 0; i < 3; i++)
		OK(farkv_buf_unregister(kv, own[i]));
	own_round_trips(own[1], 1);
	munmap(own[1], OWN_BYTES);
	munmap(own[2], OWN_BYTES);
	free(odd);
	own[1] = map_pages(OWN_BYTES, PROT_READ | PROT_WRITE);
	own_round_trips(own[1], 2);
	munmap(own[1], OWN_BYTES);
}

/* A value in a file or in constant data, for example. */
TEST(registered_memory_that_may_only_be_read_is_a_source)
{
	uint8_t *own = map_pages(LARGEST, PROT_READ | PROT_WRITE), *to = buffer(LARGEST);
	size_t len = 0;

	e2e_fill(own, LARGEST, 3);
	ck_assert_int_eq(mprotect(own, LARGEST, PROT_READ), 0);
	OK(farkv_buf_register(kv, own, LARGEST));
	OK(farkv_put(kv, "k", 1, own, LARGEST));
	OK(farkv_get_into(kv, "k", 1, to, LARGEST, &len, NULL));
	ck_assert_uint_eq(len, LARGEST);
	ck_assert(memcmp(to, own, LARGEST) == 0);
	OK(farkv_buf_unregister(kv, own));
	munmap(own, LARGEST);
}

TEST(register_of_what_is_no_memory_or_overlaps_is_refused)
{
	uint8_t *own = map_pages(3 * LARGEST, PROT_READ | PROT_WRITE), *mine = buffer(8192);

	FAILS(FARKV_EINVAL, farkv_buf_register(NULL, own, 1));
	FAILS(FARKV_EINVAL, farkv_buf_register(kv, NULL, 1));
	FAILS(FARKV_EINVAL, farkv_buf_register(kv, own, 0));
	e2e_detail("0 bytes");
	FAILS(FARKV_EINVAL, farkv_buf_register(kv, own, SIZE_MAX - 100));
	munmap(own + LARGEST, LARGEST);
	FAILS(FARKV_EINVAL, farkv_buf_register(kv, own, 2 * LARGEST));
	e2e_detail("mapped");
	OK(farkv_buf_register(kv, own + 100, 1000));
	FAILS(FARKV_EINVAL, farkv_buf_register(kv, own, 101));
	e2e_detail("overlaps");
	FAILS(FARKV_EINVAL, farkv_buf_register(kv, own + 100, 1000));
	FAILS(FARKV_EINVAL, farkv_buf_register(kv, own + 1099, 1));
	OK(farkv_buf_register(kv, own, 100));
	OK(farkv_buf_register(kv, own + 1100, 1));
	FAILS(FARKV_EINVAL, farkv_buf_register(kv, mine + 100, 10));
	e2e_detail("farkv_buf_alloc");
	FAILS(FARKV_EINVAL, farkv_buf_unregister(NULL, own));
	FAILS(FARKV_EINVAL, farkv_buf_unregister(kv, NULL));
	FAILS(FARKV_EINVAL, farkv_buf_unregister(kv, own + 101));
	e2e_detail("begins at");
	OK(farkv_buf_unregister(kv, own + 100));
	FAILS(FARKV_EINVAL, farkv_buf_unregister(kv, own + 100));
	OK(farkv_buf_register(kv, own + 100, 1000));
	munmap(own + 2 * LARGEST, LARGEST);
}

/* Only a device locks memory. */
TEST(register_over_the_limit_of_locked_memory_is_refused)
{
	struct rlimit none = {0, 0};
	uint8_t *own = map_pages(OWN_BYTES, PROT_READ | PROT_WRITE);

	if (!real_server_is_remote())
		return;
	if (geteuid() == 0) { /* root has no limit */
		ck_assert_int_eq(setresgid(65534, 65534, 65534), 0);
		ck_assert_int_eq(setresuid(65534, 65534, 0), 0);
	}
	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &none), 0);
	FAILS(FARKV_ENOMEM, farkv_buf_register(kv, own, OWN_BYTES));
	e2e_detail("limit of locked memory");
	FAILS(FARKV_EINVAL, farkv_buf_unregister(kv, own));
	/* No request can follow: software RDMA posts by write(2), which looks at who opened. */
	(void)!seteuid(0);
}

/* The child has a copy of the memory, and no registration; the parent's goes on. */
TEST(registered_memory_serves_the_parent_after_a_fork)
{
	uint8_t *own = map_pages(OWN_BYTES, PROT_READ | PROT_WRITE);
	int go[2], status;
	pid_t child;
	char c = 0;

	OK(farkv_buf_register(kv, own, OWN_BYTES));
	own_round_trips(own, 1);
	ck_assert_int_eq(pipe(go), 0);
	child = fork();
	if (child == 0) {
		uint8_t copy = own[0];
		bool refused = farkv_buf_register(kv, go, sizeof(go)) == FARKV_EDISCONNECTED &&
			       farkv_buf_unregister(kv, own) == FARKV_EDISCONNECTED;

		close(go[1]);
		_exit(read(go[0], &c, 1) == 0 && own[0] == copy && refused ? 0 : 1);
	}
	for (unsigned seed = 2; seed < 6; seed++)
		own_round_trips(own, seed);
	close(go[1]);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	OK(farkv_buf_unregister(kv, own));
	close(go[0]);
}

TEST(unregister_completes_requests_in_flight)
{
	enum { N = 8 };
	uint8_t *own = map_pages(N * LARGEST, PROT_READ | PROT_WRITE), *want = malloc(LARGEST);
	struct farkv_request r[N];
	struct farkv_completion done[N];

	e2e_fill(want, LARGEST, 7);
	OK(farkv_put(kv, "k", 1, want, LARGEST));
	OK(farkv_buf_register(kv, own, N * LARGEST));
	for (unsigned i = 0; i < N; i++)
		r[i] = (struct farkv_request){.tag = i,
					      .kind = FARKV_REQUEST_GET,
					      .key = "k",
					      .key_len = 1,
					      .buf = own + i * LARGEST,
					      .buf_len = LARGEST};
	ck_assert_int_eq(farkv_submit(kv, r, N), N);
	OK(farkv_buf_unregister(kv, own));
	for (unsigned i = 0; i < N; i++)
		ck_assert(memcmp(own + i * LARGEST, want, LARGEST) == 0);
	munmap(own, N * LARGEST);
	ck_assert_uint_eq(farkv_in_flight(kv), N);
	ck_assert_int_eq(farkv_poll(kv, done, N), N);
	for (unsigned i = 0; i < N; i++)
		ck_assert_int_eq(done[i].result, 0);
	free(want);
}

TEST(registered_memory_after_a_restart_serves_the_new_server)
{
	static const char *const args[] = {"-m", "128m", "-I", "2m", NULL};
	uint8_t *own = map_pages(OWN_BYTES, PROT_READ | PROT_WRITE);
	struct farkv_value v;
	int err = 0;

	OK(farkv_buf_register(kv, own, OWN_BYTES));
	own_round_trips(own, 1);
	(void)real_server_end(&srv, SIGKILL);
	real_server_start(&srv, args);
	for (unsigned i = 0; i < 1000 && err != FARKV_ENOTFOUND; i++) {
		err = farkv_get(kv, "none", 4, &v);
		usleep(err == FARKV_EDISCONNECTED ? 10000 : 0);
	}
	ck_assert_int_eq(err, FARKV_ENOTFOUND);
	for (unsigned seed = 1; seed < 5; seed++)
		own_round_trips(own, seed);
	OK(farkv_buf_unregister(kv, own));
	munmap(own, OWN_BYTES);
}

TEST_SUITE("buffers", real_server_require())
