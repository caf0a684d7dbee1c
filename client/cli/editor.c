/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "editor.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HAVE_LIBEDIT

#include <histedit.h>

#include "common/base/util.h"

struct editor {
	EditLine *el;
	History *history;
	const char *prompt, *file;
	editor_complete *complete;
	void *arg;
	bool foreign; /* `file` is not a history file */
	bool interrupted; /* Ctrl-C was typed */
};

static struct editor *of(EditLine *el)
{
	void *e = NULL;

	el_get(el, EL_CLIENTDATA, &e);
	return e;
}

static char *prompt_of(EditLine *el)
{
	return (char *)(uintptr_t)of(el)->prompt;
}

/* ---- completion ------------------------------------------------------------------ */

static size_t common_prefix(const struct completions *c)
{
	size_t len = strlen(c->v[0]);

	for (size_t i = 1; i < c->n; i++) {
		size_t k = 0;

		while (k < len && c->v[i][k] == c->v[0][k])
			k++;
		len = k;
	}
	/* Not within a character of UTF-8. */
	while (len && (c->v[0][len] & 0xc0) == 0x80)
		len--;
	return len;
}

static size_t terminal_columns(void)
{
	struct winsize w;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col ? w.ws_col : 80;
}

/* Of UTF-8 each character counts as one. */
static size_t columns_of(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

/* Print in lines that the terminal does not break within a word. */
static void show_all(const struct completions *c)
{
	size_t most = terminal_columns(), at = 0;

	for (size_t i = 0; i < c->n; i++) {
		size_t len = columns_of(c->v[i]);
		bool next_line = i == 0 || at + 2 + len > most;

		printf("%s%s", next_line ? "\n" : "  ", c->v[i]);
		at = next_line ? len : at + 2 + len;
	}
	putchar('\n');
	fflush(stdout);
}

/*
 * Complete the word before the cursor as far as it is unambiguous; otherwise list the candidates.
 */
static unsigned char insert(EditLine *el, const struct completions *c, size_t typed)
{
	size_t len = common_prefix(c);
	char *more;

	if (len <= typed && c->n > 1) {
		show_all(c);
		return CC_REDISPLAY;
	}
	more = malloc(len + 2);
	if (!more)
		return CC_ERROR;
	snprintf(more, len + 2, "%.*s%s", (int)(len - typed), c->v[0] + typed,
		 c->n == 1 ? " " : "");
	if (*more)
		el_insertstr(el, more);
	free(more);
	return CC_REFRESH;
}

static unsigned char on_tab(EditLine *el, int ch)
{
	struct editor *e = of(el);
	const LineInfo *line = el_line(el);
	size_t len = (size_t)(line->cursor - line->buffer);
	struct completions c = {0};
	unsigned char todo = CC_ERROR;

	(void)ch;
	e->complete(e->arg, line->buffer, len, &c);
	if (c.n)
		todo = insert(el, &c, len - c.start);
	for (size_t i = 0; i < c.n; i++)
		free(c.v[i]);
	free(c.v);
	return todo;
}

/* Ctrl-C, which is a character here: it ends the line only. */
static unsigned char on_interrupt(EditLine *el, int ch)
{
	(void)ch;
	of(el)->interrupted = true;
	return CC_EOF;
}

/* ---- the history ------------------------------------------------------------------ */

static bool history_start(struct editor *e)
{
	struct stat st;
	HistEvent ev;

	e->history = history_init();
	if (!e->history)
		return false;
	history(e->history, &ev, H_SETSIZE, EDITOR_HISTORY);
	history(e->history, &ev, H_SETUNIQUE, 1);
	el_set(e->el, EL_HIST, history, e->history);
	if (e->file && stat(e->file, &st) == 0 && st.st_size > 0 &&
	    (!S_ISREG(st.st_mode) || history(e->history, &ev, H_LOAD, e->file) < 0))
		e->foreign = true;
	return true;
}

bool editor_history_ok(const struct editor *e)
{
	return !e->foreign;
}

void editor_remember(struct editor *e, const char *line)
{
	HistEvent ev;

	if (!isspace((unsigned char)line[0]))
		history(e->history, &ev, H_ENTER, line);
}

/* ---- lines ------------------------------------------------------------------------ */

struct editor *editor_open(const char *prompt, const char *file, editor_complete *complete,
			   void *arg)
{
	struct editor *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	*e = (struct editor){.prompt = prompt, .file = file, .complete = complete, .arg = arg};
	e->el = el_init("kvcli", stdin, stdout, stderr);
	if (!e->el || !history_start(e)) {
		editor_close(e);
		return NULL;
	}
	el_set(e->el, EL_CLIENTDATA, e);
	el_set(e->el, EL_PROMPT, prompt_of);
	el_set(e->el, EL_EDITOR, "emacs");
	el_set(e->el, EL_SIGNAL, 1);
	el_set(e->el, EL_ADDFN, "kvcli-complete", "Complete the word", on_tab);
	el_set(e->el, EL_BIND, "^I", "kvcli-complete", NULL);
	el_set(e->el, EL_SETTY, "-d", "-isig", NULL);
	el_set(e->el, EL_ADDFN, "kvcli-interrupt", "Drop the line", on_interrupt);
	el_set(e->el, EL_BIND, "^C", "kvcli-interrupt", NULL);
	el_set(e->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
	el_source(e->el, NULL); /* ~/.editrc */
	return e;
}

const char *editor_line(struct editor *e, size_t *len_out)
{
	int n = 0;
	const char *line;

	e->interrupted = false;
	line = el_gets(e->el, &n);
	if (e->interrupted)
		errno = EINTR;
	else if (!line || n <= 0)
		errno = 0;
	if (e->interrupted || !line || n <= 0)
		return NULL;
	*len_out = (size_t)n;
	return line;
}

void editor_close(struct editor *e)
{
	HistEvent ev;

	if (!e)
		return;
	if (e->history && e->file && !e->foreign)
		history(e->history, &ev, H_SAVE, e->file);
	if (e->history)
		history_end(e->history);
	if (e->el)
		el_end(e->el);
	free(e);
}

#else

struct editor {
	const char *prompt;
	char *line;
	size_t cap;
};

struct editor *editor_open(const char *prompt, const char *file, editor_complete *complete,
			   void *arg)
{
	struct editor *e = calloc(1, sizeof(*e));

	(void)file;
	(void)complete;
	(void)arg;
	if (e)
		e->prompt = prompt;
	return e;
}

const char *editor_line(struct editor *e, size_t *len_out)
{
	ssize_t n;

	fputs(e->prompt, stdout);
	fflush(stdout);
	errno = 0;
	n = getline(&e->line, &e->cap, stdin);
	clearerr(stdin);
	if (n <= 0)
		return NULL;
	*len_out = (size_t)n;
	return e->line;
}

void editor_remember(struct editor *e, const char *line)
{
	(void)e;
	(void)line;
}

bool editor_history_ok(const struct editor *e)
{
	(void)e;
	return true;
}

void editor_close(struct editor *e)
{
	if (e)
		free(e->line);
	free(e);
}

#endif
