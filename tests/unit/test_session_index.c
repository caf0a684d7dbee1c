/* SPDX-License-Identifier: BSD-3-Clause */
/* An index that is full or frozen, with and without a rebuild by the server. */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/rig/cases.h"
#include "tests/rig/handle_rig.h"

/* Put keys until one finds its window full; returns the number, with that one. */
static unsigned fill_window(char key[16])
{
	unsigned n = 0;
	int err;

	do {
		crowded_key(key);
		n++;
		err = put(key, "v");
		ck_assert_int_lt(n, 100);
	} while (err == 0);
	ck_assert_int_eq(err, FARKV_ENOSPC);
	return n;
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(put_into_a_full_index_hints_and_reports_the_reason)
{
	char key[16];
	unsigned n = fill_window(key);

	assert_detail("no memory left to enlarge the index");
	ck_assert_uint_eq(n, WINDOW_SLOTS + 1);
	/*
	 * One early hint came before, with the last slot. After a refusal the handle
	 * returned all blocks and asked once more.
	 */
	ck_assert_uint_eq(fake_server_count(&srv, MSG_HINT), 3);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_RETURN), 1);
	ck_assert_int_eq(put_as_request(key, "v"), FARKV_ENOSPC);
	assert_detail("no memory left to enlarge the index");
	fake_server_set(&srv, hint_status, MSG_HINT_FULL);
	ck_assert_int_eq(put(key, "v"), FARKV_EINDEXFULL);
	assert_detail("largest size");
	ck_assert_int_eq(put_as_request(key, "v"), FARKV_EINDEXFULL);
	assert_detail("largest size");
	fake_server_set(&srv, hint_status, MSG_HINT_WORKING);
	/* It repeats the request until its deadline. */
	n = fake_server_count(&srv, MSG_HINT);
	for (unsigned ms = 300; ms < LONG_MS; ms *= 2) {
		set_timeout_ms(ms);
		ck_assert_int_eq(put(key, "v"), FARKV_ETIMEDOUT);
		if (fake_server_count(&srv, MSG_HINT) > n + 2)
			break;
		n = fake_server_count(&srv, MSG_HINT);
	}
	assert_detail("not enlarged");
	ck_assert_int_eq(put_as_request(key, "v"), FARKV_ETIMEDOUT);
	assert_detail("not enlarged");
	ck_assert_uint_gt(fake_server_count(&srv, MSG_HINT), n + 2);
	fake_server_set(&srv, ignore_requests, true);
	set_timeout_ms(30);
	ck_assert_int_eq(put(key, "v"), FARKV_ETIMEDOUT);
	assert_detail("HINT");
	fake_server_set(&srv, ignore_requests, false);
}

static uint64_t *slots(unsigned page)
{
	return (uint64_t *)(void *)(srv.data + (size_t)page * PAGE_BYTES);
}

static void freeze(void)
{
	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		__atomic_fetch_or(&slots(0)[i], SLOT_FROZEN, __ATOMIC_SEQ_CST);
}

/* The result of a migration: the same subtable on another page. */
static void *migrate_soon(void *arg)
{
	uint64_t *entry = (uint64_t *)(void *)(srv.meta + REGION_DIR_OFF);

	(void)arg;
	clock_sleep_ns(20 * NS_PER_MS);
	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++) {
		uint64_t w = slots(0)[i] & ~SLOT_FROZEN;

		slots(400)[i] = slot_is_null(w) ? slot_empty(2) : w;
	}
	__atomic_store_n(entry, entry_pack(META_ALIGN / PAGE_BYTES + 400, 2, 0),
			 __ATOMIC_RELEASE);
	return NULL;
}

TEST_GROUP(.setup = setup_long_grace, .teardown = teardown);

TEST(frozen_slot_is_waited_for)
{
	pthread_t t;

	ck_assert_int_eq(put("k", "v"), 0);
	freeze();
	assert_value("k", "v");
	set_timeout_ms(20);
	ck_assert_int_eq(put("k", "w"), FARKV_ETIMEDOUT);
	assert_detail("rebuilding");
	ck_assert_int_eq(put_as_request("k", "w"), FARKV_ETIMEDOUT);
	assert_detail("rebuilding");
	ck_assert_int_eq(del("k"), FARKV_ETIMEDOUT);
	assert_value("k", "v");
	set_timeout_ms(LONG_MS);
	pthread_create(&t, NULL, migrate_soon, NULL);
	ck_assert_int_eq(put("k", "w"), 0);
	pthread_join(t, NULL);
	assert_value("k", "w");
	ck_assert_int_eq(put("new", "x"), 0);
	assert_value("new", "x");
}

TEST_GROUP(.setup = setup, .teardown = teardown);

/* The first of two groups ends with an answer, and the server is gone after it. */
TEST(batch_whose_server_leaves_after_an_answer_ends)
{
	struct farkv_put_item items[2];
	char key[16];

	(void)fill_window(key);
	fake_server_set(&srv, hint_status, MSG_HINT_FULL);
	for (unsigned i = 0; i < 2; i++)
		items[i] = (struct farkv_put_item){.key = key,
						   .key_len = strlen(key),
						   .value = "w",
						   .value_len = 1};
	fake_server_set(&srv, hint_is_last, true);
	ck_assert_int_ne(farkv_mput(kv, items, 2), 0);
	ck_assert(items[0].result == FARKV_EINDEXFULL ||
		  items[0].result == FARKV_EDISCONNECTED);
	ck_assert_int_eq(items[1].result, FARKV_EDISCONNECTED);
}

TEST_SUITE("session, index")
