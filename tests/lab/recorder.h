/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Histories that survive their writers: each client notes an operation in shared memory
 * before it begins and after it has ended. The last notes of a killed client are
 * UNKNOWN, so none of its operations is lost.
 */
#ifndef TESTS_LAB_RECORDER_H
#define TESTS_LAB_RECORDER_H

#include <stdbool.h>

#include "history.h"
#include "ticks.h"

/* One writer at a time; readers when there is none. */
struct recorder {
	uint64_t n;
	uint64_t room;
	struct history_op *op;
};

/**
 * `op` is shared memory that all processes have at the same address. Resets the recorder.
 */
void recorder_init(struct recorder *r, struct history_op *op, uint64_t room);

/** False if there is no room for `n` more. */
bool recorder_has_room(const struct recorder *r, uint64_t n);

/**
 * Note `n` operations that are about to begin: all but the times and results are filled
 * in. Later accesses of the caller do not precede their invocation. Returns the notes.
 */
struct history_op *recorder_begin(struct recorder *r, struct history_op *ops,
				  unsigned n);

/** The `n` operations of recorder_begin() have ended, each with its `result`. */
void recorder_end(struct history_op *op, unsigned n, const uint8_t *result);

/** From now on the notes' times are those of this clock; before the first note. */
void recorder_use_ticks(const struct ticks *t);

/**
 * From now on notes have the region's CLOCK, which is here; NULL: none.
 */
void recorder_use_clock(const uint64_t *clock);

/** CLOCK, or 0. */
uint32_t recorder_clock(void);

/** The time that a note would get now. */
uint64_t recorder_time(void);

/** CLOCK_MONOTONIC, ns: the default. */
uint64_t recorder_now(void);

#endif
