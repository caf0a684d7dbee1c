/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "phase.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/base/shared.h"
#include "bench/base/ticks.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/util.h"

#include "cache.h"
#include "inflight.h"
#include "recorder.h"
#include "worker.h"

/* The watching thread's longest sleep. */
#define NAP_MAX_NS (20 * NS_PER_MS)
/* Threads with less than one operation per this time start at random moments. */
#define SLOW_TICK_NS NS_PER_MS

struct team;

struct member {
	struct team *team;
	pthread_t thread;
	struct worker worker;
	struct measure measured;
	uint64_t todo;  /* operations; 0: until time is up */
	uint64_t warm_ops; /* done during the warm-up */
	uint64_t cpu_ns;   /* processor time of this thread */
	uint64_t end;   /* stamp after its last operation */
	bool running;   /* has a thread */
	int err;        /* why it could not start */
	char why[256];
};

/*
 * The threads meet twice: with their sessions open, and after the warm-up. With several processes
 * it lies in shared memory.
 */
struct team {
	const struct phase *phase;
	unsigned processes;
	pid_t *pids;                 /* the parent's list of processes */
	struct phase_result *partial; /* figures of each process */
	bool dead;                   /* a process ended too early */
	struct workload workload;
	struct worker_shared shared;
	struct member *members;
	pthread_mutex_t lock;
	pthread_cond_t met;
	uint64_t todo;    /* operations of all; 0: until time is up */
	unsigned n;       /* members; fewer if a thread could not be made */
	unsigned here;    /* members that have arrived at the current meeting */
	unsigned meeting; /* number of the current meeting */
	bool broken;      /* a member could not start: nobody works */
	uint64_t start;   /* stamp of the second meeting */
	uint64_t until;   /* stamp; 0: no time limit */
	uint64_t start_ns; /* the start, by ticks_clock_ns() */
	uint64_t cpu_start, cpu_end;       /* processor time, ns */
	uint64_t server_start, server_end; /* of the store; 0: unknown */
	_Atomic unsigned n_done;           /* members that have finished */
	_Atomic bool measuring;
	_Atomic unsigned n_ended;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	interrupted = sig;
}

void phase_catch_signals(void)
{
	/* A second signal ends the process: a store may hang. */
	struct sigaction sa = {.sa_handler = on_signal,
			       .sa_flags = (int)SA_RESETHAND};

	if (!util_signal_ignored(SIGINT))
		sigaction(SIGINT, &sa, NULL);
	if (!util_signal_ignored(SIGTERM))
		sigaction(SIGTERM, &sa, NULL);
	/* After SIGHUP the shell may send another one. */
	sa.sa_flags = 0;
	if (!util_signal_ignored(SIGHUP))
		sigaction(SIGHUP, &sa, NULL);
}

int phase_signal(void)
{
	return interrupted;
}

bool phase_was_interrupted(void)
{
	return interrupted != 0;
}

/* ---- meetings --------------------------------------------------------------- */

/* Everybody has arrived; t->lock is held. */
static void meeting_over(struct team *t)
{
	uint64_t s = t->phase->params->max_time, now = ticks_now();

	t->here = 0;
	/* The warm-up has no fixed number of operations. */
	arrivals_begin(&t->shared.arrivals, now, t->meeting == 1 ? t->todo : 0);
	if (t->meeting++ == 1) {
		t->cpu_start = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
		t->start_ns = ticks_clock_ns();
		t->start = now;
		if (s)
			t->until = t->start + ticks_from_ns(s * NS_PER_SEC);
		atomic_store(&t->measuring, true);
	}
	pthread_cond_broadcast(&t->met);
}

/* False if the phase is cancelled. */
static bool meet(struct team *t, bool able)
{
	unsigned which;
	bool go_on;

	pthread_mutex_lock(&t->lock);
	which = t->meeting;
	t->broken = t->broken || !able;
	if (++t->here == t->n)
		meeting_over(t);
	while (t->meeting == which)
		pthread_cond_wait(&t->met, &t->lock);
	go_on = !t->broken;
	pthread_mutex_unlock(&t->lock);
	return go_on;
}

/* Only `n` threads could be created. */
static void team_shrink(struct team *t, unsigned n)
{
	pthread_mutex_lock(&t->lock);
	t->broken = true;
	t->n = n;
	if (n && t->here == n)
		meeting_over(t);
	pthread_mutex_unlock(&t->lock);
}

/* ---- a thread ----------------------------------------------------------------- */

static void member_open(struct member *m)
{
	struct db_store *store = m->team->phase->store;

	m->err = worker_init(&m->worker);
	if (!m->err)
		m->err = store->ops->open(store, &m->worker.db);
	if (!m->err)
		m->err = inflight_init(&m->worker);
	if (!m->err)
		m->err = cache_init(&m->worker);
	if (m->err)
		snprintf(m->why, sizeof(m->why), "%s", err_detail());
}

static void warm_up(struct member *m)
{
	const struct params *p = m->team->phase->params;
	uint64_t span = ticks_from_ns((uint64_t)(p->warmup * 1e9));
	struct worker *w = &m->worker;
	struct measure unused;

	if (p->trace)
		w->replay_end = p->trace->n - p->operation_count;
	if (m->team->phase->load || (p->warmup <= 0.0 && !w->replay_end) ||
	    measure_init(&unused, p, false))
		return;
	worker_run(w, &unused, 0, w->replay_end ? 0 : ticks_now() + span);
	m->warm_ops = m->worker.done;
	atomic_store_explicit(&m->worker.done, 0, memory_order_relaxed);
	measure_fini(&unused);
}

/* Slow threads that start together would stay in step. */
static void spread_out(struct worker *w)
{
	if (!w->shared->params->open_loop &&
	    w->tick >= (double)ticks_from_ns(SLOW_TICK_NS))
		w->offset = (uint64_t)(w->tick * rng_double(&w->draw.rng));
}

static uint64_t server_cpu(const struct member *m)
{
	struct db *db = m->worker.db;

	return db->ops->server_cpu ? db->ops->server_cpu(db) : 0;
}

/* The last one to finish reads the CPU times for all. */
static void note_done(struct member *m)
{
	struct team *t = m->team;

	m->end = ticks_now();
	m->cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - m->cpu_ns;
	if (atomic_fetch_add(&t->n_done, 1) + 1 != t->n)
		return;
	t->cpu_end = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
	t->server_end = server_cpu(m);
}

static void *member_main(void *arg)
{
	struct member *m = arg;
	struct team *t = m->team;
	struct worker *w = &m->worker;
	uint64_t closing = 0;
	bool begin;

	member_open(m);
	begin = meet(t, m->err == 0);
	if (begin) {
		warm_up(m);
		if (m == t->members)
			t->server_start = server_cpu(m);
		meet(t, true);
		w->replay_first = w->replay_end;
		w->replay_end = params_requests(t->phase->params);
		m->cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
		spread_out(w);
		worker_run(w, &m->measured, m->todo, t->until);
		note_done(m);
		closing = ticks_now();
	}
	cache_end(w);
	if (w->db)
		w->db->ops->close(w->db);
	if (begin)
		worker_note_cleanup(w, &m->measured, closing);
	atomic_fetch_add(&t->n_ended, 1);
	return NULL;
}

/* ---- the team ------------------------------------------------------------------ */

/* Operations of all threads; 0: until time is up. */
static uint64_t todo_of(const struct phase *ph)
{
	return ph->load ? params_load_count(ph->params)
			: ph->params->operation_count;
}

/* No more than there are operations. */
static unsigned threads_for(const struct phase *ph)
{
	uint64_t n = ph->params->threads * ph->params->processes;
	uint64_t todo = todo_of(ph);

	return (unsigned)(todo ? UTIL_MIN(n, todo) : n);
}

/* No more than there are threads. */
static unsigned processes_for(const struct phase *ph)
{
	return UTIL_MIN((unsigned)ph->params->processes, threads_for(ph));
}

static void warn_of_idle_threads(const struct phase *ph)
{
	unsigned n = threads_for(ph);

	if (n < ph->params->threads * ph->params->processes)
		log_warn("only %u of %llu threads are used: there are no more "
			 "operations",
			 n,
			 (unsigned long long)(ph->params->threads *
					      ph->params->processes));
}

static int member_init(struct team *t, unsigned i, uint64_t todo)
{
	const struct params *p = t->phase->params;
	struct member *m = &t->members[i];
	uint64_t rate = p->target;

	m->team = t;
	m->worker.index = i;
	/* In an open loop any free thread takes the next arrival. */
	m->todo = p->open_loop ? 0 : todo / t->n + (i < todo % t->n);
	rng_seed(&m->worker.gaps, p->seed, i + (1u << 17));
	m->worker.shared = &t->shared;
	/* Every phase draws its own numbers from the seed. */
	workload_thread_init(&m->worker.draw, &t->workload, p->seed,
			     i + (t->phase->load ? 1u << 16 : 0));
	if (rate && i == 0)
		arrivals_init(&t->shared.arrivals,
			      ticks_state.ticks_per_ns * 1e9 / (double)rate,
			      p->arrivals == ARRIVALS_POISSON);
	if (rate)
		m->worker.tick = ticks_state.ticks_per_ns * 1e9 * t->n /
				 (double)rate;
	return measure_init(&m->measured, p, t->phase->load);
}

static void init_meetings(struct team *t)
{
	pthread_mutexattr_t m;
	pthread_condattr_t c;

	pthread_mutexattr_init(&m);
	pthread_condattr_init(&c);
	if (t->processes > 1) {
		pthread_mutexattr_setpshared(&m, PTHREAD_PROCESS_SHARED);
		pthread_condattr_setpshared(&c, PTHREAD_PROCESS_SHARED);
	}
	pthread_mutex_init(&t->lock, &m);
	pthread_cond_init(&t->met, &c);
	pthread_mutexattr_destroy(&m);
	pthread_condattr_destroy(&c);
}

static int team_init(struct team *t, const struct phase *ph)
{
	uint64_t todo = todo_of(ph);
	int err;

	t->phase = ph;
	t->todo = todo;
	t->n = threads_for(ph);
	t->processes = processes_for(ph);
	warn_of_idle_threads(ph);
	init_meetings(t);
	t->shared.params = ph->params;
	t->shared.members = t->n;
	t->shared.workload = &t->workload;
	err = workload_init(&t->workload, ph->params, ph->load);
	if (err)
		return err;
	/* Workers have a field on its own cache line. */
	t->members = shared_new(t->n * sizeof(*t->members));
	t->partial = shared_new(t->processes * sizeof(*t->partial));
	t->pids = shared_new(t->processes * sizeof(*t->pids));
	if (!t->members || !t->partial || !t->pids)
		return err_set(FARKV_ENOMEM, "no memory for %u threads", t->n);
	for (unsigned i = 0; i < t->n && !err; i++)
		err = member_init(t, i, todo);
	return err;
}

static void team_fini(struct team *t, unsigned n)
{
	for (unsigned i = 0; t->members && i < n; i++) {
		/* Other processes free theirs. */
		if (t->processes == 1)
			worker_fini(&t->members[i].worker);
		measure_fini(&t->members[i].measured);
	}
	shared_free(t->members);
	shared_free(t->partial);
	shared_free(t->pids);
	workload_fini(&t->workload);
	/* A killed process may hold these; they end with the arena. */
	if (t->processes == 1) {
		pthread_cond_destroy(&t->met);
		pthread_mutex_destroy(&t->lock);
	}
}

static uint64_t team_done(void *arg)
{
	struct team *t = arg;
	uint64_t sum = 0;

	for (unsigned i = 0; i < t->n; i++)
		sum += atomic_load_explicit(&t->members[i].worker.done,
					    memory_order_relaxed);
	return sum;
}

static void team_snapshot(void *arg, struct measure *m)
{
	struct team *t = arg;

	for (unsigned i = 0; i < t->n; i++)
		measure_merge(m, &t->members[i].measured);
}

/*
 * If a process ends early, the others would wait at a meeting for ever: kill all; there is
 * no result.
 */
static bool a_process_died(struct team *t)
{
	int status;

	for (unsigned i = 0; i < t->processes; i++) {
		if (t->pids[i] <= 0 ||
		    waitpid(t->pids[i], &status, WNOHANG) != t->pids[i])
			continue;
		t->pids[i] = 0;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
			t->dead = true;
			return true;
		}
	}
	return false;
}

static void team_started(struct team *t, struct status *st, struct recorder *rec)
{
	/* This thread may have been delayed since the start. */
	status_start(st, t->start_ns);
	recorder_start(rec, t->start_ns);
}

/* Show and record progress until the last member has ended. */
static int team_watch(struct team *t, struct recorder *rec)
{
	const struct phase *ph = t->phase;
	const struct params *p = ph->params;
	struct status st = {
		.out = stderr,
		.mode = ph->status,
		.label = p->label,
		.title = ph->title,
		.interval_ns = p->status_interval * NS_PER_SEC,
		.todo = todo_of(ph),
		.max_ns = p->max_time * NS_PER_SEC,
		.source = {t, team_done, team_snapshot},
	};
	bool started = false;

	while (atomic_load(&t->n_ended) < t->n) {
		uint64_t now = ticks_clock_ns(), nap = NAP_MAX_NS;

		if (interrupted)
			atomic_store(&t->shared.stop, true);
		if (!started && atomic_load(&t->measuring)) {
			team_started(t, &st, rec);
			started = true;
		}
		if (started) {
			status_tick(&st, now);
			recorder_tick(rec, now);
			if (st.next_ns > now)
				nap = UTIL_MIN(nap, st.next_ns - now);
			if (rec->next_ns > now)
				nap = UTIL_MIN(nap, rec->next_ns - now);
		}
		if (t->processes > 1 && (t->dead || a_process_died(t)))
			break;
		clock_sleep_ns(nap);
	}
	/* The phase may have ended before the first look. */
	if (!started && atomic_load(&t->measuring)) {
		team_started(t, &st, rec);
		started = true;
	}
	if (started)
		status_end(&st, ticks_clock_ns());
	return recorder_end(rec, ticks_clock_ns());
}

/* Add up values of the same name. */
static void add_figure(void *arg, const char *name, double value)
{
	struct phase_result *r = arg;
	struct figure *f = &r->figures[r->n_figures];

	for (unsigned i = 0; i < r->n_figures; i++)
		if (!strcmp(r->figures[i].name, name)) {
			r->figures[i].value += (uint64_t)value;
			return;
		}
	if (r->n_figures == FIGURES_MAX) {
		log_warn("%s: left out; a store has at most %d figures", name,
			 FIGURES_MAX);
		return;
	}
	snprintf(f->name, sizeof(f->name), "%s", name);
	f->value = (uint64_t)value;
	r->n_figures++;
}

static void collect_figures(struct team *t, struct phase_result *r)
{
	struct db_store *store = t->phase->store;

	if (store->ops->figures)
		store->ops->figures(store, add_figure, r);
	if (store->ops->servers)
		r->n_served = store->ops->servers(store, r->served);
}

/* The members' result: the first error, or the sum of all. */
static int team_result(struct team *t, struct phase_result *out)
{
	struct phase_result r = {.interrupted = interrupted != 0};
	uint64_t end = t->start;

	for (unsigned i = 0; i < t->n; i++)
		if (t->members[i].err)
			return err_set(t->members[i].err, "%s",
				       t->members[i].why);
	for (unsigned i = 0; i < t->n; i++) {
		const struct member *m = &t->members[i];

		measure_merge(&r.m, &m->measured);
		r.warm_ops += m->warm_ops;
		r.cpu_ns += m->cpu_ns;
		end = UTIL_MAX(end, m->end);
	}
	if (t->broken || r.m.out_of_memory) {
		measure_fini(&r.m);
		return err_set(t->broken ? FARKV_ESYS : FARKV_ENOMEM,
			       t->broken ? "cannot start %llu threads"
					 : "no memory for the results of %llu "
					   "threads",
			       (unsigned long long)t->phase->params->threads);
	}
	r.ops = team_done(t);
	if (t->phase->load && !r.interrupted && !t->shared.failure[0] &&
	    r.ops < params_load_count(t->phase->params))
		log_warn("maxexecutiontime: time was up after %llu of %llu "
			 "records",
			 (unsigned long long)r.ops,
			 (unsigned long long)params_load_count(
				 t->phase->params));
	if (r.m.late_full)
		log_warn("openloop: %llu arrivals found %llu requests in flight "
			 "and were sent late; see queuedepth",
			 (unsigned long long)r.m.late_full,
			 (unsigned long long)t->phase->params->queue_depth);
	r.ns = ticks_span_ns(t->start, end);
	/* With several processes: the client threads alone. */
	if (t->processes == 1)
		r.cpu_ns = t->cpu_end - t->cpu_start;
	if (t->server_start && t->server_end > t->server_start)
		r.server_cpu_ns = t->server_end - t->server_start;
	snprintf(r.failure, sizeof(r.failure), "%s", t->shared.failure);
	if (t->processes == 1)
		collect_figures(t, &r);
	for (unsigned i = 0; t->processes > 1 && i < t->processes; i++)
		for (unsigned k = 0; k < t->partial[i].n_figures; k++)
			add_figure(&r, t->partial[i].figures[k].name,
				   (double)t->partial[i].figures[k].value);
	*out = r;
	return 0;
}

void phase_result_fini(struct phase_result *r)
{
	if (!r)
		return;
	measure_fini(&r->m);
	timeline_free(&r->timeline);
}

/* Start the threads of members from..upto-1; if one fails, nobody works. */
static int threads_start(struct team *t, unsigned from, unsigned upto)
{
	unsigned made = from;

	while (made < upto && pthread_create(&t->members[made].thread, NULL,
					     member_main,
					     &t->members[made]) == 0)
		t->members[made++].running = true;
	if (made < upto && t->processes == 1)
		team_shrink(t, made);
	return made < upto ? FARKV_ESYS : 0;
}

static void threads_join(struct team *t, unsigned from, unsigned upto)
{
	for (unsigned i = from; i < upto; i++)
		if (t->members[i].running)
			pthread_join(t->members[i].thread, NULL);
}

/* A process that runs its share of the members. */
static _Noreturn void process_main(struct team *t, unsigned number)
{
	unsigned from = t->n * number / t->processes;
	unsigned upto = t->n * (number + 1) / t->processes;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* A missing thread leaves the others waiting; the parent ends them. */
	if (threads_start(t, from, upto))
		_exit(1);
	threads_join(t, from, upto);
	collect_figures(t, &t->partial[number]);
	_exit(0);
}

static void processes_kill(struct team *t)
{
	for (unsigned i = 0; i < t->processes; i++)
		if (t->pids[i] > 0)
			kill(t->pids[i], SIGKILL);
}

/* processes_join() tells if one could not be started. */
static void processes_start(struct team *t)
{
	fflush(NULL);
	for (unsigned i = 0; i < t->processes; i++) {
		pid_t pid = fork();

		if (pid == 0)
			process_main(t, i);
		t->pids[i] = pid;
		t->dead = t->dead || pid < 0;
	}
	/* Later allocations are private. */
	shared_pause();
}

static int processes_join(struct team *t)
{
	int status;

	if (t->dead)
		processes_kill(t);
	for (unsigned i = 0; i < t->processes; i++)
		if (t->pids[i] > 0 &&
		    (waitpid(t->pids[i], &status, 0) != t->pids[i] ||
		     !WIFEXITED(status) || WEXITSTATUS(status)))
			t->dead = true;
	return t->dead ? err_set(FARKV_ESYS,
				 "processes: one of %u could not be started, or "
				 "was ended before its work was done",
				 t->processes)
		       : 0;
}

static int team_run(struct team *t, struct phase_result *out)
{
	struct timeline line = {.v = NULL};
	struct recorder rec = {
		.params = t->phase->params,
		.tag = t->phase->tag,
		.source = {t, team_done, team_snapshot},
		.timeline = t->phase->timeline ? &line : NULL,
	};
	int err = recorder_open(&rec), recorded;

	if (err)
		return err;
	if (t->processes > 1)
		processes_start(t);
	else
		err = threads_start(t, 0, t->n);
	recorded = team_watch(t, &rec);
	if (t->processes > 1)
		err = processes_join(t);
	else
		threads_join(t, 0, t->n);
	if (!err)
		err = team_result(t, out);
	if (err) {
		timeline_free(&line);
		return err;
	}
	out->timeline = line;
	if (recorded) /* keep the text of the first error */
		log_error("%s", rec.why);
	out->unrecorded = recorded != 0;
	return 0;
}

/* Space for every histogram of every thread, most of it never touched. */
static size_t arena_bytes(const struct params *p)
{
	size_t member = sizeof(struct member) +
			(size_t)CLOCK_KINDS * SERIES_COUNT * SLOT_COUNT *
				sizeof(struct hist);

	return (1 + p->threads * p->processes) * member + 2 * COUNTER_WINDOW +
	       workload_ages_bytes(p);
}

int phase_run(const struct phase *ph, struct phase_result *out)
{
	struct team *t;
	unsigned all;
	int err = 0;

	if (processes_for(ph) > 1)
		err = shared_begin(arena_bytes(ph->params));
	if (err)
		return err;
	t = shared_new(sizeof(*t));
	if (!t) {
		shared_end();
		return err_set(FARKV_ENOMEM, "no memory for a phase");
	}
	err = team_init(t, ph);
	all = t->n;
	if (!err)
		err = team_run(t, out);
	team_fini(t, all);
	shared_free(t);
	shared_end();
	return err;
}
