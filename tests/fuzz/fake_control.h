/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fake_control.h - in place of client/control.c: no thread. The one source there is
 * gets its calls from the target, when no lock is held that it may want.
 */
#ifndef TESTS_FUZZ_FAKE_CONTROL_H
#define TESTS_FUZZ_FAKE_CONTROL_H

#include <stdbool.h>

/** Is its function running? */
extern bool fake_control_runs;

/** The socket can be read, or written. Nothing happens if the source is mute. */
void fake_control_ready(void);
/** A millisecond has passed. Nothing happens if it did not ask to know. */
void fake_control_tick(void);

#endif
