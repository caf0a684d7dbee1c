/* SPDX-License-Identifier: BSD-3-Clause */
/** open.h - a handle's open and close. */
#ifndef CLIENT_OPEN_H
#define CLIENT_OPEN_H

#include "handle.h"

/**
 * Open; `opts` is complete and checked. Errors as farkv_open(), then *kv_out is untouched.
 */
int handle_open(const struct uri *uri, const struct farkv_options *opts,
		struct farkv **kv_out);

/** As farkv_close(). Logs an error and does nothing if the handle is not open (closed before)
 * or busy. */
void handle_close(struct farkv *kv);

#endif
