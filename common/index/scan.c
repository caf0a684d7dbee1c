/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One call reads one subtable:
 *
 *   find     the cached directory names the subtable, and its range of hashes
 *   look     READ CLOCK, the subtable, and CLOCK again. If it has FROZEN words, READ its entry
 *            after that: if it leads elsewhere, start again; if it still leads here, the words
 *            are current, and the range is the entry's alone
 *   heads    READ the heads of the blocks that LIVE words name, SCAN_BATCH at a time, and verify
 *            them. After more than T/2 look again: only unchanged words count. A head that
 *            fails, and a word that was torn, is read again after another look; so is the head of
 *            a value that has expired between the two CLOCKs
 *   deliver  sort by hash, cut at the end of the range or of the room
 *
 * `image` always holds the words of the last look, and a slot is `pending` until its word was seen
 * without a value or its key is known.
 */
#include "config.h"

#include "scan_priv.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/atomic.h"
#include "common/base/err.h"
#include "common/region/fetch.h"
#include "common/region/hash.h"

/* A block, or a directory entry, counts as damaged after failing this many times. */
#define TRIES_MAX 100u
/* Internal result: start with the directory again. */
#define AGAIN 1
#define BUCKET_BITS 12u
#define BUCKETS (1u << BUCKET_BITS)

static_assert(FARKV_SCAN_MIN == WINDOW_SLOTS, "all keys of one hash share a window");
static_assert(SCAN_KEYS_BYTES / 2 >= (size_t)WINDOW_SLOTS * FARKV_KEY_MAX,
	      "half of the room holds all keys of one hash");

struct index_scan *index_scan_new(void)
{
	struct index_scan *s = calloc(1, sizeof(*s));

	if (s)
		index_scan_init(s);
	return s;
}

void index_scan_free(struct index_scan *s)
{
	if (!s)
		return;
	index_scan_fini(s);
	free(s);
}

const struct farkv_scan_item *index_scan_items(const struct index_scan *s, size_t *n_out)
{
	*n_out = s->n_items;
	return s->item;
}

/* ---- the lane's memory -------------------------------------------------------------- */

static uint8_t *image_at(const struct index *ix, unsigned i)
{
	return ix->scan_mem + i * (size_t)PAGE_BYTES;
}

/*
 * Scratch words: four for the check of a directory entry, then CLOCK before and after a look, each
 * twice.
 */
static uint64_t *words_at(const struct index *ix)
{
	return (uint64_t *)(void *)image_at(ix, 2);
}

static uint8_t *heads_at(const struct index *ix)
{
	return image_at(ix, 2) + LINE_BYTES;
}

static struct xport_wr *add_read(struct xport_chain *c, uint64_t off, void *to, uint64_t len)
{
	struct xport_wr *wr = &c->wr[c->n++];

	*wr = (struct xport_wr){
		.opcode = XPORT_READ, .off = off, .laddr = to, .len = (uint32_t)len};
	return wr;
}

static struct xport_chain *chain_begin(struct xport_chain *c)
{
	c->n = 0;
	c->status = 0;
	c->begun_ns = 0;
	return c;
}

/* ---- find ------------------------------------------------------------------------------ */

/* AGAIN: the directory has to be read again. */
static int find(struct index *ix, struct index_scan *s, uint64_t deadline_ns)
{
	struct dir_place *p = &s->place;
	int err = ix->dirword ? 0 : dir_refill(ix, deadline_ns);

	if (err)
		return err;
	p->dirword = ix->dirword;
	p->index = hash_dir_index(s->cursor, dirword_depth(p->dirword));
	p->entry = ix->entries[p->index];
	if (!(p->entry & ENTRY_VALID) || entry_depth(p->entry) > dirword_depth(p->dirword) ||
	    !region_page_ok(&ix->sb, entry_page(p->entry))) {
		ix->dirword = 0;
		return AGAIN;
	}
	s->until = UTIL_MIN(scan_range_end(s->cursor, entry_depth(p->entry)), s->room);
	return 0;
}

/* ---- look ------------------------------------------------------------------------------ */

/* True if there is a word that only a migration, or another subtable, leaves here. */
static bool is_odd(const struct index_scan *s)
{
	uint64_t empty = slot_empty(entry_gen(s->place.entry));
	bool odd = false;

	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++) {
		uint64_t w = s->image[0][i];

		odd |= ((w | s->image[1][i]) & SLOT_FROZEN) || (slot_is_null(w) && w != empty);
	}
	return odd;
}

/*
 * Called after the words were READ. 0 if the entry of the cursor's position still leads here, or
 * AGAIN.
 */
static int check_entry(struct index *ix, struct index_scan *s, uint64_t deadline_ns)
{
	struct xport_chain *c = chain_begin(&s->chain[0]);
	uint64_t off = dirword_off(s->place.dirword) + s->place.index * 8;
	uint64_t *w = words_at(ix), end;
	int err;

	w[2] = 0;
	add_read(c, REGION_D_OFF, &w[0], 8);
	add_read(c, off, &w[1], 8);
	if (!(ix->lane->caps & XPORT_READ8_ATOMIC))
		add_read(c, off, &w[2], 8);
	add_read(c, REGION_D_OFF, &w[3], 8);
	err = dir_run_chains(ix, c, 1, deadline_ns);
	if (err)
		return err;
	if (dir_judge(ix, &s->place, w) != DIR_HERE)
		return AGAIN;
	/* Other entries of the subtable may lead elsewhere already. */
	end = scan_range_end(s->cursor, dirword_depth(s->place.dirword));
	s->until = UTIL_MIN(s->until, end);
	return 0;
}

/* AGAIN: the directory has to be read again, or CLOCK was torn. */
static int look(struct index *ix, struct index_scan *s, uint64_t deadline_ns)
{
	struct xport_chain *c = chain_begin(&s->chain[0]);
	unsigned n = ix->lane->caps & XPORT_READ8_ATOMIC ? 1 : 2;
	uint64_t *clock = words_at(ix) + 4;
	int err;

	s->stale = false;
	s->begun_ns = index_now(ix);
	if (s->begun_ns > deadline_ns)
		return err_set(FARKV_ETIMEDOUT, "the index could not be read in time");
	for (unsigned i = 0; i < n; i++)
		add_read(c, REGION_CLOCK_OFF, &clock[i], 8);
	for (unsigned i = 0; i < n; i++) {
		add_read(c, entry_page(s->place.entry) * PAGE_BYTES, image_at(ix, i), PAGE_BYTES);
		s->image[i] = (const uint64_t *)(const void *)image_at(ix, i);
	}
	for (unsigned i = 0; i < n; i++)
		add_read(c, REGION_CLOCK_OFF, &clock[2 + i], 8);
	s->image[1] = s->image[n - 1];
	err = dir_run_chains(ix, c, 1, deadline_ns);
	if (err)
		return err;
	for (unsigned i = 0; i < 2; i++) {
		s->clock_ms[i] = clock[2 * i];
		if (clock[2 * i + n - 1] != clock[2 * i])
			return AGAIN;
	}
	return is_odd(s) ? check_entry(ix, s, deadline_ns) : 0;
}

/* ---- sort ------------------------------------------------------------------------------ */

/* Bucket sort by the first bits that differ, then insertion sort. */
void scan_sort(struct index_scan *s)
{
	uint16_t next[BUCKETS + 1] = {0};
	uint32_t depth = entry_depth(s->place.entry);
	const struct found *f = s->found;

#define BUCKET(hash) ((hash) << depth >> (64 - BUCKET_BITS))
	for (size_t i = 0; i < s->n_found; i++)
		next[BUCKET(f[i].hash) + 1]++;
	for (unsigned b = 0; b < BUCKETS; b++)
		next[b + 1] = (uint16_t)(next[b + 1] + next[b]);
	for (size_t i = 0; i < s->n_found; i++)
		s->order[next[BUCKET(f[i].hash)]++] = (uint16_t)i;
	for (size_t i = 1; i < s->n_found; i++) {
		uint16_t moved = s->order[i];
		size_t to = i;

		for (; to > 0 && f[s->order[to - 1]].hash > f[moved].hash; to--)
			s->order[to] = s->order[to - 1];
		s->order[to] = moved;
	}
#undef BUCKET
}

/* ---- heads ----------------------------------------------------------------------------- */

/* The keys do not fit: end this call after half of them. The next call returns the others. */
static int make_room(struct index_scan *s)
{
	size_t bytes = 0, i = 0;

	scan_sort(s);
	while ((bytes += scan_nth(s, i)->key_len) <= SCAN_KEYS_BYTES / 2)
		i++;
	s->room = scan_nth(s, i)->hash - 1; /* all keys of one hash stay together */
	return AGAIN;
}

static int add_found(struct index_scan *s, const struct block_header *h, const void *key,
		     const struct head *b)
{
	uint64_t hash = b->hash;
	uint64_t left_ms = block_ttl_left(h->expiry, h->inc_flags, s->clock_ms[1]);
	size_t need = s->keys_len + h->key_len, cap = s->keys_cap;

	if (hash < s->cursor || hash > s->until)
		return 0;
	if (need > SCAN_KEYS_BYTES)
		return make_room(s);
	if (need > cap) {
		uint8_t *keys;

		cap = UTIL_MAX(2 * need, (size_t)PAGE_BYTES);
		keys = realloc(s->keys, cap);
		if (!keys)
			return err_set(FARKV_ENOMEM, "no memory for a scan's keys");
		s->keys = keys;
		s->keys_cap = cap;
	}
	memcpy(s->keys + s->keys_len, key, h->key_len);
	s->found[s->n_found++] = (struct found){.hash = hash,
						.version = h->version,
						.word = b->word,
						.left_ms = left_ms,
						.key_at = (uint32_t)s->keys_len,
						.value_len = h->value_len,
						.key_len = h->key_len};
	s->keys_len = need;
	return 0;
}

/* Read the slot's key after the next look. */
static void keep(struct index_scan *s, const struct slot *slot)
{
	s->pending[s->n_kept++] = *slot;
}

/* The block is not what the word names: the word has changed, or is damaged. */
static void keep_bad(struct index_scan *s, struct slot *slot, uint64_t word)
{
	if (slot->bad_word != word)
		slot->tries = 0;
	slot->bad_word = word;
	if (++slot->tries > TRIES_MAX) {
		if (s->damaged < SCAN_LOST)
			s->lost[s->damaged] = slot->at;
		s->damaged++;
		return;
	}
	s->stale = true;
	keep(s, slot);
}

/* True if a key of this hash can be in that slot, and its word agrees. */
static bool belongs(const struct index_scan *s, const struct head *h)
{
	uint32_t depth = entry_depth(s->place.entry);
	uint64_t hash = h->hash;

	return slot_fp(h->word) == hash_fp(hash) &&
	       h->slot.at / LINE_SLOTS - hash_home_line(hash) < WINDOW_LINES &&
	       scan_range_end(hash, depth) == scan_range_end(s->cursor, depth);
}

/*
 * True if the value has expired by a CLOCK of the last look: 0 the one before its words, 1 the one
 * after.
 */
static bool is_expired(const struct index_scan *s, const struct block_header *h, unsigned when)
{
	return block_expired(h->expiry, h->inc_flags, s->clock_ms[when]);
}

/* The head has been READ: evaluate it. AGAIN, FARKV_ENOMEM. */
static int take_head(const struct index *ix, struct index_scan *s, struct head *b)
{
	const uint8_t *image = heads_at(ix) + b->at;
	uint64_t most = class_bytes(slot_class(b->word));
	struct block_header h;
	uint64_t need;

	memcpy(&h, image, sizeof(h));
	need = (sizeof(h) + h.key_len + 7) & ~UINT64_C(7);
	if (need > b->len && b->len < most) {
		b->slot.need = (uint32_t)UTIL_MIN(need, most);
		s->usual = UTIL_MAX(s->usual, UTIL_MIN(b->slot.need, SCAN_HEAD_MAX));
		keep(s, &b->slot);
		return 0;
	}
	if (!block_key_hash(image, b->len, slot_block(b->word), ix->sb.hash_seed, &b->hash) ||
	    !belongs(s, b)) {
		keep_bad(s, &b->slot, b->word);
		return 0;
	}
	/* R1: absent at the look, alive at the look, or another look has to decide. */
	if (!s->dead_too && is_expired(s, &h, 0))
		return 0;
	if (!s->dead_too && is_expired(s, &h, 1)) {
		s->stale = true;
		keep(s, &b->slot);
		return 0;
	}
	return add_found(s, &h, image + sizeof(h), b);
}

/* True if the slot needs no key: at the last look it had none, or no value. */
static bool is_done(const struct index_scan *s, unsigned at)
{
	if (!s->dead_too)
		return !scan_may_live(s, at);
	return slot_is_null(s->image[0][at]) && scan_is_settled(s, at);
}

/* Fill a batch from the pending slots; returns the first that is not in it. */
static size_t fill(const struct index *ix, struct index_scan *s, size_t from)
{
	uint32_t used = 0;

	s->n_heads = 0;
	for (; from < s->n_pending && s->n_heads < SCAN_BATCH; from++) {
		struct slot slot = s->pending[from];
		uint64_t w = s->image[0][slot.at], bytes;

		if (is_done(s, slot.at))
			continue;
		if (!scan_is_settled(s, slot.at)) {
			s->stale = true;
			keep(s, &slot);
			continue;
		}
		if (!region_block_ok(&ix->sb, slot_off(w), slot_class(w))) {
			keep_bad(s, &slot, w);
			continue;
		}
		bytes = UTIL_MIN(UTIL_MAX(slot.need, s->usual), class_bytes(slot_class(w)));
		if (used + bytes > INDEX_HEADS_BYTES)
			break;
		s->head[s->n_heads++] = (struct head){
			.slot = slot, .word = w, .at = used, .len = (uint32_t)bytes};
		used += (uint32_t)bytes;
	}
	return from;
}

/* READ the heads of the batch: one round trip. */
static int read_heads(struct index *ix, struct index_scan *s, uint64_t deadline_ns)
{
	unsigned n = 0;

	/* Memory takes longest, so request all blocks before the first copy. */
	for (unsigned i = 0; ix->lane->caps & XPORT_DIRECT && i < s->n_heads; i++)
		fetch_lines(ix->lane->base + slot_off(s->head[i].word), s->head[i].len);
	for (unsigned i = 0; i < s->n_heads; i++) {
		if (i % XPORT_CHAIN_MAX == 0)
			(void)chain_begin(&s->chain[n++]);
		add_read(&s->chain[n - 1], slot_off(s->head[i].word),
			 heads_at(ix) + s->head[i].at, s->head[i].len);
	}
	return dir_run_chains(ix, s->chain, n, deadline_ns);
}

/* I4: true if the blocks were READ more than T/2 after their words. */
static bool is_late(const struct index *ix, const struct index_scan *s)
{
	atom_fence_copy_done();
	return index_now(ix) - s->begun_ns > ix->sb.grace_ns / 2;
}

/* True if the last look found the word by which the head was READ, whether FROZEN since or not. */
static bool is_unchanged(const struct index_scan *s, const struct head *b)
{
	return scan_is_settled(s, b->slot.at) &&
	       ((s->image[0][b->slot.at] ^ b->word) & ~SLOT_FROZEN) == 0;
}

static int batch(struct index *ix, struct index_scan *s, uint64_t deadline_ns)
{
	int err = s->n_heads ? read_heads(ix, s, deadline_ns) : 0;
	bool late = !err && is_late(ix, s);

	if (late)
		err = look(ix, s, deadline_ns);
	for (unsigned i = 0; i < s->n_heads && !err; i++) {
		if (late && !is_unchanged(s, &s->head[i]))
			keep(s, &s->head[i].slot);
		else
			err = take_head(ix, s, &s->head[i]);
	}
	return err;
}

/* ---- one subtable ---------------------------------------------------------------------- */

/* Make all slots pending that may have a value. */
static void pick_live(struct index_scan *s)
{
	for (unsigned at = 0; at < SUBTABLE_SLOTS; at++)
		if (scan_may_live(s, at))
			s->pending[s->n_pending++] = (struct slot){.at = (uint16_t)at};
}

/* Set `found` to the keys of the cursor's subtable; AGAIN: start again. */
static int read_part(struct index *ix, struct index_scan *s, uint64_t deadline_ns)
{
	int err = look(ix, s, deadline_ns);

	s->n_found = s->keys_len = s->n_pending = 0;
	s->damaged = 0;
	if (!err && s->pick)
		s->pick(s->arg, s);
	else if (!err)
		pick_live(s);
	while (!err && s->n_pending) {
		s->n_kept = 0;
		for (size_t i = 0; i < s->n_pending && !err;) {
			i = fill(ix, s, i);
			err = batch(ix, s, deadline_ns);
		}
		s->n_pending = s->n_kept;
		if (!err && s->stale)
			err = look(ix, s, deadline_ns);
	}
	return err;
}

int scan_read(struct index *ix, struct index_scan *s, uint64_t cursor, uint64_t deadline_ns)
{
	unsigned tries = 0;
	int err;

	s->cursor = cursor;
	s->room = UINT64_MAX;
	if (!ix->scan_mem)
		ix->scan_mem = xport_mem_alloc(ix->lane, INDEX_SCAN_BYTES);
	if (!ix->scan_mem)
		return err_set(FARKV_ENOMEM, "no memory for a scan");
	for (;; ix->retries++) {
		err = find(ix, s, deadline_ns);
		if (err == AGAIN && ++tries > TRIES_MAX)
			return err_set(FARKV_EFORMAT,
				       "region: a directory entry names no page of the region");
		if (!err)
			err = read_part(ix, s, deadline_ns);
		if (err != AGAIN)
			return err;
	}
}

static uint64_t ttl_ms(const struct found *f)
{
	return f->left_ms == BLOCK_NEVER ? 0 : f->left_ms;
}

/* Build the result from `found`; returns the next cursor. */
static uint64_t deliver(struct index_scan *s, size_t max)
{
	uint64_t next = s->until + 1;
	size_t n = s->n_found;

	scan_sort(s);
	while (n > 0 && scan_nth(s, n - 1)->hash > s->until)
		n--;
	if (n > max) {
		n = max;
		next = scan_nth(s, n)->hash;
		while (scan_nth(s, n - 1)->hash == next)
			n--;
	}
	for (size_t i = 0; i < n; i++) {
		const struct found *f = scan_nth(s, i);

		s->item[i] = (struct farkv_scan_item){.key = s->keys + f->key_at,
						      .key_len = f->key_len,
						      .value_len = f->value_len,
						      .version = f->version,
						      .ttl_ms = ttl_ms(f)};
	}
	s->n_items = n;
	return next;
}

int index_scan(struct index *ix, struct index_scan *s, uint64_t *cursor, size_t max,
	       uint64_t deadline_ns)
{
	int err;

	s->n_items = 0;
	err = scan_read(ix, s, *cursor, deadline_ns);
	if (err)
		return err;
	*cursor = deliver(s, max);
	if (!s->damaged)
		return 0;
	return err_set(FARKV_ECORRUPT,
		       "%u blocks of this part of the index cannot be read; see kvcli fsck",
		       s->damaged);
}
