/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * sweep_peer.h - the two ends of tests about sweeps: a handle, and the fake server
 * that asks it. It knows every block that is out, and looks into every slot.
 */
#ifndef TESTS_RIG_SWEEP_PEER_H
#define TESTS_RIG_SWEEP_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "handle_rig.h"

/** Put the keys "from" .. "from + n - 1". */
void put_n(unsigned from, unsigned n);
/** Begin what looks like an operation, with all mail taken. */
void enter(void);

/** SWEEP_BEGIN, SWEEP_END, BARRIER, RECLAIM. */
void send_epoch(uint8_t type, uint64_t number);
/** Return when the client's control thread has seen all that was sent before, and the
 * server all that it answered at once. */
void seen_by_client(void);
/** SWEEP_BEGIN, and its acknowledgement. */
void begin_acked(uint64_t number);
/** Send a SWEEP_QUERY. */
void query(uint64_t number, uint32_t req, const struct block_ref *refs,
	   uint32_t n);
/** Ask, and wait for the answer: how many of refs[0..n-1] are claimed. */
uint32_t claims(uint64_t number, const struct block_ref *refs, uint32_t n);
/** The blocks that are out: those that slots name if `linked`, else the others. */
uint32_t blocks_out(bool linked, struct block_ref *refs, uint32_t cap);

#endif
