/* SPDX-License-Identifier: BSD-3-Clause */
/** index/step.h - one operation from phase to phase (enum op_phase in index/op.h). */
#ifndef COMMON_INDEX_STEP_H
#define COMMON_INDEX_STEP_H

#include "index_state.h"
#include "op.h"

/**
 * Advance an operation in OP_START, or one whose chain is done, as far as possible without waiting:
 * afterwards it has a chain to post (op_in_flight()), waits, or is final.
 */
void index_op_step(struct index *ix, struct index_op *op, uint64_t deadline_ns);

#endif
