/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Values that are carried without a copy, by a lane that, like a network card, accesses
 * only registered memory: which are direct, which are copied, and that reconnects and
 * reused pages register nothing again.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/buffers.h"
#include "common/region/hash.h"
#include "tests/rig/buffers_churn.h"
#include "tests/rig/card_lane.h"
#include "tests/rig/cases.h"
#include "tests/rig/handle_rig.h"

#define HUGE_PAGE ((size_t)2 << 20)

/* ---- values --------------------------------------------------------------------- */

static void fill(uint8_t *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 31 + i / 251 + seed);
}

static void *buffer(size_t bytes)
{
	void *p = NULL;

	ck_assert_int_eq(farkv_buf_alloc(kv, bytes, &p), 0);
	ck_assert_ptr_nonnull(p);
	return p;
}

/* Put from `from`, get into `to`; returns which of them went without a copy. */
static void round_trip(uint8_t *from, uint8_t *to, size_t len, size_t cap)
{
	static unsigned seed;
	size_t got = 0;
	uint8_t *want = malloc(len + 1);

	fill(from, len, ++seed);
	memcpy(want, from, len);
	card.parts_read = card.parts_written = 0;
	ck_assert_int_eq(farkv_put(kv, "key", 3, from, len), 0);
	memset(from, 0x11, len);
	memset(to, 0x22, cap);
	ck_assert_int_eq(farkv_get_into(kv, "key", 3, to, cap, &got, NULL), 0);
	ck_assert_uint_eq(got, len);
	ck_assert(memcmp(to, want, len) == 0);
	free(want);
}

static struct farkv_counters counters_now(void)
{
	struct farkv_counters c = {.size = sizeof(c)};

	ck_assert_int_eq(farkv_counters(kv, &c), 0);
	return c;
}

static uint64_t registrations(void)
{
	return counters_now().registrations;
}

static const size_t lengths[] = {1,    100,  4000, 4095, 4096,	4097,
				 5000, 8191, 8192, 9999, 65536, 100003};

TEST_GROUP(.setup = setup_card, .teardown = teardown);

TEST_EACH(value_in_a_buffer_is_carried_without_a_copy, lengths)
{
	size_t len = lengths[_i];
	uint8_t *from = buffer(len), *to = buffer(len);

	/* A buffer as long as the value, and longer than its block. */
	round_trip(from, to, len, len);
	ck_assert_uint_eq(card.parts_written, len >= 4096);
	ck_assert_uint_eq(card.parts_read, len >= 4096);
	farkv_buf_free(kv, to);
	to = buffer(2 * len);
	round_trip(from, to, len, 2 * len);
	ck_assert_uint_eq(card.parts_written, len >= 4096);
	/* A small value's block may be read like this as well. */
	ck_assert(len < 4096 || card.parts_read == 1);
}

TEST(buffers_that_share_a_page_are_carried_alike)
{
	uint8_t *p[6];

	for (unsigned i = 0; i < 6; i++)
		p[i] = buffer(5000);
#ifdef WITH_JEMALLOC
	ck_assert_uint_eq((uintptr_t)(p[0] + 4999) / 4096,
			  (uintptr_t)p[1] / 4096);
#endif
	fill(p[2], 5000, 77);
	for (unsigned i = 0; i < 6; i += 1 + (i == 1)) {
		round_trip(p[i], p[5 - i == 2 ? 4 : 5 - i], 5000, 5000);
		ck_assert_uint_eq(card.parts_written + card.parts_read, 2);
	}
	/* The neighbours' bytes do not change. */
	for (unsigned i = 0; i < 5000; i++)
		ck_assert_uint_eq(p[2][i], (uint8_t)(i * 31 + i / 251 + 77));
}

TEST_EACH(value_in_other_memory_is_copied, lengths)
{
	size_t len = lengths[_i];
	uint8_t *from = malloc(len), *to = malloc(len);

	round_trip(from, to, len, len);
	ck_assert_uint_eq(card.parts_written + card.parts_read, 0);
	free(from);
	free(to);
}

/* One byte of it lies after the registered buffers. */
TEST(value_that_ends_outside_of_its_buffer_is_copied)
{
	uint8_t *last = buffer(HUGE_PAGE - 8192), *page;

	/* The last chunk's, wherever the buffer lies in it. */
	last = (uint8_t *)((uintptr_t)last & ~(HUGE_PAGE - 1));
	page = mmap(last + HUGE_PAGE, 4096, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (page == MAP_FAILED) /* mapped memory: as good */
		return;
	round_trip(last + HUGE_PAGE - 8191, last, 8192, 8192);
	ck_assert_uint_eq(card.parts_written, 0);
	round_trip(last, last + HUGE_PAGE - 8191, 8192, 8192);
	ck_assert_uint_eq(card.parts_read, 0);
	round_trip(last, last + HUGE_PAGE - 8192, 8192, 8192);
	ck_assert_uint_eq(card.parts_read, 1);
	munmap(page, 4096);
}

TEST(buffer_too_small_returns_the_length)
{
	uint8_t *from = buffer(20000), *to = buffer(20000);

	fill(from, 20000, 1);
	ck_assert_int_eq(farkv_put(kv, "key", 3, from, 20000), 0);
	for (size_t cap = 0; cap < 20000; cap += cap < 19990 ? 1999 : 1) {
		size_t len = 0;

		memset(to, 0x33, 20000);
		ck_assert_int_eq(farkv_get_into(kv, "key", 3, to, cap, &len,
						NULL),
				 FARKV_ETOOSMALL);
		ck_assert_uint_eq(len, 20000);
		/* No byte outside of the caller's buffer is written. */
		ck_assert_uint_eq(to[cap], 0x33);
	}
	ck_assert_int_eq(farkv_get_into(kv, "none", 4, to, 20000,
					&(size_t){0}, NULL),
			 FARKV_ENOTFOUND);
}

/* The key lies where the value goes. */
TEST(key_in_the_buffer_is_read_to_the_end)
{
	uint8_t *from = buffer(8192), *to = buffer(8192);
	size_t len;

	fill(from, 8192, 5);
	ck_assert_int_eq(farkv_put(kv, "key", 3, from, 8192), 0);
	memcpy(to + 1000, "key", 3);
	ck_assert_int_eq(farkv_get_into(kv, to + 1000, 3, to, 8192, &len, NULL),
			 0);
	ck_assert(memcmp(to, from, 8192) == 0);
}

/* ... also by a request. */
TEST(key_in_a_requests_buffer_is_read_to_the_end)
{
	uint8_t *from = buffer(8192), *to = buffer(8192);
	struct farkv_request r = {.kind = FARKV_REQUEST_GET, .key = to + 1000, .key_len = 3,
				  .buf = to, .buf_len = 8192};
	struct farkv_completion c;

	fill(from, 8192, 5);
	ck_assert_int_eq(farkv_put(kv, "key", 3, from, 8192), 0);
	memcpy(to + 1000, "key", 3);
	ck_assert_int_eq(farkv_submit(kv, &r, 1), 1);
	ck_assert_int_eq(farkv_wait(kv, &c, 1, 60000), 1);
	ck_assert_int_eq(c.result, 0);
	ck_assert(memcmp(to, from, 8192) == 0);
}

/* A key that a reader of `like` must check too, and first. */
static size_t rival(char *key, const char *like)
{
	uint64_t seed = srv.sb.hash_seed;
	uint64_t h = hash_key(seed, like, strlen(like)), other;
	unsigned long i = 0;
	size_t len;

	do {
		/* Of another length, so that all offsets differ. */
		len = (size_t)sprintf(key, "rival %lu", i++);
		other = hash_key(seed, key, len);
	} while (hash_fp(other) != hash_fp(h) ||
		 hash_home_line(other) != hash_home_line(h));
	return len;
}

TEST(block_of_another_key_is_not_returned_as_the_value)
{
	char first[32];
	size_t n1 = rival(first, "key");
	uint8_t *from = buffer(30000), *to = buffer(30000);

	/* Longer than the requested one, and shorter. */
	fill(from, 30000, 77);
	ck_assert_int_eq(farkv_put(kv, first, n1, from, 30000), 0);
	round_trip(from, to, 20000, 30000);
	/* The first candidate went to the buffer, the second by a copy. */
	ck_assert_uint_eq(card.parts_read, 1);
	fill(from, 30000, 78);
	ck_assert_int_eq(farkv_put(kv, first, n1, from, 5000), 0);
	round_trip(from, to, 20000, 20000);
	round_trip(from, to, 100, 20000);
}

TEST(add_and_cas_send_the_value_without_a_copy)
{
	uint8_t *from = buffer(8192);
	uint64_t version;
	size_t len;

	fill(from, 8192, 9);
	ck_assert_int_eq(farkv_add(kv, "key", 3, from, 8192), 0);
	ck_assert_int_eq(farkv_replace(kv, "key", 3, from, 8191), 0);
	ck_assert_uint_eq(card.parts_written, 2);
	ck_assert_int_eq(farkv_get_into(kv, "key", 3, from, 8192, &len,
					&version),
			 0);
	ck_assert_int_eq(farkv_cas(kv, "key", 3, from, 8000, version, NULL), 0);
	ck_assert_uint_eq(card.parts_written, 3);
	ck_assert_int_eq(farkv_mput(kv, (struct farkv_put_item[]){{
						.key = "key",
						.key_len = 3,
						.value = from,
						.value_len = 7000}}, 1),
			 0);
	ck_assert_uint_eq(card.parts_written, 4);
	ck_assert_int_eq(farkv_get_into(kv, "key", 3, from, 8192, &len, NULL),
			 0);
	ck_assert_uint_eq(len, 7000);
}

/* ---- registrations ----------------------------------------------------------------- */

static void work(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		size_t len = lengths[i % (sizeof(lengths) / sizeof(lengths[0]))];
		uint8_t *from = buffer(len), *to = buffer(len);
		struct farkv_value v;

		round_trip(from, to, len, len);
		ck_assert_int_eq(farkv_get(kv, "key", 3, &v), 0);
		farkv_buf_free(kv, to);
		farkv_buf_free(kv, from);
	}
}

TEST(steady_state_registers_nothing)
{
	uint64_t before;

	work(24);
	before = registrations();
	ck_assert_uint_gt(before, 0);
	work(500);
	ck_assert_uint_eq(registrations(), before);
}

TEST(new_connection_registers_the_buffers_once)
{
	uint8_t *from = buffer(8192), *to = buffer(8192);
	uint8_t *large = buffer(5 * HUGE_PAGE);
	uint64_t before;
	unsigned made = cards;

	round_trip(from, to, 8192, 8192);
	before = registrations();
	fake_server_hangup(&srv);
	wait_broken();
	(void)put("key", "after the break"); /* may tell of it, once */
	ck_assert_uint_eq(cards, made + 1);
	round_trip(from, to, 8192, 8192);
	ck_assert_uint_eq(card.parts_written, 1);
	ck_assert_uint_eq(card.parts_read, 1);
	round_trip(large, large + 3 * HUGE_PAGE, 100000, 100000);
	ck_assert_uint_eq(card.parts_written, 1);
	/* The counter continues: both chunks, and the lane's own memory. */
	ck_assert_uint_ge(registrations(), before + 2);
	work(24);
	before = registrations();
	work(100);
	ck_assert_uint_eq(registrations(), before);
}

TEST(new_connection_that_registers_nothing_copies)
{
	uint8_t *from = buffer(8192), *to = buffer(8192);
	void *more = from;

	round_trip(from, to, 8192, 8192);
	card_refuses = true;
	fake_server_hangup(&srv);
	wait_broken();
	(void)put("key", "after the break");
	round_trip(from, to, 8192, 8192);
	ck_assert_uint_eq(card.parts_written + card.parts_read, 0);
	/* Existing memory can be allocated; new memory is refused. */
	ck_assert_int_eq(farkv_buf_alloc(kv, 8192, &more), 0);
	farkv_buf_free(kv, more);
	more = from;
	ck_assert_int_eq(farkv_buf_alloc(kv, HUGE_PAGE, &more), FARKV_ENOMEM);
	ck_assert_ptr_eq(more, from);
}

/* The card may still use the caller's memory, but not after the call. */
TEST_LOOP(failed_call_leaves_no_request_in_flight, 0, 3)
{
	uint8_t *from = buffer(8192), *to = buffer(8192);
	size_t len;
	int err;

	round_trip(from, to, 8192, 8192);
	set_timeout_ms(20);
	card.mute = true;
	if (_i == 0)
		err = farkv_get_into(kv, "key", 3, to, 8192, &len, NULL);
	else if (_i == 1)
		err = farkv_put(kv, "key", 3, from, 8192);
	else
		err = farkv_mput(kv, (struct farkv_put_item[]){{
					     .key = "key", .key_len = 3,
					     .value = from, .value_len = 8192}},
				 1);
	/* WRITE and CAS of a cached key are in flight together. */
	ck_assert_int_eq(err, _i == 0 ? FARKV_ETIMEDOUT : FARKV_EMAYBE);
	ck_assert_ptr_null(card.stuck);
	card.mute = false;
}

TEST(lane_without_segments_copies)
{
	uint8_t *from, *to;

	farkv_close(kv);
	card_lacks = XPORT_SEGMENTS;
	kv = open_handle();
	from = buffer(8192);
	to = buffer(8192);
	round_trip(from, to, 8192, 8192);
	ck_assert_uint_eq(card.parts_written + card.parts_read, 0);
}

/* By farkv_get(), in one round trip and from nowhere but the store. */
static void get_reads(const uint8_t *want, size_t len)
{
	struct farkv_counters before = counters_now(), after;
	struct farkv_value v;

	ck_assert_int_eq(farkv_get(kv, "key", 3, &v), 0);
	ck_assert_uint_eq(v.len, len);
	ck_assert(memcmp(v.data, want, len) == 0);
	after = counters_now();
	ck_assert_uint_eq(after.round_trips - before.round_trips, 1);
	ck_assert_uint_eq(after.cache_values, before.cache_values);
}

/*
 * A value that arrives in segments is not contiguous in the handle's memory, so it is not
 * cached; nor is a cached copy used in place of a value that comes without a copy.
 */
TEST(value_carried_without_a_copy_is_not_cached)
{
	uint8_t *from = buffer(8192), *to = buffer(8192);
	struct farkv_value v;
	uint64_t before;
	size_t len;

	fill(from, 8192, 1);
	ck_assert_int_eq(farkv_put(kv, "key", 3, from, 8192), 0);
	card.parts_read = 0;
	for (unsigned i = 1; i <= 3; i++) {
		ck_assert_int_eq(farkv_get_into(kv, "key", 3, to, 8192, &len, NULL), 0);
		ck_assert_uint_eq(card.parts_read, i);
	}
	get_reads(from, 8192);
	ck_assert_int_eq(farkv_get(kv, "key", 3, &v), 0);
	ck_assert_uint_eq(counters_now().cache_values, 1);
	before = counters_now().round_trips;
	for (unsigned i = 4; i <= 6; i++) {
		ck_assert_int_eq(farkv_get_into(kv, "key", 3, to, 8192, &len, NULL), 0);
		ck_assert_uint_eq(card.parts_read, i);
		ck_assert(memcmp(from, to, 8192) == 0);
	}
	ck_assert_uint_eq(counters_now().round_trips - before, 3);
	fill(from, 8192, 2);
	card.parts_written = 0;
	ck_assert_int_eq(farkv_put(kv, "key", 3, from, 8192), 0);
	ck_assert_uint_eq(card.parts_written, 1);
	get_reads(from, 8192);
}

/* ---- the program's own memory ------------------------------------------------------ */

/* 200,000 bytes that begin at no boundary. */
#define OWN_BYTES 200000u
static uint8_t *own_memory(void)
{
	static uint8_t own[OWN_BYTES + 3];

	return own + 3;
}

static void check_carried(unsigned written, unsigned read)
{
	ck_assert_uint_eq(card.parts_written, written);
	ck_assert_uint_eq(card.parts_read, read);
}

TEST_EACH(value_in_registered_memory_is_carried_without_a_copy, lengths)
{
	uint8_t *from = own_memory(), *to = from + OWN_BYTES / 2;
	size_t len = lengths[_i] < OWN_BYTES / 2 ? lengths[_i] : OWN_BYTES / 2;
	uint64_t before;

	round_trip(from, to, len, len);
	check_carried(0, 0);
	before = registrations();
	ck_assert_int_eq(farkv_buf_register(kv, from, OWN_BYTES), 0);
	ck_assert_uint_eq(registrations(), before + 1);
	round_trip(from, to, len, len);
	check_carried(len >= 4096, len >= 4096);
	ck_assert_int_eq(farkv_buf_unregister(kv, from), 0);
	round_trip(from, to, len, len);
	check_carried(0, 0);
	ck_assert_uint_eq(registrations(), before + 1);
}

TEST(registered_memory_that_ends_within_a_value_is_copied)
{
	uint8_t *own = own_memory();

	/* Two ranges side by side are two. */
	ck_assert_int_eq(farkv_buf_register(kv, own, 10000), 0);
	ck_assert_int_eq(farkv_buf_register(kv, own + 10000, 10000), 0);
	round_trip(own + 1000, own + 11000, 9000, 9000);
	check_carried(1, 1);
	round_trip(own + 1001, own + 11001, 9000, 9000);
	check_carried(0, 0);
	round_trip(own + 5000, own + 30000, 8192, 8192);
	check_carried(0, 0);
	ck_assert_int_eq(farkv_buf_unregister(kv, own + 10000), 0);
	round_trip(own + 1000, own + 11000, 9000, 9000);
	check_carried(1, 0);
}

TEST(new_connection_registers_own_memory_again)
{
	uint8_t *own = own_memory();

	ck_assert_int_eq(farkv_buf_register(kv, own, OWN_BYTES), 0);
	ck_assert_int_eq(farkv_buf_register(kv, &srv, sizeof(srv)), 0);
	ck_assert_int_eq(farkv_buf_unregister(kv, &srv), 0);
	fake_server_hangup(&srv);
	wait_broken();
	(void)put("key", "after the break");
	round_trip(own, own + 100000, 8192, 8192);
	check_carried(1, 1);
	ck_assert(!card_has(&srv, 1, true));
	/* The card refuses: values are copied, and the range can still be unregistered. */
	card_refuses = true;
	fake_server_hangup(&srv);
	wait_broken();
	(void)put("key", "after the break");
	round_trip(own, own + 100000, 8192, 8192);
	check_carried(0, 0);
	ck_assert_int_eq(farkv_buf_register(kv, &srv, sizeof(srv)), FARKV_ENOMEM);
	ck_assert_int_eq(farkv_buf_unregister(kv, &srv), FARKV_EINVAL);
	ck_assert_int_eq(farkv_buf_unregister(kv, own), 0);
	ck_assert_int_eq(farkv_buf_unregister(kv, own), FARKV_EINVAL);
}

/* The memory is the program's again, so no request may use it. */
TEST(unregister_with_requests_in_flight_completes_them_first)
{
	uint8_t *own = own_memory(), want[8192];
	struct farkv_request r = {.kind = FARKV_REQUEST_GET,
				  .key = "key",
				  .key_len = 3,
				  .buf = own,
				  .buf_len = 8192};
	struct farkv_completion c;

	fill(want, sizeof(want), 9);
	ck_assert_int_eq(farkv_put(kv, "key", 3, want, sizeof(want)), 0);
	ck_assert_int_eq(farkv_buf_register(kv, own, OWN_BYTES), 0);
	card.parts_read = 0;
	ck_assert_int_eq(farkv_submit(kv, &r, 1), 1);
	ck_assert_int_eq(farkv_buf_unregister(kv, own), 0);
	ck_assert(memcmp(own, want, sizeof(want)) == 0);
	ck_assert_uint_eq(card.parts_read, 1);
	ck_assert_uint_eq(farkv_in_flight(kv), 1);
	ck_assert_int_eq(farkv_poll(kv, &c, 1), 1);
	ck_assert_int_eq(c.result, 0);
	ck_assert_uint_eq(c.value.len, sizeof(want));
}

TEST(mget_into_registered_memory_is_carried_without_a_copy)
{
	uint8_t *own = own_memory(), value[9000];
	struct farkv_get_into_item items[3];
	static const char *const keys[] = {"a", "b", "c"};

	for (unsigned i = 0; i < 3; i++) {
		fill(value, sizeof(value), i);
		ck_assert_int_eq(farkv_put(kv, keys[i], 1, value, sizeof(value)), 0);
		items[i] = (struct farkv_get_into_item){
			.key = keys[i], .key_len = 1, .buf = own + i * 10000, .cap = 9000};
	}
	ck_assert_int_eq(farkv_buf_register(kv, own, 20000), 0);
	card.parts_read = 0;
	ck_assert_int_eq(farkv_mget_into(kv, items, 3), 0);
	ck_assert_uint_eq(card.parts_read, 2);
	for (unsigned i = 0; i < 3; i++) {
		fill(value, sizeof(value), i);
		ck_assert_int_eq(items[i].result, 0);
		ck_assert_uint_eq(items[i].len, 9000);
		ck_assert(memcmp(items[i].buf, value, sizeof(value)) == 0);
	}
}

/* ---- extents ----------------------------------------------------------------------- */

static uint8_t *take_aligned(struct buffers *b, size_t bytes)
{
	void *p = NULL;

	ck_assert_int_eq(buffers_alloc(b, bytes, &p), 0);
	ck_assert_uint_eq((uintptr_t)p %
				  (b->extents && bytes % 4096 ? 64 : 4096),
			  0);
	return p;
}

static size_t length_of_two_kinds(uint64_t rnd)
{
	return 1 + (rnd >> 8) % (rnd & 64 ? 300000 : 9000);
}

TEST_GROUP(.name = "extents");

/* Random allocations and frees; no two buffers overlap, and none is lost. */
TEST(buffers_never_overlap_and_all_come_back)
{
	static const struct churn of_two_kinds = {take_aligned,
						  length_of_two_kinds};
	struct buffers b = {0};
	size_t largest, before;
	void *p;

	buffers_churn(&b, 20000, &of_two_kinds);
	before = largest = b.largest;
#ifdef WITH_JEMALLOC
	ck_assert_ptr_nonnull(b.extents);
#endif
	/* All memory is one extent again; jemalloc takes one more page for a large one. */
	if (b.extents)
		largest -= 2 * HUGE_PAGE;
	ck_assert_int_eq(buffers_alloc(&b, largest, &p), 0);
	ck_assert_uint_eq(b.largest, before);
	buffers_fini(&b);
}

TEST(free_of_a_foreign_pointer_changes_nothing)
{
	struct buffers b = {0};
	uint8_t *p, *q;
	int local;

	ck_assert_int_eq(buffers_alloc(&b, 3 * 4096, (void **)&p), 0);
	buffers_free(&b, p + 4096); /* within */
	buffers_free(&b, p + 1);
	buffers_free(&b, p + 3 * 4096); /* free */
	buffers_free(&b, &local);
	ck_assert_int_eq(buffers_alloc(&b, 4096, (void **)&q), 0);
	ck_assert(q < p || q >= p + 3 * 4096);
	buffers_free(&b, p);
	buffers_free(&b, p);
	ck_assert_int_eq(buffers_alloc(&b, 3 * 4096, (void **)&q), 0);
	ck_assert_ptr_eq(q, p);
	ck_assert_int_eq(buffers_alloc(&b, SIZE_MAX, (void **)&q),
			 FARKV_ENOMEM);
	ck_assert_int_eq(buffers_alloc(&b, SIZE_MAX / 2, (void **)&q),
			 FARKV_ENOMEM);
	ck_assert_ptr_eq(q, p);
	buffers_fini(&b);
}

TEST_SUITE("segments")
