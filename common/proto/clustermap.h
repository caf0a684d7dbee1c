/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * clustermap.h - the map of a cluster: which server has which keys. doc/cluster.md.
 *
 * A key belongs to one of 4096 partitions, by a hash of its own (not the hash of a store, whose
 * directory would otherwise use a part of its entries only), and a partition to one server. The map is
 * a text, in a file and in the MAP message alike:
 *
 *   farkv cluster 1                  format of the map
 *   epoch 7                          counts the changes of a cluster's map, from 1 on
 *   seed 0123456789abcdef            of the partitions' hash; 16 hexadecimal digits
 *   lease 1000                       ms; only in a map that may change: see below
 *   server a shm:///run/farkv/a.sock NAME ADDRESS; 1 to 64 of them, names and addresses differ
 *   server b kv://host:7670 6        ... and the epoch by which it last lost its partitions
 *   partitions 0-2047 a              FIRST-LAST NAME, in ascending order, all of 0-4095
 *   partitions 2048-4095 b
 *
 * in this order, words separated by spaces or tabs. A word that begins with # starts a comment;
 * empty lines are skipped. A NAME is 1 to 31 of A-Z a-z 0-9 . _ -; an ADDRESS is shm://PATH,
 * kv://HOST:PORT or an absolute path, without keys: these are the client's.
 *
 * A map with a lease changes: its servers learn the present one from a coordinator, and a client
 * believes a server only while it holds a lease (doc/cluster.md). Its list of servers stays.
 *
 * The id of a map is the XXH3 of the text as clustermap_print() writes it: two maps with one id say
 * the same. Maps do not change once they are made; any thread may read one. Free with free().
 */
#ifndef COMMON_PROTO_CLUSTERMAP_H
#define COMMON_PROTO_CLUSTERMAP_H

#include <stddef.h>
#include <stdint.h>

#include "common/region/hash.h"

#define CLUSTERMAP_PARTITIONS 4096u
#define CLUSTERMAP_SERVERS_MAX 64u
#define CLUSTERMAP_NAME_MAX 31u
#define CLUSTERMAP_ADDRESS_MAX 200u
/** Bytes of a map's text, at most: it has to fit a message. */
#define CLUSTERMAP_TEXT_MAX 16000u
/** Of a lease, in ms. */
#define CLUSTERMAP_LEASE_MIN 100u
#define CLUSTERMAP_LEASE_MAX 60000u

struct clustermap_server {
	char name[CLUSTERMAP_NAME_MAX + 1]; /* terminated */
	char address[CLUSTERMAP_ADDRESS_MAX + 1];
	uint32_t partitions; /* how many it has */
	uint64_t lost; /* the epoch by which it last lost its partitions; 0: never */
};

struct clustermap {
	uint64_t epoch, seed;
	uint64_t id; /* not 0 */
	uint32_t lease_ms; /* 0: the map does not change */
	uint32_t n_servers;
	struct clustermap_server server[CLUSTERMAP_SERVERS_MAX];
	uint8_t owner[CLUSTERMAP_PARTITIONS]; /* of a partition: an index of `server` */
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

/**
 * The next epoch's map, in which the partitions of the servers of `gone` are divided among those of
 * `living`: sets of server numbers, without a common one. FARKV_EINVAL (nobody lives, or the text
 * becomes too long), FARKV_ENOMEM.
 */
int clustermap_take_over(const struct clustermap *m, uint64_t gone, uint64_t living,
			 struct clustermap **out);

/** The map's text, terminated, into `buf` of CLUSTERMAP_TEXT_MAX + 1 bytes; returns its length. */
size_t clustermap_print(const struct clustermap *m, char *buf);

/** The index of the server of that name, or n_servers. */
uint32_t clustermap_find(const struct clustermap *m, const char *name);

/** The index of the key's server. */
static inline uint32_t clustermap_owner(const struct clustermap *m, const void *key, size_t len)
{
	return m->owner[hash_key_in_line(m->seed, key, len) % CLUSTERMAP_PARTITIONS];
}

#endif
