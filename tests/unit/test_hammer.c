/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Four processes on few keys. Every value names its writer, sequence number and length,
 * and its bytes follow from these. So the next reader detects a torn value, a block
 * reused too early, an old value that comes back, a lost update and a second winner.
 * FARKV_TEST_SEED repeats a run's choices, FARKV_TEST_MS makes it longer.
 */
#include "config.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farkv.h>

#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"

#define KEYS 3u
#define PROCESSES 4u
#define WRITERS_MAX 64u
#define VALUE_MAX (100u << 10)
#define RUN_MS 700u
#define REMOTE_MS 4800u /* RDMA is slower */
#define LOOK(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define ROUNDS_MAX 60000u

struct value_head {
	uint32_t key, writer;
	uint64_t seq;
	uint64_t len; /* all of it */
};

/* Reports of the processes to the test; each writes its own part, except `held`. */
struct tally {
	uint64_t ops, reads, writes, no_space, bytes_written;
	uint64_t cas_won, cas_lost, locks;
};

struct board {
	struct tally by[WRITERS_MAX];
	uint32_t held; /* processes that believe to hold the lock key */
	uint32_t round; /* of the race to add a new key */
	uint32_t arrived[ROUNDS_MAX];
	uint32_t winners[ROUNDS_MAX];
};

/* What a process knows about a key. */
struct knowledge {
	uint64_t floor[WRITERS_MAX]; /* per writer, the oldest write that may still appear */
	bool seen;                   /* the value seen last: */
	uint32_t writer;
	uint64_t seq, version;
};

struct hammer {
	struct farkv *kv;
	struct tally *t;
	uint32_t me;
	uint64_t seq, random, last_count;
	struct knowledge k[KEYS];
	uint8_t *buf;           /* to write from, KEYS of VALUE_MAX */
	uint8_t *copy;          /* to read into */
};

static struct board *board;
static struct real_server srv;
static uint64_t seed;

/* ---- values ---------------------------------------------------------------- */

static uint64_t rnd(uint64_t *x)
{
	uint64_t z = (*x += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

/* A check that fails ends the process; the test sees its status. */
#define MUST(cond, ...)                                               \
	do {                                                          \
		if (!(cond)) {                                        \
			fprintf(stderr, "hammer: " __VA_ARGS__);      \
			fprintf(stderr, " (%s; seed %llu; %s)\n",     \
				#cond, (unsigned long long)seed,      \
				farkv_errdetail());                   \
			_exit(1);                                     \
		}                                                     \
	} while (0)

static uint64_t pattern_seed(const struct value_head *h)
{
	return h->seq * 1000003 + h->writer * 7919 + h->key;
}

static size_t value_size(struct hammer *h)
{
	static const uint32_t sizes[] = {0, 24, 100, 100, 1000, 1000, 30000,
					 VALUE_MAX};
	uint64_t r = rnd(&h->random);
	uint32_t size = sizes[r % 8];

	/* Vary the length, stay in the size class. */
	return size > 24 ? size - (r >> 8) % (size / 32) : size;
}

static size_t value_make(struct hammer *h, uint32_t key, uint8_t *out)
{
	struct value_head head = {key, h->me, ++h->seq, value_size(h)};
	uint64_t x = pattern_seed(&head), word;
	size_t i = sizeof(head);

	if (head.len == 0)
		return 0;
	memcpy(out, &head, sizeof(head));
	for (; i + 8 <= head.len; i += 8) {
		word = rnd(&x);
		memcpy(out + i, &word, 8);
	}
	word = rnd(&x);
	memcpy(out + i, &word, head.len - i);
	return head.len;
}

#define TORN "torn at byte %zu of %zu, writer %u, write %llu"

static struct value_head value_check(const void *data, size_t len, uint32_t key)
{
	const uint8_t *p = data;
	size_t i = sizeof(struct value_head);
	struct value_head head;
	uint64_t x, word, found;

	MUST(len >= sizeof(head), "a value of %zu bytes", len);
	memcpy(&head, p, sizeof(head));
	MUST(head.key == key, "key %u has a value of key %u", key, head.key);
	MUST(head.len == len, "a value of %zu bytes says %zu", len,
	     (size_t)head.len);
	MUST(head.writer < WRITERS_MAX, "writer %u", head.writer);
	x = pattern_seed(&head);
	for (; i + 8 <= len; i += 8) {
		word = rnd(&x);
		memcpy(&found, p + i, 8);
		MUST(found == word, TORN, i, len, head.writer,
		     (unsigned long long)head.seq);
	}
	word = rnd(&x);
	MUST(memcmp(p + i, &word, len - i) == 0, TORN, i, len, head.writer,
	     (unsigned long long)head.seq);
	return head;
}

/* ---- what may be seen ------------------------------------------------------ */

/* The last value seen is certainly replaced, and never comes back. */
static void left(struct knowledge *k)
{
	if (k->seen && k->floor[k->writer] <= k->seq)
		k->floor[k->writer] = k->seq + 1;
	k->seen = false;
}

static void saw_value(struct hammer *h, uint32_t key, const void *data,
		      size_t len, uint64_t version)
{
	struct knowledge *k = &h->k[key];
	struct value_head head;

	h->t->reads++;
	if (len == 0) { /* not a value of this test */
		left(k);
		return;
	}
	head = value_check(data, len, key);
	if (k->seen && k->version == version) {
		MUST(k->writer == head.writer && k->seq == head.seq,
		     "one version, two values");
		return;
	}
	left(k);
	MUST(head.seq >= k->floor[head.writer],
	     "key %u: write %llu of writer %u is back, %llu is the oldest "
	     "possible", key, (unsigned long long)head.seq, head.writer,
	     (unsigned long long)k->floor[head.writer]);
	k->seen = true;
	k->writer = head.writer;
	k->seq = head.seq;
	k->version = version;
	k->floor[head.writer] = head.seq;
}

static void saw(struct hammer *h, uint32_t key, int err,
		const struct farkv_value *v)
{
	if (err == FARKV_ENOTFOUND) {
		left(&h->k[key]);
		return;
	}
	MUST(err == 0, "get: %s", farkv_strerror(err));
	saw_value(h, key, v->data, v->len, v->version);
}

/* The write number `seq` of this process took place (or did not). */
static void wrote(struct hammer *h, uint32_t key, uint64_t seq, size_t len,
		  int err)
{
	struct knowledge *k = &h->k[key];

	if (err == FARKV_EEXISTS)
		return;
	if (err == FARKV_ENOSPC) {
		h->t->no_space++;
		return;
	}
	left(k); /* replaced, deleted, or found to be absent */
	if (err == FARKV_ENOTFOUND)
		return;
	MUST(err == 0, "write: %s", farkv_strerror(err));
	h->t->writes++;
	h->t->bytes_written += len;
	k->floor[h->me] = seq;
}

/* ---- operations ------------------------------------------------------------ */

static void do_get(struct hammer *h, uint32_t key)
{
	struct farkv_value v = {0};
	size_t len = 0;
	int err;

	if (rnd(&h->random) % 4) {
		err = farkv_get(h->kv, &key, sizeof(key), &v);
	} else {
		err = farkv_get_into(h->kv, &key, sizeof(key), h->copy,
				     VALUE_MAX, &len, &v.version);
		v.data = h->copy;
		v.len = len;
	}
	saw(h, key, err, &v);
}

static void do_write(struct hammer *h, uint32_t key, unsigned kind)
{
	size_t len = value_make(h, key, h->buf);
	int err;

	if (kind == 0)
		err = farkv_add(h->kv, &key, sizeof(key), h->buf, len);
	else if (kind == 1)
		err = farkv_replace(h->kv, &key, sizeof(key), h->buf, len);
	else
		err = farkv_put(h->kv, &key, sizeof(key), h->buf, len);
	wrote(h, key, h->seq, len, err);
}

static void do_delete(struct hammer *h, uint32_t key)
{
	int err = farkv_delete(h->kv, &key, sizeof(key));

	MUST(err == 0 || err == FARKV_ENOTFOUND, "delete: %s",
	     farkv_strerror(err));
	left(&h->k[key]);
	h->k[key].floor[h->me] = h->seq + 1;
}

static void do_mget(struct hammer *h)
{
	struct farkv_get_item it[KEYS];
	uint32_t keys[KEYS];
	int err;

	for (uint32_t i = 0; i < KEYS; i++) {
		keys[i] = i;
		it[i] = (struct farkv_get_item){.key = &keys[i],
						.key_len = sizeof(keys[i])};
	}
	err = farkv_mget(h->kv, it, KEYS);
	MUST(err == 0, "mget: %s", farkv_strerror(err));
	for (uint32_t i = 0; i < KEYS; i++)
		saw(h, i, it[i].result, &it[i].value);
}

static void do_mput(struct hammer *h)
{
	struct farkv_put_item it[KEYS];
	uint32_t keys[KEYS];
	uint64_t seq[KEYS];

	for (uint32_t i = 0; i < KEYS; i++) {
		uint8_t *p = h->buf + (size_t)i * VALUE_MAX;

		keys[i] = i;
		it[i] = (struct farkv_put_item){
			.key = &keys[i], .key_len = sizeof(keys[i]),
			.value = p, .value_len = value_make(h, i, p)};
		seq[i] = h->seq;
	}
	(void)!farkv_mput(h->kv, it, KEYS);
	for (uint32_t i = 0; i < KEYS; i++)
		wrote(h, i, seq[i], it[i].value_len, it[i].result);
}

/* A counter of any length, raised by cas alone: no update may be lost. */
static void do_count(struct hammer *h)
{
	struct farkv_value v;
	uint64_t n;
	size_t len;
	int err = farkv_get(h->kv, "count", 5, &v);

	MUST(err == 0 && v.len >= sizeof(n), "counter: %s",
	     farkv_strerror(err));
	memcpy(&n, v.data, sizeof(n));
	MUST(n >= h->last_count, "the counter went from %llu to %llu",
	     (unsigned long long)h->last_count, (unsigned long long)n);
	MUST(v.len == 8 + n % 600, "counter: %zu bytes", v.len);
	h->last_count = n++;
	len = 8 + n % 600;
	memset(h->buf, (int)n, len);
	memcpy(h->buf, &n, sizeof(n));
	err = farkv_cas(h->kv, "count", 5, h->buf, len, v.version, NULL);
	MUST(err == 0 || err == FARKV_EVERSION || err == FARKV_ENOSPC,
	     "cas: %s", farkv_strerror(err));
	if (err == 0)
		h->t->cas_won++;
	else
		h->t->cas_lost++;
}

/* add takes the lock, delete gives it back: one holder at any time. */
static void do_lock(struct hammer *h)
{
	int err = farkv_add(h->kv, "lock", 4, &h->me, sizeof(h->me));

	if (err) {
		MUST(err == FARKV_EEXISTS || err == FARKV_ENOSPC, "add: %s",
		     farkv_strerror(err));
		return;
	}
	MUST(__atomic_add_fetch(&board->held, 1, __ATOMIC_SEQ_CST) == 1,
	     "two processes added one key");
	h->t->locks++;
	MUST(farkv_replace(h->kv, "lock", 4, "mine", 4) != FARKV_ENOTFOUND,
	     "the lock is gone");
	MUST(__atomic_sub_fetch(&board->held, 1, __ATOMIC_SEQ_CST) == 0,
	     "two processes held the lock");
	MUST(farkv_delete(h->kv, "lock", 4) == 0, "the lock was taken away");
}

/* All race to store a key that never existed: one wins. */
static void do_race(struct hammer *h)
{
	uint32_t r = __atomic_load_n(&board->round, __ATOMIC_SEQ_CST);
	uint32_t key[2] = {r, UINT32_MAX}, next = r;
	struct farkv_value v;
	int err;

	if (r >= ROUNDS_MAX)
		return;
	/* A tighter race than the scheduler gives: wait for another process. */
	if (__atomic_add_fetch(&board->arrived[r], 1, __ATOMIC_SEQ_CST) == 1)
		for (int i = 0; i < 20000 &&
				__atomic_load_n(&board->arrived[r],
						__ATOMIC_SEQ_CST) < 2; i++)
			;
	err = farkv_add(h->kv, key, sizeof(key), &h->me, sizeof(h->me));
	if (err == FARKV_ENOSPC)
		return;
	MUST(err == 0 || err == FARKV_EEXISTS, "add: %s", farkv_strerror(err));
	if (err == 0)
		__atomic_add_fetch(&board->winners[r], 1, __ATOMIC_SEQ_CST);
	err = farkv_get(h->kv, key, sizeof(key), &v);
	MUST(err == 0 && v.len == sizeof(h->me), "the winner's value: %s",
	     farkv_strerror(err));
	__atomic_compare_exchange_n(&board->round, &next, r + 1, false,
				    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void one_op(struct hammer *h, bool mortal)
{
	uint32_t r = (uint32_t)(rnd(&h->random) >> 32), key = r % KEYS;

	h->t->ops++;
	/* Races are short: a bug that let two win showed in some of 60,000. */
	if (!mortal && r / KEYS / 16 % 2) {
		do_race(h);
		return;
	}
	switch (r / KEYS % 16) {
	case 0:
	case 1:
		do_write(h, key, 0);
		break;
	case 2:
		do_write(h, key, 1);
		break;
	case 3:
	case 4:
	case 5:
		do_write(h, key, 2);
		break;
	case 6:
		do_delete(h, key);
		break;
	case 7:
		do_mput(h);
		break;
	case 8:
		do_mget(h);
		break;
	case 9:
	case 10:
		do_count(h);
		break;
	case 11:
		if (!mortal) /* its death would leave the lock taken */
			do_lock(h);
		break;
	default:
		do_get(h, key);
	}
}

/* ---- processes ------------------------------------------------------------- */

static unsigned run_ms(void)
{
	const char *ms = getenv("FARKV_TEST_MS");

	if (ms)
		return (unsigned)atoi(ms);
	return real_server_is_remote() ? REMOTE_MS : RUN_MS;
}

/* Over RDMA the whole region is locked, so a smaller one is used. */
static const char *memory(const char *shm)
{
	return real_server_is_remote() ? "64m" : shm;
}

/*
 * Operations of all processes so far; the counts are theirs, so a late reading is good
 * enough.
 */
static struct tally tally_sum(void)
{
	struct tally sum = {0};

	for (unsigned i = 0; i < WRITERS_MAX; i++) {
		const struct tally *t = &board->by[i];

		sum.ops += LOOK(t->ops);
		sum.reads += LOOK(t->reads);
		sum.writes += LOOK(t->writes);
		sum.no_space += LOOK(t->no_space);
		sum.bytes_written += LOOK(t->bytes_written);
		sum.cas_won += LOOK(t->cas_won);
		sum.cas_lost += LOOK(t->cas_lost);
		sum.locks += LOOK(t->locks);
	}
	return sum;
}

/* Every kind of work was done, on a slow machine too. */
static bool worked_enough(void)
{
	struct tally sum = tally_sum();

	return sum.reads > 100 && sum.writes > 100 && sum.cas_won > 10 &&
	       sum.locks > 10 && LOOK(board->round) > 10;
}

static void hammer_main(uint32_t me, unsigned ms)
{
	struct hammer h = {.me = me, .t = &board->by[me],
			   .random = seed + me};
	uint64_t end = e2e_now_ms() + ms;
	struct farkv_options o;

	farkv_options_init(&o);
	o.op_timeout_ms = 20000;
	h.buf = malloc(KEYS * (size_t)VALUE_MAX);
	h.copy = malloc(VALUE_MAX);
	MUST(h.buf && h.copy, "no memory");
	MUST(farkv_open(srv.path, &o, &h.kv) == 0, "open");
	while (ms == 0 || e2e_now_ms() < end || !worked_enough())
		for (int i = 0; i < 20; i++)
			one_op(&h, ms == 0);
	farkv_close(h.kv);
	free(h.buf);
	free(h.copy);
	_exit(0);
}

/* `ms` 0: forever. */
static pid_t hammer_start(uint32_t me, unsigned ms)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		hammer_main(me, ms);
	}
	return pid;
}

static void hammer_end(pid_t pid, int want)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == want, "process ended with 0x%x; seed %llu",
		      (unsigned)status, (unsigned long long)seed);
}

static void start(const char *memory, const char *grace_ms)
{
	const char *args[] = {"-m", memory, "-I", "1m", "--grace-ms", grace_ms,
			      NULL};
	const char *given = getenv("FARKV_TEST_SEED");
	struct farkv *kv;

	seed = given ? strtoull(given, NULL, 0)
		     : e2e_now_ms() * 1000 + (uint64_t)getpid();
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(board, MAP_FAILED);
	real_server_init(&srv, args);
	kv = e2e_open(srv.path, 30000);
	OK(farkv_put(kv, "count", 5, "\0\0\0\0\0\0\0\0", 8));
	farkv_close(kv);
}

/*
 * Every block that no slot names has come back. A BYE may have been lost while the server
 * was busy; then a sweep follows.
 */
static void wait_returned(struct farkv *kv, struct farkv_stats *s)
{
	uint64_t end = e2e_now_ms() + 30000;

	while (s->blocks_granted != s->items + s->dead_slots &&
	       e2e_now_ms() < end) {
		usleep(10000);
		OK(farkv_stats(kv, s));
	}
	ck_assert_uint_eq(s->blocks_granted, s->items + s->dead_slots);
}

/* No update of the counter was lost. */
static void finish(const char *what, uint32_t mortals)
{
	struct tally sum = tally_sum();
	struct farkv_stats s = {.size = sizeof(s)};
	struct farkv *kv = e2e_open(srv.path, 30000);
	struct farkv_value v;
	uint64_t count;

	OK(farkv_get(kv, "count", 5, &v));
	memcpy(&count, v.data, sizeof(count));
	OK(farkv_stats(kv, &s));
	printf("  %s: %llu ops, %llu reads, %llu writes (%llu MiB), counter "
	       "%llu = %llu won, %llu lost, %llu locks, %llu no space\n",
	       what, (unsigned long long)sum.ops,
	       (unsigned long long)sum.reads, (unsigned long long)sum.writes,
	       (unsigned long long)sum.bytes_written >> 20,
	       (unsigned long long)count, (unsigned long long)sum.cas_won,
	       (unsigned long long)sum.cas_lost,
	       (unsigned long long)sum.locks,
	       (unsigned long long)sum.no_space);
	fflush(stdout);
	/* One killed between its CAS and the note of it counted unseen. */
	ck_assert_uint_ge(count, sum.cas_won);
	ck_assert_uint_le(count, sum.cas_won + mortals);
	ck_assert(worked_enough());
	ck_assert_uint_eq(s.protocol_errors, 0);
	for (uint32_t r = 0; r < board->round; r++) {
		uint32_t key[2] = {r, UINT32_MAX};

		ck_assert_uint_eq(board->winners[r], 1);
		OK(farkv_delete(kv, key, sizeof(key)));
		FAILS(FARKV_ENOTFOUND, farkv_get(kv, key, sizeof(key), &v));
	}
	/* One slot for each key and no duplicates. */
	ck_assert_uint_le(s.items, KEYS + 1 + board->round);
	ck_assert_uint_le(s.items + s.dead_slots, KEYS + 2 + board->round);
	if (!mortals)
		wait_returned(kv, &s);
	farkv_close(kv);
	real_server_fini(&srv);
}

static void run(const char *what, const char *memory, const char *grace_ms)
{
	pid_t pid[PROCESSES];

	start(memory, grace_ms);
	for (uint32_t i = 0; i < PROCESSES; i++)
		pid[i] = hammer_start(i, run_ms());
	for (uint32_t i = 0; i < PROCESSES; i++)
		hammer_end(pid[i], 0);
	finish(what, 0);
}

TEST_GROUP(.timeout_s = 60 + 3 * run_ms() / 1000);

TEST(processes_on_few_keys_lose_no_update)
{
	run("T 100 ms", memory("256m"), "100");
}

/* Blocks are reused as fast as the protocol allows. */
TEST(processes_with_a_short_grace_period_lose_no_update)
{
	run("T 5 ms", "32m", "5");
}

/* Processes die at any point; the others go on, and what is stored is whole. */
TEST(processes_killed_at_any_point_leave_whole_values)
{
	unsigned ms = run_ms();
	pid_t pid[PROCESSES];
	uint32_t dead = 0;
	uint64_t end;

	start(memory("256m"), "5");
	end = e2e_now_ms() + ms;
	for (uint32_t i = 0; i < PROCESSES - 1; i++)
		pid[i] = hammer_start(i, ms);
	while ((e2e_now_ms() < end || dead < 3) &&
	       dead + PROCESSES < WRITERS_MAX) {
		uint32_t me = PROCESSES + dead++;
		pid_t mortal = hammer_start(me, 0);

		/* It must have begun, or nothing is tested. */
		while (__atomic_load_n(&board->by[me].writes,
				       __ATOMIC_RELAXED) < 20)
			usleep(500);
		usleep(me * 977 % 5000);
		ck_assert_int_eq(kill(mortal, SIGKILL), 0);
		hammer_end(mortal, SIGKILL);
	}
	for (uint32_t i = 0; i < PROCESSES - 1; i++)
		hammer_end(pid[i], 0);
	printf("  %u processes killed\n", dead);
	finish("kill -9", dead);
}

TEST_SUITE("hammer", real_server_require())
