/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfarkv when memory, descriptors and system calls fail: each call of a
 * whole life of a handle fails in turn. Every operation ends
 * in time with a true result or with an error of farkv.h; the handle
 * works afterwards; nothing leaks; the store holds what the results tell.
 */
#include "config.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"
#include "tests/rig/test_main.h"

#include "fail_run.h"
#include "failing.h"

/* Short, because some calls can only time out. */
#define OP_TIMEOUT_MS 200
#define OP_TIMEOUT_ALWAYS_MS 20
#define SLACK_MS 3000 /* of a busy machine: a late run gets another try */
/* These end a run that hangs: a minute or two more than a busy machine needs. */
#define VERIFY_TIMEOUT_MS 60000
#define AFTERWARDS_MS 60000
#define THREADS_GONE_MS 10000
#define RUN_S 200
#define MANY 40 /* items of mget and mput: more than one chain */
#define FEW 4 /* requests in flight */
#define LARGE 300000

/* The cases, as $CK_RUN_CASE calls them. */
#define ONCE "a life of a handle, each call once"
#define ALWAYS "a life of a handle, each call and all that follow"
#define KEYS "a life of a handle with a key, each call once"

static struct real_server srv;
static const char *keys_file; /* or NULL */
static unsigned op_timeout_ms;

/* ---- what the store holds ------------------------------------------------------ */

enum {
	PUT_TINY,
	PUT_PAGE,
	PUT_LARGE,
	ADD,
	REPLACE,
	CAS,
	DELETE,
	APPEND,
	MPUT,
	SUBMIT = MPUT + MANY,
	AFTER_CUT = SUBMIT + FEW,
	WRITES
};

/* The results of the run's writes. */
struct told {
	int result[WRITES];
	bool tried[WRITES];
};

static struct told *told;

static size_t length(unsigned i)
{
	return i == PUT_PAGE ? 5000 : i == PUT_LARGE ? LARGE : 10 + i;
}

/* Values before and after its write; the key of ADD has none before, that of
 * DELETE none after, and that of APPEND half of it before. */
static const uint8_t *value_of(unsigned i, bool after)
{
	static uint8_t buf[LARGE];

	e2e_fill(buf, length(i), i * 2 + (after || i == APPEND) + 1);
	return buf;
}

static size_t length_at(unsigned i, bool after)
{
	return i == APPEND && !after ? length(i) / 2 : length(i);
}

static const char *key_of(unsigned i)
{
	static char key[16];

	snprintf(key, sizeof(key), "key %u", i);
	return key;
}

static bool has_value(unsigned i, bool after)
{
	return i == ADD ? after : i == DELETE ? !after : true;
}

static struct farkv *handle_open(struct fail_report *r, const char *what,
				 unsigned timeout_ms)
{
	struct farkv_options o;
	struct farkv *kv = NULL;

	farkv_options_init(&o);
	o.op_timeout_ms = timeout_ms;
	o.connect_timeout_ms = VERIFY_TIMEOUT_MS;
	o.keys = keys_file;
	if (fail_typed(r, what, farkv_open(srv.path, &o, &kv)))
		return kv;
	if (kv)
		fail_wrong(r, "%s failed and wrote its output", what);
	return NULL;
}

/* Is the value of key i that of `after`? */
static bool holds(struct farkv *kv, unsigned i, bool after)
{
	const char *key = key_of(i);
	struct farkv_value v;
	int err = farkv_get(kv, key, strlen(key), &v);

	if (!has_value(i, after))
		return err == FARKV_ENOTFOUND;
	return err == 0 && v.len == length_at(i, after) &&
	       memcmp(v.data, value_of(i, after), v.len) == 0;
}

static void verify_write(struct fail_report *r, struct farkv *kv, unsigned i)
{
	int err = told->tried[i] ? told->result[i] : FARKV_EABORTED;
	bool before = holds(kv, i, false), after = holds(kv, i, true);

	if (err == 0 ? after : err == FARKV_EMAYBE ? before || after : before)
		return;
	fail_wrong(r, "write %u said %s, and the store has %s", i,
		   farkv_strerror(err),
		   after    ? "the new value"
		   : before ? "the old value"
			    : farkv_errdetail());
}

static void lay_out(struct fail_report *r, struct farkv *kv)
{
	for (unsigned i = 0; i < WRITES; i++) {
		const char *key = key_of(i);
		int err = has_value(i, false)
				  ? farkv_put(kv, key, strlen(key),
					      value_of(i, false), length_at(i, false))
				  : farkv_delete(kv, key, strlen(key));

		if (err && err != FARKV_ENOTFOUND)
			fail_wrong(r, "cannot lay out key %u: %s", i,
				   farkv_errdetail());
	}
}

/* After a run: checks the values, and whether the store is whole. `arg`: at all.
 */
static void verify(struct fail_report *r, void *arg)
{
	struct farkv *kv;

	snprintf(r->at, sizeof(r->at), "looking at the store");
	kv = handle_open(r, "open to verify", VERIFY_TIMEOUT_MS);
	if (!kv) {
		fail_wrong(r, "the store cannot be opened: %s",
			   farkv_errdetail());
		return;
	}
	for (unsigned i = 0; arg && i < WRITES; i++)
		verify_write(r, kv, i);
	lay_out(r, kv);
	fail_fsck(r, kv);
	farkv_close(kv);
}

/* ---- the run ------------------------------------------------------------------- */

/* The failing call has come by now: it was in the step that is ending. */
static void note_when(struct fail_report *r)
{
	if (failing_which() && !r->when[0])
		snprintf(r->when, sizeof(r->when), "%s", r->at);
}

/* One operation: its time and its result. */
struct step {
	struct fail_report *r;
	uint64_t began_ms;
};

static struct step begin(struct fail_report *r, const char *what)
{
	note_when(r);
	snprintf(r->at, sizeof(r->at), "%s", what);
	return (struct step){.r = r, .began_ms = e2e_now_ms()};
}

static bool ended(struct step s, int err)
{
	uint64_t ms = e2e_now_ms() - s.began_ms;

	if (ms > op_timeout_ms + SLACK_MS)
		fail_late(s.r, ms);
	return fail_typed(s.r, s.r->at, err);
}

static void wrote(struct fail_report *r, unsigned i, int err)
{
	told->tried[i] = true;
	told->result[i] = err;
	fail_typed(r, r->at, err);
}

static int write_one(struct fail_report *r, struct farkv *kv, unsigned i)
{
	const char *key = key_of(i);
	const uint8_t *v = value_of(i, true);
	size_t n = strlen(key), len = length(i);
	struct step s = begin(r, key);
	struct farkv_value old;
	int err;

	switch (i) {
	case ADD:
		err = farkv_add(kv, key, n, v, len);
		break;
	case REPLACE:
		err = farkv_replace(kv, key, n, v, len);
		break;
	case CAS:
		err = farkv_get(kv, key, n, &old);
		if (!err)
			err = farkv_cas(kv, key, n, v, len, old.version, NULL);
		break;
	case DELETE:
		err = farkv_delete(kv, key, n);
		break;
	case APPEND:
		err = farkv_append(kv, key, n, v + len / 2, len - len / 2);
		break;
	default:
		err = farkv_put(kv, key, n, v, len);
	}
	ended(s, err);
	wrote(r, i, err);
	return err;
}

static void write_many(struct fail_report *r, struct farkv *kv)
{
	static char keys[MANY][16];
	static uint8_t values[MANY][128];
	struct farkv_put_item items[MANY];
	struct step s;

	for (unsigned i = 0; i < MANY; i++) {
		snprintf(keys[i], sizeof(keys[i]), "%s", key_of(MPUT + i));
		memcpy(values[i], value_of(MPUT + i, true), length(MPUT + i));
		items[i] =
			(struct farkv_put_item){.key = keys[i],
						.key_len = strlen(keys[i]),
						.value = values[i],
						.value_len = length(MPUT + i),
						.result = POISON};
	}
	s = begin(r, "mput");
	ended(s, farkv_mput(kv, items, MANY));
	for (unsigned i = 0; i < MANY; i++) {
		told->tried[MPUT + i] = true;
		told->result[MPUT + i] = items[i].result;
		if (items[i].result == POISON)
			fail_wrong(r, "item %u has no result", i);
	}
}

static void submit_few(struct fail_report *r, struct farkv *kv)
{
	static char keys[FEW][16];
	static uint8_t values[FEW][128];

	for (unsigned i = 0; i < FEW; i++) {
		struct farkv_request q = {.tag = SUBMIT + i,
					  .kind = FARKV_REQUEST_PUT,
					  .key = keys[i],
					  .value = values[i],
					  .value_len = length(SUBMIT + i)};
		int n;

		snprintf(keys[i], sizeof(keys[i]), "%s", key_of(SUBMIT + i));
		memcpy(values[i], value_of(SUBMIT + i, true),
		       length(SUBMIT + i));
		q.key_len = strlen(keys[i]);
		n = farkv_submit(kv, &q, 1);
		if (n != 1)
			fail_typed(r, "submit", n);
	}
}

/* Asleep on the handle's descriptor, if it has got one. */
static void write_in_flight(struct fail_report *r, struct farkv *kv)
{
	struct pollfd p = {.events = POLLIN};
	struct farkv_completion c;
	struct step s = begin(r, "event_fd");
	int n;

	p.fd = farkv_event_fd(kv);
	ended(s, p.fd < 0 ? p.fd : 0);
	s = begin(r, "requests in flight");
	submit_few(r, kv);
	while (farkv_in_flight(kv) > 0 &&
	       e2e_now_ms() - s.began_ms < op_timeout_ms + SLACK_MS) {
		if (p.fd >= 0)
			(void)poll(&p, 1, (int)(op_timeout_ms + SLACK_MS));
		n = p.fd >= 0 ? farkv_poll(kv, &c, 1) :
				farkv_wait(kv, &c, 1, op_timeout_ms);
		if (n < 0)
			fail_typed(r, "poll", n);
		else if (n == 1)
			wrote(r, (unsigned)c.tag, c.result);
	}
	ended(s, 0);
	if (farkv_in_flight(kv) > 0)
		fail_late(r, e2e_now_ms() - s.began_ms);
}

/* Every get finds the prepared values, or an error. */
static void read_many(struct fail_report *r, struct farkv *kv)
{
	static char keys[MANY][16];
	struct farkv_get_item items[MANY];
	struct step s;

	for (unsigned i = 0; i < MANY; i++) {
		snprintf(keys[i], sizeof(keys[i]), "%s", key_of(MPUT + i));
		items[i] = (struct farkv_get_item){.key = keys[i],
						   .key_len = strlen(keys[i]),
						   .result = POISON};
	}
	s = begin(r, "mget");
	ended(s, farkv_mget(kv, items, MANY));
	for (unsigned i = 0; i < MANY; i++) {
		size_t len = length(MPUT + i);

		if (items[i].result == POISON ||
		    items[i].result == FARKV_ENOTFOUND)
			fail_wrong(r, "item %u: result %d", i, items[i].result);
		if (items[i].result == 0 &&
		    (items[i].value.len != len ||
		     memcmp(items[i].value.data, value_of(MPUT + i, false),
			    len) != 0))
			fail_wrong(r, "item %u has another's value", i);
	}
}

/* All that was laid out is listed once; nothing was written since. */
static void read_all(struct fail_report *r, struct farkv *kv)
{
	const struct farkv_scan_item *items;
	unsigned found[WRITES] = {0};
	uint64_t cursor = 0;
	size_t n;
	struct step s = begin(r, "scan");
	int err;

	do {
		err = farkv_scan(kv, &cursor, SIZE_MAX, &items, &n);
		for (size_t i = 0; !err && i < n; i++)
			for (unsigned k = 0; k < WRITES; k++)
				found[k] += items[i].key_len == strlen(key_of(k)) &&
					    items[i].value_len == length_at(k, false) &&
					    memcmp(items[i].key, key_of(k), items[i].key_len) == 0;
	} while (!err && cursor);
	ended(s, err);
	for (unsigned k = 0; !err && k < WRITES; k++)
		if (found[k] != has_value(k, false))
			fail_wrong(r, "a scan listed key %u %u times", k, found[k]);
}

static void ask(struct fail_report *r, struct farkv *kv)
{
	static char keys[MANY][16];
	struct farkv_key items[MANY];
	struct step s;
	size_t prefix;
	int err;

	for (unsigned i = 0; i < MANY; i++) {
		snprintf(keys[i], sizeof(keys[i]), "%s", key_of(MPUT + i));
		items[i] = (struct farkv_key){keys[i], strlen(keys[i])};
	}
	s = begin(r, "mexists");
	err = farkv_mexists(kv, items, MANY, NULL, &prefix);
	if (ended(s, err) && err == 0 && prefix != MANY)
		fail_wrong(r, "mexists: only %zu keys were found", prefix);
	s = begin(r, "exists");
	err = farkv_exists(kv, keys[0], strlen(keys[0]));
	if (ended(s, err) && err == FARKV_ENOTFOUND)
		fail_wrong(r, "exists: a key that is there was not found");
}

static void read_one(struct fail_report *r, struct farkv *kv, unsigned i)
{
	const char *key = key_of(i);
	struct farkv_value v;
	struct step s = begin(r, "get");
	int err = farkv_get(kv, key, strlen(key), &v);

	if (err == FARKV_ENOTFOUND)
		fail_wrong(r, "get: a key that is there was not found");
	if (ended(s, err) && err == 0 &&
	    (v.len != length(i) ||
	     memcmp(v.data, value_of(i, false), v.len) != 0))
		fail_wrong(r, "get: another value");
}

/* Several at once, each second one to memory of its own. */
static void read_in_flight(struct fail_report *r, struct farkv *kv)
{
	static char keys[FEW][16];
	static uint8_t room[FEW][128];
	struct farkv_request q[FEW];
	struct farkv_completion c;
	struct step s = begin(r, "gets in flight");
	int n;

	for (unsigned i = 0; i < FEW; i++) {
		snprintf(keys[i], sizeof(keys[i]), "%s", key_of(MPUT + i));
		q[i] = (struct farkv_request){.tag = MPUT + i,
					      .kind = FARKV_REQUEST_GET,
					      .key = keys[i],
					      .key_len = strlen(keys[i]),
					      .buf = i % 2 ? room[i] : NULL,
					      .buf_len = i % 2 ? sizeof(room[i]) : 0};
	}
	n = farkv_submit(kv, q, FEW);
	if (n < 0)
		fail_typed(r, "submit", n);
	while (farkv_in_flight(kv) > 0 &&
	       e2e_now_ms() - s.began_ms < op_timeout_ms + SLACK_MS) {
		n = farkv_wait(kv, &c, 1, op_timeout_ms);
		if (n < 0)
			fail_typed(r, "wait", n);
		if (n != 1)
			continue;
		fail_typed(r, r->at, c.result);
		if (c.result == FARKV_ENOTFOUND ||
		    (c.result == 0 &&
		     (c.value.len != length((unsigned)c.tag) ||
		      memcmp(c.value.data, value_of((unsigned)c.tag, false),
			     c.value.len) != 0)))
			fail_wrong(r, "request %u has another's value, or none",
				   (unsigned)c.tag);
	}
	ended(s, 0);
	if (farkv_in_flight(kv) > 0)
		fail_late(r, e2e_now_ms() - s.began_ms);
}

/* Memory of the library, a value that comes to it, and its release. */
static void read_to_buffer(struct fail_report *r, struct farkv *kv)
{
	const char *key = key_of(PUT_LARGE);
	struct step s = begin(r, "buf_alloc");
	void *buf = NULL;
	size_t len = 0;

	if (!ended(s, farkv_buf_alloc(kv, LARGE, &buf)) || !buf)
		return;
	s = begin(r, "get_into");
	if (ended(s, farkv_get_into(kv, key, strlen(key), buf, LARGE, &len, NULL)) &&
	    len && (len != LARGE ||
		    memcmp(buf, value_of(PUT_LARGE, false), len) != 0))
		fail_wrong(r, "get_into: another value");
	farkv_buf_free(kv, buf);
}

static bool is_large(const void *p, size_t len)
{
	return len == LARGE && memcmp(p, value_of(PUT_LARGE, false), LARGE) == 0;
}

/* Memory of the program's own, values that come to it, and the end of its registration. */
static void read_to_own_memory(struct fail_report *r, struct farkv *kv)
{
	static uint8_t own[2][LARGE];
	const char *key = key_of(PUT_LARGE);
	struct farkv_get_into_item it[2];
	struct step s = begin(r, "buf_register");
	int err = farkv_buf_register(kv, own, sizeof(own));

	(void)ended(s, err);
	for (unsigned i = 0; i < 2; i++)
		it[i] = (struct farkv_get_into_item){
			.key = key, .key_len = strlen(key), .buf = own[i], .cap = LARGE};
	s = begin(r, "mget_into");
	(void)ended(s, farkv_mget_into(kv, it, 2));
	for (unsigned i = 0; i < 2; i++)
		if (it[i].result == 0 && !is_large(own[i], it[i].len))
			fail_wrong(r, "mget_into: another value");
	if (err == 0 && farkv_buf_unregister(kv, own))
		fail_wrong(r, "buf_unregister: %s", farkv_errdetail());
}

static void read_borrowed(struct fail_report *r, struct farkv *kv)
{
	const char *key = key_of(PUT_LARGE);
	struct step s = begin(r, "borrow");
	struct farkv_view v;
	bool right;
	int err = farkv_borrow(kv, key, strlen(key), &v);

	(void)ended(s, err);
	if (err)
		return;
	right = is_large(v.value.data, v.value.len);
	s = begin(r, "borrow_check");
	err = farkv_borrow_check(kv, &v);
	(void)ended(s, err);
	if (err == 0 && !right)
		fail_wrong(r, "borrow: another value");
}

/* As the server drops a connection. */
static void cut_off(void)
{
	for (int fd = 3; fd < 64; fd++) {
		struct sockaddr_storage a;
		socklen_t n = sizeof(a);

		if (getpeername(fd, (struct sockaddr *)&a, &n) == 0 &&
		    a.ss_family == AF_UNIX)
			shutdown(fd, SHUT_RDWR);
	}
}

static void operations(struct fail_report *r, struct farkv *kv)
{
	struct farkv_stats st = {.size = sizeof(st)};
	struct farkv_fsck f = {.size = sizeof(f)};
	struct step s;

	read_one(r, kv, PUT_LARGE);
	read_many(r, kv);
	read_all(r, kv);
	ask(r, kv);
	read_in_flight(r, kv);
	read_to_buffer(r, kv);
	read_to_own_memory(r, kv);
	read_borrowed(r, kv);
	/* Where nothing works any more, a few timeouts show it. */
	for (unsigned i = PUT_TINY, bad = 0; i < MPUT && bad < 3; i++)
		bad += write_one(r, kv, i) != 0;
	write_many(r, kv);
	write_in_flight(r, kv);
	s = begin(r, "ping");
	ended(s, farkv_ping(kv, NULL));
	s = begin(r, "stats");
	ended(s, farkv_stats(kv, &st));
	s = begin(r, "fsck");
	ended(s, farkv_fsck(kv, &f));
	cut_off();
	write_one(r, kv, AFTER_CUT);
}

/*
 * Nothing fails any more: the same handle must work. The next call reports a session that
 * has ended, once; and a new one may take longer than a call's deadline.
 */
static void goes_on(struct fail_report *r, struct farkv *kv)
{
	uint64_t end = e2e_now_ms() + AFTERWARDS_MS;
	int err;

	note_when(r);
	snprintf(r->at, sizeof(r->at), "afterwards");
	do {
		err = farkv_put(kv, "more", 4, "v", 1);
		if (!err)
			err = e2e_probe(kv, "more");
		fail_typed(r, "afterwards", err);
	} while (err && e2e_now_ms() < end);
	if (err)
		fail_wrong(r, "the handle is of no use afterwards: %s",
			   farkv_errdetail());
}

struct numbers {
	uint64_t at, times;
};

static void life(struct fail_report *r, void *arg)
{
	const struct numbers *no = arg;
	struct farkv *kv;

	failing_arm(no->at, no->times);
	snprintf(r->at, sizeof(r->at), "open");
	kv = handle_open(r, "open", op_timeout_ms);
	if (kv) {
		operations(r, kv);
		failing_pause();
		goes_on(r, kv);
		snprintf(r->at, sizeof(r->at), "close");
		failing_resume();
		farkv_close(kv);
	}
	failing_pause();
	note_when(r);
	r->calls = failing_calls();
	r->reached = failing_which() != NULL;
	if (r->reached)
		snprintf(r->which, sizeof(r->which), "%s", failing_which());
}

/* ---- leaks --------------------------------------------------------------------- */

static unsigned entries(const char *path)
{
	DIR *d = opendir(path);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static bool region_mapped(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	bool found = false;

	while (f && fgets(line, sizeof(line), f))
		found = found || strstr(line, "memfd:farkv");
	if (f)
		fclose(f);
	return found;
}

/* A thread that has been joined may still be on its way out of the kernel's list. */
static unsigned threads_left(void)
{
	unsigned n = 0;

	for (int i = 0; i < THREADS_GONE_MS; i++) {
		n = entries("/proc/self/task") - 2;
		if (n == 1)
			break;
		usleep(1000);
	}
	return n;
}

static void life_and_ends(struct fail_report *r, void *arg)
{
	unsigned fds = entries("/proc/self/fd"), threads, blocks;

	blocks = failing_live();
	life(r, arg);
	snprintf(r->at, sizeof(r->at), "afterwards");
	threads = threads_left();
	if (entries("/proc/self/fd") != fds)
		fail_wrong(r, "%u descriptors, %u before",
			   entries("/proc/self/fd"), fds);
	if (failing_live() != blocks)
		fail_wrong(r, "%u blocks of memory more than before",
			   failing_live() - blocks);
	if (threads != 1)
		fail_wrong(r, "%u threads", threads);
	if (region_mapped())
		fail_wrong(r, "the region is still mapped");
}

static void run(struct fail_report *r, uint64_t at, uint64_t times)
{
	struct numbers no = {.at = at, .times = times};

	op_timeout_ms = times == 1 ? OP_TIMEOUT_MS : OP_TIMEOUT_ALWAYS_MS;
	memset(told, 0, sizeof(*told));
	fail_process(r, life_and_ends, &no, RUN_S);
	fail_process(r, verify, told, RUN_S);
}

/* ---- cases --------------------------------------------------------------------- */

static void make_keys(void)
{
	static char path[96];
	int status;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/keys", srv.dir);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		umask(077);
		if (freopen(path, "w", stdout))
			execl(getenv("KVCLI"), "kvcli", "keygen", "me", NULL);
		_exit(127);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	keys_file = path;
}

static void fill_store(void)
{
	struct fail_report *r = fail_shared(sizeof(*r));

	ck_assert_msg(fail_process(r, verify, NULL, RUN_S), "%s", r->why);
}

static void setup(void)
{
	static const char *const args[] = {"-m", "64", NULL};

	told = fail_shared(sizeof(*told));
	keys_file = NULL;
	real_server_init(&srv, args);
	fill_store();
}

static void teardown(void)
{
	real_server_fini(&srv);
}

static void each(const char *name, unsigned stride, uint64_t times)
{
	fail_each(&(struct fail_case){.program = "tests/lab/test_fail_client",
				      .name = name,
				      .stride = stride,
				      .times = times,
				      .run = run});
}

START_TEST(each_call_once)
{
	each(ONCE, 24, 1);
}
END_TEST

START_TEST(each_call_and_all_that_follow)
{
	each(ALWAYS, 48, FAIL_ALWAYS);
}
END_TEST

START_TEST(each_call_with_keys)
{
	const char *args[] = {"-m", "64", "--keys", NULL, "--keys-on-socket",
			      NULL};

	ck_assert_int_eq(real_server_end(&srv, SIGTERM), 0);
	make_keys();
	args[3] = keys_file;
	real_server_start(&srv, args);
	fill_store();
	each(KEYS, 48, 1);
}
END_TEST

static void add(Suite *s, const char *name, const TTest *test)
{
	TCase *t = tcase_create(name);

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 600);
	tcase_add_test(t, test);
	suite_add_tcase(s, t);
}

static Suite *suite(void)
{
	Suite *s = suite_create("failing calls, client");

	real_server_require();
	add(s, ONCE, each_call_once);
	add(s, ALWAYS, each_call_and_all_that_follow);
	add(s, KEYS, each_call_with_keys);
	return s;
}

TEST_MAIN(suite())
