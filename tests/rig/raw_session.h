/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * raw_session.h - a session on a kvserver's socket, message by message: for tests that
 * send what no library would send. Failures fail the running test case.
 */
#ifndef TESTS_RIG_RAW_SESSION_H
#define TESTS_RIG_RAW_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include "common/region/layout.h"
#include "common/proto/msg.h"

/**
 * Offset of the index's first subtable if the server has that many MiB: at the end of
 * what follows 2 MiB of metadata.
 */
#define RAW_INDEX_PAGE(mib) ((((mib) + 2u) << 20) / PAGE_BYTES - 1)

/** Connect to the socket at `path`. */
int raw_dial(const char *path);

void raw_say(int fd, const struct msg *m, const struct block_ref *refs);

/**
 * The next message, valid until the one after it; type 0 if the server has closed. Closes
 * descriptors that came along.
 */
struct msg raw_hear(int fd);

/**
 * As raw_hear(), but keep two descriptors; -1 where none came. A WELCOME also maps the
 * session's tether, as a client must, until raw_untie() or the process's end.
 */
struct msg raw_hear_fds(int fd, int fds_out[2]);

/** Unmap the tether of the last WELCOME. */
void raw_untie(void);

/** True if a message arrives within `ms`. */
int raw_pending(int fd, int ms);

/** The next message other than BARRIER, which is acknowledged, and RECLAIM. */
struct msg raw_next(int fd);

/** HELLO as `role`, up to WELCOME. */
int raw_session(const char *path, enum msg_role role, struct msg *welcome_out);

/** A region whose index is one subtable, for tests that damage it. */
struct raw_region {
	struct superblock sb;
	uint8_t *data;   /* what lies at sb.meta_bytes */
	uint64_t *slots; /* of the subtable */
	uint64_t page;   /* in which it lies */
};

/** As raw_session() of a writer, with the region mapped. */
int raw_session_map(const char *path, struct raw_region *r_out);
void raw_unmap(struct raw_region *r);

/** Ask for `n` blocks of class `cls` and get them all. */
void raw_grant(int fd, uint8_t cls, uint32_t n, struct block_ref *refs_out);

#endif
