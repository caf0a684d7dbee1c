/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "fail_run.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <farkv.h>

#include "tests/rig/e2e.h"
#include "tests/rig/fsck_text.h"
#include "tests/rig/marks.h"

/* A scenario that makes more calls than this would never end. */
#define CALLS_MAX 20000
/* A run that was interrupted by a timeout makes fewer calls than others. */
#define UNREACHED_MAX 3
/* Findings shown; the rest is counted. */
#define SHOWN_MAX 12
/* Repetitions of a run that was late. */
#define LATE_MAX 5
/* Time for the check of a store that is whole: for hangs. */
#define FSCK_MS 60000

/* Of AddressSanitizer's library, where it is linked. */
int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

void fail_wrong(struct fail_report *r, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (r->why[0])
		return;
	n = snprintf(r->why, sizeof(r->why), "%s: ", r->at);
	va_start(ap, fmt);
	vsnprintf(r->why + n, sizeof(r->why) - (size_t)n, fmt, ap);
	va_end(ap);
}

void fail_late(struct fail_report *r, uint64_t ms)
{
	if (!r->late[0])
		snprintf(r->late, sizeof(r->late), "%s took %llu ms", r->at,
			 (unsigned long long)ms);
}

bool fail_typed(struct fail_report *r, const char *what, int err)
{
	if (err == 0)
		return true;
	/* FARKV_EMAYBE's text has the word "unknown" as well. */
	if (err > -1000 || err <= -1300 || !strcmp(farkv_strerror(err), "") ||
	    !strcmp(farkv_strerror(err), farkv_strerror(INT_MIN)))
		fail_wrong(r, "%s: %d is no number of farkv.h", what, err);
	else if (!farkv_errdetail()[0])
		fail_wrong(r, "%s: %s, without a detail", what,
			   farkv_strerror(err));
	return !r->why[0];
}

void fail_fsck(struct fail_report *r, struct farkv *kv)
{
	struct farkv_fsck f = {.size = sizeof(f)};
	uint64_t end = e2e_now_ms() + FSCK_MS;
	char text[FSCK_TEXT_CAP];
	int err;

	/* A server that is out of descriptors takes no connection for a while. */
	while ((err = farkv_fsck(kv, &f)) && e2e_now_ms() < end)
		;
	if (err)
		fail_wrong(r, "fsck: %s", farkv_errdetail());
	else if (fsck_problems(&f))
		fail_wrong(r, "fsck: %s", fsck_text(&f, text));
}

void *fail_shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	return p;
}

static void child(struct fail_report *r,
		  void (*fn)(struct fail_report *, void *), void *arg,
		  unsigned timeout_s)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGALRM, SIG_DFL);
	alarm(timeout_s);
	fn(r, arg);
	if (__lsan_do_recoverable_leak_check &&
	    __lsan_do_recoverable_leak_check())
		fail_wrong(r, "memory leaked; see above");
	_exit(0);
}

bool fail_process(struct fail_report *r,
		  void (*fn)(struct fail_report *, void *), void *arg,
		  unsigned timeout_s)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		child(r, fn, arg, timeout_s);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		fail_wrong(r, "hung for %u s", timeout_s);
	else if (status)
		fail_wrong(r, "died with status 0x%x", (unsigned)status);
	return !r->why[0];
}

/*
 * In make check-lab every call fails in turn; fewer of them where LAB_SECONDS is less
 * than its 60.
 */
static unsigned stride_of(unsigned small)
{
	const char *scale = getenv("FARKV_LAB");
	const char *seconds = getenv("LAB_SECONDS");
	unsigned long n = seconds ? strtoul(seconds, NULL, 10) : 60;

	if (!scale || strcmp(scale, "large") != 0)
		return small;
	return n == 0 || n >= 60 ? 1 : (unsigned)(60 / n);
}

static uint64_t first_number(unsigned stride)
{
	const char *seed = getenv("FARKV_SEED");

	return 1 +
	       (seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL) / 2) %
		       stride;
}

/* Once more while it is only late. */
static void try_call(const struct fail_case *c, struct fail_report *r,
		     uint64_t at)
{
	for (int i = 0; i < LATE_MAX; i++) {
		memset(r, 0, sizeof(*r));
		c->run(r, at, c->times);
		if (r->why[0] || !r->late[0])
			return;
		if (i + 1 < LATE_MAX)
			printf("  %s: call %llu (%s): %s; once more\n",
			       c->name, (unsigned long long)at, r->which,
			       r->late);
	}
	snprintf(r->why, sizeof(r->why), "each of %d times: %s", LATE_MAX,
		 r->late);
}

static void show(const struct fail_case *c, const struct fail_report *r,
		 uint64_t at)
{
	fprintf(stderr, "%s: call %llu (%s%s%s): %s\n", c->name,
		(unsigned long long)at, r->reached ? r->which : "not reached",
		r->when[0] ? ", in " : "", r->when, r->why);
	fprintf(stderr,
		"  again: make check TESTS=%s FARKV_CALL=%llu FARKV_RUNS=20 "
		"CK_RUN_CASE='%s'\n",
		c->program, (unsigned long long)at, c->name);
}

static uint64_t env_number(const char *name, uint64_t deflt)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : deflt;
}

/* Only one number, again and again. */
static uint64_t try_one(const struct fail_case *c, struct fail_report *r)
{
	uint64_t runs = env_number("FARKV_RUNS", 1), wrong = 0, reached = 0;
	uint64_t at = env_number("FARKV_CALL", 1);

	for (uint64_t i = 0; i < runs; i++) {
		try_call(c, r, at);
		reached += r->reached;
		if (r->why[0] && wrong++ < SHOWN_MAX)
			show(c, r, at);
	}
	printf("  %s: call %llu was made to fail in %llu of %llu runs\n",
	       c->name, (unsigned long long)at, (unsigned long long)reached,
	       (unsigned long long)runs);
	return wrong;
}

static uint64_t try_all(const struct fail_case *c, struct fail_report *r)
{
	unsigned stride = stride_of(c->stride), unreached = 0;
	uint64_t first = first_number(stride), at, tried = 0, wrong = 0;

	for (at = first; at < CALLS_MAX && unreached < UNREACHED_MAX;
	     at += stride) {
		try_call(c, r, at);
		if (r->why[0] && wrong++ < SHOWN_MAX)
			show(c, r, at);
		unreached = r->reached ? 0 : unreached + 1;
		tried += r->reached;
	}
	printf("  %s: %llu calls failed in turn (every %u, from %llu), %s\n",
	       c->name, (unsigned long long)tried, stride,
	       (unsigned long long)first,
	       c->times == 1 ? "each once" : "with those after them");
	/* Otherwise nothing was tried. */
	ck_assert(at < CALLS_MAX);
	ck_assert_uint_ge(tried, 1);
	return wrong;
}

void fail_each(const struct fail_case *c)
{
	struct fail_report *r = fail_shared(sizeof(*r));
	uint64_t wrong = getenv("FARKV_CALL") ? try_one(c, r) : try_all(c, r);

	fflush(stdout);
	munmap(r, sizeof(*r));
	ck_assert_msg(wrong == 0, "%s: %llu runs went wrong", c->name,
		      (unsigned long long)wrong);
}
