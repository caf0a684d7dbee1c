/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "control.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "common/rdma/verbs.h"
#include "server/index/adopt.h"
#include "server/memory/notify.h"

#include "barrier.h"
#include "conn_rdma.h"
#include "conn_unix.h"
#include "core.h"
#include "expire.h"
#include "fence.h"
#include "copies.h"
#include "fsck.h"
#include "grants.h"
#include "evictor.h"
#include "grow.h"
#include "inherit.h"
#include "listen.h"
#include "metrics.h"
#include "membership.h"
#include "passes.h"
#include "rekey.h"
#include "returns.h"
#include "session.h"
#include "snapshots.h"
#include "stats.h"
#include "sweep.h"
#include "welcome.h"

/* welcome has to note the end of a session before a barrier passes because of it. */
static const struct loop_module *const modules[] = {
	&welcome_module,
	&evictor_module,
	&grow_module,
	&expire_module,
	&grants_module,
	&returns_module,
	&barrier_module,
	&sweep_module,
	&stats_module,
	&metrics_module,
	&fsck_module,
	&snapshots_module,
	&fence_module,
	&copies_module,
	&membership_module,
	&passes_module,
	NULL,
};

/* ---- events --------------------------------------------------------------------- */

static void drain_begin(evutil_socket_t sig, short what, void *arg)
{
	struct control *c = arg;
	struct session *s, *next;
	struct msg m = {.type = MSG_SHUTDOWN};

	(void)what;
	snapshots_give_up(c);
	if (c->drain_until)
		return;
	if (!c->failed)
		log_info("signal %d: leaving, %u connections", (int)sig,
			 c->n_connections);
	c->drain_until =
		clock_now_ns() + (uint64_t)c->cfg.drain_ms * NS_PER_MS;
	(void)notify_send("STOPPING=1", -1);
	if (c->unix_port)
		(void)conn_unix_accept(c->unix_port, false);
	/* Clients take a server that listens for the next one. */
	if (c->unix_port && c->region->outlives)
		listen_hide(c->cfg.socket);
	m.refuse.reason = MSG_REASON_SHUTDOWN;
	m.refuse.text = (const uint8_t *)"the server is leaving";
	m.refuse.text_len = (uint16_t)strlen("the server is leaving");
	TAILQ_FOREACH_SAFE(s, &c->sessions, link, next)
		if (!s->saver && !session_send(s, &m, NULL, NULL, 0))
			session_end(s);
	event_active(c->tick, EV_TIMEOUT, 0);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct control *c = arg;
	uint64_t now = clock_now_ns();
	bool again = c->drain_until != 0;

	(void)fd;
	(void)what;
	again = core_tell_dropped(c, now) || again;
	for (const struct loop_module *const *m = modules; *m; m++)
		again = ((*m)->tick && (*m)->tick(c)) || again;
	if (c->rdma)
		again = conn_rdma_tick(c->rdma) || again;
	if (!c->drain_until && c->unix_port)
		again = !conn_unix_accept(c->unix_port, true) || again;
	pauses_add(&c->pauses, MSG_PAUSE_TICK, now);
	if (again)
		core_tick_soon(c);
	if (!c->drain_until)
		return;
	if (!snapshots_at_end(c, now >= c->drain_until))
		event_base_loopbreak(c->base);
}

static void on_hangup(evutil_socket_t sig, short what, void *arg)
{
	struct control *c = arg;

	(void)sig;
	(void)what;
	if (c->cfg.reload)
		c->cfg.reload(c->cfg.reload_arg, &c->cfg);
	if (c->cfg.keys || !c->cfg.reload)
		rekey(c);
}

/* ---- life ------------------------------------------------------------------------- */

static int out_of_memory(void)
{
	return err_set(FARKV_ENOMEM, "no memory for the control loop");
}

/* libevent's caller logs the failure itself. */
static void on_libevent(int severity, const char *text)
{
	/* After an error line libevent ends the process. */
	if (severity == EVENT_LOG_ERR)
		log_error("libevent: %s", text);
	else
		log_debug("libevent: %s", text);
}

/* A signal that the parent process has set to "ignore" stays ignored. */
static bool heed(struct event *on_signal, int sig)
{
	return util_signal_ignored(sig) || event_add(on_signal, NULL) == 0;
}

static int events_init(struct control *c)
{
	static const struct timeval soon = {0};

	event_set_log_callback(on_libevent);
	c->base = event_base_new();
	if (!c->base || !work_queue_init(&c->work, c->base, &c->pauses))
		return out_of_memory();
	c->tick = evtimer_new(c->base, on_tick, c);
	c->on_term = evsignal_new(c->base, SIGTERM, drain_begin, c);
	c->on_int = evsignal_new(c->base, SIGINT, drain_begin, c);
	c->on_hup = evsignal_new(c->base, SIGHUP, on_hangup, c);
	if (!c->tick || !c->on_term || !c->on_int || !c->on_hup ||
	    !heed(c->on_term, SIGTERM) || !heed(c->on_int, SIGINT) ||
	    event_add(c->on_hup, NULL))
		return out_of_memory();
	/* libevent reserves eight timers with the first one: no later event_add() fails. */
	if (event_add(c->tick, &soon))
		return out_of_memory();
	return 0;
}

static int ports_open(struct control *c)
{
	if (c->cfg.socket) {
		c->unix_port = conn_unix_new(c, c->cfg.socket);
		if (!c->unix_port)
			return out_of_memory();
	}
	return c->cfg.rdma ? conn_rdma_open(c, c->cfg.rdma, &c->rdma) : 0;
}

static int modules_init(struct control *c)
{
	for (const struct loop_module *const *m = modules; *m; m++)
		if ((*m)->init && !(*m)->init(c))
			return out_of_memory();
	return 0;
}

static void modules_fini(struct control *c)
{
	for (const struct loop_module *const *m = modules; *m; m++)
		if ((*m)->fini)
			(*m)->fini(c);
}

int control_new(const struct control_config *cfg, struct region *region,
		struct control **out)
{
	struct control *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return out_of_memory();
	c->cfg = *cfg;
	c->region = region;
	c->modules = modules;
	TAILQ_INIT(&c->sessions);
	signal(SIGPIPE, SIG_IGN);
	c->slab = slab_new(region->heap, region->sb.meta_bytes / PAGE_BYTES,
			   heap_total(region->heap), region->sb.grace_ns);
	err = c->slab ? events_init(c) : out_of_memory();
	if (!err)
		err = ports_open(c);
	if (!err && region->found)
		err = adopt_region(region, c->slab, cfg->verify);
	if (!err)
		err = modules_init(c);
	if (!err && region->found)
		err = inherit_sessions(c);
	if (err) {
		control_free(c);
		return err;
	}
	region_state(region)->writers = c->verbs ? REGION_WRITERS_CARD : REGION_WRITERS_CPUS;
	*out = c;
	return 0;
}

void control_free(struct control *c)
{
	struct session *s;

	if (!c)
		return;
	while ((s = TAILQ_FIRST(&c->sessions)))
		session_end(s);
	(void)core_tell_dropped(c, UINT64_MAX); /* every period has ended */
	modules_fini(c);
	conn_rdma_close(c->rdma);
	conn_unix_free(c->unix_port);
	core_event_free(c->tick);
	core_event_free(c->on_term);
	core_event_free(c->on_int);
	core_event_free(c->on_hup);
	lingering_fini(&c->lingering);
	work_queue_fini(&c->work);
	if (c->base)
		event_base_free(c->base);
	slab_free(c->slab);
	free(c);
}

int control_run(struct control *c)
{
	event_base_dispatch(c->base);
	return c->again ? CONTROL_AGAIN : c->failed;
}

const char *control_rdma_address(const struct control *c)
{
	return c->verbs ? xport_verbs->server_address(c->verbs) : NULL;
}

const char *control_rdma_device(const struct control *c)
{
	return c->verbs ? xport_verbs->server_device(c->verbs) : NULL;
}
