/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * hostile.h - a server at the other end of a channel without a socket, which says
 * what the input wants, and a small region.
 *
 * What it says arrives when the target pumps, within the client's sends, and while the
 * client's thread waits: always when that thread holds no lock that the control
 * thread may want, as if it ran beside it (fake_control.h, fake_clock.h).
 */
#ifndef TESTS_FUZZ_HOSTILE_H
#define TESTS_FUZZ_HOSTILE_H

#include <pthread.h>

#include "client/channel.h"
#include "common/index/index.h"
#include "fuzz.h"

#define HOSTILE_KEYS 8u

extern struct fuzz_in hostile_in;
extern struct superblock hostile_sb;
extern uint8_t *hostile_base;
/* Tells the lock of the client's inventory, or NULL. */
extern pthread_mutex_t *(*hostile_lock)(void);

/** Begin with an input: region and server as new, no hostile_lock. */
void hostile_begin(const uint8_t *data, size_t size);

/** The other end of the client's channel: one at a time. */
struct channel *hostile_channel(bool pollable);

/** Up to `n` messages arrive. */
void hostile_pump(unsigned n);

/** The next `n` & 15 packets of the client find no room, or, with 16, nobody. */
void hostile_stuck(uint8_t n);

/** A word of one of the keys' windows, or the block that it leads to, changes. */
void hostile_scribble(void);

/** One byte long. */
struct index_key hostile_key(unsigned i);

#endif
