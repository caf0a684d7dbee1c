/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's side: its loop, which does a round in its
 * turn, its sessions at the end of queues instead of sockets, and processes
 * that end when the simulation decides.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/proto/msg.h"
#include "common/base/util.h"
#include "common/rdma/verbs.h"
#include "server/loop/barrier.h"
#include "server/loop/control.h"
#include "server/loop/core.h"
#include "server/loop/dispatch.h"
#include "server/loop/evictor.h"
#include "server/loop/grow.h"
#include "server/loop/session.h"
#include "server/loop/sweep.h"
#include "server/loop/welcome.h"
#include "sim.h"

struct packet {
	struct packet *next;
	size_t len;
	uint8_t bytes[];
};

struct sim_conn {
	struct sim_conn *next; /* of all in this run */
	struct sim_client *client;
	uint32_t pid;
	struct session *session; /* NULL: not yet, or no more */
	bool begun, hung_up, fenced, closed;
	bool tied; /* its client has the tether mapped */
	uint32_t id;       /* the session's, from WELCOME on */
	uint64_t barriers; /* that had passed when it was fenced */
	struct packet *up, *down;
	struct sim_lane_state lane;
	struct hits hits; /* in place of the tether's page */
};

static struct control *control;
static struct sim_conn *conns;
static char *stack;
static bool rests;
static uint64_t barriers_seen, migrations_seen;

/* ---- connections ------------------------------------------------------------------ */

static void packet_add(struct packet **at, const void *buf, size_t len)
{
	struct packet *p = malloc(sizeof(*p) + len);

	if (!p)
		sim_fail("no memory");
	while (*at)
		at = &(*at)->next;
	p->next = NULL;
	p->len = len;
	memcpy(p->bytes, buf, len);
	*at = p;
}

static void packet_drop(struct packet **at)
{
	struct packet *p = *at;

	*at = p->next;
	free(p);
}

struct sim_conn *sim_conn_new(struct sim_client *c)
{
	struct sim_conn *k = calloc(1, sizeof(*k));

	if (!k)
		sim_fail("no memory");
	k->client = c;
	k->pid = c->pid;
	k->next = conns;
	conns = k;
	return k;
}

int sim_conn_send(struct sim_conn *k, const void *buf, size_t len)
{
	if (k->client->dying || k->hung_up || (k->closed && !sim.remote))
		return EPIPE;
	packet_add(&k->up, buf, len);
	return 0;
}

long sim_conn_receive(struct sim_conn *k, void *buf, size_t cap)
{
	struct packet *p = k->down;
	size_t len;

	if (k->client->dying || (!p && k->closed))
		return 0;
	if (!p)
		return -1;
	len = p->len;
	memcpy(buf, p->bytes, UTIL_MIN(len, cap));
	packet_drop(&k->down);
	return (long)len;
}

void sim_conn_hang_up(struct sim_conn *k)
{
	k->hung_up = true;
}

bool sim_conn_fenced(const struct sim_conn *k)
{
	return k->fenced;
}

struct sim_lane_state *sim_conn_lane(struct sim_conn *k)
{
	return &k->lane;
}

struct sim_client *sim_conn_client(struct sim_conn *k)
{
	return k->client;
}

struct sim_conn *sim_conn_next(struct sim_conn *k)
{
	return k ? k->next : conns;
}

/* ---- the server's port -------------------------------------------------------------- */

/*
 * A client that is told that its cached words are still valid: no barrier has freed blocks
 * since somebody answered for it, and none is about to.
 */
static void check_welcome(struct sim_conn *k, const void *buf, size_t len)
{
	struct sim_conn *old = conns;
	struct msg m;

	if (msg_decode(buf, len, &m) || m.type != MSG_WELCOME)
		return;
	k->id = m.welcome.session;
	while (old && (old == k || old->id != k->session->hello.replaces))
		old = old->next;
	if (!k->session->hello.replaces || !old || m.welcome.swept)
		return;
	if (control->barrier->on || old->barriers != control->barrier->passed)
		sim_fail("client %u may trust words that come back",
			 k->client->id);
}

static int port_send(void *conn, const void *buf, size_t len, const int *fds,
		     int n_fds)
{
	struct sim_conn *k = conn;

	(void)fds;
	(void)n_fds;
	if (k->hung_up)
		return 0;
	if (!k->id)
		check_welcome(k, buf, len);
	packet_add(&k->down, buf, len);
	return 0;
}

static void port_fence(void *conn)
{
	struct sim_conn *k = conn;

	k->barriers = control->barrier->passed;
	if (!sim.remote)
		return;
	k->fenced = true;
	sim_lane_forget(k);
}

static bool port_silence(void *conn)
{
	return !((struct sim_conn *)conn)->up;
}

static void port_close(void *conn)
{
	struct sim_conn *k = conn;

	k->closed = true;
	k->session = NULL;
}

static const char *port_peer(void *conn, char *buf, size_t cap)
{
	snprintf(buf, cap, "client %u", ((struct sim_conn *)conn)->client->id);
	return buf;
}

static const struct conn_ops local_port = {
	.send = port_send,
	.fence = port_fence,
	.silence = port_silence,
	.close = port_close,
	.peer = port_peer,
}, remote_port = {
	.remote = true,
	.send = port_send,
	.fence = port_fence,
	.close = port_close,
	.peer = port_peer,
};

/* As the device would answer. */
static bool read8_atomic(const struct verbs_server *vs)
{
	(void)vs;
	return !sim.tears;
}

static uint32_t areas(const struct verbs_server *vs, bool readonly,
		      struct verbs_area out[VERBS_AREAS_MAX])
{
	(void)vs;
	(void)readonly;
	out[0] = (struct verbs_area){.bytes = META_ALIGN};
	out[1] = (struct verbs_area){
		.off = META_ALIGN,
		.bytes = sim.region.sb.region_bytes - META_ALIGN};
	return 2;
}

static bool same_host(const struct verbs_peer *a, const struct verbs_peer *b)
{
	(void)a;
	(void)b;
	return true;
}

static int lane_open(struct verbs_ctrl *l, const struct verbs_lane_params *p,
		     struct xport_lane **out)
{
	(void)l;
	*out = xport_shm_open(sim.base, p->region_bytes, p->readonly);
	return *out ? 0 : FARKV_ENOMEM;
}

static const struct xport_verbs_ops verbs_ops = {
	.lane_open = lane_open,
	.server_read8_atomic = read8_atomic,
	.server_areas = areas,
	.peer_same_host = same_host,
};

/* What a migration drops, tombstones or values, is free T later. Its entries are stored. */
bool __real_slab_drop(struct slab *s, uint64_t word, uint64_t now);
bool __wrap_slab_drop(struct slab *s, uint64_t word, uint64_t now);
bool __wrap_slab_drop(struct slab *s, uint64_t word, uint64_t now)
{
	if (!(word & SLOT_DEAD)) {
		unsigned k = sim_region_key(word);

		sim_check_dropped(k, word, sim_region_word(k));
	}
	sim_check_unlinked(slot_off(word));
	return __real_slab_drop(s, word, now);
}

bool __real_slab_barrier_begin(struct slab *s);
bool __wrap_slab_barrier_begin(struct slab *s);
bool __wrap_slab_barrier_begin(struct slab *s)
{
	bool any = __real_slab_barrier_begin(s);

	sim_events[SIM_EXHAUSTED] += any;
	return any;
}

/*
 * Only four blocks at the begin of 8 KiB are granted: their addresses differ in the
 * lowest byte or in the next.
 */
static bool in_pool(uint64_t off)
{
	uint64_t unit = off / PTR_UNIT;

	return unit % 256 < 16 && unit / 256 % 4 < sim.mix.pool;
}

static uint8_t value_class(void)
{
	return class_for(block_room(strlen(sim_key_name[0]),
				    8 * sim.mix.words));
}

size_t __real_slab_grant(struct slab *s, uint8_t cls, size_t want, uint64_t now,
			 struct block_ref *refs_out);
size_t __wrap_slab_grant(struct slab *s, uint8_t cls, size_t want, uint64_t now,
			 struct block_ref *refs_out);
size_t __wrap_slab_grant(struct slab *s, uint8_t cls, size_t want, uint64_t now,
			 struct block_ref *refs_out)
{
	struct block_ref refs[512];
	size_t n, kept = 0;

	if (!sim.mix.pool || cls != value_class())
		return __real_slab_grant(s, cls, want, now, refs_out);
	n = __real_slab_grant(s, cls, ARRAY_SIZE(refs), now, refs);
	for (size_t i = 0; i < n; i++)
		if (kept < want && in_pool(refs[i].off))
			refs_out[kept++] = refs[i];
		else
			(void)slab_return(s, refs[i], RETURN_FREE, now);
	return kept;
}

/* The server's own lane, opened at its first use. */
static bool opening;
struct xport_lane *__real_xport_shm_open(void *base, uint64_t bytes,
					 bool readonly);
struct xport_lane *__wrap_xport_shm_open(void *base, uint64_t bytes,
					 bool readonly);
struct xport_lane *__wrap_xport_shm_open(void *base, uint64_t bytes,
					 bool readonly)
{
	if (!opening)
		return __real_xport_shm_open(base, bytes, readonly);
	opening = false;
	return sim_lane_server();
}

/* ---- when a process is through with a session ------------------------------------------ */

struct sim_tether {
	struct tether t; /* first */
	struct sim_conn *conn;
};

static struct sim_conn *connecting; /* whose session is made now */

struct tether *tether_new(void)
{
	struct sim_tether *t = calloc(1, sizeof(*t));

	if (!t)
		sim_fail("no memory");
	t->conn = connecting;
	return &t->t;
}

int tether_make(struct tether *t)
{
	(void)t;
	return 0;
}

bool tether_is_loose(struct tether *t)
{
	const struct sim_conn *k = ((const struct sim_tether *)t)->conn;

	return !k->tied || !sim_pid_alive(k->pid);
}

int tether_open(struct tether *t)
{
	(void)t;
	return ENOENT;
}

void tether_sent(struct tether *t)
{
	(void)t;
}

void tether_free(struct tether *t)
{
	free(t);
}

void tether_remove(struct tether *t)
{
	free(t);
}

void lingering_add(struct lingering *d, struct tether *t)
{
	t->next = d->first;
	d->first = t;
}

const struct tether *lingering_first(const struct lingering *d)
{
	return d->first;
}

bool lingering_gone(struct lingering *d)
{
	struct tether **at = &d->first, *t;

	while ((t = *at))
		if (tether_is_loose(t)) {
			*at = t->next;
			free(t);
		} else {
			at = &t->next;
		}
	return !d->first;
}

void lingering_fini(struct lingering *d)
{
	for (struct tether *t; (t = d->first);) {
		d->first = t->next;
		free(t);
	}
}

void sim_conn_tie(struct sim_conn *k)
{
	k->tied = true;
}

void sim_conn_untie(struct sim_conn *k)
{
	k->tied = false;
}

struct hits *sim_conn_hits(struct sim_conn *k)
{
	return &k->hits;
}

struct hits tether_hits(const struct tether *t)
{
	return ((const struct sim_tether *)t)->conn->hits;
}

/* ---- the loop ------------------------------------------------------------------------- */

static void connect_one(struct sim_conn *k)
{
	struct session *s;

	connecting = k;
	s = session_new(
		control, sim.remote ? &remote_port : &local_port, k);

	if (!s)
		sim_fail("no memory");
	k->begun = true;
	k->session = s;
	s->pid = sim.remote ? 0 : (pid_t)k->pid;
	welcome_begin(s);
}

static void hear(struct sim_conn *k)
{
	if (k->closed)
		return;
	if (!k->begun) {
		connect_one(k);
	} else if (k->up) {
		struct packet *p = k->up;

		k->up = p->next;
		(void)dispatch_packet(k->session, p->bytes, p->len);
		free(p);
	} else if (k->hung_up && sim_below(4) == 0) {
		if (!k->session->left && !sim.finishing)
			sim_events[SIM_CUT]++;
		session_end(k->session);
	}
}

static void look(void)
{
	const struct grow_stats *g = grow_stats(control);

	if (control->barrier->passed != barriers_seen) {
		barriers_seen = control->barrier->passed;
		sim_note(-1, "barrier", barriers_seen, 0);
	}
	if (g->splits + g->compactions != migrations_seen) {
		migrations_seen = g->splits + g->compactions;
		sim_note(-1, "migrations", g->splits, g->compactions);
		sim_pages_look();
	}
	if (g->damaged)
		sim_fail("a migration dropped %llu slots",
			 (unsigned long long)g->damaged);
	if (control->counts.protocol_errors)
		sim_fail("the server refused a message: %s", err_detail());
}

/* Blocks that are almost exhausted. */
static void wear(uint8_t cls)
{
	struct block_ref refs[48];
	size_t n = slab_grant(control->slab, cls, ARRAY_SIZE(refs), sim.now,
			      refs);

	for (size_t i = 0; i < n; i++) {
		uint16_t inc = (uint16_t)(INC_COUNT - 1 - sim_below(4));

		refs[i].inc = UTIL_MAX(refs[i].inc, inc);
		(void)slab_return(control->slab, refs[i], RETURN_FREE, sim.now);
	}
}

/* Classes whose segments are single pages. */
#define SMALL_CLASSES 23u

static void loop_main(void)
{
	for (;;) {
		struct sim_conn *next;

		for (struct sim_conn *k = conns; k; k = next) {
			next = k->next;
			if (sim_below(2))
				hear(k);
		}
		if (!sim.finishing && sim_once_in(sim.mix.reclaim))
			(void)grow_reclaim(control, clock_now_ns(), GROW_ANY);
		if (!sim.finishing && sim_once_in(sim.mix.wear))
			wear(value_class());
		if (!sim.finishing && sim_once_in(sim.mix.evict)) {
			evictor_note_waiting(control, (uint8_t)sim_below(SMALL_CLASSES));
			(void)grow_evict(control);
		}
		event_base_loop(control->base, EVLOOP_NONBLOCK);
		look();
		rests = true;
		sim_give_way();
		rests = false;
	}
}

void sim_server_step(void)
{
	sim.in_server = true;
	coroutine_switch(&sim.scheduler, &sim.server);
	sim.in_server = false;
}

bool sim_server_rests(void)
{
	return rests;
}

void sim_server_cut(void)
{
	struct sim_conn *k = conns;
	bool still = sim_below(3) > 0; /* one whose client stands still */

	/* Not one that has left: its end follows its last message. */
	while (k && (!k->session || !k->session->welcomed || k->hung_up ||
		     sim_below(2) ||
		     (still && !k->client->held &&
		      sim.now >= k->client->stopped_until)))
		k = k->next;
	if (!rests || !k)
		return;
	sim_note(-1, "cuts a session", k->client->id, 0);
	sim_events[SIM_CUT]++;
	session_end(k->session);
}

bool sim_server_calm(void)
{
	return rests && control->n_connections == 0 && !control->barrier->on &&
	       slab_count(control->slab).exhausted == 0 &&
	       heap_retired(sim.region.heap) == 0 && grow_pages(control) == 0;
}

/* ---- set-up ---------------------------------------------------------------------------- */

void sim_server_new(void)
{
	struct control_config cfg = {.max_sessions = 100, .hello_ms = 60000,
				     .evict = sim.mix.evict > 0};

	xport_verbs = &verbs_ops;
	sim_region_setup();
	barriers_seen = migrations_seen = 0;
	sim_pages_begin();
	opening = true;
	if (control_new(&cfg, &sim.region, &control))
		sim_fail("control_new: %s", err_detail());
	/* The simulation ends like any program. */
	event_del(control->on_term);
	event_del(control->on_int);
	event_del(control->on_hup);
	if (sim_below(2))
		wear(0);
	if (!stack)
		stack = malloc(SIM_STACK);
	coroutine_new(&sim.server, stack, SIM_STACK, loop_main);
	rests = true;
}

void sim_server_free(void)
{
	struct sweep_stats s = sweep_stats(control);
	const struct grow_stats *g = grow_stats(control);

	sim_events[SIM_SWEEPS] += s.sweeps;
	sim_events[SIM_SWEPT] += s.swept;
	sim_events[SIM_SPLITS] += g->splits;
	sim_events[SIM_COMPACTIONS] += g->compactions;
	sim_events[SIM_DOUBLINGS] += g->doublings;
	sim_events[SIM_FULL] += control->counts.hints;
	control_free(control);
	heap_free(sim.region.heap);
	while (conns) {
		struct sim_conn *k = conns;

		conns = k->next;
		while (k->up)
			packet_drop(&k->up);
		while (k->down)
			packet_drop(&k->down);
		sim_lane_forget(k);
		free(k);
	}
}

void sim_server_audit(void)
{
	sim_region_audit(control->slab);
}
