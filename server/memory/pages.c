/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel may give another kind of page than requested, so the kind is read back from
 * /proc/self/smaps.
 */
#include "config.h"

#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/hugepage.h"
#include "common/base/log.h"
#include "common/base/util.h"

/* One way of getting memory. */
struct way {
	const char *name;
	bool huge;
	bool collapse; /* ... by madvise(MADV_COLLAPSE) */
	bool set_aside; /* mapping it reserves it */
	bool sealable;
	int (*open)(uint64_t bytes);
};

static int open_hugetlb(uint64_t bytes)
{
	(void)bytes;
	return memfd_create("farkv-data", MFD_CLOEXEC | MFD_ALLOW_SEALING |
						  MFD_HUGETLB);
}

static int open_memfd(uint64_t bytes)
{
	(void)bytes;
	return memfd_create("farkv-data", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

/*
 * A file on a private, unmounted tmpfs. Needs CAP_SYS_ADMIN. Only memfds can be sealed: a
 * client that may write can truncate this file, and the server then dies of SIGBUS. So it is
 * used only on request.
 */
static int open_tmpfs(uint64_t bytes)
{
	int fs, mnt = -1, fd = -1, saved;
	char size[32];

	fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	if (fs < 0)
		return -1;
	snprintf(size, sizeof(size), "%" PRIu64, bytes + HUGEPAGE_BYTES);
	if (fsconfig(fs, FSCONFIG_SET_STRING, "huge", "advise", 0) == 0 &&
	    fsconfig(fs, FSCONFIG_SET_STRING, "size", size, 0) == 0 &&
	    fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0700", 0) == 0 &&
	    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
		mnt = fsmount(fs, FSMOUNT_CLOEXEC, 0);
	if (mnt >= 0)
		fd = openat(mnt, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	saved = errno;
	if (mnt >= 0)
		close(mnt);
	close(fs);
	errno = saved;
	return fd;
}

/* KiB of huge mappings at `map`, as the kernel accounts them. */
static uint64_t huge_kib(const void *map)
{
	FILE *in = fopen("/proc/self/smaps", "re");
	char line[256];
	bool here = false;
	uint64_t kib = 0;

	if (!in)
		return 0;
	while (fgets(line, sizeof(line), in)) {
		uint64_t low, high, v;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &low, &high) == 2)
			here = low <= (uintptr_t)map && (uintptr_t)map < high;
		else if (here &&
			 (sscanf(line, "ShmemPmdMapped: %" SCNu64, &v) == 1 ||
			  sscanf(line, "FilePmdMapped: %" SCNu64, &v) == 1 ||
			  sscanf(line, "Shared_Hugetlb: %" SCNu64, &v) == 1 ||
			  sscanf(line, "Private_Hugetlb: %" SCNu64, &v) == 1))
			kib += v;
	}
	fclose(in);
	return kib;
}

/* On false errno is the reason, or 0 if the kernel gave small pages without an error. */
static bool way_is_huge(const struct way *way, int fd, uint8_t *map, uint64_t bytes)
{
	uint64_t first = UTIL_MIN(bytes, HUGEPAGE_BYTES);
	bool huge;

	errno = 0;
	if (way->collapse && bytes >= HUGEPAGE_BYTES &&
	    !hugepage_collapse(map, bytes & ~(HUGEPAGE_BYTES - 1)))
		return false;
	if (!way->collapse) {
		madvise(map, bytes, MADV_HUGEPAGE);
		/* Touching a page that the machine lacks would kill the process. */
		if (fallocate(fd, 0, 0, (off_t)first))
			return false;
		memset(map, 0, first);
	}
	huge = huge_kib(map) > 0;
	errno = 0;
	return huge;
}

/* Try one way; -1 with a reason in `why`. */
static int way_try(const struct way *way, uint64_t bytes, void **map_out,
		   char *why, size_t cap)
{
	uint64_t size = way->huge && !way->collapse
				? util_align_up(bytes, HUGEPAGE_BYTES)
				: bytes;
	int fd = way->open(bytes);
	void *map;

	if (fd < 0 || ftruncate(fd, (off_t)size) || fchmod(fd, 0600))
		goto err_reason;
	/* The whole last page: the kernel would map it over a neighbour. */
	map = hugepage_map(fd, size);
	if (map == MAP_FAILED)
		goto err_reason;
	if (way->huge && !way_is_huge(way, fd, map, bytes)) {
		snprintf(why, cap, "%s", errno ? strerror(errno) :
						 "the kernel gave small pages");
		munmap(map, size);
		close(fd);
		return -1;
	}
	/* F_SEAL_SEAL, too: a client's F_SEAL_WRITE would lock out the others. */
	if (way->sealable && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW |
							    F_SEAL_SEAL)) {
		snprintf(why, cap, "cannot seal: %s", strerror(errno));
		munmap(map, size);
		close(fd);
		return -1;
	}
	*map_out = map;
	return fd;

err_reason:
	snprintf(why, cap, "%s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

/* True if this way fits the request. */
static bool way_fits(const struct way *way, enum pages_want want)
{
	switch (want) {
	case PAGES_NEVER:
	case PAGES_AHEAD:
		return !way->huge;
	case PAGES_AUTO:
		return way->sealable;
	default:
		return way->huge;
	}
}

int pages_create(uint64_t bytes, enum pages_want want, struct pages *out)
{
	static const struct way ways[] = {
		{.name = "2 MiB, hugetlb", .huge = true, .sealable = true,
		 .set_aside = true,
		 .open = open_hugetlb},
		{.name = "2 MiB, transparent", .huge = true, .collapse = true,
		 .sealable = true, .open = open_memfd},
		/* Before Linux 6.1, if shmem_enabled is "advise" or "always". */
		{.name = "2 MiB, transparent by advice", .huge = true,
		 .sealable = true, .open = open_memfd},
		{.name = "2 MiB, tmpfs huge=advise (no seals)", .huge = true,
		 .open = open_tmpfs},
		{.name = "4 KiB", .sealable = true, .open = open_memfd},
	};
	struct pages p = {0};
	char why[64] = "", tried[400] = "";

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		size_t at = strlen(tried);

		if (!way_fits(&ways[i], want))
			continue;
		p.fd = way_try(&ways[i], bytes, &p.map, why, sizeof(why));
		if (p.fd >= 0) {
			snprintf(p.note, sizeof(p.note), "%s%s%s", ways[i].name,
				 tried[0] ? "; not obtained: " : "", tried);
			if (!ways[i].sealable)
				log_warn("this memory cannot be sealed: a "
					 "client that may write can "
					 "truncate it, which ends the server");
			p.there = ways[i].collapse || ways[i].set_aside;
			*out = p;
			return 0;
		}
		snprintf(tried + at, sizeof(tried) - at, "%s%s (%s)",
			 at ? ", " : "", ways[i].name, why);
	}
	return err_set(want == PAGES_ALWAYS ? FARKV_ENOTSUP : FARKV_ESYS,
		       "no memory of the kind asked for: %s", tried);
}

int pages_of_file(int fd, uint64_t bytes, struct pages *out)
{
	struct pages p = {.fd = fd, .map = hugepage_map(fd, bytes)};
	int errnum = errno;

	if (p.map == MAP_FAILED) {
		close(fd);
		return err_set_errno(FARKV_ESYS, errnum, "cannot map the region's file");
	}
	snprintf(p.note, sizeof(p.note), "of the memory file");
	*out = p;
	return 0;
}
