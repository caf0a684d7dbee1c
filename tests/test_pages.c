/* SPDX-License-Identifier: BSD-3-Clause */
/* The data area's memory: a client that may write it cannot cut it short. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/err.h"
#include "server/pages.h"
#include "test_main.h"

#define BYTES (UINT64_C(6) << 20)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static bool is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SEALS) == SEALS;
}

static void check_use(int fd, uint8_t *map)
{
	map[0] = 1;
	map[BYTES - 1] = 2;
	ck_assert_uint_eq(map[0] + map[BYTES - 1], 3);
	munmap(map, BYTES);
	close(fd);
}

static const enum region_pages safe[] = {REGION_PAGES_NEVER, REGION_PAGES_AUTO};

START_TEST(pages_create_unless_forced_is_sealed)
{
	char note[512] = "";
	void *map = NULL;
	int fd = pages_create(BYTES, safe[_i], &map, note, sizeof(note));

	ck_assert_msg(fd >= 0, "%s", err_detail());
	ck_assert_msg(is_sealed(fd), "%s", note);
	ck_assert_int_eq(ftruncate(fd, 0), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_ptr_null(strstr(note, "no seals"));
	check_use(fd, map);
}
END_TEST

START_TEST(pages_create_forced_is_sealed_or_says_so_or_says_why_not)
{
	char note[512] = "";
	void *map = NULL;
	int fd = pages_create(BYTES, REGION_PAGES_ALWAYS, &map, note,
			      sizeof(note));

	if (fd < 0) {
		ck_assert_int_eq(fd, FARKV_ENOTSUP);
		ck_assert_ptr_nonnull(strstr(err_detail(), "hugetlb ("));
		ck_assert_ptr_null(map);
		return;
	}
	ck_assert_ptr_nonnull(strstr(note, "2 MiB"));
	ck_assert_int_eq(is_sealed(fd), strstr(note, "no seals") == NULL);
	check_use(fd, map);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("pages");
	TCase *t = tcase_create("pages");

	tcase_add_loop_test(t, pages_create_unless_forced_is_sealed, 0, 2);
	tcase_add_test(
		t, pages_create_forced_is_sealed_or_says_so_or_says_why_not);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
