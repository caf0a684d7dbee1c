/* SPDX-License-Identifier: BSD-3-Clause */
/** scan.h - farkv_scan() and farkv_clear(). */
#ifndef CLIENT_SCAN_H
#define CLIENT_SCAN_H

#include <stddef.h>
#include <stdint.h>

struct farkv;

/**
 * Set kv->scan to the keys from *cursor on, as index_scan() lists them; reconnects if the
 * connection breaks. Inside the critical section. Errors and their meaning as farkv_scan().
 */
int scan_next(struct farkv *kv, uint64_t *cursor, size_t max);

/**
 * As farkv_clear(), inside the critical section, which it leaves for a moment from time to time.
 */
int scan_clear(struct farkv *kv, uint64_t *deleted_out);

#endif
