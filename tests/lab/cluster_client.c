/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients of a cluster (stress.h) until a file exists, while a script moves keys and stops servers;
 * then every key is read, and the history is judged.
 *
 *   cluster_client --address ADDRESS --until FILE [--clients N] [--round N] [--seed N] [--record
 * FILE]
 *       [--pids FILE] [--spare N] [--lost SERVER --map URL]
 *
 * --round: its keys are no other round's. --pids: gets the clients' process ids when all have
 * connected.
 * --spare: the client of that number, from 0 on, may see errors, because the script stops it.
 * --lost: that server dies and its follower takes over; its keys are judged by what followers
 * promise, and calls may fail. Otherwise all keys have to be linearizable, and no call may fail.
 * --record: the history of a run that was wrong. Exit status: 0, 1 if something was wrong, 2 if it
 * cannot begin, 3 if calls failed and all else was in order.
 */
#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster_judge.h"
#include "cluster_map.h"
#include "stress.h"

#define ROOM (UINT64_C(1) << 18)
#define PAUSE_US 500u
#define OP_TIMEOUT_MS 10000u
#define READ_MS 5000u /* thousands of keys, when nothing fails: milliseconds */
#define NOBODY UINT32_MAX

static struct options {
	const char *address, *until, *record, *pids, *lost, *map;
	uint64_t round, clients, seed, spare;
} options = {.round = 1, .clients = 4, .spare = NOBODY};

static struct stress_board *board;
static struct clustermap *map;
static pid_t pid[STRESS_CLIENTS_MAX];

static void die(const char *why)
{
	fprintf(stderr, "cluster_client: %s\n", why);
	exit(2);
}

/* Zeros, which all clients share. */
static void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die(strerror(errno));
	return p;
}

/* ---- the clients ----------------------------------------------------------------------------- */

static void prepare(void)
{
	struct history_op *notes = shared(options.clients * ROOM * sizeof(*notes));

	board = shared(sizeof(*board));
	board->plan = (struct stress_plan){.seed = options.seed,
					   .clients = (unsigned)options.clients,
					   .op_timeout_ms = OP_TIMEOUT_MS,
					   .pause_us = PAUSE_US,
					   .room = ROOM};
	board->round = (uint32_t)options.round;
	if (!options.address || strlen(options.address) >= sizeof(board->address))
		die("there is no address, or it is too long");
	strcpy(board->address, options.address);
	for (unsigned i = 0; i < options.clients; i++) {
		recorder_init(&board->place[i].rec, notes + i * ROOM, ROOM);
		board->place[i].client = board->clients++;
	}
}

static void start(void)
{
	pid_t parent = getpid();

	for (unsigned i = 0; i < options.clients; i++) {
		pid[i] = fork();
		if (pid[i] < 0)
			die(strerror(errno));
		if (pid[i] > 0)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			stress_client_main(i, board);
		_exit(1);
	}
	for (unsigned i = 0; i < options.clients; i++)
		while (!STRESS_LOAD(board->place[i].ready) && waitpid(pid[i], NULL, WNOHANG) == 0)
			usleep(1000);
}

static void tell_pids(void)
{
	char path[512];
	FILE *f;

	if (!options.pids)
		return;
	snprintf(path, sizeof(path), "%s.new", options.pids);
	f = fopen(path, "w");
	if (!f)
		die("the file for the process ids cannot be written");
	for (unsigned i = 0; i < options.clients; i++)
		fprintf(f, "%d\n", (int)pid[i]);
	if (fclose(f) || rename(path, options.pids))
		die("the file for the process ids cannot be written");
}

/* False: one has not ended as it should. */
static bool join(void)
{
	bool well = true;
	int status;

	while (access(options.until, F_OK) != 0)
		usleep(10000);
	STRESS_STORE(board->stop, 1);
	for (unsigned i = 0; i < options.clients; i++)
		if (waitpid(pid[i], &status, 0) != pid[i] || status != 0) {
			fprintf(stderr, "client %u has ended with status %#x\n", i, (unsigned)status);
			well = false;
		}
	return well;
}

/* ---- the history ----------------------------------------------------------------------------- */

/* Read each key. False: it could not be read, or is torn. */
static bool read_all(struct history *h)
{
	uint32_t cold = STRESS_LOAD(board->cold), client = board->clients++;
	uint8_t key[STRESS_KEY_MAX];
	struct farkv *kv;
	bool well = farkv_open(board->address, NULL, &kv) == 0;

	cold = cold < STRESS_COLD_MAX ? cold : STRESS_COLD_MAX;
	for (uint32_t i = 0; well && i < STRESS_COLD + cold; i++) {
		struct history_op op = {.client = client, .key = i, .kind = HISTORY_GET};
		size_t len = stress_key(board->round, i, key);
		struct farkv_value v;
		int err;

		op.invoked = recorder_now();
		err = farkv_get(kv, key, len, &v);
		op.responded = recorder_now();
		op.result = err ? HISTORY_NOTFOUND : HISTORY_OK;
		if (!err)
			op.value = stress_value_id(v.data, v.len, &well);
		if (err && err != FARKV_ENOTFOUND)
			well = false;
		history_add(h, &op);
	}
	if (!well)
		fprintf(stderr, "the keys cannot be read at the end: %s\n", farkv_errdetail());
	farkv_close(kv);
	return well;
}

static void gather(struct history *h)
{
	for (unsigned i = 0; i < options.clients; i++) {
		const struct recorder *r = &board->place[i].rec;
		struct history part = {.op = r->op, .n = r->n};

		history_join(h, &part);
	}
}

static void keep(const struct history *h)
{
	FILE *f = options.record ? fopen(options.record, "w") : NULL;

	if (f && history_write(h, f) == 0 && fclose(f) == 0)
		printf("the history is in %s\n", options.record);
}

/* ---- the verdict ------------------------------------------------------------------------------
 */

static bool is_lost(void *arg, uint32_t key)
{
	uint8_t bytes[STRESS_KEY_MAX];
	size_t len = stress_key(board->round, key, bytes);

	return clustermap_owner(map, bytes, len) == *(const uint32_t *)arg;
}

/* The first `n` operations are the clients'. */
static bool judge_loss(const struct history *h, size_t n)
{
	uint32_t server = clustermap_find(map, options.lost);
	struct history lost = {0}, others = {0}, clients = {.op = h->op, .n = n};
	uint64_t at[CLUSTER_JUDGE_GAPS];
	size_t rolled_back = 0;
	bool well;

	cluster_judge_loss(&clients, is_lost, &server, at);
	for (size_t i = 0; i < h->n; i++)
		history_add(is_lost(&server, h->op[i].key) ? &lost : &others, &h->op[i]);
	well = cluster_judge_strict(&others, stdout) &&
	       cluster_judge_lost(&lost, at, &rolled_back, stdout);
	printf("%zu operations on keys of server %s, %zu of others; %zu keys have lost writes\n", lost.n,
	       options.lost, others.n, rolled_back);
	history_free(&lost);
	history_free(&others);
	return well;
}

/*
 * No call may fail, but those of the client that was stopped. At a fence a write may have no known
 * outcome, and batches and requests are not repeated.
 */
static bool no_errors(void)
{
	static const char *const names[] = {"out of space", "timed out", "disconnected", "unknown"};
	bool well = true;

	for (unsigned i = 0; i < options.clients; i++)
		for (unsigned k = 0; k < STRESS_COUNTS; k++) {
			const struct stress_place *p = &board->place[i];

			if (!p->count[k])
				continue;
			printf("client %u: %" PRIu64 " calls: %s; %" PRIu64 " of them in batches\n", i,
			       p->count[k], names[k], p->together[k]);
			well &= i == options.spare || options.lost || k == STRESS_MAYBE ||
				(k == STRESS_DISCONNECTED && p->count[k] == p->together[k]);
		}
	return well;
}

/* The exit status. */
static int run(void)
{
	struct history h = {0};
	bool well = join();
	uint64_t begin = recorder_now(), took;
	size_t n;

	gather(&h);
	n = h.n;
	well &= read_all(&h);
	took = (recorder_now() - begin) / 1000000;
	printf("reading all keys took %" PRIu64 " ms\n", took);
	well &= took < READ_MS;
	cluster_judge_prepare(&h);
	printf("%zu operations on %" PRIu32 " keys\n", h.n, board->cold + board->race + STRESS_HOT);
	well &= options.lost ? judge_loss(&h, n) : cluster_judge_strict(&h, stdout);
	if (!well)
		keep(&h);
	history_free(&h);
	printf("seed %" PRIu64 ": %s\n", options.seed, well ? "all in order" : "wrong");
	return !well ? 1 : no_errors() ? 0 : 3;
}

/* ---- options ----------------------------------------------------------------------------------
 */

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 0);

	if (!*text || *end)
		die("a number is expected");
	return n;
}

static void read_options(int argc, char **argv)
{
	static const struct option known[] = {{"address", required_argument, NULL, 'a'},
					      {"clients", required_argument, NULL, 'c'},
					      {"lost", required_argument, NULL, 'l'},
					      {"map", required_argument, NULL, 'm'},
					      {"pids", required_argument, NULL, 'p'},
					      {"record", required_argument, NULL, 'o'},
					      {"round", required_argument, NULL, 'r'},
					      {"seed", required_argument, NULL, 's'},
					      {"spare", required_argument, NULL, 'i'},
					      {"until", required_argument, NULL, 'u'},
					      {NULL, 0, NULL, 0}};
	const char **const texts[] = {['a'] = &options.address, ['l'] = &options.lost, ['m'] = &options.map,
				      ['p'] = &options.pids, ['o'] = &options.record,
				      ['u'] = &options.until};
	uint64_t *const numbers[] = {['c'] = &options.clients, ['r'] = &options.round, ['s'] = &options.seed,
				     ['i'] = &options.spare};
	int c;

	options.seed = recorder_now();
	while ((c = getopt_long(argc, argv, "", known, NULL)) >= 0) {
		if (c == '?')
			exit(2);
		if ((size_t)c < sizeof(numbers) / sizeof(numbers[0]) && numbers[c])
			*numbers[c] = number(optarg);
		else
			*texts[c] = optarg;
	}
	if (optind < argc || !options.address || !options.until || !options.clients ||
	    options.clients > STRESS_CLIENTS_MAX || !options.lost != !options.map)
		die("wrong usage; the head of its source describes the options");
}

int main(int argc, char **argv)
{
	int status;

	read_options(argc, argv);
	if (options.map) {
		map = cluster_map_read(options.map, NULL);
		if (!map || clustermap_find(map, options.lost) == map->n_servers)
			die("the map has no such server");
	}
	prepare();
	start();
	tell_pids();
	status = run();
	free(map);
	return status;
}
