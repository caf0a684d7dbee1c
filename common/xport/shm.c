/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport within one host: the region is mapped; requests are loads, stores and CAS
 * of the calling CPU. Every chain is done when post returns.
 *
 * Aligned 8-byte words never tear: READs that start and end aligned copy word by word. The
 * counters count requests as a network card does.
 */
#include "config.h"

#include "xport.h"

#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/atomic.h"
#include "common/base/util.h"

/*
 * Copy from the region. Aligned requests (windows, slots, the directory) load whole words
 * with acquire, so that a word that refers to a block makes the block's bytes visible. All
 * other requests read blocks, which nobody writes while a slot refers to them.
 */
static void shm_read(void *dst, const uint8_t *src, uint32_t len)
{
	if (((uintptr_t)src | len) % 8 == 0) {
		const uint64_t *from = (const uint64_t *)(const void *)src;
		uint8_t *to = dst;

		for (uint32_t i = 0; i < len / 8; i++) {
			uint64_t w = atom_load_follow(&from[i]);

			memcpy(to + (size_t)i * 8, &w, 8);
		}
		return;
	}
	atom_copy_block(dst, src, len);
}

/* Only blocks are read with a segment. */
static void shm_read_split(const struct xport_wr *wr, const uint8_t *src)
{
	uint8_t *to = wr->laddr;
	uint32_t after = wr->seg_at + wr->seg_len;

	atom_copy_block(to, src, wr->seg_at);
	atom_copy_block(wr->seg, src + wr->seg_at, wr->seg_len);
	atom_copy_block(to + wr->seg_at, src + after, wr->len - after);
}

static void shm_execute(struct xport_lane *lane, struct xport_wr *wr)
{
	uint8_t *target = lane->base + wr->off;

	switch (wr->opcode) {
	case XPORT_READ:
		if (wr->seg_len)
			shm_read_split(wr, target);
		else
			shm_read(wr->laddr, target, wr->len);
		lane->counters.reads++;
		lane->counters.read_bytes += wr->len;
		break;
	case XPORT_WRITE:
		if (wr->laddr != target)
			xport_gather(wr, target);
		lane->counters.writes++;
		lane->counters.write_bytes += wr->len;
		break;
	default:
		wr->found = atom_cas_u64((uint64_t *)(void *)target, wr->expect,
					 wr->swap);
		lane->counters.cas++;
		break;
	}
}

static int shm_post(struct xport_lane *lane, struct xport_chain *first)
{
	int broken = xport_broken(lane);
	int err = xport_check(lane, first);

	if (err)
		return err;
	if (!broken)
		lane->counters.doorbells++;
	for (struct xport_chain *c = first; c; c = c->next) {
		c->status = broken;
		c->n_done = 0;
		if (!broken) {
			for (unsigned i = 0; i < c->n; i++)
				shm_execute(lane, &c->wr[i]);
			c->n_done = c->n;
		}
		c->done = true;
	}
	return 0;
}

static void shm_poll(struct xport_lane *lane)
{
	(void)lane;
}

static void *shm_mem_alloc(struct xport_lane *lane, size_t bytes)
{
	(void)lane;
	return aligned_alloc(64, util_align_up(bytes, 64));
}

static void shm_mem_free(struct xport_lane *lane, void *mem, size_t bytes)
{
	(void)lane;
	(void)bytes;
	free(mem);
}

static void shm_close(struct xport_lane *lane)
{
	free(lane);
}

static const struct xport_ops shm_ops = {
	.name = "shm",
	.post = shm_post,
	.poll = shm_poll,
	.mem_alloc = shm_mem_alloc,
	.mem_free = shm_mem_free,
	.close = shm_close,
};

struct xport_lane *xport_shm_open(void *base, uint64_t region_bytes,
				  bool readonly)
{
	struct xport_lane *lane = calloc(1, sizeof(*lane));

	if (!lane)
		return NULL;
	lane->ops = &shm_ops;
	lane->base = base;
	lane->region_bytes = region_bytes;
	lane->caps = XPORT_DIRECT | XPORT_READ8_ATOMIC | XPORT_ANY_MEM |
		     XPORT_SEGMENTS |
		     (readonly ? XPORT_READONLY :
				 XPORT_DIRECT_STORE | XPORT_AT_ONCE);
	return lane;
}
