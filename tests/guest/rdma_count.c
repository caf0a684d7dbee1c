/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What operations cost, counted: by the handle's counters for each operation, and
 * by the device's packets for all of them.
 *
 *	rdma_count DEVICE URI
 *
 * Each table is of a handle of its own: one that remembers nothing, one that does, and a
 * reader that does. On one machine the device counts both ends: a READ is two packets as
 * long as its answer fits one, so are a WRITE and a compare-and-swap, each with its answer.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/util.h"
#include "tests/rig/die.h"

#define ROUND 1000u /* operations whose packets are counted together */
#define ROUNDS_MAX 4u
#define VALUE 256u
#define BATCH 128u
#define BATCHES 20u
/* Of a get that finds its key: the window twice, the block. */
#define GET_READS 3u

/* Many more than keys: no entry is evicted. */
#define REMEMBERED (1u << 20)
#define KEPT (1u << 24)

static struct farkv *kv;    /* whose operations are counted */
static struct farkv *other; /* remembers nothing; fills the store, and interferes */
static char counters_at[200]; /* of the device */

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

static struct farkv_counters counters_of(struct farkv *of)
{
	struct farkv_counters n = {.size = sizeof(n)};

	MUST(farkv_counters(of, &n));
	return n;
}

static struct farkv_counters counters(void)
{
	return counters_of(kv);
}

/* ---- operations --------------------------------------------------------------------- */

enum kind { GET, PUT, ADD, REPLACE, CAS, DELETE, EXISTS, MGET, MEXISTS };
enum keys {
	OLD,  /* with values, always */
	NONE, /* never put */
	NEW,  /* put here for the first time */
	LAST  /* those ROUND keys that were NEW last */
};

/* The repeated operation of a handle. */
struct call {
	enum kind kind;
	enum keys keys;
	int want; /* its result */
	uint64_t version_off; /* CAS: from the version that is there */
};

static uint8_t value[VALUE];
static uint64_t versions[ROUND]; /* of OLD keys, as they were READ last */
static unsigned fresh; /* the number of the next NEW key */
static unsigned last;  /* of the first LAST one */

static struct farkv_get_item gets[BATCH];
static char keys_[BATCH][32];
static unsigned plain[BATCH]; /* numbers of OLD keys */

static int get_batch(struct farkv *h)
{
	for (unsigned k = 0; k < BATCH; k++)
		gets[k] = (struct farkv_get_item){
			.key = keys_[k],
			.key_len = (size_t)snprintf(keys_[k], 32, "old%u",
						    plain[k])};
	MUST(farkv_mget(h, gets, BATCH));
	for (unsigned k = 0; k < BATCH; k++)
		if (gets[k].result || gets[k].value.len != VALUE)
			return gets[k].result ? gets[k].result : FARKV_ECORRUPT;
	return 0;
}

static int ask_batch(struct farkv *h)
{
	struct farkv_key asked[BATCH];
	size_t prefix;

	for (unsigned k = 0; k < BATCH; k++)
		asked[k] = (struct farkv_key){
			keys_[k], (size_t)snprintf(keys_[k], 32, "old%u", plain[k])};
	MUST(farkv_mexists(h, asked, BATCH, NULL, &prefix));
	return prefix == BATCH ? 0 : FARKV_ENOTFOUND;
}

static size_t name_key(char *key, enum keys keys, unsigned i)
{
	static const char *const names[] = {"old", "none", "new", "new"};
	unsigned number = keys == NEW ? fresh : keys == LAST ? last + i : i;

	return (size_t)snprintf(key, 32, "%s%u", names[keys], number);
}

static int call_key(struct farkv *h, const struct call *c, unsigned i,
		    size_t value_bytes)
{
	struct farkv_value v;
	char key[32];
	size_t n = name_key(key, c->keys, i);

	switch (c->kind) {
	case GET:
		return farkv_get(h, key, n, &v);
	case PUT:
		return farkv_put(h, key, n, value, value_bytes);
	case ADD:
		return farkv_add(h, key, n, value, value_bytes);
	case REPLACE:
		return farkv_replace(h, key, n, value, value_bytes);
	case CAS:
		return farkv_cas(h, key, n, value, value_bytes,
				 versions[i] + c->version_off, NULL);
	case DELETE:
		return farkv_delete(h, key, n);
	case EXISTS:
		return farkv_exists(h, key, n);
	case MEXISTS:
		return ask_batch(h);
	default:
		return get_batch(h);
	}
}

static void call(struct farkv *h, const struct call *c, unsigned i,
		 size_t value_bytes)
{
	static const char *const names[] = {"get",     "put", "add",
					    "replace", "cas", "delete",
					    "exists", "mget", "mexists"};
	int err = call_key(h, c, i, value_bytes);

	if (err != c->want)
		die("%s %u: %s: %s", names[c->kind], i, farkv_strerror(err),
		    farkv_errdetail());
	if (c->keys == NEW && c->kind != GET)
		fresh++;
}

/* The same of the ROUND keys. */
static void call_all(struct farkv *h, struct call c, size_t value_bytes)
{
	for (unsigned i = 0; i < ROUND; i++)
		call(h, &c, i, value_bytes);
}

/* ---- before a row of a table ---------------------------------------------------------- */

static void look_at_versions(void)
{
	struct farkv_value v;
	char key[32];

	for (unsigned i = 0; i < ROUND; i++) {
		MUST(farkv_get(kv, key, name_key(key, OLD, i), &v));
		versions[i] = v.version;
	}
}

static void get_all(void)
{
	call_all(kv, (struct call){.kind = GET}, 0);
}

static void other_writes(void)
{
	call_all(other, (struct call){.kind = PUT}, VALUE);
}

/*
 * After correct writes gets use the cached locations, as they do not after too many wrong
 * ones.
 */
static void other_writes_after(void)
{
	call_all(kv, (struct call){.kind = PUT}, VALUE);
	call_all(kv, (struct call){.kind = PUT}, VALUE);
	look_at_versions();
	other_writes();
}

/* What is to be deleted: large values leave a small block in their place. */
static void put_small(void)
{
	last = fresh;
	call_all(kv, (struct call){.kind = PUT, .keys = NEW}, 64);
}

static void put_large(void)
{
	last = fresh;
	call_all(kv, (struct call){.kind = PUT, .keys = NEW}, VALUE);
}

static void put_and_delete(void)
{
	put_small();
	call_all(kv, (struct call){.kind = DELETE, .keys = LAST}, 0);
}

static void other_deletes(void)
{
	put_small();
	call_all(other, (struct call){.kind = DELETE, .keys = LAST}, 0);
}

/*
 * Keys that meet no other of their fingerprint on the way. Of 128 taken blindly there is
 * one in every seventh store that does, and then in every call.
 */
static void find_plain(void)
{
	struct call get = {.kind = GET};
	unsigned n = 0;

	for (unsigned k = 0; k < ROUND && n < BATCH; k++) {
		uint64_t reads = counters().reads;

		call(kv, &get, k, 0);
		if (counters().reads - reads == GET_READS)
			plain[n++] = k;
	}
	if (n < BATCH)
		die("only %u of %u keys are READ at once", n, ROUND);
}

/* ---- budgets ------------------------------------------------------------------------ */

/* Of one operation; the device's packets follow from the verbs. */
struct cost {
	unsigned round_trips, reads, writes, cas;
	unsigned retries; /* steps that had to be repeated */
};

struct budget {
	const char *what;
	void (*prepare)(void);
	struct call call;
	struct cost cost;
	/* Extra verbs of an operation that finds other keys of its fingerprint. */
	unsigned round_trips_more;
	bool after_get; /* of the same key; the get is not counted */
	bool asks; /* now and then it waits for the server, and starts over */
};

#define COST(...) .cost = {__VA_ARGS__}

/*
 * Words tear here: a get READs its window twice, and so does an operation that changes
 * nothing.
 */
static const struct budget searching[] = {
	{"GET, hit", NULL, {.kind = GET}, COST(2, GET_READS, 0, 0, 0),
	 .round_trips_more = 1},
	{"GET, miss", NULL, {GET, NONE, FARKV_ENOTFOUND, 0}, COST(1, 2, 0, 0, 0),
	 .round_trips_more = 1},
	{"PUT over a value", NULL, {.kind = PUT}, COST(3, 2, 1, 1, 0),
	 .round_trips_more = 1},
	{"PUT of a new key", NULL, {PUT, NEW, 0, 0}, COST(2, 1, 1, 1, 0),
	 .round_trips_more = 2},
	{"ADD of a new key", NULL, {ADD, NEW, 0, 0}, COST(2, 1, 1, 1, 0),
	 .round_trips_more = 2},
	{"ADD, there", NULL, {ADD, OLD, FARKV_EEXISTS, 0}, COST(3, 3, 0, 0, 0),
	 .round_trips_more = 1},
	{"REPLACE", NULL, {.kind = REPLACE}, COST(3, 2, 1, 1, 0),
	 .round_trips_more = 1},
	{"CAS", look_at_versions, {.kind = CAS}, COST(3, 2, 1, 1, 0),
	 .round_trips_more = 1},
	{"DELETE", put_small, {DELETE, LAST, 0, 0}, COST(3, 2, 0, 1, 0),
	 .round_trips_more = 1},
	{"DELETE, large", put_large, {DELETE, LAST, 0, 0}, COST(3, 2, 1, 1, 0),
	 .round_trips_more = 1, .asks = true},
	{"128 GETs together", find_plain, {.kind = MGET},
	 COST(2, GET_READS * BATCH, 0, 0, 0)},
	{"EXISTS", NULL, {.kind = EXISTS}, COST(2, GET_READS, 0, 0, 0),
	 .round_trips_more = 1},
	{"EXISTS, missing", NULL, {EXISTS, NONE, FARKV_ENOTFOUND, 0}, COST(1, 2, 0, 0, 0),
	 .round_trips_more = 1},
	{"128 EXISTS together", find_plain, {.kind = MEXISTS},
	 COST(2, GET_READS * BATCH, 0, 0, 0)},
};

/*
 * Words tear here, so the slot is read by a CAS of the word to itself. An insert by a
 * cached window is not possible if the window has another key of its fingerprint.
 */
static const struct budget remembered[] = {
	{"GET, hit", NULL, {.kind = GET}, COST(1, 1, 0, 1, 0)},
	{"GET, deleted", put_and_delete, {GET, LAST, FARKV_ENOTFOUND, 0},
	 COST(1, 0, 0, 1, 0)},
	{"PUT over a value", NULL, {.kind = PUT}, COST(1, 0, 1, 1, 0)},
	{"PUT of a key that a get missed", NULL, {PUT, NEW, 0, 0},
	 COST(1, 0, 1, 1, 0), .round_trips_more = 3, .after_get = true},
	{"PUT, deleted", put_and_delete, {PUT, LAST, 0, 0}, COST(1, 0, 1, 1, 0)},
	{"ADD of a key that a get missed", NULL, {ADD, NEW, 0, 0},
	 COST(1, 0, 1, 1, 0), .round_trips_more = 3, .after_get = true},
	{"ADD, there", NULL, {ADD, OLD, FARKV_EEXISTS, 0}, COST(1, 0, 0, 1, 0)},
	{"ADD, deleted", put_and_delete, {ADD, LAST, 0, 0}, COST(1, 0, 1, 1, 0)},
	{"REPLACE", NULL, {.kind = REPLACE}, COST(1, 0, 1, 1, 0)},
	{"REPLACE, deleted", put_and_delete,
	 {REPLACE, LAST, FARKV_ENOTFOUND, 0}, COST(1, 0, 0, 1, 0)},
	{"CAS", look_at_versions, {.kind = CAS}, COST(1, 0, 1, 1, 0)},
	{"CAS, another version", look_at_versions, {CAS, OLD, FARKV_EVERSION, 1},
	 COST(1, 0, 0, 1, 0)},
	{"CAS, deleted", put_and_delete, {CAS, LAST, FARKV_ENOTFOUND, 0},
	 COST(1, 0, 0, 1, 0)},
	{"DELETE", put_small, {DELETE, LAST, 0, 0}, COST(1, 0, 0, 1, 0)},
	{"DELETE, large", put_large, {DELETE, LAST, 0, 0}, COST(1, 0, 1, 1, 0),
	 .asks = true},
	{"DELETE, deleted", put_and_delete, {DELETE, LAST, FARKV_ENOTFOUND, 0},
	 COST(1, 0, 0, 1, 0)},
	{"128 GETs together", NULL, {.kind = MGET}, COST(1, BATCH, 0, BATCH, 0)},
	{"EXISTS", NULL, {.kind = EXISTS}, COST(1, 0, 0, 1, 0)},
	{"EXISTS, deleted", put_and_delete, {EXISTS, LAST, FARKV_ENOTFOUND, 0},
	 COST(1, 0, 0, 1, 0)},
	/* What another wrote may have expired: CLOCK, which is READ twice, and the header tell. */
	{"EXISTS, written by another", other_writes_after, {.kind = EXISTS},
	 COST(2, 3, 0, 2, 0)},
	{"EXISTS, deleted by another", other_deletes, {EXISTS, LAST, FARKV_ENOTFOUND, 0},
	 COST(1, 0, 0, 1, 0)},
	{"128 EXISTS together", NULL, {.kind = MEXISTS}, COST(1, 0, 0, BATCH, 0)},
	{"GET, written by another", other_writes_after, {.kind = GET},
	 COST(2, 2, 0, 2, 0)},
	{"GET, deleted by another", other_deletes,
	 {GET, LAST, FARKV_ENOTFOUND, 0}, COST(1, 1, 0, 1, 0)},
	{"PUT, written by another", other_writes_after, {.kind = PUT},
	 COST(2, 0, 1, 2, 1)},
	/* CLOCK twice, and the header. */
	{"CAS, written by another", other_writes_after,
	 {CAS, OLD, FARKV_EVERSION, 0}, COST(2, 3, 1, 2, 1)},
	{"REPLACE, written by another", other_writes_after, {.kind = REPLACE},
	 COST(3, 3, 1, 3, 1)},
	{"ADD, written by another", other_writes_after, {ADD, OLD, FARKV_EEXISTS, 0},
	 COST(2, 3, 0, 2, 0)},
};

/* Of a cached value only the slot is read. */
static const struct budget keeping[] = {
	{"GET, kept", get_all, {.kind = GET}, COST(1, 0, 0, 1, 0)},
	{"128 GETs together", NULL, {.kind = MGET}, COST(1, 0, 0, BATCH, 0)},
	{"PUT over a value", NULL, {.kind = PUT}, COST(1, 0, 1, 1, 0)},
	{"GET of what it has put", NULL, {.kind = GET}, COST(1, 0, 0, 1, 0)},
	{"GET, written by another", other_writes_after, {.kind = GET},
	 COST(2, 1, 0, 2, 0)},
	{"GET, cached again", NULL, {.kind = GET}, COST(1, 0, 0, 1, 0)},
};

/* A reader, which may not swap, READs the word twice. */
static const struct budget reading[] = {
	{"GET, hit", NULL, {.kind = GET}, COST(1, 3, 0, 0, 0)},
	{"128 GETs together", NULL, {.kind = MGET}, COST(1, 3 * BATCH, 0, 0, 0)},
	{"EXISTS", NULL, {.kind = EXISTS}, COST(1, 2, 0, 0, 0)},
	{"128 EXISTS together", NULL, {.kind = MEXISTS}, COST(1, 2 * BATCH, 0, 0, 0)},
	{"GET, written by another", other_writes, {.kind = GET}, COST(2, 6, 0, 0, 0)},
};

static const struct budget keeping_reader[] = {
	{"GET, kept", get_all, {.kind = GET}, COST(1, 2, 0, 0, 0)},
};

struct sum {
	unsigned exact, probed, waited, repeated, more; /* calls */
	uint64_t verbs, control, packets, again;
};

static unsigned calls(const struct budget *b)
{
	return b->call.kind == MGET || b->call.kind == MEXISTS ? BATCHES : ROUND;
}

/* The device's counters that are compared. */
static uint64_t device(const char *name)
{
	char path[sizeof(counters_at) + 40];

	snprintf(path, sizeof(path), "%s/%s", counters_at, name);
	return read_number(path);
}

static struct cost cost_between(const struct farkv_counters *was,
				const struct farkv_counters *now)
{
	return (struct cost){(unsigned)(now->round_trips - was->round_trips),
			     (unsigned)(now->reads - was->reads),
			     (unsigned)(now->writes - was->writes),
			     (unsigned)(now->cas - was->cas),
			     (unsigned)(now->retries - was->retries)};
}

/*
 * A call that costs what the budget says, or that met other keys with the same
 * fingerprint on its way (one in about 250 does) and READ their blocks as well.
 */
static void judge(const struct budget *b, const struct farkv_counters *was,
		  const struct farkv_counters *now, struct sum *s)
{
	struct cost c = cost_between(was, now);
	uint64_t doorbells = now->doorbells - was->doorbells;
	bool same = c.writes == b->cost.writes && c.cas == b->cost.cas &&
		    doorbells == c.round_trips;
	unsigned rtt = b->cost.round_trips;

	if (c.retries != b->cost.retries)
		s->repeated++;
	else if (same && c.round_trips == rtt && c.reads == b->cost.reads)
		s->exact++;
	else if (same && c.round_trips <= rtt + b->round_trips_more &&
		 c.reads > b->cost.reads &&
		 c.reads <= b->cost.reads + b->round_trips_more + 1)
		s->probed++;
	else if (b->asks && c.round_trips <= 2 * rtt)
		s->waited++;
	else if (s->more++ == 0)
		printf("    %s: %u round trips, %u READs, %u WRITEs, %u CAS, "
		       "%llu doorbells\n", b->what, c.round_trips, c.reads,
		       c.writes, c.cas, (unsigned long long)doorbells);
}

/* Verbs and messages of all handles, which the device does not distinguish. */
static uint64_t verbs(void)
{
	struct farkv_counters a = counters(), b = counters_of(other);

	return a.reads + a.writes + a.cas + b.reads + b.writes + b.cas;
}

static uint64_t messages(void)
{
	return counters().control_msgs + counters_of(other).control_msgs;
}

/*
 * For answers to early requests, and for the kernel, which updates its counters only if
 * they were last read `lifespan` ago, 10 ms.
 */
static void rest(void)
{
	clock_sleep_ns(50 * NS_PER_MS);
}

static void count_calls(const struct budget *b, struct sum *s)
{
	uint64_t verbs_before, control, packets, again;
	struct call miss = {.kind = GET,
			    .keys = b->call.keys,
			    .want = FARKV_ENOTFOUND};
	struct farkv_counters was, now;

	rest();
	packets = device("sent_pkts");
	again = device("completer_retry_err");
	verbs_before = verbs();
	control = messages();
	*s = (struct sum){0};
	for (unsigned i = 0; i < calls(b); i++) {
		if (b->after_get)
			call(kv, &miss, i, 0);
		was = counters();
		call(kv, &b->call, i, VALUE);
		now = counters();
		judge(b, &was, &now, s);
	}
	rest();
	s->packets = device("sent_pkts") - packets;
	s->again = device("completer_retry_err") - again;
	s->verbs = verbs() - verbs_before;
	s->control = messages() - control;
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
			s->again * 2 * (b->cost.reads + b->cost.writes +
					b->cost.cas);
	unsigned odd = s->repeated + s->probed;
	unsigned some = UTIL_MAX(calls(b) / 50, 1u);

	printf("%s: %u of %u exact, %u probed another, %u waited, %u "
	       "repeated, %u more; %llu verbs, %llu control messages, %llu "
	       "packets, %llu times sent again\n",
	       b->what, s->exact, calls(b), s->probed, s->waited, s->repeated,
	       s->more, (unsigned long long)s->verbs,
	       (unsigned long long)s->control, (unsigned long long)s->packets,
	       (unsigned long long)s->again);
	return s->more == 0 && odd <= some && s->control <= some &&
	       s->waited <= 4 * s->control && s->packets >= least &&
	       s->packets <= most;
}

static int count_row(const struct budget *b)
{
	struct sum s;

	for (unsigned round = 0; round < ROUNDS_MAX; round++) {
		if (b->prepare)
			b->prepare();
		count_calls(b, &s);
		if (within(b, &s))
			return 0;
	}
	fprintf(stderr, "%s: over the budget\n", b->what);
	return 1;
}

/* ---- tables ------------------------------------------------------------------------- */

static struct farkv *open_handle(const char *uri, uint32_t flags,
				 uint32_t cache_entries, size_t cache_bytes)
{
	struct farkv_options o;
	struct farkv *opened;

	farkv_options_init(&o);
	o.op_timeout_ms = 20000;
	o.flags = flags;
	o.cache_entries = cache_entries;
	o.cache_bytes = cache_bytes;
	MUST(farkv_open(uri, &o, &opened));
	return opened;
}

static const struct table {
	const char *what;
	const struct budget *rows;
	size_t n;
	uint32_t flags, cache_entries, cache_bytes;
} tables[] = {
	{"nothing is remembered", searching, ARRAY_SIZE(searching), 0, 0, 0},
	{"keys are remembered", remembered, ARRAY_SIZE(remembered), 0,
	 REMEMBERED, 0},
	{"values are kept, too", keeping, ARRAY_SIZE(keeping), 0, REMEMBERED, KEPT},
	{"a reader remembers keys", reading, ARRAY_SIZE(reading),
	 FARKV_OPEN_READONLY, REMEMBERED, 0},
	{"a reader keeps values", keeping_reader, ARRAY_SIZE(keeping_reader),
	 FARKV_OPEN_READONLY, REMEMBERED, KEPT},
};

static int count_table(const struct table *t, const char *uri)
{
	int bad = 0;

	printf("-- %s\n", t->what);
	kv = open_handle(uri, t->flags, t->cache_entries, t->cache_bytes);
	get_all();
	for (size_t i = 0; i < t->n; i++)
		bad |= count_row(&t->rows[i]);
	farkv_close(kv);
	return bad;
}

int main(int argc, char **argv)
{
	int bad = 0;

	if (argc != 3)
		die("usage: rdma_count DEVICE URI");
	snprintf(counters_at, sizeof(counters_at),
		 "/sys/class/infiniband/%s/ports/1/hw_counters", argv[1]);
	other = open_handle(argv[2], 0, 0, 0);
	other_writes();
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		bad |= count_table(&tables[i], argv[2]);
	farkv_close(other);
	return bad;
}
