/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path of get (common/index/shm.h), single and in batches, and where it leaves
 * to the slow path.
 */
#include "config.h"

#include "tests/rig/cases.h"
#include "tests/rig/loads_rig.h"

/* As farkv_get() calls it; into the caller's memory. */
static int get_by_key(struct index_key who, void *into, size_t into_cap)
{
	struct index_op *op = &me.op;
	const void *at = index_prefetch_window(me.ix, who.hash);

	op->result = INDEX_PENDING;
	op->into = into;
	op->into_cap = into_cap;
	return index_get(me.ix, &(struct index_get_req){who, op}, at) ? op->result :
								      INDEX_PENDING;
}

static void check_one_get(struct index_key who, const char *value, bool by_key)
{
	int result = by_key ? get_by_key(who, NULL, 0) :
			      run(&me, INDEX_GET, who, NULL, 0);

	ck_assert_int_eq(result, value ? 0 : FARKV_ENOTFOUND);
	if (value) {
		ck_assert_uint_eq(me.op.view.value_len, strlen(value));
		ck_assert_mem_eq(me.op.view.value, value, strlen(value));
	}
}

static void check_get(struct index_key who, const char *value)
{
	check_one_get(who, value, false);
	check_one_get(who, value, true);
}

/*
 * The key's own slot is not FROZEN: no other subtable has the key, whatever slots precede
 * it.
 */
TEST(fast_get_passes_frozen_slots)
{
	struct index_key second;

	setup_over("a", 77);
	second = key_at("b", 78);
	PUT(&me, second, "other");
	freeze();
	check_get(second, "other");
	ck_assert_uint_eq(index_retries(me.ix), 0);
	teardown();
}

static struct block_header *head_of(struct index_key who)
{
	return (struct block_header *)(void *)(region.base +
					       slot_off(*slots_of(who)));
}

TEST(fast_and_slow_get_find_the_same)
{
	struct index_key second;
	static char large[4000];

	setup_over("a", 77);
	second = key_at("b", 77);
	check_get(k, "second");
	check_get(second, NULL);
	PUT(&me, second, "other");
	check_get(second, "other");
	check_get(k, "second");
	/* The lengths in the header may be anything, but the block must be whole. */
	PUT(&me, k, "a longer one");
	check_get(second, "other");
	head_of(k)->version ^= 1;
	ck_assert_int_eq(run(&me, INDEX_GET, second, NULL, 0), FARKV_ECORRUPT);
	head_of(k)->version ^= 1;
	PUT(&me, k, "second");
	ck_assert_int_eq(run(&me, INDEX_DELETE, k, NULL, 0), 0);
	check_get(k, NULL);
	check_get(second, "other");
	memset(large, 'x', sizeof(large) - 1);
	fake_region_grant(&region, me.alloc,
			  (uint8_t)class_for(block_room(1, sizeof(large))), 2);
	PUT(&me, k, large);
	check_get(k, large);
	PUT(&me, k, "");
	check_get(k, "");
	teardown();
}

/* The length in the header limits the copy. */
TEST(fast_get_checks_the_length_of_a_block)
{
	struct block_header *h;

	setup_over("k", 0);
	h = (struct block_header *)(void *)(region.base +
					    slot_off(*slots_of(k)));
	for (uint32_t len = 1; len; len <<= 1) {
		h->value_len ^= len;
		ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0),
				 FARKV_ECORRUPT);
		h->value_len ^= len;
	}
	for (uint32_t len = 1; len < 0x10000; len <<= 1) {
		h->key_len ^= (uint16_t)len;
		ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0),
				 FARKV_ECORRUPT);
		h->key_len ^= (uint16_t)len;
	}
	check_get(k, "second");
	teardown();
}

/* The checksum of the block fits its header, whatever that contains. */
static void seal(void)
{
	struct block_header *h = head_of(k);
	size_t room = block_room_of(h);
	uint64_t sum = hash_image(h, block_end(h)) ^
		       block_binding(slot_block(*slots_of(k)));

	memcpy((uint8_t *)h + room - BLOCK_SUM_BYTES, &sum, sizeof(sum));
}

TEST(get_of_another_incarnation_is_corrupt)
{
	struct block_header *h;

	setup_over("k", 0);
	check_get(k, "second");
	h = head_of(k);
	for (unsigned bit = 0; bit < 16; bit++) {
		h->inc_flags ^= (uint16_t)(1u << bit);
		seal();
		/* The slot decides whether the key is dead, not the block. */
		ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0),
				 (1u << bit) & BLOCK_FLAGS ? 0 : FARKV_ECORRUPT);
		h->inc_flags ^= (uint16_t)(1u << bit);
	}
	seal();
	check_get(k, "second");
	teardown();
}

TEST(get_of_a_dated_block_or_one_with_a_user_word_has_them_in_its_view)
{
	const uint16_t flags[] = {0, BLOCK_SECONDS, BLOCK_USER, BLOCK_SECONDS | BLOCK_USER};
	struct block_header *h;

	setup_over("k", 0);
	check_get(k, "second");
	h = head_of(k);
	*(uint64_t *)(void *)(region.base + REGION_CLOCK_OFF) = 0x7FFFFFFF; /* it lives */
	for (unsigned i = 0; i < 4; i++) {
		h->inc_flags |= flags[i];
		h->expiry = 0x80000000 + i;
		memcpy((uint8_t *)(h + 1) + 1 + strlen("second"), "user", 4);
		seal();
		check_get(k, "second");
		ck_assert_uint_eq(me.op.view.expiry, 0x80000000 + i);
		ck_assert_uint_eq(me.op.view.flags, flags[i]);
		ck_assert_uint_eq(me.op.view.user,
				  flags[i] & BLOCK_USER ? 0x72657375 : 0);
		h->inc_flags &= (uint16_t)~flags[i];
	}
	/* An overwrite takes it for the key's, whatever its flags. */
	h->inc_flags |= BLOCK_SECONDS | BLOCK_USER;
	seal();
	PUT(&me, k, "third");
	check_get(k, "third");
	ck_assert_uint_eq(me.op.view.expiry, 0);
	ck_assert_uint_eq(me.op.view.flags, 0);
	teardown();
}

/* On the slow path the state is that after index_op_start(). */
TEST(slow_get_keeps_the_destination_of_the_request)
{
	static char large[INDEX_SEGMENT_MIN + 100], into[sizeof(large)];
	struct index_key absent;

	setup_over("k", 0);
	memset(large, 'x', sizeof(large) - 1);
	fake_region_grant(&region, me.alloc,
			  (uint8_t)class_for(block_room(1, sizeof(large))), 2);
	PUT(&me, k, large);
	ck_assert_int_eq(get_by_key(k, into, sizeof(into)), 0);
	ck_assert_ptr_eq(me.op.view.value, into);
	ck_assert_str_eq(into, large);
	/* Results of the previous operation are cleared. */
	absent = key_of("absent");
	ck_assert_int_eq(run(&me, INDEX_CAS, k, "x", 77), FARKV_EVERSION);
	ck_assert_int_eq(get_by_key(absent, NULL, 0), FARKV_ENOTFOUND);
	PUT(&me, k, "small");
	ck_assert_int_eq(get_by_key(k, NULL, 0), 0);
	freeze();
	ck_assert_int_eq(get_by_key(k, NULL, 0), INDEX_PENDING);
	ck_assert_int_eq(me.op.kind, INDEX_GET);
	ck_assert_int_eq(me.op.phase, OP_START);
	ck_assert_ptr_eq(me.op.key.data, k.data);
	teardown();
}

/* The length of the previous value is not believed of a block that is too small for it. */
TEST(get_of_a_length_beyond_the_block_is_refused)
{
	static char large[560];
	struct block_header *h;
	struct index_key other_key;

	setup_over("k", 0);
	other_key = key_of("another");
	memset(large, 'x', sizeof(large) - 1);
	fake_region_grant(&region, me.alloc,
			  (uint8_t)class_for(block_room(7, sizeof(large))), 2);
	PUT(&me, other_key, large);
	h = head_of(k);
	for (unsigned round = 0; round < 2; round++) {
		check_get(other_key, large);
		ck_assert_uint_eq(me.ix->usual_len, strlen(large));
		/* The key that the operation names, or none. */
		memset(h, 0, sizeof(*h));
		h->value_len = round ? me.ix->usual_len : 0;
		h->key_len = round ? k.len : 0;
		h->inc_flags = round ? slot_block(*slots_of(k)).inc : 0;
		ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0),
				 FARKV_ECORRUPT);
	}
	teardown();
}

static void noted(void)
{
}

/* The key's slot names a unit from which a whole buffer would reach out of the region's blocks. */
static void check_no_block_at(uint64_t unit)
{
	uint64_t *slot = slots_of(k), word = *slot;
	uint8_t *at = region.base + unit * PTR_UNIT, kept[PTR_UNIT];

	memcpy(kept, at, sizeof(kept));
	memcpy(at, head_of(k), sizeof(struct block_header));
	at_block = noted;
	*slot = (word & ~SLOT_PTR_MASK) | unit;
	ck_assert_int_eq(get_by_key(k, NULL, 0), INDEX_PENDING);
	ck_assert_ptr_eq(at_block, noted);
	*slot = word;
	memcpy(at, kept, sizeof(kept));
}

/* No copy starts where no block can be, or exceeds the buffer. */
TEST(fast_get_copies_within_bounds)
{
	struct index_op fresh;
	struct index_get_req want;
	const void *at;
	uint64_t room, word;

	setup_over("k", 0);
	want = (struct index_get_req){k, &fresh};
	check_get(k, "second");
	check_no_block_at(region.sb.meta_bytes / PTR_UNIT - 1);
	check_no_block_at(region.sb.region_bytes / PTR_UNIT - 1);
	room = UTIL_MIN(me.op.buf_bytes, (uint64_t)SHM_SMALL_MAX);
	check_no_block_at((region.sb.region_bytes - room) / PTR_UNIT + 1);

	/* An operation that has no buffer yet reads nothing past the region. */
	index_op_init(&fresh);
	at = index_prefetch_window(me.ix, k.hash);
	word = *slots_of(k);
	*slots_of(k) = (word & ~SLOT_PTR_MASK) | region.sb.region_bytes / PTR_UNIT;
	ck_assert(!index_get(me.ix, &want, at));
	*slots_of(k) = word;
	index_op_fini(me.ix, &fresh);
	index_op_init(&fresh);
	ck_assert(index_get(me.ix, &want, at));
	ck_assert_int_eq(fresh.result, 0);
	ck_assert_ptr_eq(at_block, noted);
	ck_assert(index_get(me.ix, &want, at));
	ck_assert_int_eq(fresh.result, 0);
	ck_assert_ptr_null(at_block);
	index_op_fini(me.ix, &fresh);
	teardown();
}

/* Only the second read of the slot reveals it. */
TEST(fast_get_whose_slot_changes_after_the_copy_restarts)
{
	uint64_t retries;

	setup_over("k", 77);
	fake_region_grant(&region, other.alloc, 0, 4);
	rival_sets(-1, NULL, INDEX_PUT, k, "theirs");
	after_block = rival_op;
	retries = index_retries(me.ix);
	check_value(&me, k, "theirs");
	ck_assert_int_eq(rival.result, 0);
	ck_assert_uint_eq(index_retries(me.ix), retries + 1);
	check_get(k, "theirs");
	ck_assert_uint_eq(index_retries(me.ix), retries + 1);

	after_block = freeze;
	check_value(&me, k, "theirs");
	ck_assert_ptr_null(after_block);
	*slots_of(k) &= ~SLOT_FROZEN;

	rival_sets(-1, NULL, INDEX_DELETE, k, NULL);
	after_block = rival_op;
	ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0), FARKV_ENOTFOUND);
	ck_assert_int_eq(rival.result, 0);
	teardown();
}

static void write_again(void)
{
	struct block_header *h = head_of(k);

	memcpy((uint8_t *)(h + 1) + h->key_len, "SECOND", 6);
	h->version = 0xABCDEF;
	seal();
}

/* ... which a client that follows the protocol never does. */
TEST(fast_get_returns_the_version_of_its_value)
{
	setup_over("k", 77);
	at_block = write_again;
	check_value(&me, k, "SECOND");
	ck_assert_uint_eq(me.op.version, 0xABCDEF);
	ck_assert_uint_eq(me.op.view.version, 0xABCDEF);
	teardown();
}

/* The checks read every byte of the block except those between value and checksum. */
static void check_each_byte(const char *value, size_t end)
{
	uint8_t *block = (uint8_t *)head_of(k);
	size_t room = block_room(k.len, (uint32_t)strlen(value));

	for (size_t at = 0; at < room; at++) {
		block[at] ^= 0x40;
		if (at < end || at >= room - BLOCK_SUM_BYTES)
			ck_assert_int_eq(run(&me, INDEX_GET, k, NULL, 0),
					 FARKV_ECORRUPT);
		else
			check_value(&me, k, value);
		block[at] ^= 0x40;
	}
}

/* Total lengths around the bounds between the ways to compute the checksum. */
static void check_lengths(const char *key, size_t end)
{
	static char value[400];
	size_t len = end - sizeof(struct block_header) - strlen(key);
	uint8_t cls = class_for(block_room((uint16_t)strlen(key), (uint32_t)len));

	setup(false);
	k = key_of(key);
	for (size_t i = 0; i < len; i++)
		value[i] = (char)('a' + i % 23);
	value[len] = '\0';
	fake_region_grant(&region, me.alloc, cls, 3);
	PUT(&me, k, value);
	check_get(k, value); /* another length than the previous one */
	ck_assert_uint_eq(me.ix->usual_len, len);
	check_get(k, value);
	check_each_byte(value, end);
	check_get(k, value);
	teardown();
}

TEST(get_of_any_length_is_what_was_put)
{
	static const size_t ends[] = {48, 100, 127, 128, 129, 130, 136, 143, 144,
				      145, 152, 159, 160, 161, 239, 240, 241, 300};
	static const char *const keys[] = {"k", "seven..", "eight...",
					   "nine.....", "sixteen..........",
					   "twenty-three bytes long"};

	for (unsigned i = 0; i < ARRAY_SIZE(ends); i++)
		check_lengths(keys[i % ARRAY_SIZE(keys)], ends[i]);
	for (unsigned i = 0; i < ARRAY_SIZE(keys); i++)
		check_lengths(keys[i], 140);
}

/* ---- batches ----------------------------------------------------------------------- */

/* Gets that start together. */
#define MOST (2 * STAGE_OPS + 3)
static struct index_op many_op[MOST];
static struct index_get_req many[MOST];
static struct index_op *all[MOST];

static void many_init(void)
{
	for (unsigned i = 0; i < MOST; i++) {
		index_op_init(&many_op[i]);
		many[i] = (struct index_get_req){k, &many_op[i]};
		all[i] = &many_op[i];
	}
}

static void many_fini(void)
{
	for (unsigned i = 0; i < MOST; i++)
		index_op_fini(me.ix, &many_op[i]);
}

static bool get_many(size_t n)
{
	for (size_t i = 0; i < n; i++)
		many_op[i].result = INDEX_PENDING;
	return index_get_many(me.ix, many, n);
}

static void check_one_of_many(size_t i, const char *value)
{
	const struct index_op *op = &many_op[i];

	ck_assert_int_eq(op->result, 0);
	ck_assert_uint_eq(op->view.value_len, strlen(value));
	ck_assert_mem_eq(op->view.value, value, strlen(value));
	ck_assert(op->version > 0);
}

TEST(batch_of_gets_finds_what_single_gets_find)
{
	setup_over("k", 0);
	many_init();
	for (unsigned round = 0; round < 2; round++) {
		ck_assert(get_many(3));
		for (unsigned i = 0; i < 3; i++)
			check_one_of_many(i, "second");
	}
	check_get(k, "second");
	many_fini();
	teardown();
}

/* A get that stops does not stop the later ones. */
static const size_t stopped[] = {0, 1, STAGE_OPS - 1, STAGE_OPS, 2 * STAGE_OPS, MOST - 1};

static bool is_stopped(size_t i)
{
	for (size_t j = 0; j < ARRAY_SIZE(stopped); j++)
		if (stopped[j] == i)
			return true;
	return false;
}

/* ... with k's slot; every third of the others is of a missing key. */
static void get_most(struct index_key found)
{
	struct index_key absent = key_of("absent");

	for (size_t i = 0; i < MOST; i++)
		many[i].key = is_stopped(i) ? k : i % 3 ? found : absent;
	ck_assert(!get_many(MOST));
	for (size_t i = 0; i < MOST; i++)
		if (is_stopped(i))
			ck_assert_int_eq(many_op[i].result, INDEX_PENDING);
}

static void check_most(void)
{
	for (size_t i = 0; i < MOST; i++)
		if (is_stopped(i))
			check_one_of_many(i, "second");
		else if (i % 3)
			check_one_of_many(i, "found");
		else
			ck_assert_int_eq(many_op[i].result, FARKV_ENOTFOUND);
}

TEST(batch_of_gets_ends_each_get_by_itself)
{
	struct index_key found;

	setup_over("k", 0);
	freeze();
	found = key_at("another", ANY_FP);
	PUT(&me, found, "found");
	many_init();
	for (unsigned round = 0; round < 2; round++) {
		get_most(found);
		index_run(me.ix, all, MOST, 0, UINT64_MAX);
		check_most();
	}
	/* The connection turns out to be lost, and so are the values found so far. */
	PUT(&me, found, "of another key");
	found = key_at("third", ANY_FP);
	PUT(&me, found, "found");
	get_most(found);
	for (size_t i = 0; i < MOST; i++) {
		index_op_fini(me.ix, all[i]);
		if (all[i]->result != FARKV_ENOTFOUND)
			index_op_resume(all[i]);
	}
	index_run(me.ix, all, MOST, 0, UINT64_MAX);
	check_most();
	many_fini();
	teardown();
}

TEST(batch_of_gets_keeps_each_destination)
{
	static char into[2][64];

	setup_over("k", 77);
	many_init();
	many[0].key = key_at("another", 78);
	PUT(&me, many[0].key, "first");
	ck_assert(get_many(2)); /* buffers are made here */
	freeze();
	for (unsigned i = 0; i < 2; i++) {
		many_op[i].into = into[i];
		many_op[i].into_cap = sizeof(into[i]);
	}
	ck_assert(!get_many(2));
	check_one_of_many(0, "first");
	ck_assert_int_eq(many_op[1].result, INDEX_PENDING);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_ptr_eq(many_op[i].into, into[i]);
		ck_assert_uint_eq(many_op[i].into_cap, sizeof(into[i]));
	}
	index_abandon(me.ix, &many_op[1], FARKV_ETIMEDOUT);
	many_fini();
	teardown();
}

/* Their slots are read together, and later ones change meanwhile. */
TEST(batch_of_gets_checks_each_slot_after_its_copy)
{
	static const char *const values[] = {"theirs", "longer than that was", ""};
	struct index_key first;

	setup_over("k", 77);
	first = key_at("another", 78);
	PUT(&me, first, "first");
	fake_region_grant(&region, other.alloc, 0, 8);
	many_init();
	many[0].key = first;
	ck_assert(get_many(2)); /* buffers are made here */
	for (unsigned i = 0; i < ARRAY_SIZE(values); i++) {
		rival_sets(-1, NULL, INDEX_PUT, k, values[i]);
		at_block = rival_op;
		ck_assert(get_many(2));
		check_one_of_many(0, "first");
		check_one_of_many(1, values[i]);
	}
	at_block = freeze;
	ck_assert(!get_many(2));
	check_one_of_many(0, "first");
	ck_assert_int_eq(many_op[1].result, INDEX_PENDING);
	index_abandon(me.ix, &many_op[1], FARKV_ETIMEDOUT);
	*slots_of(k) &= ~SLOT_FROZEN;

	rival_sets(-1, NULL, INDEX_DELETE, k, NULL);
	at_block = rival_op;
	ck_assert(get_many(2));
	check_one_of_many(0, "first");
	ck_assert_int_eq(many_op[1].result, FARKV_ENOTFOUND);
	many_fini();
	teardown();
}

/* The lane is broken for loads, so they start but do not run. */
TEST(batch_of_gets_on_a_broken_lane_stays_pending)
{
	setup_over("k", 77);
	many_init();
	ck_assert(get_many(2));
	cut();
	ck_assert(!get_many(2));
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(many_op[i].result, INDEX_PENDING);
		index_abandon(me.ix, &many_op[i], FARKV_EDISCONNECTED);
	}
	many_fini();
	teardown();
}

TEST_SUITE("index, fast gets")
