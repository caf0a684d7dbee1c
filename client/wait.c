/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waits of operations. While they wait they hold no reference to the region (I5): they have left
 * the critical section, and each starts at the directory again.
 */
#include "config.h"

#include "wait.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"

#include "handle.h"

#define BACKOFF_MIN_NS UINT64_C(50000)
#define BACKOFF_MAX_NS (2 * NS_PER_MS)
/*
 * A DELETE exchanges a large block for a small one, but can do without. This is how long it waits
 * for a server that answers.
 */
#define TOMBSTONE_WAIT_NS (50 * NS_PER_MS)
/* After a wait that got no block, no DELETE waits for this long. */
#define TOMBSTONE_PAUSE_NS NS_PER_SEC

/* Pause between two requests to start CLOCK. */
#define CLOCK_PAUSE_NS (100 * NS_PER_MS)

#define NEVER HANDLE_NEVER

static void no_block(const struct farkv *kv, unsigned long long bytes)
{
	char size[24];

	if (kv->conn.no_pages)
		err_set(FARKV_ENOSPC, "the server's machine has no memory left "
				      "for a block of %llu bytes; see its log, "
				      "and kvcli stats", bytes);
	else
		err_set(FARKV_ENOSPC, "the region has no memory left for a block "
				      "of %llu bytes (%s are free in other sizes); "
				      "delete something or start kvserver with a "
				      "larger --memory", bytes,
			util_format_size(kv->conn.other_bytes, size, sizeof(size)));
}

int handle_waited(const struct farkv *kv, const struct index_op *op, int err)
{
	unsigned long long ms = kv->op_timeout_ns / NS_PER_MS;
	unsigned long long bytes = class_bytes(op->cls);

	if (err == FARKV_ENOSPC && op->wait == INDEX_WAIT_BLOCK)
		no_block(kv, bytes);
	else if (err == FARKV_ENOSPC && op->wait == INDEX_WAIT_FULL &&
		 kv->conn.no_pages)
		err_set(err, "the server's machine has no memory left to enlarge "
			     "the index for a new key; see its log, and kvcli stats");
	else if (err == FARKV_ENOSPC && op->wait == INDEX_WAIT_FULL)
		err_set(err, "no memory left to enlarge the index for a new "
			     "key; delete something or start kvserver with a "
			     "larger --memory");
	else if (err == FARKV_ETIMEDOUT && op->wait == INDEX_WAIT_BLOCK)
		err_set(err, "no block of %llu bytes came within %llu ms; "
			     "is the store nearly full, or the server "
			     "stopped?",
			bytes, ms);
	else if (err == FARKV_ETIMEDOUT && op->wait == INDEX_WAIT_FROZEN)
		err_set(err, "the server has not finished rebuilding this "
			     "part of the index within %llu ms; does it run?",
			ms);
	else if (err == FARKV_ETIMEDOUT && op->wait == INDEX_WAIT_CLOCK)
		err_set(err, "the server has not started the region's clock, by "
			     "which the value is to expire, within %llu ms; does "
			     "it run?",
			ms);
	else if (err == FARKV_ETIMEDOUT && op->wait == INDEX_WAIT_FULL)
		err_set(err, "the server has not enlarged the index within "
			     "%llu ms",
			ms);
	else if (err == FARKV_EINDEXFULL)
		err_set(err, "the index has reached its largest size and has "
			     "no free slot for this key; delete keys");
	return err;
}

/*
 * The result of an operation whose deadline has passed. A denial that the server sent during this
 * call counts, and so does its message that the request waits for memory. Not for a delete, which
 * can do without the block.
 */
static int wait_over(const struct farkv *kv, const struct index_op *op)
{
	bool denied = op->wait == INDEX_WAIT_BLOCK && !kind_deletes(op->kind) &&
		      (kv->conn.denied[op->cls] || kv->conn.waits[op->cls]);

	return handle_waited(kv, op, denied ? FARKV_ENOSPC : FARKV_ETIMEDOUT);
}

static uint64_t give_up(struct farkv *kv, struct index_op *op, int err)
{
	index_abandon(kv->conn.index, op, err);
	return NEVER;
}

/*
 * Blocks of its class that operations before ops[i] will take first; operations that wait for
 * something else have returned theirs.
 */
static uint32_t blocks_needed(struct index_op *const *ops, size_t i)
{
	uint32_t n = 0;

	for (size_t j = 0; j < i; j++)
		n += ops[j]->result == INDEX_PENDING &&
		     !kind_reads(ops[j]->kind) && ops[j]->cls == ops[i]->cls;
	return n;
}

/* Neither an old denial nor the answer to an old request counts for this call. */
static void forget_denials(struct conn *l)
{
	memset(l->denied, 0, sizeof(l->denied));
	for (uint8_t c = 0; c < CLASS_COUNT; c++)
		l->old_ask[c] = alloc_asking(l->alloc, c);
}

/*
 * The server denied the request. Blocks of other classes that this handle holds may be all that is
 * missing: return them, once per operation, and ask again. With the inventory's lock.
 */
static bool gave_back(struct conn *l, struct index_op *op)
{
	if (op->gave_back || !conn_return_all(l))
		return false;
	/* the socket may have been full */
	op->gave_back = l->inv->n_ret == 0;
	forget_denials(l);
	return true;
}

/* With the inventory's lock. */
static uint64_t wait_block(struct farkv *kv, struct index_op *op, uint64_t now,
			   uint32_t taken)
{
	struct conn *l = &kv->conn;
	uint64_t ready;
	int err;

	alloc_date(l->alloc, now);
	ready = alloc_next_ready(l->alloc, op->cls);

	if (alloc_count(l->alloc, op->cls) + (ready && ready <= now) > taken)
		return now;
	if (l->denied[op->cls] || l->waits[op->cls]) {
		/* The server can free no blocks sooner than those that this handle unlinked. */
		if (conn_return_deferred(l, op->cls)) {
			l->denied[op->cls] = false;
			ready = 0;
		}
	}
	if (l->denied[op->cls]) {
		if (kind_deletes(op->kind))
			return now;
		/* The deferred blocks become usable after T. */
		if (ready && ready < op->deadline_ns)
			return ready;
		if (!gave_back(l, op))
			return give_up(kv, op, handle_waited(kv, op, FARKV_ENOSPC));
	}
	err = conn_ask_blocks(l, op->cls, now, taken);
	if (err == FARKV_ETIMEDOUT) /* full socket: try again soon */
		return now + BACKOFF_MAX_NS;
	if (err)
		return give_up(kv, op, err);
	if (kind_deletes(op->kind)) {
		if (now < l->tombstone_pause_ns)
			return now;
		l->tombstone_pause_ns = now + TOMBSTONE_PAUSE_NS;
		return now + TOMBSTONE_WAIT_NS;
	}
	return ready ? ready : NEVER;
}

static uint64_t no_index_space(struct farkv *kv, struct index_op *op)
{
	bool again;

	inventory_lock(kv->conn.inv);
	again = gave_back(&kv->conn, op);
	inventory_unlock(kv->conn.inv);
	if (again)
		return clock_now_ns();
	return give_up(kv, op, handle_waited(kv, op, FARKV_ENOSPC));
}

/* Handle the server's answer, or its absence. */
static uint64_t hint_answered(struct farkv *kv, struct index_op *op, int err,
			      uint16_t status, struct wait_state *w)
{
	bool done;

	if (!err && status == MSG_HINT_NOSPC)
		return no_index_space(kv, op);
	if (!err && status == MSG_HINT_FULL)
		err = handle_waited(kv, op, FARKV_EINDEXFULL);
	/* The server is working, and slow to confirm it. */
	if (err == FARKV_ETIMEDOUT && w->growing)
		err = wait_over(kv, op);
	if (err)
		return give_up(kv, op, err);
	w->growing = true;
	done = status == MSG_HINT_DONE && !w->done;
	w->done = done;
	/* The window is full again right after "done": back off. */
	return clock_now_ns() + (done ? 0 : w->backoff_ns);
}

static struct msg hint_msg(const struct index_op *op)
{
	struct msg m = {.type = MSG_HINT};

	m.hint.page = op->wait_page;
	m.hint.gen = op->wait_gen;
	m.hint.full = 1;
	return m;
}

static uint64_t wait_full(struct farkv *kv, struct index_op *op,
			  struct wait_state *w)
{
	struct msg m = hint_msg(op), answer;
	int err = session_call(kv->conn.session, &m, MSG_HINT_REPLY, &answer,
			       op->deadline_ns);

	return hint_answered(kv, op, err, err ? 0 : answer.hint_reply.status, w);
}

/* Ask without waiting for the answer, which a later call takes. */
static uint64_t ask_full(struct farkv *kv, struct index_op *op, uint64_t now,
			 struct wait_state *w)
{
	struct msg m = hint_msg(op), answer;
	int err;

	if (!w->hint_out || now >= w->hint_due_ns) {
		err = session_call_begin(kv->conn.session, &m, MSG_HINT_REPLY, 0);
		if (err == FARKV_ETIMEDOUT) /* full socket: try again soon */
			return now + BACKOFF_MAX_NS;
		if (err)
			return give_up(kv, op, err);
		w->hint_out = true;
		w->hint_page = op->wait_page;
		w->hint_due_ns = op->deadline_ns;
	}
	err = session_call_take(kv->conn.session, &answer);
	if (err == FARKV_EAGAIN)
		return w->hint_due_ns;
	w->hint_out = false;
	if (w->hint_page != op->wait_page)
		return now;
	return hint_answered(kv, op, err, err ? 0 : answer.hint_reply.status, w);
}

/* The change of CLOCK is the answer. If the socket had no room, the message is repeated. */
static void ask_clock(struct farkv *kv, uint64_t now, struct wait_state *w)
{
	struct msg m = {.type = MSG_CLOCK_START};

	if (now < w->clock_due_ns)
		return;
	if (session_post(kv->conn.session, &m, NULL, 0) == 0)
		w->clock_due_ns = now + CLOCK_PAUSE_NS;
}

static uint64_t wait_one(struct farkv *kv, struct index_op *const *ops, size_t i,
			 uint64_t now, struct wait_state *w)
{
	uint64_t until;

	switch (ops[i]->wait) {
	case INDEX_WAIT_BLOCK:
		inventory_lock(kv->conn.inv);
		until = wait_block(kv, ops[i], now, blocks_needed(ops, i));
		inventory_unlock(kv->conn.inv);
		return until;
	case INDEX_WAIT_FULL:
		return w->never_blocks ? ask_full(kv, ops[i], now, w) :
					 wait_full(kv, ops[i], w);
	case INDEX_WAIT_CLOCK:
		ask_clock(kv, now, w);
		return now + w->backoff_ns;
	default:
		return now + w->backoff_ns;
	}
}

/* True if an earlier operation of the batch waits for the same subtable. */
static bool already_hinted(struct index_op *const *ops, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (ops[j]->result == INDEX_PENDING &&
		    ops[j]->wait == INDEX_WAIT_FULL &&
		    ops[j]->wait_page == ops[i]->wait_page)
			return true;
	return false;
}

static void wait_begin(struct conn *l, struct wait_state *w)
{
	/* Only writers wait. */
	inventory_lock(l->inv);
	forget_denials(l);
	inventory_unlock(l->inv);
	w->begun = true;
	w->backoff_ns = BACKOFF_MIN_NS;
}

uint64_t handle_need(struct farkv *kv, struct index_op *const *ops, size_t n,
		     struct wait_state *w)
{
	uint64_t now = clock_now_ns(), until = NEVER;
	bool first = !w->begun;

	if (first)
		wait_begin(&kv->conn, w);
	for (size_t i = 0; i < n; i++) {
		uint64_t t;

		if (ops[i]->result != INDEX_PENDING)
			continue;
		/*
		 * Ask even if it is late: otherwise calls with little time would never get what
		 * they lack.
		 */
		if (now >= ops[i]->deadline_ns && !first) {
			give_up(kv, ops[i], wait_over(kv, ops[i]));
			continue;
		}
		if (ops[i]->wait == INDEX_WAIT_FULL && already_hinted(ops, i))
			t = NEVER;
		else
			t = wait_one(kv, ops, i, now, w);
		if (ops[i]->result == INDEX_PENDING)
			t = UTIL_MIN(t, ops[i]->deadline_ns);
		until = UTIL_MIN(until, t);
	}
	w->backoff_ns = UTIL_MIN(w->backoff_ns * 2, BACKOFF_MAX_NS);
	return until;
}

void handle_wait(struct farkv *kv, struct index_op *const *ops, size_t n,
		 struct wait_state *w)
{
	uint64_t until = handle_need(kv, ops, n, w);

	if (until != NEVER)
		session_wait(kv->conn.session, until);
}
