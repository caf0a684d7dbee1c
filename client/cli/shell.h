/* SPDX-License-Identifier: BSD-3-Clause */
/** shell.h - a dialogue: commands that a person types at a terminal. */
#ifndef CLIENT_CLI_SHELL_H
#define CLIENT_CLI_SHELL_H

#include "cli.h"

/**
 * Run the lines that are typed (run_line()) until quit, exit or the end of input. Ctrl-C ends the
 * command that runs, or the line that is typed. Returns 0; CLI_FAILED if the terminal cannot be
 * used.
 */
int shell_run(struct cli *cli);

#endif
