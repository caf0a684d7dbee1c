/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Round trips of an operation that starts from the cache: one, if no other session has written the
 * key since it was cached:
 *
 *   get                                    READ slot; READ block, unless that is cached
 *   put; others that would change the word WRITE block; CAS slot
 *   exists, and others                     READ slot; of a value that expires READ its header
 *   put and add of a new key, by a cached  WRITE block; CAS slot
 *   window
 *
 * The READ of the slot or the CAS shows whether the cache was right. If not, the operation
 * continues with the word that was found, or searches (index/step.c). doc/protocol.md, section
 * "What is remembered", proves this.
 */
#include "config.h"

#include "cached.h"

#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/err.h"
#include "expiry.h"
#include "heat.h"
#include "location.h"
#include "value_cache.h"

/* After this many looks at a slot that keeps changing, search. */
#define LOOKS_MAX 2u

/* Images of windows, direct-mapped by offset. */
#define IMAGES 64u

struct image {
	uint64_t off; /* of the window; 0: none */
	uint64_t words[WINDOW_SLOTS];
};

struct cached {
	struct location_cache *locations;
	struct location_counters count;
	struct value_cache *values; /* NULL: none */
	struct image image[IMAGES];
};

struct cached *cached_new(size_t entries)
{
	struct cached *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->locations = location_cache_new(entries);
	if (!w->locations) {
		free(w);
		return NULL;
	}
	return w;
}

void cached_free(struct cached *w)
{
	if (!w)
		return;
	value_cache_free(w->values);
	location_cache_free(w->locations);
	free(w);
}

bool cached_add_values(struct cached *w, size_t bytes)
{
	w->values = value_cache_new(bytes);
	return w->values != NULL;
}

void cached_drop(struct cached *w)
{
	location_drop(w->locations);
	if (w->values)
		value_cache_drop(w->values);
	for (unsigned i = 0; i < IMAGES; i++)
		w->image[i].off = 0;
}

const struct location_counters *cached_counters(const struct cached *w)
{
	return &w->count;
}

/* ---- what is cached -------------------------------------------------------- */

static struct location *find(struct index *ix, const struct index_op *op)
{
	return location_find(ix->cached->locations, op->key.hash, op->key.data,
			     op->key.len);
}

/*
 * The location that led the operation to its slot; NULL if it belongs to another key with the same
 * first hash.
 */
static struct location *find_own(struct index *ix, const struct index_op *op)
{
	struct location *l = find(ix, op);

	return l && l->slot == op->cached.slot ? l : NULL;
}

void cached_store(struct index *ix, const struct index_op *op, uint64_t word,
		uint64_t version)
{
	struct location what = {.hash = op->key.hash,
				.word = word,
				.version = version};

	/* Words of a subtable that is being migrated are about to change: cache none. */
	if (!ix->cached || op->search.accept_frozen || (word & SLOT_FROZEN))
		return;
	what.check = location_check(op->key.data, op->key.len, op->key.hash);
	what.slot = op_slot_off(op) & LOCATION_SLOT_MASK;
	what.dated = op->search.dated && !(word & SLOT_DEAD);
	what.marked = op->search.marked;
	location_store(ix->cached->locations, &what);
}

static struct image *image_at(struct cached *w, uint64_t off)
{
	return &w->image[(off / LINE_BYTES) % IMAGES];
}

void cached_image(struct index *ix, const struct index_op *op)
{
	struct image *m;

	if (!ix->cached)
		return;
	m = image_at(ix->cached, window_off(op));
	m->off = window_off(op);
	memcpy(m->words, op->window, sizeof(m->words));
}

static void cached_claimed(struct index *ix, const struct index_op *op, uint64_t word)
{
	struct image *m;

	if (!ix->cached)
		return;
	m = image_at(ix->cached, window_off(op));
	if (m->off == window_off(op))
		m->words[op->slot_at] = word;
}

/* Only a location that was wrong before has a count to update: that costs a look-up. */
static void count_hit(struct index *ix, const struct index_op *op)
{
	struct location *l = op->cached.doubted ? find(ix, op) : NULL;

	ix->cached->count.hits++;
	if (l)
		location_right(l);
}

static void count_stale(struct index *ix, const struct index_op *op)
{
	struct location *l = find_own(ix, op);

	ix->cached->count.stale++;
	if (l)
		location_wrong(l);
}

/* The slot is probably not the key's: forget the location and search. */
static enum next cached_forget(struct index *ix, struct index_op *op)
{
	struct location *l = find_own(ix, op);

	if (l)
		location_forget(l);
	op->no_cache = true;
	return op_again(ix, op);
}

/* ---- READ slot, and the block that it is believed to name ------------------------ */

/*
 * Where words tear, a slot that changed from W to W|dead and then to another word can be READ as W,
 * one half from each. A CAS of W to W shows the whole word and changes nothing; a reader without
 * the right to CAS READs twice.
 */
static void add_look(struct index *ix, struct index_op *op, uint64_t word)
{
	uint64_t *s = op_scratch(op);
	struct xport_wr *wr;

	op->look.slot_wr = op->chain.n;
	if (ix->lane->caps & XPORT_READ8_ATOMIC) {
		op_chain_add(op, XPORT_READ, op->cached.slot, &s[0], 8);
	} else if (ix->alloc) {
		wr = op_chain_add(op, XPORT_CAS, op->cached.slot, NULL, 8);
		wr->expect = wr->swap = word;
	} else {
		op_chain_add(op, XPORT_READ, op->cached.slot, &s[0], 8);
		op_chain_add(op, XPORT_READ, op->cached.slot, &s[1], 8);
	}
}

/* The word that the look showed; false if it may be torn. */
static bool word_seen(const struct index *ix, struct index_op *op,
		      uint64_t *seen_out)
{
	const uint64_t *s = op_scratch(op);

	*seen_out = s[0];
	if (ix->lane->caps & XPORT_READ8_ATOMIC)
		return true;
	if (!ix->alloc)
		return s[0] == s[1];
	*seen_out = op->chain.wr[op->look.slot_wr].found;
	return true;
}

/*
 * If the block that `word` names is cached, copy it to where the READ would have put it. Copied
 * now, because other operations may change the value cache before this one ends.
 */
static bool take_cached_value(const struct index *ix, struct index_op *op, uint64_t word)
{
	const struct value_cache *k = ix->cached->values;
	const uint8_t *block;
	size_t bytes = 0;

	block = k ? value_cache_find(k, op->cached.slot, word, &bytes) : NULL;
	if (block) /* look() has reserved a block of its class */
		memcpy(op->buf, block, bytes);
	return block != NULL;
}

/*
 * A GET needs the block. Others need its head if the value may expire; of a word that was not
 * cached, any value may.
 */
static bool reads_block(const struct index_op *op)
{
	return op->kind == INDEX_GET || op->cached.dated || op->look.nth > 0;
}

/*
 * True if CLOCK is READ, too. It is not if this is the operation's first look at the word, or for a
 * GET, for which the sample is enough in most cases.
 */
static bool reads_clock(const struct index_op *op)
{
	return op->kind != INDEX_GET && op->look.nth > 0;
}

static enum next look(struct index *ix, struct index_op *op, uint64_t word)
{
	bool block = !(word & SLOT_DEAD) && reads_block(op);
	uint64_t bytes = op_probe_bytes(op, word);
	struct xport_wr *wr;

	if (block && !region_block_ok(&ix->sb, slot_off(word), slot_class(word)))
		return cached_forget(ix, op);
	op->look.block = block;
	op->look.seg_len = block && op->into ? op_segment_len(ix, op, word) : 0;
	if (index_op_reserve(ix, op, block ? bytes - op->look.seg_len : 0))
		return op_done(ix, op,
			       err_set(FARKV_ENOMEM,
				       "no memory to read a block of %llu bytes",
				       (unsigned long long)bytes));
	/* A value that is READ straight into op->into is not copied. */
	op->look.from_cache = op->kind == INDEX_GET && block && !op->look.seg_len &&
			      take_cached_value(ix, op, word);
	op->look.word = word;
	op->search.clock_ms = ix->clock_ms;
	op_chain_begin(op, OP_LOOK);
	if (reads_clock(op))
		expiry_add_clock(ix, op, word);
	op->look.nth++;
	add_look(ix, op, word);
	heat_write(ix, op, op->cached.slot);
	if (block && !op->look.from_cache) {
		wr = op_chain_add(op, XPORT_READ, slot_off(word), op->buf, bytes);
		if (op->look.seg_len)
			op_segment_set(op, wr, op->look.seg_len);
	}
	return NEXT_POST;
}

/* A word that is unchanged proves as much as the clock; see confirm_done(). */
static enum next look_once_more(struct index *ix, struct index_op *op)
{
	ix->retries++;
	op_chain_begin(op, OP_LOOK_AGAIN);
	add_look(ix, op, op->look.word);
	return NEXT_POST;
}

/* The look has READ the block, or its head, and the slot still held its word. */
static enum next read_block(struct index *ix, struct index_op *op)
{
	uint64_t word = op->look.word;
	enum block_check check;
	bool known;

	/* I4 counts from the READ of the slot. */
	if (!op->look.from_cache && op->phase == OP_LOOK && !op_span_ok(ix, op))
		return look_once_more(ix, op);
	if (op->look.seg_len)
		check = op_segment_verify(op, word, op->look.seg_len, &op->view);
	else
		check = op_probe_verify(ix, op, op->buf, word, &op->view);
	if (check != BLOCK_MINE)
		return cached_forget(ix, op);
	known = expiry_known(ix, op, word, &op->view);
	if (op->look.nth == 1) {
		count_hit(ix, op);
		ix->cached->count.values += op->look.from_cache;
	}
	if (ix->cached->values && op->kind == INDEX_GET && !op->look.from_cache &&
	    !op->look.seg_len)
		value_cache_store(ix->cached->values, op->cached.slot, word, op->buf,
			   block_view_room(&op->view));
	/* Usually the cache is up to date, and is not written. */
	if (op->look.nth > 1 || op->view.version != op->cached.version ||
	    op->search.marked != op->cached.marked)
		cached_store(ix, op, word, op->view.version);
	if (!known)
		return NEXT_POST;
	if (!kind_reads(op->kind))
		return next_decide(op, word, op->view.version);
	op->version = op->view.version;
	return op_done(ix, op, op->left_ms ? 0 : FARKV_ENOTFOUND);
}

/* The slot shows a value that is not cached: look at it and its block, or search. */
static enum next look_at_seen(struct index *ix, struct index_op *op, uint64_t seen)
{
	if (op->look.nth >= LOOKS_MAX)
		return cached_forget(ix, op);
	op->search.begun_ns = index_now(ix);
	return look(ix, op, seen);
}

/* A GET or EXISTS has seen the word. */
static enum next reader_seen(struct index *ix, struct index_op *op, uint64_t seen)
{
	if (seen == op->look.word && !(seen & SLOT_DEAD))
		return read_block(ix, op);
	/* The block of a DEAD word is not compared, so both hashes decide whose slot it is. */
	if ((seen & SLOT_DEAD) && !find_own(ix, op))
		return cached_forget(ix, op);
	if (op->look.nth == 1 && seen == op->look.word)
		count_hit(ix, op);
	if (seen & SLOT_DEAD) {
		cached_store(ix, op, seen, 0);
		return op_done(ix, op, FARKV_ENOTFOUND);
	}
	return look_at_seen(ix, op, seen);
}

/*
 * An EXISTS has seen the word. The slot is the key's (I1), so the cached word of a value that does
 * not expire is enough.
 */
static enum next exists_seen(struct index *ix, struct index_op *op, uint64_t seen)
{
	if (seen != op->look.word || (seen & SLOT_DEAD) || op->look.block)
		return reader_seen(ix, op, seen);
	count_hit(ix, op);
	return op_done(ix, op, 0);
}

/* A writer that might change nothing has READ the word. */
static enum next writer_seen(struct index *ix, struct index_op *op, uint64_t seen)
{
	uint64_t version = seen == op->look.word ? op->cached.version : 0;

	if (seen == op->look.word && op->look.block)
		return read_block(ix, op);
	if (seen == op->look.word)
		count_hit(ix, op);
	/* Only the block of another word shows its version and whether it has expired. */
	if (!version && !(seen & SLOT_DEAD))
		return look_at_seen(ix, op, seen);
	return next_decide(op, seen, version);
}

enum next cached_looked(struct index *ix, struct index_op *op)
{
	uint64_t seen;

	if (op->look.slot_wr > 0) /* CLOCK was READ before the slot */
		(void)expiry_take_clock(ix, op);
	if (!word_seen(ix, op, &seen))
		return cached_forget(ix, op);
	/*
	 * A cached word is the key's, or another's with the same hash. It is neither FROZEN nor
	 * null (cached_store()), and look() has checked that its block lies in the region.
	 */
	if (seen == op->look.word && op->kind == INDEX_GET)
		return reader_seen(ix, op, seen);
	if (seen != op->look.word)
		count_stale(ix, op);
	if ((seen & SLOT_FROZEN) || slot_is_null(seen) ||
	    slot_fp(seen) != hash_fp(op->key.hash) ||
	    !region_block_ok(&ix->sb, slot_off(seen), slot_class(seen)))
		return cached_forget(ix, op);
	switch (op->kind) {
	case INDEX_GET:
		return reader_seen(ix, op, seen);
	case INDEX_EXISTS:
		return exists_seen(ix, op, seen);
	default:
		return writer_seen(ix, op, seen);
	}
}

bool cached_look_at(struct index *ix, struct index_op *op, uint64_t word, enum next *next_out)
{
	if (!ix->cached)
		return false;
	op->cached = (struct op_cached){.slot = op_slot_off(op), .dated = true};
	op->search.way = WAY_LOCATION;
	op->search.settled = true;
	op->look.nth = 1; /* the caller made the first */
	*next_out = look_at_seen(ix, op, word);
	return true;
}

/* ---- begin ----------------------------------------------------------------------- */

/* True if the operation would change the cached word. */
static bool would_swap(const struct index_op *op, const struct location *l)
{
	bool alive = !(l->word & SLOT_DEAD);

	switch (op->kind) {
	case INDEX_PUT:
		return true;
	case INDEX_ADD:
		return !alive;
	case INDEX_CAS:
	case INDEX_DELETE_CAS:
		/* An unknown version is not the expected one. */
		return alive && l->version && l->version == op->expected;
	default:
		return alive;
	}
}

static void begin_at(struct index *ix, struct index_op *op, const struct location *l)
{
	op->search.way = WAY_LOCATION;
	op->search.settled = true; /* the slot's key is known, or the block shows it */
	op->cached.slot = l->slot;
	op->cached.version = l->version;
	op->cached.doubted = l->stale != 0;
	op->cached.dated = l->dated;
	op->cached.marked = op->search.marked = l->marked;
	op->look.nth = 0;
	op->search.begun_ns = index_begin_ns(ix);
}

static bool known_slot(struct index *ix, struct index_op *op, enum next *next_out)
{
	const struct location *l = find(ix, op);

	if (!l)
		return false;
	begin_at(ix, op, l);
	/* Only a READ of the block shows whether an expiring value is still alive. */
	if (!would_swap(op, l) || (l->dated && op->kind != INDEX_PUT)) {
		*next_out = look(ix, op, l->word);
		return true;
	}
	op->search.word_cached = true;
	*next_out = next_decide(op, l->word, l->version);
	return true;
}

/*
 * Insert a new key by a cached image of its window, of any age. A bound slot stays bound; if the
 * first EMPTY slot still is EMPTY, no slot has this key. A slot with the key's fingerprint must be
 * READ, and a FROZEN word proves nothing. The page still belongs to the same subtable, because a
 * barrier would have dropped the image.
 */
static bool new_key(struct index *ix, struct index_op *op, enum next *next_out)
{
	const struct image *m = image_at(ix->cached, window_off(op));
	uint64_t empty = slot_empty(entry_gen(op->entry));

	if ((op->kind != INDEX_PUT && op->kind != INDEX_ADD) ||
	    m->off != window_off(op))
		return false;
	for (unsigned s = 0; s < WINDOW_SLOTS; s++) {
		uint64_t w = m->words[s];

		if (w == empty) {
			op->search.way = WAY_IMAGE;
			op->search.word_cached = true;
			op->search.from = (uint16_t)s;
			*next_out = NEXT_ABSENT;
			return true;
		}
		if ((w & SLOT_FROZEN) || slot_is_null(w) || slot_fp(w) == 0 ||
		    slot_fp(w) == hash_fp(op->key.hash))
			return false;
	}
	return false;
}

/*
 * A GET compares the key with the block's. If the word is outdated, the GET costs one more round
 * trip.
 */
static const struct location *location_to_read(struct index *ix, const struct index_op *op)
{
	const struct location *l;

	if (op->kind == INDEX_EXISTS)
		return find(ix, op);
	l = location_guess(ix->cached->locations, op->key.hash);
	return l && l->stale < LOCATION_STALE_MAX ? l : NULL;
}

bool cached_read(struct index *ix, struct index_op *op, enum next *next_out)
{
	const struct location *l;

	if (!ix->cached || op->no_cache)
		return false;
	l = location_to_read(ix, op);
	if (!l) {
		ix->cached->count.misses++;
		return false;
	}
	begin_at(ix, op, l);
	*next_out = look(ix, op, l->word);
	return true;
}

bool cached_start(struct index *ix, struct index_op *op, enum next *next_out)
{
	if (!ix->cached || op->doubt == DOUBT_RESOLVING || op->no_cache)
		return false;
	if (known_slot(ix, op, next_out))
		return true;
	ix->cached->count.misses++;
	return new_key(ix, op, next_out);
}

/* ---- a CAS that was lost ------------------------------------------------------------ */

/*
 * Renew the cached value that this session has overwritten, as it may read it next. The block's
 * image is in `buf`, unless the value was sent from elsewhere or the buffer was reused; the unique
 * version shows which.
 */
static void renew_cached_value(struct index *ix, const struct index_op *op)
{
	uint64_t version;

	if (!ix->cached->values || op->own != OWN_WRITTEN || (op->swap.desired & SLOT_DEAD) ||
	    op->value_len >= INDEX_SEGMENT_MIN)
		return;
	memcpy(&version, op->buf, sizeof(version));
	if (version == op->version)
		value_cache_renew(ix->cached->values, op_slot_off(op), op->swap.desired, op->buf,
			   op_room(op));
}

void cached_swapped(struct index *ix, const struct index_op *op)
{
	if (!ix->cached)
		return;
	renew_cached_value(ix, op);
	if (op->search.way == WAY_LOCATION && op->search.word_cached)
		count_hit(ix, op);
	if (op_inserts(op))
		cached_claimed(ix, op, op->swap.desired);
	cached_store(ix, op, op->swap.desired, op->version);
}

bool cached_lost(struct index *ix, struct index_op *op, uint64_t found,
	       enum next *next_out)
{
	if (op->search.way == WAY_IMAGE) {
		/* Update the image: the next try takes its next EMPTY slot, or none. */
		if ((found & SLOT_FROZEN) || slot_is_null(found))
			op->no_cache = true;
		else
			cached_claimed(ix, op, found);
		*next_out = op_again(ix, op);
		return true;
	}
	if (op->search.way != WAY_LOCATION)
		return false;
	if (op->search.word_cached)
		count_stale(ix, op);
	if ((found & SLOT_FROZEN) || slot_is_null(found) ||
	    slot_fp(found) != hash_fp(op->key.hash)) {
		*next_out = cached_forget(ix, op);
		return true;
	}
	return false;
}
