/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * farkv_incr(), farkv_decr(), farkv_append() and farkv_prepend() with a real kvserver: their
 * results, what others may write in between, and connections that break.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farkv.h>

#include "client/conn.h"
#include "common/base/util.h"
#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"

#define PROCESSES 6
#define TIMES 300

static struct real_server srv;
static struct farkv *kv;

static void setup(void)
{
	static const char *const args[] = {"-m", "64m", "-I", "1m", NULL};

	real_server_init(&srv, args);
	kv = e2e_open(srv.path, 20000);
}

static void teardown(void)
{
	conn_wrap_lane = NULL;
	farkv_close(kv);
	real_server_fini(&srv);
}

static struct farkv_incr_options by(uint64_t delta)
{
	return (struct farkv_incr_options){.size = sizeof(struct farkv_incr_options),
					   .delta = delta};
}

/* ---- counters ------------------------------------------------------------------------- */

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(number_goes_up_and_down_as_memcached_does_it)
{
	static const struct {
		const char *from;
		int64_t delta; /* below 0: decr */
		const char *to;
	} rows[] = {
		{"0", 0, "0"}, {"0", 1, "1"}, {"9", 1, "10"}, {"10", -1, "9"}, {"99", 901, "1000"},
		{"1000", -999, "1"}, {"5", -5, "0"}, {"5", -6, "0"}, {"0", -1, "0"},
		{"007", 1, "8"}, {"7 ", 1, "8"}, {"10    ", -2, "8"},
		{"18446744073709551614", 1, "18446744073709551615"},
		{"18446744073709551615", 1, "0"},
		{"18446744073709551615", 11, "10"},
		{"18446744073709551615", -1, "18446744073709551614"},
		{"9223372036854775808", INT64_MAX, "18446744073709551615"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool down = rows[i].delta < 0;
		struct farkv_incr_options o =
			by(down ? 0 - (uint64_t)rows[i].delta : (uint64_t)rows[i].delta);
		uint64_t number = 77;

		OK(e2e_put(kv, "n", rows[i].from));
		OK(down ? farkv_decr(kv, "n", 1, &o, &number) :
			  farkv_incr(kv, "n", 1, &o, &number));
		e2e_expect_str(kv, "n", rows[i].to);
		ck_assert_uint_eq(number, strtoull(rows[i].to, NULL, 10));
	}
}

TEST(number_counts_by_one_without_options)
{
	uint64_t number;

	OK(e2e_put(kv, "n", "41"));
	OK(farkv_incr(kv, "n", 1, NULL, &number));
	ck_assert_uint_eq(number, 42);
	OK(farkv_incr(kv, "n", 1, NULL, NULL));
	OK(farkv_decr(kv, "n", 1, NULL, &number));
	ck_assert_uint_eq(number, 42);
	e2e_expect_str(kv, "n", "42");
}

TEST(value_that_is_no_number_is_left_alone)
{
	static const char *const texts[] = {"", " ", "x", "-1", "+1", " 1", "1x", "1 2", "0x10", "1\n",
					    "1.5", "18446744073709551616",
					    "99999999999999999999", "184467440737095516150"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		uint64_t number = 77, version;

		OK(e2e_put(kv, "n", texts[i]));
		version = e2e_version(kv, "n");
		FAILS(FARKV_EINVAL, farkv_incr(kv, "n", 1, NULL, &number));
		e2e_detail("no decimal number below 2^64");
		FAILS(FARKV_EINVAL, farkv_decr(kv, "n", 1, NULL, &number));
		ck_assert_uint_eq(number, 77);
		ck_assert_uint_eq(e2e_version(kv, "n"), version);
	}
}

TEST(counter_begins_at_its_initial_value)
{
	struct farkv_incr_options o = by(5);
	uint64_t number = 77;

	FAILS(FARKV_ENOTFOUND, farkv_incr(kv, "n", 1, NULL, &number));
	FAILS(FARKV_ENOTFOUND, farkv_decr(kv, "n", 1, &o, &number));
	ck_assert_uint_eq(number, 77);
	FAILS(FARKV_ENOTFOUND, farkv_exists(kv, "n", 1));
	o.flags = FARKV_INCR_CREATE;
	o.initial = 100;
	OK(farkv_incr(kv, "n", 1, &o, &number));
	ck_assert_uint_eq(number, 100);
	e2e_expect_str(kv, "n", "100");
	OK(farkv_incr(kv, "n", 1, &o, &number));
	ck_assert_uint_eq(number, 105);
	OK(e2e_del(kv, "n"));
	o.initial = 0;
	OK(farkv_decr(kv, "n", 1, &o, &number));
	ck_assert_uint_eq(number, 0);
	e2e_expect_str(kv, "n", "0");
}

static void check_time(const char *key, uint64_t least_ms, uint64_t most_ms, uint32_t user)
{
	struct farkv_value v;

	OK(farkv_get(kv, key, strlen(key), &v));
	ck_assert_msg(v.ttl_ms >= least_ms && v.ttl_ms <= most_ms, "%llu ms",
		      (unsigned long long)v.ttl_ms);
	ck_assert_uint_eq(v.user, user);
}

TEST(new_counter_expires_and_a_count_does_not_prolong_it)
{
	struct farkv_incr_options o = by(5);

	o.flags = FARKV_INCR_CREATE;
	o.ttl_ms = 1000000;
	OK(farkv_incr(kv, "n", 1, &o, NULL));
	check_time("n", 1, 1000000, 0);
	o.ttl_ms = 2000000;
	OK(farkv_incr(kv, "n", 1, &o, NULL));
	check_time("n", 1, 1000000, 0);
	e2e_expect_str(kv, "n", "5");
	OK(e2e_put(kv, "n", "1"));
	OK(farkv_incr(kv, "n", 1, &o, NULL));
	check_time("n", 0, 0, 0);
}

TEST(change_keeps_time_and_user_word)
{
	/* Milliseconds, seconds, never. */
	static const uint64_t ttls[] = {1000000, UINT64_C(3000000000), 0};

	for (unsigned i = 0; i < 3; i++) {
		struct farkv_write_options o = {.size = sizeof(o), .ttl_ms = ttls[i], .user = 7};
		struct farkv_request req = {.kind = FARKV_REQUEST_PUT, .key = "n", .key_len = 1,
					    .value = "1", .value_len = 1, .options = &o};

		OK(farkv_write(kv, &req, NULL));
		OK(farkv_incr(kv, "n", 1, NULL, NULL));
		check_time("n", ttls[i] / 2, ttls[i], 7);
		OK(farkv_append(kv, "n", 1, "3", 1));
		check_time("n", ttls[i] / 2, ttls[i], 7);
		OK(farkv_prepend(kv, "n", 1, "1", 1));
		check_time("n", ttls[i] / 2, ttls[i], 7);
		e2e_expect_str(kv, "n", "123");
	}
}

TEST(options_that_are_wrong_are_refused)
{
	struct farkv_incr_options o[5] = {by(1), by(1), by(1), by(1), by(1)};

	o[0].size = 0;
	o[1].size++;
	o[2].flags = FARKV_INCR_CREATE | 2;
	o[3].reserved = 1;
	o[4].ttl_ms = FARKV_TTL_MAX_MS + 1;
	OK(e2e_put(kv, "n", "1"));
	for (unsigned i = 0; i < 5; i++) {
		FAILS(FARKV_EINVAL, farkv_incr(kv, "n", 1, &o[i], NULL));
		e2e_detail("farkv_incr");
		FAILS(FARKV_EINVAL, farkv_decr(kv, "n", 1, &o[i], NULL));
		e2e_detail("farkv_decr");
	}
	FAILS(FARKV_EINVAL, farkv_incr(NULL, "n", 1, NULL, NULL));
	FAILS(FARKV_EINVAL, farkv_incr(kv, "n", 0, NULL, NULL));
	FAILS(FARKV_EINVAL, farkv_append(NULL, "n", 1, "x", 1));
	FAILS(FARKV_EINVAL, farkv_append(kv, NULL, 1, "x", 1));
	FAILS(FARKV_EINVAL, farkv_prepend(kv, "n", 1, NULL, 1));
	FAILS(FARKV_ETOOLARGE, farkv_append(kv, "n", 1, "x", SIZE_MAX));
	e2e_expect_str(kv, "n", "1");
}

TEST(reader_may_not_count_or_append)
{
	struct farkv *reader;

	OK(e2e_put(kv, "n", "1"));
	reader = e2e_open_readonly(srv.path, 5000);
	FAILS(FARKV_EPERM, farkv_incr(reader, "n", 1, NULL, NULL));
	FAILS(FARKV_EPERM, farkv_append(reader, "n", 1, "2", 1));
	FAILS(FARKV_EPERM, farkv_prepend(reader, "none", 4, "2", 1));
	e2e_expect_str(reader, "n", "1");
	farkv_close(reader);
}

/* ---- appends -------------------------------------------------------------------------- */

TEST(value_grows_at_either_end)
{
	FAILS(FARKV_ENOTFOUND, farkv_append(kv, "k", 1, "x", 1));
	FAILS(FARKV_ENOTFOUND, farkv_prepend(kv, "k", 1, "x", 1));
	FAILS(FARKV_ENOTFOUND, farkv_exists(kv, "k", 1));
	OK(e2e_put(kv, "k", ""));
	OK(farkv_append(kv, "k", 1, NULL, 0));
	e2e_expect_str(kv, "k", "");
	OK(farkv_append(kv, "k", 1, "middle", 6));
	OK(farkv_append(kv, "k", 1, ", end", 5));
	OK(farkv_prepend(kv, "k", 1, "begin, ", 7));
	e2e_expect_str(kv, "k", "begin, middle, end");
	OK(farkv_prepend(kv, "k", 1, "x", 0));
	e2e_expect_str(kv, "k", "begin, middle, end");
	OK(e2e_del(kv, "k"));
	FAILS(FARKV_ENOTFOUND, farkv_append(kv, "k", 1, "x", 1));
}

/* Through all size classes, up to the store's limit. */
TEST(value_grows_up_to_the_limit)
{
	static uint8_t want[1 << 20];
	size_t len = 0, limit = sizeof(want);

	e2e_fill(want, limit, 1);
	OK(farkv_put(kv, "k", 1, NULL, 0));
	for (size_t step = 1; len < limit; step = step * 3 / 2 + 1) {
		size_t part = UTIL_MIN(step, limit - len);

		OK(farkv_append(kv, "k", 1, want + len, part));
		len += part;
		e2e_expect(kv, "k", 1, want, len);
	}
	FAILS(FARKV_ETOOLARGE, farkv_append(kv, "k", 1, "x", 1));
	e2e_detail("--max-item-size");
	FAILS(FARKV_ETOOLARGE, farkv_prepend(kv, "k", 1, "x", 1));
	e2e_expect(kv, "k", 1, want, limit);
}

TEST(data_that_are_too_long_are_not_read)
{
	size_t limit = 1 << 20;
	void *data = mmap(NULL, limit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert(data != MAP_FAILED);
	OK(e2e_put(kv, "k", "x"));
	FAILS(FARKV_ETOOLARGE, farkv_append(kv, "k", 1, data, limit));
	e2e_detail("has 1048577 bytes");
	FAILS(FARKV_ETOOLARGE, farkv_prepend(kv, "k", 1, data, limit));
	e2e_expect_str(kv, "k", "x");
	munmap(data, limit);
}

/* What the last call returned may be key and data of the next. */
TEST(value_that_was_got_is_appended_to_itself)
{
	static const size_t lengths[] = {1, 100, 640, 5000, 200000};
	static uint8_t want[400000];
	struct farkv_value v;

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		size_t len = lengths[i];

		e2e_fill(want, len, i);
		memcpy(want + len, want, len);
		for (unsigned before = 0; before < 2; before++) {
			OK(farkv_put(kv, "k", 1, want, len));
			OK(farkv_get(kv, "k", 1, &v));
			OK(before ? farkv_prepend(kv, "k", 1, v.data, v.len) :
				    farkv_append(kv, "k", 1, v.data, v.len));
			e2e_expect(kv, "k", 1, want, 2 * len);
		}
	}
	OK(e2e_put(kv, "name", "n"));
	OK(e2e_put(kv, "n", "8"));
	OK(farkv_get(kv, "name", 4, &v));
	OK(farkv_incr(kv, v.data, v.len, NULL, NULL));
	e2e_expect_str(kv, "n", "9");
}

/* ---- others write in between ------------------------------------------------------------ */

static struct farkv *rival;
static void (*rival_acts)(void);
static unsigned rival_times; /* so often it acts, before a CAS of the other's */
static unsigned acted;
static bool acting; /* its own requests pass */

static int before_cas(void *arg, const struct xport_chain *c, unsigned i, bool after)
{
	(void)arg;
	if (after || acting || c->wr[i].opcode != XPORT_CAS || !rival_acts ||
	    acted == rival_times)
		return 0;
	acted++;
	acting = true;
	rival_acts();
	acting = false;
	return 0;
}

static struct xport_lane *wrap_rival(struct xport_lane *lane)
{
	static const struct xport_fault_config cfg = {.hide_direct = true, .hook = before_cas};

	return xport_fault_open(lane, &cfg);
}

static void setup_rival(void)
{
	setup();
	rival = e2e_open(srv.path, 20000);
	farkv_close(kv);
	conn_wrap_lane = wrap_rival;
	kv = e2e_open(srv.path, 500);
	acted = 0;
	rival_acts = NULL;
}

static void teardown_rival(void)
{
	rival_acts = NULL;
	farkv_close(rival);
	teardown();
}

static void let_rival(void (*acts)(void), unsigned times)
{
	rival_acts = acts;
	rival_times = times;
	acted = 0;
}

static void rival_counts(void)
{
	OK(farkv_incr(rival, "n", 1, NULL, NULL));
}

static void rival_deletes(void)
{
	OK(farkv_delete(rival, "n", 1));
}

static void rival_adds(void)
{
	OK(farkv_add(rival, "n", 1, "50", 2));
}

static void rival_appends(void)
{
	OK(farkv_append(rival, "k", 1, "his", 3));
}

TEST_GROUP(.setup = setup_rival, .teardown = teardown_rival, .skip = real_server_is_remote);

TEST(count_that_loses_is_done_on_the_new_value)
{
	struct farkv_incr_options o = by(100);
	uint64_t number;

	OK(e2e_put(kv, "n", "0"));
	let_rival(rival_counts, 7);
	OK(farkv_incr(kv, "n", 1, &o, &number));
	ck_assert_uint_eq(acted, 7);
	ck_assert_uint_eq(number, 107);
	e2e_expect_str(rival, "n", "107");
	OK(e2e_put(kv, "k", "mine"));
	let_rival(rival_appends, 3);
	OK(farkv_prepend(kv, "k", 1, "not ", 4));
	ck_assert_uint_eq(acted, 3);
	e2e_expect_str(rival, "k", "not minehishishis");
}

/* The last call's value is data of this one, over all its attempts. */
TEST(append_that_loses_keeps_the_data_that_a_get_returned)
{
	struct farkv_value v;

	OK(e2e_put(kv, "k", "mine"));
	OK(e2e_put(kv, "other", "tail"));
	OK(farkv_get(kv, "other", 5, &v));
	let_rival(rival_appends, 3);
	OK(farkv_append(kv, "k", 1, v.data, v.len));
	ck_assert_uint_eq(acted, 3);
	e2e_expect_str(rival, "k", "minehishishistail");
}

TEST(count_of_a_key_that_goes_or_comes_begins_again)
{
	struct farkv_incr_options o = by(1);
	uint64_t number;

	OK(e2e_put(kv, "n", "7"));
	let_rival(rival_deletes, 1);
	FAILS(FARKV_ENOTFOUND, farkv_incr(kv, "n", 1, NULL, &number));
	ck_assert_uint_eq(acted, 1);
	FAILS(FARKV_ENOTFOUND, farkv_exists(rival, "n", 1));
	o.flags = FARKV_INCR_CREATE;
	o.initial = 30;
	let_rival(rival_adds, 1);
	OK(farkv_incr(kv, "n", 1, &o, &number));
	ck_assert_uint_eq(acted, 1);
	ck_assert_uint_eq(number, 51);
	let_rival(rival_deletes, 1);
	OK(farkv_incr(kv, "n", 1, &o, &number));
	ck_assert_uint_eq(acted, 1);
	ck_assert_uint_eq(number, 30);
	e2e_expect_str(rival, "n", "30");
}

TEST(count_that_always_loses_ends_at_its_deadline)
{
	uint64_t number = 77, rivals;
	char text[24];

	OK(e2e_put(kv, "n", "0"));
	let_rival(rival_counts, UINT32_MAX);
	FAILS(FARKV_ETIMEDOUT, farkv_incr(kv, "n", 1, NULL, &number));
	ck_assert_uint_eq(number, 77);
	rivals = acted;
	rival_acts = NULL;
	snprintf(text, sizeof(text), "%" PRIu64, rivals);
	e2e_expect_str(rival, "n", text);
	OK(farkv_incr(kv, "n", 1, NULL, &number));
	ck_assert_uint_eq(number, rivals + 1);
}

/* ---- connections that break -------------------------------------------------------------- */

static unsigned break_in; /* requests until the lane breaks; 0: it does not */
static bool break_after;  /* after that request has been carried out */
static unsigned breaks;

static int breaking(void *arg, const struct xport_chain *c, unsigned i, bool after)
{
	(void)arg;
	(void)c;
	(void)i;
	if (after != break_after || break_in == 0 || --break_in > 0)
		return 0;
	breaks++;
	return FARKV_EDISCONNECTED;
}

static struct xport_lane *wrap_breaking(struct xport_lane *lane)
{
	static const struct xport_fault_config cfg = {.hide_direct = true, .hook = breaking};

	return xport_fault_open(lane, &cfg);
}

static void setup_breaking(void)
{
	conn_wrap_lane = wrap_breaking;
	setup();
}

/* Count up by one over a connection that breaks at its request number `at`. */
static int count_breaking(unsigned at, uint64_t *number_out)
{
	int err;

	breaks = 0;
	break_in = at;
	err = farkv_incr(kv, "n", 1, NULL, number_out);
	break_in = 0;
	if (at == 1)
		ck_assert_uint_eq(breaks, 1);
	return err;
}

static uint64_t stored_number(void)
{
	char text[24] = "";
	size_t len;

	OK(farkv_get_into(kv, "n", 1, text, sizeof(text) - 1, &len, NULL));
	return strtoull(text, NULL, 10);
}

TEST_GROUP(.setup = setup_breaking, .teardown = teardown, .skip = real_server_is_remote);

/*
 * Nobody else writes, so each outcome can be found out, and it is counted once. Only a barrier
 * hides it, that of a sweep after sessions lost before: then it is tried again.
 */
TEST_LOOP(count_whose_connection_breaks_is_done_once, 0, 2)
{
	uint64_t number, want = 0;

	break_after = _i;
	OK(e2e_put(kv, "n", "0"));
	for (unsigned at = 1; at <= 12; at++) {
		int err;

		while ((err = count_breaking(at, &number)) == FARKV_EMAYBE) {
			number = stored_number();
			ck_assert(number == want || number == want + 1);
			want = number;
		}
		OK(err);
		ck_assert_uint_eq(number, ++want);
	}
}

/* ---- several processes --------------------------------------------------------------------- */

static void child_must(int err)
{
	if (!err)
		return;
	fprintf(stderr, "child: %s: %s\n", farkv_strerror(err), farkv_errdetail());
	_exit(1);
}

static void count_in_child(unsigned who)
{
	struct farkv_incr_options up = by(1 + who), down = by(who);
	struct farkv_options o;
	struct farkv *own;
	char mark[2] = {(char)('a' + who), '\0'};

	farkv_options_init(&o);
	o.op_timeout_ms = o.connect_timeout_ms = 60000;
	child_must(farkv_open(srv.path, &o, &own));
	up.flags = FARKV_INCR_CREATE;
	up.initial = 1 + who;
	for (unsigned i = 0; i < TIMES; i++) {
		child_must(farkv_incr(own, "sum", 3, &up, NULL));
		child_must(farkv_decr(own, "sum", 3, &down, NULL));
		if (i % 8 == 0)
			child_must(i % 16 ? farkv_append(own, "log", 3, mark, 1) :
					    farkv_prepend(own, "log", 3, mark, 1));
	}
	farkv_close(own);
	_exit(0);
}

static void wait_child(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_GROUP(.setup = setup, .teardown = teardown);

/* Each adds as much more than it subtracts as there are rounds; nothing is lost or done twice. */
TEST(sum_of_several_processes_is_exact)
{
	size_t marks[PROCESSES] = {0}, each = (TIMES + 7) / 8;
	pid_t pids[PROCESSES];
	struct farkv_value v;
	char want[24];

	OK(e2e_put(kv, "log", ""));
	for (unsigned i = 0; i < PROCESSES; i++) {
		pids[i] = fork();
		ck_assert_int_ge(pids[i], 0);
		if (pids[i] == 0)
			count_in_child(i);
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		wait_child(pids[i]);
	snprintf(want, sizeof(want), "%u", PROCESSES * TIMES);
	e2e_expect_str(kv, "sum", want);
	OK(farkv_get(kv, "log", 3, &v));
	ck_assert_uint_eq(v.len, PROCESSES * each);
	for (size_t i = 0; i < v.len; i++)
		marks[((const char *)v.data)[i] - 'a']++;
	for (unsigned i = 0; i < PROCESSES; i++)
		ck_assert_uint_eq(marks[i], each);
}

TEST_SUITE("update", real_server_require())
