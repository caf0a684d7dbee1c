/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * editor.h - input lines from a terminal: by libedit, with history and completion; without libedit,
 * plain lines.
 */
#ifndef CLIENT_CLI_EDITOR_H
#define CLIENT_CLI_EDITOR_H

#include <stdbool.h>
#include <stddef.h>

struct editor;

/** Candidates for the word being typed. */
struct completions {
	size_t start; /* of the word in the line */
	char **v;     /* whole words; malloc'ed, as is the list */
	size_t n;
};

/** Fill *out (zeros) for the first `len` bytes of `line`, which end at the cursor. */
typedef void editor_complete(void *arg, const char *line, size_t len, struct completions *out);

/**
 * Start on stdin and stdout, which are a terminal. `prompt` must stay valid; complete(arg) is
 * called when TAB is pressed. `history` is the file of earlier lines, or NULL: it is read now, and
 * editor_close() writes the last EDITOR_HISTORY lines with mode 0600. NULL: out of memory, or the
 * terminal cannot be used.
 */
struct editor *editor_open(const char *prompt, const char *history, editor_complete *complete,
			   void *arg);
#define EDITOR_HISTORY 1000

/**
 * The next line with its newline, valid until the next call. NULL if Ctrl-C was typed (errno is
 * EINTR), at the end of input, and after another signal.
 */
const char *editor_line(struct editor *e, size_t *len_out);

/** Add a line to the history, unless it begins with a blank. */
void editor_remember(struct editor *e, const char *line);

/** False: the history file is of another kind, and is not changed. */
bool editor_history_ok(const struct editor *e);

/** NULL is allowed. */
void editor_close(struct editor *e);

#endif
