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

/**
 * handle_open() for one server of a cluster, given by the id of its map and its number there. The
 * handle takes no other map, and uses no lease. FARKV_EREFUSED: the server has another map.
 */
int handle_open_server(const struct uri *uri, const struct farkv_options *opts, uint64_t map_id,
		       uint8_t server, struct farkv **kv_out);

/**
 * handle_open() for several addresses, tried in turn until one answers. If that server belongs to a
 * cluster, the handle is one of all its servers (router.h), at least one of which must answer;
 * otherwise it must be the only address.
 */
int handle_open_any(const struct uri *seeds, size_t n, const struct farkv_options *opts,
		    struct farkv **kv_out);

/**
 * Make the handle of server `i` of `map` a member of a cluster's handle. The member may be without
 * a connection, which its first call then makes. FARKV_ENOMEM, or an error other than a server that
 * does not answer. CONNECT_MAP, unless newer_out is NULL: the server has a newer map, and the
 * member has no connection.
 */
int handle_open_member(struct farkv *kv, const struct clustermap *map, uint32_t i, uint64_t until_ns,
		       struct clustermap **newer_out);

/** As farkv_close(). Logs an error and does nothing if the handle is not open (closed before)
 * or busy. */
void handle_close(struct farkv *kv);
/**
 * handle_close() in two steps. True: nobody can use the handle any more, and handle_close_end()
 * must follow.
 */
bool handle_close_begin(struct farkv *kv);
void handle_close_end(struct farkv *kv);

#endif
