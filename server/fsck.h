/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fsck.h - a check of the whole region while clients use it (FSCK_REQ).
 *
 *   directory  D, superblock, every entry; each subtable has its own page
 *   slots      an EMPTY word is of the subtable's generation; another names a block
 *              that is out with that class; the block is intact and says what the
 *              word says; its key belongs into this subtable and this window, no
 *              EMPTY slot lies before it there, no other slot has the same key
 *   blocks     a sweep tells what clients hold from what nobody does
 *   sums       region = meta + index + blocks by state + pages by state, to the byte
 *
 * That no block is named twice follows: both words would have to agree with the
 * block, so with its incarnation and key; then both are in the key's window, where
 * the second is found as a duplicate. If they do not agree, one is found as wrong.
 *
 * A slot that changes while it is looked at is looked at again; only what is wrong
 * in a slot that has not changed is wrong. Goes in slices; a block is not divided.
 * A subtable that is migrated between two slices is begun again. One check at a time;
 * who asks meanwhile gets the next. Between two that only read-only sessions ask for
 * there is a rest. The control thread's.
 */
#ifndef SERVER_FSCK_H
#define SERVER_FSCK_H

#include <stdbool.h>

struct control;
struct msg;
struct session;
struct fsck;

bool fsck_init(struct control *c);
void fsck_fini(struct control *c);

/** Handle FSCK_REQ; false: the session is gone. */
bool fsck_on_request(struct session *s, const struct msg *m);

/** `s` is about to end. */
void fsck_session_ended(struct session *s);

#endif
