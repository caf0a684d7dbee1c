/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's session with a hostile server: what the input says arrives, at any
 * moment between two steps of the handle's thread, and within its requests. The
 * handle takes grants, requests blocks and returns them, writes and reads a small
 * region, is in the middle of an operation, says goodbye.
 *
 * Whatever arrives, the client sends what decodes, takes no block from outside of
 * the region, and comes to an end.
 */
#include "config.h"

#include "fuzz.h"

#include <farkv.h>

#include "client/conn.h"
#include "common/base/clock.h"
#include "common/index/run.h"
#include "common/index/try.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "fake_clock.h"
#include "fake_control.h"
#include "hostile.h"

#define COMMANDS_MAX 200
/* A deadline of this length takes a few thousand looks at the clock. */
#define PATIENCE_NS NS_PER_MS

static struct conn client;
static bool inside; /* an operation runs */

/* ---- the handle's thread -------------------------------------------------------- */

static bool broken(void)
{
	return qsbr_pending(session_qsbr(client.session)) & PENDING_BROKEN;
}

/* As a handle begins: handles pending work first. */
static bool enter(void)
{
	struct qsbr *g = session_qsbr(client.session);

	for (int i = 0; i < 100 && !qsbr_enter(g); i++) {
		qsbr_leave(g);
		if (qsbr_pending(g) & PENDING_BROKEN)
			return false;
		if (qsbr_pending(g) & PENDING_DROP) {
			qsbr_clear_pending(g, PENDING_DROP);
			index_drop_cache(client.index);
		}
		conn_handle_pending(&client);
		FUZZ_CHECK(i < 99 || fuzz_left(&hostile_in));
		if (i == 99)
			return false;
	}
	inside = true;
	return true;
}

static void leave(void)
{
	qsbr_leave(session_qsbr(client.session));
	inside = false;
}

static void operate(void)
{
	static const uint8_t value[600];
	uint8_t how = fuzz_u8(&hostile_in);
	struct index_key k = hostile_key(fuzz_u8(&hostile_in));
	struct index_op op, *ops = &op;

	index_op_init(&op);
	index_op_start(&op, how % 6, &k, value, how * 2u);
	if (enter()) {
		if (!index_try(client.index, &op))
			index_run(client.index, &ops, 1, 0, UINT64_MAX);
		if (op.result == INDEX_PENDING &&
		    op.wait == INDEX_WAIT_BLOCK)
			(void)conn_ask_blocks(&client, op.cls, clock_now_ns(),
					      0);
		index_abandon(client.index, &op, FARKV_ETIMEDOUT);
		leave();
	}
	index_op_fini(client.index, &op);
}

static void call(void)
{
	static const uint8_t types[][2] = {{MSG_STATS_REQ, MSG_STATS},
					   {MSG_HINT, MSG_HINT_REPLY},
					   {MSG_FSCK_REQ, MSG_FSCK},
					   {MSG_PING, MSG_PONG},
					   {MSG_CLIENT_REQ, MSG_CLIENT},
					   {MSG_KILL, MSG_KILLED},
					   {MSG_CLASS_REQ, MSG_CLASS},
					   {MSG_PAUSE_REQ, MSG_PAUSE}};
	unsigned which = fuzz_u8(&hostile_in) % ARRAY_SIZE(types);
	struct msg m = {.type = types[which][0]}, answer;

	err_clear();
	if (session_call(client.session, &m, types[which][1], &answer,
			 clock_now_ns() + PATIENCE_NS))
		FUZZ_CHECK(fuzz_detail_ok());
	else
		FUZZ_CHECK(answer.type == types[which][1]);
}

static void ask(void)
{
	uint8_t cls = fuzz_u8(&hostile_in) % 40;

	if (!client.readonly && enter()) {
		(void)conn_ask_blocks(&client, cls, clock_now_ns(), cls & 3);
		conn_return_surplus(&client);
		conn_ask_prefix(&client, cls & 8 ? UINT32_MAX : 10);
		leave();
	}
}

static void act(void)
{
	uint8_t what = fuzz_u8(&hostile_in);

	switch (what % 8) {
	case 0:
	case 1:
	case 2:
		hostile_pump(what >> 4);
		break;
	case 3:
		fake_clock_advance((what >> 3) * NS_PER_MS);
		fake_control_tick();
		break;
	case 4:
		hostile_stuck(what >> 3);
		break;
	case 5:
		if (inside)
			leave();
		else
			(void)enter();
		break;
	case 6:
		if (inside)
			leave();
		operate();
		break;
	default:
		if (inside)
			leave();
		if (what & 8)
			ask();
		else
			call();
		break;
	}
}

/*
 * ---- setup and teardown
 * ----------------------------------------------------------------
 */

static pthread_mutex_t *lock_of_client(void)
{
	return client.inv ? &client.inv->lock : NULL;
}

static void begin(uint8_t how)
{
	client = (struct conn){.sb = &hostile_sb, .readonly = how & 1};
	inside = false;
	client.lane = xport_shm_open(hostile_base, hostile_sb.region_bytes,
				     client.readonly);
	FUZZ_CHECK(client.lane);
	if (!client.readonly) {
		client.inv = inventory_new(hostile_sb.grace_ns,
					   hostile_sb.region_bytes);
		FUZZ_CHECK(client.inv);
		client.alloc = client.inv->alloc;
		hostile_lock = lock_of_client;
	}
	FUZZ_CHECK(index_open(&hostile_sb, client.lane, client.alloc,
			      UINT64_MAX, &client.index) == 0);
	FUZZ_CHECK(session_begin(hostile_channel(!(how & 2)), &hostile_sb,
			       client.lane, client.inv, &client.session) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	hostile_begin(data, size);
	begin(fuzz_u8(&hostile_in));
	for (int i = 0; i < COMMANDS_MAX && fuzz_left(&hostile_in); i++)
		act();
	if (inside)
		leave();
	if (broken())
		FUZZ_CHECK(session_reason(client.session) == FARKV_EDISCONNECTED &&
			   fuzz_detail_ok());
	conn_farewell(&client, clock_now_ns() + PATIENCE_NS);
	conn_close(&client);
	return 0;
}
