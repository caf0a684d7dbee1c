/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fake_control.h - replaces client/control.c, without a thread. The target calls the
 * functions of the only source when no lock is held that they may take.
 */
#ifndef TESTS_FUZZ_FAKE_CONTROL_H
#define TESTS_FUZZ_FAKE_CONTROL_H

#include <stdbool.h>

/** Whether its function is running. */
extern bool fake_control_runs;

/** The socket can be read, or written. Nothing happens if the source is mute. */
void fake_control_ready(void);
/** A millisecond has passed. Nothing happens if it did not ask to know. */
void fake_control_tick(void);

#endif
