/* SPDX-License-Identifier: BSD-3-Clause */
/** waiters.h - requests that are answered later: session and request number. */
#ifndef SERVER_LOOP_WAITERS_H
#define SERVER_LOOP_WAITERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct session;

struct waiter {
	TAILQ_ENTRY(waiter) link;
	struct session *session;
	uint32_t req;
};

/* Oldest first. */
TAILQ_HEAD(waiters, waiter);

/**
 * False, with no effect, if out of memory or if the session has WAITERS_MAX requests in this
 * list.
 */
bool waiters_add(struct waiters *list, struct session *s, uint32_t req);
#define WAITERS_MAX 16u

/** Remove and return the first one; NULL if there is none. */
struct session *waiters_take(struct waiters *list, uint32_t *req_out);

/** Remove the requests of a session that ends; NULL: of all. */
void waiters_drop(struct waiters *list, const struct session *s);

#endif
