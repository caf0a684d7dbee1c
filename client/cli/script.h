/* SPDX-License-Identifier: BSD-3-Clause */
/** script.h - many commands over one connection: lines of stdin. */
#ifndef CLIENT_CLI_SCRIPT_H
#define CLIENT_CLI_SCRIPT_H

#include "cli.h"

/**
 * Run each line of stdin (run_line()) until its end, quit or exit. A command that fails does not
 * end the series, but a server that cannot be reached does. Output is flushed before each wait for
 * more lines, so a program can talk to kvcli through two pipes. Returns the largest exit status;
 * each message has the line's number.
 */
int script_run(struct cli *cli);

#endif
