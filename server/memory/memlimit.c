/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "memlimit.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/util.h"

/*
 * Of a limit this share is left for other memory than pages: the server's own, page tables, what
 * the kernel keeps for sockets. Short of it the kernel would kill the server.
 */
#define SPARE_SHARE 12u
#define SPARE_MAX (UINT64_C(32) << 20)

/* One cgroup version. */
struct kind {
	const char *mount, *limit, *usage;
	const char *inactive, *active; /* page cache, in memory.stat */
	const char *swap_limit, *swap_usage;
};

static const struct kind version2 = {
	"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file",
	"active_file", "memory.swap.max", "memory.swap.current"};
static const struct kind version1 = {
	"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
	"total_inactive_file", "total_active_file", NULL, NULL};

/* ---- files ------------------------------------------------------------------------ */

/* The number in a file; `otherwise` if it holds none ("max"). */
static uint64_t number(const char *dir, const char *name, uint64_t otherwise)
{
	char path[PATH_MAX];
	uint64_t v = otherwise;
	FILE *in;

	if (!name || snprintf(path, sizeof(path), "%s/%s", dir, name) >= PATH_MAX)
		return otherwise;
	in = fopen(path, "re");
	if (!in)
		return otherwise;
	if (fscanf(in, "%" SCNu64, &v) != 1)
		v = otherwise;
	fclose(in);
	return v;
}

/* The number after `name` in a file of "name number" lines, or 0. */
static uint64_t figure(const char *path, const char *name)
{
	FILE *in = fopen(path, "re");
	size_t len = strlen(name);
	char line[256];
	uint64_t v = 0;

	while (in && fgets(line, sizeof(line), in))
		if (strncmp(line, name, len) == 0 &&
		    sscanf(line + len, "%" SCNu64, &v) == 1)
			break;
	if (in)
		fclose(in);
	return v;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* ---- limits ----------------------------------------------------------------------- */

/* Apply a limit: `left` of `total` is available. */
static void limit(struct room *r, uint64_t total, uint64_t left, const char *what)
{
	left = less(left, UTIL_MIN(total / SPARE_SHARE, SPARE_MAX));
	r->left = UTIL_MIN(r->left, left);
	if (total >= r->total)
		return;
	r->total = total;
	snprintf(r->what, sizeof(r->what), "%s", what);
}

static uint64_t machine(const char *root, struct room *r)
{
	char path[PATH_MAX];
	uint64_t swap, total;

	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	total = figure(path, "MemTotal:") << 10;
	swap = figure(path, "SwapFree:") << 10;
	if (total)
		limit(r, total, (figure(path, "MemAvailable:") << 10) + swap,
		      "this machine's memory");
	return swap;
}

/* Apply the limit of one cgroup: `dir` is its folder, `name` its name for the log. */
static void cgroup(const struct kind *k, const char *dir, const char *name,
		   uint64_t swap, struct room *r)
{
	uint64_t max = number(dir, k->limit, UINT64_MAX);
	uint64_t cache, swap_max;
	char path[PATH_MAX], what[160];

	/* Version 1 reports "no limit" as a number larger than all memory. */
	if (max >= INT64_MAX >> 1 ||
	    snprintf(path, sizeof(path), "%s/memory.stat", dir) >= PATH_MAX)
		return;
	cache = figure(path, k->inactive) + figure(path, k->active);
	swap_max = number(dir, k->swap_limit, 0);
	swap = UTIL_MIN(swap, less(swap_max, number(dir, k->swap_usage, 0)));
	snprintf(what, sizeof(what), "the limit of the cgroup %.100s (%s)",
		 *name ? name : "/", k->limit);
	limit(r, max, less(max, less(number(dir, k->usage, 0), cache)) + swap, what);
}

/* A cgroup and its ancestors; the mount point if its folder is not there (containers). */
static void cgroups(const char *root, const struct kind *k, const char *path,
		    uint64_t swap, struct room *r)
{
	char dir[PATH_MAX];
	size_t base;

	base = (size_t)snprintf(dir, sizeof(dir), "%s%s", root, k->mount);
	if (base >= sizeof(dir) || base + strlen(path) >= sizeof(dir))
		return;
	strcpy(dir + base, path);
	for (;;) {
		char *slash;

		cgroup(k, dir, dir + base, swap, r);
		slash = strrchr(dir + base, '/');
		if (!slash)
			return;
		*slash = '\0';
	}
}

/* A line of /proc/self/cgroup: number:controllers:path. */
static void cgroup_line(const char *root, char *line, uint64_t swap, struct room *r)
{
	char *names = strchr(line, ':'), *path, *rest;

	line[strcspn(line, "\n")] = '\0';
	path = names ? strchr(names + 1, ':') : NULL;
	if (!path)
		return;
	*path++ = '\0';
	if (strcmp(path, "/") == 0)
		path++;
	if (names[1] == '\0')
		cgroups(root, &version2, path, swap, r);
	for (char *n = strtok_r(names + 1, ",", &rest); n; n = strtok_r(NULL, ",", &rest))
		if (strcmp(n, "memory") == 0)
			cgroups(root, &version1, path, swap, r);
}

void memlimit_read(const char *root, struct room *out)
{
	struct room r = {.total = UINT64_MAX, .left = UINT64_MAX};
	uint64_t swap = machine(root, &r);
	char path[PATH_MAX], line[PATH_MAX];
	FILE *in;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	in = fopen(path, "re");
	while (in && fgets(line, sizeof(line), in))
		cgroup_line(root, line, swap, &r);
	if (in)
		fclose(in);
	*out = r;
}
