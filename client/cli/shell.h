/* SPDX-License-Identifier: BSD-3-Clause */
/** shell.h - interactive shell: commands typed at a terminal. */
#ifndef CLIENT_CLI_SHELL_H
#define CLIENT_CLI_SHELL_H

#include "cli.h"

/**
 * Run the typed lines (run_line()) until quit, exit or the end of input. Ctrl-C ends the running
 * command, or the line being typed. Returns 0; CLI_FAILED if the terminal cannot be used.
 */
int shell_run(struct cli *cli);

#endif
