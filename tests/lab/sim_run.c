/* SPDX-License-Identifier: BSD-3-Clause */
/* One run: the order of steps, accidents, and the end. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/conn.h"
#include "sim.h"

struct sim sim;

/* ---- chance, trace ------------------------------------------------------------------- */

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t random64(void)
{
	uint64_t z = sim.rng += UINT64_C(0x9E3779B97F4A7C15);

	z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
	return z ^ z >> 31;
}

uint64_t sim_below(uint64_t n)
{
	return (uint64_t)((unsigned __int128)random64() * n >> 64);
}

bool sim_once_in(unsigned n)
{
	return n && sim_below(n) == 0;
}

static void mix(uint64_t word)
{
	sim.trace = (sim.trace ^ word) * UINT64_C(0xFF51AFD7ED558CCD);
	sim.trace ^= sim.trace >> 32;
}

void sim_note(int who, const char *what, uint64_t a, uint64_t b)
{
	mix(sim.now);
	mix((uint64_t)(uint32_t)who << 32 | (uint8_t)what[0]);
	mix(a);
	mix(b);
	if (sim.verbose)
		printf("%llu %d %s %llx %llx\n",
		       (unsigned long long)(sim.now - SIM_START), who, what,
		       (unsigned long long)a, (unsigned long long)b);
}

void sim_fail(const char *fmt, ...)
{
	va_list ap;

	printf("seed %llu: ", (unsigned long long)sim.seed);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(" (at %llu ns; %u clients, %s)\n",
	       (unsigned long long)(sim.now - SIM_START), sim.n_clients,
	       sim.tears	? "words tear" :
	       sim.remote ? "from afar" :
			    "shared memory");
	fflush(stdout);
	_Exit(1);
}

/* ---- coroutines -------------------------------------------------------------------------- */

void sim_give_way(void)
{
	if (sim.running && sim.in_thread)
		coroutine_switch(&sim.running->thread, &sim.scheduler);
	else if (sim.in_server)
		coroutine_switch(&sim.server, &sim.scheduler);
}

static void go_on(struct sim_client *c)
{
	sim.running = c;
	sim.in_thread = true;
	coroutine_switch(&sim.scheduler, &c->thread);
	sim.in_thread = false;
	sim.running = NULL;
}

/* ---- clients come and go -------------------------------------------------------------------- */

static void start(struct sim_client *c, unsigned id, enum sim_order order)
{
	char *stack = c->stack ? c->stack : malloc(SIM_STACK);

	if (!stack)
		sim_fail("no memory");
	memset(c, 0, sizeof(*c));
	c->stack = stack;
	c->id = id;
	c->pid = ++sim.last_pid;
	c->alive = true;
	c->order = order;
	c->rate = SIM_SLOWEST + (unsigned)sim_below(SIM_FASTEST - SIM_SLOWEST + 1);
	c->direct = sim_below(2) || sim.mix.rush;
	c->at_once = sim_below(2) || sim.mix.rush;
	c->readonly = order == SIM_WORK && sim_below(10) == 0;
	c->timeout_ms = sim_below(3) ? 5000 : 150 + (unsigned)sim_below(500);
	c->lag = 3 + (unsigned)sim_below(sim_below(2) ? 4 : 40);
	c->guest = sim.remote && sim_once_in(sim.mix.guest);
	coroutine_new(&c->thread, c->stack, SIM_STACK, sim_client_main);
}

static void wake(struct sim_client *c)
{
	if (c->guest && sim.now < c->stopped_until)
		c->lost -= c->stopped_until - sim.now;
	c->stopped_until = 0;
}

/* Its process ends at once; the network keeps its requests. */
static void die(struct sim_client *c)
{
	for (unsigned i = 0; i < c->n_ops; i++)
		c->op[i]->unsure = c->op[i]->over = true;
	if (c->conn) {
		sim_lane_abandon(c->conn);
		sim_conn_hang_up(c->conn);
	}
	wake(c);
	c->dying = true;
	while (!c->over)
		go_on(c);
	c->alive = false;
}

void sim_stop(struct sim_client *c, bool for_long)
{
	uint64_t ns = for_long ? 2 * SIM_T + sim_below(6 * SIM_T) :
				 SIM_T / 4 + sim_below(3 * SIM_T);

	if (sim.finishing || sim.now < c->stopped_until)
		return;
	c->stopped_until = sim.now + ns;
	if (c->guest)
		c->lost += ns;
	if (ns > SIM_T)
		sim_events[c->guest ? SIM_PAUSED : SIM_STOPPED]++;
}

/* ---- steps ------------------------------------------------------------------------------------
 */

static void accident(struct sim_client *c)
{
	static const uint8_t slow[] = {0, 0, 4, 30};
	const struct sim_mix *m = &sim.mix;

	if (sim_once_in(m->moods))
		c->slow = slow[sim_below(sizeof(slow))];
	if (sim_once_in(m->stop))
		sim_stop(c, false);
	if (sim_once_in(m->break_any) && c->conn && sim.remote)
		sim_conn_lane(c->conn)->break_now = true;
	if (sim_once_in(m->cut))
		sim_server_cut();
	if (sim_once_in(m->stop_server)) {
		sim.server_stopped_until =
			sim.now + SIM_T / 4 + sim_below(3 * SIM_T);
		sim_events[SIM_SERVER_STOPPED]++;
	}
	if (sim_once_in(m->kill) && c->id) {
		sim_note((int)c->id, "killed", 0, 0);
		sim_events[SIM_KILLED]++;
		die(c);
	}
}

/* Others go on first. */
static bool hangs_back(struct sim_client *c)
{
	if (sim.finishing)
		return false;
	if (c->held) {
		c->held--;
		return true;
	}
	return c->slow && sim_below(c->slow);
}

static void step_client(struct sim_client *c)
{
	if (!c->alive) {
		/* Another one takes its place. */
		if (!sim.finishing && sim_below(100) == 0)
			start(c, c->id, SIM_WORK);
		return;
	}
	if (!sim.finishing)
		accident(c);
	if (!c->alive || sim.now < c->stopped_until || hangs_back(c))
		return;
	if (c->idle || sim_below(sim.finishing ? 4 : c->lag) == 0 || !sim_can_run(c))
		sim_control_step(c);
	else
		go_on(c);
}

static void step_network(void)
{
	for (struct sim_conn *k = sim_conn_next(NULL); k; k = sim_conn_next(k))
		if (sim_once_in(sim.finishing ? 2 : sim.mix.late))
			sim_lane_late(k);
}

static void step_server(void)
{
	if (sim.server_held && !sim.finishing)
		sim.server_held--;
	else if (sim.now >= sim.server_stopped_until)
		sim_server_step();
}

/* Of a step's chances; a client has 3. */
#define SERVER 5u
#define NETWORK 2u

static void step(void)
{
	uint64_t who = sim_below(SERVER + NETWORK + 3 * (sim.n_clients + 1u));

	sim.now += sim_below(sim.finishing ? 500000 : sim.mix.tick_ns);
	if (sim_once_in(sim.finishing ? 250 : sim.mix.leap))
		sim.now += SIM_T / 3;
	if (who < SERVER) {
		step_server();
	} else if (who < SERVER + NETWORK) {
		step_network();
	} else {
		unsigned id = (unsigned)(who - SERVER - NETWORK) / 3;

		if (id < sim.n_clients)
			step_client(&sim.client[id]);
		else if (sim.client[SIM_AUDITOR].alive)
			step_client(&sim.client[SIM_AUDITOR]);
	}
}

/* ---- a run ------------------------------------------------------------------------------------
 */

static void order(struct sim_client *c, enum sim_order o)
{
	c->order = o;
	c->idle = false;
}

static bool all_idle(void)
{
	for (unsigned i = 0; i <= SIM_AUDITOR; i++)
		if (sim.client[i].alive && !sim.client[i].idle)
			return false;
	return true;
}

static void until_idle(const char *what)
{
	for (unsigned i = 0; !all_idle(); i++) {
		if (i == 300000)
			sim_fail("%s does not end", what);
		step();
	}
}

static void finish(void)
{
	struct sim_client *auditor = &sim.client[SIM_AUDITOR];

	sim.finishing = true;
	sim.server_stopped_until = 0;
	for (unsigned i = 0; i < sim.n_clients; i++)
		wake(&sim.client[i]);
	/* A client that was cut off notices. */
	for (unsigned i = 0; i < 600; i++)
		step();
	for (unsigned i = 0; i < sim.n_clients; i++) {
		order(&sim.client[i], sim_below(2) ? SIM_REST : SIM_LEAVE);
	}
	until_idle("an operation");
	start(auditor, SIM_AUDITOR, SIM_AUDIT);
	auditor->quiet = true;
	auditor->timeout_ms = 600000;
	until_idle("the audit");
	for (unsigned i = 0; i <= SIM_AUDITOR; i++)
		if (sim.client[i].alive)
			order(&sim.client[i], SIM_LEAVE);
	until_idle("leaving");
	for (unsigned i = 0; i < 20000 && !sim_server_calm(); i++)
		step();
	if (!sim_server_calm())
		sim_fail("the server does not come to rest");
	sim_server_audit();
	for (unsigned i = 0; i <= SIM_AUDITOR; i++)
		if (sim.client[i].alive)
			die(&sim.client[i]);
}

static void setup(uint64_t seed)
{
	sim.seed = sim.rng = sim.trace = seed;
	sim.now = SIM_START;
	sim.remote = sim_below(3) > 0;
	sim.tears = sim.remote && sim_below(2) && !sim.whole_words;
	sim.finishing = false;
	sim.server_stopped_until = 0;
	sim.server_held = 0;
	sim.marched = 0;
	sim.n_clients = 2 + (unsigned)sim_below(SIM_CLIENTS - 1);
	sim.last_pid = 0;
	sim.last_id = 0;
	sim.pages = 12 + sim_below(12);
	sim_mix_draw();
	if (sim.mix.evict)
		sim.pages = 6 + sim_below(6);
	conn_wrap_lane = sim_lane_wrap;
}

uint64_t sim_run(uint64_t seed, unsigned steps)
{
	setup(seed);
	sim_check_begin();
	sim_server_new();
	start(&sim.client[0], 0, SIM_FILL);
	sim.client[0].quiet = true;
	sim.finishing = true;
	until_idle("filling the window");
	sim.finishing = false;
	sim.client[0].quiet = false;
	order(&sim.client[0], SIM_WORK);
	for (unsigned i = 1; i < sim.n_clients; i++)
		start(&sim.client[i], i, SIM_WORK);
	for (unsigned i = 0; i < steps; i++)
		step();
	finish();
	sim_server_free();
	return sim.trace;
}
