/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "step_lane.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/err.h"
#include "marks.h"

/* More polls in a row than any deadline of a test takes, on a stalled lane. */
#define STILL_POLLS 20000000u

static struct xport_chain *take(struct step_lane *l)
{
	struct xport_chain *c = l->queue;

	l->queue = c->next;
	if (!l->queue)
		l->end = &l->queue;
	l->waiting--;
	return c;
}

static void carry_out(struct step_lane *l, struct xport_chain *c)
{
	struct xport_chain one = *c;

	one.next = NULL;
	(void)xport_post(l->inner, &one);
	one.next = c->next;
	*c = one;
	l->lane.counters.reads = l->inner->counters.reads;
	l->lane.counters.cas = l->inner->counters.cas;
}

static int post(struct xport_lane *lane, struct xport_chain *first)
{
	struct step_lane *l = (struct step_lane *)lane;
	int err = xport_check(lane, first);

	if (err)
		return err;
	l->posts++;
	lane->counters.doorbells++;
	*l->end = first;
	for (struct xport_chain *c = first; c; c = c->next) {
		c->done = false;
		l->end = &c->next;
		l->waiting++;
	}
	return 0;
}

/* It raises an event for these too, and nobody reads its events any more. */
static void end_all(struct step_lane *l)
{
	if (l->queue && l->armed)
		(void)eventfd_write(l->fd, 1);
	l->armed &= !l->queue;
	while (l->queue) {
		struct xport_chain *c = take(l);

		c->n_done = 0;
		c->status = FARKV_EDISCONNECTED;
		c->done = true;
	}
}

static void poll_lane(struct xport_lane *lane)
{
	struct step_lane *l = (struct step_lane *)lane;

	l->polls++;
	l->in_vain = l->still ? l->in_vain + 1 : 0;
	if (l->in_vain >= STILL_POLLS)
		ck_abort_msg("the lane stands still, and somebody waits for it, "
			     "with %u chains", l->waiting);
	if (l->last_word && l->queue && !l->over)
		xport_break(lane, err_set(FARKV_EDISCONNECTED, "%s",
					  l->last_word));
	if (xport_broken(lane))
		end_all(l);
	while (l->queue && !l->still && (l->fd < 0 || l->over)) {
		l->over -= l->fd >= 0;
		carry_out(l, take(l));
		if (!l->at_once)
			break;
	}
}

void step_lane_card(struct step_lane *l, unsigned n)
{
	l->over += n;
	if (l->armed)
		(void)eventfd_write(l->fd, 1);
	l->armed = false;
}

static int wait_fd(const struct xport_lane *lane)
{
	return ((const struct step_lane *)lane)->fd;
}

static void arm(struct xport_lane *lane, bool on)
{
	struct step_lane *l = (struct step_lane *)lane;
	eventfd_t n;

	if (l->fd < 0)
		return;
	if (on && l->unarmable)
		xport_break(lane, err_set(FARKV_EDISCONNECTED,
					  "the card cannot be armed"));
	(void)eventfd_read(l->fd, &n);
	l->over += on ? l->slip : 0;
	l->slip = on ? 0 : l->slip;
	l->arms += on && !l->armed;
	l->armed |= on;
}

static void *mem_alloc(struct xport_lane *lane, size_t bytes)
{
	return xport_mem_alloc(((struct step_lane *)lane)->inner, bytes);
}

static void mem_free(struct xport_lane *lane, void *mem, size_t bytes)
{
	xport_mem_free(((struct step_lane *)lane)->inner, mem, bytes);
}

static void close_lane(struct xport_lane *lane)
{
	xport_close(((struct step_lane *)lane)->inner);
	if (((struct step_lane *)lane)->fd >= 0)
		close(((struct step_lane *)lane)->fd);
	free(lane);
}

static const struct xport_ops ops = {
	.name = "step",
	.post = post,
	.poll = poll_lane,
	.wait_fd = wait_fd,
	.arm = arm,
	.mem_alloc = mem_alloc,
	.mem_free = mem_free,
	.close = close_lane,
};

struct step_lane *step_lane_open(struct xport_lane *inner)
{
	struct step_lane *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->inner = inner;
	l->fd = -1;
	l->end = &l->queue;
	l->lane.ops = &ops;
	l->lane.region_bytes = inner->region_bytes;
	l->lane.caps = inner->caps &
		       ~(uint32_t)(XPORT_DIRECT | XPORT_DIRECT_STORE |
				   XPORT_AT_ONCE);
	return l;
}

struct step_lane *step_lane_open_card(struct xport_lane *inner)
{
	struct step_lane *l = step_lane_open(inner);

	if (!l)
		return NULL;
	l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	l->over = UINT32_MAX / 2;
	return l;
}
