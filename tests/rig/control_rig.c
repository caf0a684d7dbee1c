/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "control_rig.h"
#include "server/memory/slab_marks.h"
#include "server/memory/slab_priv.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/log.h"
#include "server/loop/dispatch.h"
#include "server/loop/welcome.h"

struct region region;
struct control *c;
struct peer alice, bob;

/* ---- clients --------------------------------------------------------------------- */

static int peer_send(void *conn, const void *buf, size_t len, const int *fds,
		     int n_fds)
{
	struct peer *p = conn;
	struct msg m;

	(void)fds;
	(void)n_fds;
	ck_assert_int_eq(msg_decode(buf, len, &m), 0);
	if (m.type == MSG_BARRIER) {
		p->barriers++;
		p->barrier = m.epoch.number;
	} else if (m.type == MSG_RECLAIM) {
		p->reclaims++;
	} else if (m.type == MSG_GRANT) {
		ck_assert(!p->answered);
		ck_assert_uint_eq(m.req, p->req);
		p->answered = true;
		p->answered_ns = clock_now_ns();
		p->n = m.blocks.n;
		for (uint32_t i = 0; i < m.blocks.n; i++)
			p->got[i] = msg_ref(&m, i);
	} else if (p->heard) {
		p->heard(p, &m);
	}
	return 0;
}

static void peer_fence(void *conn)
{
	((struct peer *)conn)->fenced++;
}

static bool peer_silence(void *conn)
{
	return !((struct peer *)conn)->unread;
}

static void peer_close(void *conn)
{
	((struct peer *)conn)->session = NULL;
}

static const char *peer_name(void *conn, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s", conn == &alice ? "alice" : "bob");
	return buf;
}

const struct conn_ops rig_local = {
	.send = peer_send,
	.fence = peer_fence,
	.silence = peer_silence,
	.close = peer_close,
	.peer = peer_name,
};

const struct conn_ops rig_remote = {
	.remote = true,
	.send = peer_send,
	.fence = peer_fence,
	.close = peer_close,
	.peer = peer_name,
};

bool say(struct peer *p, const struct msg *m, const struct block_ref *refs)
{
	uint8_t buf[MSG_MAX_BYTES];
	size_t len;

	ck_assert_int_eq(msg_encode(m, refs, buf, sizeof(buf), &len), 0);
	return dispatch_packet(p->session, buf, len);
}

static void *tie(struct tether *t)
{
	void *map;

	ck_assert_int_eq(tether_make(t), 0);
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	return map;
}

void untie(void *tether)
{
	ck_assert_int_eq(munmap(tether, 4096), 0);
}

void join(struct peer *p, const struct conn_ops *port, pid_t pid)
{
	memset(p, 0, sizeof(*p));
	p->session = session_new(c, port, p);
	p->session->pid = pid;
	if (p->session->tether)
		p->tether = tie(p->session->tether);
	welcome_begin(p->session);
	/* HELLO would need descriptors, or a card. */
	p->session->welcomed = true;
	c->counts.sessions++;
	ck_assert(core_next_id(c, &p->session->id));
}

void answer_barrier(struct peer *p)
{
	struct msg m = {.type = MSG_BARRIER_ACK};

	if (!p->session || !p->barrier)
		return;
	m.epoch.number = p->barrier;
	p->barrier = 0;
	ck_assert(say(p, &m, NULL));
}

void turn(void)
{
	event_base_loop(c->base, EVLOOP_NONBLOCK);
	if (!alice.silent)
		answer_barrier(&alice);
	if (!bob.silent)
		answer_barrier(&bob);
}

void turns(unsigned ms)
{
	uint64_t end = clock_now_ns() + ms * NS_PER_MS;

	WAIT_FOR(clock_now_ns() >= end);
}

/* ---- blocks ---------------------------------------------------------------------- */

void rig_ask(struct peer *p, uint8_t cls, uint32_t count)
{
	struct msg m = {.type = MSG_GRANT_REQ, .req = ++p->req,
			.grant_req = {.cls = cls, .count = count}};

	p->answered = false;
	ck_assert(say(p, &m, NULL));
}

size_t rig_get(struct peer *p, uint8_t cls, uint32_t count)
{
	rig_ask(p, cls, count);
	WAIT_FOR(p->answered);
	for (size_t i = 0; i < p->n; i++) {
		ck_assert_uint_lt(p->n_held, HELD_MAX);
		p->held[p->n_held++] = p->got[i];
	}
	return p->n;
}

size_t rig_get_all(struct peer *p, uint8_t cls)
{
	size_t n = p->n_held;

	while (rig_get(p, cls, 64) > 0)
		;
	return p->n_held - n;
}

size_t rig_get_reserve(struct peer *p, uint8_t cls)
{
	size_t n = 0;

	for (uint32_t at = 1; at < c->slab->n_segments; at++) {
		const struct segment *g = &c->slab->segments[at];

		for (uint32_t i = 0; g->state && g->cls == cls && i < g->blocks; i++) {
			if (slab_state(g, i) != BLOCK_FREE)
				continue;
			p->held[p->n_held++] = slab_ref(g, i);
			slab_set(c->slab, at, i, BLOCK_OUT, slab_inc(g, i));
			n++;
		}
	}
	return n;
}

static uint64_t hidden[HELD_MAX];
static size_t n_hidden;

void rig_hide_pages(void)
{
	while ((hidden[n_hidden] = heap_take(region.heap, 1)))
		n_hidden++;
}

void rig_show_pages(void)
{
	while (n_hidden)
		heap_give(region.heap, hidden[--n_hidden], 1);
}

void rig_give(struct peer *p, size_t n, enum return_kind state)
{
	while (n) {
		struct msg m = {.type = MSG_RETURN};
		size_t some = n < 100 ? n : 100;

		m.blocks.state = (uint8_t)state;
		m.blocks.n = (uint32_t)some;
		p->n_held -= some;
		n -= some;
		for (size_t i = 0; i < some; i++)
			p->held[p->n_held + i].inc = 7;
		ck_assert(say(p, &m, p->held + p->n_held));
	}
}

/* ---- setup and teardown ------------------------------------------------------------ */

/* The log goes to a file, which `tail_log` reads. */
static int log_fd = -1;

size_t log_count(const char *what)
{
	static char text[16384];
	ssize_t n = pread(log_fd, text, sizeof(text) - 1, 0);
	size_t found = 0;

	ck_assert_int_ge(n, 0);
	text[n] = 0;
	for (const char *at = text; (at = strstr(at, what)); at++)
		found++;
	return found;
}

static void begin(const struct region_config *config)
{
	const struct control_config serve = {
		.max_sessions = 10,
		.hello_ms = 60000,
		.evict = config->cache,
	};
	FILE *f = tmpfile();

	ck_assert_ptr_nonnull(f);
	log_fd = fileno(f);
	ck_assert_int_eq(dup2(log_fd, STDERR_FILENO), STDERR_FILENO);
	log_init("test", LOG_LEVEL_WARN);
	ck_assert_msg(region_create(config, &region) == 0, "%s", err_detail());
	ck_assert_int_eq(control_new(&serve, &region, &c), 0);
	join(&alice, &rig_local, getpid());
	memset(&bob, 0, sizeof(bob));
}

void rig_begin(uint64_t index_slots)
{
	begin(&(struct region_config){
		.memory = 2 * MIB,
		.index_slots = index_slots,
		.max_value = 8192,
		.max_key = 100,
		.grace_ns = GRACE_NS,
	});
}

void rig_begin_cache(uint64_t memory)
{
	begin(&(struct region_config){
		.memory = memory,
		.max_value = memory / 4,
		.max_key = 100,
		.grace_ns = GRACE_NS,
		.cache = true,
	});
}

void rig_end(void)
{
	ck_assert_msg(slab_audit(c->slab), "%s", err_detail());
	ck_assert_uint_eq(heap_used(region.heap),
			  slab_count(c->slab).pages + region.subtables +
				  heap_retired(region.heap));
	control_free(c);
	region_destroy(&region);
}
