/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations whose compare-and-swap loses, by winner, and their results. */
#include "config.h"

#include "tests/rig/cases.h"
#include "tests/rig/index_rig.h"

TEST(put_loses_to_blind_put_is_absorbed_with_one_cas)
{
	struct index_key k;
	uint64_t cas;

	setup(true);
	k = key_of("k");
	PUT(&me, k, "old");
	cas = me.lane->counters.cas;
	rival_sets(XPORT_CAS, rival_op, INDEX_PUT, k, "rival");
	PUT(&me, k, "mine");
	ck_assert_uint_eq(rival.acted, 1);
	ck_assert_uint_eq(me.lane->counters.cas - cas, 1);
	check_value(&me, k, "rival");
	teardown();
}

TEST(put_loses_to_blind_delete_is_absorbed)
{
	struct index_key k;

	setup(true);
	k = key_of("k");
	PUT(&me, k, "old");
	rival_sets(XPORT_CAS, rival_op, INDEX_DELETE, k, NULL);
	PUT(&me, k, "mine");
	ck_assert_int_eq(rival.result, 0);
	ABSENT(&me, k);
	teardown();
}

TEST(put_loses_to_conditional_write_is_not_absorbed)
{
	struct index_key k;

	setup(true);
	k = key_of("k");
	PUT(&me, k, "old");
	rival_sets(XPORT_CAS, rival_cas, INDEX_CAS, k, "rival");
	PUT(&me, k, "mine");
	ck_assert_int_eq(rival.result, 0);
	check_value(&me, k, "mine");
	teardown();
}

TEST(insert_loses_empty_to_other_fingerprint_takes_next_slot)
{
	setup(true);
	rival_sets(XPORT_CAS, rival_op, INDEX_PUT, key_at("b", 2), "vb");
	PUT(&me, key_at("a", 1), "va");
	check_value(&me, key_at("a", 1), "va");
	check_value(&me, key_at("b", 2), "vb");
	ck_assert_uint_eq(slot_fp(slots_of(key_at("a", 1))[0]), 2);
	ck_assert_uint_eq(slot_fp(slots_of(key_at("a", 1))[1]), 1);
	teardown();
}

TEST(insert_loses_empty_to_other_key_of_same_fingerprint_is_not_absorbed)
{
	setup(true);
	rival_sets(XPORT_CAS, rival_op, INDEX_PUT, key_at("b", 1), "vb");
	PUT(&me, key_at("a", 1), "va");
	check_value(&me, key_at("a", 1), "va");
	check_value(&me, key_at("b", 1), "vb");
	teardown();
}

TEST(insert_loses_empty_to_same_key_makes_no_duplicate)
{
	struct index_key k = key_at("a", 1);

	setup(true);
	rival_sets(XPORT_CAS, rival_op, INDEX_PUT, k, "rival");
	PUT(&me, k, "mine");
	ck_assert_int_eq(rival.result, 0);
	check_value(&me, k, "mine");
	check_value(&other, k, "mine");
	check_no_duplicates(k);
	ck_assert(slot_is_null(slots_of(k)[1]));
	teardown();
}

TEST(add_loses_empty_to_same_key_says_exists)
{
	struct index_key k = key_at("a", 1);

	setup(true);
	rival_sets(XPORT_CAS, rival_op, INDEX_ADD, k, "rival");
	ck_assert_int_eq(run(&me, INDEX_ADD, k, "mine", 0), FARKV_EEXISTS);
	check_value(&me, k, "rival");
	teardown();
}

TEST(conditional_operations_never_absorb)
{
	struct index_key k;
	uint64_t v;

	setup(true);
	k = key_of("k");
	PUT(&me, k, "old");
	check_value(&me, k, "old");
	v = me.op.version;
	rival_sets(XPORT_CAS, rival_op, INDEX_PUT, k, "rival");
	ck_assert_int_eq(run(&me, INDEX_CAS, k, "mine", v), FARKV_EVERSION);
	check_value(&me, k, "rival");
	rival_sets(XPORT_CAS, rival_op, INDEX_PUT, k, "rival2");
	ck_assert_int_eq(run(&me, INDEX_REPLACE, k, "mine", 0), 0);
	check_value(&me, k, "mine");
	rival_sets(XPORT_CAS, rival_op, INDEX_PUT, k, "rival3");
	ck_assert_int_eq(run(&me, INDEX_DELETE, k, NULL, 0), 0);
	ABSENT(&me, k);
	PUT(&me, k, "old");
	rival_sets(XPORT_CAS, rival_op, INDEX_DELETE, k, NULL);
	ck_assert_int_eq(run(&me, INDEX_DELETE, k, NULL, 0), FARKV_ENOTFOUND);
	PUT(&me, k, "old");
	rival_sets(XPORT_CAS, rival_op, INDEX_DELETE, k, NULL);
	ck_assert_int_eq(run(&me, INDEX_REPLACE, k, "x", 0), FARKV_ENOTFOUND);
	ABSENT(&me, k);
	teardown();
}

static void rival_deletes_its_version(void)
{
	ck_assert_int_eq(run(&other, INDEX_GET, rival.key, NULL, 0), 0);
	rival.result = run(&other, INDEX_DELETE_CAS, rival.key, NULL, other.op.version);
}

/* Had the put come just before it, the conditional delete would have failed. */
TEST(put_that_loses_to_a_conditional_delete_is_not_absorbed)
{
	struct index_key k;

	setup(true);
	k = key_of("k");
	PUT(&me, k, "old");
	check_value(&me, k, "old");
	rival_sets(XPORT_CAS, rival_deletes_its_version, INDEX_DELETE_CAS, k, NULL);
	PUT(&me, k, "mine");
	ck_assert_int_eq(rival.result, 0);
	check_value(&me, k, "mine");
	check_value(&other, k, "mine");
	teardown();
}

TEST(conditional_delete_that_loses_to_a_write_removes_nothing)
{
	struct index_key k;
	uint64_t v;

	setup(true);
	k = key_of("k");
	PUT(&me, k, "old");
	v = me.op.version;
	rival_sets(XPORT_CAS, rival_op, INDEX_PUT, k, "rival");
	ck_assert_int_eq(run(&me, INDEX_DELETE_CAS, k, NULL, v), FARKV_EVERSION);
	check_value(&me, k, "rival");
	v = me.op.version;
	rival_sets(XPORT_CAS, rival_op, INDEX_DELETE, k, NULL);
	ck_assert_int_eq(run(&me, INDEX_DELETE_CAS, k, NULL, v), FARKV_ENOTFOUND);
	ABSENT(&me, k);
	teardown();
}

TEST_SUITE("index, rivals")
