/* SPDX-License-Identifier: BSD-3-Clause */
/* The data area's memory: a client that may write to it cannot truncate it. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/err.h"
#include "server/memory/pages.h"
#include "tests/rig/cases.h"

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

static const enum pages_want safe[] = {PAGES_NEVER, PAGES_AUTO};

TEST_EACH(pages_create_unless_forced_is_sealed, safe)
{
	struct pages p;

	ck_assert_msg(pages_create(BYTES, safe[_i], &p) == 0, "%s", err_detail());
	ck_assert_msg(is_sealed(p.fd), "%s", p.note);
	ck_assert_int_eq(ftruncate(p.fd, 0), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_ptr_null(strstr(p.note, "no seals"));
	check_use(&p);
}

TEST(pages_create_forced_is_sealed_or_reports_the_reason)
{
	struct pages p;
	int err = pages_create(BYTES, PAGES_ALWAYS, &p);

	if (err) {
		ck_assert_int_eq(err, FARKV_ENOTSUP);
		ck_assert_ptr_nonnull(strstr(err_detail(), "hugetlb ("));
		return;
	}
	ck_assert_ptr_nonnull(strstr(p.note, "2 MiB"));
	ck_assert_int_eq(is_sealed(p.fd), strstr(p.note, "no seals") == NULL);
	check_use(&p);
}

/* All of it is resident at once, except the rest below a huge page at the end. */
TEST(pages_create_collapses_all_into_huge_pages)
{
	struct pages p;
	struct stat st;

	ck_assert_int_eq(pages_create(BYTES + 32768, PAGES_AUTO, &p), 0);
	if (strstr(p.note, "2 MiB, transparent") == p.note && !strstr(p.note, "advice")) {
		ck_assert_int_eq(fstat(p.fd, &st), 0);
		ck_assert_uint_eq(st.st_size, BYTES + 32768);
		ck_assert_uint_eq((uint64_t)st.st_blocks * 512, BYTES);
	} else {
		printf("SKIP: how many huge pages there are: %s\n", p.note);
	}
	munmap(p.map, BYTES + 32768);
	close(p.fd);
}

TEST_SUITE("pages")
