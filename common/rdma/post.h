/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * post.h - a lane's state and its work requests. Private to post.c and
 * lane.c.
 */
#ifndef COMMON_RDMA_POST_H
#define COMMON_RDMA_POST_H

#include <sys/types.h>

#include "conn.h"
#include "memory.h"

#define VERBS_POST_MAX 64u /* work requests of one doorbell */

/** One work request in flight. */
struct verbs_flight {
	struct xport_chain *chain;
	uint8_t wr;
	bool last;  /* last of its request; long requests are split */
	void *sentinel; /* last 8 bytes of the response; or NULL */
};

struct verbs_lane {
	struct xport_lane base;
	struct verbs_conn conn;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_comp_channel *events; /* of cq; NULL: polling only */
	bool armed;  /* an event is there or will come */
	bool reaped; /* CQEs were polled since arming */
	struct verbs_mem mem;
	struct verbs_area areas[VERBS_AREAS_MAX];
	const struct verbs_area *area; /* area of the last request */
	uint32_t n_areas;
	uint32_t depth;    /* of the send queue, a power of two */
	uint64_t max_piece;
	pid_t pid;         /* process that opened it; its forked children must not use it */
	const char *why;   /* why it broke; NULL: not by a failure */

	uint64_t head, tail; /* work requests posted, finished */
	struct verbs_flight *flight; /* `depth` entries */
	uint64_t *found;       /* lane memory: CAS results, `depth` entries */
	uint32_t found_lkey;
	uint64_t blank;        /* value of the sentinels: random, so that no memory
				  holds it by chance */

	/* Chains that wait for space in the send queue, and the position in the first one. */
	struct xport_chain *queue, **queue_end;
	unsigned queue_wr;
	uint64_t queue_at; /* bytes of that request already posted */
	uint64_t now_ns;   /* begun_ns of chains that had to wait; 0: none waited */

	/* The list of one doorbell; fields that no request sets stay 0. */
	struct ibv_send_wr list[VERBS_POST_MAX];
	struct ibv_sge sges[VERBS_POST_MAX][VERBS_SGES]; /* SGEs of each list entry */
};

/** The area that contains `off`; NULL if none. */
static inline const struct verbs_area *verbs_area_find(const struct verbs_lane *l,
						       uint64_t off)
{
	for (uint32_t i = 0; i < l->n_areas; i++)
		if (off - l->areas[i].off < l->areas[i].bytes)
			return &l->areas[i];
	return NULL;
}

/** The area that contains all these bytes; NULL if none. Tries the last one first. */
static inline const struct verbs_area *verbs_area_of(struct verbs_lane *l,
						     uint64_t off, uint64_t len)
{
	const struct verbs_area *a = l->area;

	if (off - a->off >= a->bytes) {
		a = verbs_area_find(l, off);
		if (!a)
			return NULL;
		l->area = a;
	}
	return len <= a->bytes - (off - a->off) ? a : NULL;
}

/** The area of a posted request, which verbs_area_of() has checked. */
static inline const struct verbs_area *verbs_area_at(const struct verbs_lane *l,
						     uint64_t off)
{
	const struct verbs_area *a = l->area;

	return off - a->off < a->bytes ? a : verbs_area_find(l, off);
}

/**
 * Build at most `most` work requests (and VERBS_POST_MAX, and space in the send queue) from
 * the queue in list[]; returns how many. They are linked, unsignaled, and counted in
 * `head`, each with its flight. The caller terminates the list and posts it at once. Every
 * request of the queue must lie in one area.
 */
unsigned verbs_fill(struct verbs_lane *l, unsigned most);

#endif
