/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations whose lane breaks or stops answering. */
#include "config.h"

#include <string.h>

#include "tests/rig/cases.h"
#include "tests/rig/index_rig.h"

/* A card that stops answering after some posts; it may still execute requests. */
static struct mute {
	struct xport_lane lane; /* first */
	struct xport_lane *inner;
	unsigned answers; /* posts that it still answers */
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

static void client_open_mute(struct fake_client *c)
{
	static const struct xport_ops ops = {.name = "mute",
					     .post = mute_post,
					     .poll = mute_poll,
					     .mem_alloc = mute_mem_alloc,
					     .mem_free = mute_mem_free,
					     .close = mute_close};

	memset(&mute, 0, sizeof(mute));
	mute.inner = xport_shm_open(region.base, region.sb.region_bytes, false);
	mute.lane.ops = &ops;
	mute.lane.base = mute.inner->base;
	mute.lane.region_bytes = mute.inner->region_bytes;
	mute.answers = UINT32_MAX;
	fake_client_init(c, &region, &mute.lane, 3);
	fake_region_grant(&region, c->alloc, 0, 4);
}

static uint64_t stepping_clock(void *arg)
{
	(void)arg;
	return fake_now += 1000;
}

/* Answers stop at number `answers`; returns the operation's result. */
static int run_mute(struct fake_client *c, unsigned answers, bool obeys,
		    enum index_kind kind, struct index_key k)
{
	const char *value = kind == INDEX_PUT ? "new" : NULL;
	struct index_op *op = &c->op;

	client_open_mute(c);
	index_set_clock(c->ix, stepping_clock, NULL);
	mute.answers = answers;
	mute.obeys = obeys;
	index_op_start(op, kind, &k, value, value ? 3 : 0);
	index_run(c->ix, &op, 1, 0, fake_now + NS_PER_MS);
	return op->result;
}

TEST_LOOP(silent_card_ends_calls_at_the_deadline_and_a_cas_is_maybe, 0, 6)
{
	static const enum index_kind kinds[] = {INDEX_PUT, INDEX_DELETE,
						INDEX_GET};
	enum index_kind kind = kinds[_i / 2];
	struct index_key k = key_of("k");
	bool obeys = _i % 2, maybe = false;
	struct fake_client c;
	unsigned n;
	int err;

	setup(false);
	for (n = 0; n < 20; n++) {
		PUT(&other, k, "old");
		err = run_mute(&c, n, obeys, kind, k);
		if (err == 0) {
			fake_client_close(&c);
			break;
		}
		/* Late answers would arrive after the end of the operation. */
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
		fake_client_close(&c);
	}
	ck_assert_int_eq(err, 0);
	ck_assert_uint_ge(n, 2);
	ck_assert_int_eq(maybe, kind != INDEX_GET);
	teardown();
}

TEST(break_at_any_request_fails_reads_and_leaves_writes_maybe_or_undone)
{
	struct index_key k = key_of("k");

	for (unsigned lose = 0; lose < 2; lose++)
		for (unsigned at = 1; at <= 6; at++) {
			struct xport_fault_config cfg = {.break_at = at,
							 .hide_direct = true,
							 .lose_completion = lose};
			struct fake_client c;
			int err;

			setup(false);
			PUT(&other, k, "old");
			/* the directory takes three requests */
			cfg.break_at = at + 3;
			fake_client_open(&c, &region, &cfg, 3);
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
			fake_client_close(&c);
			teardown();
		}
}

TEST_SUITE("index, lanes")
