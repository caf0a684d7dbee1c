/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RETURN: blocks come back. Before the allocator takes one, its key is hashed, to see
 * whether a slot names it (published()). That costs what the sender likes: 1024 blocks
 * with keys of 65,000 bytes take 24 ms. So a RETURN is worked off in slices, one between
 * two rounds of the event loop, in turn among the sessions that have sent one. Until
 * it is through nothing else is taken from its session (session_may_take()), so that
 * messages keep their order.
 */
#include "config.h"

#include "returns.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "common/region/block.h"
#include "server/memory/slab_marks.h"

#include "barrier.h"
#include "core.h"
#include "session.h"
#include "sweep.h"

/* Bytes read in one slice: some 50 us. A usual RETURN needs less. */
#define SLICE_BYTES (128u << 10)
/* Least bytes that a block counts for, because of its cache misses. */
#define BLOCK_BYTES 128u
/*
 * A client that keeps the rules returns a block in use only if another client has damaged the
 * index by naming the block in a second slot: once per such slot.
 */
#define IN_USE_MAX 256u
#define IN_USE_NS (60 * NS_PER_SEC)

struct unfinished {
	TAILQ_ENTRY(unfinished) link;
	struct session *session;
	uint8_t state; /* enum return_kind */
	uint32_t n, at;
	uint32_t in_use; /* blocks that the index names */
	const struct block_ref *refs; /* n of them */
};

enum progress { DONE, MORE, SESSION_GONE };

/*
 * Does the index name a block that comes back?
 *
 * The allocator knows which blocks are out, not which session has them: clients take over what
 * they unlink. So a client could return another's block, and it would be granted to a
 * third while a key's slot still names it. A block says whose it is: by its key its
 * slot is found, if it has one.
 *
 * True if a slot of its key's window names the block that starts at ref.off, of class
 * ref.cls, with the content that it has now; false also if it has none that is intact.
 * The block must lie in the data area. Cost: two or three cache misses, and a look at
 * its key; how many bytes of the block were read is added to *read.
 */
static bool published(const struct region *r, struct block_ref ref, size_t *read)
{
	/* Clients may write there: lengths are read once, the key from a copy. */
	static uint8_t image[BLOCK_HEADER_BYTES + UINT16_MAX];
	const uint8_t *src = region_at(r, ref.off);
	const uint64_t *slots;
	struct block_header h;
	uint64_t hash;
	size_t have;

	memcpy(&h, src, sizeof(h));
	atom_compiler_barrier();
	have = UTIL_MIN(sizeof(h) + (size_t)h.key_len,
			(size_t)class_bytes(ref.cls));
	memcpy(image, src, have);
	*read += have;
	ref.inc = h.inc_flags & BLOCK_INC_MASK;
	if (!block_key_hash(image, have, ref, r->sb.hash_seed, &hash))
		return false;
	slots = region_slots(r, region_entry(r, hash)) +
		hash_home_line(hash) * LINE_SLOTS;
	for (unsigned i = 0; i < WINDOW_SLOTS; i++) {
		uint64_t w = atom_load_relaxed(&slots[i]);

		if (slot_off(w) == ref.off && slot_inc(w) == ref.inc)
			return true;
	}
	return false;
}

/*
 * Blocks that slots name stay where they are. The session is not at fault: it may have them
 * from a slot that another client has damaged.
 */
static void still_in_use(struct session *s, uint32_t n)
{
	struct control *c = s->control;
	char peer[80];

	c->counts.protocol_errors++;
	if (core_complaint_due(c))
		log_warn("session %u (%s) returned %u blocks that the index "
			 "names: they are kept; a client does not keep the "
			 "rules", s->id, session_peer(s, peer), n);
}

/* False: the session is gone. Adds the bytes read to *read. */
static bool take_one(struct unfinished *u, struct block_ref ref, size_t *read)
{
	struct session *s = u->session;
	struct control *c = s->control;
	uint64_t now = clock_now_ns();

	*read += BLOCK_BYTES;
	if (slab_is_out(c->slab, ref) && published(c->region, ref, read)) {
		u->in_use++;
		if (rate_limit_take(&s->in_use, IN_USE_MAX, IN_USE_NS, now))
			return true;
		session_refuse(s, MSG_REASON_PROTOCOL,
			       "too many blocks were returned that the index "
			       "names");
		return false;
	}
	if (slab_return(c->slab, ref, (enum return_kind)u->state, now))
		return true;
	session_refuse(s, MSG_REASON_PROTOCOL,
		       "a block was returned that is not out");
	return false;
}

/* Returned blocks that could not be noted stay out; a sweep finds them later. */
static void look_for_forgotten(struct control *c)
{
	uint64_t n = slab_forgotten(c->slab);

	if (n == c->returns->forgotten)
		return;
	if (core_complaint_due(c))
		log_warn("no memory to note %" PRIu64 " blocks that came back: "
			 "they stay unused until a sweep", n - c->returns->forgotten);
	c->returns->forgotten = n;
	sweep_lost(c);
}

/* Effects of the whole RETURN. */
static void finish(struct unfinished *u)
{
	struct control *c = u->session->control;

	look_for_forgotten(c);
	if (u->in_use)
		still_in_use(u->session, u->in_use);
	if (u->state == RETURN_EXHAUSTED)
		barrier_want(c);
	core_memory_freed(c);
}

/* Handle one slice. */
static enum progress take_some(struct unfinished *u)
{
	size_t read = 0;

	for (; u->at < u->n; u->at++) {
		if (read >= SLICE_BYTES)
			return MORE;
		if (!take_one(u, u->refs[u->at], &read))
			return SESSION_GONE;
	}
	finish(u);
	return DONE;
}

/* ---- RETURNs that take more than one slice --------------------------------------------- */

/* NULL if out of memory. */
static struct unfinished *keep(const struct unfinished *u)
{
	size_t bytes = (u->n - u->at) * sizeof(*u->refs);
	struct unfinished *copy = malloc(sizeof(*copy) + bytes);

	if (!copy)
		return NULL;
	*copy = *u;
	copy->refs = memcpy(copy + 1, u->refs + u->at, bytes);
	copy->n -= u->at;
	copy->at = 0;
	TAILQ_INSERT_TAIL(&u->session->control->returns->unfinished, copy, link);
	u->session->unfinished = copy;
	return copy;
}

static void drop(struct unfinished *u)
{
	TAILQ_REMOVE(&u->session->control->returns->unfinished, u, link);
	u->session->unfinished = NULL;
	free(u);
}

/* One slice for each session in turn. */
static bool on_work(void *arg, uint64_t until_ns)
{
	struct control *c = arg;
	struct unfinished *u;

	while ((u = TAILQ_FIRST(&c->returns->unfinished))) {
		TAILQ_REMOVE(&c->returns->unfinished, u, link);
		TAILQ_INSERT_TAIL(&c->returns->unfinished, u, link);
		/* If the session has ended `u` is gone, too. */
		if (take_some(u) == DONE)
			drop(u);
		if (clock_now_ns() >= until_ns)
			break;
	}
	return !TAILQ_EMPTY(&c->returns->unfinished);
}

bool returns_on_message(struct session *s, const struct msg *m)
{
	struct block_ref refs[MSG_REFS_MAX];
	struct unfinished u = {.session = s,
			       .state = m->blocks.state,
			       .n = m->blocks.n,
			       .refs = refs};
	enum progress p;

	/* It was granted none: these belong to another session. */
	if (s->readonly) {
		session_refuse(s, MSG_REASON_PERMISSION,
			       "a read-only session returned memory");
		return false;
	}
	for (uint32_t i = 0; i < u.n; i++)
		refs[i] = msg_ref(m, i);
	p = take_some(&u);
	if (p == MORE && keep(&u))
		work_start(&s->control->work, &s->control->returns->work);
	else
		while (p == MORE) /* no memory to continue later */
			p = take_some(&u);
	return p != SESSION_GONE;
}

bool returns_finish(struct session *s)
{
	struct unfinished *u = s->unfinished;
	enum progress p = MORE;

	while (u && p == MORE)
		p = take_some(u);
	if (u && p == DONE)
		drop(u);
	return p != SESSION_GONE;
}

static void session_ended(struct session *s)
{
	if (s->unfinished)
		drop(s->unfinished);
}

static bool init(struct control *c)
{
	c->returns = calloc(1, sizeof(*c->returns));
	if (!c->returns)
		return false;
	TAILQ_INIT(&c->returns->unfinished);
	c->returns->work = (struct work){.step = on_work, .arg = c, .kind = MSG_PAUSE_RETURNS};
	return true;
}

static void fini(struct control *c)
{
	free(c->returns);
}

const struct loop_module returns_module = {
	.init = init,
	.fini = fini,
	.session_ended = session_ended, /* blocks of its unfinished RETURN stay out */
};
