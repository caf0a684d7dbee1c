/* SPDX-License-Identifier: BSD-3-Clause */
/** completion.h - completion scripts for shells, made from a program's options. */
#ifndef COMMON_BASE_COMPLETION_H
#define COMMON_BASE_COMPLETION_H

#include <stdio.h>

#include "opts.h"

/**
 * Print the completion script for `shell`, "bash" or "zsh". It offers the long options, the values
 * of OPT_ENUM, users for USER, and files for other values with a name like FILE or PATH. Operands:
 * it offers `words` (the program's commands, NULL-terminated; NULL: none) until the line has one of
 * them, then files. Returns 0, or FARKV_EINVAL for another shell.
 */
int completion_print(const struct opts_spec *s, const char *const *words, const char *shell,
		     FILE *out);

#endif
