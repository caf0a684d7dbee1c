/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers of a cluster with followers that are killed, one after the other, while clients write.
 *
 *   cluster_kills --map URL --dir DIR [--kills N] [--seed N]
 *
 * The cluster of that URL is new and has --replicas 1. $KVSERVER is started for each of its
 * servers, with logs in DIR; $KVCLI rebalances after each kill. Clients put numbered values, and
 * call farkv_wait_followers() now and then. After each takeover
 *  - each key has the value that the last successful wait covered, or a newer one;
 *  - keys of the other servers have the value that was put last.
 * Prints how long the lost server's keys did not answer, and how many writes were lost.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farkv.h>

#include "bench/gen/rng.h"
#include "cluster_map.h"
#include "common/base/clock.h"

#define WRITERS 3u
#define KEYS 200u /* of each */
#define RING 1024u /* times of the last puts of a key */
#define VALUE_MAX 1024u
#define OP_TIMEOUT_MS 10000u
#define LIMIT_NS (60 * NS_PER_SEC) /* for what takes seconds */
#define KILLS_MAX 1000u

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELEASE)

/* A key's numbers: the last one tried, put, and covered by a wait. Its writer's; main's while that
 * pauses. */
struct record {
	uint64_t tried, put, waited;
	uint64_t given_up; /* the last number that no wait covers, because one has failed since */
	uint64_t put_ns[RING]; /* when number n was put: [n % RING] */
};

struct writer {
	struct record key[KEYS];
	uint64_t waits, waits_failed, puts, puts_failed;
	uint32_t paused;
	pid_t pid;
};

struct board {
	uint32_t pause, stop;
	pid_t victim; /* the writer whose wait succeeds next kills it; 0: nobody */
	struct writer writer[WRITERS];
};

struct server {
	char name[CLUSTERMAP_NAME_MAX + 1], address[CLUSTERMAP_ADDRESS_MAX + 1];
	pid_t pid;
};

static struct options {
	const char *map, *dir;
	uint64_t kills, seed;
} options = {.kills = 5};

static struct board *board;
static struct server server[CLUSTERMAP_SERVERS_MAX];
static uint32_t n_servers;
static char addresses[4096];
static struct rng rng;

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *fmt, ...)
{
	va_list ap;

	fputs("cluster_kills: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	_exit(1);
}

static void nap(unsigned ms)
{
	usleep(ms * 1000);
}

static struct farkv *open_store(void)
{
	uint64_t end = clock_now_ns() + LIMIT_NS;
	struct farkv_options o;
	struct farkv *kv;

	farkv_options_init(&o);
	o.op_timeout_ms = OP_TIMEOUT_MS;
	while (farkv_open(addresses, &o, &kv)) {
		if (clock_now_ns() > end)
			die("open: %s", farkv_errdetail());
		nap(20);
	}
	return kv;
}

/* ---- keys and values --------------------------------------------------------------------------
 */

struct value {
	uint64_t number;
	uint32_t writer, key;
	uint8_t rest[VALUE_MAX];
};

static size_t key_name(unsigned writer, unsigned key, char *out)
{
	return (size_t)sprintf(out, "writer%u-key%u", writer, key);
}

static size_t make_value(unsigned writer, unsigned key, uint64_t number, struct value *v)
{
	size_t rest = number * 131 % VALUE_MAX;

	*v = (struct value){.number = number, .writer = writer, .key = key};
	memset(v->rest, (int)number, rest);
	return sizeof(*v) - VALUE_MAX + rest;
}

/* The number of the key's value, 0 without one; or an error. */
static int read_number(struct farkv *kv, unsigned writer, unsigned key, uint64_t *number_out)
{
	struct farkv_value v;
	struct value want;
	char name[32];
	size_t len = key_name(writer, key, name);
	int err = farkv_get(kv, name, len, &v);

	*number_out = 0;
	if (err)
		return err == FARKV_ENOTFOUND ? 0 : err;
	if (v.len < 8)
		die("%s: a value of %zu bytes", name, v.len);
	memcpy(number_out, v.data, 8);
	if (make_value(writer, key, *number_out, &want) != v.len || memcmp(&want, v.data, v.len) != 0)
		die("%s: the value %" PRIu64 " is not what was put", name, *number_out);
	return 0;
}

/* ---- writers -----------------------------------------------------------------------------------
 */

static void write_one(struct farkv *kv, unsigned me, struct rng *r)
{
	struct writer *w = &board->writer[me];
	unsigned key = (unsigned)rng_below(r, KEYS);
	struct record *k = &w->key[key];
	struct value v;
	char name[32];
	size_t len = key_name(me, key, name);
	int err;

	k->tried++;
	err = farkv_put(kv, name, len, &v, make_value(me, key, k->tried, &v));
	if (err == 0) {
		k->put = k->tried;
		k->put_ns[k->put % RING] = clock_now_ns();
		w->puts++;
	} else {
		w->puts_failed++;
		nap(1);
	}
}

/* What it covers was put before it began. */
static void wait_followers(struct farkv *kv, struct writer *w)
{
	bool well = farkv_wait_followers(kv, OP_TIMEOUT_MS) == 0;

	w->waits += well;
	w->waits_failed += !well;
	for (unsigned i = 0; i < KEYS; i++) {
		struct record *k = &w->key[i];

		/* What was put before a wait that failed may be lost; the next one counts from then
		 * on. */
		if (!well)
			k->given_up = k->put;
		else if (k->put > k->given_up)
			k->waited = k->put;
	}
}

/* At the last moment: what this wait has covered must be there afterwards. */
static void kill_victim(struct farkv *kv, struct writer *w)
{
	uint64_t before = w->waits;
	pid_t pid;

	wait_followers(kv, w);
	if (w->waits == before)
		return;
	pid = __atomic_exchange_n(&board->victim, 0, __ATOMIC_SEQ_CST);
	if (pid)
		kill(pid, SIGKILL);
}

static void __attribute__((noreturn)) writer_main(unsigned me)
{
	struct writer *w = &board->writer[me];
	struct farkv *kv = open_store();
	struct rng r;

	rng_seed(&r, options.seed, me);
	while (!LOAD(board->stop)) {
		if (LOAD(board->pause)) {
			/* If this is the first one and succeeds, nothing of the lost server may be
			 * missing. */
			wait_followers(kv, w);
			STORE(w->paused, 1);
			while (LOAD(board->pause))
				nap(1);
			STORE(w->paused, 0);
		}
		write_one(kv, me, &r);
		if (LOAD(board->victim) && rng_below(&r, 10) == 0)
			kill_victim(kv, w);
		if (rng_below(&r, 500) == 0)
			wait_followers(kv, w);
		usleep(200);
	}
	farkv_close(kv);
	_exit(0);
}

static void start_writers(void)
{
	for (unsigned i = 0; i < WRITERS; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork: %s", strerror(errno));
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			writer_main(i);
		}
		board->writer[i].pid = pid; /* shared: not by the child */
	}
}

static void pause_writers(void)
{
	uint64_t end = clock_now_ns() + LIMIT_NS;

	STORE(board->pause, 1);
	for (unsigned i = 0; i < WRITERS; i++)
		while (!LOAD(board->writer[i].paused)) {
			if (clock_now_ns() > end || waitpid(board->writer[i].pid, NULL, WNOHANG) != 0)
				die("writer %u does not go on", i);
			nap(1);
		}
}

static void resume_writers(void)
{
	STORE(board->pause, 0);
	for (unsigned i = 0; i < WRITERS; i++)
		while (LOAD(board->writer[i].paused))
			nap(1);
}

/* ---- servers ------------------------------------------------------------------------------------
 */

static void start_server(struct server *s)
{
	const char *program = getenv("KVSERVER"), *path = s->address + strlen("shm://");
	char log[512];
	int fd;

	snprintf(log, sizeof(log), "%s/%s.log", options.dir, s->name);
	s->pid = fork();
	if (s->pid < 0)
		die("fork: %s", strerror(errno));
	if (s->pid > 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (!program || fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
		die("%s: %s", log, strerror(errno));
	execl(program, program, "-s", path, "-m", "64m", "--cluster", options.map, "--node-name", s->name,
	      (char *)NULL);
	die("%s: %s", program, strerror(errno));
}

static void await_registered(uint32_t i)
{
	uint64_t end = clock_now_ns() + LIMIT_NS, living;
	struct clustermap *m;

	for (;;) {
		m = cluster_map_read(options.map, &living);
		free(m);
		if (m && (living >> i & 1))
			return;
		if (clock_now_ns() > end)
			die("server %s does not register", server[i].name);
		nap(50);
	}
}

static void rebalance(void)
{
	uint64_t end = clock_now_ns() + LIMIT_NS;
	char cmd[1024];

	snprintf(cmd, sizeof(cmd), "'%s' -q cluster rebalance '%s'", getenv("KVCLI"), options.map);
	/* It ends with 2 if another server was lost meanwhile. */
	while (system(cmd))
		if (clock_now_ns() > end)
			die("kvcli cluster rebalance fails");
}

/* Each server with partitions is followed. */
static void await_followers(struct farkv *kv)
{
	uint64_t end = clock_now_ns() + LIMIT_NS;

	while (farkv_wait_followers(kv, 1000))
		if (clock_now_ns() > end)
			die("no followers: %s", farkv_errdetail());
}

/* All have their share, and a follower each. */
static void balance(struct farkv *kv)
{
	for (uint32_t i = 0; i < n_servers; i++)
		await_registered(i);
	rebalance();
	await_followers(kv);
}

static void start_servers(void)
{
	struct clustermap *m = cluster_map_read(options.map, NULL);

	if (!m)
		_exit(1);
	n_servers = m->n_servers;
	for (uint32_t i = 0; i < n_servers; i++) {
		strcpy(server[i].name, m->server[i].name);
		strcpy(server[i].address, m->server[i].address);
		snprintf(addresses + strlen(addresses), sizeof(addresses) - strlen(addresses), "%s%s",
			 i ? "," : "", server[i].address);
		start_server(&server[i]);
	}
	free(m);
}

static void stop_all(void)
{
	int status;

	STORE(board->stop, 1);
	for (unsigned i = 0; i < WRITERS; i++)
		if (waitpid(board->writer[i].pid, &status, 0) < 0)
			die("writer %u: %s", i, strerror(errno));
		else if (status)
			die("writer %u has ended with status %#x", i, (unsigned)status);
	for (uint32_t i = 0; i < n_servers; i++) {
		kill(server[i].pid, SIGTERM);
		/* One that was started again just now may not be registered yet: then it ends
		 * with 1. */
		if (waitpid(server[i].pid, &status, 0) < 0 || !WIFEXITED(status) ||
		    WEXITSTATUS(status) > 1)
			die("server %s has ended with status %#x", server[i].name, (unsigned)status);
	}
}

/* ---- a kill
 * -------------------------------------------------------------------------------------- */

struct outcome {
	uint64_t others, others_failed; /* reads of other servers' keys until the takeover */
	char why[200];
	bool spoilt; /* another server was lost, too: nothing can be said of what was lost */
	uint64_t away_ms; /* the keys of the server did not answer */
	uint64_t lost, oldest_ms; /* writes, and the age of the oldest of them at the kill */
	uint64_t keys;
};

static bool of_server(const struct clustermap *m, unsigned writer, unsigned key, uint32_t i)
{
	char name[256] = ""; /* room for all that the compiler thinks a hash may read */

	return clustermap_owner(m, name, key_name(writer, key, name)) == i;
}

static uint64_t epoch_of(struct farkv *kv)
{
	struct farkv_server s = {.size = sizeof(s)};

	return farkv_server(kv, 0, &s) ? 0 : s.epoch;
}

/* Read a key of another server than `i`. */
static void read_other(struct farkv *kv, const struct clustermap *before, uint32_t i, struct outcome *o)
{
	unsigned key = (unsigned)rng_below(&rng, KEYS);
	uint64_t number;

	if (of_server(before, 0, key, i))
		return;
	o->others++;
	if (read_number(kv, 0, key, &number) && o->others_failed++ == 0)
		snprintf(o->why, sizeof(o->why), "%s", farkv_errdetail());
}

/* Until the server's keys answer by a newer map; `key` is one of them. */
static void await_takeover(struct farkv *kv, const struct clustermap *before, uint32_t i, unsigned key,
			   struct outcome *o)
{
	uint64_t end = clock_now_ns() + LIMIT_NS, number;
	int err;

	do {
		read_other(kv, before, i, o);
		err = read_number(kv, 0, key, &number);
		if (clock_now_ns() > end)
			die("nobody took over from server %s: %s", server[i].name,
			    err ? farkv_errdetail() : "it seems to answer");
		if (err || epoch_of(kv) <= before->epoch)
			nap(1);
	} while (err || epoch_of(kv) <= before->epoch);
}

/* On a busy machine ZooKeeper may give up a server that lives. */
static bool others_lost(const struct clustermap *before, uint32_t i)
{
	struct clustermap *now = cluster_map_read(options.map, NULL);
	bool any = false;

	if (!now)
		_exit(1);
	for (uint32_t k = 0; k < now->n_servers; k++)
		any |= k != i && now->server[k].emptied > before->epoch;
	free(now);
	return any;
}

/* Count from what is there. */
static void forget_key(struct farkv *kv, unsigned writer, unsigned key)
{
	struct record *k = &board->writer[writer].key[key];

	if (read_number(kv, writer, key, &k->put))
		die("writer%u-key%u: %s", writer, key, farkv_errdetail());
	k->waited = k->put;
}

static void check_key(struct farkv *kv, unsigned writer, unsigned key, uint64_t killed_ns, bool lost,
		      struct outcome *o)
{
	struct record *k = &board->writer[writer].key[key];
	uint64_t number, first, age;
	int err = read_number(kv, writer, key, &number);

	if (err)
		die("writer%u-key%u after a takeover: %s", writer, key, farkv_errdetail());
	if (number > k->tried)
		die("writer%u-key%u: %" PRIu64 " was never put", writer, key, number);
	if (number < k->waited)
		die("writer%u-key%u: %" PRIu64 ", but a wait has covered %" PRIu64 " (last put %" PRIu64
		    ", server %s)", writer, key, number, k->waited, k->put, lost ? "lost" : "not lost");
	if (!lost && number < k->put)
		die("writer%u-key%u: %" PRIu64 ", but %" PRIu64 " was put, and its server lives", writer, key,
		    number, k->put);
	o->keys += lost;
	if (number < k->put) {
		o->lost += k->put - number;
		first = k->put - number < RING ? number + 1 : k->put - RING + 1;
		age = killed_ns - k->put_ns[first % RING];
		if ((int64_t)age > 0 && age / NS_PER_MS > o->oldest_ms)
			o->oldest_ms = age / NS_PER_MS;
	}
	k->put = number;
}

static struct outcome kill_one(struct farkv *kv, uint32_t i)
{
	struct clustermap *before = cluster_map_read(options.map, NULL);
	struct outcome o = {0};
	unsigned any = 0;
	uint64_t at;

	while (before && any < KEYS && !of_server(before, 0, any, i))
		any++;
	if (!before || any == KEYS)
		die("server %s has no keys to lose", server[i].name);
	nap(200 + (unsigned)rng_below(&rng, 500));
	if (rng_below(&rng, 2))
		STORE(board->victim, server[i].pid);
	else
		kill(server[i].pid, SIGKILL);
	waitpid(server[i].pid, NULL, 0);
	at = clock_now_ns();
	STORE(board->pause, 1);
	await_takeover(kv, before, i, any, &o);
	o.away_ms = (clock_now_ns() - at) / NS_PER_MS;
	pause_writers();
	o.spoilt = others_lost(before, i);
	if (!o.spoilt && o.others_failed)
		die("%" PRIu64 " of %" PRIu64 " reads of other servers' keys failed, the first: %s",
		    o.others_failed, o.others, o.why);
	for (unsigned w = 0; w < WRITERS; w++)
		for (unsigned key = 0; key < KEYS; key++)
			if (o.spoilt)
				forget_key(kv, w, key);
			else
				check_key(kv, w, key, at, of_server(before, w, key, i), &o);
	resume_writers();
	free(before);
	return o;
}

/* ---- figures
 * --------------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void say(const char *what, uint64_t *v, uint64_t n, const char *unit)
{
	qsort(v, n, sizeof(*v), by_number);
	printf("%s: median %" PRIu64 "%s, most %" PRIu64 "%s\n", what, v[n / 2], unit, v[n - 1], unit);
}

static void say_writers(void)
{
	uint64_t puts = 0, failed = 0, waits = 0, waits_failed = 0;

	for (unsigned i = 0; i < WRITERS; i++) {
		puts += board->writer[i].puts;
		failed += board->writer[i].puts_failed;
		waits += board->writer[i].waits;
		waits_failed += board->writer[i].waits_failed;
	}
	printf("%" PRIu64 " puts, %" PRIu64 " failed; %" PRIu64 " waits, %" PRIu64 " failed\n", puts, failed,
	       waits, waits_failed);
	if (!waits)
		die("no wait has succeeded");
}

static void say_kill(uint64_t k, uint32_t i, const struct outcome *o)
{
	if (o->spoilt)
		printf("kill %" PRIu64 ": server %s; another one was lost, too\n", k, server[i].name);
	else
		printf("kill %" PRIu64 ": server %s with %" PRIu64 " keys; they answered after %" PRIu64
		       " ms; %" PRIu64 " writes lost, the oldest %" PRIu64 " ms old\n", k, server[i].name,
		       o->keys, o->away_ms, o->lost, o->oldest_ms);
	fflush(stdout);
}

static void run(void)
{
	static uint64_t away[KILLS_MAX], lost[KILLS_MAX], oldest[KILLS_MAX];
	struct farkv *kv = open_store();
	uint64_t n = 0;

	await_followers(kv);
	start_writers();
	for (uint64_t k = 1; k <= options.kills; k++) {
		uint32_t i = (uint32_t)rng_below(&rng, n_servers);
		struct outcome o;

		balance(kv);
		o = kill_one(kv, i);
		say_kill(k, i, &o);
		if (!o.spoilt) {
			away[n] = o.away_ms;
			lost[n] = o.lost;
			oldest[n++] = o.oldest_ms;
		}
		start_server(&server[i]);
	}
	if (!n)
		die("each time another server was lost, too");
	say("keys of a killed server answer", away, n, " ms");
	say("lost writes", lost, n, "");
	say("age of the oldest", oldest, n, " ms");
	say_writers();
	farkv_close(kv);
	stop_all();
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 0);

	if (!*text || *end)
		die("'%s' is not a number", text);
	return n;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {{"map", required_argument, NULL, 'm'},
					      {"dir", required_argument, NULL, 'd'},
					      {"kills", required_argument, NULL, 'k'},
					      {"seed", required_argument, NULL, 's'},
					      {NULL, 0, NULL, 0}};
	int c;

	options.seed = clock_now_ns();
	while ((c = getopt_long(argc, argv, "", known, NULL)) >= 0)
		if (c == 'm')
			options.map = optarg;
		else if (c == 'd')
			options.dir = optarg;
		else if (c == 'k')
			options.kills = number(optarg);
		else if (c == 's')
			options.seed = number(optarg);
		else
			return 2;
	if (!options.map || !options.dir || !options.kills || options.kills > KILLS_MAX || optind < argc)
		die("usage: cluster_kills --map URL --dir DIR [--kills N] [--seed N]");
	printf("seed %" PRIu64 "\n", options.seed);
	rng_seed(&rng, options.seed, WRITERS);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		die("%s", strerror(errno));
	start_servers();
	run();
	return 0;
}
