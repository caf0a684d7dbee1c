/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control loop without sockets: how much of the server's time, session numbers and
 * log one session can take, and how others fare when memory or descriptors are exhausted.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/region/block.h"
#include "common/region/hash.h"
#include "common/base/log.h"
#include "tests/rig/cases.h"
#include "tests/rig/fsck_rig.h"
#include "server/loop/conn_unix.h"
#include "server/loop/dispatch.h"
#include "server/loop/listen.h"
#include "server/loop/returns.h"
#include "server/memory/slab_marks.h"

/* ---- calls that fail -------------------------------------------------------------- */

static bool no_memory;
static int accept_fails; /* an errno */
static unsigned accepts;

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n)
{
	return no_memory ? NULL : __real_malloc(n);
}

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n)
{
	return no_memory ? NULL : __real_realloc(p, n);
}

int __real_accept4(int fd, struct sockaddr *a, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *a, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *a, socklen_t *len, int flags)
{
	accepts++;
	if (!accept_fails)
		return __real_accept4(fd, a, len, flags);
	errno = accept_fails;
	return -1;
}

/* ---- RETURN ------------------------------------------------------------------------ */

#define LONG_KEY 65000u
#define LONG class_for(block_room(LONG_KEY, 0))

static struct msg ret(uint32_t n, enum return_kind state)
{
	return (struct msg){.type = MSG_RETURN,
			    .blocks = {.n = n, .state = (uint8_t)state}};
}

/* libcheck needs memory, too. */
static bool say_without_memory(struct peer *p, const struct msg *m,
			       const struct block_ref *refs)
{
	uint8_t buf[MSG_MAX_BYTES];
	size_t len;
	bool goes_on;

	ck_assert_int_eq(msg_encode(m, refs, buf, sizeof(buf), &len), 0);
	no_memory = true;
	goes_on = dispatch_packet(p->session, buf, len);
	no_memory = false;
	return goes_on;
}

/* Intact blocks with long keys, which no slot names. */
static void long_keys(struct peer *p, uint32_t n)
{
	static uint8_t key[LONG_KEY];
	uint64_t hash = hash_key(region.sb.hash_seed, key, LONG_KEY);

	for (uint32_t got = 0; got < n; got++) {
		struct block_ref *ref = &p->held[p->n_held];

		ck_assert_uint_eq(rig_get(p, LONG, 1), 1);
		block_encode(region_at(&region, ref->off), *ref, 1,
			     &(struct block_pair){.key = key, .key_hash = hash,
						  .key_len = LONG_KEY,
						  .value = "", .value_len = 0});
	}
}

TEST_GROUP(.setup = setup, .teardown = rig_end);

TEST(return_of_long_keys_takes_one_slice_at_a_time)
{
	struct msg m = ret(10, RETURN_FREE);

	long_keys(&alice, 10);
	ck_assert(say(&alice, &m, alice.held));
	ck_assert(!session_may_take(alice.session));
	ck_assert_uint_gt(slab_count(c->slab).out, 5);
	WAIT_FOR(session_may_take(alice.session));
	ck_assert_uint_eq(slab_count(c->slab).out, 0);
}

TEST(returns_of_two_sessions_alternate)
{
	struct msg ten = ret(10, RETURN_FREE), four = ret(4, RETURN_FREE);

	join(&bob, &rig_local, getpid());
	long_keys(&alice, 10);
	long_keys(&bob, 4);
	ck_assert(say(&alice, &ten, alice.held));
	ck_assert(say(&bob, &four, bob.held));
	/* A slice each. */
	ck_assert(c->returns->work.step(c, 0));
	ck_assert(!session_may_take(bob.session));
	ck_assert(c->returns->work.step(c, 0));
	ck_assert(session_may_take(bob.session));
	ck_assert(!session_may_take(alice.session));
	WAIT_FOR(session_may_take(alice.session));
	ck_assert_uint_eq(slab_count(c->slab).out, 0);
}

TEST(message_after_an_unfinished_return_finds_it_finished)
{
	struct msg m = ret(10, RETURN_FREE), ping = {.type = MSG_PING, .req = 9};

	long_keys(&alice, 10);
	ck_assert(say(&alice, &m, alice.held));
	ck_assert(say(&alice, &ping, NULL));
	ck_assert_uint_eq(slab_count(c->slab).out, 0);
	turns(5);
}

TEST(session_that_ends_drops_its_unfinished_return)
{
	struct msg m = ret(10, RETURN_FREE);

	join(&bob, &rig_local, getpid());
	long_keys(&bob, 10);
	ck_assert(say(&bob, &m, bob.held));
	session_end(bob.session);
	turns(5);
	ck_assert_uint_gt(slab_count(c->slab).out, 5);
}

/* One block that is not granted, among many: nothing of the session is left. */
TEST(bad_block_in_an_unfinished_return_ends_the_session)
{
	struct msg m = ret(10, RETURN_FREE);

	long_keys(&alice, 10);
	alice.held[8].off += PTR_UNIT;
	ck_assert(say(&alice, &m, alice.held));
	WAIT_FOR(!alice.session);
	turns(5);
	ck_assert_uint_eq(slab_count(c->slab).out, 2);
	ck_assert_uint_eq(c->counts.protocol_errors, 1);
}

/* An honest client has at most a few, from slots that others damaged. */
TEST(session_that_keeps_returning_blocks_in_use_is_ended)
{
	struct item item = item_new(0);
	struct block_ref ref = slot_block(item.word);
	struct msg m = ret(1, RETURN_FREE);
	unsigned n = 0;

	slots_in(0)[item.home] = item.word;
	join(&bob, &rig_local, getpid());
	while (say(&bob, &m, &ref))
		ck_assert_uint_le(++n, 256);
	ck_assert_uint_eq(n, 256);
	ck_assert_ptr_null(bob.session);
	ck_assert(slab_is_out(c->slab, ref));
	ck_assert_uint_eq(log_count("that the index names"), 1);
	ck_assert_uint_eq(c->counts.protocol_errors, 257);
	ck_assert_ptr_nonnull(alice.session);
}

/* The block stays granted and the session goes on; a sweep finds the block. */
TEST_LOOP(return_without_memory_ends_no_session, 0, 2)
{
	struct msg m = ret(1, _i ? RETURN_EXHAUSTED : RETURN_DEFERRED);

	ck_assert_uint_eq(rig_get(&alice, RIG_SMALL, 1), 1);
	ck_assert(say_without_memory(&alice, &m, alice.held));
	ck_assert_uint_eq(slab_count(c->slab).out, 1);
	ck_assert_uint_eq(c->counts.protocol_errors, 0);
	ck_assert_uint_eq(log_count("no memory to note 1 blocks"), 1);
	WAIT_FOR((answer_sweep(&alice), slab_count(c->slab).out == 0));
	ck_assert(slab_audit(c->slab));
}

TEST(long_return_without_memory_for_its_rest_is_finished_at_once)
{
	struct msg m = ret(10, RETURN_FREE);

	long_keys(&alice, 10);
	ck_assert(say_without_memory(&alice, &m, alice.held));
	ck_assert(session_may_take(alice.session));
	ck_assert_uint_eq(slab_count(c->slab).out, 0);
}

/* ---- versions, checks ---------------------------------------------------------------- */

TEST(session_that_asks_for_versions_in_a_loop_is_ended)
{
	struct msg m = {.type = MSG_PREFIX_REQ, .req = 7};
	uint32_t before = region_state(c->region)->last_id;

	for (unsigned i = 0; i < 4; i++)
		ck_assert(say(&alice, &m, NULL));
	ck_assert_uint_eq(region_state(c->region)->last_id, before + 4);
	ck_assert(!say(&alice, &m, NULL));
	ck_assert_ptr_null(alice.session);
	ck_assert_uint_eq(region_state(c->region)->last_id, before + 4);
	ck_assert_uint_eq(c->counts.protocol_errors, 1);
}

TEST(checks_by_readers_leave_a_pause_and_checks_by_writers_do_not)
{
	uint64_t began = clock_now_ns();

	join(&bob, &rig_local, getpid());
	bob.heard = heard;
	bob.session->readonly = true;
	for (unsigned i = 1; i <= 3; i++) {
		ck_assert(request(&bob));
		WAIT_FOR(told(&bob, i));
	}
	/* Two pauses lie between three checks. */
	ck_assert_uint_ge(clock_now_ns() - began, 2 * 100 * NS_PER_MS);
	ck_assert(request(&bob));
	ck_assert(TAILQ_EMPTY(&c->work.list));
	ck_assert(request(&alice));
	ck_assert(!TAILQ_EMPTY(&c->work.list));
	WAIT_FOR(told(&alice, 1) && told(&bob, 4));
}

/* ---- the log -------------------------------------------------------------------------- */

static void misbehave(void)
{
	struct msg m = {.type = MSG_SWEEP_ACK, .epoch = {77}};

	join(&bob, &rig_remote, 0);
	ck_assert(!say(&bob, &m, NULL));
}

TEST(suppressed_warnings_are_counted_without_a_later_line)
{
	for (unsigned i = 0; i < 20; i++)
		misbehave();
	/* A slow machine may take more than a second for that. */
	ck_assert_uint_le(log_count("connection of bob closed"), 20);
	WAIT_FOR(log_count("more warnings about peers were not shown") >= 1);
	if (log_count("connection of bob closed") == 1)
		ck_assert_uint_eq(log_count("test: warning: 19 more warnings"),
				  1);
}

TEST_GROUP(.setup = setup);

TEST(suppressed_lines_are_counted_at_the_end)
{
	log_init("test", LOG_LEVEL_INFO);
	for (unsigned i = 0; i < 25; i++) {
		join(&bob, &rig_remote, 0);
		session_end(bob.session);
	}
	ck_assert_uint_eq(log_count("ended without goodbye"), 20);
	rig_end();
	ck_assert_uint_eq(log_count("5 more lines about single sessions"), 1);
}

/* ---- accept4() -------------------------------------------------------------------------- */

static const int errnums[] = {ENOMEM, ENOBUFS, EMFILE, ENFILE, EPERM, EPROTO};

static int dial(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, path);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

TEST_GROUP(.setup = setup, .teardown = rig_end);

TEST_EACH(accept_that_fails_is_retried_at_intervals, errnums)
{
	char dir[] = "/tmp/farkv-bounds-XXXXXX", path[64];
	struct listen_socket l;
	int fd;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/sock", dir);
	ck_assert_int_eq(listen_open(path, 0600, &l), 0);
	ck_assert_int_eq(listen_begin(&l), 0);
	c->unix_port = conn_unix_new(c, &l);
	ck_assert_ptr_nonnull(c->unix_port);
	accept_fails = errnums[_i];
	fd = dial(path);
	accepts = 0;
	for (unsigned i = 0; i < 200; i++)
		event_base_loop(c->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	ck_assert_uint_ge(accepts, 1);
	ck_assert_uint_lt(accepts, 100);
	ck_assert_uint_eq(log_count("connections wait"), 1);
	accept_fails = 0;
	WAIT_FOR(c->n_connections == 2);
	close(fd);
	WAIT_FOR(c->n_connections == 1);
	listen_close(&l);
	rmdir(dir);
}

/* ---- all ---------------------------------------------------------------------------------- */

TEST_SUITE("bounds")
