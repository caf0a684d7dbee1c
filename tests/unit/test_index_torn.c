/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations over lanes whose words may tear: without XPORT_READ8_ATOMIC. */
#include "config.h"

#include <stdio.h>

#include "tests/rig/cases.h"
#include "tests/rig/index_rig.h"

static unsigned tear_turn;

static void tear_rival(void *arg)
{
	(void)arg;
	if (tear_turn++ % 3 == 0) {
		rival.key = key_at(tear_turn % 2 ? "tear1" : "tear2",
				   tear_turn % 2 ? 11 : 12);
		ck_assert_int_eq(run(&other, INDEX_PUT, rival.key, "t", 0), 0);
	}
}

TEST(torn_windows_make_no_duplicates_and_no_false_errors)
{
	for (unsigned seed = 1; seed <= 40; seed++) {
		struct xport_fault_config cfg = {.seed = seed,
						 .tear_ppm = 400000,
						 .byte_tear = true,
						 .hide_direct = true,
						 .tear_gap = tear_rival};
		struct fake_client c;
		char name[8];

		setup(false);
		tear_turn = seed;
		fake_client_open(&c, &region, &cfg, 3);
		for (unsigned i = 0; i < 20; i++) {
			snprintf(name, sizeof(name), "n%u", i % 7);
			PUT(&c, key_at(name, 10 + i % 4), name);
			check_value(&c, key_at(name, 10 + i % 4), name);
		}
		for (unsigned i = 0; i < 20; i++) {
			snprintf(name, sizeof(name), "n%u", i % 7);
			check_no_duplicates(key_at(name, 10 + i % 4));
		}
		check_no_duplicates(key_at("tear1", 11));
		check_no_duplicates(key_at("tear2", 12));
		fake_client_close(&c);
		teardown();
	}
}

static struct index_key raced;

static void race_rival(void *arg)
{
	(void)arg;
	if (tear_turn++ == 0)
		ck_assert_int_eq(run(&other, INDEX_PUT, raced, "theirs", 0), 0);
}

/* The READ shows some bytes of EMPTY and some of the rival's word. */
TEST(insert_that_reads_half_of_a_rivals_claim_makes_no_duplicate)
{
	unsigned won = 0;

	for (unsigned seed = 1; seed <= 600; seed++) {
		struct xport_fault_config cfg = {.seed = seed,
						 .byte_tear = true,
						 .hide_direct = true,
						 .tear_ppm = 1000000,
						 .tear_gap = race_rival};
		struct fake_client c;

		setup(false);
		raced = key_at("raced", 1 + seed % 255);
		tear_turn = 1; /* not while the directory is read */
		fake_client_open(&c, &region, &cfg, 3);
		fake_region_grant(&region, c.alloc, 0, 1);
		tear_turn = 0;
		PUT(&c, raced, "mine");
		ck_assert_uint_gt(tear_turn, 0);
		check_no_duplicates(raced);
		/* Absorbed by the rival's put, or written over it. */
		ck_assert_int_eq(run(&other, INDEX_GET, raced, NULL, 0), 0);
		won += other.op.view.value_len == 4;
		fake_client_close(&c);
		teardown();
	}
	ck_assert(won > 100 && won < 600);
}

static uint64_t mixed_from, mixed_to;
static unsigned mixed;

/* The first READ of a window returns another word in the key's slot. */
static int mixing_hook(void *arg, const struct xport_chain *c, unsigned i,
		       bool after)
{
	uint64_t *window = c->wr[i].laddr;

	(void)arg;
	if (!after || mixed || c->wr[i].opcode != XPORT_READ ||
	    c->wr[i].len != WINDOW_BYTES)
		return 0;
	for (unsigned s = 0; s < WINDOW_SLOTS; s++)
		if (window[s] == mixed_from) {
			window[s] = mixed_to;
			mixed++;
		}
	return 0;
}

static const struct xport_fault_config mixing = {.byte_tear = true,
						 .hide_direct = true,
						 .hook = mixing_hook};

/* Half of one word of the key and half of the next one name an older block. */
TEST(get_by_a_torn_word_returns_no_older_value)
{
	struct index_key k;
	struct fake_client c;

	setup(false);
	k = key_at("k", 7);
	PUT(&other, k, "oldest");
	mixed_to = *slots_of(k);
	PUT(&other, k, "old");
	PUT(&other, k, "new");
	mixed_from = *slots_of(k);
	mixed = 0;
	fake_client_open(&c, &region, &mixing, 3);
	check_value(&c, k, "new");
	ck_assert_uint_eq(mixed, 1);
	fake_client_close(&c);
	teardown();
}

/*
 * A torn word may name a block that was written and never published. The block's next
 * content must not be published by the same word: a client that READ the torn word would
 * take the slot for the first content's key, and its CAS would succeed.
 */
TEST_LOOP(unpublished_block_gets_the_next_incarnation_where_words_tear, 0, 2)
{
	struct xport_fault_config cfg = {.byte_tear = _i,
					 .hide_direct = true,
					 .hook = rival_hook};
	struct index_key k;
	struct block_ref first;
	struct fake_client c;

	setup(false);
	k = key_at("k", 7);
	PUT(&other, k, "old");
	fake_client_open(&c, &region, &cfg, 3);
	fake_region_grant(&region, c.alloc, 0, 1);
	ck_assert(alloc_take(c.alloc, 0, 0, &first));
	ck_assert_int_eq(alloc_put(c.alloc, first), 0);
	rival_sets(XPORT_CAS, rival_op, INDEX_PUT, k, "rival");
	PUT(&c, k, "in vain");
	check_value(&other, k, "rival");
	PUT(&c, k, "next");
	ck_assert_uint_eq(slot_block(slots_of(k)[0]).off, first.off);
	ck_assert_uint_eq(slot_block(slots_of(k)[0]).inc, first.inc + _i);
	fake_client_close(&c);
	teardown();
}

/*
 * Half of one word of another key and half of its next one name an old block of this key.
 */
TEST_LOOP(slot_of_another_key_is_not_matched_by_a_torn_word, 0, 4)
{
	static const enum index_kind kinds[] = {INDEX_PUT, INDEX_ADD};
	struct index_key k, alien;
	struct fake_client c;

	setup(false);
	k = key_at("k", 7);
	alien = key_at("alien", 7);
	ck_assert_int_eq(run(&other, kinds[_i % 2], alien, "its own", 0), 0);
	PUT(&other, k, "oldest");
	mixed_from = slots_of(k)[0];
	mixed_to = slots_of(k)[1];
	if (_i < 2)
		PUT(&other, k, "old");
	else
		ck_assert_int_eq(run(&other, INDEX_DELETE, k, NULL, 0), 0);
	mixed = 0;
	fake_client_open(&c, &region, &mixing, 3);
	ck_assert_int_eq(run(&c, _i < 2 ? INDEX_PUT : INDEX_ADD, k, "new", 0),
			 0);
	ck_assert_uint_eq(mixed, 1);
	check_value(&other, k, "new");
	check_value(&other, alien, "its own");
	check_no_duplicates(k);
	check_no_duplicates(alien);
	fake_client_close(&c);
	teardown();
}

/* ... or a block of another key of that fingerprint. */
TEST(put_after_a_torn_word_makes_no_duplicate)
{
	struct index_key k, alien;
	struct fake_client c;

	setup(false);
	k = key_at("k", 7);
	alien = key_at("alien", 7);
	PUT(&other, alien, "its own");
	mixed_to = *slots_of(alien);
	PUT(&other, k, "old");
	mixed_from = slots_of(k)[1];
	mixed = 0;
	fake_client_open(&c, &region, &mixing, 3);
	PUT(&c, k, "new");
	ck_assert_uint_eq(mixed, 1);
	check_no_duplicates(k);
	check_value(&other, k, "new");
	check_value(&other, alien, "its own");
	fake_client_close(&c);
	teardown();
}

TEST_SUITE("index, torn words")
