/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment of libfarkv, instead of an operating system: a clock, a control
 * thread that does a step when it is its turn, a connection, the mapped region.
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/atfork.h"
#include "client/connect.h"
#include "client/control.h"
#include "client/mapping.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/proto/msg.h"
#include "sim.h"

/* ---- time ------------------------------------------------------------------------- */

uint64_t sim_clock_of(const struct sim_client *c)
{
	/* `lost` has all of a stop from its beginning: until its end a guest's clock stands. */
	bool stands = c->guest && sim.now < c->stopped_until;
	uint64_t t = (stands ? c->stopped_until : sim.now) - SIM_START - c->lost;

	return SIM_START * (c->id + 1) + t / 100 * c->rate;
}

/* All code under test uses this clock, also libevent. */
__attribute__((visibility("default")))
int clock_gettime(clockid_t id, struct timespec *ts)
{
	uint64_t t;

	(void)id;
	sim.now += 100;
	t = sim.running ? sim_clock_of(sim.running) : sim.now;
	ts->tv_sec = (time_t)(t / NS_PER_SEC);
	ts->tv_nsec = (long)(t % NS_PER_SEC);
	return 0;
}

/* Sleep until this moment of its clock, or until the control thread has done
 * something. */
static void sleep_until(uint64_t until)
{
	struct sim_client *c = sim.running;

	c->wake = until;
	c->woken = false;
	if (c->dying)
		c->lost -= 10 * NS_PER_SEC; /* whatever it waits for is over */
	else
		sim_give_way();
	c->wake = 0;
}

bool sim_can_run(const struct sim_client *c)
{
	return c->woken || c->wake <= sim_clock_of(c);
}

int sim_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
		       const struct timespec *ts);
int sim_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
		       const struct timespec *ts)
{
	(void)cond;
	pthread_mutex_unlock(mutex);
	sleep_until((uint64_t)ts->tv_sec * NS_PER_SEC + (uint64_t)ts->tv_nsec);
	pthread_mutex_lock(mutex);
	return 0;
}

int sim_nanosleep(const struct timespec *ts, struct timespec *rest);
int sim_nanosleep(const struct timespec *ts, struct timespec *rest)
{
	(void)rest;
	sleep_until(clock_now_ns() + (uint64_t)ts->tv_sec * NS_PER_SEC +
		    (uint64_t)ts->tv_nsec);
	return 0;
}

/* ---- the control thread -------------------------------------------------------------- */

int control_add(struct control_source *src)
{
	src->prev = NULL;
	src->next = sim.running->sources;
	if (src->next)
		src->next->prev = src;
	sim.running->sources = src;
	return 0;
}

void control_remove(struct control_source *src)
{
	if (src->next)
		src->next->prev = src->prev;
	if (src->prev)
		src->prev->next = src->next;
	else
		sim.running->sources = src->next;
}

void control_watch(struct control_source *src, bool writable)
{
	(void)src;
	(void)writable;
}

void control_tick(struct control_source *src, bool on)
{
	src->ticking = on;
}

void control_look(struct control_source *src, bool on)
{
	src->looking = on;
}

void control_mute(struct control_source *src)
{
	src->muted = true;
}

bool control_qsbr_fence(void)
{
	return false;
}

void control_heavy_barrier(void)
{
}

void sim_control_step(struct sim_client *c)
{
	struct sim_client *was = sim.running;

	sim.running = c;
	for (struct control_source *s = c->sources, *next; s; s = next) {
		next = s->next;
		if (!s->muted)
			s->ready(s);
		if (s->ticking && sim_below(2))
			s->tick(s);
	}
	c->woken = true;
	sim.running = was;
}

/* ---- the connection --------------------------------------------------------------- */

struct sim_channel {
	struct channel base; /* first */
	struct sim_conn *conn;
};

static int on_send(struct channel *ch, const void *buf, size_t len)
{
	return sim_conn_send(((struct sim_channel *)ch)->conn, buf, len);
}

static ssize_t on_receive(struct channel *ch, void *buf, size_t cap,
			  struct channel_fds *fds)
{
	ssize_t n;

	if (fds)
		fds->n = 0;
	if (sim_below(4) == 0)
		return -1; /* not yet */
	n = sim_conn_receive(((struct sim_channel *)ch)->conn, buf, cap);
	if (n == 0)
		snprintf(ch->reason, sizeof(ch->reason), "the connection was cut");
	return n;
}

static void on_wait_room(struct channel *ch, int ms)
{
	(void)ch;
	sleep_until(clock_now_ns() + (uint64_t)ms * NS_PER_MS);
}

static void on_close(struct channel *ch)
{
	sim_conn_hang_up(((struct sim_channel *)ch)->conn);
	free(ch);
}

static const struct channel_ops channel_ops = {
	.send = on_send,
	.receive = on_receive,
	.wait_room = on_wait_room,
	.close = on_close,
};

void channel_untie(struct channel *ch)
{
	if (ch->tether)
		sim_conn_untie(((struct sim_channel *)ch)->conn);
	ch->tether = NULL;
}

/* The region ends with its server. */
bool channel_is_away(const struct channel *ch, int errnum)
{
	(void)ch;
	(void)errnum;
	return false;
}

enum channel_next channel_look(const struct channel *ch)
{
	(void)ch;
	return CHANNEL_NO_SERVER;
}

void channel_leave(struct channel *ch)
{
	(void)ch;
}

const char *channel_explain(int errnum, char *buf, size_t cap)
{
	snprintf(buf, cap, "the connection was cut (%d)", errnum);
	return buf;
}

void channel_close(struct channel *ch)
{
	if (!ch)
		return;
	channel_untie(ch);
	ch->ops->close(ch);
}

void channel_forget(struct channel *ch)
{
	free(ch);
}

static struct channel *channel_new(struct sim_conn *k)
{
	struct sim_channel *ch = calloc(1, sizeof(*ch));

	if (!ch)
		sim_fail("no memory");
	ch->base.ops = &channel_ops;
	ch->base.fd = -1;
	ch->base.pollable = !sim.remote;
	ch->conn = k;
	return &ch->base;
}

static void hello(const struct connect_params *p, struct channel *ch)
{
	struct msg m = {.type = MSG_HELLO, .req = 1};
	uint8_t buf[MSG_MAX_BYTES];
	size_t len;

	m.hello.role = p->readonly ? MSG_ROLE_RO : MSG_ROLE_RW;
	m.hello.pid = sim.running->pid;
	m.hello.replaces = p->replaces;
	memcpy(m.hello.replaces_region, p->replaces_region,
	       sizeof(p->replaces_region));
	if (msg_encode(&m, NULL, buf, sizeof(buf), &len))
		sim_fail("HELLO: %s", err_detail());
	(void)channel_send(ch, buf, len);
}

static int welcome(const struct msg *m, struct channel *ch,
		   struct connect_result *out)
{
	if (m->type != MSG_WELCOME)
		return err_set(FARKV_EREFUSED, "refused");
	*out = (struct connect_result){
		.channel = ch,
		.by_verbs = sim.remote,
		.meta_fd = -1,
		.tether_fd = -1,
		.heat_fd = -1,
		.data_fd = -1,
		.session = m->welcome.session,
		.prefix = m->welcome.prefix,
		.readonly = m->welcome.role == MSG_ROLE_RO,
		.swept = m->welcome.swept,
		.read8_atomic = m->welcome.flags & MSG_WELCOME_READ8_ATOMIC,
		.region_id = {m->welcome.region_id[0], m->welcome.region_id[1]},
		.region_bytes = m->welcome.region_bytes,
		.meta_bytes = m->welcome.meta_bytes,
		.grace_ns = m->welcome.grace_ns,
	};
	return 0;
}

int sim_connect_open(const struct connect_params *p, struct connect_result *out);
int sim_connect_open(const struct connect_params *p, struct connect_result *out)
{
	struct sim_client *c = sim.running;
	uint8_t buf[MSG_MAX_BYTES];
	struct channel *ch;
	struct msg m;
	ssize_t n;
	int err;

	if (c->dying)
		return err_set(FARKV_EREFUSED, "it is dead");
	c->conn = sim_conn_new(c);
	ch = channel_new(c->conn);
	hello(p, ch);
	do {
		sleep_until(clock_now_ns() + NS_PER_MS);
		n = channel_receive(ch, buf, sizeof(buf), NULL);
	} while (n < 0 && clock_now_ns() < p->deadline_ns && !c->dying);
	if (n < 0)
		err = err_set(FARKV_ETIMEDOUT, "no answer");
	else if (n == 0 || msg_decode(buf, (size_t)n, &m))
		err = err_set(FARKV_EDISCONNECTED, "no WELCOME");
	else
		err = welcome(&m, ch, out);
	if (err)
		channel_close(ch);
	return err;
}

struct verbs_ctrl *sim_channel_link(struct channel *ch);
struct verbs_ctrl *sim_channel_link(struct channel *ch)
{
	(void)ch;
	return NULL;
}

/* ---- the process ------------------------------------------------------------------ */

int mapping_get(const struct mapping_spec *spec, struct mapping **map_out)
{
	(void)spec;
	*map_out = (struct mapping *)(void *)sim.base;
	return 0;
}

int mapping_tether(int fd, bool peer_may_kill, void **tether_out)
{
	(void)fd;
	(void)peer_may_kill;
	sim_conn_tie(sim.running->conn);
	*tether_out = sim_conn_hits(sim.running->conn);
	return 0;
}

struct mapping *mapping_hold(struct mapping *map)
{
	return map;
}

void mapping_put(struct mapping *map)
{
	(void)map;
}

uint8_t *mapping_base(const struct mapping *map)
{
	(void)map;
	return sim.base;
}

const struct superblock *mapping_superblock(const struct mapping *map)
{
	(void)map;
	return &sim.region.sb;
}

int atfork_init(void)
{
	return 0;
}

uint64_t atfork_generation(void)
{
	return 1;
}

bool sim_pid_alive(uint32_t pid)
{
	for (unsigned i = 0; i <= SIM_CLIENTS; i++)
		if (sim.client[i].pid == pid && sim.client[i].alive)
			return true;
	return false;
}
