/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "alloc.h"

#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/util.h"

/*
 * A session needs one block to store a value, and one to overwrite it while the server is stopped.
 */
#define FIRST_GRANT 2u

struct alloc *alloc_new(uint64_t grace_ns)
{
	struct alloc *a = calloc(1, sizeof(*a));

	if (a) {
		a->grace_ns = grace_ns;
		a->hoard_bytes = ALLOC_HOARD_BYTES;
	}
	return a;
}

void alloc_set_region(struct alloc *a, uint64_t region_bytes)
{
	a->hoard_bytes = UTIL_MIN(ALLOC_HOARD_BYTES,
				  region_bytes / ALLOC_HOARD_SHARE);
}

void alloc_free(struct alloc *a)
{
	if (!a)
		return;
	for (unsigned i = 0; i < CLASS_COUNT; i++) {
		free(a->cls[i].free);
		free(a->cls[i].deferred);
	}
	free(a->exhausted);
	free(a);
}

static int words_push(uint64_t **v, uint32_t *n, uint32_t *cap, uint64_t word)
{
	if (*n == *cap) {
		uint32_t bigger = *cap ? *cap * 2 : 16;
		void *p = realloc(*v, bigger * sizeof(**v));

		if (!p)
			return FARKV_ENOMEM;
		*v = p;
		*cap = bigger;
	}
	(*v)[(*n)++] = word;
	return 0;
}

static int deferred_grow(struct alloc_class *s)
{
	uint32_t bigger = s->deferred_cap ? s->deferred_cap * 2 : 64;
	struct deferred_item *p = malloc(bigger * sizeof(*p));

	if (!p)
		return FARKV_ENOMEM;
	for (uint32_t at = s->head; at != s->tail; at++)
		p[at & (bigger - 1)] = *deferred_item(s, at);
	free(s->deferred);
	s->deferred = p;
	s->deferred_cap = bigger;
	return 0;
}

/* Number of ready items; binary search, because they become ready in ring order. */
static uint32_t deferred_ready(const struct alloc_class *s, uint64_t now)
{
	uint32_t low = 0, high = alloc_class_deferred(s);

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (deferred_item(s, s->head + mid)->ready <= now)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool alloc_take(struct alloc *a, uint8_t cls, uint64_t now,
		struct block_ref *ref_out)
{
	uint64_t word = alloc_class_take(a, &a->cls[cls], now);

	if (word)
		*ref_out = slot_block(word);
	return word != 0;
}

uint64_t alloc_peek(const struct alloc *a, uint8_t cls, uint32_t ahead)
{
	return slot_off(alloc_class_peek(&a->cls[cls], ahead));
}

int alloc_put(struct alloc *a, struct block_ref ref)
{
	struct alloc_class *s = &a->cls[ref.cls];

	return words_push(&s->free, &s->n_free, &s->free_cap, slot_pack(ref, 0, 0));
}

int alloc_put_written(struct alloc *a, struct block_ref ref)
{
	uint64_t word = slot_pack(ref, 0, 0);

	if (alloc_is_last_inc(word))
		return words_push(&a->exhausted, &a->n_exhausted, &a->exhausted_cap, word);
	return alloc_put(a, slot_block(alloc_next_inc(word)));
}

static void date_class(struct alloc_class *s, uint64_t ready)
{
	uint32_t n = UTIL_MIN(s->n_undated, alloc_class_deferred(s));

	for (uint32_t at = s->tail - n; at != s->tail; at++)
		deferred_item(s, at)->ready = ready;
	s->n_undated = 0;
}

void alloc_date(struct alloc *a, uint64_t now)
{
	while (a->n_undated)
		date_class(&a->cls[a->undated[--a->n_undated]],
			   now + a->grace_ns);
}

/* Counts bytes; a block counts as at least 1/ALLOC_GAIN_BLOCKS of the threshold. */
void alloc_gain(struct alloc *a, uint8_t cls)
{
	a->gained += UTIL_MAX(class_bytes(cls), a->hoard_bytes / ALLOC_GAIN_SHARE /
							ALLOC_GAIN_BLOCKS + 1);
}

bool alloc_surplus_due(struct alloc *a)
{
	bool due = alloc_gained_many(a);

	if (due)
		a->gained = 0;
	return due;
}

/* Defer a block until `ready`, which may be ALLOC_UNDATED. */
static int retire(struct alloc *a, struct block_ref ref, uint64_t ready)
{
	struct alloc_class *s = &a->cls[ref.cls];
	uint64_t word = slot_pack(ref, 0, 0);

	/* Record the block first: it was held, even if the rest fails. */
	if (__builtin_expect(a->journal != NULL, 0) &&
	    !journal_add(a->journal, ref))
		a->journal = NULL;
	if (alloc_is_last_inc(word))
		return words_push(&a->exhausted, &a->n_exhausted, &a->exhausted_cap, word);
	if (alloc_class_deferred(s) == s->deferred_cap) {
		int err = deferred_grow(s);

		if (err)
			return err;
	}
	alloc_class_push(a, s, word, ready);
	return 0;
}

int alloc_retire(struct alloc *a, struct block_ref ref, uint64_t now)
{
	alloc_date(a, now);
	return retire(a, ref, now + a->grace_ns);
}

int alloc_retire_undated(struct alloc *a, struct block_ref ref)
{
	return retire(a, ref, ALLOC_UNDATED);
}

uint32_t alloc_deferred_count(const struct alloc *a, uint8_t cls)
{
	return alloc_class_deferred(&a->cls[cls]);
}

uint64_t alloc_next_ready(const struct alloc *a, uint8_t cls)
{
	const struct alloc_class *s = &a->cls[cls];

	return s->head != s->tail ? deferred_item(s, s->head)->ready : 0;
}

uint32_t alloc_exhausted(const struct alloc *a)
{
	return a->n_exhausted;
}

uint32_t alloc_count(const struct alloc *a, uint8_t cls)
{
	return a->cls[cls].n_free;
}

void alloc_record(struct alloc *a, struct journal *j)
{
	for (unsigned c = 0; c < CLASS_COUNT; c++) {
		const struct alloc_class *s = &a->cls[c];

		for (uint32_t i = 0; i < s->n_free; i++)
			(void)journal_add(j, slot_block(s->free[i]));
		for (uint32_t at = s->head; at != s->tail; at++)
			(void)journal_add(j, slot_block(deferred_item(s, at)->word));
	}
	for (uint32_t i = 0; i < a->n_exhausted; i++)
		(void)journal_add(j, slot_block(a->exhausted[i]));
	a->journal = j;
}

/* The largest request for a class. */
static uint32_t grant_max(const struct alloc *a, uint8_t cls)
{
	uint64_t bytes = class_bytes(cls);
	uint64_t fair = a->hoard_bytes / 2 / bytes;
	uint64_t n = UTIL_MIN((uint64_t)ALLOC_GRANT_BYTES / bytes,
			      UTIL_MAX(fair, (uint64_t)FIRST_GRANT));

	return (uint32_t)UTIL_MIN((uint64_t)ALLOC_GRANT_MAX,
				  UTIL_MAX(n, UINT64_C(1)));
}

bool alloc_low(const struct alloc *a, uint8_t cls, uint64_t now,
	       uint32_t needed)
{
	const struct alloc_class *s = &a->cls[cls];

	if (s->asking || (s->n_free > needed &&
			  s->n_free - needed > s->last_grant * 3 / 8))
		return false;
	return s->n_free < needed || !deferred_is_ready(s, now);
}

uint32_t alloc_request(struct alloc *a, uint8_t cls, uint64_t now,
		    uint32_t needed)
{
	struct alloc_class *s = &a->cls[cls];

	if (!alloc_low(a, cls, now, needed))
		return 0;
	s->asking = true;
	return UTIL_MIN(s->last_grant ? s->last_grant * 2 : FIRST_GRANT,
			grant_max(a, cls));
}

int alloc_granted(struct alloc *a, uint8_t cls, const struct block_ref *refs,
		size_t n)
{
	struct alloc_class *s = &a->cls[cls];

	s->asking = false;
	s->used = ++a->epoch;
	if (n)
		s->last_grant = (uint32_t)n;
	for (size_t i = 0; i < n; i++) {
		int err = alloc_put(a, refs[i]);

		if (err)
			return err;
	}
	return 0;
}

bool alloc_asking(const struct alloc *a, uint8_t cls)
{
	return a->cls[cls].asking;
}

static size_t take_exhausted(struct alloc *a, struct block_ref *refs, size_t cap,
			enum return_kind *state_out)
{
	size_t n = 0;

	while (n < cap && a->n_exhausted)
		refs[n++] = slot_block(a->exhausted[--a->n_exhausted]);
	if (n)
		*state_out = RETURN_EXHAUSTED;
	return n;
}

/* Take free blocks, and deferred ones that are ready, down to `keep` of a class. */
static size_t take_free(struct alloc_class *s, uint64_t now, uint64_t keep,
			struct block_ref *refs, size_t cap)
{
	uint64_t ready = deferred_ready(s, now);
	size_t n = 0;

	while (n < cap && s->n_free + ready > keep) {
		if (s->n_free) {
			refs[n++] = slot_block(s->free[--s->n_free]);
		} else {
			refs[n++] = slot_block(deferred_pop(s));
			ready--;
		}
	}
	return n;
}

/* The peak is halved after this many T with fewer deferred blocks. */
#define PEAK_HALVED 32u

/* Update the largest number of blocks deferred at once. A pause counts as T at most. */
static void peak_update(struct alloc_class *s, uint64_t now, uint64_t grace_ns)
{
	uint32_t deferred = alloc_class_deferred(s) - deferred_ready(s, now);

	s->peak_age += UTIL_MIN(now - s->seen_ns, grace_ns);
	s->seen_ns = now;
	if (deferred >= s->peak) {
		s->peak = deferred;
		s->peak_age = 0;
	} else if (s->peak_age >= PEAK_HALVED * grace_ns) {
		s->peak /= 2;
		s->peak_age = 0;
	}
}

/*
 * Number of blocks that a class keeps: some grants' worth, and at least as many as were recently
 * deferred at once, because a session needs that many new ones while those wait. Without this bound
 * a session that pauses would give them back.
 */
static uint64_t reserve(const struct alloc_class *s)
{
	uint64_t grants = (uint64_t)UTIL_MAX(s->last_grant, 1u) * ALLOC_SURPLUS;

	return UTIL_MAX(grants, (uint64_t)s->peak);
}

/* Number of free blocks of class `c`, minus one for the class that was used last. */
static uint64_t spare_count(const struct alloc *a, unsigned c, uint32_t newest,
			uint64_t now)
{
	const struct alloc_class *s = &a->cls[c];
	uint64_t n = (uint64_t)s->n_free + deferred_ready(s, now);

	return n && s->used == newest ? n - 1 : n;
}

/*
 * Take free blocks above the bound over all classes, beginning with the class unused for longest.
 */
static size_t take_over_bound(struct alloc *a, uint64_t now, struct block_ref *refs,
			 size_t cap)
{
	uint64_t total = 0, excess, idle = 0;
	unsigned oldest = CLASS_COUNT;
	uint32_t newest = 0;

	for (unsigned c = 0; c < CLASS_COUNT; c++)
		newest = UTIL_MAX(newest, a->cls[c].used);
	for (unsigned c = 0; c < CLASS_COUNT; c++) {
		uint64_t n = spare_count(a, c, newest, now);

		total += n * class_bytes(c);
		if (n && (oldest == CLASS_COUNT ||
			  a->cls[c].used < a->cls[oldest].used)) {
			oldest = c;
			idle = n;
		}
	}
	if (total <= a->hoard_bytes)
		return 0;
	excess = (total - a->hoard_bytes - 1) / class_bytes(oldest) + 1;
	excess = UTIL_MIN(excess, UTIL_MIN(idle, (uint64_t)cap));
	return take_free(&a->cls[oldest], now, 0, refs, excess);
}

size_t alloc_surplus(struct alloc *a, uint64_t now, struct block_ref *refs,
		     size_t cap, enum return_kind *state_out)
{
	size_t n = take_exhausted(a, refs, cap, state_out);

	a->epoch++;
	for (unsigned c = 0; n == 0 && c < CLASS_COUNT; c++) {
		struct alloc_class *s = &a->cls[c];

		peak_update(s, now, a->grace_ns);
		n = take_free(s, now, reserve(s), refs, cap);
		if (n)
			*state_out = RETURN_FREE;
	}
	if (n == 0) {
		n = take_over_bound(a, now, refs, cap);
		if (n)
			*state_out = RETURN_FREE;
	}
	return n;
}

size_t alloc_give_deferred(struct alloc *a, uint8_t cls, struct block_ref *refs,
			size_t cap)
{
	struct alloc_class *s = &a->cls[cls];
	size_t n = 0;

	while (n < cap && s->head != s->tail)
		refs[n++] = slot_block(deferred_pop(s));
	return n;
}

size_t alloc_drain(struct alloc *a, uint64_t now, struct block_ref *refs,
		   size_t cap, enum return_kind *state_out)
{
	size_t n = take_exhausted(a, refs, cap, state_out);

	if (n)
		return n;
	for (unsigned c = 0; c < CLASS_COUNT; c++)
		a->cls[c].last_grant = a->cls[c].peak = 0;
	for (unsigned c = 0; n < cap && c < CLASS_COUNT; c++)
		n += take_free(&a->cls[c], now, 0, refs + n, cap - n);
	if (n) {
		*state_out = RETURN_FREE;
		return n;
	}
	for (unsigned c = 0; n < cap && c < CLASS_COUNT; c++)
		while (n < cap && a->cls[c].head != a->cls[c].tail)
			refs[n++] = slot_block(deferred_pop(&a->cls[c]));
	if (n)
		*state_out = RETURN_DEFERRED;
	return n;
}
