/* SPDX-License-Identifier: BSD-3-Clause */
/** returns.h - RETURN: blocks come back. */
#ifndef SERVER_LOOP_RETURNS_H
#define SERVER_LOOP_RETURNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "work.h"

struct loop_module;
struct msg;
struct session;
/* RETURNs that take more than one slice */
TAILQ_HEAD(unfinished_list, unfinished);

struct returns {
	struct unfinished_list unfinished;
	struct work work;
	uint64_t forgotten; /* slab_forgotten() when it was last handled */
};

extern const struct loop_module returns_module;

/** Handle a RETURN, or begin to; false: the session is gone. */
bool returns_on_message(struct session *s, const struct msg *m);
/** Finish a RETURN in progress at once; false: the session is gone. */
bool returns_finish(struct session *s);

#endif
