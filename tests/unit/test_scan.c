/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * farkv_scan() and farkv_clear() against a real kvserver, while others write, the index grows,
 * the server stops or restarts, and the clearing process is killed.
 */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farkv.h>

#include "client/conn.h"
#include "common/base/atomic.h"
#include "common/base/util.h"
#include "common/xport/xport.h"
#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/fsck_text.h"
#include "tests/rig/real_server.h"

#define KEYS 100000u
#define FEW 3000u
#define WRITERS 2u
#define TIMEOUT_MS 60000u /* of a busy machine */
#define KEY_LEN 10u

/* A long T: a slow moment of this machine costs no extra READ. */
static const char *const args[] = {"-m", "192m", "--index-slots", "8192", "--grace-ms", "1000",
				   NULL};
static struct real_server srv;
static struct farkv *kv;

static void setup(void)
{
	real_server_init(&srv, args);
	kv = e2e_open(srv.path, TIMEOUT_MS);
}

static void teardown(void)
{
	farkv_close(kv);
	real_server_fini(&srv);
}

/* ---- keys, in families: "base000001" ---------------------------------------------------- */

static void key_make(char *key, const char *family, unsigned i)
{
	snprintf(key, KEY_LEN + 1, "%s%06u", family, i);
}

/* Store keys `from` to `to` - 1 of a family; each value is its key. */
static int store(struct farkv *h, const char *family, unsigned from, unsigned to)
{
	char keys[128][KEY_LEN + 1];
	struct farkv_put_item items[128];
	int err = 0;

	while (from < to && !err) {
		size_t n = 0;

		for (; n < 128 && from < to; n++, from++) {
			key_make(keys[n], family, from);
			items[n] = (struct farkv_put_item){keys[n], KEY_LEN, keys[n], KEY_LEN, 0};
		}
		err = farkv_mput(h, items, n);
	}
	return err;
}

/* Keys of each family and writer: an emulated machine takes its time. */
static unsigned many(void)
{
	return real_server_is_remote() ? KEYS / 25 : KEYS;
}

/* How often a scan has listed each key of "base", and of "more". */
struct census {
	uint8_t base[KEYS], more[2 * KEYS];
	size_t n;
};
static struct census census;

static void census_take(const struct farkv_scan_item *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *key = items[i].key;
		char digits[8] = "";
		bool base;

		ck_assert_uint_eq(items[i].key_len, KEY_LEN);
		ck_assert_uint_eq(items[i].value_len, KEY_LEN);
		base = memcmp(key, "base", 4) == 0;
		ck_assert(base || memcmp(key, "more", 4) == 0);
		memcpy(digits, key + 4, 6);
		(base ? census.base : census.more)[atoi(digits)]++;
	}
	census.n += n;
}

static void census_make(struct farkv *h)
{
	uint64_t cursor = 0;

	memset(&census, 0, sizeof(census));
	do {
		const struct farkv_scan_item *items;
		size_t n;

		OK(farkv_scan(h, &cursor, SIZE_MAX, &items, &n));
		census_take(items, n);
	} while (cursor);
	for (unsigned i = 0; i < 2 * KEYS; i++)
		ck_assert_uint_le(census.more[i], 1);
}

/* ---- while others write --------------------------------------------------------------- */

static struct writer {
	pthread_t thread;
	struct farkv *kv;
	unsigned id;
	unsigned base; /* overwrites keys of "base" below this */
	unsigned done; /* keys of "more" that it has stored; each 128th was deleted again */
	int err;
} writers[WRITERS];
static unsigned writing, halt;

/* Insert half of "more", deleting some again, and overwrite "base" meanwhile. */
static void *write_more(void *arg)
{
	struct writer *w = arg;
	char key[KEY_LEN + 1];

	for (unsigned i = 0; i < many() && !w->err && !atom_load_relaxed(&halt); i += 128) {
		unsigned from = w->id * KEYS + i, b = (i * 7 + w->id) % many();

		w->err = store(w->kv, "more", from, from + UTIL_MIN(128u, many() - i));
		if (!w->err && w->base)
			w->err = store(w->kv, "base", b % w->base,
				       UTIL_MIN(b % w->base + 64, w->base));
		key_make(key, "more", from);
		if (!w->err)
			w->err = farkv_delete(w->kv, key, KEY_LEN);
		if (w->err == FARKV_ENOTFOUND) /* cleared */
			w->err = 0;
		atom_store_publish(&w->done, i + 128);
	}
	(void)__atomic_sub_fetch(&writing, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void writers_start(unsigned base)
{
	atom_store_relaxed(&halt, 0);
	atom_store_relaxed(&writing, WRITERS);
	for (unsigned i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){
			.kv = e2e_open(srv.path, TIMEOUT_MS), .id = i, .base = base};
		ck_assert_int_eq(pthread_create(&writers[i].thread, NULL, write_more, &writers[i]),
				 0);
	}
}

static void writers_end(void)
{
	for (unsigned i = 0; i < WRITERS; i++) {
		pthread_join(writers[i].thread, NULL);
		ck_assert_int_eq(writers[i].err, 0);
		farkv_close(writers[i].kv);
	}
}

static uint64_t splits(void)
{
	struct farkv_stats s = {.size = sizeof(s)};

	OK(farkv_stats(kv, &s));
	return s.splits;
}

/* A scan: each key of "base" is listed once, and each that writers had stored before. */
static void census_check(unsigned scan)
{
	unsigned done[WRITERS];

	for (unsigned i = 0; i < WRITERS; i++)
		done[i] = UTIL_MIN(atom_load_follow(&writers[i].done), many());
	census_make(kv);
	for (unsigned i = 0; i < many(); i++)
		ck_assert_msg(census.base[i] == 1, "scan %u: key %u was listed %u times", scan, i,
			      census.base[i]);
	for (unsigned w = 0; w < WRITERS; w++)
		for (unsigned i = 0; i < done[w]; i++)
			ck_assert_msg(census.more[w * KEYS + i] == (i % 128 != 0),
				      "scan %u: key %u of writer %u was listed %u times", scan, i,
				      w, census.more[w * KEYS + i]);
}

TEST_GROUP(.setup = setup, .teardown = teardown, .timeout_s = 120);

TEST(keys_present_throughout_are_listed_once_while_others_write_and_the_index_grows)
{
	unsigned scans = 0;
	uint64_t before;

	OK(store(kv, "base", 0, many()));
	before = splits();
	writers_start(many());
	do
		census_check(scans++);
	while (atom_load_relaxed(&writing));
	writers_end();
	ck_assert_uint_gt(splits(), before);
	census_make(kv);
	ck_assert_uint_eq(census.n, many() + WRITERS * (many() - (many() + 127) / 128));
}

TEST(clear_removes_what_was_there_while_others_write)
{
	uint64_t deleted = 0;

	OK(store(kv, "base", 0, many()));
	writers_start(0);
	OK(farkv_clear(kv, &deleted));
	ck_assert_uint_ge(deleted, many());
	census_make(kv);
	for (unsigned i = 0; i < many(); i++)
		ck_assert_uint_eq(census.base[i], 0);
	atom_store_relaxed(&halt, 1);
	writers_end();
	census_make(kv);
	OK(farkv_clear(kv, &deleted));
	ck_assert_uint_eq(deleted, census.n);
	census_make(kv);
	ck_assert_uint_eq(census.n, 0);
	OK(farkv_clear(kv, NULL));
}

/* ---- killed --------------------------------------------------------------------------- */

static _Noreturn void clear_in_child(void)
{
	struct farkv *h;

	if (farkv_open(srv.path, NULL, &h) == 0 && farkv_clear(h, NULL) == 0)
		pause();
	_exit(1);
}

/* Kill a process that clears the store once keys are gone; returns how many are left. */
static size_t kill_clearing(void)
{
	const struct farkv_scan_item *items;
	uint64_t cursor = 0;
	size_t before, n;
	pid_t pid;

	OK(farkv_scan(kv, &cursor, SIZE_MAX, &items, &before));
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		clear_in_child();
	do {
		cursor = 0;
		OK(farkv_scan(kv, &cursor, SIZE_MAX, &items, &n));
	} while (n == before && waitpid(pid, NULL, WNOHANG) == 0);
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	census_make(kv);
	return census.n;
}

TEST(killed_clear_leaves_whole_keys_that_the_next_one_removes)
{
	struct farkv_fsck f = {.size = sizeof(f)};
	char text[FSCK_TEXT_CAP];
	size_t left = 0;
	uint64_t deleted;

	/* The process can be through before it is killed: then again. */
	for (unsigned i = 0; i < 20 && !left; i++) {
		OK(store(kv, "base", 0, many()));
		left = kill_clearing();
	}
	ck_assert(left > 0 && left < many());
	for (unsigned i = 0; i < many(); i++) {
		char key[KEY_LEN + 1];

		key_make(key, "base", i);
		if (census.base[i])
			e2e_expect_str(kv, key, key);
		else
			ck_assert_int_eq(e2e_probe(kv, key), FARKV_ENOTFOUND);
	}
	OK(farkv_fsck(kv, &f));
	ck_assert_msg(fsck_problems(&f) == 0, "%s", fsck_text(&f, text));
	OK(farkv_clear(kv, &deleted));
	ck_assert_uint_eq(deleted, left);
}

/* ---- the connection ------------------------------------------------------------------- */

TEST(scan_goes_on_while_the_server_is_stopped)
{
	OK(store(kv, "base", 0, FEW));
	real_server_pause(&srv);
	census_make(kv);
	real_server_resume(&srv);
	ck_assert_uint_eq(census.n, FEW);
}

TEST(scan_over_a_restart_fails_once_and_then_lists_the_new_store)
{
	const struct farkv_scan_item *items;
	uint64_t cursor = 0;
	size_t n = 0;

	OK(store(kv, "base", 0, many()));
	OK(farkv_scan(kv, &cursor, SIZE_MAX, &items, &n));
	ck_assert_uint_gt(n, 0);
	ck_assert_uint_ne(cursor, 0);
	real_server_end(&srv, SIGKILL);
	real_server_start(&srv, args);
	FAILS(FARKV_EDISCONNECTED, farkv_scan(kv, &cursor, SIZE_MAX, &items, &n));
	OK(store(kv, "base", 0, FEW));
	census_make(kv);
	ck_assert_uint_eq(census.n, FEW);
}

static uint64_t break_at; /* requests of the next connection until it breaks; 0: it does not */
static unsigned connections;

static struct xport_lane *wrap_breaking(struct xport_lane *lane)
{
	const struct xport_fault_config cfg = {.hide_direct = true, .break_at = break_at};

	break_at = 0;
	connections++;
	return xport_fault_open(lane, &cfg);
}

TEST(scan_whose_connection_breaks_goes_on_over_the_next_one)
{
	static const uint64_t breaks[] = {4, 5, 60, 200, 1000, FEW};

	if (real_server_skips("scan_whose_connection_breaks", "it breaks a lane in this process"))
		return;
	OK(store(kv, "base", 0, FEW));
	for (size_t i = 0; i < ARRAY_SIZE(breaks); i++) {
		struct farkv *h;

		conn_wrap_lane = wrap_breaking;
		break_at = breaks[i];
		connections = 0;
		h = e2e_open(srv.path, TIMEOUT_MS);
		census_make(h);
		ck_assert_uint_eq(census.n, FEW);
		ck_assert_uint_eq(connections, 2);
		farkv_close(h);
		conn_wrap_lane = NULL;
	}
}

/* ---- handles -------------------------------------------------------------------------- */

TEST(listed_keys_stay_while_other_calls_use_the_handle)
{
	const struct farkv_scan_item *items;
	uint64_t cursor = 0, deleted = 0;

	OK(store(kv, "base", 0, FEW));
	do {
		size_t n;

		OK(farkv_scan(kv, &cursor, 100, &items, &n));
		for (size_t i = 0; i < n; i++) {
			e2e_expect(kv, items[i].key, items[i].key_len, items[i].key,
				   items[i].value_len);
			OK(farkv_delete(kv, items[i].key, items[i].key_len));
			deleted++;
		}
	} while (cursor);
	ck_assert_uint_eq(deleted, FEW);
}

TEST(cursor_goes_on_in_another_handle)
{
	struct farkv *handles[2] = {kv, e2e_open_readonly(srv.path, TIMEOUT_MS)};
	uint64_t cursor = 0;
	unsigned turn = 0;

	OK(store(kv, "base", 0, FEW));
	memset(&census, 0, sizeof(census));
	do {
		const struct farkv_scan_item *items;
		size_t n;

		OK(farkv_scan(handles[turn++ % 2], &cursor, 500, &items, &n));
		ck_assert_uint_le(n, 500);
		census_take(items, n);
	} while (cursor);
	for (unsigned i = 0; i < FEW; i++)
		ck_assert_uint_eq(census.base[i], 1);
	farkv_close(handles[1]);
}

TEST(readonly_handle_scans_and_does_not_clear)
{
	struct farkv *reader = e2e_open_readonly(srv.path, TIMEOUT_MS);
	uint64_t deleted = 7;

	OK(store(kv, "base", 0, FEW));
	FAILS(FARKV_EPERM, farkv_clear(reader, &deleted));
	e2e_detail("read-only");
	ck_assert_uint_eq(deleted, 0);
	census_make(reader);
	ck_assert_uint_eq(census.n, FEW);
	farkv_close(reader);
}

TEST(bad_arguments_are_refused)
{
	const struct farkv_scan_item *items = NULL;
	uint64_t cursor = 5, deleted = 7;
	size_t n = 7;

	FAILS(FARKV_EINVAL, farkv_scan(NULL, &cursor, SIZE_MAX, &items, &n));
	FAILS(FARKV_EINVAL, farkv_scan(kv, NULL, SIZE_MAX, &items, &n));
	FAILS(FARKV_EINVAL, farkv_scan(kv, &cursor, SIZE_MAX, NULL, &n));
	FAILS(FARKV_EINVAL, farkv_scan(kv, &cursor, SIZE_MAX, &items, NULL));
	FAILS(FARKV_EINVAL, farkv_scan(kv, &cursor, FARKV_SCAN_MIN - 1, &items, &n));
	e2e_detail("max is 63; at least 64");
	FAILS(FARKV_EINVAL, farkv_clear(NULL, NULL));
	FAILS(FARKV_EINVAL, farkv_clear(NULL, &deleted));
	ck_assert_uint_eq(deleted, 0);
	ck_assert(cursor == 5 && n == 7 && !items);
}

/* What header and man page say of the cost. */
TEST(call_costs_a_round_trip_and_one_for_each_128_keys)
{
	struct farkv_counters before = {.size = sizeof(before)}, after = before;
	const struct farkv_scan_item *items;
	uint64_t cursor = 0, trips, keys;
	size_t n;

	OK(store(kv, "base", 0, FEW));
	OK(farkv_scan(kv, &cursor, SIZE_MAX, &items, &n));
	cursor = 0;
	OK(farkv_counters(kv, &before));
	OK(farkv_scan(kv, &cursor, SIZE_MAX, &items, &n));
	OK(farkv_counters(kv, &after));
	keys = n;
	ck_assert_uint_gt(keys, 128);
	trips = after.round_trips - before.round_trips;
	ck_assert_uint_eq(trips, real_server_is_remote() ? 1 + (keys + 127) / 128 : 0);
	ck_assert_uint_eq(after.reads - before.reads,
			  real_server_is_remote() ? keys + 3 * (1 + real_server_tears()) : 0);
}

TEST_SUITE("scan", real_server_require())
