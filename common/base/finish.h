/* SPDX-License-Identifier: BSD-3-Clause */
/** finish.h - a program's last check of its output. */
#ifndef COMMON_BASE_FINISH_H
#define COMMON_BASE_FINISH_H

#include <stdbool.h>

/**
 * Flush stdout. False, after an error line, if output was lost; without a line if the
 * reader closed the pipe, as head does.
 */
bool finish_stdout(void);

#endif
