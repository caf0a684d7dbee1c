/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations, one after another: their results, their effects and their costs. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "tests/rig/cases.h"
#include "tests/rig/index_rig.h"

TEST_LOOP(put_get_overwrite_delete_put_again, 0, 2)
{
	struct index_key k;

	setup(_i);
	k = key_of("k");
	ABSENT(&me, k);
	PUT(&me, k, "one");
	check_value(&me, k, "one");
	check_value(&other, k, "one");
	PUT(&other, k, "two, a longer one");
	check_value(&me, k, "two, a longer one");
	PUT(&me, k, "");
	check_value(&other, k, "");
	ck_assert_int_eq(run(&me, INDEX_DELETE, k, NULL, 0), 0);
	ABSENT(&other, k);
	ck_assert_int_eq(run(&me, INDEX_DELETE, k, NULL, 0), FARKV_ENOTFOUND);
	PUT(&other, k, "back");
	check_value(&me, k, "back");
	check_no_duplicates(k);
	ck_assert(slot_is_null(slots_of(k)[1])); /* the same slot throughout */
	teardown();
}

/* The second round deletes a large value, which leaves a small tombstone. */
TEST_LOOP(delete_cas_removes_one_version_alone, 0, 2)
{
	static char large[1000];
	const char *values[] = {"small", large};
	struct index_key k;

	memset(large, 'l', sizeof(large) - 1);
	setup(_i);
	k = key_of("key");
	ck_assert_int_eq(run(&me, INDEX_DELETE_CAS, k, NULL, 0), FARKV_ENOTFOUND);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t v;

		PUT(&me, k, values[i]);
		v = me.op.version;
		ck_assert_int_eq(run(&other, INDEX_DELETE_CAS, k, NULL, v + 1), FARKV_EVERSION);
		ck_assert_int_eq(run(&other, INDEX_DELETE_CAS, k, NULL, 0), FARKV_EVERSION);
		check_value(&me, k, values[i]);
		ck_assert_int_eq(run(&other, INDEX_DELETE_CAS, k, NULL, v), 0);
		ABSENT(&me, k);
		ck_assert_int_eq(run(&me, INDEX_DELETE_CAS, k, NULL, v), FARKV_ENOTFOUND);
		PUT(&me, k, values[i]);
		ck_assert_int_eq(run(&me, INDEX_DELETE_CAS, k, NULL, v), FARKV_EVERSION);
	}
	check_no_duplicates(k);
	teardown();
}

TEST_LOOP(add_replace_cas_results_by_state_of_the_key, 0, 2)
{
	struct index_key k;
	uint64_t v1;

	setup(_i);
	k = key_of("key");
	ck_assert_int_eq(run(&me, INDEX_REPLACE, k, "x", 0), FARKV_ENOTFOUND);
	ck_assert_int_eq(run(&me, INDEX_CAS, k, "x", 0), FARKV_ENOTFOUND);
	ABSENT(&me, k);
	ck_assert_int_eq(run(&me, INDEX_ADD, k, "a", 0), 0);
	ck_assert_int_eq(run(&me, INDEX_ADD, k, "b", 0), FARKV_EEXISTS);
	check_value(&me, k, "a");
	v1 = me.op.version;
	ck_assert_int_eq(run(&other, INDEX_CAS, k, "c", v1 + 1), FARKV_EVERSION);
	ck_assert_int_eq(run(&other, INDEX_CAS, k, "c", 0), FARKV_EVERSION);
	ck_assert_int_eq(run(&other, INDEX_CAS, k, "c", v1), 0);
	ck_assert_int_eq(run(&me, INDEX_CAS, k, "d", v1), FARKV_EVERSION);
	check_value(&me, k, "c");
	ck_assert_int_eq(run(&me, INDEX_REPLACE, k, "e", 0), 0);
	check_value(&other, k, "e");
	ck_assert_int_eq(run(&me, INDEX_DELETE, k, NULL, 0), 0);
	ck_assert_int_eq(run(&me, INDEX_CAS, k, "f", me.op.version),
			 FARKV_ENOTFOUND);
	ck_assert_int_eq(run(&me, INDEX_REPLACE, k, "f", 0), FARKV_ENOTFOUND);
	ck_assert_int_eq(run(&me, INDEX_ADD, k, "g", 0), 0);
	check_value(&other, k, "g");
	teardown();
}

TEST_LOOP(many_keys_are_found_and_absent_ones_missed, 0, 2)
{
	char names[3000][12];

	setup(_i);
	for (unsigned i = 0; i < 3000; i++) {
		snprintf(names[i], sizeof(names[i]), "key%u", i);
		PUT(i % 2 ? &me : &other, key_of(names[i]), names[i]);
	}
	for (unsigned i = 0; i < 3000; i++)
		check_value(&me, key_of(names[i]), names[i]);
	ABSENT(&me, key_of("key3000"));
	ABSENT(&me, key_of("another"));
	teardown();
}

TEST_LOOP(same_fingerprint_keys_in_one_window_stay_apart, 0, 2)
{
	static const char *const names[] = {"a", "b", "a-longer-key-than-b",
					    "d", "e", "f", "g"};

	setup(_i);
	for (unsigned i = 0; i < 7; i++)
		PUT(&me, key_at(names[i], 77), names[i]);
	for (unsigned i = 0; i < 7; i++)
		check_value(&other, key_at(names[i], 77), names[i]);
	ABSENT(&me, key_at("h", 77));
	ck_assert_int_eq(run(&other, INDEX_DELETE, key_at("c", 77), NULL, 0),
			 FARKV_ENOTFOUND);
	ck_assert_int_eq(run(&other, INDEX_DELETE, key_at("b", 77), NULL, 0), 0);
	ABSENT(&me, key_at("b", 77));
	PUT(&me, key_at("b", 77), "b2");
	PUT(&me, key_at("g", 77), "g2");
	check_value(&me, key_at("b", 77), "b2");
	check_value(&me, key_at("g", 77), "g2");
	check_value(&me, key_at("a-longer-key-than-b", 77),
		    "a-longer-key-than-b");
	teardown();
}

TEST(operations_without_cache_keep_to_their_requests)
{
	struct index_key k;
	struct xport_counters b;

#define COST(r, w, c, rtt)                                                     \
	do {                                                                   \
		struct xport_counters *n = &me.lane->counters;                 \
		ck_assert_uint_eq(n->reads - b.reads, r);                      \
		ck_assert_uint_eq(n->writes - b.writes, w);                    \
		ck_assert_uint_eq(n->cas - b.cas, c);                          \
		ck_assert_uint_eq(n->round_trips - b.round_trips, rtt);        \
		ck_assert_uint_eq(n->doorbells - b.doorbells, rtt);            \
	} while (0)
	setup(true);
	k = key_of("budget");
	fake_region_grant(&region, me.alloc, 0, 8);
	b = me.lane->counters;
	ABSENT(&me, k);
	COST(1, 0, 0, 1);
	b = me.lane->counters;
	PUT(&me, k, "v");
	COST(1, 1, 1, 2);
	b = me.lane->counters;
	PUT(&me, k, "w");
	COST(2, 1, 1, 3);
	b = me.lane->counters;
	check_value(&me, k, "w");
	COST(2, 0, 0, 2);
	b = me.lane->counters;
	ck_assert_int_eq(run(&me, INDEX_DELETE, k, NULL, 0), 0);
	COST(2, 0, 1, 3);
	b = me.lane->counters;
	ABSENT(&me, k); /* a DEAD slot costs no probe */
	COST(1, 0, 0, 1);
	teardown();
}

TEST(batch_of_gets_takes_two_round_trips)
{
	struct index_op ops[50], *ptr[50];
	char names[50][8];
	struct xport_counters b;

	setup(true);
	for (unsigned i = 0; i < 50; i++) {
		struct index_key k;

		snprintf(names[i], sizeof(names[i]), "m%u", i);
		k = key_of(names[i]);
		if (i % 5)
			PUT(&other, k, names[i]);
		index_op_init(&ops[i]);
		index_op_start(&ops[i], INDEX_GET, &k, NULL, 0);
		ptr[i] = &ops[i];
	}
	b = me.lane->counters;
	index_run(me.ix, ptr, 50, 0, clock_now_ns() + NS_PER_SEC);
	ck_assert_uint_eq(me.lane->counters.round_trips - b.round_trips, 2);
	ck_assert_uint_eq(me.lane->counters.doorbells - b.doorbells, 2);
	for (unsigned i = 0; i < 50; i++) {
		if (i % 5 == 0) {
			ck_assert_int_eq(ops[i].result, FARKV_ENOTFOUND);
		} else {
			ck_assert_int_eq(ops[i].result, 0);
			ck_assert_mem_eq(ops[i].view.value, names[i],
					 strlen(names[i]));
		}
		index_op_fini(me.ix, &ops[i]);
	}
	teardown();
}

TEST_LOOP(large_value_delete_leaves_a_small_tombstone, 0, 2)
{
	struct index_op *op = &me.op;
	char big[3000];
	struct index_key k;
	uint64_t w;

	setup(_i);
	k = key_of("big");
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	PUT(&me, k, big);
	fake_region_grant(&region, me.alloc, 0, 1);
	ck_assert_int_eq(run(&me, INDEX_DELETE, k, NULL, 0), 0);
	w = slots_of(k)[0];
	ck_assert(w & SLOT_DEAD);
	ck_assert_uint_eq(slot_class(w), 0);
	ABSENT(&other, k);
	/* without a free block the old block stays as the tombstone */
	PUT(&me, k, big);
	while (alloc_count(me.alloc, 0)) {
		struct block_ref r;

		ck_assert(alloc_take(me.alloc, 0, 0, &r));
	}
	index_op_start(op, INDEX_DELETE, &k, NULL, 0);
	index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->result, INDEX_PENDING);
	ck_assert_int_eq(op->wait, INDEX_WAIT_BLOCK);
	ck_assert_uint_eq(op->cls, 0);
	index_run(me.ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->result, 0);
	ck_assert_uint_eq(slot_class(slots_of(k)[0]),
			  class_for(block_room(3, sizeof(big) - 1)));
	ABSENT(&other, k);
	teardown();
}

TEST_SUITE("index")
