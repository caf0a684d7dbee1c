/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * xport_verbs_lane.h - the inside of a lane: for xport_verbs_lane.c, which posts, polls
 * and ends it, and xport_verbs_fill.c, which makes its work requests.
 */
#ifndef COMMON_XPORT_VERBS_LANE_H
#define COMMON_XPORT_VERBS_LANE_H

#include <sys/types.h>

#include "xport_verbs_priv.h"

#define VERBS_POST_MAX 64u /* work requests of one doorbell */

/** One work request under way. */
struct verbs_flight {
	struct xport_chain *chain;
	uint8_t wr;
	bool last;  /* of its request: a long one is cut in pieces */
	void *mark; /* the last 8 bytes that its answer brings; or NULL */
};

struct verbs_lane {
	struct xport_lane base;
	struct verbs_conn conn;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_comp_channel *events; /* of cq; NULL: nobody waits */
	bool armed;  /* the next completion is told, or the last one was */
	bool reaped; /* ... and there have been some since */
	struct verbs_mem mem;
	struct verbs_area areas[VERBS_AREAS_MAX];
	const struct verbs_area *area; /* where the last request went */
	uint32_t n_areas;
	uint32_t depth;    /* of the send queue: a power of two */
	uint64_t max_piece;
	pid_t pid;         /* of the process that may talk to the device */
	const char *why;   /* it broke; NULL: for a reason of its user's */

	uint64_t head, tail; /* requests posted, known to be over */
	struct verbs_flight *flight; /* depth of them */
	uint64_t *found;       /* lane memory: results of CAS, depth of them */
	uint32_t found_lkey;
	uint64_t blank;        /* what stands at marks: no memory holds it */

	/* Chains that found no room in the queue yet, and where they stand. */
	struct xport_chain *queue, **queue_end;
	unsigned queue_wr;
	uint64_t queue_at; /* bytes of that request that are posted */
	uint64_t now_ns;   /* what is begun has waited until now; 0: not at all */

	/* Where a doorbell's list is made; what no request sets stays 0. */
	struct ibv_send_wr list[VERBS_POST_MAX];
	struct ibv_sge sges[VERBS_POST_MAX][VERBS_SGES]; /* of each what it moves */
};

/** The area that `off` lies in; NULL if none. */
static inline const struct verbs_area *verbs_area_find(const struct verbs_lane *l,
						       uint64_t off)
{
	for (uint32_t i = 0; i < l->n_areas; i++)
		if (off - l->areas[i].off < l->areas[i].bytes)
			return &l->areas[i];
	return NULL;
}

/**
 * The area that all these bytes lie in, mostly the last request's; NULL if they do not
 * lie in one.
 */
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

/** The area of a request that was posted: one that verbs_area_of() has found. */
static inline const struct verbs_area *verbs_area_at(const struct verbs_lane *l,
						     uint64_t off)
{
	const struct verbs_area *a = l->area;

	return off - a->off < a->bytes ? a : verbs_area_find(l, off);
}

/**
 * Move requests from the queue into list[], up to `most` work requests, at most
 * VERBS_POST_MAX and what the send queue has room for; returns how many. They are
 * linked, the last one with whatever stands behind it in list[], none reports, and each
 * has its flight: `head` counts them. The caller ends the list and posts it at once.
 * Every request of the queue lies in one area.
 */
unsigned verbs_fill(struct verbs_lane *l, unsigned most);

#endif
