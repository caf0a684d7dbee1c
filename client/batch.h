/* SPDX-License-Identifier: BSD-3-Clause */
/** batch.h - farkv_mget(), farkv_mget_into(), farkv_mput(), farkv_mexists(), and deletes. */
#ifndef CLIENT_BATCH_H
#define CLIENT_BATCH_H

#include "handle.h"

/** As the functions of farkv.h, arguments checked. *large_out: it returned large values,
 * and handle_release_batch() is to follow at the end of the next call. */
int batch_get(struct farkv *kv, struct farkv_get_item *items, size_t n, bool *large_out);
int batch_get_into(struct farkv *kv, struct farkv_get_into_item *items, size_t n,
		   bool *large_out);
int batch_put(struct farkv *kv, struct farkv_put_item *items, size_t n);

/** As farkv_mexists(), arguments checked; `bitmap` is NULL, or all 0. */
int batch_exists(struct farkv *kv, const struct farkv_key *keys, size_t n, uint8_t *bitmap,
		 size_t *prefix_out);

/**
 * Delete these keys; adds the number of deleted values to *deleted, also before an error. Errors as
 * farkv_delete(), except that a key without a value is no error.
 */
int batch_delete(struct farkv *kv, const struct farkv_scan_item *items, size_t n,
		 uint64_t *deleted);

#endif
