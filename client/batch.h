/* SPDX-License-Identifier: BSD-3-Clause */
/** batch.h - farkv_mget() and farkv_mput(). */
#ifndef CLIENT_BATCH_H
#define CLIENT_BATCH_H

#include "handle.h"

/** As farkv_mget() and farkv_mput(), arguments checked. */
int batch_get(struct farkv *kv, struct farkv_get_item *items, size_t n);
int batch_put(struct farkv *kv, struct farkv_put_item *items, size_t n);

#endif
