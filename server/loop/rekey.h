/* SPDX-License-Identifier: BSD-3-Clause */
/** rekey.h - another look at the file of keys. */
#ifndef SERVER_LOOP_REKEY_H
#define SERVER_LOOP_REKEY_H

struct control;

/**
 * Read the key file again, end the sessions whose key is gone or changed, and log each change
 * by name. An invalid file changes nothing and is logged as an error. Sessions that have not
 * proved a key yet are checked against the new keys. Reads a disk.
 */
void rekey(struct control *c);

#endif
