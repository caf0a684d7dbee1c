/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * follower.h - a child process of the server that copies keys from another server of the cluster
 * into its own, as a client of both: for a follower, and for partitions that move. Neither server's
 * event loop takes part but for a few messages per pass.
 *
 * A pass looks at every word of the source's index by READs, and gets the keys whose words have
 * changed since the previous pass (client/follow.h). After the first pass, which also deletes from
 * the own server what the source does not have, the copy is whole; after each later one every key
 * has a state that the source had when the pass began, or a newer one.
 *
 * The child ends by itself when its parent does, when the source ends or forgets its region, or
 * when it is killed: which may happen at any time. It writes to no partition but those of its
 * order.
 */
#ifndef SERVER_FOLLOWER_FOLLOWER_H
#define SERVER_FOLLOWER_FOLLOWER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/proto/clustermap.h"

/** The child's name for its own server begins with this; the rest is random. */
#define FOLLOWER_NAME "kvserver-follower-"

enum follower_kind {
	FOLLOWER_FOLLOW, /* until it is killed: copies what its source has */
	FOLLOWER_MOVE,   /* until it is killed: copies partitions that are to move here */
	FOLLOWER_PURGE,  /* no source: delete all keys but those of the partitions, then end */
};

/** What a child is to do. */
struct follower_order {
	uint32_t kind;
	char own[1024];    /* URI of the own server, without keys */
	char source[256];  /* address of the source, as the map has it */
	char keys[1024], key[256]; /* the server's key file and the key's name; may be empty */
	uint64_t map_id;   /* of the map that the source is told */
	uint64_t seed;     /* of the map: a key's partition */
	uint8_t source_server, own_server; /* indexes in the map */
	uint8_t partition[CLUSTERMAP_PARTITIONS / 8]; /* bitmap: those to copy; of PURGE: to keep */
};

/** A child reports after each pass, every second in one, and before it ends with an error. */
struct follower_report {
	int32_t err;     /* 0, or FARKV_... : the child ends */
	uint32_t passes; /* that are complete; 1: the copy is whole. Of PURGE: 1, it is done */
	uint64_t began_ns; /* clock_now_ns() when the last complete one began */
	uint64_t fenced;   /* the fence that was complete at its source when that pass began: an epoch; or 0 */
	uint64_t keys, bytes; /* copied so far */
	char detail[256];
};

struct follower {
	pid_t pid;
	int fd; /* packets, struct follower_report; readable at its end, too */
	char name[48]; /* that the child gives to its own server in HELLO */
};

/**
 * Start a child: this program's file is executed again, with the argument FOLLOWER_ARGUMENT. At any
 * time, by a thread that lives as long as the child may: it ends with that thread. 0, or FARKV_ESYS
 * with a detail.
 */
int follower_start(const struct follower_order *o, struct follower *f_out);

/** The next report, without waiting. 1, 0: none is there, -1: the child has ended. */
int follower_report(const struct follower *f, struct follower_report *out);

/** Kill the child, and wait for its end: afterwards it writes nothing, as far as it is local. */
void follower_stop(struct follower *f);

#define FOLLOWER_ARGUMENT "--run-follower"
/**
 * What main() does with that argument alone: the child's work. Descriptor 0 brings two packets, the
 * order and the name for the own server, and takes the reports.
 */
int follower_main(void);

#endif
