/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One of two machines' clients: a round of stress (stress.h) on a store that another
 * machine serves, until a file exists. Their history is written to a file,
 * to be checked together with that of the other machine.
 *
 *   far --address ADDRESS --round N --first N --clock FILE:SIDE --until FILE
 *       --record FILE [--clients N] [--harm] [--seed N]
 *
 * --first: the number of the first client; each ever started gets its own. --clock: see
 * ticks.h. --harm: clients are stopped and killed. Every second it prints the number of
 * operations answered by then: "N answers".
 */
#include "config.h"

#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "stress.h"
#include "tests/rig/marks.h"

#define HARM_MS 600u
#define OP_TIMEOUT_MS 4000u
#define LONGEST_MS 1200000u
#define ROOM (UINT64_C(1) << 19)

static struct options {
	const char *address, *until, *record;
	char *clock;
	uint64_t round, first, clients, seed;
	bool harm;
} options = {.clients = 3};

static struct stress_board *board;
static struct history_op *notes;

static uint64_t answers(void)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < board->plan.clients; i++) {
		const struct recorder *r = &board->place[i].rec;

		for (uint64_t k = 0; k < STRESS_LOAD(r->n); k++)
			n += STRESS_LOAD(r->op[k].result) < HISTORY_UNKNOWN;
	}
	return n;
}

/* Tells how it goes, and ends it. */
static void *watch(void *arg)
{
	(void)arg;
	for (unsigned n = 0; access(options.until, F_OK) != 0; n++) {
		if (n % 10 == 0)
			printf("%" PRIu64 " answers\n", answers());
		fflush(stdout);
		usleep(100000);
	}
	STRESS_STORE(board->stop, 1);
	return NULL;
}

static void prepare(void)
{
	board = scale_shared(sizeof(*board));
	board->plan = (struct stress_plan){
		.seed = options.seed, .clients = (unsigned)options.clients,
		.round_ms = LONGEST_MS, .harm_ms = HARM_MS,
		.stop_clients = options.harm, .kill_clients = options.harm,
		.bad_way = true, .op_timeout_ms = OP_TIMEOUT_MS, .room = ROOM};
	board->round = (uint32_t)options.round;
	board->clients = (uint32_t)options.first;
	snprintf(board->address, sizeof(board->address), "%s", options.address);
	notes = scale_shared(options.clients * ROOM * sizeof(*notes));
	for (unsigned i = 0; i < options.clients; i++)
		recorder_init(&board->place[i].rec, notes + i * ROOM, ROOM);
}

static void use_clock(void)
{
	static struct ticks ticks;
	char *colon = strrchr(options.clock, ':');

	ck_assert_msg(colon && (colon[1] == '0' || colon[1] == '1'),
		      "--clock is FILE:0 or FILE:1");
	*colon = 0;
	ck_assert_msg(ticks_open(&ticks, options.clock, colon[1] == '1') == 0,
		      "%s cannot be mapped", options.clock);
	recorder_use_ticks(&ticks);
}

static void write_history(void)
{
	FILE *f = fopen(options.record, "w");
	uint64_t n = 0, unknown = 0, failed = 0;

	ck_assert_msg(f, "%s cannot be written", options.record);
	for (unsigned i = 0; i < options.clients; i++) {
		const struct recorder *r = &board->place[i].rec;
		struct history part = {.op = r->op, .n = r->n};

		ck_assert_int_eq(history_write(&part, f), 0);
		n += r->n;
		for (size_t k = 0; k < part.n; k++) {
			unknown += part.op[k].result == HISTORY_UNKNOWN;
			failed += part.op[k].result == HISTORY_FAILED;
		}
	}
	ck_assert_int_eq(fclose(f), 0);
	printf("%" PRIu64 " operations, %" PRIu64 " unknown, %" PRIu64
	       " failed, %" PRIu64 " clients\n", n, unknown, failed,
	       board->clients - options.first);
}

START_TEST(round_of_clients_on_two_machines_is_linearizable)
{
	uint64_t random = options.seed;
	struct stress_tally tally = {0};
	struct real_server none = {0};
	pthread_t watcher;

	prepare();
	use_clock();
	ck_assert_int_eq(pthread_create(&watcher, NULL, watch, NULL), 0);
	stress_harm(board, &none, &random, &tally);
	pthread_join(watcher, NULL);
	write_history();
	printf("%" PRIu64 " killed, %" PRIu64 " stopped\n", tally.kills,
	       tally.stops);
}
END_TEST

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 0);

	if (*text && !*end)
		return n;
	fprintf(stderr, "far: '%s' is not a number\n", text);
	exit(2);
}

static void set_option(int c)
{
	switch (c) {
	case 'a':
		options.address = optarg;
		break;
	case 'r':
		options.round = number(optarg);
		break;
	case 'f':
		options.first = number(optarg);
		break;
	case 'c':
		options.clients = number(optarg);
		break;
	case 'k':
		options.clock = optarg;
		break;
	case 'u':
		options.until = optarg;
		break;
	case 'o':
		options.record = optarg;
		break;
	case 's':
		options.seed = number(optarg);
		break;
	case 'h':
		options.harm = true;
		break;
	default:
		exit(2);
	}
}

static void read_options(int argc, char **argv)
{
	static const struct option known[] = {
		{"address", required_argument, NULL, 'a'},
		{"round", required_argument, NULL, 'r'},
		{"first", required_argument, NULL, 'f'},
		{"clients", required_argument, NULL, 'c'},
		{"clock", required_argument, NULL, 'k'},
		{"until", required_argument, NULL, 'u'},
		{"record", required_argument, NULL, 'o'},
		{"seed", required_argument, NULL, 's'},
		{"harm", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) >= 0)
		set_option(c);
	if (optind == argc && options.address && options.clock &&
	    options.until && options.record && options.clients > 0 &&
	    options.clients <= STRESS_CLIENTS_MAX)
		return;
	fprintf(stderr, "usage: far --address ADDRESS --round N --first N "
		"--clock FILE:SIDE --until FILE --record FILE "
		"[--clients 1..%u] [--harm] [--seed N]\n", STRESS_CLIENTS_MAX);
	exit(2);
}

int main(int argc, char **argv)
{
	Suite *s = suite_create("far");
	TCase *t = tcase_create("far");
	SRunner *sr;
	int failed;

	read_options(argc, argv);
	tcase_set_timeout(t, LONGEST_MS / 1000);
	tcase_add_test(t, round_of_clients_on_two_machines_is_linearizable);
	suite_add_tcase(s, t);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
