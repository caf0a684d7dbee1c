/* SPDX-License-Identifier: BSD-3-Clause */
/** cluster_rig.h - three real servers a, b and c that are a cluster, and a handle of it. */
#ifndef TESTS_RIG_CLUSTER_RIG_H
#define TESTS_RIG_CLUSTER_RIG_H

#include <stddef.h>

#include <farkv.h>

#include "common/proto/clustermap.h"
#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"

#define CLUSTER_SERVERS 3u
#define CLUSTER_KEYS 600u
#define CLUSTER_TIMEOUT_MS 60000u /* of a busy machine */

extern const char *const server_names[CLUSTER_SERVERS];
extern struct real_server srv[CLUSTER_SERVERS];
extern struct clustermap *map;
extern struct farkv *kv;
extern char keys[CLUSTER_KEYS][16];

/** Start the servers, and open `kv`. */
void cluster_setup(void);
void cluster_teardown(void);

/** Write `map` to the file that servers read at their start. */
void cluster_map_write(void);
/** Start srv[i] under a name of the map. */
void cluster_start(unsigned i, const char *name);

/** Write keys[i]; returns its length. */
size_t key_make(unsigned i);
/** The server of keys[i]. */
unsigned owner(unsigned i);
/** The first key that a server has. */
const char *key_of(unsigned server);
/** Put each key as its own value. */
void store_all(void);

/** Requests for the first `n` keys, whose tags are the keys' numbers. */
void requests_make(struct farkv_request *reqs, unsigned n, enum farkv_request_kind kind);

/** `err` is FARKV_EDISCONNECTED, and the thread's line names the server. */
void check_names_server(int err, const char *name);

#endif
