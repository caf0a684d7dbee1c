/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * control_rig.h - the server's control loop without sockets: a region, the loop, and
 * two clients that are functions.
 */
#ifndef TESTS_RIG_CONTROL_RIG_H
#define TESTS_RIG_CONTROL_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/index/alloc.h"
#include "common/base/clock.h"
#include "server/loop/barrier.h"
#include "server/loop/control.h"
#include "server/loop/core.h"
#include "server/loop/session.h"
#include "test_main.h"

#define MIB (UINT64_C(1) << 20)
#define GRACE_NS (20 * NS_PER_MS)
#define HELD_MAX 65536u

/* Classes of blocks: 64 bytes, and 4 KiB. */
#define RIG_SMALL 0u
#define RIG_LARGE class_for(4096)

extern struct region region;
extern struct control *c;

/* ---- clients ----------------------------------------------------------------- */

struct peer {
	struct session *session; /* NULL: it has ended */
	bool silent;             /* does not answer barriers */
	bool unread;             /* sent a message that the server has not read */
	void *tether;            /* mapped; NULL: it has none */
	unsigned fenced, barriers, reclaims;
	uint64_t barrier;        /* to be acknowledged, 0 none */
	bool answered;           /* its request */
	uint64_t answered_ns;
	uint32_t req;
	size_t n;                /* blocks of the last answer */
	struct block_ref got[MSG_REFS_MAX];
	size_t n_held;
	struct block_ref held[HELD_MAX];
	/* handler of other messages; it must not send any. NULL: ignored */
	void (*heard)(struct peer *p, const struct msg *m);
};
extern struct peer alice, bob;

/** Their kinds of connection: local, and remote. */
extern const struct conn_ops rig_local, rig_remote;

/** A session of `pid` that has been welcomed. */
void join(struct peer *p, const struct conn_ops *port, pid_t pid);

/** Unmap a peer's tether. */
void untie(void *tether);

/** False: this has ended its session. */
bool say(struct peer *p, const struct msg *m, const struct block_ref *refs);

void answer_barrier(struct peer *p);

/* ---- turns ------------------------------------------------------------------- */

/** One turn of the loop; then every peer that is not silent answers its barrier. */
void turn(void);
/** Turns for `ms`. */
void turns(unsigned ms);

#define WAIT_FOR(condition)                                                    \
	do {                                                                   \
		uint64_t end_ = clock_now_ns() + 20 * NS_PER_SEC;              \
                                                                               \
		while (!(condition)) {                                         \
			ck_assert_msg(clock_now_ns() < end_, "never: %s",      \
				      #condition);                             \
			turn();                                                \
			usleep(200);                                           \
		}                                                              \
	} while (0)

/* ---- blocks ------------------------------------------------------------------ */

/** Ask for blocks; the answer comes in a turn. */
void rig_ask(struct peer *p, uint8_t cls, uint32_t count);
/** The same, and waits for the answer; returns how many came. They are held. */
size_t rig_get(struct peer *p, uint8_t cls, uint32_t count);
/**
 * Take the free pages, so that only pages that come back can be granted, and give them back.
 * (Pages that values leave to the growth of the index are free when there are no keys.)
 */
void rig_hide_pages(void);
void rig_show_pages(void);
/** rig_get() until no more come. */
size_t rig_get_all(struct peer *p, uint8_t cls);
/** The same, and then the reserve (slab.h): no block is left. */
size_t rig_get_reserve(struct peer *p, uint8_t cls);
/** Return the last `n` blocks that it holds. */
void rig_give(struct peer *p, size_t n, enum return_kind state);

/* ---- setup and teardown -------------------------------------------------------- */

/**
 * A region of 2 MiB with an index of `index_slots`, and alice. The server's log lines can
 * be counted.
 */
void rig_begin(uint64_t index_slots);
/** The same with an index of one subtable, in a region of `memory` bytes that evicts. */
void rig_begin_cache(uint64_t memory);

/** Checks the server's accounts, and frees everything. */
void rig_end(void);

/** How often the text is in the log. */
size_t log_count(const char *what);

#endif
