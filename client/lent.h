/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * lent.h - values that a call has lent to the program, and that the program hands to the
 * next call: as the value of another key, or as a key itself.
 *
 * The next call uses their memory anew, or gives it back before it looks at anything. So
 * what it is to be told in such bytes is copied first. Who asks in the way of each call
 * asks lent_at_hand(), which knows a get's value by its address, and that a batch or a poll
 * has lent some.
 */
#ifndef CLIENT_LENT_H
#define CLIENT_LENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <farkv.h>

#include "handle.h"

/** Does `p` point into the value that a get may have lent? */
static inline bool lent_by_get(const struct farkv *kv, const void *p)
{
	return (uintptr_t)p - (uintptr_t)kv->op.buf < kv->op.buf_bytes;
}

/** May it point into a value that is lent? A few instructions; at times yes where not. */
static inline bool lent_at_hand(const struct farkv *kv, const void *p)
{
	return lent_by_get(kv, p) || kv->lends;
}

/** Does it? Looks at all that is lent. */
bool lent_has(const struct farkv *kv, const void *p);

/** Does the key of one of these? */
bool lent_to_gets(const struct farkv *kv, const struct farkv_get_item *items, size_t n);
/** ... or the value, too. */
bool lent_to_puts(const struct farkv *kv, const struct farkv_put_item *items, size_t n);

/** What is lent has ended. */
static inline void lent_end(struct farkv *kv)
{
	kv->n_lent = 0;
	kv->lends = false;
}

/** A copy of `len` bytes in `a`; NULL if out of memory, with the error's line. */
void *lent_copy(struct arena *a, const void *p, size_t len);

/** If *p points into what is lent: *p becomes a copy in `a`. False: out of memory. */
bool lent_keep(const struct farkv *kv, struct arena *a, const void **p, size_t len);

#endif
