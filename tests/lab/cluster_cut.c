/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of a cluster that stops in the middle of a put or a get, at each of its steps in turn,
 * for longer than a lease; meanwhile the key's partition moves, and in every other case another
 * client writes the key. When it goes on, nothing old is read, and nothing new is lost.
 *
 *   cluster_cut --map URL --address ADDRESS
 *
 * The servers of URL are there, three or more; $KVCLI drains and adds them.
 */
#include "config.h"

#include <errno.h>
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

#include "cluster_map.h"
#include "tests/scale/scale_hook.h"

#define KEY "cut"
#define STEPS_MAX 16u
#define TRIES 10u
#define TIMEOUT_MS 20000u
/* For what a process that copies may still do. */
#define SETTLE_US 300000u

enum what { PUT, GET };

/* What the client is told, and what it answers. */
struct order {
	enum what what;
	uint64_t value; /* put */
	struct hook_plan plan;
	struct hook_seen seen;
	int result;
	uint64_t found; /* get */
};

static const char *url, *address;
static struct order *order; /* shared with the client */

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *fmt, ...)
{
	va_list ap;

	fputs("cluster_cut: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	_exit(1);
}

static struct farkv *open_store(void)
{
	struct farkv_options o;
	struct farkv *kv;

	farkv_options_init(&o);
	o.op_timeout_ms = o.connect_timeout_ms = TIMEOUT_MS;
	if (farkv_open(address, &o, &kv))
		die("open: %s", farkv_errdetail());
	return kv;
}

static int get(struct farkv *kv, uint64_t *found_out)
{
	struct farkv_value v;
	int err = farkv_get(kv, KEY, strlen(KEY), &v);

	*found_out = 0;
	if (!err && v.len == sizeof(*found_out))
		memcpy(found_out, v.data, sizeof(*found_out));
	return err;
}

static int put(struct farkv *kv, uint64_t value)
{
	return farkv_put(kv, KEY, strlen(KEY), &value, sizeof(value));
}

/* ---- the client that is cut off ------------------------------------------------------------- */

/* It stops itself when it is connected, after each order, and in the midst of one. */
static void __attribute__((noreturn)) client_main(void)
{
	struct farkv *kv;
	uint64_t found;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	hook_install(true);
	kv = open_store();
	for (;;) {
		raise(SIGSTOP);
		/* Connected again, with a lease: a connection may have ended while it was stopped.
		 */
		for (unsigned i = 0; get(kv, &found); i++)
			if (i == TRIES)
				die("get: %s", farkv_errdetail());
		hook_arm(&order->plan);
		if (order->what == PUT)
			order->result = put(kv, order->value);
		else
			order->result = get(kv, &order->found);
		hook_arm(NULL);
	}
}

static void await_stop(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
		die("the client has ended with status %#x", (unsigned)status);
}

static pid_t start_client(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid == 0)
		client_main();
	await_stop(pid);
	return pid;
}

static void go_on(pid_t pid)
{
	kill(pid, SIGCONT);
	await_stop(pid);
}

/* ---- moves ------------------------------------------------------------------------------------
 */

static void kvcli(const char *what, const char *server)
{
	char cmd[1024];

	snprintf(cmd, sizeof(cmd), "'%s' -q cluster %s '%s' '%s'", getenv("KVCLI"), what, server, url);
	if (system(cmd))
		die("kvcli cluster %s %s failed", what, server);
}

/* Move the key away from its server; `server_out` can be added again: NAME=ADDRESS. */
static void move_key(char *server_out, size_t size)
{
	struct clustermap *m = cluster_map_read(url, NULL);
	const struct clustermap_server *s;

	if (!m)
		_exit(1);
	s = &m->server[clustermap_owner(m, KEY, strlen(KEY))];
	snprintf(server_out, size, "%s=%s", s->name, s->address);
	kvcli("drain", s->name);
	free(m);
}

/* ---- a case ------------------------------------------------------------------------------------
 */

struct pair {
	struct farkv *kv; /* the other client */
	pid_t pid; /* the one that is cut off */
};

/* What both clients find. */
static uint64_t agreed(const struct pair *p)
{
	uint64_t found;

	order->what = GET;
	order->plan = (struct hook_plan){.seen = &order->seen};
	go_on(p->pid);
	if (get(p->kv, &found) || order->result)
		die("get: %s; of the client that was stopped: %s", farkv_errdetail(),
		    farkv_strerror(order->result));
	if (found != order->found)
		die("the client that was stopped finds %" PRIu64 ", the other one %" PRIu64, order->found,
		    found);
	return found;
}

/* What the call of the client may have led to: `before` was there, it put `mine`, the other
 * `theirs`, or 0. */
static void check(const struct pair *p, enum what what, uint64_t before, uint64_t mine, uint64_t theirs)
{
	int result = order->result;
	uint64_t found;

	if (what == GET && result == 0 && order->found != before && order->found != theirs)
		die("the get found %" PRIu64, order->found);
	if (result && result != (what == PUT ? FARKV_EMAYBE : FARKV_EDISCONNECTED))
		die("the call failed: %s", farkv_strerror(result));
	found = agreed(p);
	if (found != (theirs ? theirs : before) && (what == GET || found != mine))
		die("%" PRIu64 " is there; %" PRIu64 " was, %" PRIu64 " and %" PRIu64 " were put", found,
		    before, mine, theirs);
	if (what == PUT && result == 0 && !theirs && found != mine)
		die("a put that succeeded is lost");
	usleep(SETTLE_US);
	if (agreed(p) != found)
		die("an old value came back after %" PRIu64, found);
}

/* Stopped at request `at`. False: the call has fewer. */
static bool cut(const struct pair *p, enum what what, unsigned at, bool after, bool theirs)
{
	static uint64_t last;
	uint64_t before = ++last, mine = ++last, other = theirs ? ++last : 0;
	char server[CLUSTERMAP_NAME_MAX + CLUSTERMAP_ADDRESS_MAX + 2];
	int err = put(p->kv, before);

	if (err)
		die("put: %s", farkv_errdetail());
	*order = (struct order){.what = what, .value = mine, .result = FARKV_EAGAIN,
				.plan = {.at = at, .after = after, .sig = SIGSTOP, .seen = &order->seen}};
	go_on(p->pid);
	if (order->result != FARKV_EAGAIN)
		return false;
	move_key(server, sizeof(server));
	err = theirs ? put(p->kv, other) : 0;
	if (err)
		die("put after the move: %s", farkv_errdetail());
	go_on(p->pid);
	printf("%s, %s request %u%s: %s\n", what == PUT ? "put" : "get", after ? "after" : "before", at,
	       theirs ? ", another client puts" : "", farkv_strerror(order->result));
	fflush(stdout);
	check(p, what, before, mine, other);
	kvcli("add", server);
	return true;
}

/* Before and after each request, with and without another client's put. */
static void cut_all(const struct pair *p, enum what what)
{
	for (unsigned i = 0; i < 4 * STEPS_MAX; i++)
		if (!cut(p, what, 1 + i / 4, i % 2, i / 2 % 2)) {
			if (i < 4)
				die("a call has no steps to stop at");
			return;
		}
}

int main(int argc, char **argv)
{
	static const struct option known[] = {{"map", required_argument, NULL, 'm'},
					      {"address", required_argument, NULL, 'a'},
					      {NULL, 0, NULL, 0}};
	struct pair p;
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) >= 0)
		if (c == 'm')
			url = optarg;
		else if (c == 'a')
			address = optarg;
		else
			return 2;
	if (!url || !address || optind < argc)
		die("usage: cluster_cut --map URL --address ADDRESS");
	order = mmap(NULL, sizeof(*order), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (order == MAP_FAILED)
		die("%s", strerror(errno));
	p.pid = start_client();
	p.kv = open_store();
	if (put(p.kv, 0))
		die("put: %s", farkv_errdetail());
	cut_all(&p, PUT);
	cut_all(&p, GET);
	kill(p.pid, SIGKILL);
	waitpid(p.pid, NULL, 0);
	farkv_close(p.kv);
	return 0;
}
