/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * event_rig.h - a thread that sleeps on the descriptor of farkv_event_fd(), for the
 * handle of queue_rig.h.
 */
#ifndef TESTS_RIG_EVENT_RIG_H
#define TESTS_RIG_EVENT_RIG_H

#include <stdbool.h>

#include "common/base/clock.h"

/** Wakes allowed for one cause: its own, and one of a timer that fires late. */
#define WAKES_FEW 20u
/** Long enough for a control thread to react. */
#define SETTLE_NS (20 * NS_PER_MS)

/** The handle's descriptor, from open_fd() on. */
extern int fd;
/** How often drive() was woken. */
extern unsigned wakes;

void open_fd(void);
/** Whether it is readable, now or within this many milliseconds. */
bool readable(int ms);
/** The case fails if it is not soon. */
void wait_readable(void);
/** Poll until 0. */
void poll_out(void);
/** As documented: wait, poll until 0, wait; until nothing is in flight. */
void drive(void);
/** It becomes unreadable once all completions are taken. */
void quiet(void);

#endif
