/* SPDX-License-Identifier: BSD-3-Clause */
/* The leaves: sizes and numbers, error lines, socket paths. */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/sockpath.h"
#include "common/util.h"
#include "test_main.h"

static const struct {
	const char *text;
	uint64_t unit, bytes;
} sizes[] = {
	{"0", 1, 0}, {"1", 1, 1}, {"64", 1 << 20, 64ull << 20},
	{"1k", 1, 1024}, {"1K", 1, 1024}, {"2kb", 1, 2048}, {"2KiB", 1, 2048},
	{"3m", 1, 3 << 20}, {"2g", 1 << 20, 2ull << 30}, {"2G", 7, 2ull << 30},
	{"1t", 1, 1ull << 40}, {"16777215t", 1, 16777215ull << 40},
	{"18446744073709551615", 1, UINT64_MAX}, {"007", 1, 7},
};

START_TEST(util_parse_size_good)
{
	uint64_t v = 4711;

	ck_assert(util_parse_size(sizes[_i].text, sizes[_i].unit, &v));
	ck_assert_uint_eq(v, sizes[_i].bytes);
}
END_TEST

static const char *const bad_sizes[] = {
	"", " ", " 1", "1 ", "-1", "+1", "1.5g", "g", "1x", "1gg", "1kib2",
	"1bb", "0x10", "16777216t", "18446744073709551616", "1e9", "\xff",
	"99999999999999999999999999", "18014398509481984k",
};

START_TEST(util_parse_size_bad_leaves_the_output)
{
	uint64_t v = 4711;

	ck_assert(!util_parse_size(bad_sizes[_i], 1, &v));
	ck_assert_uint_eq(v, 4711);
}
END_TEST

START_TEST(util_parse_u64_whole_text_or_nothing)
{
	uint64_t v = 4711;

	ck_assert(!util_parse_u64("1k", &v));
	ck_assert(!util_parse_u64("", &v));
	ck_assert(!util_parse_u64("-1", &v));
	ck_assert(!util_parse_u64("18446744073709551616", &v));
	ck_assert_uint_eq(v, 4711);
	ck_assert(util_parse_u64("18446744073709551615", &v));
	ck_assert_uint_eq(v, UINT64_MAX);
}
END_TEST

START_TEST(util_format_size_examples)
{
	char b[24];

	ck_assert_str_eq(util_format_size(0, b, sizeof(b)), "0 B");
	ck_assert_str_eq(util_format_size(1023, b, sizeof(b)), "1023 B");
	ck_assert_str_eq(util_format_size(1536, b, sizeof(b)), "1.5 KiB");
	ck_assert_str_eq(util_format_size(1ull << 30, b, sizeof(b)), "1.0 GiB");
	ck_assert_str_eq(util_format_size(UINT64_MAX, b, sizeof(b)),
			 "16.0 EiB");
}
END_TEST

START_TEST(err_str_every_number_has_a_text_of_its_own)
{
	static const int all[] = {
		FARKV_OK, FARKV_ENOTFOUND, FARKV_EEXISTS, FARKV_EVERSION,
		FARKV_ENOSPC, FARKV_EINDEXFULL, FARKV_ETOOLARGE,
		FARKV_ETOOSMALL, FARKV_ETIMEDOUT, FARKV_EMAYBE, FARKV_EPERM,
		FARKV_EINVAL, FARKV_ENOMEM, FARKV_EABORTED, FARKV_EDISCONNECTED,
		FARKV_EUNREACHABLE, FARKV_EREFUSED, FARKV_EPROTOCOL,
		FARKV_EFORMAT, FARKV_ECORRUPT, FARKV_EURI, FARKV_ENOTSUP,
		FARKV_ESYS,
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		ck_assert_str_ne(err_str(all[i]), "unknown error");
		for (size_t j = 0; j < i; j++)
			ck_assert_str_ne(err_str(all[i]), err_str(all[j]));
	}
	ck_assert_str_eq(err_str(12345), "unknown error");
	ck_assert_str_eq(err_str(-1), "unknown error");
}
END_TEST

START_TEST(err_set_long_line_is_bounded_and_returns_the_number)
{
	char big[2000];

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	ck_assert_int_eq(err_set(FARKV_EURI, "a%sb", big), FARKV_EURI);
	ck_assert_uint_eq(strlen(err_detail()), 511);
	ck_assert_int_eq(err_set_errno(FARKV_ESYS, 2, "cannot open %s", "x"),
			 FARKV_ESYS);
	ck_assert_str_eq(err_detail(),
			 "cannot open x: No such file or directory");
	/* A line may be built from the one before. */
	err_set(FARKV_ESYS, "item: %s", err_detail());
	ck_assert_str_eq(err_detail(),
			 "item: cannot open x: No such file or directory");
	err_clear();
	ck_assert_str_eq(err_detail(), "");
}
END_TEST

static void *other_thread(void *arg)
{
	(void)arg;
	ck_assert_str_eq(err_detail(), "");
	err_set(FARKV_EINVAL, "theirs");
	return NULL;
}

START_TEST(err_detail_belongs_to_the_thread)
{
	pthread_t t;

	err_set(FARKV_EINVAL, "mine");
	ck_assert_int_eq(pthread_create(&t, NULL, other_thread, NULL), 0);
	pthread_join(t, NULL);
	ck_assert_str_eq(err_detail(), "mine");
}
END_TEST

START_TEST(sockpath_follows_the_runtime_folder)
{
	char path[SOCKPATH_MAX], dir[120];

	setenv("XDG_RUNTIME_DIR", "/run/user/1000", 1);
	ck_assert_int_eq(sockpath_server_default(path, sizeof(path)), 0);
	ck_assert_str_eq(path, "/run/user/1000/farkv/kvserver.sock");
	setenv("XDG_RUNTIME_DIR", "", 1);
	ck_assert_int_eq(sockpath_server_default(path, sizeof(path)), 0);
	ck_assert_str_eq(path, "/run/farkv/kvserver.sock");
	unsetenv("XDG_RUNTIME_DIR");
	ck_assert_int_eq(sockpath_server_default(path, sizeof(path)), 0);
	ck_assert_str_eq(path, "/run/farkv/kvserver.sock");
	/* 107 bytes fit into an address of a socket, 108 do not. */
	memset(dir, 'd', sizeof(dir));
	dir[0] = '/';
	dir[107 - strlen("/farkv/kvserver.sock")] = '\0';
	setenv("XDG_RUNTIME_DIR", dir, 1);
	ck_assert_int_eq(sockpath_server_default(path, sizeof(path)), 0);
	ck_assert_uint_eq(strlen(path), 107);
	strcat(dir, "d");
	setenv("XDG_RUNTIME_DIR", dir, 1);
	ck_assert_int_eq(sockpath_server_default(path, sizeof(path)),
			 FARKV_EURI);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("util");
	TCase *t = tcase_create("leaves");

	tcase_add_loop_test(t, util_parse_size_good, 0,
			    (int)ARRAY_SIZE(sizes));
	tcase_add_loop_test(t, util_parse_size_bad_leaves_the_output, 0,
			    (int)ARRAY_SIZE(bad_sizes));
	tcase_add_test(t, util_parse_u64_whole_text_or_nothing);
	tcase_add_test(t, util_format_size_examples);
	tcase_add_test(t, err_str_every_number_has_a_text_of_its_own);
	tcase_add_test(t, err_set_long_line_is_bounded_and_returns_the_number);
	tcase_add_test(t, err_detail_belongs_to_the_thread);
	tcase_add_test(t, sockpath_follows_the_runtime_folder);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
