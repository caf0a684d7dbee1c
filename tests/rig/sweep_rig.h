/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * sweep_rig.h - sweeps of a real kvserver, with sessions whose every message the test
 * chooses: the server, victims, and the messages of a session in a sweep.
 */
#ifndef TESTS_RIG_SWEEP_RIG_H
#define TESTS_RIG_SWEEP_RIG_H

#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

#include "e2e.h"
#include "raw_session.h"
#include "real_server.h"
#include "test_main.h"

/* ---- the server's side ------------------------------------------------------- */

extern struct real_server srv;

/** A server of 64 MiB, and a handle for what follows. */
void setup(void);
void teardown(void);

struct farkv_stats stats(void);

/** Wait until `condition`, of the statistics `s`, is true. */
#define wait_for(condition)                                                   \
	do {                                                                  \
		struct farkv_stats s;                                         \
		int tries = 0;                                                \
                                                                              \
		for (s = stats(); !(condition); s = stats()) {                \
			ck_assert_msg(++tries < 1000, "not seen: %s",         \
				      #condition);                            \
			usleep(10000);                                        \
		}                                                             \
	} while (0)

/** A check that finds no damage. */
struct farkv_fsck check(void);

/* ---- victims: processes that are killed -------------------------------------- */

#define BLOCKS 10 /* that a victim holds */

struct victim {
	pid_t pid;
	struct block_ref refs[BLOCKS];
};

/** `acks`: it acknowledges BEGIN, but answers no question. */
struct victim victim_new(bool acks);
void victim_kill(const struct victim *v);

/* ---- living sessions ----------------------------------------------------------- */

/** A session that may write. */
int writer(void);

/** The next message is SWEEP_BEGIN. Returns the sweep's number. */
uint64_t hear_begin(int fd);
void hear_end(int fd, uint64_t number);

#define REFS_MAX 64

struct asked {
	uint32_t req;
	uint32_t n;
	struct block_ref refs[REFS_MAX];
};

/** The next message is the sweep's first question. */
struct asked hear_question(int fd, uint64_t number);
/** Returns how many of `refs` are asked about. */
unsigned among(const struct asked *a, const struct block_ref *refs, unsigned n);

void ack(int fd, uint64_t number);
void claim(int fd, uint64_t number, uint32_t req, const struct block_ref *refs,
	   uint32_t n);
void give_back(int fd, const struct block_ref *refs, uint32_t n);
/** Leave once the server has read all earlier messages. */
void say_bye(int fd);

/** The server still answers this session. */
void check_alive(int fd);
/** ... or sends the reason, and closes. */
void check_thrown_out(int fd, enum msg_reason reason);

#endif
