/* SPDX-License-Identifier: BSD-3-Clause */
/* Borrowing by loads (common/index/search.c): what is found, and how long a look holds. */
#include "config.h"

#include <string.h>

#include "common/index/search.h"
#include "tests/rig/cases.h"
#include "tests/rig/index_rig.h"

static struct index_key k;
static struct index_borrowed b;

static int borrow(struct index_key who)
{
	return index_borrow(me.ix, &me.op, &who, &b);
}

static bool holds(void)
{
	return index_look_holds(me.ix, &b.look, true);
}

/* A key with a value; from now on fake_now is the time. */
static void setup_borrow(bool fault)
{
	setup(fault);
	k = key_at("k", 77);
	PUT(&me, k, "value");
	check_value(&me, k, "value");
	fake_now = 1000;
	index_set_clock(me.ix, fake_clock, NULL);
}

static void check_borrowed(const char *want)
{
	ck_assert_uint_eq(b.value_len, strlen(want));
	ck_assert_mem_eq(b.value, want, strlen(want));
}

TEST(borrow_finds_value_and_slot)
{
	uint64_t version;

	setup_borrow(false);
	version = me.op.version;
	ck_assert_int_eq(borrow(k), 0);
	check_borrowed("value");
	ck_assert_uint_eq(b.version, version);
	ck_assert(b.value > region.base && b.value < region.base + region.sb.region_bytes);
	ck_assert_ptr_eq(region.base + b.look.slot, slots_of(k));
	ck_assert_uint_eq(b.look.word, *slots_of(k));
	ck_assert_uint_eq(b.look.at_ns, 1000);
	teardown();
}

TEST(look_at_a_kept_value_holds_at_any_time)
{
	setup_borrow(false);
	ck_assert_int_eq(borrow(k), 0);
	for (unsigned i = 0; i < 10; i++) {
		ck_assert(holds());
		fake_now += GRACE;
	}
	teardown();
}

TEST(look_at_a_replaced_value_holds_until_half_of_T)
{
	setup_borrow(false);
	ck_assert_int_eq(borrow(k), 0);
	PUT(&other, k, "other");
	fake_now += GRACE / 2;
	ck_assert(holds());
	ck_assert(!index_look_holds(me.ix, &b.look, false));
	check_borrowed("value");
	fake_now++;
	ck_assert(!holds());
	ck_assert_int_eq(borrow(k), 0);
	check_borrowed("other");
	ck_assert(holds());
	teardown();
}

/* The key may have been written in another subtable since. */
TEST(look_at_a_slot_that_freezes_holds_until_half_of_T)
{
	setup_borrow(false);
	ck_assert_int_eq(borrow(k), 0);
	*slots_of(k) |= SLOT_FROZEN;
	fake_now += GRACE / 2;
	ck_assert(holds());
	fake_now++;
	ck_assert(!holds());
	teardown();
}

TEST(borrow_of_a_frozen_slot_is_left_to_a_get)
{
	setup_borrow(false);
	*slots_of(k) |= SLOT_FROZEN;
	ck_assert_int_eq(borrow(k), INDEX_PENDING);
	*slots_of(k) &= ~SLOT_FROZEN;
	ck_assert_int_eq(borrow(k), 0);
	teardown();
}

TEST(borrow_of_a_deleted_or_unknown_key_finds_nothing)
{
	setup_borrow(false);
	ck_assert_int_eq(borrow(key_at("unknown", 77)), FARKV_ENOTFOUND);
	ck_assert_int_eq(borrow(key_at("unknown", 78)), FARKV_ENOTFOUND);
	ck_assert_int_eq(run(&other, INDEX_DELETE, k, NULL, 0), 0);
	ck_assert_int_eq(borrow(k), FARKV_ENOTFOUND);
	teardown();
}

/* A long key in the window of `k`, with its fingerprint. */
static struct index_key long_key(void)
{
	static char name[250];
	struct index_key found;
	unsigned n = 0;

	memset(name, 'x', sizeof(name) - 1);
	do {
		n++;
		memcpy(name, &n, sizeof(n));
		found = (struct index_key){
			.data = name,
			.len = sizeof(name),
			.hash = hash_key(region.sb.hash_seed, name, sizeof(name))};
	} while (slots_of(found) != slots_of(k) || hash_fp(found.hash) != 77);
	return found;
}

/* Its header and key are longer than what a borrow copies at first. */
TEST(borrow_passes_a_longer_key_of_the_same_fingerprint)
{
	struct index_key first, second;

	setup(false);
	k = key_at("second", 77);
	first = long_key();
	second = k;
	PUT(&other, first, "long");
	PUT(&other, second, "short");
	ck_assert_int_eq(run(&me, INDEX_GET, second, NULL, 0), 0);
	ck_assert_int_eq(borrow(second), 0);
	check_borrowed("short");
	ck_assert_int_eq(borrow(first), 0);
	check_borrowed("long");
	teardown();
}

/* Header and key are verified, the value is not. */
TEST(borrow_verifies_the_head_alone)
{
	uint8_t *block;

	setup_borrow(false);
	block = region.base + slot_off(*slots_of(k));
	block[sizeof(struct block_header) + k.len] = 'V';
	ck_assert_int_eq(borrow(k), 0);
	check_borrowed("Value");
	block[0] ^= 1;
	ck_assert_int_eq(borrow(k), INDEX_PENDING);
	block[0] ^= 1;
	ck_assert_int_eq(borrow(k), 0);
	teardown();
}

TEST(borrow_without_a_mapping_is_left_to_the_caller)
{
	setup_borrow(true);
	ck_assert_int_eq(borrow(k), INDEX_PENDING);
	teardown();
}

TEST(look_that_leads_nowhere_does_not_hold)
{
	static const uint64_t slots[] = {4, UINT64_MAX - 7, UINT64_MAX};

	setup_borrow(false);
	ck_assert_int_eq(borrow(k), 0);
	for (unsigned i = 0; i < 3; i++) {
		b.look.slot = slots[i];
		ck_assert(!holds());
	}
	b.look.slot = region.sb.region_bytes;
	ck_assert(!holds());
	teardown();
}

TEST_SUITE("index_borrow")
