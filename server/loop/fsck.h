/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fsck.h - a check of the whole region while clients use it (FSCK_REQ).
 *
 *   directory  D, superblock, every entry; each subtable has its own page
 *   slots      an EMPTY word is of the subtable's generation; any other word names a
 *              block that is out with that class; the block is intact and agrees with
 *              the word; its key belongs into this subtable and this window, with no
 *              EMPTY slot before it and no other slot with the same key
 *   blocks     a sweep tells held blocks from leaked ones
 *   sums       region = meta + index + blocks by state + pages by state, to the byte
 *
 * It follows that no block is named twice: two words that agree with the block agree with its
 * incarnation and key, so both are in the key's window, and the second is found as a
 * duplicate. A word that does not agree with the block is found as wrong.
 *
 * A slot that changes during its check is checked again: an error counts only if the slot has
 * not changed. The check runs in slices and does not divide a block. It begins a subtable again
 * that is migrated between two slices. One check runs at a time; requests that come meanwhile
 * get the next one. Checks that only read-only sessions ask for are separated by a rest.
 * Event loop only.
 */
#ifndef SERVER_LOOP_FSCK_H
#define SERVER_LOOP_FSCK_H

#include <stdbool.h>

struct loop_module;
struct msg;
struct session;

extern const struct loop_module fsck_module;

/** Handle FSCK_REQ; false: the session is gone. */
bool fsck_on_request(struct session *s, const struct msg *m);

#endif
