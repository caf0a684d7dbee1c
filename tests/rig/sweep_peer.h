/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * sweep_peer.h - both ends of tests about sweeps: a handle, and the fake server that asks
 * it. The server knows every granted block, and reads every slot.
 */
#ifndef TESTS_RIG_SWEEP_PEER_H
#define TESTS_RIG_SWEEP_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "handle_rig.h"

/** Put the keys "from" .. "from + n - 1". */
void put_n(unsigned from, unsigned n);
/** Simulate the beginning of an operation, with all grants taken. */
void enter(void);

/** SWEEP_BEGIN, SWEEP_END, BARRIER, RECLAIM. */
void send_epoch(uint8_t type, uint64_t number);
/**
 * Return when the client's control thread has handled everything sent before, and the
 * server has received all its immediate answers.
 */
void seen_by_client(void);
/** SWEEP_BEGIN, and its acknowledgement. */
void begin_acked(uint64_t number);
/** Send a SWEEP_QUERY. */
void query(uint64_t number, uint32_t req, const struct block_ref *refs,
	   uint32_t n);
/** Ask, and wait for the answer; returns how many of refs[0..n-1] are claimed. */
uint32_t claims(uint64_t number, const struct block_ref *refs, uint32_t n);
/** The granted blocks: those that slots name if `linked`, otherwise the others. */
uint32_t blocks_out(bool linked, struct block_ref *refs, uint32_t cap);

#endif
