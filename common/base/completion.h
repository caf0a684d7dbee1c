/* SPDX-License-Identifier: BSD-3-Clause */
/** completion.h - scripts by which shells complete a program's command line, from its options. */
#ifndef COMMON_BASE_COMPLETION_H
#define COMMON_BASE_COMPLETION_H

#include <stdio.h>

#include "opts.h"

/**
 * Print the script for `shell`, "bash" or "zsh". It offers the long options, the values of
 * OPT_ENUM, users for USER, files for other values with a name like FILE or PATH, and `words` (the
 * program's commands, NULL-terminated; NULL: it has none) until one of them stands there, then
 * files. Returns 0, or FARKV_EINVAL for another shell.
 */
int completion_print(const struct opts_spec *s, const char *const *words, const char *shell,
		     FILE *out);

#endif
