/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the server does while a client works: nothing.
 *
 *	rdma_idle PID URI
 *
 * 100,000 operations on the store at URI, which the process PID serves.
 */
#include "config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "tests/rig/die.h"

#define KEYS 1000u
#define VALUE 256u
#define BATCH 128u
#define OPERATIONS 100000u
#define WINDOW 250u /* operations between two looks at the server */
/* Requests for blocks; all others are the client's and its card's. */
#define CONTROL_MOST (OPERATIONS / 1000)
/* The server looks after silent clients: every other second. */
#define WAKES_PER_S 2u
#define WAKES_SPARE 20u

static struct farkv *kv;
static uint8_t value[VALUE];

/* ---- operations --------------------------------------------------------------------- */

static size_t name_key(char *key, unsigned i)
{
	return (size_t)snprintf(key, 32, "key%u", i);
}

static void get(unsigned i)
{
	struct farkv_value v;
	char key[32];

	MUST(farkv_get(kv, key, name_key(key, i), &v));
}

static void put(unsigned i)
{
	char key[32];

	MUST(farkv_put(kv, key, name_key(key, i), value, VALUE));
}

static struct farkv_get_item gets[BATCH];
static struct farkv_put_item puts_[BATCH];
static char keys[BATCH][32];

static void mixed_batch(unsigned round)
{
	for (unsigned k = 0; k < BATCH; k++) {
		puts_[k] = (struct farkv_put_item){
			.key = keys[k],
			.key_len = name_key(keys[k],
					    (round * BATCH + k) % KEYS),
			.value = value, .value_len = VALUE};
		gets[k] = (struct farkv_get_item){.key = keys[k],
						  .key_len = puts_[k].key_len};
	}
	if (round % 4 == 0)
		MUST(farkv_mput(kv, puts_, BATCH));
	else
		MUST(farkv_mget(kv, gets, BATCH));
}

static unsigned mixed(unsigned operations)
{
	static unsigned round;
	unsigned done = 0;

	for (; done < operations; round++) {
		mixed_batch(round);
		done += BATCH;
		for (unsigned i = 0; i < 4; i++, done += 2) {
			get((round * 4 + i) % KEYS);
			put((round * 4 + i) % KEYS);
		}
	}
	return done;
}

static uint64_t control_messages(void)
{
	struct farkv_counters n = {.size = sizeof(n)};

	MUST(farkv_counters(kv, &n));
	return n.control_msgs;
}

/* ---- the server's CPU --------------------------------------------------------------- */

/* What the threads of a process have done. */
struct work {
	uint64_t ns;    /* on a CPU, by the scheduler's clock */
	uint64_t wakes; /* how often they waited for something again */
};

/* The number after `name` in a file of the thread's. */
static uint64_t number_of(const char *pid, const char *thread, const char *file,
			  const char *name)
{
	char path[300], line[256];
	uint64_t n = UINT64_MAX;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/task/%s/%s", pid, thread, file);
	f = fopen(path, "r");
	if (!f)
		die("cannot read %s", path);
	while (n == UINT64_MAX && fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			n = strtoull(line + strlen(name), NULL, 10);
	fclose(f);
	if (n == UINT64_MAX)
		die("%s has no '%s'", path, name);
	return n;
}

static struct work work_of(const char *pid)
{
	struct work w = {0};
	struct dirent *e;
	char path[64];
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%s/task", pid);
	d = opendir(path);
	if (!d)
		die("cannot read %s", path);
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		w.ns += number_of(pid, e->d_name, "schedstat", "");
		w.wakes += number_of(pid, e->d_name, "status",
				     "voluntary_ctxt_switches:");
	}
	closedir(d);
	return w;
}

/*
 * How long the server ran says how busy this machine is, not what it did: so it is
 * looked at how often it ran at all. In a stretch of operations whose nanoseconds
 * are 0 it had no part in any of them, and whom a message or an event wakes waits
 * again afterwards. What wakes it now and then is its clock.
 */
static int count_cpu(const char *pid)
{
	unsigned n = 0, windows = 0, untouched = 0;
	struct work first, before, now;
	uint64_t began, most, control;
	double seconds;

	for (unsigned i = 0; i < KEYS; i++)
		put(i);
	(void)mixed(8000);
	control = control_messages();
	began = clock_now_ns();
	first = before = work_of(pid);
	for (; n < OPERATIONS; windows++, before = now) {
		n += mixed(WINDOW);
		now = work_of(pid);
		untouched += now.ns == before.ns;
	}
	seconds = (double)(clock_now_ns() - began) / 1e9;
	control = control_messages() - control;
	most = (uint64_t)(seconds * WAKES_PER_S) + 4 * control + WAKES_SPARE;
	printf("%u operations in %.1f s: 0 ns of the server's CPU in %u of %u "
	       "stretches; %llu wakes of at most %llu, %.1f us in all, %llu "
	       "control messages\n", n, seconds, untouched, windows,
	       (unsigned long long)(now.wakes - first.wakes),
	       (unsigned long long)most, (double)(now.ns - first.ns) / 1e3,
	       (unsigned long long)control);
	if (control <= CONTROL_MOST && now.wakes - first.wakes <= most &&
	    untouched >= windows / 2)
		return 0;
	fprintf(stderr, "the server takes part in operations\n");
	return 1;
}

int main(int argc, char **argv)
{
	struct farkv_options o;
	int bad;

	if (argc != 3)
		die("usage: rdma_idle PID URI");
	farkv_options_init(&o);
	o.op_timeout_ms = 20000;
	MUST(farkv_open(argv[2], &o, &kv));
	bad = count_cpu(argv[1]);
	farkv_close(kv);
	return bad;
}
