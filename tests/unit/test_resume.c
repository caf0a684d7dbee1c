/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operation whose lane breaks at each of its requests, before or after the request
 * happened; then perhaps a rival acts; then it continues on a new connection. Every
 * outcome must match some order of the two, and without a rival it must be certain.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/region/hash.h"
#include "tests/rig/cases.h"
#include "tests/rig/fake_client.h"

#define GRACE (100 * NS_PER_MS)
#define STEPS 12u
#define SMALL "v"
#define MINE "mine"
#define THEIRS "theirs"

/* A large value: DELETE trades its block for a small one. */
static char large[1000];

static struct fake_region region;
static struct index_key key;
static uint64_t first_version;

/* The key's state, by the text of its value; NULL: absent. */
typedef const char *state;

enum before { NOTHING, VALUE, LARGE, DELETED, N_BEFORE };
static const enum index_kind kinds[] = {INDEX_GET, INDEX_PUT, INDEX_ADD,
					INDEX_REPLACE, INDEX_CAS, INDEX_DELETE,
					INDEX_EXISTS, INDEX_DELETE_CAS};
enum rival { R_NONE, R_PUT, R_ADD, R_REPLACE, R_DELETE, R_DELETE_CAS, R_DELETE_PUT, N_RIVAL };

struct scenario {
	enum index_kind kind;
	enum before before;
	enum rival rival;
	unsigned step;
	bool happened; /* the request at `step` */
	bool tears;    /* a lane without READ8_ATOMIC */
};

/* ---- clients ------------------------------------------------------------------ */

static void client_open(struct fake_client *c,
			const struct xport_fault_config *cfg, uint32_t prefix)
{
	fake_client_open(c, &region, cfg, prefix);
	for (unsigned cls = 0; cls < 20; cls++)
		fake_region_grant(&region, c->alloc, (uint8_t)cls, 2);
}

static int drive(struct fake_client *c, struct index_op *op)
{
	index_run(c->ix, &op, 1, 0, clock_now_ns() + NS_PER_SEC);
	ck_assert_int_ne(op->result, INDEX_PENDING);
	return op->result;
}

static int run(struct fake_client *c, enum index_kind kind, const char *value,
	       uint64_t expected)
{
	index_op_start(&c->op, kind, &key, value,
		       value ? (uint32_t)strlen(value) : 0);
	c->op.expected = expected;
	return drive(c, &c->op);
}

static uint64_t version_of(struct fake_client *c)
{
	return run(c, INDEX_GET, NULL, 0) == 0 ? c->op.version : 0;
}

static void prepare(struct fake_client *c, enum before b)
{
	first_version = 1;
	if (b != NOTHING)
		ck_assert_int_eq(run(c, INDEX_PUT, b == LARGE ? large : SMALL,
				     0), 0);
	first_version = b == NOTHING ? 1 : version_of(c);
	if (b == DELETED)
		ck_assert_int_eq(run(c, INDEX_DELETE, NULL, 0), 0);
}

/* ---- semantics of the operations --------------------------------------------------- */

static state state_before(enum before b)
{
	return b == VALUE ? SMALL : b == LARGE ? large : NULL;
}

/* Mine, in one step; *first: the value is still the previous one. */
static int mine(enum index_kind kind, state *s, bool first)
{
	switch (kind) {
	case INDEX_GET:
	case INDEX_EXISTS:
		return *s ? 0 : FARKV_ENOTFOUND;
	case INDEX_ADD:
		if (*s)
			return FARKV_EEXISTS;
		break;
	case INDEX_REPLACE:
		if (!*s)
			return FARKV_ENOTFOUND;
		break;
	case INDEX_CAS:
		if (!*s)
			return FARKV_ENOTFOUND;
		if (!first)
			return FARKV_EVERSION;
		break;
	case INDEX_DELETE_CAS:
	case INDEX_DELETE:
		if (!*s)
			return FARKV_ENOTFOUND;
		if (kind == INDEX_DELETE_CAS && !first)
			return FARKV_EVERSION;
		*s = NULL;
		return 0;
	default:
		break;
	}
	*s = MINE;
	return 0;
}

/* The rival's; true if it wrote. */
static bool theirs(enum rival r, state *s)
{
	switch (r) {
	case R_ADD:
		if (*s)
			return false;
		break;
	case R_REPLACE:
		if (!*s)
			return false;
		break;
	case R_DELETE:
	case R_DELETE_CAS:
		if (!*s)
			return false;
		*s = NULL;
		return true;
	case R_NONE:
		return false;
	default:
		break;
	}
	*s = THEIRS;
	return true;
}

/* True if it wrote. */
static bool rival_acts(struct fake_client *c, enum rival r)
{
	switch (r) {
	case R_PUT:
		return run(c, INDEX_PUT, THEIRS, 0) == 0;
	case R_ADD:
		return run(c, INDEX_ADD, THEIRS, 0) == 0;
	case R_REPLACE:
		return run(c, INDEX_REPLACE, THEIRS, 0) == 0;
	case R_DELETE:
		return run(c, INDEX_DELETE, NULL, 0) == 0;
	case R_DELETE_CAS:
		return run(c, INDEX_DELETE_CAS, NULL, version_of(c)) == 0;
	case R_DELETE_PUT:
		(void)run(c, INDEX_DELETE, NULL, 0);
		return run(c, INDEX_PUT, THEIRS, 0) == 0;
	default:
		return false;
	}
}

static bool same(state a, state b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Whether both results and the final state match one of the orders. */
static bool explained(const struct scenario *sc, int result, bool wrote,
		      state final)
{
	state a = state_before(sc->before), b = a, alone = a;
	bool wa, wb, walone;
	int ra, rb;

	ra = mine(sc->kind, &a, true); /* mine, then theirs */
	wa = theirs(sc->rival, &a);
	wb = theirs(sc->rival, &b); /* theirs, then mine */
	rb = mine(sc->kind, &b, !wb);
	walone = theirs(sc->rival, &alone);
	if (result == FARKV_EMAYBE)
		return (wrote == wa && same(final, a)) ||
		       (wrote == wb && same(final, b)) ||
		       (wrote == walone && same(final, alone));
	return (result == ra && wrote == wa && same(final, a)) ||
	       (result == rb && wrote == wb && same(final, b));
}

/* ---- one scenario ---------------------------------------------------------------------- */

static unsigned seen_lost, seen_found, seen_repeated, seen_maybe;

static state final_state(struct fake_client *c)
{
	static char text[sizeof(large)];

	if (run(c, INDEX_GET, NULL, 0) == FARKV_ENOTFOUND)
		return NULL;
	ck_assert_int_eq(c->op.result, 0);
	memcpy(text, c->op.view.value, c->op.view.value_len);
	text[c->op.view.value_len] = '\0';
	return text;
}

static void describe(const struct scenario *sc, char *buf, size_t cap)
{
	snprintf(buf, cap, "kind %d before %d rival %d step %u %s%s", sc->kind,
		 sc->before, sc->rival, sc->step,
		 sc->happened ? "happened" : "did not happen",
		 sc->tears ? ", tears" : "");
}

/* A new connection: lane, blocks and versions are new, the operation continues. */
static int resume(struct fake_client *again, struct index_op *op, bool tears)
{
	struct xport_fault_config calm = {.hide_direct = true, .byte_tear = true};

	client_open(again, tears ? &calm : NULL, 3);
	again->op = *op;
	index_op_init(op);
	index_op_resume(&again->op);
	return drive(again, &again->op);
}

/* False if the operation has no such step. */
static bool play(const struct scenario *sc)
{
	struct xport_fault_config cfg = {.hide_direct = true,
					 .byte_tear = sc->tears,
					 .lose_completion = sc->happened};
	struct fake_client me, again, other;
	bool in_place, unresolved, wrote;
	int result, broken;
	char what[120];
	state final;

	fake_region_init(&region, 1, 64, GRACE);
	client_open(&other, NULL, 2);
	prepare(&other, sc->before);
	/* Opening takes three requests: D, the entries, D. */
	cfg.break_at = 3 + sc->step;
	client_open(&me, &cfg, 1);
	broken = run(&me, sc->kind,
		     kind_stores(sc->kind) ? MINE : NULL,
		     first_version);
	if (!xport_broken(me.lane)) {
		fake_client_close(&me);
		fake_client_close(&other);
		fake_region_fini(&region);
		return false;
	}
	describe(sc, what, sizeof(what));
	unresolved = me.op.doubt == DOUBT_OPEN;
	ck_assert_msg(broken == FARKV_EDISCONNECTED ||
			      (broken == FARKV_EMAYBE && unresolved),
		      "%s: %d", what, broken);
	in_place = kind_deletes(sc->kind) && unresolved &&
		   slot_off(me.op.lost.swap.desired) == slot_off(me.op.lost.swap.expect);
	wrote = rival_acts(&other, sc->rival);

	index_op_fini(me.ix, &me.op);
	result = resume(&again, &me.op, sc->tears);
	final = final_state(&other);

	ck_assert_msg(explained(sc, result, wrote, final), "%s: %d, %s", what, result,
		      final ? final : "absent");
	if (sc->rival == R_NONE && !(in_place && sc->happened))
		ck_assert_msg(result != FARKV_EMAYBE, "%s: not certain", what);
	seen_lost += unresolved;
	seen_maybe += result == FARKV_EMAYBE;
	seen_found += unresolved && result == 0 && sc->happened;
	seen_repeated += unresolved && result == 0 && !sc->happened;
	fake_client_close(&me);
	fake_client_close(&again);
	fake_client_close(&other);
	fake_region_fini(&region);
	return true;
}

static void play_steps(struct scenario *sc)
{
	for (sc->step = 1;; sc->step++) {
		bool any;

		ck_assert_uint_lt(sc->step, STEPS);
		sc->happened = false;
		any = play(sc);
		sc->happened = true;
		any |= play(sc);
		if (!any)
			break;
	}
	ck_assert_uint_gt(sc->step, 1);
}

static void setup(void)
{
	memset(large, 'L', sizeof(large) - 1);
	key = (struct index_key){
		.data = "key", .len = 3, .hash = hash_key(42, "key", 3)};
}

TEST_GROUP(.setup = setup);

TEST_EACH(operation_whose_lane_breaks_at_any_request_is_resumed, kinds)
{
	struct scenario sc = {.kind = kinds[_i]};

	seen_lost = seen_found = seen_repeated = seen_maybe = 0;
	for (unsigned tears = 0; tears < 2; tears++)
		for (unsigned b = 0; b < N_BEFORE; b++)
			for (unsigned r = 0; r < N_RIVAL; r++) {
				sc.tears = tears != 0;
				sc.before = (enum before)b;
				sc.rival = (enum rival)r;
				play_steps(&sc);
			}
	if (kind_reads(sc.kind))
		return;
	ck_assert_uint_gt(seen_lost, 0);
	ck_assert_uint_gt(seen_found, 0);
	ck_assert_uint_gt(seen_repeated, 0);
	ck_assert_uint_gt(seen_maybe, 0);
}

/* The new connection breaks as well, at each step of the recovery. */
TEST(operation_whose_second_lane_breaks_is_resumed)
{
	for (unsigned step = 1; step <= 3; step++) {
		struct xport_fault_config cfg = {.hide_direct = true,
						 .break_at = 3 + 4,
						 .lose_completion = true};
		struct fake_client me, second, third, other;

		fake_region_init(&region, 1, 64, GRACE);
		client_open(&other, NULL, 2);
		prepare(&other, VALUE);
		client_open(&me, &cfg, 1);
		ck_assert_int_eq(run(&me, INDEX_REPLACE, MINE, 0),
				 FARKV_EMAYBE);
		ck_assert(me.op.doubt == DOUBT_OPEN);
		index_op_fini(me.ix, &me.op);

		cfg.break_at = 3 + step;
		cfg.lose_completion = false;
		client_open(&second, &cfg, 3);
		second.op = me.op;
		index_op_init(&me.op);
		index_op_resume(&second.op);
		if (drive(&second, &second.op) != 0) {
			ck_assert_int_eq(second.op.result, FARKV_EMAYBE);
			ck_assert(second.op.doubt == DOUBT_OPEN);
			index_op_fini(second.ix, &second.op);
			client_open(&third, NULL, 4);
			third.op = second.op;
			index_op_init(&second.op);
			index_op_resume(&third.op);
			ck_assert_int_eq(drive(&third, &third.op), 0);
			fake_client_close(&third);
		} else {
			ck_assert_uint_eq(step, 3);
		}
		ck_assert_str_eq(final_state(&other), MINE);
		fake_client_close(&second);
		fake_client_close(&me);
		fake_client_close(&other);
		fake_region_fini(&region);
	}
}

TEST_SUITE("resume")
