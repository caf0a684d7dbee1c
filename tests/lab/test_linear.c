/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker on histories that are known to be right or wrong, with the witnesses
 * of the wrong ones; and writing, reading and comparing of histories.
 */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <check.h>

#include "linear.h"
#include "common/base/util.h"
#include "tests/rig/test_main.h"

/* One operation in a line: CLIENT KEY KIND INVOKED RESPONDED RESULT VALUE EXPECTED
 * VERSION. The witness: which lines, as letters from 'a'; NULL: it is linearizable. */
struct known {
	const char *name, *text, *witness;
	uint32_t key;
};

static const struct known known[] = {
	{"nothing at all", "", NULL, 0},
	{"a put and reads around it",
	 "1 0 put 10 20 ok 5 0 0\n"
	 "2 0 get 5 12 notfound 0 0 0\n"
	 "3 0 get 13 19 ok 5 0 0\n"
	 "2 0 get 30 31 ok 5 0 0\n", NULL, 0},
	{"two puts at once, either last",
	 "1 0 put 10 20 ok 5 0 0\n"
	 "2 0 put 11 19 ok 6 0 0\n"
	 "3 0 get 30 31 ok 5 0 0\n", NULL, 0},
	{"two reads that turn back",
	 "1 0 put 10 20 ok 5 0 0\n"
	 "2 0 put 11 19 ok 6 0 0\n"
	 "3 0 get 30 31 ok 5 0 0\n"
	 "3 0 get 32 33 ok 6 0 0\n", "abcd", 0},
	{"a stale read",
	 "1 7 put 0 1 ok 1 0 0\n"
	 "1 7 get 2 3 ok 1 0 0\n"
	 "1 7 put 4 5 ok 2 0 0\n"
	 "2 7 get 6 7 ok 2 0 0\n"
	 "2 7 get 8 9 ok 1 0 0\n"
	 "2 7 get 10 11 ok 2 0 0\n", "ace", 7},
	{"a stale read on another key than the first",
	 "1 3 put 0 1 ok 1 0 0\n"
	 "1 9 put 2 3 ok 2 0 0\n"
	 "1 3 get 4 5 ok 1 0 0\n"
	 "1 9 delete 6 7 ok 0 0 0\n"
	 "1 9 get 8 9 ok 2 0 0\n", "bde", 9},
	{"two come too late in one moment, and one says more than enough",
	 "1 7 cas 1 9 notfound 1 99 0\n"
	 "2 7 put 1 9 ok 2 0 0\n"
	 "3 7 add 6 6 ok 3 0 0\n"
	 "4 7 cas 9 14 ok 5 3 0\n"
	 "5 7 cas 3 12 changed 4 2 0\n"
	 "6 7 get 9 12 notfound 0 0 0\n"
	 "7 7 delete 1 7 ok 0 0 0\n"
	 "8 7 get 4 11 ok 3 0 0\n"
	 "9 7 put 11 19 failed 6 0 0\n"
	 "10 7 get 13 14 ok 5 0 0\n", "cdfg", 7},
	{"two that have a place each, but not both",
	 "1 7 put 0 1 ok 1 0 0\n"
	 "2 7 put 2 5 ok 2 0 0\n"
	 "3 7 cas 3 9 ok 3 1 0\n"
	 "4 7 cas 4 9 ok 4 1 0\n", "acd", 7},
	{"a value never written",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "1 0 get 2 3 ok 1 0 0\n"
	 "2 0 get 2 3 ok 77 0 0\n", "c", 0},
	{"a value written later",
	 "1 0 get 2 3 ok 5 0 0\n"
	 "2 0 put 4 5 ok 5 0 0\n", "a", 0},
	{"a value of another key",
	 "1 1 put 0 1 ok 5 0 0\n"
	 "1 2 get 2 3 ok 5 0 0\n", "b", 2},
	{"a read that finds nothing",
	 "1 0 put 0 1 ok 5 0 0\n"
	 "1 0 put 2 3 ok 6 0 0\n"
	 "1 0 get 4 5 notfound 0 0 0\n", "bc", 0},
	{"a lost update",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "1 0 get 2 3 ok 1 0 0\n"
	 "2 0 get 2 3 ok 1 0 0\n"
	 "1 0 cas 4 8 ok 2 1 0\n"
	 "2 0 cas 5 9 ok 3 1 0\n", "ade", 0},
	{"two adds of a key at once",
	 "1 0 add 0 9 ok 1 0 0\n"
	 "2 0 add 1 8 ok 2 0 0\n"
	 "3 0 get 10 11 ok 1 0 0\n", "ab", 0},
	{"two adds with a delete between them",
	 "1 0 add 0 9 ok 1 0 0\n"
	 "2 0 add 1 8 ok 2 0 0\n"
	 "3 0 delete 2 7 ok 0 0 0\n"
	 "3 0 get 10 11 ok 1 0 0\n", NULL, 0},
	{"a deleted value comes back",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "1 0 delete 2 3 ok 0 0 0\n"
	 "1 0 get 4 5 notfound 0 0 0\n"
	 "1 0 get 6 7 ok 1 0 0\n", "abd", 0},
	{"a cas that should have failed",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "1 0 put 2 3 ok 2 0 0\n"
	 "1 0 cas 4 5 ok 3 1 0\n", "abc", 0},
	{"a cas that should not have failed",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "1 0 cas 4 5 changed 3 1 0\n", "ab", 0},
	{"a cas of a key without a value",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "2 0 delete 0 3 ok 0 0 0\n"
	 "1 0 cas 4 5 changed 3 1 0\n", "ac", 0},
	{"a replace of nothing",
	 "1 0 get 0 1 notfound 0 0 0\n"
	 "1 0 replace 2 3 ok 1 0 0\n", "b", 0},
	{"a replace that missed a value",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "1 0 put 2 3 ok 2 0 0\n"
	 "1 0 replace 4 5 notfound 3 0 0\n", "bc", 0},
	{"an add that missed a value",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "1 0 add 2 3 ok 2 0 0\n", "ab", 0},
	{"an add that saw what was not there",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "1 0 delete 2 3 ok 0 0 0\n"
	 "1 0 add 4 5 exists 2 0 0\n", "abc", 0},
	{"two deletes of one value",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "1 0 delete 2 5 ok 0 0 0\n"
	 "2 0 delete 3 6 ok 0 0 0\n", "abc", 0},
	{"a put comes after it ended",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "2 0 get 2 3 notfound 0 0 0\n"
	 "2 0 get 4 5 ok 1 0 0\n", "ab", 0},
	{"a put that another one overwrote at once",
	 "1 0 put 0 9 ok 1 0 0\n"
	 "2 0 put 1 2 ok 2 0 0\n"
	 "2 0 get 3 4 ok 2 0 0\n"
	 "2 0 get 20 21 ok 2 0 0\n", NULL, 0},
	{"... and that is there after all",
	 "1 0 put 0 9 ok 1 0 0\n"
	 "2 0 put 1 2 ok 2 0 0\n"
	 "2 0 get 3 4 ok 2 0 0\n"
	 "2 0 get 20 21 ok 1 0 0\n", NULL, 0},
	{"a put that was overwritten at once, and read before, comes back",
	 "1 0 put 0 100 ok 1 0 0\n"
	 "2 0 put 10 20 ok 2 0 0\n"
	 "3 0 get 12 30 ok 1 0 0\n"
	 "4 0 get 40 50 ok 2 0 0\n"
	 "4 0 get 60 70 ok 1 0 0\n", "abcde", 0},
	{"... or was not overwritten at once",
	 "1 0 put 0 100 ok 1 0 0\n"
	 "2 0 put 10 20 ok 2 0 0\n"
	 "3 0 get 12 30 ok 1 0 0\n"
	 "4 0 get 60 70 ok 1 0 0\n", NULL, 0},
	{"unknown: it happened",
	 "1 0 put 0 1 unknown 1 0 0\n"
	 "2 0 get 2 3 ok 1 0 0\n", NULL, 0},
	{"unknown: it did not happen",
	 "1 0 put 0 1 unknown 1 0 0\n"
	 "2 0 get 2 3 notfound 0 0 0\n", NULL, 0},
	{"unknown: it happened after its response",
	 "1 0 put 0 1 unknown 1 0 0\n"
	 "2 0 get 2 3 notfound 0 0 0\n"
	 "2 0 put 4 5 ok 2 0 0\n"
	 "2 0 get 6 7 ok 1 0 0\n", NULL, 0},
	{"unknown: it happened twice",
	 "1 0 put 0 - unknown 1 0 0\n"
	 "2 0 get 2 3 ok 1 0 0\n"
	 "2 0 put 4 5 ok 2 0 0\n"
	 "2 0 get 6 7 ok 1 0 0\n", "abcd", 0},
	{"unknown: it happened before it began",
	 "2 0 get 2 3 ok 1 0 0\n"
	 "1 0 put 4 5 unknown 1 0 0\n", "a", 0},
	{"unknown: a delete explains one add, not two",
	 "1 0 add 0 1 ok 1 0 0\n"
	 "3 0 delete 0 - unknown 0 0 0\n"
	 "1 0 add 2 3 ok 2 0 0\n"
	 "1 0 add 4 5 ok 3 0 0\n", "abcd", 0},
	{"unknown: one of two cas at most",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "2 0 cas 2 3 unknown 2 1 0\n"
	 "3 0 cas 2 3 unknown 3 1 0\n"
	 "4 0 get 4 5 ok 2 0 0\n"
	 "4 0 get 6 7 ok 3 0 0\n", "abcde", 0},
	{"unknown: a cas on an unknown put",
	 "2 0 put 2 3 unknown 2 0 0\n"
	 "3 0 cas 2 3 unknown 3 2 0\n"
	 "4 0 get 4 5 ok 3 0 0\n", NULL, 0},
	{"unknown: the put is left for what an add cannot do",
	 "1 0 put 0 - unknown 1 0 0\n"
	 "2 0 add 0 - unknown 2 0 0\n"
	 "3 0 add 2 3 exists 3 0 0\n"
	 "3 0 put 4 5 ok 4 0 0\n"
	 "3 0 cas 6 7 changed 5 4 0\n", NULL, 0},
	{"an exists between a put and a delete, and one after them",
	 "1 0 put 0 9 ok 1 0 0\n"
	 "2 0 delete 1 8 ok 0 0 0\n"
	 "3 0 exists 2 3 ok 0 0 0\n"
	 "3 0 exists 4 5 notfound 0 0 0\n", NULL, 0},
	{"an exists that missed a value",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "1 0 exists 2 3 notfound 0 0 0\n", "ab", 0},
	{"an exists that saw what was not there",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "1 0 delete 2 3 ok 0 0 0\n"
	 "1 0 exists 4 5 ok 0 0 0\n", "abc", 0},
	{"unknown: an exists tells that it happened",
	 "1 0 put 0 - unknown 1 0 0\n"
	 "2 0 exists 2 3 notfound 0 0 0\n"
	 "2 0 exists 4 5 ok 0 0 0\n", NULL, 0},
	{"unknown: a delete that happened, and then had not",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "2 0 delete 0 - unknown 0 0 0\n"
	 "3 0 exists 4 5 notfound 0 0 0\n"
	 "3 0 exists 6 7 ok 0 0 0\n", "cd", 0},
	{"a value that expires in its time",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "9 0 expire 10 20 ok 0 1 0\n"
	 "9 0 gone 20 20 ok 0 1 0\n"
	 "2 0 get 8 9 ok 1 0 0\n"
	 "2 0 get 12 13 ok 1 0 0\n"
	 "2 0 get 14 15 notfound 0 0 0\n"
	 "2 0 add 16 17 ok 2 0 0\n"
	 "2 0 get 30 31 ok 2 0 0\n", NULL, 0},
	{"a value that was replaced before it expired",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "9 0 expire 10 20 ok 0 1 0\n"
	 "9 0 gone 20 20 ok 0 1 0\n"
	 "2 0 put 8 9 ok 2 0 0\n"
	 "2 0 get 30 31 ok 2 0 0\n", NULL, 0},
	{"a value that ends too early",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "9 0 expire 10 20 ok 0 1 0\n"
	 "9 0 gone 20 20 ok 0 1 0\n"
	 "2 0 get 8 9 notfound 0 0 0\n", "ad", 0},
	{"a value that is there after its time",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "9 0 expire 10 20 ok 0 1 0\n"
	 "9 0 gone 20 20 ok 0 1 0\n"
	 "2 0 get 21 22 ok 1 0 0\n", "abcd", 0},
	{"a value that expired and comes back",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "9 0 expire 10 20 ok 0 1 0\n"
	 "2 0 get 12 13 notfound 0 0 0\n"
	 "2 0 get 14 15 ok 1 0 0\n", "abcd", 0},
	{"a get that began in its time",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "9 0 expire 10 20 ok 0 1 0\n"
	 "9 0 gone 20 20 ok 0 1 0\n"
	 "2 0 get 19 30 ok 1 0 0\n", NULL, 0},
	{"unknown: a value that ended at some time, or did not",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "9 0 expire 10 - unknown 0 1 0\n"
	 "2 0 get 30 31 ok 1 0 0\n"
	 "2 0 get 40 41 notfound 0 0 0\n", NULL, 0},
	{"failed: it did not happen",
	 "1 0 put 0 1 failed 1 0 0\n"
	 "2 0 get 2 3 notfound 0 0 0\n", NULL, 0},
	{"failed: it happened",
	 "1 0 put 0 1 ok 1 0 0\n"
	 "1 0 put 2 3 failed 2 0 0\n"
	 "2 0 get 4 5 ok 2 0 0\n", "c", 0},
};

#define KNOWN (sizeof(known) / sizeof(known[0]))

static struct history parse(const char *text)
{
	struct history h = {0};
	FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text) + 1, "r");

	ck_assert_ptr_nonnull(f);
	if (*text)
		ck_assert_int_eq(history_read(&h, f, "text"), 0);
	fclose(f);
	return h;
}

/* The lines of `h` that make up `w`, as letters. */
static void letters(const struct history *h, const struct history *w, char *out)
{
	for (size_t i = 0; i < h->n; i++)
		for (size_t j = 0; j < w->n; j++)
			if (memcmp(&h->op[i], &w->op[j], sizeof(h->op[i])) == 0)
				*out++ = (char)('a' + i);
	*out = '\0';
}

START_TEST(known_histories_are_judged_as_known)
{
	const struct known *k = &known[_i];
	struct history h = parse(k->text);
	struct linear_report r;
	char got[64] = "";

	linear_check(&h, 0, &r);
	letters(&h, &r.witness, got);
	if (!k->witness) {
		ck_assert_msg(r.verdict == LINEAR_YES, "%s: refused for %s",
			      k->name, got);
	} else {
		ck_assert_msg(r.verdict == LINEAR_NO, "%s: accepted", k->name);
		ck_assert_msg(strcmp(got, k->witness) == 0,
			      "%s: the witness is %s, not %s", k->name, got,
			      k->witness);
		ck_assert_uint_eq(r.key, k->key);
	}
	history_free(&r.witness);
	history_free(&h);
}
END_TEST

/* Times, clients and the order of the lines do not matter by themselves. */
START_TEST(known_histories_reversed_are_judged_the_same)
{
	const struct known *k = &known[_i];
	struct history h = parse(k->text), back = {0};
	struct linear_report r;

	for (size_t i = h.n; i-- > 0;) {
		struct history_op op = h.op[i];

		op.invoked = op.invoked * 1000003 + (UINT64_C(1) << 60);
		if (op.responded != HISTORY_OPEN)
			op.responded = op.responded * 1000003 +
				       (UINT64_C(1) << 60);
		op.key += 1u << 31;
		history_add(&back, &op);
	}
	linear_check(&back, 0, &r);
	ck_assert_int_eq(r.verdict, k->witness ? LINEAR_NO : LINEAR_YES);
	ck_assert_uint_eq(r.witness.n, k->witness ? strlen(k->witness) : 0);
	history_free(&r.witness);
	history_free(&back);
	history_free(&h);
}
END_TEST

/* ---- when values end ------------------------------------------------------- */

static void put_dated(struct history *h, uint64_t value, uint64_t at, uint32_t clock,
		      uint32_t ttl_ms)
{
	struct history_op op = {.kind = HISTORY_PUT, .value = value, .invoked = at,
				.responded = at + 1, .ttl_ms = ttl_ms,
				.clock_before = clock, .clock_after = clock + 1};

	history_add(h, &op);
}

static void check_end(const struct history_op *op, unsigned kind, uint64_t value, uint64_t from,
		      uint64_t to)
{
	ck_assert_uint_eq(op->kind, kind);
	ck_assert_uint_eq(op->expected, value);
	ck_assert_uint_eq(op->invoked, from);
	ck_assert_uint_eq(op->responded, to);
	ck_assert_int_eq(op->result, to == HISTORY_OPEN ? HISTORY_UNKNOWN : HISTORY_OK);
}

/* CLOCK goes on with the other operations: at 100 it is 10, ..., at 900 90. */
static struct history course(void)
{
	struct history h = {0};

	for (unsigned i = 1; i < 10; i++)
		put_dated(&h, i, i * 100, i * 10, i == 2 ? 30 : i == 7 ? 50 : 0);
	return h;
}

START_TEST(values_end_when_CLOCK_reaches_their_time)
{
	struct history h = course();

	h.op[3].ttl_ms = 20;
	h.op[3].result = HISTORY_FAILED;
	history_expire(&h, 5, 0, 0);
	ck_assert_uint_eq(h.n, 9 + 3);
	/* 50 or 51: not before 401, by 600 in any case. */
	check_end(&h.op[9], HISTORY_EXPIRE, 2, 401, 600);
	check_end(&h.op[10], HISTORY_GONE, 2, 600, 600);
	/* After the last look at CLOCK. */
	check_end(&h.op[11], HISTORY_EXPIRE, 7, 901, HISTORY_OPEN);
	history_free(&h);
	h = course();
	history_expire(&h, 5, 15, 15);
	check_end(&h.op[9], HISTORY_EXPIRE, 2, 301, 700);
	history_free(&h);
}
END_TEST

/* A writer that did not return may publish its value at any time. */
START_TEST(value_of_unknown_outcome_may_end_or_not)
{
	struct history h = course();

	h.op[1].result = HISTORY_UNKNOWN;
	history_expire(&h, 5, 0, 0);
	ck_assert_uint_eq(h.n, 9 + 2);
	check_end(&h.op[9], HISTORY_EXPIRE, 2, 401, HISTORY_OPEN);
	history_free(&h);
}
END_TEST

/* It found the value alive, and the value ended before it wrote; a miss after it has no excuse. */
START_TEST(value_that_ends_within_a_replace_may_be_missed_meanwhile)
{
	static const uint8_t kinds[] = {HISTORY_REPLACE, HISTORY_CAS, HISTORY_DELETE};

	for (unsigned i = 0; i < 2 * ARRAY_SIZE(kinds); i++) {
		bool after = i % 2 && kinds[i / 2] != HISTORY_DELETE;
		struct history h = course();
		struct linear_report r;

		h.op[1].key = 7; /* its value 2 ends between 401 and 600 */
		history_add(&h, &(struct history_op){.client = 1, .key = 7, .kind = kinds[i / 2],
						     .invoked = 350, .responded = 580,
						     .expected = 2, .value = 100});
		history_add(&h, &(struct history_op){.client = 2, .key = 7, .kind = HISTORY_GET,
						     .result = HISTORY_NOTFOUND,
						     .invoked = after ? 581 : 560,
						     .responded = after ? 590 : 570});
		history_expire(&h, 5, 0, 0);
		linear_check(&h, 0, &r);
		ck_assert_int_eq(r.verdict, after ? LINEAR_NO : LINEAR_YES);
		history_free(&r.witness);
		history_free(&h);
	}
}
END_TEST

/* Key 7: the value 2, which ends between 401 and 600, is missed, deleted, and `op` follows. */
static enum linear_verdict after_late_delete(const struct history_op *op)
{
	struct history h = course();
	struct linear_report r;

	h.op[1].key = 7;
	history_add(&h, &(struct history_op){.client = 1, .key = 7, .kind = HISTORY_DELETE,
					     .invoked = 350, .responded = 580});
	history_add(&h, &(struct history_op){.client = 2, .key = 7, .kind = HISTORY_GET,
					     .result = HISTORY_NOTFOUND,
					     .invoked = 560, .responded = 570});
	history_add(&h, &(struct history_op){.client = 2, .key = 7, .kind = HISTORY_PUT,
					     .invoked = 610, .responded = 620, .value = 200});
	history_add(&h, op);
	history_expire(&h, 5, 0, 0);
	linear_check(&h, 0, &r);
	history_free(&r.witness);
	history_free(&h);
	return r.verdict;
}

START_TEST(late_delete_does_not_happen_after_its_response)
{
	struct history_op get = {.client = 2, .key = 7, .kind = HISTORY_GET, .value = 200,
				 .invoked = 630, .responded = 640};

	ck_assert_int_eq(after_late_delete(&get), LINEAR_YES);
	get.result = HISTORY_NOTFOUND;
	get.value = 0;
	ck_assert_int_eq(after_late_delete(&get), LINEAR_NO);
}
END_TEST

/* What history_expire() makes of a history can be written and read. */
START_TEST(history_with_expiries_survives_a_file)
{
	struct history h = course(), back = {0};
	FILE *f = tmpfile();

	ck_assert_ptr_nonnull(f);
	h.op[1].key = 7;
	for (uint8_t kind = HISTORY_REPLACE; kind <= HISTORY_DELETE; kind++)
		history_add(&h, &(struct history_op){
			.client = 1, .key = 7, .kind = kind, .invoked = 350, .responded = 580,
			.expected = kind == HISTORY_CAS ? 2 : 0,
			.value = kind == HISTORY_DELETE ? 0 : 100u + kind});
	history_add(&h, &(struct history_op){.client = 2, .key = 7, .kind = HISTORY_GET,
					     .result = HISTORY_NOTFOUND,
					     .invoked = 560, .responded = 570});
	history_expire(&h, 5, 0, 0);
	ck_assert_int_eq(history_write(&h, f), 0);
	rewind(f);
	ck_assert_int_eq(history_read(&back, f, "back"), 0);
	ck_assert_uint_eq(back.n, h.n);
	for (size_t i = 0; i < h.n; i++)
		ck_assert(back.op[i].kind == h.op[i].kind && back.op[i].result == h.op[i].result &&
			  back.op[i].value == h.op[i].value &&
			  back.op[i].expected == h.op[i].expected);
	fclose(f);
	history_free(&back);
	history_free(&h);
}
END_TEST

/* More at once than a word has bits. */
START_TEST(many_concurrent_writes_are_judged_in_time)
{
	struct history h = {0};
	struct linear_report r;
	struct history_op op = {.invoked = 1, .responded = 1000,
				.key = 3};

	for (uint32_t i = 0; i < 200; i++) {
		op.kind = i % 3 ? HISTORY_GET : HISTORY_PUT;
		op.client = i;
		op.value = history_id(i % 3 ? 0 : i, 1);
		history_add(&h, &op);
	}
	linear_check(&h, 0, &r);
	ck_assert_int_eq(r.verdict, LINEAR_YES);
	h.op[151].value = 99;
	linear_check(&h, 0, &r);
	ck_assert_int_eq(r.verdict, LINEAR_NO);
	ck_assert_uint_eq(r.witness.n, 1);
	history_free(&r.witness);
	history_free(&h);
}
END_TEST

/* All at once, and each value is read: not every order of the puts is tried. */
START_TEST(many_concurrent_reads_are_judged_in_time)
{
	struct history h = {0};
	struct linear_report r;

	for (uint32_t i = 1; i <= 40; i++) {
		struct history_op op = {.client = i, .invoked = 10,
					.responded = 1000 + i, .value = i,
					.kind = HISTORY_PUT};

		history_add(&h, &op);
		op.kind = HISTORY_GET;
		op.invoked++;
		op.responded += 1000;
		history_add(&h, &op);
	}
	linear_check(&h, 100000, &r);
	ck_assert_int_eq(r.verdict, LINEAR_YES);
	/* The first value again, after all puts and another read of it. */
	h.op[3].invoked = h.op[3].responded = 1500;
	h.op[1].invoked = h.op[1].responded = 1501;
	linear_check(&h, 1000000, &r);
	ck_assert_int_eq(r.verdict, LINEAR_NO);
	ck_assert_uint_eq(r.witness.n, 4);
	history_free(&r.witness);
	history_free(&h);
}
END_TEST

/* With a lower limit there is no verdict, but LINEAR_GAVE_UP. */
START_TEST(history_beyond_the_limit_is_undecided)
{
	struct history h = {0};
	struct linear_report r;
	char text[256] = "";
	FILE *f = fmemopen(text, sizeof(text), "w");

	for (uint32_t i = 0; i < 40; i++) {
		struct history_op op = {.client = i, .invoked = 1,
					.responded = 100 + i, .key = 5,
					.kind = HISTORY_REPLACE,
					.value = i + 1};

		op.kind = i ? HISTORY_REPLACE : HISTORY_PUT;
		op.kind = i % 2 ? HISTORY_DELETE : op.kind;
		op.value = op.kind == HISTORY_DELETE ? 0 : i + 1;
		op.kind = i % 4 == 2 ? HISTORY_ADD : op.kind;
		history_add(&h, &op);
	}
	linear_check(&h, 50, &r);
	ck_assert_int_eq(r.verdict, LINEAR_GAVE_UP);
	ck_assert_uint_eq(r.key, 5);
	ck_assert_uint_eq(r.witness.n, 0);
	linear_print(&r, f);
	fclose(f);
	ck_assert_ptr_nonnull(strstr(text, "undecided: key 5"));
	history_free(&h);
}
END_TEST

/* ---- in words -------------------------------------------------------------- */

START_TEST(violation_is_printed)
{
	struct history h = parse("1 7 put 0 1000 ok 1099511627777 0 0\n"
				 "1 7 put 4000 5500 ok 2 0 0\n"
				 "3 7 get 5000 7000 ok 2 0 0\n"
				 "2 7 get 8000 9000 ok 1099511627777 0 0\n");
	static const char *const says[] = {
		"not linearizable: key 7, by 3 of its operations:\n",
		"put 0.1: done\n", "put 2: done\n", "get: found 0.1  <--\n",
		("No order gives client 2's \"get: found 0.1\". "
		 "It could have said \"found 2\".\n"),
		"         0.000          1.000  |---|",
		"         4.000          5.500          |---|"};
	struct linear_report r;
	char text[4096] = "";
	FILE *f = fmemopen(text, sizeof(text), "w");

	linear_check(&h, 0, &r);
	linear_print(&r, f);
	fclose(f);
	for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++)
		ck_assert_msg(strstr(text, says[i]) != NULL,
			      "'%s' is not in:\n%s", says[i], text);
	history_free(&r.witness);
	history_free(&h);
}
END_TEST

START_TEST(history_is_written_and_read_back)
{
	struct history h = parse("# a comment\n\n"
				 "4294967295 4294967295 cas 3 9 changed "
				 "18446744073709551614 4 18446744073709551615\n"
				 " 1\t2  delete 5 - unknown 0 0 0\r\n");
	struct history again = {0};
	char text[4096] = "";
	FILE *f = fmemopen(text, sizeof(text), "w+");

	ck_assert_uint_eq(h.n, 2);
	ck_assert_uint_eq(h.op[0].client, UINT32_MAX);
	ck_assert_uint_eq(h.op[0].version, UINT64_MAX);
	ck_assert_uint_eq(h.op[1].kind, HISTORY_DELETE);
	ck_assert_uint_eq(h.op[1].responded, HISTORY_OPEN);
	ck_assert_int_eq(history_write(&h, f), 0);
	rewind(f);
	ck_assert_int_eq(history_read(&again, f, "again"), 0);
	ck_assert_uint_eq(again.n, 2);
	ck_assert_int_eq(memcmp(again.op, h.op, 2 * sizeof(h.op[0])), 0);
	history_join(&again, &h);
	ck_assert_uint_eq(again.n, 4);
	fclose(f);
	history_free(&h);
	history_free(&again);
	ck_assert_uint_ne(history_id(0, 0), HISTORY_ABSENT);
	ck_assert_uint_ne(history_id(1, 0), history_id(0, 1));
}
END_TEST

static const char *const nonsense[] = {
	"1 2 get 3 4 ok 5 0", "1 2 get 3 4 ok 5 0 0 0",
	"1 2 fetch 3 4 ok 5 0 0", "1 2 get 3 4 fine 5 0 0",
	"-1 2 get 3 4 ok 5 0 0", "1 4294967296 get 3 4 ok 5 0 0",
	"1 2 get 3x 4 ok 5 0 0", "1 2 get 5 4 ok 5 0 0",
	"1 2 get 3 - ok 5 0 0", "1 2 get 3 4 ok 0 0 0",
	"1 2 get 3 4 notfound 5 0 0", "1 2 put 3 4 ok 0 0 0",
	"1 2 put 3 4 notfound 5 0 0", "1 2 add 3 4 changed 5 0 0",
	"1 2 put 3 4 ok 5 6 0", "1 2 delete 3 4 ok 5 0 0",
	"1 2 cas 3 4 ok 5 0 0", "1 2 cas 3 4 exists 5 6 0",
	"1 2 get 3 99999999999999999999 ok 5 0 0", "x",
};

/* One line that names the place; nothing is taken over. */
START_TEST(malformed_history_is_refused)
{
	char text[256], said[512] = "";
	FILE *f, *err = tmpfile();
	struct history h = {0};
	int saved = dup(STDERR_FILENO);

	snprintf(text, sizeof(text), "1 2 get 3 4 ok 5 0 0\n\n%s\n",
		 nonsense[_i]);
	f = fmemopen(text, strlen(text), "r");
	ck_assert(f && err && saved >= 0);
	dup2(fileno(err), STDERR_FILENO);
	ck_assert_int_eq(history_read(&h, f, "file.txt"), -1);
	dup2(saved, STDERR_FILENO);
	ck_assert_uint_eq(h.n, 0);
	rewind(err);
	ck_assert_uint_lt(fread(said, 1, sizeof(said), err), sizeof(said));
	ck_assert_msg(strncmp(said, "file.txt:3: ", 12) == 0, "said '%s'",
		      said);
	ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1);
	fclose(f);
	fclose(err);
	close(saved);
	history_free(&h);
}
END_TEST

/* ---- versions -------------------------------------------------------------- */

START_TEST(versions_that_do_not_fit_values_are_reported)
{
	struct history h = parse("1 0 get 0 1 ok 5 0 100\n"
				 "1 1 get 0 1 ok 5 0 200\n"
				 "1 0 cas 2 3 ok 6 5 101\n"
				 "2 0 get 4 5 ok 6 0 101\n"
				 "2 1 get 4 5 ok 6 0 100\n"
				 "2 0 get 4 5 ok 6 0 0\n"
				 "2 0 get 4 5 failed 0 0 7\n");
	struct history_op op = {.key = 0, .kind = HISTORY_GET, .value = 7,
				.version = 100};
	char text[512] = "";
	FILE *f = fmemopen(text, sizeof(text), "w");

	ck_assert_int_eq(history_versions(&h, f), 0);
	history_add(&h, &op);
	ck_assert_int_eq(history_versions(&h, f), -1);
	h.op[h.n - 1].value = 5;
	h.op[h.n - 1].version = 102;
	ck_assert_int_eq(history_versions(&h, f), -1);
	fclose(f);
	ck_assert_ptr_nonnull(strstr(text, "key 0: one version, two values"));
	ck_assert_ptr_nonnull(strstr(text, "key 0: one value, two versions"));
	for (uint32_t i = 0; i < 5000; i++) {
		op = (struct history_op){.key = 2 + i, .value = 8 + i,
					 .version = 9};
		history_add(&h, &op);
	}
	h.op[7].value = 7;
	h.op[7].version = 102;
	ck_assert_int_eq(history_versions(&h, stderr), 0);
	history_free(&h);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("linear");
	TCase *t = tcase_create("linear");

	tcase_add_loop_test(t, known_histories_are_judged_as_known, 0, KNOWN);
	tcase_add_loop_test(t, known_histories_reversed_are_judged_the_same, 0, KNOWN);
	tcase_add_test(t, values_end_when_CLOCK_reaches_their_time);
	tcase_add_test(t, value_of_unknown_outcome_may_end_or_not);
	tcase_add_test(t, value_that_ends_within_a_replace_may_be_missed_meanwhile);
	tcase_add_test(t, late_delete_does_not_happen_after_its_response);
	tcase_add_test(t, history_with_expiries_survives_a_file);
	tcase_add_test(t, many_concurrent_writes_are_judged_in_time);
	tcase_add_test(t, many_concurrent_reads_are_judged_in_time);
	tcase_add_test(t, history_beyond_the_limit_is_undecided);
	tcase_add_test(t, violation_is_printed);
	tcase_add_test(t, history_is_written_and_read_back);
	tcase_add_loop_test(t, malformed_history_is_refused, 0,
			    sizeof(nonsense) / sizeof(nonsense[0]));
	tcase_add_test(t, versions_that_do_not_fit_values_are_reported);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
