/* SPDX-License-Identifier: BSD-3-Clause */
/** waiters.h - requests whose answer takes its time: who asked, by which number. */
#ifndef SERVER_WAITERS_H
#define SERVER_WAITERS_H

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
 * False if out of memory, or if the session has WAITERS_MAX requests in this list:
 * nothing has changed then.
 */
bool waiters_add(struct waiters *list, struct session *s, uint32_t req);
#define WAITERS_MAX 16u

/** Take the first one out; NULL if there is none. */
struct session *waiters_take(struct waiters *list, uint32_t *req_out);

/** Forget those of a session that ends; NULL: of all. */
void waiters_drop(struct waiters *list, const struct session *s);

#endif
