/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * farkv_fsck() of a region that a test damages: each kind of damage is found, counted
 * once and named, and gone when it is undone.
 */
#include "config.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/atomic.h"
#include "common/region/block.h"
#include "common/region/hash.h"
#include "common/region/layout.h"
#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/fsck_text.h"
#include "tests/rig/raw_session.h"
#include "tests/rig/real_server.h"

#define KEYS 500 /* all in the first subtable */

static struct real_server srv;
static struct farkv *kv;
static int scribbler; /* a session that may write */
static struct superblock sb;
static uint8_t *data;
static uint64_t *slots; /* of the one subtable */
static uint64_t page;

static struct farkv_fsck check(void)
{
	struct farkv_fsck f;

	memset(&f, POISON, sizeof(f));
	f.size = sizeof(f);
	OK(farkv_fsck(kv, &f));
	return f;
}

/* It sends BYE: the server would wait for a session that only listens. */
static void map(void)
{
	static const struct msg bye = {.type = MSG_BYE, .req = 2};
	struct raw_region r;

	scribbler = raw_session_map(srv.path, &r);
	sb = r.sb;
	data = r.data;
	slots = r.slots;
	page = r.page;
	raw_say(scribbler, &bye, NULL);
	ck_assert_uint_eq(raw_next(scribbler).type, MSG_BYE_ACK);
}

static void setup(void)
{
	static const char *const args[] = {"-m", "64m", NULL};
	char key[16];

	real_server_init(&srv, args);
	kv = e2e_open(srv.path, 20000);
	map();
	for (int i = 0; i < KEYS; i++) {
		snprintf(key, sizeof(key), "key%d", i);
		OK(e2e_put(kv, key, "some value"));
	}
	for (int i = 0; i < KEYS; i += 10) {
		snprintf(key, sizeof(key), "key%d", i);
		OK(e2e_del(kv, key));
	}
}

static void teardown(void)
{
	close(scribbler);
	farkv_close(kv);
	real_server_fini(&srv);
}

/* ---- places ------------------------------------------------------------------------- */

/* The first slot at or after `from` that is EMPTY, or is not. */
static unsigned find(unsigned from, bool empty)
{
	while (slot_is_null(slots[from]) != empty)
		ck_assert_uint_lt(++from, SUBTABLE_SLOTS);
	return from;
}

static uint8_t *block_at(unsigned slot)
{
	return data + slot_off(slots[slot]) - sb.meta_bytes;
}

/* The home line of the key in a slot: its first slot. */
static unsigned home_of(unsigned slot)
{
	struct block_header h;
	const uint8_t *p = block_at(slot);

	memcpy(&h, p, sizeof(h));
	return hash_home_line(hash_key(sb.hash_seed, p + sizeof(h),
				       h.key_len)) *
	       LINE_SLOTS;
}

/* A slot whose key directly follows `before` other slots of its window. */
static unsigned find_behind(unsigned before)
{
	unsigned s = 0;

	for (;; s++) {
		s = find(s, false);
		if (s - home_of(s) >= before)
			return s;
	}
}

/* ---- tests --------------------------------------------------------------------------- */

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(clean_store_is_clean)
{
	struct farkv_fsck f = check();

	ck_assert_uint_eq(fsck_problems(&f), 0);
	ck_assert_uint_eq(f.undecided, FARKV_FSCK_DECIDED);
	ck_assert_uint_eq(f.items, KEYS - KEYS / 10);
	ck_assert_uint_eq(f.dead_slots, KEYS / 10);
	ck_assert_uint_eq(f.subtables, 1);
	ck_assert_uint_eq(f.index_bytes, PAGE_BYTES);
	ck_assert_uint_eq(f.live_bytes, f.items * 64);
	ck_assert_uint_eq(f.dead_bytes, f.dead_slots * 64);
	ck_assert_uint_gt(f.duration_ns, 0);
	ck_assert_uint_eq(f.out_bytes, f.live_bytes + f.dead_bytes +
					       f.blocks_held * 64);
	ck_assert_uint_eq(f.meta_bytes + f.index_bytes + f.out_bytes +
				  f.deferred_bytes + f.exhausted_bytes + f.free_bytes +
				  f.slack_bytes + f.retired_bytes +
				  f.unused_bytes,
			  f.region_bytes);
	ck_assert_uint_eq(f.blocks_leaked, 0);
	ck_assert_uint_eq(f.first_page + f.first_slot, 0);
}

/* Each writes one word or byte somewhere; undone by writing it again. */
enum damage {
	VALUE_BYTE,      /* of a block */
	TOMBSTONE_BYTE,
	WORD_OUTSIDE,    /* leads out of the region */
	WORD_TO_NOTHING, /* ... to free pages */
	WORD_TO_INDEX,   /* ... to the index itself */
	WORD_INSIDE,     /* ... into the middle of a block */
	OTHER_CLASS,
	OLD_WORD,        /* an incarnation before the block's */
	FINGERPRINT,
	COPIED_WORD,     /* a second slot of the same window */
	COPIED_FAR,      /* ... of another */
	EMPTY_BEFORE,    /* a slot claimed before is EMPTY again */
	OTHER_EMPTY,     /* of another generation */
	DAMAGES
};

static const char *const damage_names[] = {
	"value byte", "tombstone byte", "word outside", "word to nothing",
	"word to index", "word inside", "other class", "old word",
	"fingerprint", "copied word", "copied far", "empty before",
	"other empty"};

struct scribble {
	unsigned slot;   /* where it is found */
	uint64_t *word;  /* what is written: a word, ... */
	uint64_t value;
	uint64_t *count; /* the one that it raises */
};

static unsigned find_dead(void)
{
	unsigned s = 0;

	while (!(slots[s = find(s, false)] & SLOT_DEAD))
		s++;
	return s;
}

/* A key whose next slot is EMPTY and in its window. */
static unsigned find_gap(void)
{
	unsigned s = find(0, false);

	while (!slot_is_null(slots[s + 1]))
		s = find(s + 1, false);
	return s;
}

/* Another word in a slot that has one, with the words of a block elsewhere. */
static void plan_move(enum damage what, struct scribble *p, struct farkv_fsck *f)
{
	unsigned s = p->slot;

	if (what == COPIED_WORD) {
		p->slot = find_gap();
		p->value = slots[p->slot++];
		p->count = &f->duplicates;
	} else if (what == COPIED_FAR) {
		p->slot = find(home_of(s) + WINDOW_SLOTS, true);
		p->count = &f->misplaced;
	} else if (what == EMPTY_BEFORE) {
		p->slot = find_behind(1);
		p->value = slots[find(0, true)];
		p->count = &f->behind_empty;
		p->word = &slots[home_of(p->slot)];
		return;
	} else {
		p->slot = find(0, true);
		p->value = slots[p->slot] + (UINT64_C(1) << SLOT_CLASS_SHIFT);
		p->count = &f->bad_empty;
	}
	p->word = &slots[p->slot];
}

static struct scribble plan(enum damage what, struct farkv_fsck *f)
{
	unsigned s = find(100, false);
	struct scribble p = {.slot = s, .word = &slots[s], .value = slots[s],
			     .count = &f->bad_words};

	switch (what) {
	case VALUE_BYTE:
	case TOMBSTONE_BYTE:
		p.slot = what == VALUE_BYTE ? s : find_dead();
		p.word = (uint64_t *)(void *)(block_at(p.slot) +
					      BLOCK_HEADER_BYTES + 8);
		p.value = *p.word ^ 0x100;
		p.count = &f->damaged;
		break;
	case WORD_OUTSIDE:
		p.value |= SLOT_PTR_MASK;
		break;
	case WORD_TO_NOTHING:
		p.value = (p.value & ~SLOT_PTR_MASK) |
			  sb.region_bytes / 2 / PTR_UNIT;
		break;
	case WORD_TO_INDEX:
		p.value = (p.value & ~SLOT_PTR_MASK) |
			  page * PAGE_BYTES / PTR_UNIT;
		break;
	case WORD_INSIDE:
		p.value++;
		break;
	case OTHER_CLASS:
		p.value ^= UINT64_C(1) << SLOT_CLASS_SHIFT;
		break;
	case OLD_WORD:
		p.value += UINT64_C(1) << SLOT_INC_SHIFT;
		p.count = &f->shared;
		break;
	case FINGERPRINT:
		p.value ^= UINT64_C(2) << SLOT_FP_SHIFT;
		p.count = &f->misplaced;
		break;
	default:
		plan_move(what, &p, f);
		break;
	}
	return p;
}

static bool loses_block(enum damage what)
{
	return (what >= WORD_OUTSIDE && what <= OTHER_CLASS) ||
	       what == EMPTY_BEFORE;
}

TEST_LOOP(damage_is_found_and_named, 0, DAMAGES)
{
	struct farkv_fsck f;
	struct scribble p = plan((enum damage)_i, &f);
	uint64_t before = *p.word;

	ck_assert_uint_ne(before, p.value);
	*p.word = p.value;
	f = check();
	ck_assert_msg(*p.count > 0, "%s: not found", damage_names[_i]);
	ck_assert_msg(fsck_problems(&f) == *p.count, "%s: %llu other problems",
		      damage_names[_i],
		      (unsigned long long)(fsck_problems(&f) - *p.count));
	if (_i != EMPTY_BEFORE) {
		ck_assert_uint_eq(*p.count, 1);
		ck_assert_uint_eq(f.first_slot, p.slot);
	}
	ck_assert_uint_eq(f.first_page, page);
	/* A block that lost its slot to the scribble counts as leaked. */
	if (loses_block((enum damage)_i)) {
		ck_assert_uint_eq(f.blocks_leaked, 1);
		return;
	}
	ck_assert_uint_eq(f.blocks_leaked, 0);
	*p.word = before;
	f = check();
	ck_assert_uint_eq(fsck_problems(&f), 0);
	ck_assert_uint_eq(f.blocks_leaked, 0);
}

/* Many keys: several subtables, values of all sizes, a busy client. */
TEST(busy_store_is_clean)
{
	static uint8_t value[100000];
	pid_t pid = fork();
	int status;

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		struct farkv *own = e2e_open(srv.path, 20000);

		for (uint32_t i = 0; i < 200000; i++) {
			uint32_t k = i * 2654435761u % 125000;

			if (k % 7 == 0)
				ck_assert_int_ne(farkv_delete(own, &k,
							      sizeof(k)),
						 FARKV_ETIMEDOUT);
			else
				OK(farkv_put(own, &k, sizeof(k), value,
					     k % 5000 ? k % 30 :
							sizeof(value)));
		}
		farkv_close(own);
		_exit(0);
	}
	do {
		struct farkv_fsck f = check();

		ck_assert_uint_eq(fsck_problems(&f), 0);
		ck_assert_uint_eq(f.undecided, FARKV_FSCK_DECIDED);
		ck_assert_uint_eq(f.blocks_leaked, 0);
	} while (waitpid(pid, &status, WNOHANG) == 0);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_gt(check().subtables, 20);
	ck_assert_uint_eq(check().blocks_leaked, 0);
}

TEST(kvcli_fsck_prints_the_problems)
{
	struct farkv_fsck f;
	struct scribble p = plan(VALUE_BYTE, &f);
	const char *kvcli = getenv("KVCLI");
	char command[400], out[4096] = "";
	FILE *pipe;

	ck_assert_ptr_nonnull(kvcli);
	snprintf(command, sizeof(command), "%s -u %s fsck 2>&1", kvcli,
		 srv.path);
	*p.word = p.value;
	pipe = popen(command, "r");
	ck_assert_ptr_nonnull(pipe);
	ck_assert_uint_gt(fread(out, 1, sizeof(out) - 1, pipe), 0);
	ck_assert_int_eq(WEXITSTATUS(pclose(pipe)), 1);
	ck_assert_ptr_nonnull(
		strstr(out, "kvcli: fsck: slots with a damaged block: 1\n"));
	snprintf(command, sizeof(command), "slot %u of the subtable in page %u",
		 p.slot, (unsigned)page);
	ck_assert_ptr_nonnull(strstr(out, command));
}

TEST(result_struct_of_any_size_is_filled_to_its_end)
{
	struct farkv_fsck f;

	memset(&f, POISON, sizeof(f));
	f.size = offsetof(struct farkv_fsck, items);
	OK(farkv_fsck(kv, &f));
	ck_assert_uint_eq(f.subtables, 1);
	ck_assert(e2e_poisoned(&f.items, sizeof(f) - f.size));
	f.size = 3;
	FAILS(FARKV_EINVAL, farkv_fsck(kv, &f));
	e2e_detail("farkv_fsck: size is 3");
	FAILS(FARKV_EINVAL, farkv_fsck(kv, NULL));
	FAILS(FARKV_EINVAL, farkv_fsck(NULL, &(struct farkv_fsck){
					  .size = sizeof(f)}));
}

TEST_SUITE("fsck", real_server_require())
