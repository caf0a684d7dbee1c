/* SPDX-License-Identifier: BSD-3-Clause */
/** glob.h - Redis's patterns: * any bytes, ? one, [a-z] one of these, [^a] none of these, \x the
 * byte x. */
#ifndef GATE_GLOB_H
#define GATE_GLOB_H

#include <stdbool.h>

#include "args.h"

/** True if the whole text matches. Time: bytes of the pattern times bytes of the text at most. */
bool glob_match(struct slice pattern, struct slice text);

#endif
