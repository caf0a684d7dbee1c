/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "environ.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bench/commit.h"
#include "common/rdma/probe.h"

/* The text after the colon of the first line of `path` that begins with `key`. */
static bool find_line(const char *path, const char *key, char *buf, size_t cap)
{
	FILE *f = fopen(path, "re");
	char line[512];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		const char *at = line;

		if (strncmp(line, key, strlen(key)) != 0)
			continue;
		if (*key) {
			at = strchr(line, ':');
			at = at ? at + 1 : line;
		}
		at += strspn(at, " \t");
		snprintf(buf, cap, "%.*s", (int)strcspn(at, "\n"), at);
		found = true;
	}
	if (f)
		fclose(f);
	return found;
}

static void put_machine(db_fact_fn fn, void *arg)
{
	struct utsname u;
	char cpu[160] = "", text[640];
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	find_line("/proc/cpuinfo", "model name", cpu, sizeof(cpu));
	if (uname(&u))
		return;
	fn(arg, "Host", u.nodename);
	snprintf(text, sizeof(text), "%s; %ld %s", *cpu ? cpu : u.machine, n,
		 n == 1 ? "processor" : "processors");
	fn(arg, "Machine", text);
	snprintf(text, sizeof(text), "%s %s %s", u.sysname, u.release,
		 u.machine);
	fn(arg, "Kernel", text);
}

static void put_memory(db_fact_fn fn, void *arg)
{
	char total[64] = "?", huge[64] = "?", thp[64] = "?", shm[96] = "?";
	char text[400];

	find_line("/proc/meminfo", "MemTotal", total, sizeof(total));
	find_line("/proc/meminfo", "HugePages_Total", huge, sizeof(huge));
	find_line("/sys/kernel/mm/transparent_hugepage/enabled", "", thp,
		  sizeof(thp));
	find_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "", shm,
		  sizeof(shm));
	fn(arg, "Memory", total);
	snprintf(text, sizeof(text),
		 "%ld KiB; %s reserved huge pages; transparent ones: %s; of "
		 "files in memory: %s",
		 sysconf(_SC_PAGESIZE) >> 10, huge, thp, shm);
	fn(arg, "Pages", text);
}

static void put_devices(db_fact_fn fn, void *arg)
{
	struct rdma_host h;
	char text[300];

	if (rdma_probe(&h))
		return;
	for (size_t i = 0; i < h.n_devices; i++) {
		const struct rdma_device *d = &h.devices[i];

		snprintf(text, sizeof(text), "%s (%s; firmware %s)%s", d->name,
			 *d->driver ? d->driver : "unknown driver",
			 *d->firmware ? d->firmware : "none",
			 d->software ? " in software" : "");
		fn(arg, "Device", text);
	}
	if (!h.n_devices)
		fn(arg, "Device", "no RDMA device");
	rdma_probe_free(&h);
}

void environ_facts(db_fact_fn fn, void *arg)
{
	time_t now = time(NULL);
	struct tm tm;
	char date[40];

	gmtime_r(&now, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &tm);
	fn(arg, "Date", date);
	put_machine(fn, arg);
	put_memory(fn, arg);
	put_devices(fn, arg);
	fn(arg, "kvbench", PACKAGE_VERSION);
	fn(arg, "Commit", COMMIT);
	fn(arg, "Compiler", __VERSION__);
}
