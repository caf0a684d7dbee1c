/* SPDX-License-Identifier: BSD-3-Clause */
/* The data area's memory: a client that may write it cannot cut it short. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"
#include "common/hugepage.h"
#include "common/util.h"
#include "server/areas.h"
#include "server/pages.h"
#include "test_main.h"

#define BYTES (UINT64_C(6) << 20)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static bool is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & SEALS) == SEALS;
}

static void check_use(const struct pages *p)
{
	uint8_t *map = p->map;

	map[0] = 1;
	map[BYTES - 1] = 2;
	ck_assert_uint_eq(map[0] + map[BYTES - 1], 3);
	munmap(map, BYTES);
	close(p->fd);
}

static const enum region_pages safe[] = {REGION_PAGES_NEVER, REGION_PAGES_TRANSPARENT,
					 REGION_PAGES_AUTO};

START_TEST(pages_create_unless_forced_is_sealed)
{
	struct pages p;

	ck_assert_msg(pages_create(BYTES, safe[_i], &p) == 0, "%s", err_detail());
	ck_assert_msg(is_sealed(p.fd), "%s", p.note);
	ck_assert_int_eq(ftruncate(p.fd, 0), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_ptr_null(strstr(p.note, "no seals"));
	/* What nobody has asked for by name is not taken from others. */
	if (safe[_i] != REGION_PAGES_AUTO)
		ck_assert_ptr_null(strstr(p.note, "hugetlb, "));
	check_use(&p);
}
END_TEST

START_TEST(pages_create_forced_is_sealed_or_says_so_or_says_why_not)
{
	struct pages p;
	int err = pages_create(BYTES, REGION_PAGES_ALWAYS, &p);

	if (err) {
		ck_assert_int_eq(err, FARKV_ENOTSUP);
		ck_assert_ptr_nonnull(strstr(err_detail(), "hugetlb ("));
		return;
	}
	ck_assert_ptr_nonnull(strstr(p.note, "2 MiB"));
	ck_assert_int_eq(is_sealed(p.fd), strstr(p.note, "no seals") == NULL);
	check_use(&p);
}
END_TEST

/* Bytes of the file that there is memory for. */
static uint64_t taken(int fd)
{
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

/* Has the kernel more such pages than a test needs? */
static bool pieces_left(void)
{
	struct pages p;
	bool all = false;

	if (pages_create(2 * BYTES, REGION_PAGES_TRANSPARENT, &p))
		return false;
	if (p.collapse)
		all = hugepage_collapse(p.map, 2 * BYTES);
	munmap(p.map, 2 * BYTES);
	close(p.fd);
	return all;
}

/* By one byte, all of its 2 MiB are there at once; what nobody uses takes nothing. */
START_TEST(areas_are_huge_pages_once_they_are_used)
{
	struct areas *a;
	struct pages p;
	uint8_t *map;

	ck_assert_int_eq(pages_create(BYTES + 32768, REGION_PAGES_TRANSPARENT, &p), 0);
	if (!p.collapse || !pieces_left()) { /* Linux 6.0 and before, or memory in pieces */
		munmap(p.map, BYTES + 32768);
		close(p.fd);
		return;
	}
	ck_assert_uint_eq(taken(p.fd), HUGEPAGE_BYTES); /* the first, to see */
	map = p.map;
	map[2 * HUGEPAGE_BYTES + 5] = 7;
	a = areas_new(map, BYTES + 32768);
	ck_assert_ptr_nonnull(a);
	ck_assert_uint_eq(areas_huge_bytes(a), 0);
	areas_use(a, 3 * HUGEPAGE_BYTES - 1, 1);
	ck_assert_uint_eq(areas_huge_bytes(a), HUGEPAGE_BYTES);
	ck_assert_uint_eq(taken(p.fd), 2 * HUGEPAGE_BYTES);
	ck_assert_uint_eq(map[2 * HUGEPAGE_BYTES + 5], 7);
	/* Again, and what is less than an area, at the end. */
	areas_use(a, 2 * HUGEPAGE_BYTES, HUGEPAGE_BYTES + 32768);
	ck_assert_uint_eq(areas_huge_bytes(a), HUGEPAGE_BYTES);
	ck_assert_uint_eq(taken(p.fd), 2 * HUGEPAGE_BYTES);
	/* Across two. */
	areas_use(a, HUGEPAGE_BYTES - 1, 2);
	ck_assert_uint_eq(areas_huge_bytes(a), 3 * HUGEPAGE_BYTES);
	ck_assert(areas_use_all(a));
	ck_assert_uint_eq(taken(p.fd), BYTES);
	areas_free(a);
	munmap(p.map, BYTES + 32768);
	close(p.fd);
}
END_TEST

/* Three in a row, and the kernel is not asked any more. */
START_TEST(areas_that_cannot_be_huge_stay_as_they_are)
{
	const uint64_t bytes = 8 * HUGEPAGE_BYTES;
	struct areas *a;
	struct pages p;
	uint8_t *map;

	ck_assert_int_eq(pages_create(bytes, REGION_PAGES_NEVER, &p), 0);
	map = p.map;
	/* Refused here whatever kernel it is. */
	(void)madvise(map, bytes - HUGEPAGE_BYTES, MADV_NOHUGEPAGE);
	map[5] = 9;
	a = areas_new(map, bytes);
	ck_assert_ptr_nonnull(a);
	ck_assert(!areas_use_all(a));
	ck_assert_uint_eq(areas_huge_bytes(a), 0);
	ck_assert_uint_lt(taken(p.fd), HUGEPAGE_BYTES);
	ck_assert_uint_eq(map[5], 9);
	areas_use(a, bytes - 1, 1); /* for which it would have had one */
	ck_assert_uint_eq(areas_huge_bytes(a), 0);
	areas_free(a);
	munmap(map, bytes);
	close(p.fd);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("pages");
	TCase *t = tcase_create("pages");

	tcase_add_loop_test(t, pages_create_unless_forced_is_sealed, 0,
			    (int)ARRAY_SIZE(safe));
	tcase_add_test(
		t, pages_create_forced_is_sealed_or_says_so_or_says_why_not);
	suite_add_tcase(s, t);
	t = tcase_create("areas");
	tcase_add_test(t, areas_are_huge_pages_once_they_are_used);
	tcase_add_test(t, areas_that_cannot_be_huge_stay_as_they_are);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
