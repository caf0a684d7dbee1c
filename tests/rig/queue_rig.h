/* SPDX-License-Identifier: BSD-3-Clause */
/** queue_rig.h - submitted requests of a fake server's handle. */
#ifndef TESTS_RIG_QUEUE_RIG_H
#define TESTS_RIG_QUEUE_RIG_H

#include "handle_rig.h"
#include "step_lane.h"

#define DONE_MAX 64

/** The handle's lane, if it was opened by setup_stepping(): only polls make progress. */
extern struct step_lane *lane;
/** Completions taken by reap() and others, by tag. */
extern struct farkv_completion done[DONE_MAX];

void setup_stepping(void);
void setup_stepping_long_grace(void);
/** A lane with a card, which raises events. */
void setup_card(void);

/**
 * How long a case waits for an expected event: long, but short once one has waited in
 * vain, so that a program in which many cases hang ends soon, with a report.
 */
unsigned patience_ms(void);
/** Fail the case: `what` had no effect in that time. */
void waited_in_vain(const char *what) __attribute__((noreturn));

/** A request; `value` may be NULL. */
struct farkv_request request(enum farkv_request_kind kind, uint64_t tag,
			     const char *key, const char *value);
/** Submit one, which must be accepted. */
void submit(enum farkv_request_kind kind, uint64_t tag, const char *key,
	    const char *value);
/** farkv_poll() into done[]; returns the number. */
unsigned take(void);
/** Poll until nothing is in flight. */
void reap(void);
/** farkv_wait() until nothing is in flight. */
void wait_all(void);

void assert_got(uint64_t tag, const char *value);
#define ENDED(tag, err) ck_assert_int_eq(done[tag].result, err)

#endif
