/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lane over a reliable connection.
 *
 * The requests of a post become lists of work requests with one doorbell each. Only the last of a
 * list is signaled, because a reliable connection completes in order. `head` and `tail` count
 * posted and finished work requests. Their difference never exceeds the send queue, and the
 * completion queue is as long as the send queue, so neither can overflow.
 *
 * Every READ and CAS has a sentinel in its destination that is checked at completion: rxe can
 * report success for a request whose response it dropped when packets were reordered. A sentinel
 * that is still there counts as a failure.
 *
 * Any failure ends the connection: the QP goes to ERR, its remaining CQEs show which requests were
 * executed, and every chain is done.
 */
#include "config.h"

#include "lane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "common/region/hash.h"
#include "post.h"
#include "release.h"

#define POLL_MAX 16
#define DRAIN_NS (500 * NS_PER_MS)
#define ANSWER_LOST IBV_WC_GENERAL_ERR

static struct verbs_lane *lane_of(struct xport_lane *lane)
{
	return (struct verbs_lane *)(void *)lane;
}

/* ---- the end ---------------------------------------------------------------------- */

static void chain_end(struct xport_chain *c, unsigned n_done, int status)
{
	c->n_done = (uint8_t)n_done;
	c->status = status;
	c->done = true;
}

/*
 * Retire the work requests before `seq`, which are reported as done. False if the response
 * of one is missing; `tail` stops there.
 */
static bool retire_until(struct verbs_lane *l, uint64_t seq)
{
	uint64_t tail = l->tail;

	for (; tail < seq; tail++) {
		uint64_t place = tail & (l->depth - 1);
		const struct verbs_flight *f = &l->flight[place];
		struct xport_chain *c = f->chain;
		struct xport_wr *wr = &c->wr[f->wr];

		if (f->sentinel && memcmp(f->sentinel, &l->blank, sizeof(l->blank)) == 0)
			break;
		if (wr->opcode == XPORT_CAS)
			wr->found = l->found[place];
		if (f->last && f->wr + 1 == c->n)
			chain_end(c, c->n, 0);
	}
	l->tail = tail;
	return tail >= seq;
}

/* End every chain that is left with `status`. */
static void end_all(struct verbs_lane *l, int status)
{
	struct xport_chain *last = NULL;

	for (; l->tail < l->head; l->tail++) {
		struct verbs_flight *f = &l->flight[l->tail & (l->depth - 1)];

		if (f->chain == last)
			continue;
		last = f->chain;
		chain_end(last, f->wr, status);
	}
	for (struct xport_chain *c = l->queue, *next; c; c = next) {
		next = c->next;
		if (c != last)
			chain_end(c, 0, status);
	}
	l->queue = NULL;
	l->queue_end = &l->queue;
	l->queue_wr = 0;
	l->queue_at = 0;
}

/*
 * Reap up to POLL_MAX CQEs; true if there was one. The first failure names the first request that
 * may not have been executed; all later CQEs are flushes.
 */
static bool reap(struct verbs_lane *l, bool *failed, enum ibv_wc_status *status)
{
	struct ibv_wc wc[POLL_MAX];
	int n = ibv_poll_cq(l->cq, POLL_MAX, wc);

	l->reaped |= n > 0;
	if (n < 0 && !*failed) {
		*failed = true;
		*status = IBV_WC_FATAL_ERR;
	}
	for (int i = 0; i < n; i++) {
		if (*failed)
			continue;
		if (wc[i].status == IBV_WC_SUCCESS &&
		    retire_until(l, wc[i].wr_id + 1))
			continue;
		if (wc[i].status != IBV_WC_SUCCESS)
			(void)retire_until(l, wc[i].wr_id);
		*failed = true;
		*status = wc[i].status == IBV_WC_SUCCESS ? ANSWER_LOST :
							   wc[i].status;
	}
	return n > 0;
}

/*
 * Flush and end everything outstanding. The device must not touch the buffers of chains
 * that are done, so the QP is destroyed even if it does not flush in time.
 */
static void fail(struct verbs_lane *l, bool failed, enum ibv_wc_status status)
{
	uint64_t until = clock_now_ns() + DRAIN_NS;
	uint64_t end = l->head;
	struct ibv_wc wc[POLL_MAX];
	const char *why;
	int err = FARKV_EDISCONNECTED;

	verbs_qp_error(&l->conn);
	while (!failed && l->tail < end && clock_now_ns() < until)
		(void)reap(l, &failed, &status);
	if (failed) {
		err = verbs_status_error(status, &why);
		log_debug("rdma lane broke: %s", why);
		l->why = why;
		if (!xport_broken(&l->base))
			err_set(err, "%s", why);
	}
	if (l->conn.qp) {
		VERBS_RELEASE("a queue pair", ibv_destroy_qp(l->conn.qp));
		l->conn.qp = NULL;
	}
	while (ibv_poll_cq(l->cq, POLL_MAX, wc) > 0)
		;
	l->reaped = true;
	xport_break(&l->base, FARKV_EDISCONNECTED);
	end_all(l, err == FARKV_EPERM ? FARKV_EPERM : FARKV_EDISCONNECTED);
}

/* ---- post and poll ---------------------------------------------------------------- */

/* Requests from `bad` on were not posted; the earlier ones are in flight. */
static void post_refused(struct verbs_lane *l, uint64_t bad, int rc)
{
	uint64_t head = l->head;

	log_error("rdma: the device refused a request: %s", strerror(rc));
	l->head = bad;
	for (uint64_t seq = bad; seq < head; seq++) {
		struct verbs_flight *f = &l->flight[seq & (l->depth - 1)];

		if (!f->chain->done)
			chain_end(f->chain, f->wr, FARKV_EDISCONNECTED);
	}
	fail(l, false, IBV_WC_FATAL_ERR);
}

/* Post as much of the queue as fits. */
static void pump(struct verbs_lane *l)
{
	struct ibv_send_wr *bad = NULL;

	while (l->queue) {
		uint64_t room = l->depth - (l->head - l->tail);
		unsigned n = verbs_fill(l, (unsigned)UTIL_MIN(room, VERBS_POST_MAX));
		int rc;

		if (n == 0)
			return;
		l->list[n - 1].next = NULL;
		l->list[n - 1].send_flags |= IBV_SEND_SIGNALED;
		rc = ibv_post_send(l->conn.qp, l->list, &bad);
		if (rc) {
			/* Some devices fail without setting `bad`. */
			post_refused(l, bad ? bad->wr_id : l->head, rc);
			return;
		}
	}
}

/* xport_check() by areas, which lie within the region. */
static int check(struct verbs_lane *l, const struct xport_chain *first)
{
	for (const struct xport_chain *c = first; c; c = c->next)
		for (unsigned i = 0; i < c->n; i++) {
			const struct xport_wr *wr = &c->wr[i];
			int err;

			if (wr->len == 0 || !verbs_area_of(l, wr->off, wr->len))
				return FARKV_EINVAL;
			err = xport_check_form(&l->base, c, i);
			if (err)
				return err;
		}
	return 0;
}

static int verbs_post(struct xport_lane *lane, struct xport_chain *first)
{
	struct verbs_lane *l = lane_of(lane);
	int err = check(l, first);
	struct xport_chain **end;

	if (err)
		return err;
	if (xport_broken(lane)) {
		for (struct xport_chain *c = first; c; c = c->next)
			chain_end(c, 0, FARKV_EDISCONNECTED);
		return 0;
	}
	*l->queue_end = first;
	for (end = l->queue_end; *end; end = &(*end)->next) {
		(*end)->done = false;
		(*end)->status = 0;
		(*end)->n_done = 0;
	}
	l->queue_end = end;
	lane->counters.doorbells++;
	pump(l);
	return 0;
}

/* Post chains that waited for space, with the time for begun_ns. */
static void pump_rest(struct verbs_lane *l)
{
	l->now_ns = clock_now_ns();
	pump(l);
	l->now_ns = 0;
}

static void verbs_poll(struct xport_lane *lane)
{
	struct verbs_lane *l = lane_of(lane);
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	bool failed = false;

	if (!l->conn.qp) {
		end_all(l, FARKV_EDISCONNECTED);
		return;
	}
	(void)reap(l, &failed, &status);
	if (failed || xport_broken(lane))
		fail(l, failed, status);
	else if (l->queue && l->head - l->tail < l->depth)
		pump_rest(l);
}

/* ---- events ----------------------------------------------------------------------- */

static int verbs_wait_fd(const struct xport_lane *lane)
{
	const struct verbs_lane *l = (const void *)lane;

	return l->events ? l->events->fd : -1;
}

/*
 * An armed CQ raises one event, possibly after its CQE can be polled. No event can be there before
 * a CQE was polled. After one was polled without an event, the event is on its way or the CQ is
 * still armed; both wake the sleeper.
 */
static void event_take(struct verbs_lane *l)
{
	struct ibv_cq *cq;
	void *owner;

	if (!l->armed || !l->reaped || ibv_get_cq_event(l->events, &cq, &owner))
		return;
	ibv_ack_cq_events(cq, 1);
	l->armed = false;
}

static void verbs_arm(struct xport_lane *lane, bool on)
{
	struct verbs_lane *l = lane_of(lane);

	if (!l->events)
		return;
	event_take(l);
	if (!on || l->armed)
		return;
	if (ibv_req_notify_cq(l->cq, 0)) {
		xport_break(lane, FARKV_EDISCONNECTED);
		return;
	}
	l->armed = true;
	l->reaped = false;
}

/* ---- memory, open, close ----------------------------------------------------------------- */

static void count_registrations(struct verbs_lane *l)
{
	l->base.counters.registrations = l->mem.registrations;
}

static void *verbs_alloc(struct xport_lane *lane, size_t bytes)
{
	void *mem = verbs_mem_alloc(&lane_of(lane)->mem, bytes);

	count_registrations(lane_of(lane));
	return mem;
}

static int verbs_add(struct xport_lane *lane, void *mem, size_t bytes)
{
	int err = verbs_mem_add(&lane_of(lane)->mem, mem, bytes);

	count_registrations(lane_of(lane));
	return err;
}

static bool verbs_known(const struct xport_lane *lane, const void *mem,
			size_t bytes, enum xport_opcode use)
{
	const struct verbs_lane *l = (const void *)lane;

	return verbs_mem_added(&l->mem, mem, bytes, use == XPORT_READ);
}

static void verbs_remove(struct xport_lane *lane, void *mem)
{
	if (lane_of(lane)->pid == getpid())
		verbs_mem_remove(&lane_of(lane)->mem, mem);
}

static void verbs_free(struct xport_lane *lane, void *mem, size_t bytes)
{
	/* A child of fork() does not have this memory mapped. */
	if (lane_of(lane)->pid == getpid())
		verbs_mem_free(&lane_of(lane)->mem, mem, bytes);
}

static void lane_release(struct verbs_lane *l)
{
	verbs_conn_destroy(&l->conn);
	if (l->cq)
		VERBS_RELEASE("a completion queue", ibv_destroy_cq(l->cq));
	if (l->events)
		VERBS_RELEASE("a completion channel",
			      ibv_destroy_comp_channel(l->events));
	verbs_mem_fini(&l->mem);
	free(l->flight);
	free(l);
}

static void verbs_close(struct xport_lane *lane)
{
	struct verbs_lane *l = lane_of(lane);

	if (l->pid != getpid()) {
		free(l->flight);
		free(l);
		return;
	}
	verbs_conn_disconnect(&l->conn);
	lane_release(l);
}

static const struct xport_ops verbs_ops = {
	.name = "verbs",
	.post = verbs_post,
	.poll = verbs_poll,
	.wait_fd = verbs_wait_fd,
	.arm = verbs_arm,
	.mem_alloc = verbs_alloc,
	.mem_free = verbs_free,
	.mem_add = verbs_add,
	.mem_remove = verbs_remove,
	.mem_known = verbs_known,
	.close = verbs_close,
};

/* If the event channel cannot be created, l->cq remains NULL. */
static void queue_create(struct verbs_lane *l, void *owner, bool events)
{
	if (events) {
		l->events = ibv_create_comp_channel(l->pd->context);
		if (!l->events || verbs_fd_prepare(l->events->fd))
			return;
	}
	l->cq = ibv_create_cq(l->pd->context, (int)l->depth + 1, owner,
			      l->events, 0);
}

static bool within_region(const struct verbs_lane_params *p)
{
	for (uint32_t i = 0; i < p->n_areas; i++)
		if (p->areas[i].off > p->region_bytes ||
		    p->areas[i].bytes > p->region_bytes - p->areas[i].off)
			return false;
	return p->n_areas <= VERBS_AREAS_MAX;
}

int verbs_lane_new(struct ibv_pd *pd, void *owner,
		   const struct verbs_lane_params *p, struct verbs_lane **out)
{
	uint64_t now = clock_now_ns();
	int err = FARKV_ENOMEM;
	struct verbs_lane *l;

	if (!within_region(p))
		return err_set(FARKV_EINVAL, "an area ends outside of the region");
	l = calloc(1, sizeof(*l));
	if (!l)
		return err_set(err, "no memory for a lane");
	l->base.ops = &verbs_ops;
	l->base.region_bytes = p->region_bytes;
	l->base.caps = (p->readonly ? XPORT_READONLY : 0) |
		       (p->read8_atomic ? XPORT_READ8_ATOMIC : 0);
	l->pid = getpid();
	l->blank = hash_image(&now, sizeof(now)) ^ (uintptr_t)l;
	l->pd = pd;
	l->n_areas = p->n_areas;
	memcpy(l->areas, p->areas, l->n_areas * sizeof(l->areas[0]));
	l->area = l->areas;
	for (unsigned i = 0; i < VERBS_POST_MAX; i++)
		l->list[i].sg_list = l->sges[i];
	l->depth = VERBS_LANE_SQ;
	l->queue_end = &l->queue;
	verbs_mem_init(&l->mem, pd);
	l->flight = calloc(l->depth, sizeof(*l->flight));
	l->found = verbs_mem_alloc(&l->mem, l->depth * sizeof(*l->found));
	l->found_lkey = verbs_mem_lkey(&l->mem, l->found);
	queue_create(l, owner, p->events);
	count_registrations(l);
	if (l->flight && l->found && l->cq) {
		*out = l;
		return 0;
	}
	if (!l->cq)
		err = err_set_errno(FARKV_ESYS, errno,
				    "cannot create a completion queue");
	else if (!l->flight)
		err_set(err, "no memory for a lane");
	lane_release(l);
	return err;
}

struct ibv_cq *verbs_lane_cq(const struct verbs_lane *l)
{
	return l->cq;
}

int verbs_lane_start(struct verbs_lane *l, const struct verbs_conn *conn)
{
	struct ibv_port_attr port;

	if (ibv_query_port(conn->qp->context, conn->id ? conn->id->port_num : 1,
			   &port))
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot query the RDMA device's port");
	l->conn = *conn;
	if (conn->max_sge >= VERBS_SGES)
		l->base.caps |= XPORT_SEGMENTS;
	else
		l->base.caps &= ~(uint32_t)XPORT_SEGMENTS;
	l->max_piece = port.max_msg_sz ? port.max_msg_sz : 1u << 20;
	while (l->depth > conn->max_send)
		l->depth /= 2;
	return 0;
}

void verbs_lane_stop(struct verbs_lane *l)
{
	if (l->conn.qp)
		fail(l, false, IBV_WC_SUCCESS);
}

int verbs_lane_restart(struct verbs_lane *l, const struct verbs_conn *conn)
{
	int err = verbs_lane_start(l, conn);

	if (err)
		return err;
	l->why = NULL;
	xport_break(&l->base, 0);
	return 0;
}

const char *verbs_lane_reason(const struct verbs_lane *l)
{
	return l->why ? l->why : "it was given up";
}

struct verbs_lane *verbs_lane_of(struct xport_lane *lane)
{
	return lane_of(lane);
}

struct xport_lane *verbs_lane_base(struct verbs_lane *l)
{
	return &l->base;
}

void verbs_lane_abandon(struct verbs_lane *l)
{
	if (l)
		lane_release(l);
}
