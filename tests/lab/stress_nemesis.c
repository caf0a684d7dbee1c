/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "stress.h"
#include "tests/rig/marks.h"

#define TICK_US 1000u
#define MS UINT64_C(1000000)
/* For clients to end by themselves: far more than they need. */
#define END_MS 180000u

struct nemesis {
	struct stress_board *b;
	struct real_server *server;
	uint64_t *random;
	struct stress_tally *t;
	struct scale_worker worker[STRESS_CLIENTS_MAX];
	uint64_t resume[STRESS_CLIENTS_MAX]; /* when it goes on; 0: it runs */
	uint64_t resume_server;
	uint64_t next; /* when the next thing happens */
};

static uint64_t below(struct nemesis *n, uint64_t limit)
{
	return scale_random(n->random) % limit;
}

static void begin(struct nemesis *n, unsigned i)
{
	struct stress_place *p = &n->b->place[i];

	p->client = n->b->clients++;
	p->ready = 0;
	n->worker[i] = scale_start(stress_client_main, i, n->b);
}

/* ---- what it does ---------------------------------------------------------- */

static void stop_client(struct nemesis *n, unsigned i, uint64_t now)
{
	if (n->resume[i])
		return;
	ck_assert_int_eq(kill(n->worker[i].pid, SIGSTOP), 0);
	/* Most for moments, some for longer than the grace period. */
	n->resume[i] = now + (below(n, 4) ? below(n, 5) : below(n, 250)) * MS;
	n->t->stops++;
}

static void kill_client(struct nemesis *n, unsigned i)
{
	/* One that has ended, because its notes were full, stays as it is. */
	if (kill(n->worker[i].pid, SIGKILL) != 0 ||
	    !scale_killed(&n->worker[i], END_MS))
		return;
	n->resume[i] = 0;
	n->t->kills++;
	begin(n, i);
}

static void stop_server(struct nemesis *n, uint64_t now)
{
	if (n->resume_server)
		return;
	real_server_pause(n->server);
	n->resume_server = now + (1 + below(n, 120)) * MS;
	n->t->server_stops++;
}

/* One that is just connecting could not know of the next server. */
static bool all_ready(const struct nemesis *n)
{
	for (unsigned i = 0; i < n->b->plan.clients; i++)
		if (n->worker[i].pid && !STRESS_LOAD(n->b->place[i].ready))
			return false;
	return true;
}

/* Whatever the clients are doing, those that are stopped included. */
static void adopt_server(struct nemesis *n)
{
	if (!all_ready(n))
		return;
	(void)real_server_end(n->server, SIGKILL);
	real_server_start(n->server, n->b->plan.server_args);
	n->t->server_kills++;
}

static void act(struct nemesis *n, uint64_t now)
{
	const struct stress_plan *p = &n->b->plan;
	unsigned i = (unsigned)below(n, p->clients);
	uint64_t what = below(n, 10);

	if (!n->worker[i].pid)
		return;
	if (what < 6 && p->stop_clients)
		stop_client(n, i, now);
	else if (what < 9 && p->kill_clients)
		kill_client(n, i);
	else if (what == 9 && p->adopt_server)
		adopt_server(n);
	else if (what == 9 && p->stop_server && n->server->pid)
		stop_server(n, now);
}

static void resume(struct nemesis *n, uint64_t now)
{
	for (unsigned i = 0; i < n->b->plan.clients; i++)
		if (n->resume[i] && n->resume[i] <= now) {
			if (n->worker[i].pid)
				scale_continue(&n->worker[i]);
			n->resume[i] = 0;
		}
	if (n->resume_server && n->resume_server <= now) {
		real_server_resume(n->server);
		n->resume_server = 0;
	}
}

/* ---- the server's end ------------------------------------------------------ */

/* A client that connects only to the next server could not know of this one's end. */
static void await_ready(const struct nemesis *n)
{
	uint64_t end = recorder_now() + END_MS * MS;

	for (unsigned i = 0; i < n->b->plan.clients; i++)
		while (!STRESS_LOAD(n->b->place[i].ready)) {
			ck_assert_uint_lt(recorder_now(), end);
			usleep(TICK_US);
		}
}

/* Kill it while all are connected, and start another one some time later. */
static void kill_server(struct nemesis *n)
{
	resume(n, UINT64_MAX);
	await_ready(n);
	(void)real_server_end(n->server, SIGKILL);
	usleep((useconds_t)below(n, 300000));
	real_server_start(n->server, n->b->plan.server_args);
	n->t->server_kills++;
	STRESS_STORE(n->b->again, 1);
}

static void end_all(struct nemesis *n)
{
	resume(n, UINT64_MAX);
	if (!n->b->plan.kill_server)
		STRESS_STORE(n->b->stop, 1);
	for (unsigned i = 0; i < n->b->plan.clients; i++)
		if (n->worker[i].pid)
			scale_join(&n->worker[i], 0, END_MS);
}

static bool any_left(const struct nemesis *n)
{
	siginfo_t info;

	for (unsigned i = 0; i < n->b->plan.clients; i++) {
		if (!n->worker[i].pid)
			continue;
		info.si_pid = 0;
		ck_assert_int_eq(waitid(P_PID, (id_t)n->worker[i].pid, &info,
					WEXITED | WNOHANG | WNOWAIT), 0);
		if (info.si_pid == 0)
			return true;
		ck_assert_msg(info.si_code == CLD_EXITED && info.si_status == 0,
			      "client %u ended with %d, %d",
			      n->b->place[i].client, info.si_code,
			      info.si_status);
	}
	return false;
}

/* If a client is to be harmed one is, even if a busy machine did little. */
static bool goes_on(const struct nemesis *n, uint64_t now, uint64_t end)
{
	const struct stress_plan *p = &n->b->plan;

	return now < end ||
	       ((p->stop_clients || p->kill_clients) && n->t->stops + n->t->kills == 0);
}

/* One adoption there is, even if there was no moment so far with all clients connected. */
static void adopt_at_last(struct nemesis *n)
{
	resume(n, UINT64_MAX);
	await_ready(n);
	adopt_server(n);
	usleep(n->b->plan.harm_ms * 1000);
}

void stress_harm(struct stress_board *b, struct real_server *server,
		 uint64_t *random, struct stress_tally *t)
{
	struct nemesis n = {.b = b, .server = server, .random = random, .t = t};
	uint64_t now = recorder_now(), end = now + b->plan.round_ms * MS;

	for (unsigned i = 0; i < b->plan.clients; i++)
		begin(&n, i);
	while (goes_on(&n, now = recorder_now(), end) && any_left(&n)) {
		resume(&n, now);
		if (now >= n.next) {
			if (n.next)
				act(&n, now);
			n.next = now + (1 + below(&n, b->plan.harm_ms)) * MS;
		}
		usleep(TICK_US);
	}
	if (b->plan.kill_server)
		kill_server(&n);
	if (b->plan.adopt_server && t->server_kills == 0)
		adopt_at_last(&n);
	end_all(&n);
}
