/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "lent.h"

#include "common/base/err.h"
#include "common/base/util.h"

#include "queue.h"

static inline bool is_in(const struct index_op *op, const void *p)
{
	return (uintptr_t)p - (uintptr_t)op->buf < op->buf_bytes;
}

static bool is_in_batch(const struct farkv *kv, const void *p)
{
	for (size_t i = 0; i < kv->n_lent; i++)
		if (is_in(&kv->ops[i], p))
			return true;
	return false;
}

static bool is_elsewhere(const struct farkv *kv, const void *p)
{
	return arena_has(&kv->arena, p) || queue_lent(kv, p);
}

bool lent_has(const struct farkv *kv, const void *p)
{
	return is_in(&kv->op, p) || is_in_batch(kv, p) || is_elsewhere(kv, p);
}

/*
 * For many questions: where a batch's values may be, as a Bloom filter of one hash, which
 * is the page's number. A program's own keys lie among the values, in one heap, but hardly
 * on their pages. (B. H. Bloom, "Space/time trade-offs in hash coding with allowable
 * errors", CACM 13(7), 1970.)
 */
#define FILTER_PAGES 512u
#define FILTER_SHIFT 12

struct places {
	uint64_t bits[FILTER_PAGES / 64];
	bool elsewhere; /* others may be anywhere */
};

static void places_of(const struct farkv *kv, struct places *s)
{
	*s = (struct places){.elsewhere = kv->arena.chunks || kv->queue};
	for (size_t i = 0; i < kv->n_lent; i++) {
		const struct index_op *op = &kv->ops[i];
		uintptr_t page = (uintptr_t)op->buf >> FILTER_SHIFT;
		uintptr_t end = ((uintptr_t)op->buf + op->buf_bytes +
				 ((1u << FILTER_SHIFT) - 1)) >> FILTER_SHIFT;

		for (end = UTIL_MIN(end, page + FILTER_PAGES); page < end; page++)
			s->bits[page % FILTER_PAGES / 64] |= UINT64_C(1)
							     << page % 64;
	}
}

static inline bool may_be(const struct places *s, const void *p)
{
	uintptr_t page = (uintptr_t)p >> FILTER_SHIFT;

	return s->bits[page % FILTER_PAGES / 64] >> page % 64 & 1;
}

static inline bool has(const struct farkv *kv, const struct places *s, const void *p)
{
	return is_in(&kv->op, p) || (may_be(s, p) && is_in_batch(kv, p)) ||
	       (s->elsewhere && is_elsewhere(kv, p));
}

bool lent_to_gets(const struct farkv *kv, const struct farkv_get_item *items, size_t n)
{
	struct places s;
	bool any = false;

	places_of(kv, &s);
	for (size_t i = 0; i < n && !any; i++)
		any = has(kv, &s, items[i].key);
	return any;
}

bool lent_to_puts(const struct farkv *kv, const struct farkv_put_item *items, size_t n)
{
	struct places s;
	bool any = false;

	places_of(kv, &s);
	for (size_t i = 0; i < n && !any; i++)
		any = has(kv, &s, items[i].key) || has(kv, &s, items[i].value);
	return any;
}

void *lent_copy(struct arena *a, const void *p, size_t len)
{
	void *copy = arena_copy(a, p, len);

	if (!copy)
		err_set(FARKV_ENOMEM, "no memory to keep %zu bytes of what the last call "
			"has returned", len);
	return copy;
}

bool lent_keep(const struct farkv *kv, struct arena *a, const void **p, size_t len)
{
	if (lent_has(kv, *p))
		*p = lent_copy(a, *p, len);
	else
		return true;
	return *p != NULL;
}
