/* SPDX-License-Identifier: BSD-3-Clause */
/* The child. */
#include "config.h"

#include "follower.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <farkv.h>

#include "client/follow.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"

#include "apply.h"

#define PARENT_FD STDIN_FILENO
/* Of one operation in the own server: a full or busy store takes its time. */
#define OWN_TIMEOUT_MS 60000u
/* Of a step at the source: its parent has another one follow instead, or tries again. */
#define SOURCE_TIMEOUT_MS 10000u
/* The rest after a pass; where nothing has changed twice the previous one, up to REST_IDLE_NS. */
#define REST_MIN_NS (5 * NS_PER_MS)
#define REST_IDLE_NS (50 * NS_PER_MS)
#define REST_MAX_NS (200 * NS_PER_MS)
#define ALIVE_NS NS_PER_SEC /* between two reports in a pass */

struct run {
	struct follower_order order;
	char name[sizeof(((struct follower *)0)->name)];
	struct farkv *own;
	struct follow *source; /* NULL: none */
	struct apply *apply;
	struct follower_report report;
	uint64_t told_ns; /* the last report */
};

/* ---- reports ------------------------------------------------------------------------------ */

static void tell(struct run *r)
{
	r->told_ns = clock_now_ns();
	if (r->apply) {
		r->report.keys = apply_keys(r->apply);
		r->report.bytes = apply_bytes(r->apply);
	}
	/* If the parent has not read the ones before, this one is left out: more will come. */
	(void)send(PARENT_FD, &r->report, sizeof(r->report), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* In the middle of a pass: tell now and then that it goes on. */
static void alive(void *arg)
{
	struct run *r = arg;

	if (clock_now_ns() > r->told_ns + ALIVE_NS)
		tell(r);
}

static int failed(struct run *r, int err, const char *line)
{
	r->report.err = err;
	snprintf(r->report.detail, sizeof(r->report.detail), "%s",
		 line && *line ? line : farkv_strerror(err));
	return err;
}

/* The last one waits until there is room. */
static void tell_end(struct run *r)
{
	(void)send(PARENT_FD, &r->report, sizeof(r->report), MSG_NOSIGNAL);
}

/* ---- work --------------------------------------------------------------------------------- */

static const char *text_or_null(const char *text)
{
	return *text ? text : NULL;
}

static int open_own(struct run *r)
{
	const struct follower_order *o = &r->order;
	struct farkv_options opts;
	int err;

	farkv_options_init(&opts);
	opts.name = r->name;
	opts.op_timeout_ms = OWN_TIMEOUT_MS;
	opts.keys = text_or_null(o->keys);
	opts.key = text_or_null(o->key);
	err = farkv_open(o->own, &opts, &r->own);
	return err ? failed(r, err, farkv_errdetail()) : 0;
}

static int open_source(struct run *r)
{
	const struct follower_order *o = &r->order;
	struct follow_options opts = {.address = o->source,
				      .keys = text_or_null(o->keys),
				      .key = text_or_null(o->key),
				      .map_id = o->map_id,
				      .server = o->source_server,
				      .follows = o->kind == FOLLOWER_FOLLOW,
				      .own_server = o->own_server,
				      .timeout_ms = SOURCE_TIMEOUT_MS};
	int err = follow_open(&opts, &r->source);

	return err ? failed(r, err, err_detail()) : 0;
}

static int pass(struct run *r)
{
	uint64_t began = clock_now_ns(), fenced;
	struct follow_part part;
	int err = follow_pass(r->source, &fenced);

	while (!err && (err = follow_next(r->source, &part)) == 0) {
		alive(r);
		err = apply_part(r->apply, &part);
		if (err)
			return failed(r, err, apply_detail(r->apply));
	}
	if (err != FARKV_ENOTFOUND)
		return failed(r, err, err_detail());
	r->report.passes++;
	r->report.began_ns = began;
	r->report.fenced = fenced;
	tell(r);
	return 0;
}

/* Rest as long as the pass took, or longer if it copied nothing. False: the parent has ended. */
static bool rest(uint64_t began_ns, bool idle, uint64_t *rest_ns)
{
	uint64_t ns = UTIL_MAX(UTIL_MIN(clock_now_ns() - began_ns, REST_MAX_NS), REST_MIN_NS);
	struct pollfd p = {.fd = PARENT_FD};

	*rest_ns = idle ? UTIL_MAX(ns, UTIL_MIN(2 * *rest_ns, REST_IDLE_NS)) : ns;
	return poll(&p, 1, (int)(*rest_ns / NS_PER_MS)) == 0;
}

static int copy(struct run *r)
{
	uint64_t began, rest_ns = 0, keys;
	int err = open_source(r);

	if (err)
		return err;
	r->apply = apply_new(&r->order, r->own, r->source);
	if (!r->apply)
		return failed(r, FARKV_ENOMEM, NULL);
	do {
		began = clock_now_ns();
		keys = apply_keys(r->apply);
		err = pass(r);
	} while (!err && rest(began, apply_keys(r->apply) == keys, &rest_ns));
	return err;
}

static int purge(struct run *r)
{
	int err;

	r->apply = apply_new(&r->order, r->own, NULL);
	if (!r->apply)
		return failed(r, FARKV_ENOMEM, NULL);
	err = apply_purge(r->apply, alive, r);
	if (err)
		return failed(r, err, apply_detail(r->apply));
	r->report.passes = 1;
	return 0;
}

/* ---- the process ---------------------------------------------------------------------------- */

int follower_main(void)
{
	static struct run r;
	int err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "kvserver-copy");
	signal(SIGPIPE, SIG_IGN);
	(void)syscall(SYS_close_range, STDERR_FILENO + 1u, ~0u, 0);
	if (recv(PARENT_FD, &r.order, sizeof(r.order), 0) != (ssize_t)sizeof(r.order) ||
	    recv(PARENT_FD, r.name, sizeof(r.name), 0) != (ssize_t)sizeof(r.name)) {
		fprintf(stderr, "kvserver: " FOLLOWER_ARGUMENT " is for kvserver itself\n");
		return 1;
	}
	err = open_own(&r);
	if (!err)
		err = r.order.kind == FOLLOWER_PURGE ? purge(&r) : copy(&r);
	tell_end(&r);
	apply_free(r.apply);
	follow_close(r.source);
	farkv_close(r.own);
	return err ? 1 : 0;
}
