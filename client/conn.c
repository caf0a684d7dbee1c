/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"

struct xport_lane *(*conn_wrap_lane)(struct xport_lane *lane);

static int mapping_open(const struct connect_result *r,
			struct mapping **map_out)
{
	struct mapping_spec spec = {
		.region_bytes = r->region_bytes,
		.meta_bytes = r->meta_bytes,
		.grace_ns = r->grace_ns,
		.meta_fd = r->meta_fd,
		.data_fd = r->data_fd,
		.heat_fd = r->heat_fd,
		.heat_bytes = r->heat_bytes,
		.readonly = r->readonly,
		.peer_may_kill = r->peer_may_kill,
	};

	memcpy(spec.region_id, r->region_id, sizeof(spec.region_id));
	return mapping_get(&spec, map_out);
}

static void memory_close(struct conn *l)
{
	index_close(l->index);
	inventory_free(l->inv);
	xport_close(l->lane);
	mapping_put(l->map);
	free(l->sb_copy);
}

static int shm_open_lane(const struct connect_result *r, struct conn *l)
{
	/* Map it before the region: while it is mapped the server waits for this process. */
	int err = mapping_tether(r->tether_fd, r->peer_may_kill,
				 &r->channel->tether);

	if (!err)
		err = mapping_open(r, &l->map);
	if (err)
		return err;
	l->sb = mapping_superblock(l->map);
	l->lane = xport_shm_open(mapping_base(l->map), l->sb->region_bytes + r->heat_bytes,
				 l->readonly);
	return l->lane ? 0 : err_set(FARKV_ENOMEM, "no memory for a handle");
}

/* READ the superblock, and compare it with WELCOME. */
static int superblock_fetch(const struct connect_result *r, struct conn *l,
			    uint64_t deadline_ns)
{
	struct xport_chain c = {.n = 1};
	void *image = xport_mem_alloc(l->lane, sizeof(*l->sb_copy));
	bool late = false;
	int err;

	if (r->meta_bytes < sizeof(*l->sb_copy))
		return err_set(FARKV_EFORMAT,
			       "the server announced a region of %llu bytes for "
			       "its directory, which cannot be",
			       (unsigned long long)r->meta_bytes);
	l->sb_copy = malloc(sizeof(*l->sb_copy));
	if (!image || !l->sb_copy)
		return err_set(FARKV_ENOMEM, "no memory for a handle");
	c.wr[0] = (struct xport_wr){.opcode = XPORT_READ,
				    .laddr = image,
				    .len = sizeof(*l->sb_copy)};
	err = xport_post(l->lane, &c);
	while (!err && !c.done) {
		xport_poll(l->lane);
		if (!c.done && clock_now_ns() > deadline_ns) {
			late = true;
			xport_break(l->lane, FARKV_ETIMEDOUT);
		}
	}
	if (!err)
		err = c.status;
	if (late)
		return err_set(FARKV_ETIMEDOUT,
			       "the server's RDMA device did not answer in time");
	if (err)
		return err;
	memcpy(l->sb_copy, image, sizeof(*l->sb_copy));
	xport_mem_free(l->lane, image, sizeof(*l->sb_copy));
	err = superblock_verify(l->sb_copy);
	if (err)
		return err;
	l->sb = l->sb_copy;
	if (l->sb->region_bytes == r->region_bytes &&
	    l->sb->meta_bytes == r->meta_bytes &&
	    l->sb->grace_ns == r->grace_ns &&
	    (!r->heat_bytes || l->sb->heat_bytes == r->heat_bytes) &&
	    memcmp(l->sb->region_id, r->region_id, sizeof(r->region_id)) == 0)
		return 0;
	return err_set(FARKV_EFORMAT,
		       "the region is not the one that the server announced");
}

static int verbs_open_lane(const struct connect_result *r, struct conn *l,
			   uint64_t deadline_ns)
{
	struct verbs_lane_params p = {.areas = r->areas,
				      .n_areas = r->heat_bytes ? 3 : 2,
				      .region_bytes = r->region_bytes + r->heat_bytes,
				      .session = r->session,
				      .token = r->token,
				      .readonly = l->readonly,
				      .events = true,
				      .read8_atomic = r->read8_atomic,
				      .deadline_ns = deadline_ns};
	int err = xport_verbs->lane_open(channel_verbs_ctrl(r->channel), &p, &l->lane);

	return err ? err : superblock_fetch(r, l, deadline_ns);
}

static int lane_wrap(struct conn *l)
{
	struct xport_lane *lane = conn_wrap_lane(l->lane);

	if (!lane)
		return err_set(FARKV_ENOMEM, "no memory for a lane");
	l->lane = lane;
	return 0;
}

static int inventory_open(struct conn *l)
{
	l->inv = inventory_new(l->sb->grace_ns, l->sb->region_bytes);
	if (!l->inv)
		return err_set(FARKV_ENOMEM, "no memory for a handle");
	l->alloc = l->inv->alloc;
	return 0;
}

/* Send a message before there is a session. 0, or an errno that ends the channel. */
static int send_bare(struct channel *ch, uint8_t type, uint64_t deadline_ns)
{
	struct msg m = {.type = type};
	uint8_t buf[64];
	size_t len;
	int rc;

	if (msg_encode(&m, NULL, buf, sizeof(buf), &len))
		return EINVAL;
	while ((rc = channel_send(ch, buf, len)) == EAGAIN &&
	       clock_now_ns() < deadline_ns)
		channel_wait_room(ch, 1);
	return rc;
}

static int ready(struct channel *ch, uint64_t deadline_ns)
{
	int rc = send_bare(ch, MSG_READY, deadline_ns);

	if (!rc)
		return 0;
	return err_set_errno(rc == EAGAIN ? FARKV_ETIMEDOUT :
					    FARKV_EDISCONNECTED,
			     rc, "the server welcomed this client and hung up");
}

/*
 * Open everything but the session. READY must be sent before the first read of anything that may be
 * reused: without READY the server does not wait for this client (protocol.md).
 */
static int memory_open(const struct connect_result *r, struct conn *l,
		       uint64_t deadline_ns)
{
	int err;

	l->readonly = r->readonly;
	l->id = r->session;
	l->swept = r->swept;
	l->outlives = r->outlives;
	memcpy(l->writers, r->writers, sizeof(l->writers));
	err = r->by_verbs ? verbs_open_lane(r, l, deadline_ns) :
			    shm_open_lane(r, l);
	if (!err && conn_wrap_lane)
		err = lane_wrap(l);
	if (!err && !l->readonly)
		err = inventory_open(l);
	if (!err)
		err = ready(r->channel, deadline_ns);
	if (err)
		goto err_close;
	err = index_open(l->sb, l->lane, l->alloc, deadline_ns, &l->index);
	if (err)
		goto err_close;
	index_set_prefix(l->index, r->prefix);
	return 0;

err_close:
	memory_close(l);
	return err;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void fds_close(const struct connect_result *r)
{
	close_fd(r->meta_fd);
	close_fd(r->data_fd);
	close_fd(r->heat_fd);
	close_fd(r->tether_fd);
}

/*
 * The session holds no blocks and has unmapped the region: say BYE. If the server has cut the
 * session off in the meantime, the tether tells the server the same.
 */
static void leave(const struct connect_result *r)
{
	channel_untie(r->channel);
	(void)send_bare(r->channel, MSG_BYE, 0);
	channel_close(r->channel);
}

int conn_open(const struct connect_params *p, struct conn *out)
{
	struct connect_result r;
	struct conn l = {0};
	int err;

	err = connect_open(p, &r);
	if (err)
		return err;
	r.channel->outlives = r.outlives;
	if (r.outlives && !r.by_verbs)
		snprintf(r.channel->next_server, sizeof(r.channel->next_server), "%s",
			 p->uri->path);
	err = memory_open(&r, &l, p->deadline_ns);
	fds_close(&r);
	if (err)
		goto err_bye;
	err = session_begin(r.channel, l.sb, l.lane, l.inv, &l.session);
	if (err) {
		memory_close(&l);
		goto err_bye;
	}
	*out = l;
	return 0;

err_bye:
	leave(&r);
	return err;
}

int conn_make(const struct conn_order *o, uint64_t deadline_ns, struct conn *out)
{
	struct connect_params p = {.uri = o->uri,
				   .name = o->name,
				   .readonly = o->readonly,
				   .replaces = o->last_id,
				   .map = o->map,
				   .map_epoch = o->map_epoch,
				   .server = o->server,
				   .map_out = o->map_out,
				   .deadline_ns = deadline_ns};
	int err;

	memcpy(p.replaces_region, o->last_region, sizeof(p.replaces_region));
	err = conn_open(&p, out);
	if (err)
		return err;
	out->map_epoch = o->map_epoch;
	/* Out of memory: no locations are cached. A mapped region needs no cache. */
	if (!(out->lane->caps & XPORT_DIRECT) && o->cache_entries &&
	    (index_cache_locations(out->index, o->cache_entries) ||
	     (o->cache_bytes && index_cache_values(out->index, o->cache_bytes))))
		err_clear();
	return 0;
}

void conn_close(struct conn *l)
{
	struct channel *ch = session_free(l->session);

	/* The lane's connection belongs to the channel. */
	memory_close(l);
	if (ch)
		channel_close(ch);
	memset(l, 0, sizeof(*l));
}

/* ---- grants and requests ----------------------------------------------------------------- */

static void take_full(struct conn *l, const struct session_grants_inbox *inbox)
{
	for (uint32_t cls = 0; cls < CLASS_COUNT; cls++)
		if (inbox->full[cls / 64] >> cls % 64 & 1)
			l->waits[cls] = l->scarce[cls] = true;
	l->other_bytes = inbox->other_bytes;
	l->no_pages = inbox->no_pages;
}

/*
 * True if the server's denial of the last request counts. It does not if the request preceded the
 * waiting call, or blocks were returned after it, which the server has by now.
 */
static bool denial_counts(const struct conn *l, uint8_t cls)
{
	return !l->old_ask[cls] && l->asked_after[cls] == l->inv->returns;
}

static void take_grants(struct conn *l)
{
	struct session_grants_inbox inbox;

	session_take_grants(l->session, &inbox);
	for (struct session_grant *g = inbox.grants, *next; g; g = next) {
		next = g->next;
		if (l->alloc) /* blocks that cannot be noted go back when the session ends */
			(void)alloc_granted(l->alloc, g->cls, g->refs, g->n);
		if (g->n == 0)
			l->denied[g->cls] = denial_counts(l, g->cls);
		l->scarce[g->cls] = g->n < l->asked[g->cls];
		l->waits[g->cls] = false;
		l->old_ask[g->cls] = false;
		l->tombstone_pause_ns = 0;
		free(g);
	}
	take_full(l, &inbox);
	if (inbox.has_prefix) {
		index_set_prefix(l->index, inbox.prefix);
		l->prefix_asked = false;
	}
}

/* Not inlined: it is rarely called, and clears a message of 1 KiB. */
static __attribute__((noinline)) int grant_request(struct conn *l, uint8_t cls,
						   uint32_t n)
{
	struct msg m = {.type = MSG_GRANT_REQ};
	int err;

	m.grant_req.cls = cls;
	m.grant_req.count = UTIL_MIN(n, MSG_REFS_MAX);
	err = session_post(l->session, &m, NULL, 0);
	/* The allocator expects an answer: the request must not get lost. */
	l->unsent[cls] = err == FARKV_ETIMEDOUT ? n : 0;
	l->asked[cls] = m.grant_req.count;
	l->asked_after[cls] = l->inv->returns;
	return err;
}

int conn_ask_blocks(struct conn *l, uint8_t cls, uint64_t now,
		    uint32_t needed)
{
	uint32_t n = l->unsent[cls];

	/* Blocks that are being returned may be those that are needed. */
	if (l->inv->n_ret)
		conn_return_surplus(l);
	if (l->inv->n_ret)
		return FARKV_ETIMEDOUT;
	if (n == 0)
		n = alloc_request(l->alloc, cls, now, needed);
	if (n && l->scarce[cls])
		conn_return_deferred(l, cls);
	return n ? grant_request(l, cls, n) : 0;
}

void conn_ask_prefix(struct conn *l, uint32_t low)
{
	struct msg m = {.type = MSG_PREFIX_REQ};

	if (!l->prefix_asked && index_versions_left(l->index) < low)
		l->prefix_asked = session_post(l->session, &m, NULL, 0) == 0;
}

/* ---- blocks that go back ----------------------------------------------------- */

/* Send the blocks that inventory_pick() has prepared; never waits. */
static int return_picked(struct conn *l)
{
	struct msg m = {.type = MSG_RETURN};
	struct inventory *inv = l->inv;
	int err;

	m.blocks.state = (uint8_t)inv->ret_state;
	m.blocks.n = (uint32_t)inv->n_ret;
	err = session_post(l->session, &m, inv->ret, 0);
	if (!err)
		inventory_sent(inv);
	return err;
}

void conn_return_surplus(struct conn *l)
{
	if (l->inv && inventory_pick(l->inv, false))
		(void)return_picked(l);
}

bool conn_return_deferred(struct conn *l, uint8_t cls)
{
	struct inventory *inv = l->inv;
	bool any = false;

	while (inv->n_ret == 0 &&
	       (inv->n_ret = alloc_give_deferred(l->alloc, cls, inv->ret,
					      INVENTORY_RETURN_MAX)) > 0) {
		inv->ret_state = RETURN_DEFERRED;
		any = true;
		if (return_picked(l))
			break;
	}
	return any;
}

/* Send RETURNs until no block is left. */
static int return_all(struct conn *l)
{
	while (inventory_pick(l->inv, true)) {
		int err = return_picked(l);

		if (err)
			return err;
	}
	return 0;
}

bool conn_return_all(struct conn *l)
{
	if (!inventory_pick(l->inv, true))
		return false;
	(void)return_all(l);
	return true;
}

void conn_handle_pending(struct conn *l)
{
	struct qsbr *qsbr = session_qsbr(l->session);
	uint32_t pending;

	if (l->inv)
		inventory_lock(l->inv);
	pending = qsbr_pending(qsbr);
	session_record(l->session);
	if (pending & PENDING_GRANTS)
		take_grants(l);
	if (l->inv && (pending & PENDING_RECLAIM)) {
		(void)return_all(l);
		qsbr_clear_pending(qsbr, PENDING_RECLAIM);
	}
	if (l->inv)
		inventory_unlock(l->inv);
}

/* Take grants and return blocks; 0 if nothing is left. */
static int give_back(struct conn *l)
{
	int err;

	inventory_lock(l->inv);
	take_grants(l);
	err = return_all(l);
	inventory_unlock(l->inv);
	return err;
}

bool conn_farewell(struct conn *l, uint64_t until_ns)
{
	/* An answer that no call takes would keep session_wait() from sleeping. */
	session_call_forget(l->session);
	while (l->inv && !session_is_away(l->session)) {
		/* Read the counter first: a GRANT that is not outstanding is in the inbox. */
		bool more = session_grants_out(l->session) > 0;
		int err = give_back(l);

		if (!err && !more)
			break;
		if ((err && err != FARKV_ETIMEDOUT) ||
		    clock_now_ns() >= until_ns ||
		    (qsbr_pending(session_qsbr(l->session)) & PENDING_BROKEN))
			return false;
		if (err)
			session_wait_room(l->session, until_ns);
		else if (session_grants_out(l->session) > 0)
			session_wait(l->session, until_ns);
		/* otherwise it came meanwhile, and nothing follows */
	}
	return !session_is_away(l->session) && session_bye(l->session, until_ns);
}
