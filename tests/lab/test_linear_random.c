/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker against histories that a register made, and against all orders.
 * FARKV_TEST_SEED repeats a run, FARKV_TEST_RUNS makes it longer.
 */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include <check.h>

#include "linear.h"
#include "register.h"
#include "tests/rig/test_main.h"

static uint64_t seed;
static uint64_t runs;

static uint64_t from_env(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

static void fail_with(const struct history *h, const char *what, uint64_t at)
{
	struct linear_report report;

	linear_check(h, 0, &report);
	linear_print(&report, stderr);
	(void)history_write(h, stderr);
	ck_abort_msg("%s, seed %" PRIu64 " run %" PRIu64, what, seed, at);
}

static bool accepts(const struct history *h)
{
	struct linear_report report;

	linear_check(h, 0, &report);
	ck_assert_int_ne(report.verdict, LINEAR_GAVE_UP);
	history_free(&report.witness);
	return report.verdict == LINEAR_YES;
}

/* ---- what a register made is accepted -------------------------------------- */

static void accept_all(uint64_t n, struct register_plan plan)
{
	for (uint64_t i = 0; i < n; i++) {
		struct history h = {0};

		plan.seed = seed + i;
		register_history(&plan, &h);
		if (!accepts(&h))
			fail_with(&h, "a register's history is refused", i);
		history_free(&h);
	}
}

START_TEST(history_of_a_register_is_linearizable)
{
	accept_all(runs, (struct register_plan){
		.clients = 4, .keys = 3, .ops = 60, .longest = 4000});
	accept_all(runs / 2, (struct register_plan){
		.clients = 8, .keys = 2, .ops = 100, .longest = 20000,
		.failed_permille = 50});
}
END_TEST

START_TEST(history_with_unknown_results_is_linearizable)
{
	accept_all(runs, (struct register_plan){
		.clients = 4, .keys = 2, .ops = 60, .longest = 4000,
		.unknown_permille = 60, .failed_permille = 30});
	accept_all(runs / 4, (struct register_plan){
		.clients = 10, .keys = 1, .ops = 150, .longest = 30000,
		.unknown_permille = 250, .failed_permille = 30});
}
END_TEST

/* One write in ten of a hot key has no known outcome, hundreds in all. */
START_TEST(history_with_many_unknown_results_is_linearizable)
{
	accept_all(1 + runs / 500, (struct register_plan){
		.clients = 6, .keys = 1, .ops = 6000, .longest = 3000,
		.unknown_permille = 150});
}
END_TEST

/* ---- against all orders ---------------------------------------------------- */

/* Anything at all, over few values and short times. */
static void scribble(struct history *h, uint64_t *x)
{
	size_t n = 1 + register_random(x) % 7;
	bool unknown = register_random(x) % 2;
	bool plain = register_random(x) % 2; /* reads and a few long puts */

	for (size_t i = 0; i < n; i++) {
		uint64_t r = register_random(x);
		struct history_op op = {.kind = (r >> 56) % (HISTORY_GONE + 1),
					.client = (uint32_t)i,
					.invoked = (r >> 8) % 16};
		uint8_t may[4] = {HISTORY_OK, HISTORY_OK, HISTORY_NOTFOUND,
				  HISTORY_OK};

		if (plain)
			op.kind = i > 1 ? HISTORY_GET : HISTORY_PUT;
		op.responded = op.invoked + (r >> 16) % 8;
		if (plain && op.kind == HISTORY_PUT)
			op.responded += 8;
		if (op.kind == HISTORY_ADD)
			may[2] = HISTORY_EXISTS;
		if (op.kind == HISTORY_CAS)
			may[3] = HISTORY_CHANGED;
		if (op.kind == HISTORY_PUT || op.kind == HISTORY_LATE)
			may[2] = HISTORY_OK;
		op.result = may[(r >> 24) % 4];
		if (unknown && (r >> 32) % 3 == 0)
			op.result = HISTORY_UNKNOWN;
		if (op.kind == HISTORY_GET)
			op.value = op.result == HISTORY_OK
					   ? 1 + (r >> 40) % (plain ? 2 : n)
					   : 0;
		else if (history_kind_writes(op.kind))
			op.value = i + 1;
		if (op.kind == HISTORY_CAS || op.kind >= HISTORY_EXPIRE)
			op.expected = 1 + (r >> 48) % n;
		if (op.kind >= HISTORY_EXPIRE)
			op.result = HISTORY_OK;
		history_add(h, &op);
	}
}

static void corrupt(struct history *h, uint64_t *x)
{
	uint64_t r = register_random(x);
	struct history_op *op = &h->op[(r >> 32) % h->n];
	const struct history_op *other = &h->op[(r >> 16) % h->n];

	switch (r % 4) {
	case 0:
		if (op->kind == HISTORY_GET && op->result == HISTORY_OK &&
		    other->value)
			op->value = other->value;
		break;
	case 1:
		if (op->kind == HISTORY_CAS && other->value)
			op->expected = other->value;
		break;
	case 2:
		op->invoked += 2000;
		if (op->responded < op->invoked)
			op->responded = op->invoked;
		break;
	default:
		if (op->result == HISTORY_NOTFOUND && op->kind != HISTORY_GET)
			op->result = HISTORY_OK;
		else if (op->result == HISTORY_OK &&
			 (op->kind == HISTORY_DELETE || op->kind == HISTORY_ASK))
			op->result = HISTORY_NOTFOUND;
		else if (op->kind == HISTORY_ADD)
			op->result = HISTORY_EXISTS;
	}
}

static bool judge_alike(const struct history *h, uint64_t run)
{
	struct linear_report report;
	bool yes = register_explains(h);

	linear_check(h, 0, &report);
	if (report.verdict != (yes ? LINEAR_YES : LINEAR_NO))
		fail_with(h, yes ? "there is an order, and it is not found"
				 : "there is no order, and one is found", run);
	if (!yes && (!report.witness.n || register_explains(&report.witness)))
		fail_with(h, "the witness proves nothing", run);
	history_free(&report.witness);
	return yes;
}

START_TEST(scribbled_history_agrees_with_brute_force)
{
	uint64_t x = seed, yes = 0, n = runs * 20;

	for (uint64_t i = 0; i < n; i++) {
		struct history h = {0};

		scribble(&h, &x);
		yes += judge_alike(&h, i);
		history_free(&h);
	}
	ck_assert_uint_gt(yes, n / 50);
	ck_assert_uint_gt(n - yes, n / 50);
}
END_TEST

START_TEST(corrupted_history_agrees_with_brute_force)
{
	struct register_plan plan = {.clients = 5, .keys = 1, .ops = 16,
				     .longest = 6000, .unknown_permille = 150,
				     .failed_permille = 50};
	uint64_t x = seed, yes = 0, n = runs * 10;

	for (uint64_t i = 0; i < n; i++) {
		struct history h = {0};

		plan.seed = seed + i;
		register_history(&plan, &h);
		h.n = h.n > 7 ? 7 : h.n;
		ck_assert(judge_alike(&h, i));
		for (unsigned k = 0; k < 1 + i % 2; k++)
			corrupt(&h, &x);
		yes += judge_alike(&h, i);
		history_free(&h);
	}
	ck_assert_uint_gt(yes, n / 50);
	ck_assert_uint_gt(n - yes, n / 50);
}
END_TEST

/* A stale read deep in a long history comes out as a few operations. */
START_TEST(witness_of_a_violation_is_small)
{
	struct register_plan plan = {.clients = 6, .keys = 4, .ops = 20000,
				     .longest = 3000, .unknown_permille = 2};
	struct linear_report report;
	struct history h = {0};
	uint64_t old = 0;

	/* With some seeds a fourth operation, one that is unknown, belongs to it. */
	plan.seed = (uint64_t)_i;
	register_history(&plan, &h);
	for (size_t i = 0; i < h.n; i++) {
		struct history_op *op = &h.op[i];

		if (op->key != 2 || op->result != HISTORY_OK)
			continue;
		if (!old && op->kind == HISTORY_PUT && i > h.n / 4)
			old = op->value;
		if (old && op->kind == HISTORY_GET && i > h.n / 2) {
			op->value = old;
			break;
		}
	}
	linear_check(&h, 0, &report);
	ck_assert_int_eq(report.verdict, LINEAR_NO);
	ck_assert_uint_eq(report.key, 2);
	ck_assert_uint_le(report.witness.n, 3);
	history_free(&report.witness);
	history_free(&h);
}
END_TEST

/* ---- nothing can be left out of a witness ---------------------------------- */

static bool is_write(const struct history_op *op)
{
	return op->kind != HISTORY_GET && op->kind != HISTORY_ASK && op->kind != HISTORY_GONE &&
	       (op->result == HISTORY_OK || op->result == HISTORY_UNKNOWN);
}

static bool looks_for(const struct history_op *op, uint64_t value)
{
	if (op->result == HISTORY_FAILED)
		return false;
	if (op->kind == HISTORY_GET)
		return op->result == HISTORY_OK && op->value == value;
	return (op->kind == HISTORY_CAS || op->kind >= HISTORY_EXPIRE) &&
	       op->result != HISTORY_NOTFOUND && op->expected == value;
}

static bool explains_set(const struct history *h, unsigned set)
{
	struct history part = {0};
	bool yes;

	for (size_t i = 0; i < h->n; i++)
		if (set >> i & 1)
			history_add(&part, &h->op[i]);
	yes = register_explains(&part);
	history_free(&part);
	return yes;
}

/* The knowledge at that time: an operation without response may have happened or not. */
static struct history known_at(const struct history *h, uint64_t time)
{
	struct history out = {0};

	for (size_t i = 0; i < h->n; i++) {
		struct history_op op = h->op[i];

		if (op.invoked > time || op.result == HISTORY_FAILED)
			continue;
		if (op.responded > time) {
			if (!is_write(&op))
				continue;
			op.result = HISTORY_UNKNOWN;
		}
		history_add(&out, &op);
	}
	return out;
}

/* The writers of values looked for are there, and no other write makes it possible. */
static bool is_proof(const struct history *h, unsigned set)
{
	unsigned others = 0, some;

	for (size_t i = 0; i < h->n; i++) {
		if ((set >> i & 1) || !is_write(&h->op[i]))
			continue;
		others |= 1u << i;
		for (size_t j = 0; j < h->n; j++)
			if ((set >> j & 1) && h->op[i].value &&
			    looks_for(&h->op[j], h->op[i].value))
				return false;
	}
	for (some = others;; some = (some - 1) & others) {
		if (explains_set(h, set | some))
			return false;
		if (!some)
			return true;
	}
}

/* A proof for one reason: without the one that came too late, all is well. */
static bool is_witness(const struct history *h, unsigned set, uint64_t time)
{
	for (size_t i = 0; i < h->n; i++)
		if ((set >> i & 1) && h->op[i].responded == time &&
		    h->op[i].result != HISTORY_UNKNOWN &&
		    explains_set(h, set & ~(1u << i)))
			return is_proof(h, set);
	return false;
}

/* The first moment at which no order explains what is known. */
static uint64_t too_late(const struct history *h)
{
	for (uint64_t t = 0;; t++) {
		struct history known = known_at(h, t);
		bool yes = register_explains(&known);

		history_free(&known);
		if (!yes)
			return t;
	}
}

static unsigned find_set(const struct history *known, const struct history *w)
{
	unsigned set = 0;

	for (size_t i = 0; i < known->n; i++)
		for (size_t j = 0; j < w->n; j++)
			if (known->op[i].client == w->op[j].client)
				set |= 1u << i;
	return set;
}

START_TEST(witness_of_a_violation_is_minimal)
{
	uint64_t x = seed, no = 0;

	for (uint64_t i = 0; i < runs * 5; i++) {
		struct linear_report report;
		struct history h = {0}, known;
		uint64_t time;
		unsigned set;

		scribble(&h, &x);
		linear_check(&h, 0, &report);
		if (report.verdict == LINEAR_NO) {
			no++;
			time = too_late(&h);
			known = known_at(&h, time);
			set = find_set(&known, &report.witness);
			if (!is_proof(&known, set))
				fail_with(&h, "that proves nothing", i);
			for (unsigned k = 0; k < known.n; k++)
				if ((set >> k & 1) &&
				    is_witness(&known, set & ~(1u << k), time))
					fail_with(&h, "one is too many", i);
			history_free(&known);
		}
		history_free(&report.witness);
		history_free(&h);
	}
	ck_assert_uint_gt(no, runs);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("linear_random");
	TCase *t = tcase_create("linear_random");

	seed = from_env("FARKV_TEST_SEED", (uint64_t)time(NULL) * 1000);
	runs = from_env("FARKV_TEST_RUNS", 200);
	tcase_set_timeout(t, 60 + (double)runs / 50);
	tcase_add_test(t, history_of_a_register_is_linearizable);
	tcase_add_test(t, history_with_unknown_results_is_linearizable);
	tcase_add_test(t, history_with_many_unknown_results_is_linearizable);
	tcase_add_test(t, scribbled_history_agrees_with_brute_force);
	tcase_add_test(t, corrupted_history_agrees_with_brute_force);
	tcase_add_loop_test(t, witness_of_a_violation_is_small, 1, 6);
	tcase_add_test(t, witness_of_a_violation_is_minimal);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
