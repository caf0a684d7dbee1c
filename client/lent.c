/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "lent.h"

#include "common/err.h"
#include "common/util.h"

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

/* For many questions: the addresses between which a batch's values are. */
struct span {
	uintptr_t from, bytes;
	bool elsewhere; /* others may be anywhere */
};

static struct span span_of(const struct farkv *kv)
{
	uintptr_t from = UINTPTR_MAX, end = 0;

	for (size_t i = 0; i < kv->n_lent; i++) {
		const struct index_op *op = &kv->ops[i];

		if (!op->buf)
			continue;
		from = UTIL_MIN(from, (uintptr_t)op->buf);
		end = UTIL_MAX(end, (uintptr_t)op->buf + op->buf_bytes);
	}
	return (struct span){from, end > from ? end - from : 0,
			     kv->arena.chunks || kv->queue};
}

static inline bool has(const struct farkv *kv, const struct span *s, const void *p)
{
	return is_in(&kv->op, p) ||
	       ((uintptr_t)p - s->from < s->bytes && is_in_batch(kv, p)) ||
	       (s->elsewhere && is_elsewhere(kv, p));
}

bool lent_to_gets(const struct farkv *kv, const struct farkv_get_item *items, size_t n)
{
	struct span s = span_of(kv);
	bool any = false;

	for (size_t i = 0; i < n && !any; i++)
		any = has(kv, &s, items[i].key);
	return any;
}

bool lent_to_puts(const struct farkv *kv, const struct farkv_put_item *items, size_t n)
{
	struct span s = span_of(kv);
	bool any = false;

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
