/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients at work while they, and the server, are stopped and killed, in rounds;
 * after each the history and the store are checked.
 *
 *   stress [--address ADDRESS] [--seed N] [--seconds N | --operations N] [--clients N]
 *          [--memory SIZE]
 *
 * Without an address it starts a server of its own, which it stops and kills, too.
 * In make check it takes some seconds, in make check-lab LAB_SECONDS (60); with a number
 * of operations (LAB_OPERATIONS) until that many are recorded and checked as well. A
 * round that fails leaves its history in a file, for tests/lab/lincheck.
 */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/util.h"
#include "common/region/layout.h"
#include "tests/rig/e2e.h"
#include "linear.h"
#include "stress.h"
#include "tests/rig/marks.h"
#include "tests/rig/shm_folder.h"

#define ROUND_MS 2500u
/* By RDMA a client takes long to begin, at least in a guest. */
#define REMOTE_ROUND_MS 12000u
#define LONG_ROUND_MS 40000u
/* Operations in a second, of a guest on a busy machine. */
#define SLOWEST 100.0
#define BALLAST 2500u /* of a subtable's 4096 slots */
#define ROUNDS_PER_SERVER 3u
/* Every other server has too little memory; by RDMA all of it is locked. */
#define MEMORY "512m"
#define LITTLE_MEMORY "24m"
#define REMOTE_MEMORY "64m"
/*
 * By how much a writer by RDMA may be wrong about CLOCK: one step at most too early, and too late
 * by the age of its sample, if the server was stopped meanwhile.
 */
#define SAMPLE_EARLY_MS (REGION_CLOCK_STEP_MS + 2) /* and for rounding */
#define SAMPLE_LATE_MS 1002u
/* The server's grace period: shorter than many stops of a client. */
#define GRACE_MS "20"

static struct options {
	const char *address, *memory;
	uint64_t seed, operations;
	unsigned seconds, clients;
} options;

static struct stress_board *board;
static struct history_op *notes;
static struct real_server srv;
static void *clock_page; /* of srv's region, or NULL */

struct sums {
	uint64_t rounds, ops, unknown, seconds_ns, check_ns;
	uint64_t splits, compactions;
	struct stress_tally harm;
};

/* ---- the store ------------------------------------------------------------- */

/* Keys that nobody touches, so that a slow run's few lead to a split. */
static void put_ballast(void)
{
	struct farkv *kv = e2e_open(srv.path, 20000);
	uint8_t key[STRESS_KEY_MAX];

	for (uint32_t i = 0; i < BALLAST; i++)
		ck_assert_int_eq(farkv_put(kv, key, stress_key(0, i, key), "",
					   0), 0);
	farkv_close(kv);
}

static const char *server_args[] = {"-m", NULL, "--grace-ms", GRACE_MS,
				    "--drain-ms", "3000", NULL};

/* Its region outlives it. */
static char memory_file[80];
static const char *adopted_args[] = {"-m", NULL, "--grace-ms", GRACE_MS, "--drain-ms", "3000",
				     "--memory-file", memory_file, NULL};

static void forget_memory_file(void)
{
	char cmd[512];

	snprintf(cmd, sizeof(cmd), "rm -rf %s %s.data %s.sessions", memory_file, memory_file,
		 memory_file);
	ck_assert_int_eq(system(cmd), 0);
}

static const char *memory(uint64_t n)
{
	if (options.memory)
		return options.memory;
	if (real_server_is_remote())
		return REMOTE_MEMORY;
	return n % 2 ? LITTLE_MEMORY : MEMORY;
}

static bool is_meta(const char *link)
{
	return strstr(link, "farkv-meta") || (memory_file[0] && !strcmp(link, memory_file));
}

/* Map CLOCK of the server's region, whose file may have no name. */
static void *map_clock(void)
{
	char dir[64], path[sizeof(dir) + 257], to[64];
	void *page = MAP_FAILED;
	struct dirent *e;
	DIR *d;

	snprintf(dir, sizeof(dir), "/proc/%d/fd", (int)srv.pid);
	d = opendir(dir);
	ck_assert_ptr_nonnull(d);
	while (page == MAP_FAILED && (e = readdir(d))) {
		ssize_t n;
		int fd;

		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		n = readlink(path, to, sizeof(to) - 1);
		if (n < 0 || (to[n] = '\0', !is_meta(to)))
			continue;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		ck_assert_int_ge(fd, 0);
		page = mmap(NULL, REGION_DIR_OFF, PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
	}
	closedir(d);
	ck_assert_ptr_ne(page, MAP_FAILED);
	return page;
}

static void use_clock(void)
{
	clock_page = map_clock();
	recorder_use_clock((uint64_t *)(void *)((uint8_t *)clock_page + REGION_CLOCK_OFF));
}

static void use_clock_no_more(void)
{
	if (clock_page)
		munmap(clock_page, REGION_DIR_OFF);
	clock_page = NULL;
	recorder_use_clock(NULL);
}

/* The n-th server, or the one at the address. */
static void serve(uint64_t n)
{
	server_args[1] = adopted_args[1] = memory(n);
	if (options.address) {
		memset(&srv, 0, sizeof(srv));
		snprintf(srv.path, sizeof(srv.path), "%s", options.address);
	} else {
		real_server_init(&srv, board->plan.server_args);
		if (real_server_is_remote())
			put_ballast();
		if (board->plan.dated)
			use_clock();
	}
	snprintf(board->address, sizeof(board->address), "%s", srv.path);
}

static void serve_no_more(void)
{
	use_clock_no_more();
	if (!options.address)
		real_server_fini(&srv);
	if (board->plan.adopt_server)
		forget_memory_file();
}

static struct sums server_sums(void)
{
	static const char *const names[] = {"splits", "compactions",
					    "protocol_errors"};
	uint64_t v[3];

	scale_stats(&srv, names, v, 3);
	ck_assert_uint_eq(v[2], 0);
	return (struct sums){.splits = v[0], .compactions = v[1]};
}

/* ---- after a round --------------------------------------------------------- */

/* Nobody raced for keys from board->race on. */
static uint32_t key_after(uint32_t key)
{
	if (board->race < STRESS_RACES && key == STRESS_HOT + board->race)
		return STRESS_COLD;
	return key + 1;
}

/* Read each key's value, and delete it. */
static void sweep_keys(struct farkv *kv, struct history *h)
{
	static uint64_t count[STRESS_COUNTS];
	uint32_t cold = board->cold, client = board->clients++;
	uint8_t key[STRESS_KEY_MAX];

	cold = cold < STRESS_COLD_MAX ? cold : STRESS_COLD_MAX;
	for (uint32_t i = 0; i < STRESS_COLD + cold; i = key_after(i)) {
		struct history_op op = {.client = client, .key = i,
					.kind = HISTORY_GET};
		size_t len = stress_key(board->round, i, key);
		struct farkv_value v;
		bool whole = true;

		op.clock_before = recorder_clock();
		op.invoked = recorder_now();
		op.result = stress_result(farkv_get(kv, key, len, &v), count);
		op.responded = recorder_now();
		op.clock_after = recorder_clock();
		if (op.result == HISTORY_OK) {
			op.value = stress_value_id(v.data, v.len, &whole);
			op.version = v.version;
		}
		history_add(h, &op);
		ck_assert_msg(whole, "key %u of round %u, at the end", i,
			      board->round);
		if (op.result != HISTORY_OK)
			continue;
		op = (struct history_op){.client = client, .key = i,
					 .kind = HISTORY_DELETE,
					 .invoked = recorder_now()};
		op.result = stress_result(farkv_delete(kv, key, len), count);
		op.responded = recorder_now();
		history_add(h, &op);
	}
	for (unsigned i = 0; i < STRESS_COUNTS; i++)
		ck_assert_uint_eq(count[i], 0);
}

static void gather(struct history *h)
{
	for (unsigned i = 0; i < board->plan.clients; i++) {
		const struct recorder *r = &board->place[i].rec;
		struct history part = {.op = r->op, .n = r->n};

		history_join(h, &part);
	}
}

static void keep_history(const struct history *h)
{
	const char *dir = getenv("TMPDIR");
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/stress-%" PRIu64 "-%u.history",
		 dir ? dir : "/tmp", options.seed, board->round);
	f = fopen(path, "w");
	if (f && history_write(h, f) == 0)
		printf("  the history is in %s\n", path);
	else
		perror(path);
	if (f)
		fclose(f);
}

static void judge(const struct history *h)
{
	struct linear_report report;
	bool versions;

	linear_check(h, 0, &report);
	versions = history_versions(h, stdout) == 0;
	if (report.verdict == LINEAR_YES && versions)
		return;
	linear_print(&report, stdout);
	keep_history(h);
	fflush(stdout);
	ck_abort_msg("round %u with seed %" PRIu64 " is not right",
		     board->round, options.seed);
}

static uint64_t counted(enum stress_count what)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < board->plan.clients; i++)
		sum += board->place[i].count[what];
	return sum;
}

static uint64_t count_unknown(const struct history *h)
{
	uint64_t n = 0;

	for (size_t i = 0; i < h->n; i++)
		n += h->op[i].result == HISTORY_UNKNOWN;
	return n;
}

/* ---- a round --------------------------------------------------------------- */

static void reset_board(void)
{
	board->stop = 0;
	board->cold = 0;
	board->again = 0;
	board->race = 0;
	memset(board->arrived, 0, sizeof(board->arrived));
	board->round++;
	for (unsigned i = 0; i < board->plan.clients; i++) {
		struct stress_place *p = &board->place[i];

		recorder_init(&p->rec, notes + i * board->plan.room,
			      board->plan.room);
		memset(p->count, 0, sizeof(p->count));
		memset(p->together, 0, sizeof(p->together));
	}
}

static void say_round(const struct history *h, const struct sums *r)
{
	double s = (double)r->seconds_ns / 1e9;

	printf("  round %u: %zu operations recorded and checked on %u keys, %"
	       PRIu64 " unknown, %" PRIu64 " clients killed, %" PRIu64
	       " stopped, server %s %" PRIu64 ", %" PRIu64 " splits, %" PRIu64
	       " compactions, %" PRIu64 " no space, %" PRIu64 " timed out, %"
	       PRIu64 " disconnected; %.0f k/s recorded, %.1f M/s checked\n",
	       board->round, h->n, board->cold + board->race + STRESS_HOT, r->unknown,
	       r->harm.kills, r->harm.stops,
	       r->harm.server_kills ? "killed" : "stopped",
	       r->harm.server_kills ? r->harm.server_kills
				    : r->harm.server_stops,
	       r->splits, r->compactions, counted(STRESS_NO_SPACE),
	       counted(STRESS_TIMED_OUT), counted(STRESS_DISCONNECTED),
	       (double)h->n / s / 1e3,
	       (double)h->n / (double)r->check_ns * 1e3);
	fflush(stdout);
}

static void add_up(struct sums *sums, const struct sums *r)
{
	sums->rounds++;
	sums->ops += r->ops;
	sums->unknown += r->unknown;
	sums->splits += r->splits;
	sums->compactions += r->compactions;
	sums->harm.kills += r->harm.kills;
	sums->harm.stops += r->harm.stops;
	sums->harm.server_stops += r->harm.server_stops;
	sums->harm.server_kills += r->harm.server_kills;
}

/* On one host, with a live server, no outcome is unknown. */
static void expect_clarity(void)
{
	if (options.address || real_server_is_remote() ||
	    board->plan.kill_server)
		return;
	ck_assert_uint_eq(counted(STRESS_MAYBE), 0);
	ck_assert_uint_eq(counted(STRESS_DISCONNECTED), 0);
}

static void round_of(struct sums *sums, uint64_t *random)
{
	struct sums before = server_sums(), r;
	struct stress_tally harm = {0};
	struct history h = {0};
	uint64_t begin;

	reset_board();
	begin = recorder_now();
	stress_harm(board, &srv, random, &harm);
	r = server_sums();
	if (!board->plan.kill_server) {
		struct farkv *kv = e2e_open(srv.path, 20000);

		/* A server that was adopted has counted from 0. */
		r.splits -= UTIL_MIN(before.splits, r.splits);
		r.compactions -= UTIL_MIN(before.compactions, r.compactions);
		sweep_keys(kv, &h);
		farkv_close(kv);
	}
	r.seconds_ns = recorder_now() - begin;
	if (options.address)
		scale_fsck(&srv, "after a round");
	else
		scale_fsck_swept(&srv, "after a round");
	gather(&h);
	r.ops = h.n;
	r.unknown = count_unknown(&h);
	r.harm = harm;
	begin = recorder_now();
	if (real_server_is_remote())
		history_expire(&h, board->clients++, SAMPLE_EARLY_MS, SAMPLE_LATE_MS);
	else
		history_expire(&h, board->clients++, 0, 0);
	judge(&h);
	r.check_ns = recorder_now() - begin;
	say_round(&h, &r);
	expect_clarity();
	add_up(sums, &r);
	history_free(&h);
}

/* Until that share of the time is over, and more than `ops` are done. */
static struct sums rounds(unsigned percent, uint64_t ops)
{
	uint64_t end = options.seconds * percent * UINT64_C(10000000) +
		       recorder_now();
	uint64_t random = options.seed;
	struct sums sums = {0};

	do {
		if (sums.rounds % ROUNDS_PER_SERVER == 0) {
			if (sums.rounds)
				serve_no_more();
			serve(sums.rounds / ROUNDS_PER_SERVER);
		}
		round_of(&sums, &random);
	} while (sums.ops <= ops || recorder_now() < end);
	serve_no_more();
	printf("  seed %" PRIu64 ": %" PRIu64 " operations in %" PRIu64
	       " rounds, %" PRIu64 " unknown, all in order\n", options.seed,
	       sums.ops, sums.rounds, sums.unknown);
	return sums;
}

/* ---- the tests ------------------------------------------------------------- */

static void plan(bool kill_server)
{
	bool remote = options.address || real_server_is_remote();
	unsigned share = options.seconds * (remote ? 500 : 250);
	size_t bytes;

	board = scale_shared(sizeof(*board));
	board->plan = (struct stress_plan){
		.server_args = server_args, .seed = options.seed,
		.clients = options.clients,
		.round_ms = remote ? REMOTE_ROUND_MS : ROUND_MS,
		.harm_ms = remote ? 500 : 30, .stop_clients = true,
		.kill_clients = !kill_server, .stop_server = !kill_server,
		.kill_server = kill_server,
		.dated = !kill_server && !options.address,
		.op_timeout_ms = kill_server ? 2000 : 20000,
		.room = UINT64_C(1) << 21};
	if (kill_server)
		board->plan.round_ms = remote ? 4000 : 1000;
	else if (options.operations)
		board->plan.round_ms = share = LONG_ROUND_MS;
	if (share < board->plan.round_ms)
		board->plan.round_ms = share;
	bytes = board->plan.clients * board->plan.room * sizeof(*notes);
	notes = scale_shared(bytes);
}

START_TEST(clients_stopped_and_killed_stay_linearizable)
{
	struct sums s;

	plan(false);
	s = rounds(80, UTIL_MAX(options.operations, 1000u));
	ck_assert_uint_gt(s.harm.stops + s.harm.kills, 0);
	/* Sanitizers on a busy machine may not get that far. */
	if (!options.address && (s.ops > 100000 || real_server_is_remote()))
		ck_assert_uint_gt(s.splits, 0);
}
END_TEST

START_TEST(servers_stopped_and_killed_stay_linearizable)
{
	struct sums s;

	if (options.address)
		return;
	plan(true);
	s = rounds(20, 100);
	ck_assert_uint_eq(s.harm.server_kills, s.rounds);
}
END_TEST

START_TEST(servers_killed_and_adopted_stay_linearizable)
{
	struct sums s;

	if (options.address || real_server_is_remote())
		return;
	snprintf(memory_file, sizeof(memory_file), "%s/%d", shm_folder, (int)getpid());
	plan(false);
	board->plan.server_args = adopted_args;
	board->plan.adopt_server = true;
	s = rounds(80, 1000);
	ck_assert_uint_gt(s.harm.server_kills, 0);
}
END_TEST

/* ---- options --------------------------------------------------------------- */

static uint64_t number(const char *name, const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 0);

	if (*text && !*end)
		return n;
	fprintf(stderr, "stress: %s is a number, not '%s'\n", name, text);
	exit(2);
}

static uint64_t from_env(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? number(name, text) : otherwise;
}

static void set_option(int c, const char *text)
{
	switch (c) {
	case 'a':
		options.address = text;
		break;
	case 'm':
		options.memory = text;
		break;
	case 's':
		options.seed = number("--seed", text);
		break;
	case 't':
		options.seconds = (unsigned)number("--seconds", text);
		break;
	case 'n':
		options.operations = number("--operations", text);
		break;
	case 'c':
		options.clients = (unsigned)number("--clients", text);
		break;
	default:
		exit(2);
	}
}

static void read_options(int argc, char **argv)
{
	static const struct option known[] = {
		{"address", required_argument, NULL, 'a'},
		{"memory", required_argument, NULL, 'm'},
		{"seed", required_argument, NULL, 's'},
		{"seconds", required_argument, NULL, 't'},
		{"operations", required_argument, NULL, 'n'},
		{"clients", required_argument, NULL, 'c'},
		{NULL, 0, NULL, 0}};
	const char *lab = getenv("FARKV_LAB");
	int c;

	options = (struct options){
		.address = getenv("LAB_ADDRESS"), .clients = 6,
		.seed = from_env("LAB_SEED", recorder_now() / 1000),
		.operations = lab ? from_env("LAB_OPERATIONS", 0) : 0,
		.seconds = lab ? (unsigned)from_env("LAB_SECONDS", 60) : 1};
	while ((c = getopt_long(argc, argv, "", known, NULL)) >= 0)
		set_option(c, optarg);
	if (options.clients == 0 || options.clients > STRESS_CLIENTS_MAX ||
	    options.seconds == 0 || optind < argc) {
		fprintf(stderr, "usage: stress [--address ADDRESS] [--seed N] "
			"[--seconds N | --operations N] [--clients 1..%u] "
			"[--memory SIZE]\n", STRESS_CLIENTS_MAX);
		exit(2);
	}
}

static Suite *suite(void)
{
	Suite *s = suite_create("stress");
	TCase *clients = tcase_create("clients");
	TCase *server = tcase_create("server");
	double limit = 120 + 2.0 * options.seconds;

	if (options.operations)
		limit += (double)options.operations / SLOWEST;
	tcase_set_timeout(clients, limit);
	tcase_add_test(clients, clients_stopped_and_killed_stay_linearizable);
	suite_add_tcase(s, clients);
	tcase_add_unchecked_fixture(server, shm_folder_make, shm_folder_remove);
	tcase_set_timeout(server, limit);
	tcase_add_test(server, servers_stopped_and_killed_stay_linearizable);
	tcase_add_test(server, servers_killed_and_adopted_stay_linearizable);
	suite_add_tcase(s, server);
	return s;
}

int main(int argc, char **argv)
{
	SRunner *sr;
	int failed;

	read_options(argc, argv);
	real_server_require();
	sr = srunner_create(suite());
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
