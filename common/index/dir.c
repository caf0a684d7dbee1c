/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "dir.h"

#include <farkv.h>

#include "common/base/err.h"

/* Two words, on a line of their own. */
#define DIR_SCRATCH_BYTES 64u

int dir_run_chains(struct index *ix, struct xport_chain *c, unsigned n,
		   uint64_t deadline_ns)
{
	int err;

	for (unsigned i = 0; i < n; i++)
		c[i].next = i + 1 < n ? &c[i + 1] : NULL;
	err = xport_post(ix->lane, c);
	if (err)
		return err;
	ix->lane->counters.round_trips++;
	while (!c[n - 1].done) {
		xport_poll(ix->lane);
		if (!c[n - 1].done && index_now(ix) > deadline_ns) {
			xport_break(ix->lane, FARKV_ETIMEDOUT);
			/* Make the lane forget the chains. */
			xport_poll(ix->lane);
			return err_set(FARKV_ETIMEDOUT,
				       "the index could not be read in time");
		}
	}
	for (unsigned i = 0; i < n; i++)
		if (c[i].status)
			return c[i].status;
	return 0;
}

static struct xport_wr read_wr(uint64_t off, void *laddr, uint64_t len)
{
	return (struct xport_wr){.opcode = XPORT_READ,
				 .off = off,
				 .laddr = laddr,
				 .len = (uint32_t)len};
}

static int dirword_check(const struct index *ix, uint64_t d)
{
	uint32_t depth = dirword_depth(d);
	uint64_t off = dirword_off(d);

	if (!(d & DIR_VALID) || depth > DIR_DEPTH_MAX || off % 8 ||
	    off < REGION_DIR_OFF || off > ix->sb.session_table_off ||
	    (UINT64_C(8) << depth) > ix->sb.session_table_off - off)
		return err_set(FARKV_EFORMAT,
			       "region: directory word 0x%016llx is impossible",
			       (unsigned long long)d);
	return 0;
}

static int entries_reserve(struct index *ix, size_t bytes)
{
	void *p;

	if (bytes <= ix->entries_bytes)
		return 0;
	p = xport_mem_alloc(ix->lane, bytes);
	if (!p)
		return err_set(FARKV_ENOMEM,
			       "no memory for a directory of %zu bytes", bytes);
	xport_mem_free(ix->lane, ix->entries, ix->entries_bytes);
	ix->entries = p;
	ix->entries_bytes = bytes;
	return 0;
}

int dir_refill(struct index *ix, uint64_t deadline_ns)
{
	uint64_t *d;

	if (!ix->dir_scratch)
		ix->dir_scratch = xport_mem_alloc(ix->lane, DIR_SCRATCH_BYTES);
	if (!ix->dir_scratch)
		return err_set(FARKV_ENOMEM, "no memory for an index");
	d = ix->dir_scratch;
	ix->dirword = 0;
	for (;;) {
		struct xport_chain c = {.n = 1};
		size_t bytes;
		int err;

		c.wr[0] = read_wr(REGION_D_OFF, &d[0], 8);
		err = dir_run_chains(ix, &c, 1, deadline_ns);
		if (!err)
			err = dirword_check(ix, d[0]);
		if (err)
			return err;
		bytes = (size_t)8 << dirword_depth(d[0]);
		err = entries_reserve(ix, bytes);
		if (err)
			return err;
		c = (struct xport_chain){.n = 2};
		c.wr[0] = read_wr(dirword_off(d[0]), ix->entries, bytes);
		c.wr[1] = read_wr(REGION_D_OFF, &d[1], 8);
		err = dir_run_chains(ix, &c, 1, deadline_ns);
		if (err)
			return err;
		if (d[0] == d[1])
			break;
		if (index_now(ix) > deadline_ns)
			return FARKV_ETIMEDOUT;
		ix->retries++;
	}
	ix->dirword = d[0];
	return 0;
}

void dir_free(struct index *ix)
{
	xport_mem_free(ix->lane, ix->entries, ix->entries_bytes);
	xport_mem_free(ix->lane, ix->dir_scratch, DIR_SCRATCH_BYTES);
}

bool dir_find(struct index *ix, struct index_op *op, uint64_t deadline_ns,
	      enum next *next_out)
{
	if (!ix->dirword) {
		int err = dir_refill(ix, deadline_ns);

		if (err) {
			*next_out = op_done(ix, op, err);
			return false;
		}
	}
	op->dirword = ix->dirword;
	op->dir_index = hash_dir_index(op->key.hash,
				       dirword_depth(op->dirword));
	op->entry = ix->entries[op->dir_index];
	if (!(op->entry & ENTRY_VALID) ||
	    !region_page_ok(&ix->sb, entry_page(op->entry))) {
		ix->dirword = 0;
		*next_out = op_again_bounded(ix, op,
					     "a directory entry names no page of the region");
		return false;
	}
	return true;
}

/* ---- MOVED: has the key's subtable been replaced? --------------------------- */

enum dir_fate dir_judge(struct index *ix, const struct dir_place *p, const uint64_t words[4])
{
	bool cached = ix->dirword == p->dirword;

	if (words[0] != words[3] || words[0] != p->dirword) {
		if (cached)
			ix->dirword = 0; /* refill */
		return DIR_DOUBLED;
	}
	if (words[2] && words[1] != words[2])
		return DIR_TORN;
	if (entry_page(words[1]) == entry_page(p->entry) &&
	    entry_gen(words[1]) == entry_gen(p->entry))
		return DIR_HERE;
	if (cached)
		ix->entries[p->index] = words[1];
	return DIR_MOVED;
}

/*
 * Decide where the operation continues. The window's words were READ before the entry: if the entry
 * still leads here, they were current when they were READ.
 */
enum next dir_look(struct index *ix, struct index_op *op)
{
	uint64_t *s = op_scratch(op);
	uint64_t entry_off = dirword_off(op->dirword) + op->dir_index * 8;

	op_chain_begin(op, OP_MOVED);
	op_chain_add(op, XPORT_READ, REGION_D_OFF, &s[0], 8);
	op_chain_add(op, XPORT_READ, entry_off, &s[1], 8);
	if (ix->lane->caps & XPORT_READ8_ATOMIC)
		s[2] = 0;
	else
		op_chain_add(op, XPORT_READ, entry_off, &s[2], 8);
	op_chain_add(op, XPORT_READ, REGION_D_OFF, &s[3], 8);
	return NEXT_POST;
}

enum next dir_looked(struct index *ix, struct index_op *op)
{
	const struct dir_place here = {op->dirword, op->dir_index, op->entry};

	switch (dir_judge(ix, &here, op_scratch(op))) {
	case DIR_DOUBLED:
		return op_again_bounded(ix, op, "the directory keeps changing");
	case DIR_TORN:
		return op_again_bounded(ix, op, "a directory entry keeps changing");
	case DIR_MOVED:
		return op_again(ix, op);
	case DIR_HERE:
		break;
	}
	if (op->moved.odd)
		return op_again_bounded(ix, op, "a slot of another subtable");
	/*
	 * An operation that resolves a CAS must not leave the critical section: a barrier does not
	 * know its words.
	 */
	if (!kind_reads(op->kind) && op->doubt != DOUBT_RESOLVING)
		return op_wait(ix, op, INDEX_WAIT_FROZEN);
	op->search.accept_frozen = true;
	return NEXT_WALK;
}
