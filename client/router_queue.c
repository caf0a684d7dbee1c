/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "router_queue.h"

#include <stdio.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"

#include "notifier.h"
#include "queue.h"
#include "queue_state.h"
#include "router.h"
#include "router_map.h"

size_t router_in_flight(const struct farkv *kv)
{
	const struct router *r = kv->router;
	size_t n = 0;

	for (uint32_t i = 0; i < r->map.n_servers; i++)
		n += queue_in_flight(r->member[i]);
	return n;
}

/* ---- submit ---------------------------------------------------------------------------- */

/* Make all queues before the first request, so that the handle accepts as many as each member. */
static int queues_reserve(const struct router *r)
{
	for (uint32_t i = 0; i < r->map.n_servers; i++) {
		int err = r->member[i]->queue ? 0 : queue_new(r->member[i]);

		if (err)
			return err;
	}
	return 0;
}

/*
 * Begin with the requests' servers by the newest map. *n_io: how many of the first requests need
 * not wait for their partition. Requests in flight end before a map is taken.
 */
static void route(struct farkv *kv, const struct farkv_request *reqs, size_t *n_io)
{
	struct router *r = kv->router;
	uint64_t servers;
	size_t i;

	do {
		if (router_map_waits(kv)) {
			router_settle(kv);
			(void)router_take_maps(kv);
		}
		servers = 0;
		for (i = 0; i < *n_io; i++) {
			uint32_t p = reqs[i].key && reqs[i].key_len ?
					     clustermap_partition(&r->map, reqs[i].key, reqs[i].key_len) :
					     0;

			if (router_blocks(r, p))
				break;
			servers |= UINT64_C(1) << r->map.owner[p];
		}
		*n_io = i;
	} while (!router_enter_all(kv, servers));
}

/*
 * How many of the first of `n` requests can go to their servers. If the first one cannot:
 * FARKV_EAGAIN while completions are outstanding; otherwise nothing would notify the caller to try
 * again, so this waits.
 */
static int route_some(struct farkv *kv, const struct farkv_request *reqs, size_t n)
{
	uint64_t until = clock_now_ns() + kv->op_timeout_ns;

	for (;;) {
		size_t some = n;

		route(kv, reqs, &some);
		if (some)
			return (int)some;
		if (router_in_flight(kv) > 0)
			return err_set(FARKV_EAGAIN, "the key's partition is moving; take completions first");
		if (!router_wait_for_map(kv, until))
			return FARKV_ETIMEDOUT;
	}
}

/* How many of the first requests can be accepted; an error if none. */
static int acceptable(const struct farkv *kv, const struct farkv_request *reqs, size_t n)
{
	size_t depth = kv->router->member[0]->queue->depth, used = router_in_flight(kv), i = 0;
	int err = 0;

	while (i < n && used + i < depth && !(err = queue_check_request(&reqs[i])))
		i++;
	if (i > 0 || n == 0)
		return (int)i;
	return err ? err : queue_full(depth);
}

/* Submit the requests of one server together: they share a doorbell. */
static int submit_to(struct router *r, uint32_t server, const struct farkv_request *reqs, size_t n)
{
	struct farkv_request *part = r->items.mem;
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		if (router_member(r, reqs[i].key, reqs[i].key_len) == r->member[server])
			part[k++] = reqs[i];
	return k ? farkv_submit(r->member[server], part, k) : 0;
}

int router_submit(struct farkv *kv, const struct farkv_request *reqs, size_t n)
{
	struct router *r = kv->router;
	int accepted = queues_reserve(r);

	if (!accepted)
		accepted = acceptable(kv, reqs, n);
	if (accepted <= 0)
		return accepted;
	if (!router_scratch(&r->items, (size_t)accepted * sizeof(*reqs)))
		return err_set(FARKV_ENOMEM, "no memory for requests");
	if (r->leased)
		accepted = route_some(kv, reqs, (size_t)accepted);
	if (accepted <= 0)
		return accepted;
	kv->queued = true;
	for (uint32_t i = 0; i < r->map.n_servers; i++)
		(void)submit_to(r, i, reqs, (size_t)accepted); /* there is room for all */
	return accepted;
}

/* ---- completions ----------------------------------------------------------------------- */

/* Change results that the server's lease does not cover. Failed requests remain failed. */
static void mark_uncovered(struct farkv_completion *c, size_t n, const struct farkv *m)
{
	for (size_t i = 0; i < n; i++) {
		bool reads = c[i].kind == FARKV_REQUEST_GET || c[i].kind == FARKV_REQUEST_EXISTS;

		if (c[i].result && c[i].result != FARKV_ENOTFOUND && c[i].result != FARKV_EEXISTS &&
		    c[i].result != FARKV_EVERSION)
			continue;
		c[i].result = reads || c[i].result ? FARKV_EDISCONNECTED : FARKV_EMAYBE;
		c[i].detail = "the server's lease has ended: what it has may be old";
		c[i].value = (struct farkv_value){0};
		err_set(c[i].result, "server %s: %s", m->server_name, c[i].detail);
	}
}

/* How many of the server's first completions no lease covers. */
static size_t count_uncovered(struct farkv *kv, const struct farkv *m, size_t n)
{
	size_t *uncovered = &kv->router->uncovered[m->server];
	size_t some = UTIL_MIN(*uncovered, n);

	*uncovered -= some;
	return router_lease_covers_now(kv, m) ? some : n;
}

/*
 * Look for a newer map if a completion's server did not answer. Not while requests are in flight,
 * which would continue by another map than they began by; farkv_submit() takes what other servers
 * send.
 */
static void renew(struct farkv *kv, const struct farkv_completion *c, size_t n)
{
	struct router *r = kv->router;

	for (size_t i = 0; i < n; i++)
		if (handle_is_away(c[i].result))
			r->away = c[i].result;
	if (!r->away || router_in_flight(kv) > 0)
		return;
	router_renew(kv, r->away);
	r->away = 0;
}

int router_poll(struct farkv *kv, struct farkv_completion *completions, size_t max)
{
	struct router *r = kv->router;
	uint32_t n_servers = r->map.n_servers;
	char line[ERR_LINE_MAX];
	size_t n = 0;

	/* Poll all, even if `max` is 0, so that each makes progress. */
	for (uint32_t i = 0; i < n_servers; i++) {
		struct farkv *m = r->member[(r->next + i) % n_servers];
		int taken = farkv_poll(m, completions ? completions + n : NULL, max - n);

		if (completions && taken > 0)
			mark_uncovered(completions + n, count_uncovered(kv, m, (size_t)taken), m);
		if (queue_in_flight(m) == 0)
			router_leave_all(kv, UINT64_C(1) << m->server);
		if (taken < 0 && n == 0)
			return taken;
		if (taken < 0)
			break; /* deliver the previous ones first */
		n += (size_t)taken;
		if (taken > 0)
			snprintf(line, sizeof(line), "%s", err_detail());
	}
	r->next = r->next + 1 < n_servers ? r->next + 1 : 0;
	if (completions && n > 0) {
		renew(kv, completions, n);
		err_set(0, "%s", line);
	}
	if (router_in_flight(kv) > 0)
		kv->queued = true;
	return (int)n;
}

/* True if some requests wait for a device, not for a server. */
static bool any_inside(const struct router *r)
{
	for (uint32_t i = 0; i < r->map.n_servers; i++)
		if (r->member[i]->queue && r->member[i]->queue->inside)
			return true;
	return false;
}

static bool any_done(const struct router *r)
{
	for (uint32_t i = 0; i < r->map.n_servers; i++)
		if (r->member[i]->queue && r->member[i]->queue->done.first)
			return true;
	return false;
}

/*
 * All wait for their servers: sleep until one of them, in turn, has news, a millisecond at most.
 * The completions are left to router_poll(), which checks leases.
 */
static void sleep_a_moment(struct router *r)
{
	int n;

	for (uint32_t i = 0; i < r->map.n_servers; i++) {
		struct farkv *m = r->member[(r->next + i) % r->map.n_servers];

		if (queue_in_flight(m) > 0) {
			n = farkv_wait(m, NULL, 0, 1);
			(void)n;
			return;
		}
	}
}

int router_wait(struct farkv *kv, struct farkv_completion *completions, size_t max,
		uint32_t timeout_ms)
{
	uint64_t end = clock_now_ns() + timeout_ms * NS_PER_MS;
	struct router *r = kv->router;

	for (;;) {
		int n = router_poll(kv, completions, max);

		if (n || any_done(r) || router_in_flight(kv) == 0 || clock_now_ns() >= end)
			return n;
		if (any_inside(r)) {
			atom_spin_hint();
			continue;
		}
		sleep_a_moment(r);
	}
}

/* ---- the descriptor -------------------------------------------------------------------- */

/* An epoll set of the members' descriptors: readable while one of them is. */
int router_event_fd(struct farkv *kv)
{
	struct router *r = kv->router;
	struct notifier *w;
	int err = notifier_new(&w);

	for (uint32_t i = 0; !err && i < r->map.n_servers; i++) {
		int fd = farkv_event_fd(r->member[i]);

		err = fd < 0 ? fd : notifier_add(w, fd);
		if (err)
			notifier_free(w);
	}
	if (err)
		return err;
	kv->notifier = w;
	return notifier_fd(w);
}
