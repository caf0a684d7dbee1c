/* SPDX-License-Identifier: BSD-3-Clause */
/** grants.h - GRANT: sessions get blocks, or wait for some. */
#ifndef SERVER_LOOP_GRANTS_H
#define SERVER_LOOP_GRANTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct event;
struct loop_module;
struct msg;
struct session;

/** A GRANT_REQ that waits for blocks; grants.c has the rules. */
struct deferred {
	TAILQ_ENTRY(deferred) link;
	struct session *session;
	uint64_t began_ns;
	uint64_t hunt_ns;  /* until when to wait for memory that others held */
	uint64_t until_ns; /* until when to wait for its own class and pages */
	uint64_t barriers, searches, sweeps; /* counts at which it stops waiting for them */
	uint32_t req, count;
	uint8_t cls;
	bool asked; /* reclaim, the last step, has been waited for */
};
TAILQ_HEAD(deferred_list, deferred);

struct grants {
	struct deferred_list deferred; /* oldest first */
	uint32_t n_deferred;
	struct event *due; /* serves them */
};

extern const struct loop_module grants_module;

/** Handle GRANT_REQ; false: the session is gone. */
bool grants_on_request(struct session *s, const struct msg *m);

#endif
