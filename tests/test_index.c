/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations over an in-memory region. Most tests run twice: over the plain
 * shared-memory lane (direct GETs) and over the fault lane (steps only), whose
 * hook lets the test play a rival between any two requests.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include <farkv.h>

#include "common/clock.h"
#include "common/hash.h"
#include "fake_region.h"
#include "test_main.h"

#define GRACE (100 * NS_PER_MS)

static struct fake_region region;

/* One client of the region. */
struct client {
	struct xport_lane *lane;
	struct alloc *alloc;
	struct index *ix;
	struct index_op op;
};

/* What the hook of the client under test does before/after a request. */
static struct {
	int opcode;      /* of the request to meddle with; -1 none */
	unsigned skip;   /* let so many of them pass first */
	bool after;
	void (*act)(void);
	unsigned acted;
} rival;

static uint64_t fake_now;

static uint64_t fake_clock(void *arg)
{
	(void)arg;
	return fake_now;
}

static int rival_hook(void *arg, const struct xport_chain *c, unsigned i,
		      bool after)
{
	(void)arg;
	if (rival.opcode != c->wr[i].opcode || after != rival.after ||
	    !rival.act)
		return 0;
	if (rival.skip) {
		rival.skip--;
		return 0;
	}
	rival.acted++;
	rival.opcode = -1;
	rival.act();
	return 0;
}

/* Over the plain lane, or with these faults. */
static void client_open_with(struct client *c,
			     const struct xport_fault_config *cfg,
			     uint32_t prefix)
{
	memset(c, 0, sizeof(*c));
	c->lane = xport_shm_open(region.base, region.sb.region_bytes, false);
	if (cfg)
		c->lane = xport_fault_open(c->lane, cfg);
	c->alloc = alloc_new(region.sb.grace_ns);
	ck_assert_int_eq(index_open(&region.sb, c->lane, c->alloc, UINT64_MAX,
				    &c->ix), 0);
	index_set_prefix(c->ix, prefix);
	index_op_init(&c->op);
}

static void client_open(struct client *c, bool fault, uint32_t prefix)
{
	static const struct xport_fault_config cfg = {.hide_direct = true,
						      .hook = rival_hook};

	client_open_with(c, fault ? &cfg : NULL, prefix);
}

static void client_close(struct client *c)
{
	index_op_fini(c->ix, &c->op);
	index_close(c->ix);
	alloc_free(c->alloc);
	xport_close(c->lane);
}

static struct client me, other;

static void setup(bool fault)
{
	fake_region_init(&region, 1, 64, GRACE);
	client_open(&me, fault, 1);
	client_open(&other, false, 2);
	memset(&rival, 0, sizeof(rival));
	rival.opcode = -1;
}

static void teardown(void)
{
	client_close(&me);
	client_close(&other);
	fake_region_fini(&region);
}

static struct index_key key_of(const char *s)
{
	return (struct index_key){.data = s,
				  .len = (uint16_t)strlen(s),
				  .hash = hash_key(region.sb.hash_seed, s,
						   strlen(s))};
}

/*
 * A key that starts with `s`, whose window is the first of the first subtable
 * and whose fingerprint is `fp`: found by trying suffixes, a quarter of a million
 * or so. What is met on the way is kept for who asks for it later.
 */
#define ANY_FP 0u /* no fingerprint is 0 */

static struct index_key key_at(const char *s, uint32_t fp)
{
	static struct found {
		const char *s;
		unsigned long next;
		char name[SLOT_FP_MASK + 1][32];
	} *table[128];
	struct found **f = table;

	while (*f && strcmp((*f)->s, s) != 0)
		ck_assert(++f < table + 128);
	if (!*f) {
		*f = calloc(1, sizeof(**f));
		(*f)->s = strdup(s);
	}
	while (!(*f)->name[fp][0]) {
		char name[32];
		struct index_key k;

		snprintf(name, sizeof(name), "%s#%lx", s, (*f)->next++);
		k = key_of(name);
		if (hash_home_line(k.hash) || hash_dir_index(k.hash, 1))
			continue;
		if (!(*f)->name[hash_fp(k.hash)][0])
			strcpy((*f)->name[hash_fp(k.hash)], name);
		if (!(*f)->name[ANY_FP][0])
			strcpy((*f)->name[ANY_FP], name);
	}
	return key_of((*f)->name[fp]);
}

static int run(struct client *c, enum index_kind kind, struct index_key k,
	       const char *value, uint64_t expected)
{
	struct index_op *op = &c->op;

	index_op_start(op, kind, &k, value, value ? strlen(value) : 0,
		       expected);
	if (index_try(c->ix, op))
		return op->result;
	for (int i = 0; i < 10; i++) {
		index_run(c->ix, &op, 1, clock_now_ns() + 20 * NS_PER_SEC);
		if (op->result != INDEX_PENDING)
			return op->result;
		ck_assert_int_ne(op->wait, INDEX_WAIT_NONE);
		if (op->wait != INDEX_WAIT_BLOCK)
			break;
		fake_region_grant(&region, c->alloc, op->cls, 4);
	}
	return INDEX_PENDING;
}

#define PUT(c, k, v) ck_assert_int_eq(run(c, INDEX_PUT, k, v, 0), 0)

static void check_value(struct client *c, struct index_key k, const char *want)
{
	ck_assert_int_eq(run(c, INDEX_GET, k, NULL, 0), 0);
	ck_assert_uint_eq(c->op.view.value_len, strlen(want));
	ck_assert_mem_eq(c->op.view.value, want, strlen(want));
}

#define ABSENT(c, k)                                                           \
	ck_assert_int_eq(run(c, INDEX_GET, k, NULL, 0), FARKV_ENOTFOUND)

static uint64_t *slots_of(struct index_key k)
{
	uint64_t e = *fake_region_entry(
		&region,
		hash_dir_index(k.hash, dirword_depth(*fake_region_d(&region))));

	return fake_region_slots(&region, e) +
	       hash_home_line(k.hash) * LINE_SLOTS;
}

/* I1 over the whole index: no key is bound to two slots. */
static void check_no_duplicates(struct index_key k)
{
	unsigned seen = 0;

	uint32_t depth = dirword_depth(*fake_region_d(&region));
	uint64_t last = 0;

	for (uint64_t e = 0; e < UINT64_C(1) << depth; e++) {
		uint64_t entry = *fake_region_entry(&region, e);
		uint64_t *s = fake_region_slots(&region, entry);

		if (entry_page(entry) == entry_page(last))
			continue;
		last = entry;
		for (unsigned i = 0; i < SUBTABLE_SLOTS; i++) {
			const uint8_t *b = region.base + slot_off(s[i]);
			struct block_view v;

			if (slot_is_null(s[i]) || (s[i] & SLOT_FROZEN))
				continue;
			if (block_verify(b, slot_block(s[i]), k.data, k.len,
					 &v) == BLOCK_MINE)
				seen++;
		}
	}
	ck_assert_uint_le(seen, 1);
}

/* ---- plain sequences ------------------------------------------------------ */

START_TEST(put_get_overwrite_delete_put_again)
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
END_TEST

START_TEST(add_replace_cas_results_by_state_of_the_key)
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
END_TEST

START_TEST(many_keys_all_found_again_and_fresh_ones_missed)
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
END_TEST

START_TEST(same_fingerprint_keys_in_one_window_stay_apart)
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
END_TEST

START_TEST(full_window_insert_waits_for_growth_others_go_on)
{
	char names[WINDOW_SLOTS + 1][8];
	struct index_op *op = &me.op;

	setup(_i);
	for (unsigned i = 0; i < WINDOW_SLOTS; i++) {
		snprintf(names[i], sizeof(names[i]), "k%u", i);
		PUT(&me, key_at(names[i], ANY_FP), names[i]);
		ck_assert_int_eq(me.op.near_full,
				 i == WINDOW_SLOTS - 1);
	}
	ck_assert_int_eq(run(&me, INDEX_PUT, key_at("new", ANY_FP), "v", 0),
			 INDEX_PENDING);
	ck_assert_int_eq(op->wait, INDEX_WAIT_FULL);
	ck_assert_uint_eq(op->wait_page, META_ALIGN / PAGE_BYTES);
	ck_assert_uint_eq(op->wait_gen, 1);
	index_abandon(me.ix, op, FARKV_EINDEXFULL);
	ck_assert_int_eq(op->result, FARKV_EINDEXFULL);
	ABSENT(&me, key_at("new", ANY_FP));
	for (unsigned i = 0; i < WINDOW_SLOTS; i++)
		check_value(&other, key_at(names[i], ANY_FP), names[i]);
	PUT(&me, key_at("k63", ANY_FP), "over");
	ck_assert_int_eq(run(&me, INDEX_DELETE, key_at("k0", ANY_FP), NULL, 0), 0);
	/* a deleted key keeps its slot (I1) */
	ck_assert_int_eq(run(&me, INDEX_ADD, key_at("new", ANY_FP), "v", 0),
			 INDEX_PENDING);
	index_abandon(me.ix, op, FARKV_EINDEXFULL);
	ck_assert_int_eq(run(&me, INDEX_ADD, key_at("k0", ANY_FP), "v", 0), 0);
	teardown();
}
END_TEST

START_TEST(budgets_uncached)
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
	setup(_i);
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
END_TEST

START_TEST(batch_of_gets_takes_two_round_trips)
{
	struct index_op ops[50], *ptr[50];
	char names[50][8];
	struct xport_counters b;

	setup(_i);
	for (unsigned i = 0; i < 50; i++) {
		struct index_key k;

		snprintf(names[i], sizeof(names[i]), "m%u", i);
		k = key_of(names[i]);
		if (i % 5)
			PUT(&other, k, names[i]);
		index_op_init(&ops[i]);
		index_op_start(&ops[i], INDEX_GET, &k, NULL, 0, 0);
		ptr[i] = &ops[i];
	}
	b = me.lane->counters;
	index_run(me.ix, ptr, 50, clock_now_ns() + NS_PER_SEC);
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
END_TEST

START_TEST(large_value_delete_leaves_a_small_tombstone)
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
	/* without a block to be had the old block stays as the tombstone */
	PUT(&me, k, big);
	while (alloc_count(me.alloc, 0)) {
		struct block_ref r;

		ck_assert(alloc_take(me.alloc, 0, 0, &r));
	}
	index_op_start(op, INDEX_DELETE, &k, NULL, 0, 0);
	index_run(me.ix, &op, 1, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->result, INDEX_PENDING);
	ck_assert_int_eq(op->wait, INDEX_WAIT_BLOCK);
	ck_assert_uint_eq(op->cls, 0);
	index_run(me.ix, &op, 1, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->result, 0);
	ck_assert_uint_eq(slot_class(slots_of(k)[0]),
			  class_for(block_room(3, sizeof(big) - 1)));
	ABSENT(&other, k);
	teardown();
}
END_TEST

/* ---- rivals: fault lane only ------------------------------------------------- */

static struct index_key rival_key;
static const char *rival_value;
static enum index_kind rival_kind;
static int rival_result;

static void rival_op(void)
{
	rival_result = run(&other, rival_kind, rival_key, rival_value, 0);
}

static void rival_cas(void)
{
	uint64_t version;

	ck_assert_int_eq(run(&other, INDEX_GET, rival_key, NULL, 0), 0);
	version = other.op.version;
	rival_result = run(&other, INDEX_CAS, rival_key, rival_value, version);
}

static void rival_sets(int opcode, void (*act)(void), enum index_kind kind,
		       struct index_key k, const char *value)
{
	rival.opcode = opcode;
	rival.act = act;
	rival.after = false;
	rival.skip = 0;
	rival.acted = 0;
	rival_kind = kind;
	rival_key = k;
	rival_value = value;
	rival_result = 1234;
}

START_TEST(put_loses_to_blind_put_is_absorbed_with_one_cas)
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
END_TEST

START_TEST(put_loses_to_blind_delete_is_absorbed)
{
	struct index_key k;

	setup(true);
	k = key_of("k");
	PUT(&me, k, "old");
	rival_sets(XPORT_CAS, rival_op, INDEX_DELETE, k, NULL);
	PUT(&me, k, "mine");
	ck_assert_int_eq(rival_result, 0);
	ABSENT(&me, k);
	teardown();
}
END_TEST

START_TEST(put_loses_to_conditional_write_is_not_absorbed)
{
	struct index_key k;

	setup(true);
	k = key_of("k");
	PUT(&me, k, "old");
	rival_sets(XPORT_CAS, rival_cas, INDEX_CAS, k, "rival");
	PUT(&me, k, "mine");
	ck_assert_int_eq(rival_result, 0);
	check_value(&me, k, "mine");
	teardown();
}
END_TEST

START_TEST(insert_loses_empty_to_other_fingerprint_takes_next_slot)
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
END_TEST

START_TEST(insert_loses_empty_to_other_key_of_same_fingerprint_is_not_absorbed)
{
	setup(true);
	rival_sets(XPORT_CAS, rival_op, INDEX_PUT, key_at("b", 1), "vb");
	PUT(&me, key_at("a", 1), "va");
	check_value(&me, key_at("a", 1), "va");
	check_value(&me, key_at("b", 1), "vb");
	teardown();
}
END_TEST

START_TEST(insert_loses_empty_to_same_key_makes_no_duplicate)
{
	struct index_key k = key_at("a", 1);

	setup(true);
	rival_sets(XPORT_CAS, rival_op, INDEX_PUT, k, "rival");
	PUT(&me, k, "mine");
	ck_assert_int_eq(rival_result, 0);
	check_value(&me, k, "mine");
	check_value(&other, k, "mine");
	check_no_duplicates(k);
	ck_assert(slot_is_null(slots_of(k)[1]));
	teardown();
}
END_TEST

START_TEST(add_loses_empty_to_same_key_says_exists)
{
	struct index_key k = key_at("a", 1);

	setup(true);
	rival_sets(XPORT_CAS, rival_op, INDEX_ADD, k, "rival");
	ck_assert_int_eq(run(&me, INDEX_ADD, k, "mine", 0), FARKV_EEXISTS);
	check_value(&me, k, "rival");
	teardown();
}
END_TEST

START_TEST(conditional_operations_never_absorb)
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
END_TEST

/* ---- grace, damage ------------------------------------------------------------- */

static void age_by_T(void)
{
	fake_now += GRACE / 2 + 1;
}

static void age_by_T_and_overwrite(void)
{
	age_by_T();
	rival_op();
}

START_TEST(reader_within_half_T_reads_twice)
{
	struct index_key k;
	uint64_t reads;

	setup(_i);
	k = key_of("k");
	PUT(&me, k, "v");
	fake_now = 1000;
	index_set_clock(me.ix, fake_clock, NULL);
	reads = me.lane->counters.reads;
	check_value(&me, k, "v");
	ck_assert_uint_eq(me.lane->counters.reads - reads, 2);
	teardown();
}
END_TEST

/* Wherever the time passes, the span counts from before the slot READ. */
START_TEST(reader_slower_than_half_T_word_unchanged_is_confirmed)
{
	struct index_key k;
	uint64_t reads;

	setup(true);
	k = key_of("k");
	PUT(&me, k, "v");
	fake_now = 1000;
	index_set_clock(me.ix, fake_clock, NULL);
	for (unsigned skip = 0; skip < 2; skip++) {
		reads = me.lane->counters.reads;
		rival_sets(XPORT_READ, age_by_T, INDEX_GET, k, NULL);
		rival.skip = skip;
		check_value(&me, k, "v");
		ck_assert_uint_eq(rival.acted, 1);
		ck_assert_uint_eq(me.lane->counters.reads - reads, 3);
	}
	teardown();
}
END_TEST

START_TEST(reader_slower_than_half_T_word_changed_reads_again)
{
	struct index_key k;
	uint64_t reads;

	setup(true);
	k = key_of("k");
	PUT(&me, k, "old");
	fake_now = 1000;
	index_set_clock(me.ix, fake_clock, NULL);
	reads = me.lane->counters.reads;
	rival_sets(XPORT_READ, age_by_T_and_overwrite, INDEX_PUT, k, "new");
	rival.skip = 1;
	check_value(&me, k, "new");
	ck_assert_uint_eq(rival.acted, 1);
	ck_assert_int_eq(rival_result, 0);
	ck_assert_uint_eq(me.lane->counters.reads - reads, 5);
	teardown();
}
END_TEST

START_TEST(reader_slower_than_half_T_frozen_word_confirms_nothing)
{
	struct index_key k;
	uint64_t *slots, reads;

	setup(true);
	k = key_of("k");
	PUT(&me, k, "v");
	slots = slots_of(k);
	for (unsigned i = 0; i < WINDOW_SLOTS; i++)
		slots[i] |= SLOT_FROZEN;
	fake_now = 1000;
	index_set_clock(me.ix, fake_clock, NULL);
	reads = me.lane->counters.reads;
	rival_sets(XPORT_READ, age_by_T, INDEX_GET, k, NULL);
	rival.skip = 1;
	check_value(&me, k, "v");
	/* window, [D, entry, D], block, window; then without delay anew */
	ck_assert_uint_eq(me.lane->counters.reads - reads, 6 + 5);
	teardown();
}
END_TEST

/* A machine that was halted: its clock shows nothing of it (doc/protocol.md). */
static uint64_t still_clock(void *arg)
{
	(void)arg;
	return 1000;
}

/* The rival overwrites the key until its first block is the key's again. */
static void rival_comes_round(void)
{
	uint64_t first = *slots_of(rival_key);
	unsigned tries = 0;

	do {
		fake_now += GRACE;
		rival_op();
		ck_assert_int_eq(rival_result, 0);
		ck_assert_uint_lt(++tries, 64);
	} while (slot_off(*slots_of(rival_key)) != slot_off(first));
	ck_assert_uint_ne(slot_inc(*slots_of(rival_key)), slot_inc(first));
}

/* ... and then once more: that block still has an intact value, an old one. */
static void rival_comes_round_and_on(void)
{
	rival_comes_round();
	fake_now += GRACE;
	rival_value = "new";
	rival_op();
}

static void setup_halted(struct index_key k)
{
	fake_now = 1000;
	index_set_clock(me.ix, still_clock, NULL);
	index_set_clock(other.ix, fake_clock, NULL);
	PUT(&other, k, "old");
}

START_TEST(reader_halted_while_its_block_is_reused_reads_again)
{
	struct index_key k;

	setup(true);
	k = key_of("k");
	setup_halted(k);
	rival_sets(XPORT_READ, rival_comes_round_and_on, INDEX_PUT, k, "mid");
	rival.skip = 1;
	check_value(&me, k, "new");
	ck_assert_uint_eq(rival.acted, 1);
	teardown();
}
END_TEST

START_TEST(writer_halted_while_its_block_is_reused_does_not_win)
{
	struct index_key k;
	uint64_t version;

	setup(true);
	k = key_of("k");
	setup_halted(k);
	check_value(&me, k, "old");
	version = me.op.version;
	rival_sets(XPORT_CAS, rival_comes_round, INDEX_PUT, k, "mid");
	ck_assert_int_eq(run(&me, INDEX_CAS, k, "mine", version),
			 FARKV_EVERSION);
	ck_assert_uint_eq(rival.acted, 1);
	check_value(&me, k, "mid");
	teardown();
}
END_TEST

static void cas_again_and_again(void)
{
	if (run(&other, INDEX_CAS, rival_key, "r", 0) != FARKV_EVERSION)
		ck_abort_msg("no version is 0");
	rival_cas();
	fake_now += GRACE;
	rival.opcode = XPORT_CAS;
}

START_TEST(put_that_loses_for_ever_ends_at_its_deadline)
{
	struct index_key k;
	struct index_op *op = &me.op;

	setup(true);
	k = key_of("k");
	PUT(&me, k, "v");
	fake_now = 1000;
	index_set_clock(me.ix, fake_clock, NULL);
	index_set_clock(other.ix, fake_clock, NULL);
	rival_sets(XPORT_CAS, cas_again_and_again, INDEX_CAS, k, "r");
	fake_region_grant(&region, me.alloc, 0, 4);
	index_op_start(op, INDEX_PUT, &k, "mine", 4, 0);
	index_run(me.ix, &op, 1, fake_now + 20 * GRACE);
	ck_assert_int_eq(op->result, FARKV_ETIMEDOUT);
	ck_assert_uint_ge(rival.acted, 20);
	ck_assert_uint_lt(rival.acted, 60);
	rival.opcode = -1;
	check_value(&me, k, "r");
	PUT(&me, k, "mine");
	check_value(&me, k, "mine");
	teardown();
}
END_TEST

/* A card that stops answering, after some posts; it may still do what it is told. */
static struct mute {
	struct xport_lane lane; /* first */
	struct xport_lane *inner;
	unsigned answers; /* posts that it answers yet */
	bool obeys;
} mute;

static int mute_run(struct xport_chain *c)
{
	int err = xport_post(mute.inner, c);

	while (!err && !c->done)
		xport_poll(mute.inner);
	return err;
}

static int mute_post(struct xport_lane *lane, struct xport_chain *first)
{
	(void)lane;
	for (struct xport_chain *c = first, *next; c; c = next) {
		struct xport_chain copy = *c;

		next = c->next;
		c->done = false;
		copy.next = NULL;
		if (mute.answers || mute.obeys)
			ck_assert_int_eq(mute_run(&copy), 0);
		if (mute.answers)
			*c = copy;
	}
	if (mute.answers)
		mute.answers--;
	return 0;
}

static void mute_poll(struct xport_lane *lane)
{
	(void)lane;
}

static void *mute_mem_alloc(struct xport_lane *lane, size_t bytes)
{
	(void)lane;
	return xport_mem_alloc(mute.inner, bytes);
}

static void mute_mem_free(struct xport_lane *lane, void *mem, size_t bytes)
{
	(void)lane;
	xport_mem_free(mute.inner, mem, bytes);
}

static void mute_close(struct xport_lane *lane)
{
	(void)lane;
	xport_close(mute.inner);
}

static void client_open_mute(struct client *c)
{
	static const struct xport_ops ops = {.name = "mute",
					     .post = mute_post,
					     .poll = mute_poll,
					     .mem_alloc = mute_mem_alloc,
					     .mem_free = mute_mem_free,
					     .close = mute_close};

	memset(c, 0, sizeof(*c));
	memset(&mute, 0, sizeof(mute));
	mute.inner = xport_shm_open(region.base, region.sb.region_bytes, false);
	mute.lane.ops = &ops;
	mute.lane.base = mute.inner->base;
	mute.lane.region_bytes = mute.inner->region_bytes;
	mute.answers = UINT32_MAX;
	c->lane = &mute.lane;
	c->alloc = alloc_new(region.sb.grace_ns);
	ck_assert_int_eq(index_open(&region.sb, c->lane, c->alloc, UINT64_MAX,
				    &c->ix), 0);
	index_set_prefix(c->ix, 3);
	index_op_init(&c->op);
	fake_region_grant(&region, c->alloc, 0, 4);
}

static uint64_t stepping_clock(void *arg)
{
	(void)arg;
	return fake_now += 1000;
}

/* From answer number `answers` on there is none; what the operation says. */
static int run_mute(struct client *c, unsigned answers, bool obeys,
		    enum index_kind kind, struct index_key k)
{
	const char *value = kind == INDEX_PUT ? "new" : NULL;
	struct index_op *op = &c->op;

	client_open_mute(c);
	index_set_clock(c->ix, stepping_clock, NULL);
	mute.answers = answers;
	mute.obeys = obeys;
	index_op_start(op, kind, &k, value, value ? 3 : 0, 0);
	index_run(c->ix, &op, 1, fake_now + NS_PER_MS);
	return op->result;
}

START_TEST(card_that_answers_no_more_ends_at_the_deadline_its_cas_is_maybe)
{
	static const enum index_kind kinds[] = {INDEX_PUT, INDEX_DELETE,
						INDEX_GET};
	enum index_kind kind = kinds[_i / 2];
	struct index_key k = key_of("k");
	bool obeys = _i % 2, maybe = false;
	struct client c;
	unsigned n;
	int err;

	setup(false);
	for (n = 0; n < 20; n++) {
		PUT(&other, k, "old");
		err = run_mute(&c, n, obeys, kind, k);
		if (err == 0) {
			client_close(&c);
			break;
		}
		/* Late answers would meet an operation that is over. */
		ck_assert_int_eq(xport_broken(c.lane), FARKV_ETIMEDOUT);
		if (err == FARKV_EMAYBE)
			maybe = true;
		else
			ck_assert_int_eq(err, FARKV_ETIMEDOUT);
		if (err == FARKV_ETIMEDOUT || !obeys)
			check_value(&other, k, "old");
		else if (kind == INDEX_PUT)
			check_value(&other, k, "new");
		else
			ABSENT(&other, k);
		client_close(&c);
	}
	ck_assert_int_eq(err, 0);
	ck_assert_uint_ge(n, 2);
	ck_assert_int_eq(maybe, kind != INDEX_GET);
	teardown();
}
END_TEST

START_TEST(damaged_block_is_corrupt_after_bounded_tries)
{
	struct index_key k;

	setup(_i);
	k = key_of("k");
	PUT(&me, k, "value");
	region.base[slot_off(slots_of(k)[0]) + 26] ^= 1;
	ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0), FARKV_ECORRUPT);
	region.base[slot_off(slots_of(k)[0]) + 26] ^= 1;
	check_value(&me, k, "value");
	teardown();
}
END_TEST

static uint8_t *damaged;

static void repair(void)
{
	*damaged ^= 1;
}

START_TEST(block_damaged_for_a_moment_is_read_again)
{
	struct index_key k;

	setup(true);
	k = key_of("k");
	PUT(&me, k, "value");
	damaged = region.base + slot_off(slots_of(k)[0]) + 26;
	*damaged ^= 1;
	rival_sets(XPORT_READ, repair, INDEX_GET, k, NULL);
	rival.skip = 3;
	check_value(&me, k, "value");
	teardown();
}
END_TEST

static const uint64_t bad_words[] = {
	0x3FFFFFFFF,            /* ptr beyond the region */
	1,                      /* ptr into the meta area */
	UINT64_C(127) << 34 | 0x20000, /* class out of the table */
	UINT64_C(94) << 34 | 0x10000,  /* class too large for its place */
};
#define BAD_WORDS (sizeof(bad_words) / sizeof(bad_words[0]))

START_TEST(slot_words_out_of_the_region_are_corrupt_not_followed)
{
	struct index_key k = key_at("k", 9);

	setup(_i);
	for (unsigned i = 0; i < BAD_WORDS; i++) {
		slots_of(k)[0] = bad_words[i] | UINT64_C(9) << 56; /* its own */
		ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0),
				 FARKV_ECORRUPT);
		ck_assert_int_eq(run(&me, INDEX_PUT, k, "v", 0),
				 FARKV_ECORRUPT);
		ck_assert_int_eq(run(&me, INDEX_DELETE, k, NULL, 0),
				 FARKV_ECORRUPT);
	}
	teardown();
}
END_TEST

static uint64_t bad_word;

static void rival_leads_out(void)
{
	slots_of(rival_key)[0] = bad_word;
}

/* The winner of a CAS takes the old block over, and writes into it later. */
START_TEST(lost_to_a_word_out_of_the_region_its_block_is_not_taken_over)
{
	static const enum index_kind kinds[] = {INDEX_PUT, INDEX_REPLACE,
						INDEX_DELETE};
	struct index_key k = key_at("k", 9);
	enum alloc_state state;
	struct block_ref ref;

	setup(true);
	for (unsigned i = 0; i < BAD_WORDS * 3; i++) {
		bad_word = bad_words[i / 3] | UINT64_C(9) << 56;
		slots_of(k)[0] = slot_empty(1);
		PUT(&me, k, "v");
		rival_sets(XPORT_CAS, rival_leads_out, INDEX_GET, k, NULL);
		ck_assert_int_eq(run(&me, kinds[i % 3], k, "w", 0),
				 FARKV_ECORRUPT);
		ck_assert_uint_eq(rival.acted, 1);
		ck_assert_uint_eq(slots_of(k)[0], bad_word);
		while (alloc_drain(me.alloc, UINT64_MAX, &ref, 1, &state))
			ck_assert(region_block_ok(&region.sb, ref.off, ref.cls));
	}
	teardown();
}
END_TEST

START_TEST(empty_word_of_another_generation_is_not_empty)
{
	struct index_key k = key_at("k", 9);

	setup(_i);
	slots_of(k)[0] = slot_empty(9);
	ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0), FARKV_ECORRUPT);
	ck_assert_int_eq(run(&me, INDEX_PUT, k, "v", 0), FARKV_ECORRUPT);
	ck_assert_uint_eq(slots_of(k)[0], slot_empty(9));
	slots_of(k)[0] = 0;
	ck_assert_int_eq(run(&me, INDEX_ADD, k, "v", 0), FARKV_ECORRUPT);
	ck_assert_uint_eq(slots_of(k)[0], 0);
	teardown();
}
END_TEST

START_TEST(incarnation_grows_with_each_reuse_and_never_wraps)
{
	struct index_key k;
	unsigned last = 0, distinct = 0;
	struct block_ref refs[4];
	enum alloc_state state;

	setup(_i);
	k = key_of("k");
	fake_now = 1;
	index_set_clock(me.ix, fake_clock, NULL);
	fake_region_grant(&region, me.alloc, 0, 1);
	PUT(&me, k, "v");
	fake_region_grant(&region, me.alloc, 0, 1);
	for (unsigned i = 0; i < 2 * INC_COUNT - 2; i++) {
		fake_now += GRACE;
		ck_assert_int_eq(run(&me, INDEX_PUT, k, "v", 0), 0);
		if (slot_inc(slots_of(k)[0]) != last)
			distinct++;
		last = slot_inc(slots_of(k)[0]);
		if (alloc_surplus(me.alloc, fake_now, refs, 4, &state))
			ck_assert_int_eq(state, ALLOC_WORN);
	}
	ck_assert_uint_ge(distinct, INC_COUNT - 1);
	teardown();
}
END_TEST

/* ---- FROZEN ------------------------------------------------------------------- */

/* Freeze a subtable and copy its live slots into a new one. */
static uint64_t migrate_copy(uint64_t entry)
{
	uint64_t *old = fake_region_slots(&region, entry), *fresh;
	uint64_t to = fake_region_subtable(&region, entry_depth(entry));

	fresh = fake_region_slots(&region, to);
	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		old[i] |= SLOT_FROZEN;
	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		if (!slot_is_null(old[i]))
			fresh[i] = old[i] & ~SLOT_FROZEN;
	return to;
}

static void migrate_all(void)
{
	uint32_t depth = dirword_depth(*fake_region_d(&region));

	for (uint64_t i = 0; i < UINT64_C(1) << depth; i++)
		*fake_region_entry(&region, i) =
			migrate_copy(*fake_region_entry(&region, i));
}

static void freeze_only(void)
{
	uint64_t *s = fake_region_slots(&region, *fake_region_entry(&region, 0));

	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		s[i] |= SLOT_FROZEN;
}

static const enum index_kind writers[] = {INDEX_PUT, INDEX_ADD, INDEX_REPLACE,
					  INDEX_CAS, INDEX_DELETE};

START_TEST(frozen_and_entry_unchanged_readers_read_writers_wait)
{
	struct index_key k = key_at("k", 5), none = key_at("none", 6);

	setup(_i);
	PUT(&other, k, "v");
	freeze_only();
	check_value(&me, k, "v");
	ABSENT(&me, none);
	for (unsigned i = 0; i < 5; i++) {
		ck_assert_int_eq(run(&me, writers[i], k, "w", 0),
				 INDEX_PENDING);
		ck_assert_int_eq(me.op.wait, INDEX_WAIT_FROZEN);
		index_abandon(me.ix, &me.op, FARKV_ETIMEDOUT);
	}
	check_value(&me, k, "v");
	teardown();
}
END_TEST

START_TEST(frozen_writer_that_waited_finishes_in_the_new_subtable)
{
	struct index_key k = key_at("k", 5);
	struct index_op *op = &me.op;

	setup(_i);
	PUT(&other, k, "v");
	freeze_only();
	ck_assert_int_eq(run(&me, INDEX_PUT, k, "w", 0), INDEX_PENDING);
	*fake_region_entry(&region, 0) =
		migrate_copy(*fake_region_entry(&region, 0));
	index_run(me.ix, &op, 1, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_eq(op->result, 0);
	check_value(&other, k, "w");
	check_value(&me, k, "w");
	check_no_duplicates(k);
	teardown();
}
END_TEST

/* Blocks of class 0 in reach of `me`; all are put back. */
static unsigned blocks_at_hand(void)
{
	struct block_ref r[64];
	unsigned n = 0;

	while (alloc_take(me.alloc, 0, UINT64_MAX, &r[n]))
		ck_assert_uint_lt(++n, 64);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(alloc_put(me.alloc, r[i]), 0);
	return n;
}

/* Whatever an operation waits for, and however far it has come, its block is with
 * the allocator: who is asked for what a session holds asks there. */
START_TEST(waiting_operations_hold_no_block)
{
	static const enum index_kind kinds[] = {INDEX_PUT, INDEX_REPLACE};
	struct index_key k = key_at("k", 5);
	struct index_op *op = &me.op;

	for (unsigned i = 0; i < 4; i++) {
		enum index_kind kind = kinds[i % 2];

		setup(true);
		PUT(&other, k, "v");
		fake_region_grant(&region, me.alloc, 0, 3);
		/* Frozen before it reads the window, or before its CAS, when
		 * the block has been written. */
		if (i < 2)
			freeze_only();
		else
			rival.act = freeze_only, rival.opcode = XPORT_CAS;
		ck_assert_int_eq(run(&me, kind, k, "w", 0), INDEX_PENDING);
		ck_assert_int_eq(op->wait, INDEX_WAIT_FROZEN);
		ck_assert_uint_eq(blocks_at_hand(), 3);
		/* Meanwhile they all go back to the server, or elsewhere. */
		while (blocks_at_hand()) {
			struct block_ref r;

			ck_assert(alloc_take(me.alloc, 0, 0, &r));
			memset(region.base + r.off, 0xEE, 64);
		}
		index_run(me.ix, &op, 1, clock_now_ns() + NS_PER_SEC);
		ck_assert_int_eq(op->wait, INDEX_WAIT_BLOCK);
		fake_region_grant(&region, me.alloc, 0, 1);
		*fake_region_entry(&region, 0) =
			migrate_copy(*fake_region_entry(&region, 0));
		index_run(me.ix, &op, 1, clock_now_ns() + NS_PER_SEC);
		ck_assert_int_eq(op->result, 0);
		check_value(&other, k, "w");
		teardown();
	}
}
END_TEST

START_TEST(waiting_for_growth_holds_no_block)
{
	char names[WINDOW_SLOTS][8];
	unsigned n;

	setup(true);
	for (unsigned i = 0; i < WINDOW_SLOTS; i++) {
		snprintf(names[i], sizeof(names[i]), "k%u", i);
		PUT(&me, key_at(names[i], ANY_FP), names[i]);
	}
	n = blocks_at_hand();
	ck_assert_int_eq(run(&me, INDEX_PUT, key_at("new", ANY_FP), "v", 0),
			 INDEX_PENDING);
	ck_assert_int_eq(me.op.wait, INDEX_WAIT_FULL);
	ck_assert_uint_ge(blocks_at_hand(), n);
	ck_assert_uint_gt(blocks_at_hand(), 0);
	n = blocks_at_hand();
	index_abandon(me.ix, &me.op, FARKV_ENOSPC);
	ck_assert_uint_eq(blocks_at_hand(), n);
	teardown();
}
END_TEST

START_TEST(stale_entry_leads_every_operation_to_the_new_subtable)
{
	struct index_key k = key_at("k", 5);
	unsigned step = 0;

	setup(_i);
	PUT(&me, k, "v0");
	migrate_all();
	check_value(&me, k, "v0");
	migrate_all();
	PUT(&me, k, "v1");
	migrate_all();
	ck_assert_int_eq(run(&me, INDEX_ADD, k, "x", 0), FARKV_EEXISTS);
	migrate_all();
	ck_assert_int_eq(run(&me, INDEX_REPLACE, k, "v2", 0), 0);
	check_value(&me, k, "v2");
	migrate_all();
	ck_assert_int_eq(run(&me, INDEX_CAS, k, "v3", me.op.version), 0);
	migrate_all();
	check_value(&other, k, "v3");
	migrate_all();
	ck_assert_int_eq(run(&me, INDEX_DELETE, k, NULL, 0), 0);
	migrate_all();
	ABSENT(&other, k);
	migrate_all();
	PUT(&me, key_at("fresh", 7), "f");
	check_value(&other, key_at("fresh", 7), "f");
	(void)step;
	teardown();
}
END_TEST

static struct index_key frozen_key;

static void double_directory(void)
{
	uint32_t depth = dirword_depth(*fake_region_d(&region));
	uint64_t at = dirword_off(*fake_region_d(&region)), n, to;
	const uint64_t *old = (uint64_t *)(void *)(region.base + at);
	uint64_t *fresh;

	n = UINT64_C(1) << depth;
	to = at + n * 8;
	fresh = (uint64_t *)(void *)(region.base + to);
	for (uint64_t i = 0; i < n; i++)
		fresh[2 * i] = fresh[2 * i + 1] = old[i];
	*fake_region_d(&region) = dirword_pack(to, depth + 1);
}

static void double_and_migrate(void)
{
	uint64_t i, e, moved;

	double_directory();
	i = hash_dir_index(frozen_key.hash,
			   dirword_depth(*fake_region_d(&region)));
	e = *fake_region_entry(&region, i);
	moved = migrate_copy(e);
	*fake_region_entry(&region, i) = moved;
	*fake_region_entry(&region, i ^ 1) = moved;
}

/* trap: the check against the old array, the index of the wrong depth */
START_TEST(frozen_after_doubling_the_directory_is_read_anew)
{
	struct index_key k = key_of("doubling");
	unsigned round;

	setup(_i);
	frozen_key = k;
	PUT(&me, k, "v0");
	for (round = 0; round < 4; round++) {
		char value[8];

		double_and_migrate();
		snprintf(value, sizeof(value), "v%u", round);
		check_value(&me, k, value);
		double_and_migrate();
		snprintf(value, sizeof(value), "v%u", round + 1);
		PUT(&me, k, value);
		check_value(&other, k, value);
	}
	check_no_duplicates(k);
	teardown();
}
END_TEST

/* The subtable is frozen, or moved, before each request of each operation. */
START_TEST(migration_before_every_request_of_every_operation)
{
	static const int opcodes[] = {XPORT_READ, XPORT_WRITE, XPORT_CAS};
	static const enum index_kind kinds[] = {INDEX_GET, INDEX_PUT,
						INDEX_REPLACE, INDEX_DELETE};
	struct index_key k = key_of("moving");

	for (unsigned kind = 0; kind < 4; kind++)
		for (unsigned o = 0; o < 3; o++)
			for (unsigned skip = 0; skip < 3; skip++) {
				setup(true);
				frozen_key = k;
				PUT(&other, k, "old");
				rival_sets(opcodes[o],
					   _i ? double_and_migrate : migrate_all,
					   INDEX_GET, k, NULL);
				rival.skip = skip;
				ck_assert_int_eq(run(&me, kinds[kind], k, "new",
						     0),
						 0);
				rival.opcode = -1;
				if (kinds[kind] == INDEX_GET)
					check_value(&other, k, "old");
				else if (kinds[kind] == INDEX_DELETE)
					ABSENT(&other, k);
				else
					check_value(&other, k, "new");
				check_no_duplicates(k);
				teardown();
			}
}
END_TEST

START_TEST(frozen_before_cas_insert_never_lands_in_the_old_subtable)
{
	struct index_key k = key_at("ins", 9);

	setup(true);
	frozen_key = k;
	rival_sets(XPORT_CAS, migrate_all, INDEX_GET, k, NULL);
	PUT(&me, k, "v");
	ck_assert_uint_eq(rival.acted, 1);
	check_value(&other, k, "v");
	check_no_duplicates(k);
	teardown();
}
END_TEST

/* ---- broken lanes ------------------------------------------------------------ */

START_TEST(break_at_every_request_reads_fail_writes_are_maybe_or_not_done)
{
	struct index_key k = key_of("k");

	for (unsigned lose = 0; lose < 2; lose++)
		for (unsigned at = 1; at <= 6; at++) {
			struct xport_fault_config cfg = {.break_at = at,
							 .hide_direct = true,
							 .lose_completion = lose};
			struct client c;
			int err;

			setup(false);
			PUT(&other, k, "old");
			/* the directory takes three requests */
			cfg.break_at = at + 3;
			client_open_with(&c, &cfg, 3);
			err = run(&c, INDEX_PUT, k, "new", 0);
			/* READ window, READ candidate, WRITE + CAS */
			if (at > 4) {
				ck_assert_int_eq(err, 0);
				check_value(&other, k, "new");
			} else if (at >= 3) {
				ck_assert_int_eq(err, FARKV_EMAYBE);
				check_value(&other, k,
					    at == 4 && lose ? "new" : "old");
			} else {
				ck_assert_int_eq(err, FARKV_EDISCONNECTED);
				check_value(&other, k, "old");
			}
			if (at <= 4)
				ck_assert_int_eq(run(&c, INDEX_GET, k, NULL, 0),
						 FARKV_EDISCONNECTED);
			client_close(&c);
			teardown();
		}
}
END_TEST

/* ---- torn words: lanes without read8_atomic ------------------------------------ */

static unsigned tear_turn;

static void tear_rival(void *arg)
{
	(void)arg;
	if (tear_turn++ % 3 == 0) {
		rival_key = key_at(tear_turn % 2 ? "tear1" : "tear2",
				   tear_turn % 2 ? 11 : 12);
		ck_assert_int_eq(run(&other, INDEX_PUT, rival_key, "t", 0), 0);
	}
}

START_TEST(torn_windows_make_no_duplicates_and_no_false_errors)
{
	for (unsigned seed = 1; seed <= 40; seed++) {
		struct xport_fault_config cfg = {.seed = seed,
						 .tear_ppm = 400000,
						 .byte_tear = true,
						 .hide_direct = true,
						 .tear_gap = tear_rival};
		struct client c;
		char name[8];

		setup(false);
		tear_turn = seed;
		client_open_with(&c, &cfg, 3);
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
		client_close(&c);
		teardown();
	}
}
END_TEST

static struct index_key raced;

static void race_rival(void *arg)
{
	(void)arg;
	if (tear_turn++ == 0)
		ck_assert_int_eq(run(&other, INDEX_PUT, raced, "theirs", 0), 0);
}

/* The READ shows some bytes of EMPTY and some of the rival's word. */
START_TEST(insert_reads_half_of_a_rivals_claim_makes_no_duplicate)
{
	unsigned won = 0;

	for (unsigned seed = 1; seed <= 600; seed++) {
		struct xport_fault_config cfg = {.seed = seed,
						 .byte_tear = true,
						 .hide_direct = true,
						 .tear_ppm = 1000000,
						 .tear_gap = race_rival};
		struct client c;

		setup(false);
		raced = key_at("raced", 1 + seed % 255);
		tear_turn = 1; /* not while the directory is read */
		client_open_with(&c, &cfg, 3);
		fake_region_grant(&region, c.alloc, 0, 1);
		tear_turn = 0;
		PUT(&c, raced, "mine");
		ck_assert_uint_gt(tear_turn, 0);
		check_no_duplicates(raced);
		/* Absorbed by the rival's, or over it. */
		ck_assert_int_eq(run(&other, INDEX_GET, raced, NULL, 0), 0);
		won += other.op.view.value_len == 4;
		client_close(&c);
		teardown();
	}
	ck_assert(won > 100 && won < 600);
}
END_TEST

static uint64_t mixed_from, mixed_to;
static unsigned mixed;

/* The first READ of a window shows another word in the key's place. */
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

/* Half of one word of the key and half of the next name what it was before both. */
START_TEST(get_of_a_mixture_does_not_return_an_older_value)
{
	struct index_key k;
	struct client c;

	setup(false);
	k = key_at("k", 7);
	PUT(&other, k, "oldest");
	mixed_to = *slots_of(k);
	PUT(&other, k, "old");
	PUT(&other, k, "new");
	mixed_from = *slots_of(k);
	mixed = 0;
	client_open_with(&c, &mixing, 3);
	check_value(&c, k, "new");
	ck_assert_uint_eq(mixed, 1);
	client_close(&c);
	teardown();
}
END_TEST

/*
 * A mixture may name what was written and never published. The block's next content
 * must not be published by that name: whoever READ the first would take the slot for
 * the first one's key, and its CAS would succeed.
 */
START_TEST(block_written_in_vain_has_the_next_incarnation_where_words_tear)
{
	struct xport_fault_config cfg = {.byte_tear = _i,
					 .hide_direct = true,
					 .hook = rival_hook};
	struct index_key k;
	struct block_ref first;
	struct client c;

	setup(false);
	k = key_at("k", 7);
	PUT(&other, k, "old");
	client_open_with(&c, &cfg, 3);
	fake_region_grant(&region, c.alloc, 0, 1);
	ck_assert(alloc_take(c.alloc, 0, 0, &first));
	ck_assert_int_eq(alloc_put(c.alloc, first), 0);
	rival_sets(XPORT_CAS, rival_op, INDEX_PUT, k, "rival");
	PUT(&c, k, "in vain");
	check_value(&other, k, "rival");
	PUT(&c, k, "next");
	ck_assert_uint_eq(slot_block(slots_of(k)[0]).off, first.off);
	ck_assert_uint_eq(slot_block(slots_of(k)[0]).inc, first.inc + _i);
	client_close(&c);
	teardown();
}
END_TEST

/* Half of one word of another key and half of its next name an old block of this one. */
START_TEST(slot_of_another_key_is_not_taken_for_a_mixture_in_it)
{
	static const enum index_kind kinds[] = {INDEX_PUT, INDEX_ADD};
	struct index_key k, alien;
	struct client c;

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
	client_open_with(&c, &mixing, 3);
	ck_assert_int_eq(run(&c, _i < 2 ? INDEX_PUT : INDEX_ADD, k, "new", 0),
			 0);
	ck_assert_uint_eq(mixed, 1);
	check_value(&other, k, "new");
	check_value(&other, alien, "its own");
	check_no_duplicates(k);
	check_no_duplicates(alien);
	client_close(&c);
	teardown();
}
END_TEST

/* ... or another key's block, of that fingerprint. */
START_TEST(put_behind_a_mixture_makes_no_duplicate)
{
	struct index_key k, alien;
	struct client c;

	setup(false);
	k = key_at("k", 7);
	alien = key_at("alien", 7);
	PUT(&other, alien, "its own");
	mixed_to = *slots_of(alien);
	PUT(&other, k, "old");
	mixed_from = slots_of(k)[1];
	mixed = 0;
	client_open_with(&c, &mixing, 3);
	PUT(&c, k, "new");
	ck_assert_uint_eq(mixed, 1);
	check_no_duplicates(k);
	check_value(&other, k, "new");
	check_value(&other, alien, "its own");
	client_close(&c);
	teardown();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("index");
	TCase *t = tcase_create("sequences");

	tcase_add_loop_test(t, put_get_overwrite_delete_put_again, 0, 2);
	tcase_add_loop_test(t, add_replace_cas_results_by_state_of_the_key, 0,
			    2);
	tcase_add_loop_test(t, many_keys_all_found_again_and_fresh_ones_missed,
			    0, 2);
	tcase_add_loop_test(t, same_fingerprint_keys_in_one_window_stay_apart,
			    0, 2);
	tcase_add_loop_test(
		t, full_window_insert_waits_for_growth_others_go_on, 0, 2);
	tcase_add_loop_test(t, budgets_uncached, 0, 2);
	tcase_add_loop_test(t, batch_of_gets_takes_two_round_trips, 0, 2);
	tcase_add_loop_test(t, large_value_delete_leaves_a_small_tombstone, 0,
			    2);
	suite_add_tcase(s, t);
	t = tcase_create("rivals");
	tcase_add_test(t, put_loses_to_blind_put_is_absorbed_with_one_cas);
	tcase_add_test(t, put_loses_to_blind_delete_is_absorbed);
	tcase_add_test(t, put_loses_to_conditional_write_is_not_absorbed);
	tcase_add_test(t,
		       insert_loses_empty_to_other_fingerprint_takes_next_slot);
	tcase_add_test(
		t,
		insert_loses_empty_to_other_key_of_same_fingerprint_is_not_absorbed);
	tcase_add_test(t, insert_loses_empty_to_same_key_makes_no_duplicate);
	tcase_add_test(t, add_loses_empty_to_same_key_says_exists);
	tcase_add_test(t, conditional_operations_never_absorb);
	suite_add_tcase(s, t);
	t = tcase_create("time and damage");
	tcase_add_loop_test(t, reader_within_half_T_reads_twice, 0, 2);
	tcase_add_test(t,
		       reader_slower_than_half_T_word_unchanged_is_confirmed);
	tcase_add_test(t, reader_slower_than_half_T_word_changed_reads_again);
	tcase_add_test(
		t, reader_slower_than_half_T_frozen_word_confirms_nothing);
	tcase_add_test(t, reader_halted_while_its_block_is_reused_reads_again);
	tcase_add_test(t,
		       writer_halted_while_its_block_is_reused_does_not_win);
	tcase_add_test(t, put_that_loses_for_ever_ends_at_its_deadline);
	tcase_add_loop_test(
		t,
		card_that_answers_no_more_ends_at_the_deadline_its_cas_is_maybe,
		0, 6);
	tcase_add_loop_test(t, damaged_block_is_corrupt_after_bounded_tries, 0,
			    2);
	tcase_add_test(t, block_damaged_for_a_moment_is_read_again);
	tcase_add_loop_test(
		t, slot_words_out_of_the_region_are_corrupt_not_followed, 0, 2);
	tcase_add_test(
		t, lost_to_a_word_out_of_the_region_its_block_is_not_taken_over);
	tcase_add_loop_test(t, empty_word_of_another_generation_is_not_empty, 0,
			    2);
	tcase_add_loop_test(
		t, incarnation_grows_with_each_reuse_and_never_wraps, 0, 2);
	suite_add_tcase(s, t);
	t = tcase_create("frozen");
	tcase_add_loop_test(
		t, frozen_and_entry_unchanged_readers_read_writers_wait, 0, 2);
	tcase_add_loop_test(
		t, frozen_writer_that_waited_finishes_in_the_new_subtable, 0, 2);
	tcase_add_test(t, waiting_operations_hold_no_block);
	tcase_add_test(t, waiting_for_growth_holds_no_block);
	tcase_add_loop_test(
		t, stale_entry_leads_every_operation_to_the_new_subtable, 0, 2);
	tcase_add_loop_test(
		t, frozen_after_doubling_the_directory_is_read_anew, 0, 2);
	tcase_add_loop_test(
		t, migration_before_every_request_of_every_operation, 0, 2);
	tcase_add_test(
		t, frozen_before_cas_insert_never_lands_in_the_old_subtable);
	suite_add_tcase(s, t);
	t = tcase_create("broken and torn");
	tcase_add_test(
		t,
		break_at_every_request_reads_fail_writes_are_maybe_or_not_done);
	tcase_add_test(t, torn_windows_make_no_duplicates_and_no_false_errors);
	tcase_add_test(t,
		       insert_reads_half_of_a_rivals_claim_makes_no_duplicate);
	tcase_add_test(t, get_of_a_mixture_does_not_return_an_older_value);
	tcase_add_loop_test(
		t,
		block_written_in_vain_has_the_next_incarnation_where_words_tear,
		0, 2);
	tcase_add_loop_test(
		t, slot_of_another_key_is_not_taken_for_a_mixture_in_it, 0, 4);
	tcase_add_test(t, put_behind_a_mixture_makes_no_duplicate);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
