/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * clustermap.h - the map of a cluster: which server has which keys, which one has copies of them,
 * and which keys are to move. doc/cluster.md.
 *
 * A key belongs to one of 4096 partitions, and a partition to one server. The partition comes from
 * a hash of its own: with a store's hash each store would use only a part of its directory. The map
 * is a text, the same in a file and in the MAP message:
 *
 *   farkv cluster 1                  format of the map
 *   epoch 7                          counts the changes of a cluster's map, from 1 on
 *   seed 0123456789abcdef            of the partitions' hash; 16 hexadecimal digits
 *   lease 1000                       ms; only in a map that may change: see below
 *   replicas 1                       copies of each key; only with a lease; 0 if there is no such
 * line server a shm:///run/farkv/a.sock NAME ADDRESS; 1 to 64 of them, names and addresses differ
 *   server b kv://host:7670 6        ... and the epoch by which it last began, empty
 *   server c kv://other:7670 0 drained  ... gets none by balancing; by a takeover only those
 *                                    of a server that it follows, or any if all are drained
 *   follower a b                     b has a whole copy of what a has; at most one for each server
 *   partitions 0-2047 a              FIRST-LAST NAME, in ascending order, all of 0-4095
 *   partitions 2048-4095 b
 *   move 2048-3071 a                 FIRST-LAST NAME: these are to move to that server; in
 * ascending order move 3072-3100 a fenced          ... and nobody may read or write them until they
 * have moved
 *
 * in this order, words separated by spaces or tabs. A word that begins with # starts a comment;
 * empty lines are skipped. A NAME is 1 to 31 of A-Z a-z 0-9 . _ -; an ADDRESS is shm://PATH,
 * kv://HOST:PORT or an absolute path, without keys: clients give their own.
 *
 * A map with a lease may change: its servers learn the current one from a coordinator, and a client
 * trusts a server only while that server holds a lease (doc/cluster.md). Its list of servers only
 * grows, at the end.
 *
 * The id of a map is the XXH3 of the text that clustermap_print() writes: maps of one id have the
 * same content. A map is constant once it is made; any thread may read it. Free with free().
 */
#ifndef COMMON_PROTO_CLUSTERMAP_H
#define COMMON_PROTO_CLUSTERMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/region/hash.h"

#define CLUSTERMAP_PARTITIONS 4096u
#define CLUSTERMAP_SERVERS_MAX 64u
#define CLUSTERMAP_NAME_MAX 31u
#define CLUSTERMAP_ADDRESS_MAX 200u
/** Largest size of a map's text in bytes: it has to fit a message. */
#define CLUSTERMAP_TEXT_MAX 16000u
/** No server: in `follower` and `to`. */
#define CLUSTERMAP_NONE UINT8_MAX
/** Bounds of a lease, in ms. */
#define CLUSTERMAP_LEASE_MIN 100u
#define CLUSTERMAP_LEASE_MAX 60000u

struct clustermap_server {
	char name[CLUSTERMAP_NAME_MAX + 1]; /* terminated */
	char address[CLUSTERMAP_ADDRESS_MAX + 1];
	uint32_t partitions; /* how many it has */
	uint64_t emptied; /* the epoch by which it last began empty; 0: it never began */
	uint8_t follower; /* the server that has a whole copy of its keys; or CLUSTERMAP_NONE */
	bool drained;
};

struct clustermap {
	uint64_t epoch, seed;
	uint64_t id; /* not 0 */
	uint32_t lease_ms; /* 0: the map does not change */
	uint32_t replicas; /* 0 or 1 */
	uint32_t n_servers;
	uint32_t n_moves, n_fenced; /* partitions that are to move; those of them that are fenced */
	struct clustermap_server server[CLUSTERMAP_SERVERS_MAX];
	uint8_t owner[CLUSTERMAP_PARTITIONS]; /* of a partition: an index of `server` */
	uint8_t to[CLUSTERMAP_PARTITIONS]; /* where it is to move, or CLUSTERMAP_NONE */
	bool fenced[CLUSTERMAP_PARTITIONS];
};

/**
 * Parse `len` bytes of text. FARKV_EINVAL with `where:line: what is wrong`, FARKV_ENOMEM; *out is
 * set on success only.
 */
int clustermap_parse(const char *where, const char *text, size_t len, struct clustermap **out);

/**
 * Parse a file. Errors as clustermap_parse(), and FARKV_EINVAL (no such file, not regular, too
 * large, no text), FARKV_EPERM, FARKV_ESYS. Reads a disk.
 */
int clustermap_load(const char *path, struct clustermap **out);

/**
 * A map of epoch 1 with a random seed, whose partitions are divided among the servers in equal
 * parts. `servers` is NAME=ADDRESS,NAME=ADDRESS,... FARKV_EINVAL, FARKV_ENOMEM, FARKV_ESYS.
 */
int clustermap_make(const char *servers, struct clustermap **out);

/** Set the lease of a new map, which changes its id. */
void clustermap_set_lease(struct clustermap *m, uint32_t lease_ms);

/** Set the number of copies of each key in a new map, 0 or 1, which changes its id. */
void clustermap_set_replicas(struct clustermap *m, uint32_t replicas);

/*
 * Each of the following makes the next epoch's map with one change. Errors: FARKV_EINVAL with a
 * line (as stated there, or if the text becomes too long), FARKV_ENOMEM. *out is set on success
 * only.
 */

/**
 * The servers of `gone` lose their partitions. If a server's follower is in `living`, it gets them;
 * otherwise those of `living` that are not drained (all, if all are drained) get equal shares,
 * empty. Removes the lines of followers and moves that name a server of `gone`, and the follower of
 * each server that gets partitions. `gone` and `living` are disjoint sets of server numbers.
 * FARKV_EINVAL: `living` is empty.
 */
int clustermap_take_over(const struct clustermap *m, uint64_t gone, uint64_t living,
			 struct clustermap **out);

/**
 * A server has started and is empty; `living` are the others. On its first start it keeps its
 * partitions, which have never had a value. Later it has lost them, as by clustermap_take_over(),
 * unless `living` is empty. In both cases its `emptied` is the new map's epoch, and it must not
 * serve before that map.
 */
int clustermap_start_empty(const struct clustermap *m, uint32_t server, uint64_t living,
			  struct clustermap **out);

/** Add a server to the end of the list, without partitions; or, if it is drained, end that. */
int clustermap_add(const struct clustermap *m, const char *name, const char *address,
		   struct clustermap **out);

/**
 * Plan the fewest moves after which all servers of `living` that are not drained have the same
 * number of partitions, give or take one. Plans again the earlier moves that are not fenced; fenced
 * partitions count as moved. FARKV_EEXISTS: there is nothing to move. FARKV_EINVAL: a move would be
 * needed from a server outside of `living`, or no server may have partitions.
 */
int clustermap_balance(const struct clustermap *m, uint64_t living, struct clustermap **out);

/**
 * Mark the server as drained, and plan the moves of its partitions as clustermap_balance() does.
 */
int clustermap_drain(const struct clustermap *m, uint32_t server, uint64_t living,
		     struct clustermap **out);

/**
 * Fence the partitions that are planned to move from `from` to `to`. FARKV_EINVAL: there are none.
 */
int clustermap_fence(const struct clustermap *m, uint32_t from, uint32_t to, struct clustermap **out);

/**
 * The fenced partitions have moved from `from` to `to`. Removes the follower of `to`, which has no
 * copy of them, and the follower of a server without partitions. FARKV_EINVAL: there are none.
 */
int clustermap_moved(const struct clustermap *m, uint32_t from, uint32_t to, struct clustermap **out);

/** `follower` has a whole copy of what `server` has; CLUSTERMAP_NONE: no server has one. */
int clustermap_follow(const struct clustermap *m, uint32_t server, uint8_t follower,
		      struct clustermap **out);

/** The map's text, terminated, into `buf` of CLUSTERMAP_TEXT_MAX + 1 bytes; returns its length. */
size_t clustermap_print(const struct clustermap *m, char *buf);

/** The index of the server of that name, or n_servers. */
uint32_t clustermap_find(const struct clustermap *m, const char *name);

/** The set of the servers of these names, one bit for each; unknown names are ignored. */
uint64_t clustermap_set_of(const struct clustermap *m, const char *const *names, size_t n);

/** The key's partition. */
static inline uint32_t clustermap_partition(const struct clustermap *m, const void *key, size_t len)
{
	return (uint32_t)(hash_key_in_line(m->seed, key, len) % CLUSTERMAP_PARTITIONS);
}

/** The index of the key's server. */
static inline uint32_t clustermap_owner(const struct clustermap *m, const void *key, size_t len)
{
	return m->owner[clustermap_partition(m, key, len)];
}

/** The seed of the indexes of all its servers, so that keys have the same order on each. */
static inline uint64_t clustermap_index_seed(const struct clustermap *m)
{
	return (m->seed ^ UINT64_C(0xA0761D6478BD642F)) * UINT64_C(0xE7037ED1A0B428DB);
}

#endif
