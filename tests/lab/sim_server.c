/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's side: its loop, which does a round when it
 * is its turn, its sessions at the end of queues instead of sockets, and processes
 * that are gone when the simulation says so.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/err.h"
#include "common/util.h"
#include "server/control_priv.h"
#include "server/grow.h"
#include "server/port_rdma.h"
#include "tests/lab/sim.h"

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
	struct packet *up, *down;
	struct sim_lane_state lane;
};

static struct control *control;
static struct sim_conn *conns;
static char *stack;
static bool rests;
static uint64_t barriers_seen, migrations_seen, barrier_began;
/* By page. */
static struct {
	uint32_t gen;     /* of the last subtable there */
	uint64_t retired; /* it is none any more since then; 0: it is one, or never was */
	bool aging, free; /* ... and a barrier has begun, or passed, since */
} pages[64];

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

static int port_send(void *conn, const void *buf, size_t len, const int *fds,
		     int n_fds)
{
	struct sim_conn *k = conn;

	(void)fds;
	(void)n_fds;
	if (!k->hung_up)
		packet_add(&k->down, buf, len);
	return 0;
}

static void port_fence(void *conn)
{
	struct sim_conn *k = conn;

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

static const struct session_port local_port = {
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

/* What port_rdma.c and the device would say. */
struct verbs_server *__wrap_port_rdma_server(struct port_rdma *p);
struct verbs_server *__wrap_port_rdma_server(struct port_rdma *p)
{
	(void)p;
	return NULL;
}

bool __wrap_verbs_server_read8_atomic(const struct verbs_server *vs);
bool __wrap_verbs_server_read8_atomic(const struct verbs_server *vs)
{
	(void)vs;
	return !sim.tears;
}

void __wrap_verbs_server_areas(const struct verbs_server *vs, bool readonly,
			       struct verbs_area areas[2]);
void __wrap_verbs_server_areas(const struct verbs_server *vs, bool readonly,
			       struct verbs_area areas[2])
{
	(void)vs;
	(void)readonly;
	areas[0] = (struct verbs_area){.bytes = META_ALIGN};
	areas[1] = (struct verbs_area){
		.off = META_ALIGN,
		.bytes = sim.region.sb.region_bytes - META_ALIGN};
}

bool __wrap_verbs_peer_same_host(const struct verbs_peer *a,
				 const struct verbs_peer *b);
bool __wrap_verbs_peer_same_host(const struct verbs_peer *a,
				 const struct verbs_peer *b)
{
	(void)a;
	(void)b;
	return true;
}

/* Tombstones that a migration drops are free T later. */
bool __real_slab_drop(struct slab *s, uint64_t word, uint64_t now);
bool __wrap_slab_drop(struct slab *s, uint64_t word, uint64_t now);
bool __wrap_slab_drop(struct slab *s, uint64_t word, uint64_t now)
{
	sim_check_unlinked(slot_off(word));
	return __real_slab_drop(s, word, now);
}

bool __real_slab_barrier_begin(struct slab *s);
bool __wrap_slab_barrier_begin(struct slab *s);
bool __wrap_slab_barrier_begin(struct slab *s)
{
	bool any = __real_slab_barrier_begin(s);

	sim_events[SIM_WORN] += any;
	return any;
}

/* The server's own lane, whoever asks for it first. */
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

/* ---- processes that left without goodbye ---------------------------------------------- */

struct departed_process {
	struct departed_process *next;
	uint32_t id, pid;
	int fd;
};

static void departed_forget(struct departed_process **at)
{
	struct departed_process *p = *at;

	*at = p->next;
	if (p->fd >= 0)
		close(p->fd);
	free(p);
}

/* There is always memory. */
bool departed_reserve(struct departed *d)
{
	(void)d;
	return true;
}

void departed_release(struct departed *d)
{
	(void)d;
}

void departed_add(struct departed *d, uint32_t id, pid_t pid)
{
	struct departed_process *p = calloc(1, sizeof(*p));

	if (!p)
		sim_fail("no memory");
	p->next = d->first;
	p->id = id;
	p->pid = (uint32_t)pid;
	p->fd = eventfd(0, EFD_CLOEXEC);
	d->first = p;
}

void departed_replaced(struct departed *d, uint32_t id, pid_t pid)
{
	for (struct departed_process **at = &d->first; *at; at = &(*at)->next)
		if ((*at)->id == id && (*at)->pid == (uint32_t)pid) {
			departed_forget(at);
			return;
		}
}

int departed_first(const struct departed *d, uint32_t *id_out, pid_t *pid_out)
{
	*id_out = d->first ? d->first->id : 0;
	*pid_out = d->first ? (pid_t)d->first->pid : 0;
	return d->first ? d->first->fd : -1;
}

bool departed_gone(struct departed *d)
{
	struct departed_process **at = &d->first;

	while (*at)
		if (sim_pid_alive((*at)->pid))
			at = &(*at)->next;
		else
			departed_forget(at);
	return !d->first;
}

void departed_fini(struct departed *d)
{
	while (d->first)
		departed_forget(&d->first);
}

/* Descriptors that the server sleeps on become readable. */
static void departed_tell(void)
{
	for (struct departed_process *p = control->departed.first; p;
	     p = p->next)
		if (!sim_pid_alive(p->pid))
			(void)eventfd_write(p->fd, 1);
}

/* ---- the loop ------------------------------------------------------------------------- */

static void connect_one(struct sim_conn *k)
{
	struct session *s = session_new(
		control, sim.remote ? &remote_port : &local_port, k);

	if (!s)
		sim_fail("no memory");
	k->begun = true;
	k->session = s;
	s->pid = sim.remote ? 0 : (pid_t)k->pid;
	control_begin_session(s);
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
		(void)control_packet(k->session, p->bytes, p->len);
		free(p);
	} else if (k->hung_up && sim_below(4) == 0) {
		if (!k->session->left && !sim.finishing)
			sim_events[SIM_CUT]++;
		control_end_session(k->session);
	}
}

/* Pages that are subtables, again, or no more. */
static void look_at_pages(void)
{
	struct region_walk w = {0};
	bool now[ARRAY_SIZE(pages)] = {false};
	uint64_t entry, hash;

	while (region_walk_next(&sim.region, &w, &entry, &hash)) {
		uint64_t p = entry_page(entry) - META_ALIGN / PAGE_BYTES;

		if (pages[p].gen && pages[p].gen != entry_gen(entry))
			sim_events[SIM_PAGES_AGAIN]++;
		pages[p].gen = entry_gen(entry);
		pages[p].retired = 0;
		pages[p].aging = pages[p].free = false;
		now[p] = true;
	}
	for (unsigned p = 0; p < ARRAY_SIZE(pages); p++)
		if (pages[p].gen && !now[p] && !pages[p].retired)
			pages[p].retired = sim.now;
}

/* What is free behind a barrier is what was retired when it began. */
bool __real_heap_barrier_begin(struct heap *h);
bool __wrap_heap_barrier_begin(struct heap *h);
bool __wrap_heap_barrier_begin(struct heap *h)
{
	look_at_pages();
	barrier_began = sim.now;
	for (unsigned p = 0; p < ARRAY_SIZE(pages); p++)
		pages[p].aging = pages[p].retired != 0;
	return __real_heap_barrier_begin(h);
}

void __real_heap_barrier_passed(struct heap *h);
void __wrap_heap_barrier_passed(struct heap *h);
void __wrap_heap_barrier_passed(struct heap *h)
{
	for (unsigned p = 0; p < ARRAY_SIZE(pages); p++)
		pages[p].free = pages[p].free || pages[p].aging;
	sim_check_barrier(barrier_began);
	__real_heap_barrier_passed(h);
}

void sim_check_slots(uint64_t off)
{
	uint64_t page = (off - META_ALIGN) / PAGE_BYTES;

	if (page < ARRAY_SIZE(pages) && pages[page].free)
		look_at_pages(); /* it may be one again since this moment */
	if (page >= ARRAY_SIZE(pages) || pages[page].free)
		sim_fail("slots are looked for at %llx, behind a barrier",
			 (unsigned long long)off);
}

static void look(void)
{
	const struct grow_stats *g = grow_stats(control);

	if (control->barrier.passed != barriers_seen) {
		barriers_seen = control->barrier.passed;
		sim_note(-1, "barrier", barriers_seen, 0);
	}
	if (g->splits + g->compactions != migrations_seen) {
		migrations_seen = g->splits + g->compactions;
		sim_note(-1, "migrations", g->splits, g->compactions);
		look_at_pages();
	}
	if (g->damaged)
		sim_fail("a migration dropped %llu slots",
			 (unsigned long long)g->damaged);
	if (control->stats.protocol_errors)
		sim_fail("the server refused a message: %s", err_detail());
}

static void loop_main(void)
{
	for (;;) {
		struct sim_conn *next;

		for (struct sim_conn *k = conns; k; k = next) {
			next = k->next;
			if (sim_below(2))
				hear(k);
		}
		departed_tell();
		if (!sim.finishing && !sim.crowded && sim_below(120) == 0)
			(void)grow_reclaim(control, clock_now_ns());
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

	/* Not one that has left: its end comes behind its last words. */
	while (k && (!k->session || !k->session->welcomed || k->hung_up ||
		     sim_below(2)))
		k = k->next;
	if (!rests || !k)
		return;
	sim_note(-1, "cuts a session", k->client->id, 0);
	sim_events[SIM_CUT]++;
	control_end_session(k->session);
}

bool sim_server_calm(void)
{
	return rests && control->n_connections == 0 && !control->barrier.on &&
	       slab_count(control->slab).worn == 0 &&
	       heap_retired(sim.region.heap) == 0 && grow_pages(control) == 0;
}

/* ---- set-up ---------------------------------------------------------------------------- */

/* Blocks that have been used almost as often as can be. */
static void wear(uint8_t cls)
{
	struct block_ref refs[48];
	size_t n = slab_grant(control->slab, cls, ARRAY_SIZE(refs), sim.now,
			      refs);

	for (size_t i = 0; i < n; i++) {
		refs[i].inc = (uint16_t)(INC_COUNT - 1 - sim_below(4));
		(void)slab_return(control->slab, refs[i], ALLOC_FREE, sim.now);
	}
}

void sim_server_new(void)
{
	struct control_config cfg = {.max_sessions = 100, .hello_ms = 60000};

	sim_region_setup();
	barriers_seen = migrations_seen = 0;
	memset(pages, 0, sizeof(pages));
	look_at_pages();
	opening = true;
	if (control_new(&cfg, &sim.region, &control))
		sim_fail("control_new: %s", err_detail());
	/* The simulation is ended as any program is. */
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
	sim_events[SIM_FULL] += control->stats.hints;
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
