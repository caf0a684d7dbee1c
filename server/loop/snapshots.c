/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "snapshots.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "server/saver/saver.h"

#include "core.h"
#include "session.h"
#include "welcome.h"

enum end { END_NOT_YET, END_SAVING, END_DONE };

struct snapshots {
	struct control *c;
	struct saver *saver;
	struct event *answers, *due, *on_usr1;
	struct timeval every;
	unsigned busy; /* orders that have not been answered */
	bool gone; /* the saver has ended */
	bool again; /* SIGUSR1 came during a save */
	enum end end;
	int restored; /* its result */
	struct snapshots_stats stats;
};

/* ---- answers ----------------------------------------------------------------------- */

static void save_failed(struct snapshots *n, const char *why)
{
	n->stats.failed++;
	log_error("save: %s", why);
}

static void saved(struct snapshots *n, const struct saver_answer *a)
{
	char size[24], speed[24];

	n->stats.saves++;
	n->stats.saved_at_ms = a->at_ms;
	log_info("saved %" PRIu64 " records, %s, in %.2f s (%s/s)", a->records,
		 util_format_size(a->bytes, size, sizeof(size)), (double)a->ns / 1e9,
		 util_format_size((uint64_t)((double)a->bytes * 1e9 / (double)a->ns), speed,
				  sizeof(speed)));
}

static void restored(struct snapshots *n, const struct saver_answer *a)
{
	char size[24];

	if (a->err != FARKV_EABORTED)
		n->restored = a->err ? err_set(a->err, "restore: %s", a->detail) : 0;
	if (!a->err)
		log_info("restored %" PRIu64 " records, %s, in %.2f s%s", a->records,
			 util_format_size(a->bytes, size, sizeof(size)), (double)a->ns / 1e9,
			 a->detail);
	event_base_loopbreak(n->c->base);
}

static void saver_ended(struct snapshots *n)
{
	static const char text[] = "the saving process has ended; restart the server to have "
				   "snapshots again";

	n->gone = true;
	event_del(n->answers);
	event_del(n->due);
	if (n->c->restoring) {
		n->restored = err_set(FARKV_EDISCONNECTED, "restore: %s", text);
		event_base_loopbreak(n->c->base);
	} else {
		save_failed(n, text);
	}
}

static void taken(struct snapshots *n, const struct saver_answer *a)
{
	bool ending = n->c->drain_until != 0 && n->end == END_NOT_YET;

	n->busy--;
	if (a->kind == SAVER_RESTORE)
		restored(n, a);
	else if (a->kind == SAVER_OPEN && a->err)
		log_warn("the saving process cannot connect, and tries again later: %s", a->detail);
	else if (a->kind == SAVER_SAVE && !a->err)
		saved(n, a);
	else if (a->err && !(a->err == FARKV_EABORTED && ending)) /* the last one follows */
		save_failed(n, a->err == FARKV_EABORTED ? "interrupted; the previous file stays" :
							  a->detail);
	if (n->end == END_SAVING) {
		n->end = END_DONE;
		event_active(n->c->tick, EV_TIMEOUT, 0);
	} else if (n->again && !n->busy) {
		n->again = false;
		snapshots_save(n->c);
	}
}

static void on_answer(evutil_socket_t fd, short what, void *arg)
{
	struct snapshots *n = arg;
	struct saver_answer a;
	int got = saver_answer(n->saver, &a);

	(void)fd;
	(void)what;
	if (got > 0)
		taken(n, &a);
	else if (got < 0)
		saver_ended(n);
}

/* ---- orders ------------------------------------------------------------------------- */

static bool order(struct snapshots *n, enum saver_kind kind)
{
	bool given = !n->gone && saver_order(n->saver, kind);

	n->busy += given;
	return given;
}

static void on_due(evutil_socket_t fd, short what, void *arg)
{
	struct snapshots *n = arg;

	(void)fd;
	(void)what;
	if (!n->busy && !n->c->drain_until)
		(void)order(n, SAVER_SAVE);
}

void snapshots_save(struct control *c)
{
	struct snapshots *n = c->snapshots;

	if (n->gone || c->drain_until)
		return;
	n->again = n->busy > 0;
	if (!n->busy)
		(void)order(n, SAVER_SAVE);
}

static void on_usr1(evutil_socket_t sig, short what, void *arg)
{
	(void)sig;
	(void)what;
	snapshots_save(arg);
}

bool snapshots_open(struct control *c, const char *uri, const char *key)
{
	struct snapshots *n = c->snapshots;

	bool given = saver_open(n->saver, uri, key);

	n->busy += given;
	return given;
}

int snapshots_restore(struct control *c)
{
	struct snapshots *n = c->snapshots;

	c->restoring = true;
	n->restored = FARKV_EABORTED; /* unless the answer says otherwise */
	/* It answers in the order in which it was asked. */
	if (!order(n, SAVER_RESTORE))
		saver_ended(n);
	else
		event_base_dispatch(c->base);
	c->restoring = false;
	if (n->restored == FARKV_EABORTED)
		err_set(FARKV_EABORTED, "restore: interrupted by a signal before the end");
	if (!n->restored)
		welcome_waiting(c);
	return n->restored;
}

/* ---- the end ---------------------------------------------------------------------------- */

/* What others write from now on would not be in the file. */
static void end_others(struct control *c)
{
	struct session *s, *next;

	TAILQ_FOREACH_SAFE(s, &c->sessions, link, next)
		if (!s->saver)
			session_end(s);
}

static bool others_left(const struct control *c)
{
	const struct session *s;

	TAILQ_FOREACH(s, &c->sessions, link)
		if (!s->saver)
			return true;
	return false;
}

/* It ends with the server, holds nothing, and is no client that has not said BYE. */
static void saver_leaves(struct control *c)
{
	struct session *s;

	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->saver)
			s->left = true;
}

bool snapshots_at_end(struct control *c, bool late)
{
	struct snapshots *n = c->snapshots;

	/* Half a store must not replace the snapshot of a whole one. */
	if (n && c->cfg.save_at_end && !c->restoring && !n->gone && n->end == END_NOT_YET) {
		if (others_left(c) && !late)
			return true;
		if (n->busy) { /* of the save that drain_begin() interrupted */
			saver_interrupt(n->saver);
			return true;
		}
		end_others(c);
		n->end = order(n, SAVER_SAVE) ? END_SAVING : END_DONE;
	}
	if ((n && n->end == END_SAVING && !n->gone) || (others_left(c) && !late))
		return true;
	saver_leaves(c);
	return false;
}

void snapshots_give_up(struct control *c)
{
	if (c->snapshots && c->snapshots->busy && !c->snapshots->gone)
		saver_interrupt(c->snapshots->saver);
}

struct snapshots_stats snapshots_stats(const struct control *c)
{
	return c->snapshots ? c->snapshots->stats : (struct snapshots_stats){0};
}

/* ---- life ------------------------------------------------------------------------------- */

static bool init(struct control *c)
{
	struct snapshots *n;

	if (!c->cfg.saver)
		return true;
	n = calloc(1, sizeof(*n));
	if (!n)
		return false;
	c->snapshots = n;
	n->c = c;
	n->saver = c->cfg.saver;
	n->every = (struct timeval){.tv_sec = (time_t)(c->cfg.save_every_ms / 1000),
				    .tv_usec = (suseconds_t)(c->cfg.save_every_ms % 1000 * 1000)};
	n->answers = event_new(c->base, n->saver->fd, EV_READ | EV_PERSIST, on_answer, n);
	n->due = event_new(c->base, -1, EV_PERSIST, on_due, n);
	n->on_usr1 = evsignal_new(c->base, SIGUSR1, on_usr1, c);
	if (!n->answers || !n->due || !n->on_usr1 || event_add(n->answers, NULL))
		return false;
	if (c->cfg.saves && event_add(n->on_usr1, NULL))
		return false;
	return !c->cfg.save_every_ms || event_add(n->due, &n->every) == 0;
}

static void fini(struct control *c)
{
	struct snapshots *n = c->snapshots;

	if (!n)
		return;
	core_event_free(n->answers);
	core_event_free(n->due);
	core_event_free(n->on_usr1);
	free(n);
	c->snapshots = NULL;
}

const struct loop_module snapshots_module = {
	.init = init,
	.fini = fini,
};
