/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What operations cost, counted: by the handle's counters for each operation, and
 * by the device's packets for all of them.
 *
 *	rdma_count DEVICE URI     round trips, verbs, packets
 *	rdma_count -s PID URI     what the server PID does in 100,000 operations
 *
 * On one machine the device counts both ends: a READ is two packets as long as its
 * answer fits one, so are a WRITE and a compare-and-swap, each with its answer.
 */
#include "config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <farkv.h>

#include "common/clock.h"
#include "common/util.h"
#include "die.h"

#define ROUND 1000u /* operations whose packets are counted together */
#define ROUNDS_MAX 4u
#define VALUE 256u
#define BATCH 128u
/* Of a get that finds its key: the window twice, the block. */
#define GET_READS 3u

static struct farkv *kv;
static char counters_at[200]; /* of the device */

#define MUST(call)                                                          \
	do {                                                                \
		int err_ = (call);                                          \
		if (err_)                                                   \
			die("%s: %s: %s", #call, farkv_strerror(err_),      \
			    farkv_errdetail());                             \
	} while (0)

static uint64_t read_number(const char *path)
{
	uint64_t n = 0;
	FILE *f = fopen(path, "r");
	char line[64];

	if (!f || !fgets(line, sizeof(line), f))
		die("cannot read %s", path);
	fclose(f);
	line[strcspn(line, "\n")] = '\0';
	if (!util_parse_u64(line, &n))
		die("%s: '%s'", path, line);
	return n;
}

static struct farkv_counters counters(void)
{
	struct farkv_counters n = {.size = sizeof(n)};

	MUST(farkv_counters(kv, &n));
	return n;
}

/* ---- operations --------------------------------------------------------------------- */

static uint8_t value[VALUE];
static size_t new_bytes; /* of values under new keys */

static size_t name_key(char *key, const char *prefix, unsigned i)
{
	return (size_t)snprintf(key, 32, "%s%u", prefix, i);
}

static void want_err(int want, int got, const char *what)
{
	if (want != got)
		die("%s: %s: %s", what, farkv_strerror(got), farkv_errdetail());
}

static void get_hit(unsigned i)
{
	struct farkv_value v;
	char key[32];

	want_err(0, farkv_get(kv, key, name_key(key, "old", i), &v), "get");
}

static void get_miss(unsigned i)
{
	struct farkv_value v;
	char key[32];

	want_err(FARKV_ENOTFOUND,
		 farkv_get(kv, key, name_key(key, "none", i), &v), "get");
}

static void put_over(unsigned i)
{
	char key[32];

	want_err(0, farkv_put(kv, key, name_key(key, "old", i), value, VALUE),
		 "put");
}

static unsigned fresh;

static void put_new(unsigned i)
{
	char key[32];

	(void)i;
	want_err(0, farkv_put(kv, key, name_key(key, "new", fresh++), value,
			      new_bytes), "put");
}

static void add_new(unsigned i)
{
	char key[32];

	(void)i;
	want_err(0, farkv_add(kv, key, name_key(key, "new", fresh++), value,
			      new_bytes), "add");
}

static void add_there(unsigned i)
{
	char key[32];

	want_err(FARKV_EEXISTS,
		 farkv_add(kv, key, name_key(key, "old", i), value, VALUE),
		 "add");
}

static void replace(unsigned i)
{
	char key[32];

	want_err(0, farkv_replace(kv, key, name_key(key, "old", i), value,
				  VALUE), "replace");
}

static uint64_t versions[ROUND];

static void cas(unsigned i)
{
	char key[32];

	want_err(0, farkv_cas(kv, key, name_key(key, "old", i), value, VALUE,
			      versions[i], NULL), "cas");
}

static void cas_prepare(void)
{
	for (unsigned i = 0; i < ROUND; i++) {
		struct farkv_value v;
		char key[32];

		want_err(0, farkv_get(kv, key, name_key(key, "old", i), &v),
			 "get");
		versions[i] = v.version;
	}
}

static unsigned gone;

/* What is to be deleted: large values leave a small block in their place. */
static void small_prepare(void)
{
	new_bytes = 64;
	for (gone = fresh; fresh < gone + ROUND;)
		put_new(0);
}

static void large_prepare(void)
{
	new_bytes = VALUE;
	for (gone = fresh; fresh < gone + ROUND;)
		put_new(0);
}

static void delete(unsigned i)
{
	char key[32];

	(void)i;
	want_err(0, farkv_delete(kv, key, name_key(key, "new", gone++)),
		 "delete");
}

static struct farkv_get_item gets[BATCH];
static char keys[BATCH][32];
static unsigned plain[BATCH]; /* numbers of keys */

/*
 * Keys that meet no other of their fingerprint on the way. Of 128 taken blindly there is
 * one in every seventh store that does, and then in every call.
 */
static void batch_prepare(void)
{
	unsigned n = 0;

	for (unsigned k = 0; k < ROUND && n < BATCH; k++) {
		uint64_t reads = counters().reads;

		get_hit(k);
		if (counters().reads - reads == GET_READS)
			plain[n++] = k;
	}
	if (n < BATCH)
		die("only %u of %u keys are READ at once", n, ROUND);
}

static void get_batch(unsigned i)
{
	(void)i;
	for (unsigned k = 0; k < BATCH; k++)
		gets[k] = (struct farkv_get_item){
			.key = keys[k],
			.key_len = name_key(keys[k], "old", plain[k])};
	want_err(0, farkv_mget(kv, gets, BATCH), "mget");
	for (unsigned k = 0; k < BATCH; k++)
		if (gets[k].result || gets[k].value.len != VALUE)
			die("mget: item %u: %s", k,
			    farkv_strerror(gets[k].result));
}

/* ---- budgets ------------------------------------------------------------------------ */

/*
 * Of one operation; the device's packets follow from the verbs. Words tear here:
 * a get READs its window twice, and so does who ends without having changed anything.
 */
static const struct budget {
	const char *what;
	void (*prepare)(void);
	void (*run)(unsigned i);
	unsigned n; /* calls */
	unsigned round_trips, reads, writes, cas;
	bool asks; /* now and then it waits for the server, and starts over */
} budgets[] = {
	{"GET, hit", NULL, get_hit, ROUND, 2, GET_READS, 0, 0, false},
	{"GET, miss", NULL, get_miss, ROUND, 1, 2, 0, 0, false},
	{"PUT over a value", NULL, put_over, ROUND, 3, 2, 1, 1, false},
	{"PUT of a new key", NULL, put_new, ROUND, 2, 1, 1, 1, false},
	{"ADD of a new key", NULL, add_new, ROUND, 2, 1, 1, 1, false},
	{"ADD, there", NULL, add_there, ROUND, 3, 3, 0, 0, false},
	{"REPLACE", NULL, replace, ROUND, 3, 2, 1, 1, false},
	{"CAS", cas_prepare, cas, ROUND, 3, 2, 1, 1, false},
	{"DELETE", small_prepare, delete, ROUND, 3, 2, 0, 1, false},
	{"DELETE, large", large_prepare, delete, ROUND, 3, 2, 1, 1, true},
	{"128 GETs together", batch_prepare, get_batch, 20, 2,
	 GET_READS * BATCH, 0, 0, false},
};

struct sum {
	unsigned exact, probed, waited, repeated, more; /* calls */
	uint64_t verbs, control, packets, again;
};

/* What of the device's counters tells. */
static uint64_t device(const char *name)
{
	char path[sizeof(counters_at) + 40];

	snprintf(path, sizeof(path), "%s/%s", counters_at, name);
	return read_number(path);
}

/*
 * A call that costs what the budget says, or that met other keys with the same
 * fingerprint on its way (one in about 250 does) and READ their blocks as well.
 */
static void judge(const struct budget *b, const struct farkv_counters *was,
		  const struct farkv_counters *now, struct sum *s)
{
	uint64_t rtt = now->round_trips - was->round_trips;
	uint64_t reads = now->reads - was->reads;
	bool same = now->writes - was->writes == b->writes &&
		    now->cas - was->cas == b->cas &&
		    now->doorbells - was->doorbells == rtt;

	if (now->retries != was->retries)
		s->repeated++;
	else if (same && rtt == b->round_trips && reads == b->reads)
		s->exact++;
	else if (same && rtt <= b->round_trips + 1 && reads > b->reads &&
		 reads <= b->reads + 2)
		s->probed++;
	else if (b->asks && rtt <= 2 * b->round_trips)
		s->waited++;
	else if (s->more++ == 0)
		printf("    %s: %llu round trips, %llu READs, %llu WRITEs, "
		       "%llu CAS, %llu doorbells\n", b->what,
		       (unsigned long long)rtt, (unsigned long long)reads,
		       (unsigned long long)(now->writes - was->writes),
		       (unsigned long long)(now->cas - was->cas),
		       (unsigned long long)(now->doorbells - was->doorbells));
}

static void count_calls(const struct budget *b, struct sum *s)
{
	struct farkv_counters first = counters(), was = first, now = first;
	uint64_t packets = device("sent_pkts");
	uint64_t again = device("completer_retry_err");

	*s = (struct sum){0};
	for (unsigned i = 0; i < b->n; i++, was = now) {
		b->run(i);
		now = counters();
		judge(b, &was, &now, s);
	}
	/* Answers to what was asked ahead of need. */
	clock_sleep_ns(50 * NS_PER_MS);
	s->packets = device("sent_pkts") - packets;
	s->again = device("completer_retry_err") - again;
	s->verbs = now.reads + now.writes + now.cas - first.reads -
		   first.writes - first.cas;
	s->control = counters().control_msgs - first.control_msgs;
}

/*
 * A verb is a packet and its answer. A control message is one and its
 * acknowledgement, and so is the answer to it, which may be four packets long.
 * Where the device sent something again, as on a busy machine, that was at most
 * all of one operation. For what was asked for some operations may wait: the more, the
 * later the answer.
 */
static bool within(const struct budget *b, const struct sum *s)
{
	uint64_t least = 2 * s->verbs + 2 * s->control;
	uint64_t most = least + 6 * s->control +
			s->again * 2 * (b->reads + b->writes + b->cas);
	unsigned odd = s->repeated + s->probed;
	unsigned some = UTIL_MAX(b->n / 50, 1u);

	printf("%s: %u of %u exact, %u probed another, %u waited, %u "
	       "repeated, %u more; %llu verbs, %llu control messages, %llu "
	       "packets, %llu times sent again\n",
	       b->what, s->exact, b->n, s->probed, s->waited, s->repeated,
	       s->more, (unsigned long long)s->verbs,
	       (unsigned long long)s->control, (unsigned long long)s->packets,
	       (unsigned long long)s->again);
	return s->more == 0 && odd <= some && s->control <= some &&
	       s->waited <= 4 * s->control && s->packets >= least &&
	       s->packets <= most;
}

static int count_all(void)
{
	int bad = 0;

	new_bytes = VALUE;
	for (unsigned i = 0; i < ROUND; i++)
		put_over(i);
	for (size_t k = 0; k < ARRAY_SIZE(budgets); k++) {
		const struct budget *b = &budgets[k];
		unsigned rounds = 0;
		struct sum s;

		do {
			if (b->prepare)
				b->prepare();
			count_calls(b, &s);
		} while (!within(b, &s) && ++rounds < ROUNDS_MAX);
		if (rounds == ROUNDS_MAX) {
			fprintf(stderr, "%s: over the budget\n", b->what);
			bad = 1;
		}
	}
	return bad;
}

/* ---- the server's CPU --------------------------------------------------------------- */

#define OPERATIONS 100000u
#define WINDOW 250u /* operations between two looks at the server */
/* Requests for blocks; all others are the client's and its card's. */
#define CONTROL_MOST (OPERATIONS / 1000)
/* The server looks after silent clients: every other second. */
#define WAKES_PER_S 2u
#define WAKES_SPARE 20u

/* What the threads of a process have done. */
struct work {
	uint64_t ns;    /* on a CPU, by the scheduler's clock */
	uint64_t wakes; /* how often they waited for something again */
};

/* The number behind `name` in a file of the thread's. */
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

static struct farkv_put_item puts_[BATCH];

static void mixed_batch(unsigned round)
{
	for (unsigned k = 0; k < BATCH; k++) {
		puts_[k] = (struct farkv_put_item){
			.key = keys[k],
			.key_len = name_key(keys[k], "old",
					    (round * BATCH + k) % ROUND),
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
			get_hit((round * 4 + i) % ROUND);
			put_over((round * 4 + i) % ROUND);
		}
	}
	return done;
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

	for (unsigned i = 0; i < ROUND; i++)
		put_over(i);
	(void)mixed(8000);
	control = counters().control_msgs;
	began = clock_now_ns();
	first = before = work_of(pid);
	for (; n < OPERATIONS; windows++, before = now) {
		n += mixed(WINDOW);
		now = work_of(pid);
		untouched += now.ns == before.ns;
	}
	seconds = (double)(clock_now_ns() - began) / 1e9;
	control = counters().control_msgs - control;
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
	bool cpu = argc == 4 && strcmp(argv[1], "-s") == 0;
	struct farkv_options o;
	int bad;

	if (argc != 3 && !cpu)
		die("usage: rdma_count DEVICE URI | rdma_count -s PID URI");
	farkv_options_init(&o);
	o.op_timeout_ms = 20000;
	MUST(farkv_open(argv[argc - 1], &o, &kv));
	snprintf(counters_at, sizeof(counters_at),
		 "/sys/class/infiniband/%s/ports/1/hw_counters", argv[1]);
	bad = cpu ? count_cpu(argv[2]) : count_all();
	farkv_close(kv);
	return bad;
}
