/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * clustermap.h - the map of a cluster: which server has which keys, which one has copies of them, and
 * which keys are to move. doc/cluster.md.
 *
 * A key belongs to one of 4096 partitions, by a hash of its own (not the hash of a store, whose
 * directory would otherwise use a part of its entries only), and a partition to one server. The map is
 * a text, in a file and in the MAP message alike:
 *
 *   farkv cluster 1                  format of the map
 *   epoch 7                          counts the changes of a cluster's map, from 1 on
 *   seed 0123456789abcdef            of the partitions' hash; 16 hexadecimal digits
 *   lease 1000                       ms; only in a map that may change: see below
 *   replicas 1                       copies of each key; only with a lease; 0 if there is no such line
 *   server a shm:///run/farkv/a.sock NAME ADDRESS; 1 to 64 of them, names and addresses differ
 *   server b kv://host:7670 6        ... and the epoch by which it last began, empty
 *   server c kv://other:7670 0 drained  ... it gets none by balancing, and by a takeover only those of a server
 *                                    that it follows, or if all are drained
 *   follower a b                     b has a whole copy of what a has; at most one for each server
 *   partitions 0-2047 a              FIRST-LAST NAME, in ascending order, all of 0-4095
 *   partitions 2048-4095 b
 *   move 2048-3071 a                 FIRST-LAST NAME: these are to move to that server; in ascending order
 *   move 3072-3100 a fenced          ... and nobody may read or write them until they have
 *
 * in this order, words separated by spaces or tabs. A word that begins with # starts a comment;
 * empty lines are skipped. A NAME is 1 to 31 of A-Z a-z 0-9 . _ -; an ADDRESS is shm://PATH,
 * kv://HOST:PORT or an absolute path, without keys: these are the client's.
 *
 * A map with a lease changes: its servers learn the present one from a coordinator, and a client
 * believes a server only while it holds a lease (doc/cluster.md). Its list of servers only grows, at
 * the end.
 *
 * The id of a map is the XXH3 of the text as clustermap_print() writes it: two maps with one id say
 * the same. Maps do not change once they are made; any thread may read one. Free with free().
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
/** Bytes of a map's text, at most: it has to fit a message. */
#define CLUSTERMAP_TEXT_MAX 16000u
/** No server: in `follower` and `to`. */
#define CLUSTERMAP_NONE UINT8_MAX
/** Of a lease, in ms. */
#define CLUSTERMAP_LEASE_MIN 100u
#define CLUSTERMAP_LEASE_MAX 60000u

struct clustermap_server {
	char name[CLUSTERMAP_NAME_MAX + 1]; /* terminated */
	char address[CLUSTERMAP_ADDRESS_MAX + 1];
	uint32_t partitions; /* how many it has */
	uint64_t emptied; /* the epoch by which it last began empty; 0: it has not begun yet */
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
 * Parse a file. Errors as clustermap_parse(), and FARKV_EINVAL (no such file, not regular, too large,
 * no text), FARKV_EPERM, FARKV_ESYS. Reads a disk.
 */
int clustermap_load(const char *path, struct clustermap **out);

/**
 * A map of epoch 1 with a random seed, whose partitions are divided among the servers in equal
 * parts. `servers` is NAME=ADDRESS,NAME=ADDRESS,... FARKV_EINVAL, FARKV_ENOMEM, FARKV_ESYS.
 */
int clustermap_make(const char *servers, struct clustermap **out);

/** Give a new map a lease; it has another id then. */
void clustermap_set_lease(struct clustermap *m, uint32_t lease_ms);

/** Give a new map that many copies of each key, 0 or 1; it has another id then. */
void clustermap_set_replicas(struct clustermap *m, uint32_t replicas);

/*
 * The next epoch's map. Each of the following changes one thing, leaves all else, and fails with
 * FARKV_EINVAL and a line (what it says, or the text becomes too long), or with FARKV_ENOMEM. *out is
 * set on success only.
 */

/**
 * The servers of `gone` lose their partitions. If a server's follower is in `living` it gets them; otherwise
 * those of `living` that are not drained (all, if all are drained) get equal shares, empty. Lines of
 * followers and moves that name a server of `gone` leave, as does the follower of each server that gets
 * partitions. `gone` and `living` are sets of server numbers,
 * without a common one. FARKV_EINVAL: `living` is empty.
 */
int clustermap_take_over(const struct clustermap *m, uint64_t gone, uint64_t living,
			 struct clustermap **out);

/**
 * A server has started and is empty; `living` are the others. The first time it keeps its partitions:
 * nobody has put anything there. Later it has lost them, as by clustermap_take_over(), unless nobody else
 * lives. Its `emptied` is the new map's epoch either way: before that map it must not serve.
 */
int clustermap_start_empty(const struct clustermap *m, uint32_t server, uint64_t living,
			  struct clustermap **out);

/** Add a server to the end of the list, without partitions; or end the draining of one that is drained. */
int clustermap_add(const struct clustermap *m, const char *name, const char *address,
		   struct clustermap **out);

/**
 * Plan moves so that all servers of `living` that are not drained have the same number of partitions,
 * give or take one, by as few moves as possible. Moves that were planned before and are not fenced are
 * planned again; partitions that are fenced count as moved. FARKV_EEXISTS: there is nothing to move.
 * FARKV_EINVAL: a move would be needed from a server that is not of `living`, or nobody is left.
 */
int clustermap_balance(const struct clustermap *m, uint64_t living, struct clustermap **out);

/** The server is drained from now on, and its partitions are to move, as clustermap_balance() plans. */
int clustermap_drain(const struct clustermap *m, uint32_t server, uint64_t living,
		     struct clustermap **out);

/** Fence the partitions that are to move from one server to another. FARKV_EINVAL: there are none. */
int clustermap_fence(const struct clustermap *m, uint32_t from, uint32_t to, struct clustermap **out);

/**
 * The fenced partitions that were to move from one server to another are there. The line of the
 * follower of `to`, which has no copy of them, leaves, as does that of a server without partitions.
 * FARKV_EINVAL: there are none.
 */
int clustermap_moved(const struct clustermap *m, uint32_t from, uint32_t to, struct clustermap **out);

/** `follower` has a whole copy of what `server` has; CLUSTERMAP_NONE: nobody has. */
int clustermap_follow(const struct clustermap *m, uint32_t server, uint8_t follower,
		      struct clustermap **out);

/** The map's text, terminated, into `buf` of CLUSTERMAP_TEXT_MAX + 1 bytes; returns its length. */
size_t clustermap_print(const struct clustermap *m, char *buf);

/** The index of the server of that name, or n_servers. */
uint32_t clustermap_find(const struct clustermap *m, const char *name);

/** The servers of these names, a bit for each; unknown names count for nothing. */
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

/** The seed of all its servers' indexes: their keys have the same order everywhere. */
static inline uint64_t clustermap_index_seed(const struct clustermap *m)
{
	return (m->seed ^ UINT64_C(0xA0761D6478BD642F)) * UINT64_C(0xE7037ED1A0B428DB);
}

#endif
