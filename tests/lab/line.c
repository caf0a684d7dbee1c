/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/connect.h"
#include "client/mapping.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/xport/xport.h"
#include "common/rdma/verbs.h"

#define OPEN_NS (20 * NS_PER_SEC)
#define LANE_NS (20 * NS_PER_SEC)
#define ROOM_MS 10

struct line {
	struct channel *ch;
	struct mapping *map; /* NULL by RDMA */
	struct xport_lane *lane;
	uint8_t *bytes;      /* LINE_BYTES_MAX of the lane's */
	struct superblock sb;
	bool over;
	uint8_t buf[MSG_MAX_BYTES];
};

/* ---- messages ---------------------------------------------------------------------- */

int line_try(struct line *l, const struct msg *m, const struct block_ref *refs)
{
	uint8_t buf[MSG_MAX_BYTES];
	size_t len;
	int rc;

	if (msg_encode(m, refs, buf, sizeof(buf), &len))
		return EINVAL;
	rc = channel_send(l->ch, buf, len);
	l->over |= rc && rc != EAGAIN;
	return rc;
}

bool line_say(struct line *l, const struct msg *m, const struct block_ref *refs)
{
	int rc;

	while ((rc = line_try(l, m, refs)) == EAGAIN && !line_over(l))
		channel_wait_room(l->ch, ROOM_MS);
	return rc == 0;
}

bool line_hear(struct line *l, struct msg *m_out, int ms)
{
	uint64_t until = clock_now_ns() + (uint64_t)ms * NS_PER_MS;

	while (!l->over) {
		ssize_t n = channel_receive(l->ch, l->buf, sizeof(l->buf), NULL);

		if (n == 0 || (n > 0 && msg_decode(l->buf, (size_t)n, m_out))) {
			l->over = true;
		} else if (n < 0) {
			if (clock_now_ns() >= until)
				return false;
			channel_wait_message(l->ch, 1);
		} else if (m_out->type == MSG_BARRIER) {
			struct msg ack = {.type = MSG_BARRIER_ACK,
					  .epoch = m_out->epoch};

			(void)line_say(l, &ack, NULL);
		} else if (m_out->type != MSG_RECLAIM) {
			return true;
		}
	}
	return false;
}

bool line_over(const struct line *l)
{
	return l->over || l->ch->reason[0];
}

uint32_t line_grant(struct line *l, uint8_t cls, uint32_t n,
		    struct block_ref *refs_out)
{
	struct msg m = {.type = MSG_GRANT_REQ, .req = 2, .grant_req = {cls, n}};

	if (!line_say(l, &m, NULL))
		return 0;
	do
		if (!line_hear(l, &m, 10000))
			return 0;
	while (m.type != MSG_GRANT);
	for (uint32_t i = 0; i < m.blocks.n; i++)
		refs_out[i] = msg_ref(&m, i);
	return m.blocks.n;
}

/* ---- the region --------------------------------------------------------------------- */

static bool lane_do(struct line *l, uint8_t opcode, uint64_t off, uint32_t len)
{
	uint64_t until = clock_now_ns() + LANE_NS;
	struct xport_chain c = {.n = 1};

	c.wr[0] = (struct xport_wr){.opcode = opcode,
				    .off = off,
				    .len = len,
				    .laddr = l->bytes};
	if (xport_post(l->lane, &c))
		return false;
	while (!c.done && clock_now_ns() < until)
		xport_poll(l->lane);
	return c.done && c.status == 0;
}

bool line_read(struct line *l, uint64_t off, void *buf, uint32_t len)
{
	if (!lane_do(l, XPORT_READ, off, len))
		return false;
	memcpy(buf, l->bytes, len);
	return true;
}

bool line_write(struct line *l, uint64_t off, const void *buf, uint32_t len)
{
	memcpy(l->bytes, buf, len);
	return lane_do(l, XPORT_WRITE, off, len);
}

const struct superblock *line_superblock(const struct line *l)
{
	return &l->sb;
}

/*
 * ---- setup and teardown
 * ----------------------------------------------------------------
 */

static int lane_by_map(struct line *l, const struct connect_result *r)
{
	struct mapping_spec spec = {.region_id = {r->region_id[0],
						  r->region_id[1]},
				    .region_bytes = r->region_bytes,
				    .meta_bytes = r->meta_bytes,
				    .grace_ns = r->grace_ns,
				    .meta_fd = r->meta_fd,
				    .data_fd = r->data_fd,
				    .heat_fd = r->heat_fd,
				    .heat_bytes = r->heat_bytes,
				    .readonly = r->readonly,
				    .peer_may_kill = r->peer_may_kill};
	int err = mapping_get(&spec, &l->map);

	if (!err)
		l->lane = xport_shm_open(mapping_base(l->map), r->region_bytes,
					 r->readonly);
	return err;
}

static int lane_by_verbs(struct line *l, const struct connect_result *r)
{
	struct verbs_lane_params p = {.areas = r->areas,
				      .n_areas = 2,
				      .region_bytes = r->region_bytes,
				      .session = r->session,
				      .token = r->token,
				      .readonly = r->readonly,
				      .read8_atomic = r->read8_atomic,
				      .deadline_ns = clock_now_ns() + OPEN_NS};

	return xport_verbs->lane_open(channel_verbs_ctrl(r->channel), &p, &l->lane);
}

static bool region_open(struct line *l, const struct connect_result *r)
{
	static const struct msg ready = {.type = MSG_READY};

	if (!r->by_verbs && mapping_tether(r->tether_fd, r->peer_may_kill, &l->ch->tether))
		return false;
	if (r->by_verbs ? lane_by_verbs(l, r) : lane_by_map(l, r))
		return false;
	if (!l->lane || !line_say(l, &ready, NULL))
		return false;
	l->bytes = xport_mem_alloc(l->lane, LINE_BYTES_MAX);
	return l->bytes && line_read(l, 0, &l->sb, sizeof(l->sb));
}

struct line *line_open(const char *text, bool readonly)
{
	struct line *l = calloc(1, sizeof(*l));
	struct connect_result r;
	struct uri uri;
	struct connect_params p = {.uri = &uri,
				   .name = "line",
				   .readonly = readonly,
				   .deadline_ns = clock_now_ns() + OPEN_NS};
	bool ok;

	if (!l || uri_resolve(text, &uri) || connect_open(&p, &r)) {
		free(l);
		return NULL;
	}
	l->ch = r.channel;
	ok = region_open(l, &r);
	if (!r.by_verbs) {
		close(r.meta_fd);
		close(r.data_fd);
		close(r.tether_fd);
	}
	if (ok)
		return l;
	line_close(l);
	return NULL;
}

void line_close(struct line *l)
{
	if (!l)
		return;
	xport_close(l->lane);
	mapping_put(l->map);
	channel_close(l->ch);
	free(l);
}
