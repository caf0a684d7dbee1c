/* SPDX-License-Identifier: BSD-3-Clause */
/* Misuse of handles: two threads at once, or calls after the end. */
#include "config.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/rig/cases.h"
#include "tests/rig/handle_rig.h"

/* ---- two threads ------------------------------------------------------------------ */

static void *ping(void *arg)
{
	*(int *)arg = farkv_ping(kv, NULL);
	return NULL;
}

static void *put_one(void *arg)
{
	*(int *)arg = put("k", "v");
	return NULL;
}

static void *wait_one(void *arg)
{
	*(int *)arg = put_as_request("k", "v");
	return NULL;
}

/* Each waits for an answer to a message of this type. */
static const struct {
	void *(*call)(void *);
	uint8_t type;
} calls[] = {{ping, MSG_PING}, {put_one, MSG_GRANT_REQ}, {wait_one, MSG_GRANT_REQ}};

#define REFUSED(call)                                         \
	do {                                                  \
		ck_assert_int_eq((call), FARKV_EINVAL);       \
		assert_detail("in use by another call");      \
	} while (0)

static void all_are_refused(void)
{
	struct farkv_stats stats = {.size = sizeof(stats)};
	struct farkv_fsck f = {.size = sizeof(f)};
	struct farkv_get_item g = {.key = "k", .key_len = 1};
	struct farkv_put_item p = {.key = "k", .key_len = 1};
	struct farkv_get_into_item into = {.key = "k", .key_len = 1};
	struct farkv_view view = {.proof = {0}};
	struct farkv_request r = {.key = "k", .key_len = 1};
	struct farkv_key key = {"k", 1};
	uint8_t bitmap = 0xff;
	size_t prefix = 9;
	const struct farkv_scan_item *items;
	struct farkv_completion c;
	char out[64], buf[8];
	uint64_t cursor = 0;
	size_t len;
	void *mem;

	REFUSED(get("k", out));
	REFUSED(farkv_get_into(kv, "k", 1, buf, sizeof(buf), &len, NULL));
	REFUSED(put("k", "w"));
	REFUSED(farkv_add(kv, "k", 1, "w", 1));
	REFUSED(farkv_replace(kv, "k", 1, "w", 1));
	REFUSED(farkv_cas(kv, "k", 1, "w", 1, 1, NULL));
	REFUSED(del("k"));
	REFUSED(farkv_mget(kv, &g, 1));
	ck_assert_int_eq(g.result, FARKV_EABORTED);
	REFUSED(farkv_mput(kv, &p, 1));
	ck_assert_int_eq(p.result, FARKV_EABORTED);
	REFUSED(farkv_exists(kv, "k", 1));
	REFUSED(farkv_mexists(kv, &key, 1, &bitmap, &prefix));
	ck_assert(bitmap == 0xff && prefix == 9);
	REFUSED(farkv_scan(kv, &cursor, 64, &items, &len));
	REFUSED(farkv_clear(kv, NULL));
	REFUSED(farkv_submit(kv, &r, 1));
	REFUSED(farkv_poll(kv, &c, 1));
	REFUSED(farkv_wait(kv, &c, 1, 1000));
	REFUSED(farkv_event_fd(kv));
	REFUSED(farkv_ping(kv, NULL));
	REFUSED(farkv_stats(kv, &stats));
	REFUSED(farkv_fsck(kv, &f));
	REFUSED(farkv_buf_alloc(kv, 64, &mem));
	REFUSED(farkv_buf_register(kv, buf, sizeof(buf)));
	REFUSED(farkv_buf_unregister(kv, buf));
	REFUSED(farkv_mget_into(kv, &into, 1));
	ck_assert_int_eq(into.result, FARKV_EABORTED);
	REFUSED(farkv_borrow(kv, "k", 1, &view));
	view.proof[0] = kv->opened.number;
	REFUSED(farkv_borrow_check(kv, &view));
	farkv_close(kv);
	assert_detail("in use by another call");
}

TEST_GROUP(.setup = setup, .teardown = teardown, .timeout_s = 120);

TEST_EACH(second_thread_is_refused, calls)
{
	char out[64];
	pthread_t thread;
	int result = 1;

	fake_server_set(&srv, hold_grants, true);
	fake_server_set(&srv, ignore_requests, calls[_i].type == MSG_PING);
	if (calls[_i].type == MSG_PING)
		set_timeout_ms(500);
	pthread_create(&thread, NULL, calls[_i].call, &result);
	ck_assert(fake_server_wait(&srv, calls[_i].type, 1));
	if (calls[_i].type != MSG_PING)
		all_are_refused();
	else
		REFUSED(get("k", out));
	fake_server_set(&srv, ignore_requests, false);
	fake_server_set(&srv, hold_grants, false);
	fake_server_release(&srv);
	pthread_join(thread, NULL);
	ck_assert_int_eq(result, calls[_i].type == MSG_PING ? FARKV_ETIMEDOUT : 0);
	/* One after the other is allowed. */
	set_timeout_ms(LONG_MS);
	ck_assert_int_eq(put("k", "w"), 0);
	assert_value("k", "w");
}

/* Whatever the result of a call, the next one is let in. */
TEST(each_end_of_a_call_frees_the_handle)
{
	char out[64];

	ck_assert_int_eq(put("k", "v"), 0);
	ck_assert_int_eq(farkv_get(kv, "", 0, (struct farkv_value *)out), FARKV_EINVAL);
	ck_assert_int_eq(del("none"), FARKV_ENOTFOUND);
	ck_assert_int_eq(farkv_mget(kv, NULL, 1), FARKV_EINVAL);
	ck_assert_int_eq(farkv_submit(kv, NULL, 1), FARKV_EINVAL);
	fake_server_set(&srv, refuse_reason, MSG_REASON_FULL);
	fake_server_set(&srv, refuse_text, "no");
	fake_server_set(&srv, hello, FAKE_REFUSE);
	fake_server_hangup(&srv);
	wait_broken();
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(get("k", out), FARKV_EDISCONNECTED);
	ck_assert_int_eq(farkv_ping(kv, NULL), FARKV_EDISCONNECTED);
	ck_assert_int_eq(put_as_batch("k", "v"), FARKV_EDISCONNECTED);
	ck_assert_int_eq(put_as_request("k", "v"), FARKV_EDISCONNECTED);
	ck_assert(!kv->busy);
}

static int get_one(void)
{
	char out[64];

	return get("k", out);
}

static int get_one_into(void)
{
	char buf[8];
	size_t len;

	return farkv_get_into(kv, "k", 1, buf, sizeof(buf), &len, NULL);
}

static int put_again(void)
{
	return put("k", "w");
}

static int replace_one(void)
{
	return farkv_replace(kv, "k", 1, "w", 1);
}

static int batch_of_one(void)
{
	return put_as_batch("k", "w");
}

static int request(void)
{
	return put_as_request("k", "w");
}

static int ask_server(void)
{
	return farkv_ping(kv, NULL);
}

static int (*const one_call[])(void) = {
	get_one, get_one_into, put_again, replace_one, batch_of_one, request, ask_server};

/*
 * ... also when pending work restarts it: it enters and leaves the quiescence counter
 * equally often.
 */
TEST_EACH(pending_work_leaves_handle_and_qsbr_counter_free, one_call)
{
	static const uint32_t alerts[] = {PENDING_GRANTS, PENDING_DROP};

	ck_assert_int_eq(put("k", "v"), 0);
	for (unsigned i = 0; i < sizeof(alerts) / sizeof(alerts[0]); i++) {
		qsbr_set_pending(kv->qsbr, alerts[i]);
		ck_assert_int_eq(one_call[_i](), 0);
		ck_assert(!kv->busy);
		ck_assert(!qsbr_active(kv->qsbr));
	}
}

/* A child forked during another thread's call is told that it is a child. */
TEST(child_of_a_busy_handle_is_refused)
{
	pthread_t thread;
	int result, status;
	char out[64];
	pid_t pid;

	fake_server_set(&srv, hold_grants, true);
	pthread_create(&thread, NULL, put_one, &result);
	ck_assert(fake_server_wait(&srv, MSG_GRANT_REQ, 1));
	pid = fork();
	if (pid == 0) {
		bool right = get("k", out) == FARKV_EDISCONNECTED;

		farkv_close(kv);
		_exit(!right);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	fake_server_set(&srv, hold_grants, false);
	fake_server_release(&srv);
	pthread_join(thread, NULL);
	ck_assert_int_eq(result, 0);
}

/* ---- after the end -------------------------------------------------------------------- */

TEST(second_close_is_refused)
{
	struct farkv *other = open_handle(), *was = other;

	farkv_close(other);
	ck_assert_int_eq(put("k", "v"), 0);
	farkv_close(was);
	assert_detail("was it closed before?");
	assert_value("k", "v");
	farkv_close((struct farkv *)&was);
	assert_detail("not open");
}

/* ---- timeouts ------------------------------------------------------------------------ */

/* 0 is the default; the most that fits is 49 days, and no sum of it overflows. */
TEST_LOOP(extreme_timeouts_do_not_overflow, 0, 2)
{
	static const uint32_t ms[] = {0, UINT32_MAX};
	struct farkv_completion c;
	struct farkv_options o;
	struct farkv *was = kv;
	uint64_t want;

	farkv_close(was);
	farkv_options_init(&o);
	want = (ms[_i] ? ms[_i] : o.op_timeout_ms) * NS_PER_MS;
	o.op_timeout_ms = o.connect_timeout_ms = ms[_i];
	ck_assert_int_eq(farkv_open(srv.path, &o, &kv), 0);
	ck_assert_uint_eq(kv->op_timeout_ns, want);
	ck_assert_int_eq(put("k", "v"), 0);
	ck_assert_int_eq(farkv_ping(kv, NULL), 0);
	ck_assert_int_eq(put_as_request("k", "w"), 0);
	ck_assert_int_eq(farkv_wait(kv, &c, 1, UINT32_MAX), 0);
	fake_server_hangup(&srv);
	wait_broken();
	assert_value("k", "w");
}

TEST_SUITE("misuse")
