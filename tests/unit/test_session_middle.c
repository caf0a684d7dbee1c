/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events during calls: barriers, lack of versions, a lost connection, the end of the
 * process.
 */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/queue_turn.h"
#include "common/base/clock.h"
#include "common/index/index.h"
#include "common/index/try.h"
#include "tests/rig/handle_rig.h"
#include "tests/rig/cases.h"

TEST_GROUP(.setup = setup_long_grace, .teardown = teardown);

TEST(barrier_waits_for_the_running_operation)
{
	struct msg barrier = {.type = MSG_BARRIER};
	struct msg marker = {.type = MSG_PREFIX, .prefix.prefix = 5000};
	const struct xport_counters *count = &kv->conn.lane->counters;
	uint64_t reads;
	char out[64];

	/* Idle: at once. */
	barrier.epoch.number = 7;
	fake_server_send(&srv, &barrier, NULL);
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	ck_assert_uint_eq(srv.ack_number, 7);

	/* The directory was dropped: D, the array and D again, then the key. */
	reads = count->reads;
	ck_assert_int_eq(get("k", out), FARKV_ENOTFOUND);
	ck_assert_uint_eq(count->reads - reads, 4);
	ck_assert_int_eq(get("k", out), FARKV_ENOTFOUND);
	ck_assert_uint_eq(count->reads - reads, 4);

	/*
	 * An operation runs: the barrier is answered after its end. A later grant that
	 * has arrived shows that the barrier was received.
	 */
	ck_assert(qsbr_enter(kv->qsbr));
	barrier.epoch.number = 8;
	fake_server_send(&srv, &barrier, NULL);
	fake_server_send(&srv, &marker, NULL);
	session_wait(kv->conn.session,
		     clock_now_ns() + LONG_MS * NS_PER_MS);
	ck_assert_uint_ne(qsbr_pending(kv->qsbr) & PENDING_GRANTS, 0);
	heard_by_server();
	ck_assert_uint_eq(fake_server_count(&srv, MSG_BARRIER_ACK), 1);
	qsbr_leave(kv->qsbr);
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 2));
	ck_assert_uint_eq(srv.ack_number, 8);
	ck_assert_int_eq(get("k", out), FARKV_ENOTFOUND);
	ck_assert_uint_eq(qsbr_pending(kv->qsbr), 0);
}

static void *barrier_when_asked(void *arg)
{
	struct msg barrier = {.type = MSG_BARRIER, .epoch.number = 5};

	(void)arg;
	ck_assert(fake_server_wait(&srv, MSG_GRANT_REQ, 1));
	fake_server_send(&srv, &barrier, NULL);
	/* Trap 16: the barrier must not wait for a call that waits for the server. */
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	fake_server_release(&srv);
	return NULL;
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(barrier_does_not_wait_for_a_waiting_call)
{
	pthread_t t;

	fake_server_set(&srv, hold_grants, true);
	pthread_create(&t, NULL, barrier_when_asked, NULL);
	ck_assert_int_eq(put("k", "v"), 0);
	pthread_join(t, NULL);
	assert_value("k", "v");
}

static void *barrier_before_prefix(void *arg)
{
	struct msg barrier = {.type = MSG_BARRIER, .epoch.number = 5};
	struct msg prefix = {.type = MSG_PREFIX, .prefix.prefix = 5000};

	(void)arg;
	ck_assert(fake_server_wait(&srv, MSG_PREFIX_REQ, 1));
	fake_server_send(&srv, &barrier, NULL);
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	fake_server_send(&srv, &prefix, NULL);
	return NULL;
}

/* The place where the key was found before the wait may hold anything by then. */
TEST(barrier_without_versions_repeats_the_lookup)
{
	pthread_t t;

	ck_assert_int_eq(put("k", "v"), 0);
	ck_assert_uint_ne(kv->conn.index->dirword, 0);
	kv->conn.index->versions.counter = UINT32_MAX - 10;
	fake_server_set(&srv, ignore_requests, true);
	pthread_create(&t, NULL, barrier_before_prefix, NULL);
	ck_assert_int_eq(put("k", "w"), 0);
	pthread_join(t, NULL);
	/* It has read the directory again. */
	ck_assert_uint_ne(kv->conn.index->dirword, 0);
	assert_value("k", "w");
	fake_server_set(&srv, ignore_requests, false);
}

/* The server gives none: a call and a request wait until their deadlines. */
TEST(put_without_versions_waits_until_the_deadline)
{
	kv->conn.index->versions.counter = UINT32_MAX - 10;
	fake_server_set(&srv, ignore_requests, true);
	set_timeout_ms(20);
	ck_assert_int_eq(put("k", "v"), FARKV_ETIMEDOUT);
	assert_detail("version numbers");
	ck_assert_int_eq(put_as_request("k", "v"), FARKV_ETIMEDOUT);
	assert_detail("version numbers");
	kv->op_timeout_ns = 1; /* over before the queue looks at it */
	ck_assert_int_eq(put_as_request("k", "v"), FARKV_ETIMEDOUT);
	assert_detail("version numbers");
	ck_assert_uint_ge(fake_server_count(&srv, MSG_PREFIX_REQ), 1);
	fake_server_set(&srv, ignore_requests, false);
}

static void *hang_up_when_asked(void *arg)
{
	(void)arg;
	ck_assert(fake_server_wait(&srv, MSG_PREFIX_REQ, 1));
	fake_server_set(&srv, ignore_requests, false);
	fake_server_hangup(&srv);
	return NULL;
}

/* The next connection brings versions, or has no right to write. */
TEST_LOOP(put_without_versions_goes_on_by_the_next_connection, MSG_ROLE_RW, MSG_ROLE_RO + 1)
{
	enum { N = 2 * INDEX_RUN_MAX };
	static struct farkv_get_item get[N];
	uint8_t role = (uint8_t)_i;
	pthread_t t;

	ck_assert_int_eq(put("k", "v"), 0);
	for (unsigned i = 0; i < N; i++)
		get[i] = (struct farkv_get_item){.key = "k", .key_len = 1};
	ck_assert_int_eq(farkv_mget(kv, get, N), 0);
	kv->conn.index->versions.counter = UINT32_MAX - 10;
	fake_server_set(&srv, ignore_requests, true);
	fake_server_set(&srv, role, role);
	pthread_create(&t, NULL, hang_up_when_asked, NULL);
	ck_assert_int_eq(put("k", "w"), role == MSG_ROLE_RW ? 0 : FARKV_EPERM);
	pthread_join(t, NULL);
	ck_assert(!qsbr_active(kv->qsbr));
	assert_value("k", role == MSG_ROLE_RW ? "w" : "v");
	/*
	 * The batch's values were valid until the next call; their memory serves the next
	 * batch.
	 */
	ck_assert_ptr_null(kv->arena.chunks);
	ck_assert_ptr_nonnull(kv->arena.spare);
}

static bool barrier_behind_welcome;
struct qsbr *__real_session_qsbr(struct session *s);
struct qsbr *__wrap_session_qsbr(struct session *s);

/*
 * The new connection has read the directory, and its handle has not entered its
 * quiescence counter yet.
 */
struct qsbr *__wrap_session_qsbr(struct session *s)
{
	struct msg barrier = {.type = MSG_BARRIER, .epoch.number = 9};

	if (barrier_behind_welcome) {
		barrier_behind_welcome = false;
		fake_server_send(&srv, &barrier, NULL);
		ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	}
	return __real_session_qsbr(s);
}

/* The directory that a new connection read before a barrier is not used. */
TEST(directory_read_before_a_barrier_is_not_used)
{
	pthread_t t;

	ck_assert_int_eq(put("k", "v"), 0);
	kv->conn.index->versions.counter = UINT32_MAX - 10;
	fake_server_set(&srv, ignore_requests, true);
	pthread_create(&t, NULL, hang_up_when_asked, NULL);
	barrier_behind_welcome = true;
	ck_assert_int_eq(del("k"), 0);
	pthread_join(t, NULL);
	ck_assert(!barrier_behind_welcome);
	ck_assert_uint_eq(qsbr_pending(kv->qsbr) & PENDING_DROP, 0);
	ck_assert(!qsbr_active(kv->qsbr));
}

static void reap_one(const char *value)
{
	struct farkv_completion c;

	ck_assert_int_eq(farkv_wait(kv, &c, 1, LONG_MS), 1);
	ck_assert_int_eq(c.result, 0);
	ck_assert_uint_eq(c.value.len, strlen(value));
	ck_assert_mem_eq(c.value.data, value, c.value.len);
}

/* Over RDMA a child of fork() does not have the lane's memory, and reads none of it. */
TEST(child_closes_without_touching_the_lanes_memory)
{
	static char *const nowhere = (char *)8;
	struct farkv_request r = {.kind = FARKV_REQUEST_GET, .key = "k", .key_len = 1};
	int status;
	pid_t pid;

	ck_assert_int_eq(put("k", "v"), 0);
	ck_assert_int_eq(farkv_submit(kv, &r, 1), 1);
	assert_value("k", "v"); /* completes it */
	ck_assert_ptr_nonnull(kv->queue->done.first);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		kv->conn.lane->caps &= ~(uint32_t)XPORT_DIRECT;
		kv->conn.index->spare.first[1] = (void *)nowhere;
		kv->conn.index->spare.bytes = SPARE_MIN;
		kv->queue->done.first->op.view.value = (uint8_t *)nowhere;
		farkv_close(kv);
		raise(SIGKILL); /* so valgrind does not report the parent's memory */
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, SIGKILL);
	reap_one("v");
}

static unsigned groups; /* operations begun since a barrier was due with the first */
static bool barrier_in_a_batch;

static void group_begins(void)
{
	struct msg barrier = {.type = MSG_BARRIER, .epoch.number = 11};

	if (!barrier_in_a_batch)
		return;
	if (++groups > 1) {
		ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
		return;
	}
	fake_server_send(&srv, &barrier, NULL);
	while (!(qsbr_pending(kv->qsbr) & PENDING_DROP))
		clock_sleep_ns(NS_PER_MS / 10);
	/* The control thread has handled it, and waits for the quiescence counter. */
	heard_by_server();
	ck_assert_uint_eq(fake_server_count(&srv, MSG_BARRIER_ACK), 0);
}

bool __real_index_get_many(struct index *ix, const struct index_get_req *want, size_t n);
bool __wrap_index_get_many(struct index *ix, const struct index_get_req *want, size_t n);
bool __wrap_index_get_many(struct index *ix, const struct index_get_req *want, size_t n)
{
	group_begins();
	return __real_index_get_many(ix, want, n);
}

void __real_index_try_many(struct index *ix, struct index_op *const *ops, size_t n);
void __wrap_index_try_many(struct index *ix, struct index_op *const *ops, size_t n);
void __wrap_index_try_many(struct index *ix, struct index_op *const *ops, size_t n)
{
	group_begins();
	__real_index_try_many(ix, ops, n);
}

/*
 * It waits for one group and not for the call, since the memory of all others depends on
 * it.
 */
TEST_LOOP(barrier_in_a_long_batch_waits_for_one_group, 0, 2)
{
	enum { N = 3 * INDEX_RUN_MAX, PUTS = 20 };
	static struct farkv_get_item get[N];
	static struct farkv_put_item set[N];
	static uint32_t key[N];

	for (uint32_t i = 0; i < N; i++) {
		key[i] = i % 5; /* the next five puts are the next group's */
		get[i] = (struct farkv_get_item){.key = &key[i], .key_len = 4};
		set[i] = (struct farkv_put_item){.key = &key[i], .key_len = 4,
						 .value = "v", .value_len = 1};
	}
	/* Blocks are available, so no call waits outside of the quiescence counter. */
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(farkv_mput(kv, set, PUTS), 0);
	no_grant_out();
	groups = 0;
	barrier_in_a_batch = true;
	if (_i)
		ck_assert_int_eq(farkv_mput(kv, set, PUTS), 0);
	else
		ck_assert_int_eq(farkv_mget(kv, get, N), 0);
	barrier_in_a_batch = false;
	ck_assert_uint_ge(groups, 3);
	ck_assert_uint_eq(fake_server_count(&srv, MSG_BARRIER_ACK), 1);
	ck_assert(!qsbr_active(kv->qsbr));
}

TEST_GROUP(.setup = setup_long_grace, .teardown = teardown);

/*
 * A view holds up no barrier, so it does not outlast one: afterwards its block may be used again
 * before T, and its word may come back. Here word and time are as they were.
 */
TEST_LOOP(view_does_not_outlast_a_barrier, 0, 2)
{
	struct msg barrier = {.type = MSG_BARRIER, .epoch.number = 7};
	struct farkv_view v;

	ck_assert_int_eq(put("k", "value"), 0);
	ck_assert_int_eq(farkv_borrow(kv, "k", 1, &v), 0);
	ck_assert_int_eq(farkv_borrow_check(kv, &v), 0);
	fake_server_send(&srv, &barrier, NULL);
	ck_assert(fake_server_wait(&srv, MSG_BARRIER_ACK, 1));
	if (_i) /* another call has handled it */
		assert_value("k", "value");
	ck_assert_int_eq(farkv_borrow_check(kv, &v), FARKV_ESTALE);
	assert_detail("reclaimed");
	ck_assert_int_eq(farkv_borrow_check(kv, &v), FARKV_ESTALE);
	ck_assert_int_eq(farkv_borrow(kv, "k", 1, &v), 0);
	ck_assert_int_eq(farkv_borrow_check(kv, &v), 0);
}

/* Writers by RDMA have clocks of their own, which go on while this machine stands still. */
TEST(view_beside_writers_by_rdma_needs_its_word)
{
	struct farkv_view v;

	ck_assert_int_eq(put("k", "value"), 0);
	ck_assert_int_eq(farkv_borrow(kv, "k", 1, &v), 0);
	ck_assert_int_eq(put("k", "other"), 0);
	ck_assert_int_eq(farkv_borrow_check(kv, &v), 0);
	kv->conn.writers[0] = 'k';
	ck_assert_int_eq(farkv_borrow_check(kv, &v), FARKV_ESTALE);
	ck_assert_int_eq(farkv_borrow(kv, "k", 1, &v), 0);
	ck_assert_int_eq(farkv_borrow_check(kv, &v), 0);
}

/* The server does not wait for a session that it has cut. */
TEST(view_does_not_outlast_a_connection)
{
	struct farkv_view v;

	ck_assert_int_eq(put("k", "value"), 0);
	ck_assert_int_eq(farkv_borrow(kv, "k", 1, &v), 0);
	fake_server_hangup(&srv);
	wait_broken();
	ck_assert_int_eq(memcmp(v.value.data, "value", 5), 0);
	/* The old connection is gone, and there is no new one yet: the pages stay. */
	fake_server_set(&srv, hello, FAKE_SILENT);
	set_timeout_ms(50);
	ck_assert_int_eq(farkv_borrow_check(kv, &v), FARKV_ETIMEDOUT);
	ck_assert_int_eq(memcmp(v.value.data, "value", 5), 0);
	fake_server_set(&srv, hello, FAKE_WELCOME);
	set_timeout_ms(LONG_MS);
	assert_value("k", "value");
	ck_assert_int_eq(memcmp(v.value.data, "value", 5), 0);
	ck_assert_int_eq(farkv_borrow_check(kv, &v), FARKV_ESTALE);
	ck_assert_int_eq(farkv_borrow(kv, "k", 1, &v), 0);
	ck_assert_int_eq(farkv_borrow_check(kv, &v), 0);
}

TEST_SUITE("session, in the middle")
