/* SPDX-License-Identifier: BSD-3-Clause */
/** run.h - find a command and run it: one of the command line, or one line of many. */
#ifndef CLIENT_CLI_RUN_H
#define CLIENT_CLI_RUN_H

#include "cli.h"

/** The command of that name, or NULL. */
const struct cli_command *run_find(const char *name);

/**
 * Find the option that replaces a command, such as "--stat", or NULL. Two of them, or one beside
 * `command`, are an error, which is reported: CLI_USAGE. `command` may be NULL.
 */
int run_mode(const struct cli *cli, const char *command, const char **mode_out);

/** True if `word` is in the blank-separated list `words`, in letters of any case. */
bool run_is_one_of(const char *word, const char *words);

/**
 * Run the command argv[0] with the options in `cli`. Returns its exit status; errors are reported.
 * cli->conn may stay open.
 */
int run_command(struct cli *cli, int argc, char **argv);

/**
 * Run a line: words (words.h) that are a command with its options and arguments. An empty line, and
 * one that begins with #, does nothing. `base` has the options for all lines; the connection's are
 * those of the command line alone.
 */
int run_line(const struct cli *base, const char *line, size_t len);

/** True if the line is quit or exit, which ends a series of lines. */
bool run_is_end(const char *line, size_t len);

/** Print a summary of all options and commands. */
void run_help(void);

#endif
