/* SPDX-License-Identifier: BSD-3-Clause */
/* Structs of the first version and of later ones, by their sizes; unmapped addresses. */
#include "config.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"

static struct real_server srv;
static struct farkv *kv;

static void setup(void)
{
	static const char *const args[] = {"-m", "8m", NULL};

	real_server_init(&srv, args);
	kv = e2e_open(srv.path, 5000);
}

static void teardown(void)
{
	farkv_close(kv);
	real_server_fini(&srv);
}

/* ---- struct sizes ---------------------------------------------------------- */

static void open_refused(int want, const struct farkv_options *o)
{
	struct farkv *h = (struct farkv *)(void *)&srv;

	FAILS(want, farkv_open(srv.path, o, &h));
	ck_assert_ptr_eq(h, &srv);
	ck_assert_str_ne(farkv_errdetail(), "");
}

/* The options of a program that was built with a later header. */
struct newer {
	struct farkv_options o;
	uint8_t tail[64];
};

static void open_accepted(const struct farkv_options *o)
{
	struct farkv *h = NULL;

	OK(farkv_open(srv.path, o, &h));
	farkv_close(h);
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(options_of_any_version_are_initialized_to_their_size)
{
	struct newer newer;

	memset(&newer, 'x', sizeof(newer));
	farkv_options_init_sized(&newer.o, offsetof(struct farkv_options, keys));
	ck_assert_uint_eq(newer.o.size, offsetof(struct farkv_options, keys));
	ck_assert_uint_eq(newer.o.connect_timeout_ms, 5000);
	ck_assert_int_eq(*(char *)&newer.o.keys, 'x');
	open_accepted(&newer.o);
	farkv_options_init_sized(&newer.o, sizeof(newer));
	ck_assert_uint_eq(newer.o.size, sizeof(newer));
	ck_assert_uint_eq(newer.o.cache_entries, 65536);
	ck_assert_int_eq(newer.tail[63], 0);
	memset(&newer, 'x', sizeof(newer));
	farkv_options_init_sized(&newer.o, sizeof(newer.o.size) - 1);
	ck_assert_int_eq(*(char *)&newer.o.size, 'x');
	farkv_options_init_sized(NULL, sizeof(newer.o));
	(farkv_options_init)(NULL);
	(farkv_options_init)(&newer.o);
	ck_assert_uint_eq(newer.o.size, sizeof(struct farkv_options));
	ck_assert_int_eq(newer.tail[0], 'x');
}

TEST(options_of_any_version_are_read_to_their_size)
{
	struct newer newer = {0};

	farkv_options_init(&newer.o);
	ck_assert_uint_eq(newer.o.size, sizeof(struct farkv_options));
	ck_assert_uint_eq(newer.o.connect_timeout_ms, 5000);
	ck_assert_uint_eq(newer.o.op_timeout_ms, 5000);
	newer.o.size = sizeof(newer);
	open_accepted(&newer.o);
	newer.tail[63] = 1;
	open_refused(FARKV_ENOTSUP, &newer.o);
	e2e_detail(farkv_version());
	newer.tail[63] = 0;
	newer.o.size = 0;
	open_refused(FARKV_EINVAL, &newer.o);
	e2e_detail("farkv_options_init");
	newer.o.size = offsetof(struct farkv_options, keys); /* the first version */
	newer.o.keys = "/not/looked/at";
	open_accepted(&newer.o);
	newer.o.keys = NULL;
	newer.o.size = sizeof(newer.o) - 1;
	open_refused(FARKV_EINVAL, &newer.o);
	newer.o.size = SIZE_MAX;
	open_refused(FARKV_EINVAL, &newer.o);
	newer.o.size = sizeof(newer.o);
	newer.o.flags = 1u << 31;
	open_refused(FARKV_EINVAL, &newer.o);
	e2e_detail("0x80000000");
}

TEST(options_of_the_cache_are_checked_if_they_are_there)
{
	struct newer newer = {0};

	farkv_options_init(&newer.o);
	newer.o.size = offsetof(struct farkv_options, cache_entries);
	newer.o.cache_entries = UINT32_MAX; /* not looked at either */
	open_accepted(&newer.o);
	newer.o.size = sizeof(newer.o);
	open_refused(FARKV_EINVAL, &newer.o);
	e2e_detail("cache_entries is 4294967295");
	newer.o.cache_entries = 0;
	ck_assert_uint_eq(newer.o.cache_bytes, 1 << 20);
	newer.o.cache_bytes = 1023;
	open_refused(FARKV_EINVAL, &newer.o);
	e2e_detail("cache_bytes is 1023; 1024 to 1073741824, or 0");
	newer.o.cache_bytes = ((size_t)1 << 30) + 1;
	open_refused(FARKV_EINVAL, &newer.o);
	newer.o.size = offsetof(struct farkv_options, cache_bytes);
	open_accepted(&newer.o); /* not looked at */
	newer.o.cache_bytes = 0;
	newer.o.size = sizeof(newer.o);
	open_accepted(&newer.o);
}

/* Any known field alone, all, and a struct that is newer than the library. */
TEST(results_of_any_version_are_filled_to_their_size)
{
	static const size_t full[] = {sizeof(struct farkv_counters),
				      sizeof(struct farkv_stats)};
	union {
		struct farkv_counters c;
		struct farkv_stats s;
		size_t size;
		uint8_t bytes[4096];
	} r;
	struct farkv_stats whole = {.size = sizeof(whole)};

	OK(e2e_put(kv, "k", "v"));
	OK(farkv_stats(kv, &whole));
	for (size_t size = 0; size <= 1024; size += 8) {
		for (int stats = 0; stats < 2; stats++) {
			size_t known = size < full[stats] ? size : full[stats];
			int err;

			memset(&r, POISON, sizeof(r));
			r.size = size;
			err = stats ? farkv_stats(kv, &r.s)
				    : farkv_counters(kv, &r.c);
			if (size < 16) {
				FAILS(FARKV_EINVAL, err);
				known = 8;
			} else {
				OK(err);
				ck_assert_uint_eq(r.size, size);
			}
			for (size_t i = known; i < size; i++)
				ck_assert_uint_eq(r.bytes[i], 0);
			if (size < 8)
				size = 8;
			ck_assert(e2e_poisoned(r.bytes + size,
					       sizeof(r) - size));
			if (stats && size >= sizeof(whole))
				ck_assert_uint_eq(r.s.grace_ns,
						  whole.grace_ns);
		}
	}
	memset(&r, POISON, sizeof(r));
	FAILS(FARKV_EINVAL, farkv_counters(kv, &r.c));
	FAILS(FARKV_EINVAL, farkv_stats(kv, &r.s));
	ck_assert(e2e_poisoned(&r, sizeof(r)));
}

/* ---- addresses ------------------------------------------------------------- */

TEST(unmapped_address_is_refused)
{
	static const struct {
		const char *uri;
		int want;
	} bad[] = {{"", FARKV_EURI},
		   {"shm:", FARKV_EURI},
		   {"shm://", FARKV_EURI},
		   {"shm://host/sock", FARKV_EURI},
		   {"shm:///a?b", FARKV_EURI},
		   {"shm:///a%2", FARKV_EURI},
		   {"http://localhost/", FARKV_EURI},
		   {"kv://h:99999", FARKV_EURI},
		   {"name", FARKV_EURI},
		   {"shm:///nobody/here/sock", FARKV_EUNREACHABLE},
		   {"/nobody/here/sock", FARKV_EUNREACHABLE},
		   {"/dev/null", FARKV_EUNREACHABLE}};
	struct farkv *h = (struct farkv *)(void *)&srv;
	char uri[128];
	int err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		err = farkv_open(bad[i].uri, NULL, &h);
		ck_assert_msg(err == bad[i].want, "'%s': %s", bad[i].uri,
			      farkv_errdetail());
		ck_assert_ptr_eq(h, &srv);
		ck_assert_str_ne(farkv_errdetail(), "");
	}
	err = farkv_open("kv://no.such.host.invalid:1", NULL, &h);
	ck_assert(err == FARKV_ENOTSUP || err == FARKV_ENOROUTE);
	snprintf(uri, sizeof(uri), "%s%s",
		 real_server_is_remote() ? "" : "shm://", srv.path);
	OK(farkv_open(uri, NULL, &h));
	farkv_close(h);
	setenv("FARKV_URI", uri, 1);
	OK(farkv_open(NULL, NULL, &h));
	farkv_close(h);
	unsetenv("FARKV_URI");
	setenv("XDG_RUNTIME_DIR", srv.dir, 1);
	FAILS(FARKV_EUNREACHABLE, farkv_open(NULL, NULL, &h));
}

TEST_SUITE("structs", real_server_require())
