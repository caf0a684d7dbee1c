/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * copies.h - the child processes that copy other servers' keys into this server's store: of the
 * server that it follows, and of partitions that are to move here; and one that deletes what is
 * left of either. doc/cluster.md, Followers and moves.
 *
 * A child writes partitions that this server does not have by the map that clients know. It is
 * killed, and has exited, before clients learn that the server has them: copies_prepare_map().
 */
#ifndef SERVER_LOOP_COPIES_H
#define SERVER_LOOP_COPIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct clustermap;
struct control;
struct loop_module;

extern const struct loop_module copies_module;

/** Where children reach this server, and as which key: both are copied. Before membership_join().
 */
void copies_set_address(struct control *c, const char *uri, const char *key);

/**
 * Prepare for a map that gives this server more partitions than cfg.map does: kill the children
 * that write them. Partitions that were copied completely keep their keys. True: the others are
 * empty, and the map may be installed. False: their old keys are being deleted; call again.
 */
bool copies_prepare_map(struct control *c, const struct clustermap *map);

/** cfg.map was installed: delete partitions that this server no longer has. */
void copies_installed(struct control *c, const struct clustermap *before);

/**
 * Start and end children as cfg.map demands; `living` has a bit for each registered server. Returns
 * the map that they propose, which the caller publishes and frees; or NULL.
 */
struct clustermap *copies_step(struct control *c, uint64_t living);

/**
 * True if a client that gives this name is one of the children. With a map that does not change
 * there are none; then each name of a child is taken for one, so that tests can start it by hand.
 */
bool copies_is_child(const struct control *c, const char *name);

#endif
