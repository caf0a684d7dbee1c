/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of attackers for others: a client pings a server, before and while processes
 * attack it, and the server's memory is measured.
 *
 *	siege ADDRESS PID ATTACK PROCESSES SECONDS
 *
 * ADDRESS and PID are of the server, ATTACK is one of attack.h: in-use, keys, pings.
 * Prints one line for each of the two times.
 */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farkv.h>

#include "attack.h"
#include "common/base/clock.h"

#define PROCESSES_MAX 64u
#define PINGS_MAX 1000000u
#define PAUSE_US 2000
/* Pings before the attack. */
#define CALM_S 3u

static uint64_t *rtt; /* of each ping, in ns */
static struct shared {
	unsigned began;
	uint64_t ended;
} *shared;

static void die(const char *what)
{
	fprintf(stderr, "siege: %s: %s\n", what, farkv_errdetail());
	exit(1);
}

/* KiB of the server's own; by RDMA that is what has been used of the region, too. */
static unsigned long own_kib(const char *pid)
{
	char path[64], line[256];
	unsigned long kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/status", pid);
	f = fopen(path, "r");
	if (!f)
		die("the server is gone");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "RssAnon: %lu", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Ping for that time, and print the result. */
static void ping(struct farkv *kv, const char *pid, unsigned seconds,
		 const char *when)
{
	uint64_t until = clock_now_ns() + seconds * NS_PER_SEC, sum = 0;
	unsigned long first = own_kib(pid), most = first;
	size_t n = 0;

	while (clock_now_ns() < until && n < PINGS_MAX) {
		unsigned long kib = own_kib(pid);

		if (farkv_ping(kv, &rtt[n]))
			die("ping");
		sum += rtt[n++];
		most = kib > most ? kib : most;
		usleep(PAUSE_US);
	}
	qsort(rtt, n, sizeof(*rtt), by_size);
	printf("%s: %zu pings, mean %.2f ms, p50 %.2f, p99 %.2f, max %.2f; "
	       "server's own memory %.1f MiB, at most %.1f, then %.1f\n",
	       when, n, (double)sum / (double)n / 1e6, (double)rtt[n / 2] / 1e6,
	       (double)rtt[n * 99 / 100] / 1e6, (double)rtt[n - 1] / 1e6,
	       (double)first / 1024, (double)most / 1024,
	       (double)own_kib(pid) / 1024);
	fflush(stdout);
}

static void began(void)
{
	__atomic_fetch_add(&shared->began, 1, __ATOMIC_RELAXED);
}

static pid_t start(const char *uri, enum attack a, unsigned me)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	attack_run(uri, a, me, began, &shared->ended);
}

int main(int argc, char **argv)
{
	pid_t attackers[PROCESSES_MAX];
	struct farkv_options o;
	struct farkv *kv;
	unsigned n, seconds;
	enum attack a;

	a = argc == 6 ? attack_named(argv[3]) : ATTACKS;
	n = argc == 6 ? (unsigned)atoi(argv[4]) : 0;
	if (a == ATTACKS || n == 0 || n > PROCESSES_MAX) {
		fprintf(stderr, "usage: siege ADDRESS PID in-use|keys|pings "
				"PROCESSES SECONDS\n");
		return 64;
	}
	seconds = (unsigned)atoi(argv[5]);
	rtt = calloc(PINGS_MAX, sizeof(*rtt));
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!rtt || shared == MAP_FAILED)
		die("no memory");
	for (unsigned i = 0; i < n; i++)
		attackers[i] = start(argv[1], a, i);
	while (__atomic_load_n(&shared->began, __ATOMIC_RELAXED) < n) {
		if (waitpid(-1, NULL, WNOHANG) > 0)
			die("an attacker cannot begin");
		usleep(10000);
	}
	for (unsigned i = 0; i < n; i++)
		kill(attackers[i], SIGSTOP);
	farkv_options_init(&o);
	o.op_timeout_ms = 60000;
	if (farkv_open(argv[1], &o, &kv))
		die("open");
	ping(kv, argv[2], CALM_S, "calm");
	for (unsigned i = 0; i < n; i++)
		kill(attackers[i], SIGCONT);
	ping(kv, argv[2], seconds, argv[3]);
	printf("%s: %llu sessions were ended\n", argv[3],
	       (unsigned long long)shared->ended);
	for (unsigned i = 0; i < n; i++) {
		kill(attackers[i], SIGKILL);
		waitpid(attackers[i], NULL, 0);
	}
	ping(kv, argv[2], CALM_S, "after");
	farkv_close(kv);
	return 0;
}
