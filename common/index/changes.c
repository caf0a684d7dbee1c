/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * There are two lists of tables, in the order of hashes: those of the previous pass, and those of
 * this one. A pass reads along the first and builds the second. If a subtable is still the same,
 * its table moves to the second list with the changed words updated.
 *
 * A table has each slot's word as of the part's first look, which precedes all that the caller then
 * reads of the slot's key. If a later look of the part finds another word, the next pass reports it
 * as changed.
 */
#include "config.h"

#include "changes.h"

#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"

#include "scan_priv.h"

/* Marks; the other bits of a word identify a content. */
#define NO_CONTENT (SLOT_BLIND | SLOT_FROZEN)
/* Differs from every slot word. */
#define UNKNOWN UINT64_MAX
#define SET_BITS 14u
#define SET_SLOTS (1u << SET_BITS)
static_assert(SET_SLOTS >= 2 * SUBTABLE_SLOTS, "a set of a subtable's words has room");

struct table {
	uint64_t first, last; /* hashes */
	uint64_t entry;
	uint64_t looked_ns; /* time before the words were READ */
	uint64_t *words;    /* SUBTABLE_SLOTS */
};

struct tables {
	struct table *table;
	size_t n, cap;
};

struct index_changes {
	struct tables before, now;
	size_t at; /* tables of `before` with a smaller index are done, their words freed */
	uint64_t cursor;
	uint64_t recur_ns; /* after this time a word may name another content */
	bool over;

	uint64_t *invalid; /* bitmap of pages; NULL: none */
	size_t invalid_pages;
	bool has_invalid; /* a bit in it is set */

	/* Of the part that is being read: */
	uint64_t first, last; /* hashes of its subtable */
	uint64_t looked_ns;
	struct table *same;   /* the remembered words of this very subtable, or NULL */
	uint64_t *words;      /* if `same` is NULL: the words of the first look */
	uint64_t changed[SUBTABLE_SLOTS]; /* otherwise: new words of changed slots, ... */
	uint16_t slot[SUBTABLE_SLOTS];    /* ... in this order */
	size_t n_changed;
	uint64_t set[SET_SLOTS]; /* hash set of contents listed before; 0: free */

	struct index_change change[SUBTABLE_SLOTS];
	struct index_scan scan;
};

/* ---- tables ------------------------------------------------------------------------------ */

static void tables_drop(struct tables *t, size_t from)
{
	for (size_t i = from; i < t->n; i++)
		free(t->table[i].words);
	t->n = 0;
}

/* Make room for one more table. */
static bool tables_reserve(struct tables *t)
{
	size_t cap = t->cap ? 2 * t->cap : 64;
	void *p;

	if (t->n < t->cap)
		return true;
	p = realloc(t->table, cap * sizeof(*t->table));
	if (!p)
		return false;
	t->table = p;
	t->cap = cap;
	return true;
}

static void pick(void *arg, struct index_scan *s);

struct index_changes *index_changes_new(void)
{
	struct index_changes *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	index_scan_init(&c->scan);
	c->scan.pick = pick;
	c->scan.arg = c;
	c->over = true;
	return c;
}

void index_changes_free(struct index_changes *c)
{
	if (!c)
		return;
	tables_drop(&c->before, c->at);
	tables_drop(&c->now, 0);
	free(c->before.table);
	free(c->now.table);
	free(c->words);
	free(c->invalid);
	index_scan_fini(&c->scan);
	free(c);
}

void index_changes_begin(struct index_changes *c)
{
	struct tables spare = c->before;

	tables_drop(&spare, c->at);
	c->before = c->now;
	c->now = spare;
	c->at = 0;
	c->cursor = 0;
	c->over = false;
	if (c->has_invalid)
		memset(c->invalid, 0, (c->invalid_pages + 63) / 64 * sizeof(*c->invalid));
	c->has_invalid = false;
}

/* ---- invalid pages ------------------------------------------------------------------------ */

int index_changes_invalidate(struct index_changes *c, const struct index *ix, uint64_t page,
			     uint64_t pages)
{
	uint64_t all = ix->sb.region_bytes / PAGE_BYTES, end;

	if (!c->invalid) {
		c->invalid = calloc((all + 63) / 64, sizeof(*c->invalid));
		if (!c->invalid)
			return err_set(FARKV_ENOMEM, "no memory to follow a server");
		c->invalid_pages = all;
	}
	end = page < all ? page + UTIL_MIN(pages, all - page) : page;
	for (; page < end; page++)
		c->invalid[page / 64] |= UINT64_C(1) << page % 64;
	c->has_invalid = true;
	return 0;
}

void index_changes_invalidate_all(struct index_changes *c)
{
	tables_drop(&c->before, c->at);
	c->at = 0;
}

static bool is_invalid(const struct index_changes *c, uint64_t word)
{
	uint64_t page = slot_off(word) / PAGE_BYTES;

	return c->has_invalid && page < c->invalid_pages && (c->invalid[page / 64] >> page % 64 & 1);
}

/* ---- what was listed before ------------------------------------------------------------------ */

/* The place of `content` in the set, or the free place where it belongs. */
static uint64_t *set_find(struct index_changes *c, uint64_t content)
{
	size_t i = content * UINT64_C(0x9E3779B97F4A7C15) >> (64 - SET_BITS);

	while (c->set[i] && c->set[i] != content)
		i = (i + 1) % SET_SLOTS;
	return &c->set[i];
}

/*
 * Fill the set from the previous tables that overlap the part. In practice that is one, because
 * subtables are never joined.
 */
static void set_make(struct index_changes *c, const struct index_scan *s, uint64_t fresh_ns)
{
	size_t n = 0;

	memset(c->set, 0, sizeof(c->set));
	for (size_t i = c->at; i < c->before.n && c->before.table[i].first <= s->until; i++) {
		const struct table *t = &c->before.table[i];

		for (unsigned at = 0; t->looked_ns >= fresh_ns && at < SUBTABLE_SLOTS; at++) {
			uint64_t w = t->words[at];

			if (slot_is_null(w) || (w & SLOT_DEAD) || w == UNKNOWN ||
			    is_invalid(c, w) || n >= SUBTABLE_SLOTS)
				continue;
			*set_find(c, w) = w;
			n++;
		}
	}
}

/* ---- compare ----------------------------------------------------------------------------------
 */

static uint64_t content_at(const struct index_scan *s, unsigned at)
{
	return scan_is_settled(s, at) ? s->image[0][at] & ~NO_CONTENT : UNKNOWN;
}

static void note(struct index_changes *c, struct index_scan *s, unsigned at)
{
	c->changed[c->n_changed] = content_at(s, at);
	c->slot[c->n_changed++] = (uint16_t)at;
	s->pending[s->n_pending++] = (struct slot){.at = (uint16_t)at};
}

/*
 * True if a word of the line has changed. `now` is the first of two READs: the next pass reports a
 * word that changes after it.
 */
static bool differs(const uint64_t *now, const uint64_t *old)
{
	uint64_t any = 0;

	for (unsigned i = 0; i < LINE_SLOTS; i++)
		any |= (now[i] ^ old[i]) & ~NO_CONTENT;
	return any != 0;
}

/* List the slots whose words have changed. */
static void pick_changed(struct index_changes *c, struct index_scan *s)
{
	const uint64_t *old = c->same->words;

	for (unsigned line = 0; line < SUBTABLE_SLOTS; line += LINE_SLOTS) {
		if (!c->has_invalid && !differs(s->image[0] + line, old + line))
			continue;
		for (unsigned at = line; at < line + LINE_SLOTS; at++) {
			uint64_t w = content_at(s, at);

			if (w != old[at] || w == UNKNOWN ||
			    (!slot_is_null(w) && is_invalid(c, w)))
				note(c, s, at);
		}
	}
}

static void pick_all(struct index_changes *c, struct index_scan *s, uint64_t fresh_ns)
{
	for (unsigned at = 0; at < SUBTABLE_SLOTS; at++) {
		c->words[at] = content_at(s, at);
		if (scan_may_live(s, at))
			s->pending[s->n_pending++] = (struct slot){.at = (uint16_t)at};
	}
	set_make(c, s, fresh_ns);
}

/*
 * Called after the first look. Words older than `fresh_ns` may name another content even without a
 * reset.
 */
static void pick(void *arg, struct index_scan *s)
{
	struct index_changes *c = arg;
	uint32_t depth = entry_depth(s->place.entry);
	uint64_t fresh_ns = s->begun_ns - UTIL_MIN(s->begun_ns, c->recur_ns);
	struct table *t;

	c->last = scan_range_end(s->cursor, depth);
	c->first = depth ? s->cursor & ~(UINT64_MAX >> depth) : 0;
	c->looked_ns = s->begun_ns;
	c->n_changed = 0;
	t = c->at < c->before.n ? &c->before.table[c->at] : NULL;
	c->same = t && t->entry == s->place.entry && s->cursor == t->first && c->first == t->first &&
				  s->until == c->last && t->looked_ns >= fresh_ns ?
			  t :
			  NULL;
	s->dead_too = c->same != NULL;
	if (c->same)
		pick_changed(c, s);
	else
		pick_all(c, s, fresh_ns);
}

/* ---- a part ------------------------------------------------------------------------------------
 */

/* Have the next pass look again at blocks that could not be read. False: there are too many. */
static bool forget_lost(const struct index_scan *s, uint64_t *words)
{
	for (unsigned i = 0; i < s->damaged && i < SCAN_LOST; i++)
		words[s->lost[i]] = UNKNOWN;
	return s->damaged <= SCAN_LOST;
}

/* Remember the part's words, if it is a whole subtable. */
static void keep_words(struct index_changes *c, const struct index_scan *s)
{
	struct table t = {.first = c->first, .last = c->last, .entry = s->place.entry,
			  .looked_ns = c->looked_ns};

	if (s->cursor != c->first || s->until != c->last)
		return;
	t.words = c->same ? c->same->words : c->words;
	for (size_t i = 0; i < c->n_changed; i++)
		t.words[c->slot[i]] = c->changed[i];
	if (!forget_lost(s, t.words))
		return;
	c->now.table[c->now.n++] = t;
	if (c->same)
		c->same->words = NULL;
	else
		c->words = NULL;
}

/* Free the tables that end within this part. */
static void drop_passed(struct index_changes *c, uint64_t last)
{
	for (; c->at < c->before.n && c->before.table[c->at].last <= last; c->at++)
		free(c->before.table[c->at].words);
}

static size_t list(struct index_changes *c)
{
	const struct index_scan *s = &c->scan;
	size_t n = 0;

	scan_sort(&c->scan);
	for (; n < s->n_found && scan_nth(s, n)->hash <= s->until; n++) {
		const struct found *f = scan_nth(s, n);

		c->change[n] = (struct index_change){
			.key = s->keys + f->key_at,
			.key_len = f->key_len,
			.same = !c->same && *set_find(c, f->word & ~NO_CONTENT) != 0,
			.value_len = f->value_len};
	}
	return n;
}

int index_changes_next(struct index *ix, struct index_changes *c, uint64_t deadline_ns,
		       struct index_changes_part *out)
{
	int err;

	if (c->over)
		return err_set_plain(FARKV_ENOTFOUND);
	if (!c->words)
		c->words = malloc(PAGE_BYTES);
	if (!c->words || !tables_reserve(&c->now))
		return err_set(FARKV_ENOMEM, "no memory to follow a server");
	/*
	 * A block takes at least T for each incarnation, by a clock that may run at twice the rate.
	 */
	c->recur_ns = INC_COUNT * ix->sb.grace_ns / 2;
	err = scan_read(ix, &c->scan, c->cursor, deadline_ns);
	if (err)
		return err;
	keep_words(c, &c->scan);
	*out = (struct index_changes_part){.first = c->cursor,
					   .last = c->scan.until,
					   .whole = !c->scan.dead_too,
					   .change = c->change,
					   .n = list(c)};
	drop_passed(c, out->last);
	c->cursor = out->last + 1;
	c->over = c->cursor == 0;
	return 0;
}
