/* SPDX-License-Identifier: BSD-3-Clause */
/** finish.h - the last thing that a program does about its output. */
#ifndef COMMON_FINISH_H
#define COMMON_FINISH_H

#include <stdbool.h>

/**
 * Flush stdout. False if something that was printed is lost, after an error line; without
 * a line where the reader has left, as head does.
 */
bool finish_stdout(void);

#endif
