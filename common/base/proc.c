/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "proc.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Field 2, the name in parentheses, may contain anything: count from the last parenthesis on. */
uint64_t proc_start_time(pid_t pid)
{
	char path[32], text[1024], *at;
	uint64_t start = 0;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	at = strrchr(text, ')');
	for (int field = 3; at && field <= 22; field++)
		at = strchr(at + 1, ' ');
	return at && sscanf(at, "%" SCNu64, &start) == 1 ? start : 0;
}

bool proc_await_end(pid_t pid, uint64_t start_time, int timeout_ms)
{
	struct pollfd p = {.events = POLLIN};
	bool over;

	if (pid <= 0 || pid == getpid())
		return true;
	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p.fd < 0)
		return true;
	/* The PID may have been reused before the descriptor was opened. */
	over = proc_start_time(pid) != start_time || poll(&p, 1, timeout_ms) > 0;
	close(p.fd);
	return over;
}

bool proc_has_ended(pid_t pid)
{
	struct pollfd p = {.events = POLLIN};
	bool over;

	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p.fd < 0)
		return errno == ESRCH;
	over = poll(&p, 1, 0) > 0;
	close(p.fd);
	return over;
}
