/* SPDX-License-Identifier: BSD-3-Clause */
/* Histograms of a handle opened with FARKV_OPEN_LATENCY, and the text of farkv_metrics(). */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farkv.h>

#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"

#define KINDS (FARKV_LATENCY_REQUEST + 1)

static struct real_server srv;
static struct farkv *kv;
static uint64_t seen[KINDS]; /* calls at the last check() */

static struct farkv *open_recording(void)
{
	struct farkv *h = NULL;
	struct farkv_options o;

	farkv_options_init(&o);
	o.flags = FARKV_OPEN_LATENCY;
	o.connect_timeout_ms = o.op_timeout_ms = 60000;
	OK(farkv_open(srv.path, &o, &h));
	return h;
}

static void setup(void)
{
	static const char *const args[] = {"-m", "64m", NULL};

	real_server_init(&srv, args);
	kv = open_recording();
	memset(seen, 0, sizeof(seen));
}

static void teardown(void)
{
	farkv_close(kv);
	real_server_fini(&srv);
}

/* That counter is the one of this time. */
static void check_counter(size_t i, uint64_t ns)
{
	ck_assert_uint_le(ns, farkv_latency_bound(i));
	if (i > 0)
		ck_assert_uint_gt(ns, farkv_latency_bound(i - 1));
}

static struct farkv_latency of(const struct farkv *h, uint32_t kind)
{
	struct farkv_latency l = {.size = sizeof(l)};
	size_t first = FARKV_LATENCY_COUNTERS, last = 0;
	uint64_t sum = 0;

	OK(farkv_latency(h, kind, &l));
	for (size_t i = 0; i < FARKV_LATENCY_COUNTERS; i++) {
		if (l.counters[i] && first > i)
			first = i;
		if (l.counters[i])
			last = i;
		sum += l.counters[i];
	}
	ck_assert_uint_eq(sum, l.count);
	if (l.count) {
		check_counter(first, l.min_ns);
		check_counter(last, l.max_ns);
	}
	ck_assert_uint_le(l.min_ns, l.max_ns);
	ck_assert_uint_le(l.count * l.min_ns, l.sum_ns);
	ck_assert_uint_ge(l.count * l.max_ns, l.sum_ns);
	ck_assert_uint_eq(l.count > 0, l.min_ns > 0);
	return l;
}

/* Calls of one kind since the last check, and no others. */
static void check(uint32_t kind, uint64_t n)
{
	for (uint32_t i = 0; i < KINDS; i++) {
		uint64_t count = of(kv, i).count;

		ck_assert_msg(count - seen[i] == (i == kind ? n : 0),
			      "kind %u has %llu calls more after those of kind %u", i,
			      (unsigned long long)(count - seen[i]), kind);
		seen[i] = count;
	}
}

/* ---- what is recorded ------------------------------------------------------------------ */

TEST_GROUP(.setup = setup, .teardown = teardown, .timeout_s = 120);

TEST(reads_and_writes_of_all_forms_are_counted)
{
	struct farkv_request req = {.kind = FARKV_REQUEST_ADD, .key = "w", .key_len = 1};
	struct farkv_value v;
	struct farkv_view view;
	char buf[8];
	size_t len;

	for (unsigned i = 0; i < 5; i++)
		OK(e2e_put(kv, "k", "value"));
	check(FARKV_LATENCY_PUT, 5);
	for (unsigned i = 0; i < 7; i++)
		OK(farkv_get(kv, "k", 1, &v));
	check(FARKV_LATENCY_GET, 7);
	FAILS(FARKV_ENOTFOUND, farkv_get(kv, "no", 2, &v));
	OK(farkv_get_into(kv, "k", 1, buf, sizeof(buf), &len, NULL));
	check(FARKV_LATENCY_GET, 2);
	(void)!farkv_borrow(kv, "k", 1, &view); /* over shared memory only */
	check(FARKV_LATENCY_GET, 1);
	FAILS(FARKV_EEXISTS, farkv_add(kv, "k", 1, "x", 1));
	OK(farkv_replace(kv, "k", 1, "x", 1));
	OK(farkv_get(kv, "k", 1, &v));
	OK(farkv_cas(kv, "k", 1, "y", 1, v.version, NULL));
	OK(farkv_write(kv, &req, NULL));
	ck_assert_uint_eq(of(kv, FARKV_LATENCY_GET).count, 11);
	ck_assert_uint_eq(of(kv, FARKV_LATENCY_PUT).count, 9);
	ck_assert_uint_eq(of(kv, FARKV_LATENCY_PUT).errors, 0);
}

TEST(calls_of_each_kind_are_counted)
{
	struct farkv_get_item get = {.key = "k", .key_len = 1};
	struct farkv_get_into_item into = {.key = "k", .key_len = 1};
	struct farkv_put_item put = {.key = "p", .key_len = 1, .value = "1", .value_len = 1};
	struct farkv_key key = {"k", 1};
	uint8_t bits;

	OK(e2e_put(kv, "k", "value"));
	check(FARKV_LATENCY_PUT, 1);
	OK(farkv_exists(kv, "k", 1));
	check(FARKV_LATENCY_EXISTS, 1);
	OK(farkv_mget(kv, &get, 1));
	FAILS(FARKV_ETOOSMALL, farkv_mget_into(kv, &into, 1));
	check(FARKV_LATENCY_MGET, 2);
	OK(farkv_mput(kv, &put, 1));
	check(FARKV_LATENCY_MPUT, 1);
	OK(farkv_mexists(kv, &key, 1, &bits, NULL));
	check(FARKV_LATENCY_MEXISTS, 1);
	OK(farkv_incr(kv, "p", 1, NULL, NULL));
	OK(farkv_decr(kv, "p", 1, NULL, NULL));
	OK(farkv_append(kv, "p", 1, "x", 1));
	OK(farkv_prepend(kv, "p", 1, "x", 1));
	check(FARKV_LATENCY_UPDATE, 4);
	OK(e2e_del(kv, "k"));
	FAILS(FARKV_ENOTFOUND, farkv_delete_cas(kv, "k", 1, 1));
	check(FARKV_LATENCY_DELETE, 2);
	ck_assert_uint_eq(of(kv, FARKV_LATENCY_MGET).errors, 1);
}

/* Each of these leaves the handle by another way. */
TEST(calls_that_are_not_recorded_do_not_end_the_recording)
{
	const struct farkv_scan_item *items;
	struct farkv_stats s = {.size = sizeof(s)};
	struct farkv_completion c;
	uint64_t cursor = 0, ns;
	size_t n;

	OK(farkv_stats(kv, &s));
	OK(farkv_ping(kv, &ns));
	FAILS(FARKV_ENOTFOUND, e2e_probe(kv, "k"));
	check(FARKV_LATENCY_GET, 1);
	OK(farkv_scan(kv, &cursor, SIZE_MAX, &items, &n));
	OK(e2e_put(kv, "k", "value"));
	check(FARKV_LATENCY_PUT, 1);
	ck_assert_int_eq(farkv_poll(kv, &c, 1), 0);
	OK(farkv_clear(kv, NULL));
	OK(e2e_put(kv, "k", "value"));
	check(FARKV_LATENCY_PUT, 1);
	OK(farkv_touch(kv, "k", 1, 100000));
	ck_assert_uint_eq(of(kv, FARKV_LATENCY_GET).count, 2);
	ck_assert_uint_eq(of(kv, FARKV_LATENCY_PUT).count, 3);
}

TEST(requests_are_timed_from_submission_to_completion)
{
	struct farkv_request reqs[3] = {
		{.kind = FARKV_REQUEST_PUT, .key = "a", .key_len = 1, .value = "1", .value_len = 1},
		{.kind = FARKV_REQUEST_GET, .key = "b", .key_len = 1},
		{.kind = FARKV_REQUEST_PUT, .key = "", .key_len = 0}};
	struct farkv_completion c[3];
	struct timespec ms = {.tv_nsec = 3000000};
	int n = 0;

	ck_assert_int_eq(farkv_submit(kv, reqs, 3), 3);
	nanosleep(&ms, NULL);
	while (n < 3) {
		int got = farkv_wait(kv, c, 3, 60000);

		ck_assert_int_gt(got, 0);
		n += got;
	}
	check(FARKV_LATENCY_REQUEST, 3);
	ck_assert_uint_ge(of(kv, FARKV_LATENCY_REQUEST).min_ns, 3000000);
	ck_assert_uint_eq(of(kv, FARKV_LATENCY_REQUEST).errors, 1);
	/* Completed by another call. */
	ck_assert_int_eq(farkv_submit(kv, reqs, 1), 1);
	OK(e2e_put(kv, "k", "value"));
	check(FARKV_LATENCY_PUT, 1);
	ck_assert_int_eq(farkv_poll(kv, c, 3), 1);
	check(FARKV_LATENCY_REQUEST, 1);
}

TEST(a_call_that_waits_for_the_server_takes_its_time)
{
	struct farkv *h;
	struct farkv_options o;
	struct farkv_latency l;

	farkv_options_init(&o);
	o.flags = FARKV_OPEN_LATENCY;
	o.connect_timeout_ms = 60000;
	o.op_timeout_ms = 200;
	OK(farkv_open(srv.path, &o, &h));
	real_server_pause(&srv);
	/* A first put needs a block. */
	ck_assert_int_ne(e2e_put(h, "k", "value"), 0);
	real_server_resume(&srv);
	l = of(h, FARKV_LATENCY_PUT);
	ck_assert_uint_eq(l.count, 1);
	ck_assert_uint_eq(l.errors, 1);
	ck_assert_uint_ge(l.max_ns, 100000000);
	farkv_close(h);
}

/* ---- who may ask ----------------------------------------------------------------------- */

TEST(arguments_are_checked_and_other_handles_record_nothing)
{
	struct farkv *plain = e2e_open(srv.path, 60000);
	struct farkv_latency l = {.size = sizeof(l)};

	OK(e2e_put(plain, "k", "value"));
	FAILS(FARKV_EINVAL, farkv_latency(plain, FARKV_LATENCY_PUT, &l));
	e2e_detail("FARKV_OPEN_LATENCY");
	FAILS(FARKV_EINVAL, farkv_latency(kv, KINDS, &l));
	e2e_detail("unknown kind 9");
	FAILS(FARKV_EINVAL, farkv_latency(kv, 0, NULL));
	l.size = 8;
	FAILS(FARKV_EINVAL, farkv_latency(kv, 0, &l));
	l.size = SIZE_MAX;
	FAILS(FARKV_EINVAL, farkv_latency(kv, 0, &l));
	/* A struct of a first version, without counters. */
	memset(&l, POISON, sizeof(l));
	l.size = offsetof(struct farkv_latency, counters);
	OK(farkv_latency(NULL, FARKV_LATENCY_PUT, &l));
	ck_assert_uint_eq(l.count, 0);
	ck_assert(e2e_poisoned(l.counters, sizeof(l.counters)));
	farkv_close(plain);
}

TEST(all_handles_of_the_process_are_summed_also_when_they_are_closed)
{
	struct farkv *other = open_recording();
	struct farkv_latency sum;

	OK(e2e_put(kv, "k", "1"));
	OK(e2e_put(other, "k", "2"));
	OK(e2e_put(other, "k", "3"));
	ck_assert_uint_eq(of(kv, FARKV_LATENCY_PUT).count, 1);
	ck_assert_uint_eq(of(other, FARKV_LATENCY_PUT).count, 2);
	sum = of(NULL, FARKV_LATENCY_PUT);
	ck_assert_uint_eq(sum.count, 3);
	ck_assert_uint_eq(sum.sum_ns, of(kv, FARKV_LATENCY_PUT).sum_ns +
					      of(other, FARKV_LATENCY_PUT).sum_ns);
	farkv_close(other);
	ck_assert_uint_eq(of(NULL, FARKV_LATENCY_PUT).count, 3);
	ck_assert_uint_eq(of(NULL, FARKV_LATENCY_PUT).sum_ns, sum.sum_ns);
	ck_assert_uint_eq(of(NULL, FARKV_LATENCY_PUT).max_ns, sum.max_ns);
	ck_assert_uint_eq(of(NULL, FARKV_LATENCY_PUT).min_ns, sum.min_ns);
}

static bool stop;

static void *observe(void *unused)
{
	static char text[FARKV_METRICS_MAX];
	uint64_t last = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		struct farkv_latency l = {.size = sizeof(l)};

		OK(farkv_latency(kv, FARKV_LATENCY_PUT, &l));
		ck_assert_uint_ge(l.count, last);
		last = l.count;
		ck_assert_uint_gt(farkv_metrics(text, sizeof(text)), 0);
	}
	return unused;
}

TEST(other_threads_read_while_calls_are_made)
{
	unsigned puts = test_rounds(20000);
	pthread_t thread;

	__atomic_store_n(&stop, false, __ATOMIC_RELEASE);
	ck_assert_int_eq(pthread_create(&thread, NULL, observe, NULL), 0);
	for (unsigned i = 0; i < puts; i++)
		OK(e2e_put(kv, "k", "value"));
	for (unsigned i = 0; i < 5; i++) {
		struct farkv *h = open_recording();

		OK(e2e_put(h, "k", "value"));
		farkv_close(h);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(of(NULL, FARKV_LATENCY_PUT).count, puts + 5);
}

TEST(a_child_of_fork_has_its_parents_counts_and_its_own)
{
	int status;
	pid_t pid;

	if (test_tsan_skips(__func__))
		return;
	OK(e2e_put(kv, "k", "value"));
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		struct farkv *h = open_recording();
		bool good = e2e_put(h, "k", "child") == 0 &&
			    of(NULL, FARKV_LATENCY_PUT).count == 2;

		farkv_close(h);
		farkv_close(kv);
		_exit(good && of(NULL, FARKV_LATENCY_PUT).count == 2 ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(of(NULL, FARKV_LATENCY_PUT).count, 1);
}

/* ---- numbers --------------------------------------------------------------------------- */

TEST(bounds_are_exact_up_to_32_and_a_sixteenth_apart_above)
{
	for (size_t i = 0; i < 32; i++)
		ck_assert_uint_eq(farkv_latency_bound(i), i + 1);
	ck_assert_uint_eq(farkv_latency_bound(32), 34);
	ck_assert_uint_eq(farkv_latency_bound(47), 64);
	for (size_t i = 32; i < FARKV_LATENCY_COUNTERS - 1; i++) {
		uint64_t low = farkv_latency_bound(i - 1), high = farkv_latency_bound(i);

		ck_assert_uint_gt(high, low);
		ck_assert_uint_le(high - low, low / 16);
	}
	ck_assert_uint_ge(farkv_latency_bound(FARKV_LATENCY_COUNTERS - 2), UINT64_C(33000000000));
	ck_assert_uint_eq(farkv_latency_bound(FARKV_LATENCY_COUNTERS - 1), UINT64_MAX);
	ck_assert_uint_eq(farkv_latency_bound(SIZE_MAX), UINT64_MAX);
}

TEST(percentiles_are_bounds_of_the_counter_that_has_them)
{
	struct farkv_latency l = {.size = sizeof(l)};

	ck_assert_uint_eq(farkv_latency_percentile(NULL, 50), 0);
	ck_assert_uint_eq(farkv_latency_percentile(&l, 50), 0);
	l.count = 1000;
	l.counters[9] = 500;   /* 10 ns */
	l.counters[47] = 490;  /* 63 and 64 ns */
	l.counters[100] = 9;
	l.counters[511] = 1;
	l.max_ns = 99000000000;
	ck_assert_uint_eq(farkv_latency_percentile(&l, -1), 10);
	ck_assert_uint_eq(farkv_latency_percentile(&l, 0), 10);
	ck_assert_uint_eq(farkv_latency_percentile(&l, 50), 10);
	ck_assert_uint_eq(farkv_latency_percentile(&l, 50.1), 64);
	ck_assert_uint_eq(farkv_latency_percentile(&l, 99), 64);
	ck_assert_uint_eq(farkv_latency_percentile(&l, 99.9), farkv_latency_bound(100));
	ck_assert_uint_eq(farkv_latency_percentile(&l, 99.91), 99000000000);
	ck_assert_uint_eq(farkv_latency_percentile(&l, 100), 99000000000);
	ck_assert_uint_eq(farkv_latency_percentile(&l, 1000), 99000000000);
	l.max_ns = 63;
	ck_assert_uint_eq(farkv_latency_percentile(&l, 99), 63);
}

/* ---- text ------------------------------------------------------------------------------ */

static char text[FARKV_METRICS_MAX + 1];

static const char *metrics(void)
{
	size_t n = farkv_metrics(text, FARKV_METRICS_MAX);

	ck_assert_uint_le(n, FARKV_METRICS_MAX);
	text[n] = '\0';
	return text;
}

static void shows(const char *line)
{
	ck_assert_msg(strstr(metrics(), line) != NULL, "no line '%s' in:\n%s", line, text);
}

TEST(the_text_has_what_was_called_and_fits_any_buffer)
{
	static char part[FARKV_METRICS_MAX];
	size_t n;

	ck_assert_ptr_null(strstr(metrics(), "call=\""));
	OK(e2e_put(kv, "k", "value"));
	OK(e2e_put(kv, "k", "value"));
	FAILS(FARKV_EINVAL, e2e_probe(kv, ""));
	shows("\n# TYPE farkv_client_latency_seconds histogram\n");
	shows("\nfarkv_client_latency_seconds_bucket{call=\"put\",le=\"+Inf\"} 2\n");
	shows("\nfarkv_client_latency_seconds_bucket{call=\"put\",le=\"0.000000064\"} 0\n");
	shows("\nfarkv_client_latency_seconds_bucket{call=\"get\",le=\"8.589934592\"} 1\n");
	shows("\nfarkv_client_latency_seconds_count{call=\"put\"} 2\n");
	shows("\nfarkv_client_errors_total{call=\"put\"} 0\n");
	shows("\nfarkv_client_errors_total{call=\"get\"} 1\n");
	shows("\nfarkv_client_handles 1\n");
	ck_assert_ptr_null(strstr(metrics(), "call=\"delete\""));
	n = strlen(text);
	ck_assert_uint_eq(farkv_metrics(NULL, 0), n);
	ck_assert_uint_eq(farkv_metrics(NULL, 100), n);
	for (size_t cap = 1; cap < n; cap += 97) {
		memset(part, POISON, sizeof(part));
		ck_assert_uint_eq(farkv_metrics(part, cap), n);
		ck_assert_int_eq(memcmp(part, text, cap), 0);
		ck_assert(e2e_poisoned(part + cap, sizeof(part) - cap));
	}
}

static uint64_t figure(const char *name)
{
	const char *at = strstr(metrics(), name);

	ck_assert_msg(at != NULL, "%s: not there", name);
	return strtoull(at + strlen(name), NULL, 10);
}

TEST(counters_of_handles_are_summed_and_outlive_them)
{
	struct farkv_counters c = {.size = sizeof(c)};
	uint64_t msgs, trips;

	/* Calls of more than 10 ms: the counts are then no older than the last of them. */
	do {
		OK(e2e_put(kv, "k", "value"));
		OK(farkv_counters(kv, &c));
		msgs = figure("\nfarkv_client_control_messages_total ");
	} while (msgs < c.control_msgs);
	ck_assert_uint_gt(msgs, 0);
	if (real_server_is_remote())
		ck_assert_uint_gt(figure("\nfarkv_client_reads_total "), 0);
	trips = figure("\nfarkv_client_round_trips_total ");
	farkv_close(kv);
	kv = NULL;
	ck_assert_uint_ge(figure("\nfarkv_client_control_messages_total "), msgs);
	ck_assert_uint_ge(figure("\nfarkv_client_round_trips_total "), trips);
	ck_assert_uint_eq(figure("\nfarkv_client_handles "), 0);
}

TEST_SUITE("latency")
