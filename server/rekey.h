/* SPDX-License-Identifier: BSD-3-Clause */
/** rekey.h - another look at the file of keys. */
#ifndef SERVER_REKEY_H
#define SERVER_REKEY_H

struct control;

/**
 * Read the file of keys again, end the sessions whose key is gone or another now, and log
 * by name what has changed. A file that is not fit changes nothing and is an error line.
 * Sessions that have not proved a key yet are held against the new ones. Reads a disk.
 */
void rekey(struct control *c);

#endif
