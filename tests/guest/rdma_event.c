/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that sleeps on farkv_event_fd() alone, by RDMA.
 *
 *	rdma_event [PID] URI
 *
 * on the store at URI: gets one by one and side by side. If this machine's process PID
 * serves it: a put that waits for a server that stands still; a server that is killed.
 * Then a line on its standard input says that there is one at URI again. Without PID the
 * server is another machine: each answer takes time, which is slept.
 */
#include "config.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "tests/rig/die.h"

#define KEYS 200u
#define DEPTH 32u
#define SINGLE 500u
#define MANY 20000u
#define HANG_MS 60000 /* longer than op_timeout_ms: nothing ends by its deadline */
#define STILL_NS (2 * NS_PER_SEC)

static struct farkv *kv;
static int outer; /* epoll over the handle's descriptor, as a program has it */
static char keys[KEYS][16];

static struct {
	unsigned wakes, slept, polls, done, errors;
} seen;

/* ---- what it costs ------------------------------------------------------------------ */

struct cost {
	uint64_t wall_ns, cpu_ns;
	long switches; /* times this thread went to sleep */
};

static struct cost cost_now(void)
{
	struct rusage r;

	getrusage(RUSAGE_THREAD, &r);
	return (struct cost){
		.wall_ns = clock_now_ns(),
		.cpu_ns = (uint64_t)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) *
				  NS_PER_SEC +
			  (uint64_t)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) *
				  1000,
		.switches = r.ru_nvcsw};
}

static struct cost cost_since(struct cost from)
{
	struct cost now = cost_now();

	return (struct cost){now.wall_ns - from.wall_ns,
			     now.cpu_ns - from.cpu_ns,
			     now.switches - from.switches};
}

static void report(const char *what, struct cost c)
{
	printf("%s: %u done in %u wakes and %u polls, %u of them after sleep; "
	       "%.0f ms, %.0f ms of CPU, %ld switches\n",
	       what, seen.done, seen.wakes, seen.polls, seen.slept,
	       (double)c.wall_ns / 1e6, (double)c.cpu_ns / 1e6, c.switches);
	fflush(stdout);
}

/* ---- requests ----------------------------------------------------------------------- */

static bool is_readable(int ms)
{
	struct epoll_event ev;
	int n = epoll_wait(outer, &ev, 1, ms);

	if (n < 0)
		die("epoll_wait failed");
	return n == 1;
}

static void submit(uint32_t kind, uint64_t tag, const void *value, size_t len)
{
	struct farkv_request r = {.tag = tag,
				  .kind = kind,
				  .key = keys[tag % KEYS],
				  .value = value,
				  .value_len = len};
	int n;

	r.key_len = strlen(keys[tag % KEYS]);
	n = farkv_submit(kv, &r, 1);
	if (n != 1)
		die("farkv_submit: %d: %s", n, farkv_errdetail());
}

/* Wait, then poll until there is nothing: how many were right. */
static void wake(int expected)
{
	struct farkv_completion c[DEPTH];
	int n;

	if (!is_readable(0)) {
		seen.slept++;
		if (!is_readable(HANG_MS))
			die("asleep for %d ms with %zu requests in flight",
			    HANG_MS, farkv_in_flight(kv));
	}
	seen.wakes++;
	do {
		n = farkv_poll(kv, c, DEPTH);
		if (n < 0)
			die("farkv_poll: %d: %s", n, farkv_errdetail());
		seen.polls++;
		seen.done += (unsigned)n;
		for (int i = 0; i < n; i++) {
			if (c[i].result != expected)
				die("result %d, not %d: %s", c[i].result,
				    expected, farkv_errdetail());
			if (c[i].kind == FARKV_REQUEST_GET && !expected &&
			    strcmp(c[i].value.data, keys[c[i].tag % KEYS]) != 0)
				die("a wrong value");
		}
	} while (n > 0);
}

static void gets(const char *what, unsigned n, unsigned depth, bool far)
{
	struct cost began = cost_now();
	unsigned begun = 0;

	memset(&seen, 0, sizeof(seen));
	while (seen.done < n) {
		for (; begun < n && farkv_in_flight(kv) < depth; begun++)
			submit(FARKV_REQUEST_GET, begun, NULL, 0);
		wake(0);
	}
	began = cost_since(began);
	report(what, began);
	/* Each wake had a completion, or one step of a get of two. */
	if (seen.wakes > 3 * n + 10)
		die("%u wakes for %u gets: it spins", seen.wakes, n);
	if (far && (seen.slept < n / depth / 2 || began.switches < seen.slept / 2))
		die("it does not sleep");
}

/* ---- the cases ----------------------------------------------------------------------- */

static void idle(void)
{
	struct cost c = cost_now();

	while (is_readable(100)) {
		memset(&seen, 0, sizeof(seen));
		wake(0);
		if (cost_since(c).wall_ns > 10 * NS_PER_SEC)
			die("an idle handle is readable again and again");
	}
	c = cost_now();
	if (is_readable(1000))
		die("an idle handle is readable");
	c = cost_since(c);
	if (c.cpu_ns > 20 * NS_PER_MS)
		die("an idle handle takes %.0f ms of CPU in a second",
		    (double)c.cpu_ns / 1e6);
}

/* A put that needs a block, while the server stands still. */
static void server_stands_still(pid_t server)
{
	static char value[200000];
	struct cost c;

	if (kill(server, SIGSTOP))
		die("cannot stop the server");
	memset(&seen, 0, sizeof(seen));
	submit(FARKV_REQUEST_PUT, 0, value, sizeof(value));
	c = cost_now();
	while (cost_since(c).wall_ns < STILL_NS)
		if (is_readable((int)(STILL_NS / NS_PER_MS / 10)))
			wake(0);
	c = cost_since(c);
	report("a server that stands still", c);
	if (seen.done || farkv_in_flight(kv) != 1)
		die("no request waits for the server");
	if (seen.wakes > 10 || c.cpu_ns > STILL_NS / 10)
		die("who waits for the server does not sleep");
	if (kill(server, SIGCONT))
		die("cannot continue the server");
	while (!seen.done)
		wake(0);
}

static void server_is_killed(pid_t server, int fd)
{
	static char value[400000];
	char line[16];

	if (kill(server, SIGSTOP))
		die("cannot stop the server");
	memset(&seen, 0, sizeof(seen));
	submit(FARKV_REQUEST_PUT, 0, value, sizeof(value));
	while (is_readable(200))
		wake(0);
	if (kill(server, SIGKILL))
		die("cannot kill the server");
	while (!seen.done)
		wake(FARKV_EDISCONNECTED);
	report("a server that is killed", (struct cost){0});
	printf("killed\n");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		die("no server came back");
	if (farkv_event_fd(kv) != fd)
		die("the descriptor has changed");
}

static void fill(void)
{
	for (unsigned i = 0; i < KEYS; i++) {
		snprintf(keys[i], sizeof(keys[i]), "key%u", i);
		MUST(farkv_put(kv, keys[i], strlen(keys[i]), keys[i],
			       strlen(keys[i]) + 1));
	}
}

static void with_server(pid_t server, int fd)
{
	/* Not among the gets: its value is another one then. */
	strcpy(keys[0], "large");
	server_stands_still(server);
	server_is_killed(server, fd);
	fill();
	gets("after a reconnect", SINGLE, DEPTH, false);
	idle();
}

int main(int argc, char **argv)
{
	struct epoll_event ev = {.events = EPOLLIN};
	struct farkv_options o;
	pid_t server;
	int fd;

	if (argc != 2 && argc != 3)
		die("usage: rdma_event [PID] URI");
	server = argc == 3 ? (pid_t)atoi(argv[1]) : 0;
	farkv_options_init(&o);
	o.op_timeout_ms = 30000;
	MUST(farkv_open(argv[argc - 1], &o, &kv));
	fill();
	fd = farkv_event_fd(kv);
	outer = epoll_create1(0);
	if (fd < 0 || outer < 0 || epoll_ctl(outer, EPOLL_CTL_ADD, fd, &ev))
		die("farkv_event_fd: %d: %s", fd, farkv_errdetail());
	idle();
	gets("one by one", SINGLE, 1, !server);
	gets("side by side", MANY, DEPTH, !server);
	idle();
	if (server)
		with_server(server, fd);
	farkv_close(kv);
	return 0;
}
