/* SPDX-License-Identifier: BSD-3-Clause */
/** complete.h - completion of commands, options and keys. */
#ifndef CLIENT_CLI_COMPLETE_H
#define CLIENT_CLI_COMPLETE_H

#include <stddef.h>

#include "cli.h"
#include "editor.h"

/** Upper bounds for a search for keys: parts of the index, and keys found. */
#define COMPLETE_PARTS 64u
#define COMPLETE_KEYS 40u

/**
 * An editor_complete. `arg` is the struct cli of all lines. The first word is a command; --x an
 * option; any other word a key, if the command takes one here: from farkv_scan(), in a large store
 * from some parts of the index only. A key with blanks, quotes or other bytes than printable ASCII
 * is put in double quotes. If the store cannot be reached there are no keys.
 */
void complete_word(void *arg, const char *line, size_t len, struct completions *out);

#endif
