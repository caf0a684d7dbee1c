/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "rekey.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/log.h"
#include "common/proto/keyfile.h"

#include "core.h"
#include "session.h"

/* The names of one kind of change, formatted as log lines. */
struct change {
	const char *what; /* "added" */
	size_t n;
	size_t len; /* of the line so far */
	char line[600];
};

static void change_flush(struct change *ch)
{
	if (ch->len)
		log_info("keys %s:%s", ch->what, ch->line);
	ch->len = 0;
}

static void change_add(struct change *ch, const struct key *key)
{
	if (ch->len + key->name_len + 2 > sizeof(ch->line))
		change_flush(ch);
	ch->len += (size_t)sprintf(ch->line + ch->len, " %s", key->name);
	ch->n++;
}

/* Both lists are walked in the order of names. */
static void report_changes(const struct keyfile *old, const struct keyfile *now,
			   unsigned ended)
{
	struct change added = {.what = "added"}, removed = {.what = "removed"},
		      changed = {.what = "changed"};
	const struct key *a, *b;
	size_t i = 0, j = 0;

	while ((a = keyfile_at(old, i)), (b = keyfile_at(now, j)), a || b) {
		int d = !a ? 1 : !b ? -1 : keyfile_compare(a, b);

		if (d < 0)
			change_add(&removed, a);
		else if (d > 0)
			change_add(&added, b);
		else if (!keyfile_same_key(a, b))
			change_add(&changed, b);
		i += d <= 0;
		j += d >= 0;
	}
	change_flush(&added);
	change_flush(&removed);
	change_flush(&changed);
	log_info("SIGHUP: keys read again: %zu added, %zu removed, %zu changed; "
		 "sessions ended: %u",
		 added.n, removed.n, changed.n, ended);
}

/* End the sessions whose key is not in the file any more, and return their number; the others
 * refer to the new file's key from now on. */
static unsigned sessions_settle(struct control *c)
{
	unsigned ended = 0, mapped = 0;
	struct session *s, *next;

	for (s = TAILQ_FIRST(&c->sessions); s; s = next) {
		const struct key *now;

		next = TAILQ_NEXT(s, link);
		if (!s->key)
			continue;
		now = keyfile_find(c->cfg.keys, s->key->name, s->key->name_len);
		if (now && keyfile_same_key(now, s->key)) {
			s->key = now;
			continue;
		}
		ended++;
		mapped += !s->port->remote;
		session_refuse(s, MSG_REASON_PERMISSION,
			       "its key was removed or changed");
	}
	if (mapped)
		log_warn("%u of the sessions that ended came by the socket: their "
			 "processes can use the memory that they have mapped "
			 "until they exit",
			 mapped);
	return ended;
}

void rekey(struct control *c)
{
	struct keyfile *old;

	if (!c->cfg.keys) {
		log_info("SIGHUP: nothing to read again: there are no --keys and no --config");
		return;
	}
	if (keyfile_reload(c->cfg.keys, &old)) {
		log_error("SIGHUP: the keys stay as they are: %s", err_detail());
		return;
	}
	report_changes(old, c->cfg.keys, sessions_settle(c));
	keyfile_free(old);
}
