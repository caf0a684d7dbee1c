/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A copy that follows an index by its changes, over an index in memory: while others write, and
 * subtables are split and rebuilt, between any two requests.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/index/changes.h"
#include "common/region/hash.h"
#include "tests/rig/cases.h"
#include "tests/rig/index_rig.h"

#define KEYS 240u /* k0 to k239 */
#define PAGES 3000u
#define VALUE_MAX 16u
#define LONG_KEYS 160u

static struct index_changes *changes;
static char copy[KEYS][VALUE_MAX]; /* empty: absent */
static bool gone[KEYS];            /* of the copy, as a whole part did not list it */
static unsigned n_parts, n_whole, n_listed, n_same; /* of the last pass */

static const char *name_of(unsigned i)
{
	static char names[KEYS][8];

	snprintf(names[i], sizeof(names[i]), "k%u", i);
	return names[i];
}

static unsigned number_of(const struct index_change *c)
{
	char name[8] = "";

	ck_assert_uint_lt(c->key_len, sizeof(name));
	memcpy(name, c->key, c->key_len);
	ck_assert_int_eq(name[0], 'k');
	return (unsigned)atoi(name + 1);
}

/* ---- the copy ------------------------------------------------------------------------------ */

static void value_get(struct fake_client *c, unsigned i, char value[VALUE_MAX])
{
	int err = run(c, INDEX_GET, key_of(name_of(i)), NULL, 0);

	memset(value, 0, VALUE_MAX);
	if (err == FARKV_ENOTFOUND)
		return;
	ck_assert_int_eq(err, 0);
	ck_assert_uint_lt(c->op.view.value_len, VALUE_MAX);
	memcpy(value, c->op.view.value, c->op.view.value_len);
}

static void apply(const struct index_changes_part *p)
{
	uint64_t last = p->first;

	n_parts++;
	n_whole += p->whole;
	n_listed += (unsigned)p->n;
	for (unsigned i = 0; i < KEYS; i++)
		gone[i] = p->whole && key_of(name_of(i)).hash >= p->first &&
			  key_of(name_of(i)).hash <= p->last;
	for (size_t n = 0; n < p->n; n++) {
		unsigned i = number_of(&p->change[n]);
		uint64_t hash = key_of(name_of(i)).hash;

		ck_assert_uint_ge(hash, last);
		ck_assert_uint_le(hash, p->last);
		last = hash;
		gone[i] = false;
		n_same += p->change[n].same;
		ck_assert(p->whole || !p->change[n].same);
		if (!p->change[n].same)
			value_get(&me, i, copy[i]);
	}
	for (unsigned i = 0; i < KEYS; i++)
		if (gone[i])
			copy[i][0] = '\0';
}

static void go_on(void)
{
	struct index_changes_part p;
	uint64_t next = 0;
	int err;

	n_parts = n_whole = n_listed = n_same = 0;
	while ((err = index_changes_next(me.ix, changes, UINT64_MAX, &p)) == 0) {
		ck_assert_uint_eq(p.first, next);
		next = p.last + 1;
		apply(&p);
	}
	ck_assert_msg(err == FARKV_ENOTFOUND, "%s", err_detail());
	ck_assert_uint_eq(next, 0);
}

static void pass(void)
{
	index_changes_begin(changes);
	go_on();
}

static void check_copy(const char *when, unsigned n)
{
	for (unsigned i = 0; i < KEYS; i++) {
		char value[VALUE_MAX];

		value_get(&other, i, value);
		ck_assert_msg(strcmp(copy[i], value) == 0, "%s %u: key %u is '%s', not '%s'", when,
			      n, i, copy[i], value);
	}
}

static void fill(void)
{
	fake_region_grant(&region, other.alloc, 0, 3 * KEYS);
	for (unsigned i = 0; i < KEYS; i++)
		PUT(&other, key_of(name_of(i)), "v");
}

static void begin_with(const struct xport_fault_config *cfg)
{
	fake_region_init(&region, 1, PAGES, GRACE);
	fake_client_open(&me, &region, cfg, 1);
	fake_client_open(&other, &region, NULL, 2);
	memset(copy, 0, sizeof(copy));
	changes = index_changes_new();
	ck_assert_ptr_nonnull(changes);
}

static void begin(bool fault)
{
	static const struct xport_fault_config cfg = {.hide_direct = true};

	begin_with(fault ? &cfg : NULL);
}

static void end(void)
{
	index_changes_free(changes);
	teardown();
}

/* ---- quiet -------------------------------------------------------------------------------------
 */

TEST_LOOP(first_pass_is_whole_and_later_ones_list_what_has_changed, 0, 2)
{
	begin(_i);
	fill();
	pass();
	ck_assert_uint_eq(n_parts, 2);
	ck_assert_uint_eq(n_whole, 2);
	ck_assert_uint_eq(n_listed, KEYS);
	ck_assert_uint_eq(n_same, 0);
	check_copy("first", 0);
	pass();
	ck_assert_uint_eq(n_parts, 2);
	ck_assert_uint_eq(n_whole + n_listed, 0);
	PUT(&other, key_of("k3"), "three");
	ck_assert_int_eq(run(&other, INDEX_DELETE, key_of("k4"), NULL, 0), 0);
	pass();
	ck_assert_uint_eq(n_listed, 2);
	check_copy("changed", 0);
	/* DEAD to DEAD is a change, too. */
	PUT(&other, key_of("k4"), "four");
	ck_assert_int_eq(run(&other, INDEX_DELETE, key_of("k4"), NULL, 0), 0);
	pass();
	ck_assert_uint_le(n_listed, 1);
	check_copy("dead again", 0);
	end();
}

/* The word stays, the content does not: nothing but the caller's doubt tells. */
TEST_LOOP(word_that_came_again_counts_as_changed_in_pages_of_doubt, 0, 2)
{
	struct index_key k;
	uint64_t *slot, word, page;
	struct block_pair kv = {.value = "again", .value_len = 5};

	begin(_i);
	fill();
	pass();
	k = key_of("k7");
	slot = slots_of(k);
	while (slot_fp(*slot) != hash_fp(k.hash) ||
	       memcmp(region.base + slot_off(*slot) + BLOCK_HEADER_BYTES, "k7", 2) != 0)
		slot++;
	word = *slot;
	page = slot_off(word) / PAGE_BYTES;
	kv.key = k.data;
	kv.key_len = k.len;
	kv.key_hash = k.hash;
	block_encode(region.base + slot_off(word), slot_block(word), 99, &kv);
	pass();
	ck_assert_uint_eq(n_listed, 0);
	index_changes_begin(changes);
	ck_assert_int_eq(index_changes_invalidate(changes, me.ix, page + 1, 1), 0);
	go_on();
	ck_assert_str_eq(copy[7], "v");
	index_changes_begin(changes);
	ck_assert_int_eq(index_changes_invalidate(changes, me.ix, 0, page), 0);
	ck_assert_int_eq(index_changes_invalidate(changes, me.ix, page, PAGES * 2), 0);
	go_on();
	ck_assert_str_eq(copy[7], "again");
	ck_assert_uint_eq(n_listed, KEYS); /* all are in that page and the next */
	check_copy("doubted", 0);
	pass(); /* the doubt is over */
	ck_assert_uint_eq(n_listed, 0);
	index_changes_begin(changes);
	index_changes_invalidate_all(changes);
	go_on();
	ck_assert_uint_eq(n_whole, 2);
	ck_assert_uint_eq(n_same, 0);
	ck_assert_uint_eq(n_listed, KEYS);
	end();
}

TEST_LOOP(words_that_were_seen_too_long_ago_count_for_nothing, 0, 2)
{
	begin(_i);
	fill();
	index_set_clock(me.ix, fake_clock, NULL);
	fake_now = GRACE;
	pass();
	fake_now += INC_COUNT * GRACE / 2;
	pass();
	ck_assert_uint_eq(n_whole, 0);
	fake_now += INC_COUNT * GRACE / 2 + 1;
	pass();
	ck_assert_uint_eq(n_whole, 2);
	ck_assert_uint_eq(n_same, 0);
	pass();
	ck_assert_uint_eq(n_whole, 0);
	end();
}

TEST_LOOP(damaged_block_is_left_out_and_looked_at_again_in_each_pass, 0, 2)
{
	struct index_key k;
	uint64_t *slot;
	uint8_t *block;

	begin(_i);
	fill();
	k = key_of("k9");
	slot = slots_of(k);
	while (slot_fp(*slot) != hash_fp(k.hash) ||
	       memcmp(region.base + slot_off(*slot) + BLOCK_HEADER_BYTES, "k9", 2) != 0)
		slot++;
	block = region.base + slot_off(*slot);
	block[8] ^= 1;
	pass();
	ck_assert_uint_eq(n_listed, KEYS - 1);
	pass();
	ck_assert_uint_eq(n_listed, 0);
	block[8] ^= 1;
	pass();
	ck_assert_uint_eq(n_listed, 1);
	check_copy("mended", 0);
	pass();
	ck_assert_uint_eq(n_listed, 0);
	end();
}

/* Keys of 65535 bytes, more than a part has room for: no part is remembered, and all are listed. */
TEST(keys_that_do_not_fit_a_part_are_listed_in_each_pass)
{
	char *key = malloc(FARKV_KEY_MAX + 1);
	struct index_changes_part p;
	unsigned n = 0, parts = 0;

	fake_region_init(&region, 0, 2 * LONG_KEYS + 300, GRACE);
	fake_client_open(&me, &region, NULL, 1);
	fake_client_open(&other, &region, NULL, 2);
	changes = index_changes_new();
	memset(key, 'x', FARKV_KEY_MAX);
	key[FARKV_KEY_MAX] = '\0';
	for (unsigned i = 0; i < LONG_KEYS; i++) {
		key[0] = (char)(1 + i);
		PUT(&other, key_of(key), "v");
	}
	for (unsigned i = 0; i < 3; i++, n = parts = 0) {
		index_changes_begin(changes);
		for (; index_changes_next(me.ix, changes, UINT64_MAX, &p) == 0; parts++) {
			n += (unsigned)p.n;
			ck_assert(p.whole);
		}
		ck_assert_uint_eq(n, LONG_KEYS);
		ck_assert_uint_ge(parts, 2);
	}
	free(key);
	end();
}

/* ---- migrations and writers
 * ------------------------------------------------------------------------ */

static struct {
	unsigned seed;
	unsigned one_in; /* requests; 0: none */
	uint64_t old;    /* the entry of a subtable that is frozen; 0: none */
	uint64_t at;     /* ... and its index in the directory */
	bool half; /* which half of its entries is still to be stored */
	uint64_t fresh[2]; /* what replaces it; 0: not made yet */
} rivals;

static unsigned draw(unsigned n)
{
	rivals.seed = rivals.seed * 1103515245u + 12345u;
	return (rivals.seed >> 8) % n;
}

static void dir_double(void)
{
	uint32_t depth = dirword_depth(*fake_region_d(&region));
	uint64_t off = REGION_DIR_OFF + ((UINT64_C(8) << depth) * 4);
	uint64_t *to = (uint64_t *)(void *)(region.base + off);

	for (uint64_t i = 0; i < UINT64_C(2) << depth; i++)
		to[i] = *fake_region_entry(&region, i / 2);
	*fake_region_d(&region) = dirword_pack(off, depth + 1);
}

static void freeze(void)
{
	uint64_t *slots;

	rivals.at = draw(1u << dirword_depth(*fake_region_d(&region)));
	rivals.old = *fake_region_entry(&region, rivals.at);
	rivals.fresh[0] = 0;
	slots = fake_region_slots(&region, rivals.old);
	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		slots[i] |= SLOT_FROZEN;
}

/* As the server does: in the order of the old subtable, each to its window's first EMPTY. */
static void build(bool splits)
{
	uint32_t depth = entry_depth(rivals.old);
	uint64_t *old = fake_region_slots(&region, rivals.old), *fresh = rivals.fresh;

	fresh[0] = fake_region_subtable(&region, depth + splits);
	fresh[1] = splits ? fake_region_subtable(&region, depth + splits) : fresh[0];
	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++) {
		uint64_t w = old[i] & ~SLOT_FROZEN, hash, *to;

		if (slot_is_null(w) || (w & SLOT_DEAD))
			continue;
		ck_assert(block_key_hash(region.base + slot_off(w), class_bytes(slot_class(w)),
					 slot_block(w), region.sb.hash_seed, &hash));
		to = fake_region_slots(&region, fresh[hash >> (63 - depth) & 1]) +
		     hash_home_line(hash) * LINE_SLOTS;
		while (!slot_is_null(*to))
			to++;
		*to = w;
	}
}

/* One half of the entries, then the other. */
static void publish(void)
{
	uint32_t depth = entry_depth(rivals.old), all = dirword_depth(*fake_region_d(&region));
	uint64_t n = UINT64_C(1) << (all - depth), first = rivals.at & ~(n - 1);
	bool begins = !rivals.fresh[0], high = n > 1 && (begins ? rivals.seed & 1 : rivals.half);

	if (begins)
		build(n > 1 && draw(2));
	for (uint64_t i = high ? n / 2 : 0; i < (high || n == 1 ? n : n / 2); i++)
		*fake_region_entry(&region, first + i) =
			rivals.fresh[high && rivals.fresh[0] != rivals.fresh[1]];
	rivals.half = !high;
	if (n == 1 || !begins)
		rivals.old = 0;
}

static void publish_all(void)
{
	while (rivals.old)
		publish();
}

static void write_some(void)
{
	static unsigned turn;

	for (unsigned i = 0; i < 4; i++) {
		char value[VALUE_MAX];
		unsigned kind = draw(3);
		struct index_key k = key_of(name_of(draw(KEYS)));

		snprintf(value, sizeof(value), "%u", turn++);
		if (run(&other, kind ? INDEX_PUT : INDEX_DELETE, k, value, 0) == INDEX_PENDING)
			index_abandon(other.ix, &other.op, FARKV_ETIMEDOUT);
	}
}

static int rivals_hook(void *arg, const struct xport_chain *c, unsigned i, bool after)
{
	(void)arg;
	(void)c;
	(void)i;
	if (after || !rivals.one_in || draw(rivals.one_in))
		return 0;
	write_some();
	if (!draw(6))
		fake_now += GRACE; /* the words are too old for the blocks: another look */
	if (rivals.old && draw(2))
		publish();
	else if (!rivals.old && !draw(4))
		freeze();
	return 0;
}

TEST_LOOP(writers_and_migrations_between_any_two_requests, 0, test_rounds(20))
{
	static const struct xport_fault_config cfg = {.hide_direct = true, .hook = rivals_hook};

	begin_with(&cfg);
	memset(&rivals, 0, sizeof(rivals));
	rivals.seed = (unsigned)_i;
	fake_now = GRACE;
	index_set_clock(me.ix, fake_clock, NULL);
	fill();
	dir_double();
	dir_double();
	for (unsigned n = 0; n < 30; n++) {
		rivals.one_in = n % 3 ? 40 : 8;
		pass();
		rivals.one_in = 0;
		if (draw(2))
			publish_all();
		pass();
		check_copy("round", n);
	}
	end();
}

static void tear_write(void *arg)
{
	(void)arg;
	if (rivals.one_in && !draw(rivals.one_in))
		write_some();
}

TEST_LOOP(torn_words_hide_no_change, 0, test_rounds(20))
{
	const struct xport_fault_config cfg = {.seed = (uint64_t)_i + 1,
					       .tear_ppm = 400000,
					       .byte_tear = true,
					       .hide_direct = true,
					       .tear_gap = tear_write};

	begin_with(&cfg);
	memset(&rivals, 0, sizeof(rivals));
	rivals.seed = (unsigned)_i;
	fill();
	for (unsigned n = 0; n < 20; n++) {
		rivals.one_in = 4;
		pass();
		rivals.one_in = 0;
		pass();
		check_copy("torn", n);
	}
	end();
}

/* A rebuilt subtable: unchanged keys are listed as the same. */
TEST_LOOP(rebuilt_subtable_is_whole_and_its_unchanged_keys_are_the_same, 0, 2)
{
	begin(_i);
	memset(&rivals, 0, sizeof(rivals));
	fill();
	pass();
	ck_assert_int_eq(run(&other, INDEX_DELETE, key_of("k1"), NULL, 0), 0);
	PUT(&other, key_of("k2"), "two");
	freeze();
	pass();
	ck_assert_uint_eq(n_whole, 0);
	ck_assert_uint_eq(n_listed, 2);
	PUT(&other, key_of(rivals.at != hash_dir_index(key_of("k5").hash, 1) ? "k5" : "k6"), "v");
	publish_all();
	pass();
	ck_assert_uint_eq(n_whole, 1);
	ck_assert_uint_ge(n_same + 2, n_listed);
	ck_assert_uint_gt(n_same, KEYS / 4);
	check_copy("rebuilt", 0);
	end();
}

TEST_SUITE("index_changes")
