/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * event_rig.h - who sleeps on the descriptor of farkv_event_fd(), for the handle of
 * queue_rig.h.
 */
#ifndef TESTS_RIG_EVENT_RIG_H
#define TESTS_RIG_EVENT_RIG_H

#include <stdbool.h>

#include "common/base/clock.h"

/** What one cause may wake for: itself, and what a clock that was set says late. */
#define WAKES_FEW 20u
/** Long enough for a control thread that is woken for something. */
#define SETTLE_NS (20 * NS_PER_MS)

/** The handle's, from open_fd() on. */
extern int fd;
/** How often drive() was woken. */
extern unsigned wakes;

void open_fd(void);
/** Is it readable, or within so many milliseconds? */
bool readable(int ms);
/** The case fails if it is not soon. */
void wait_readable(void);
/** Poll until 0. */
void poll_out(void);
/** As the contract has it: wait, poll until 0, wait; until nothing is in flight. */
void drive(void);
/** After a while it is not readable, all completions taken. */
void quiet(void);

#endif
