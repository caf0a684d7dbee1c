/* SPDX-License-Identifier: BSD-3-Clause */
/** serve.h - kvgate's run. */
#ifndef GATE_SERVE_H
#define GATE_SERVE_H

#include "gate.h"

enum serve_exit { EXIT_RUN = 1, EXIT_USAGE = 64, EXIT_CONFIG = 78 };

/** Check what needs no store and no socket: addresses and keys. An exit code with a detail, or 0.
 */
int serve_check(const struct gate_config *cfg);

/** Serve until a signal ends it. Errors are logged. Returns the exit code. */
int serve(const struct gate_config *cfg);

#endif
