/* SPDX-License-Identifier: BSD-3-Clause */
/** gate_rig.h - kvgate's commands on a real store: requests, and the answers byte by byte. */
#ifndef TESTS_RIG_GATE_RIG_H
#define TESTS_RIG_GATE_RIG_H

#include "gate/client.h"
#include "tests/rig/real_server.h"

#define GATE_RIG_MAX_VALUE (1u << 20)

/** One client of a gate of one thread, without a socket. */
struct gate_rig {
	struct real_server srv;
	struct gate gate;
	struct gate_counts counts;
	struct client client;
	struct buf out, scratch;
};

extern struct gate_rig rig;

/** A test case's fixture. */
void gate_rig_setup(void);
/** The same with a store that evicts. */
void gate_rig_setup_cache(void);
void gate_rig_teardown(void);

/** A line of Redis's, without its end, is answered by `want` without the last line break. */
void resp(const char *line, const char *want);

/** The answer begins so. */
void resp_begins(const char *line, const char *want);

/** The answer, after resp_begins(), has this text in it. */
void has_text(const char *text);

/** Execute memcached's requests, one after the other. Returns the bytes of the answers. */
size_t mc_ask(const char *requests);

/** memcached's requests are executed one after the other; `want` is all answers. */
void mc(const char *requests, const char *want);

#endif
