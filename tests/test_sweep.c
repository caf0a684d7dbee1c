/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sweeps of a real kvserver, seen from sessions that choose every moment: what
 * the dead held comes back, what the living hold does not, whoever dies, leaves,
 * comes or stays silent in the middle.
 */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "e2e.h"
#include "raw_session.h"
#include "real_server.h"
#include "test_main.h"

#define BLOCKS 10 /* that a victim holds */
#define REFS_MAX 64
#define KILLS 18

static struct real_server srv;
static struct farkv *watcher; /* a read-only handle, for statistics */

/* ---- the server's side ----------------------------------------------------------- */

static struct farkv_stats stats(void)
{
	struct farkv_stats s = {.size = sizeof(s)};

	OK(farkv_stats(watcher, &s));
	return s;
}

#define wait_for(condition)                                                   \
	do {                                                                  \
		struct farkv_stats s;                                         \
		int tries = 0;                                                \
                                                                              \
		for (s = stats(); !(condition); s = stats()) {                \
			ck_assert_msg(++tries < 1000, "not seen: %s",         \
				      #condition);                            \
			usleep(10000);                                        \
		}                                                             \
	} while (0)

static struct farkv_fsck check(void)
{
	struct farkv_fsck f = {.size = sizeof(f)};

	OK(farkv_fsck(watcher, &f));
	ck_assert_uint_eq(f.bad_directory + f.bad_empty + f.bad_words +
				  f.damaged + f.shared + f.misplaced +
				  f.behind_empty + f.duplicates + f.bad_sums,
			  0);
	return f;
}

static void setup(void)
{
	static const char *const args[] = {"-m", "64m", NULL};

	real_server_init(&srv, args);
	watcher = e2e_open_readonly(srv.path, 20000);
}

static void teardown(void)
{
	farkv_close(watcher);
	real_server_fini(&srv);
}

/* ---- victims: processes that are killed ----------------------------------------------- */

struct victim {
	pid_t pid;
	struct block_ref refs[BLOCKS];
};

/* Acknowledges what it is asked to, but answers no question. */
static void victim_main(int to_parent, bool acks)
{
	struct block_ref refs[BLOCKS];
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = raw_session(srv.path, MSG_ROLE_RW, NULL);
	raw_grant(fd, 0, BLOCKS, refs);
	if (write(to_parent, refs, sizeof(refs)) != (ssize_t)sizeof(refs))
		_exit(1);
	while (acks) {
		struct msg m = raw_next(fd);
		struct msg ack = {.type = MSG_SWEEP_ACK, .epoch = m.epoch};

		if (m.type == MSG_SWEEP_BEGIN)
			raw_say(fd, &ack, NULL);
		if (m.type == 0)
			_exit(1);
	}
	pause();
	_exit(0);
}

static struct victim victim_new(bool acks)
{
	struct victim v;
	int fds[2];

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	v.pid = fork();
	ck_assert_int_ge(v.pid, 0);
	if (v.pid == 0)
		victim_main(fds[1], acks);
	close(fds[1]);
	ck_assert_int_eq(read(fds[0], v.refs, sizeof(v.refs)),
			 (ssize_t)sizeof(v.refs));
	close(fds[0]);
	return v;
}

static void victim_kill(const struct victim *v)
{
	ck_assert_int_eq(kill(v->pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(v->pid, NULL, 0), v->pid);
}

/* ---- those that live ------------------------------------------------------------------ */

static int writer(void)
{
	return raw_session(srv.path, MSG_ROLE_RW, NULL);
}

static uint64_t hear_begin(int fd)
{
	struct msg m = raw_next(fd);

	ck_assert_str_eq(msg_type_name(m.type), "SWEEP_BEGIN");
	ck_assert_uint_gt(m.epoch.number, 0);
	return m.epoch.number;
}

static void hear_end(int fd, uint64_t number)
{
	struct msg m = raw_next(fd);

	ck_assert_str_eq(msg_type_name(m.type), "SWEEP_END");
	ck_assert_uint_eq(m.epoch.number, number);
}

static void ack(int fd, uint64_t number)
{
	struct msg m = {.type = MSG_SWEEP_ACK, .epoch = {number}};

	raw_say(fd, &m, NULL);
}

static void claim(int fd, uint64_t number, uint32_t req,
		  const struct block_ref *refs, uint32_t n)
{
	struct msg m = {.type = MSG_SWEEP_CLAIM, .req = req,
			.blocks = {.number = number, .n = n}};

	raw_say(fd, &m, refs);
}

static void say_bye(int fd)
{
	struct msg m = {.type = MSG_BYE, .req = 9};

	raw_say(fd, &m, NULL);
	/* Behind what was said before. */
	while ((m = raw_next(fd)).type != MSG_BYE_ACK)
		ck_assert_uint_ne(m.type, 0);
	close(fd);
}

/* The server still talks to this session. */
static void check_alive(int fd)
{
	struct msg m = {.type = MSG_PING, .req = 77};

	raw_say(fd, &m, NULL);
	ck_assert_uint_eq(raw_next(fd).type, MSG_PONG);
}

static void check_thrown_out(int fd, enum msg_reason reason)
{
	struct msg m = raw_next(fd);

	ck_assert_str_eq(msg_type_name(m.type), "REFUSE");
	ck_assert_uint_eq(m.refuse.reason, reason);
	ck_assert_uint_eq(raw_hear(fd).type, 0);
	close(fd);
}

struct asked {
	uint32_t req;
	uint32_t n;
	struct block_ref refs[REFS_MAX];
};

static struct asked hear_question(int fd, uint64_t number)
{
	struct msg m = raw_next(fd);
	struct asked a = {.req = m.req, .n = m.blocks.n};

	ck_assert_str_eq(msg_type_name(m.type), "SWEEP_QUERY");
	ck_assert_uint_eq(m.blocks.number, number);
	ck_assert_uint_eq(m.req, 1);
	ck_assert_uint_le(a.n, REFS_MAX);
	for (uint32_t i = 0; i < a.n; i++)
		a.refs[i] = msg_ref(&m, i);
	return a;
}

/* How many of `refs` are asked about. */
static unsigned among(const struct asked *a, const struct block_ref *refs,
		      unsigned n)
{
	unsigned found = 0;

	for (unsigned i = 0; i < n; i++)
		for (uint32_t k = 0; k < a->n; k++)
			found += refs[i].off == a->refs[k].off;
	return found;
}

static void give_back(int fd, const struct block_ref *refs, uint32_t n)
{
	struct msg m = {.type = MSG_RETURN, .blocks = {.n = n}};

	raw_say(fd, &m, refs);
}

/* ---- tests ------------------------------------------------------------------------------- */

START_TEST(dead_session_is_swept_and_a_living_one_is_not)
{
	struct block_ref own[5];
	int fd = writer(), other = writer();
	struct victim v = victim_new(true);
	struct asked a;
	uint64_t n;

	raw_grant(fd, 0, 5, own);
	victim_kill(&v);
	n = hear_begin(fd);
	ack(other, hear_begin(other));
	ck_assert_uint_eq(stats().blocks_granted, BLOCKS + 5);
	ack(fd, n);
	a = hear_question(fd, n);
	(void)hear_question(other, n);
	ck_assert_uint_eq(a.n, BLOCKS + 5);
	ck_assert_uint_eq(among(&a, own, 5), 5);
	ck_assert_uint_eq(among(&a, v.refs, BLOCKS), BLOCKS);
	claim(fd, n, a.req, own, 5);
	ck_assert_uint_eq(stats().blocks_swept, 0); /* not before all said so */
	claim(other, n, a.req, NULL, 0);
	hear_end(fd, n);
	hear_end(other, n);
	wait_for(s.blocks_granted == 5);
	ck_assert_uint_eq(stats().blocks_swept, BLOCKS);
	ck_assert_uint_eq(stats().sweeps, 1);
	ck_assert_uint_eq(stats().sweep_deaths, 0);
	ck_assert_uint_gt(stats().sweep_ns, 0);
	do { /* barriers are acknowledged on the way */
		check_alive(fd);
		check_alive(other);
	} while (stats().blocks_worn);
	give_back(fd, own, 5);
	check_alive(fd);
	give_back(fd, v.refs, BLOCKS);
	check_thrown_out(fd, MSG_REASON_PROTOCOL);
	say_bye(other);
}
END_TEST

/* Killed in the middle of its work, by the library. */
START_TEST(what_the_dead_published_stays)
{
	struct farkv *kv;
	char key[16];
	pid_t pid;

	for (int round = 0; round < 3; round++) {
		pid = fork();
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			kv = e2e_open(srv.path, 5000);
			for (int i = 0; i < 3000; i++) {
				snprintf(key, sizeof(key), "key%d", i % 300);
				OK(e2e_put(kv, key, key));
			}
			kill(getpid(), SIGKILL);
		}
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
		wait_for(s.sweeps == (uint64_t)round + 1);
	}
	kv = e2e_open(srv.path, 5000);
	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "key%d", i);
		e2e_expect_str(kv, key, key);
	}
	ck_assert_uint_eq(check().out_bytes, 300 * 64);
	ck_assert_uint_eq(check().live_bytes, 300 * 64);
	ck_assert_uint_gt(stats().blocks_swept, 0);
	ck_assert_uint_eq(check().blocks_leaked, 0);
	OK(e2e_put(kv, "key1", "new"));
	ck_assert_uint_gt(check().blocks_held, 0);
	farkv_close(kv);
	ck_assert_uint_eq(check().blocks_held, 0);
}
END_TEST

START_TEST(who_does_not_acknowledge_delays_the_sweep)
{
	int fd = writer();
	struct victim v = victim_new(true);
	uint64_t n, later;
	struct asked a;

	victim_kill(&v);
	n = hear_begin(fd);
	hear_end(fd, n); /* two seconds later */
	ck_assert_uint_eq(stats().sweeps, 0);
	ck_assert_uint_eq(stats().sweep_deaths, 1);
	ck_assert_uint_eq(stats().blocks_granted, BLOCKS);
	later = hear_begin(fd);
	ck_assert_uint_gt(later, n);
	ack(fd, n); /* of the old one: passed over */
	claim(fd, n, 1, v.refs, BLOCKS);
	ck_assert_uint_eq(stats().sweeps, 0);
	ck_assert_int_eq(raw_pending(fd, 100), 0);
	ack(fd, later);
	a = hear_question(fd, later);
	ck_assert_uint_eq(among(&a, v.refs, BLOCKS), BLOCKS);
	claim(fd, later, a.req, NULL, 0);
	hear_end(fd, later);
	ck_assert_uint_eq(stats().blocks_swept, BLOCKS);
	say_bye(fd);
}
END_TEST

START_TEST(who_does_not_answer_keeps_everything_as_it_is)
{
	int fd = writer();
	struct victim v = victim_new(true);
	uint64_t n;

	victim_kill(&v);
	n = hear_begin(fd);
	ack(fd, n);
	(void)hear_question(fd, n);
	hear_end(fd, n);
	ck_assert_uint_eq(stats().blocks_swept, 0);
	ck_assert_uint_eq(stats().blocks_granted, BLOCKS);
	say_bye(fd);
	/* Nobody is left to be asked. */
	wait_for(s.sweeps == 1);
	ck_assert_uint_eq(stats().blocks_swept, BLOCKS);
}
END_TEST

/*
 * Between question and answer somebody dies who may have put a candidate into a
 * slot that was visited before: nobody would claim it.
 */
START_TEST(death_in_the_middle_begins_anew)
{
	int fd = writer(), other = writer();
	struct victim first = victim_new(true), second = victim_new(true);
	struct asked a;
	uint64_t n, again;

	victim_kill(&first);
	n = hear_begin(fd);
	ack(fd, n);
	ack(other, hear_begin(other));
	a = hear_question(fd, n);
	ck_assert_uint_eq(among(&a, second.refs, BLOCKS), BLOCKS);
	ck_assert_uint_eq(hear_question(other, n).n, a.n);
	/* All but the one that dies have answered. */
	claim(other, n, a.req, NULL, 0);
	claim(fd, n, a.req, NULL, 0);
	check_alive(fd);
	check_alive(other);
	victim_kill(&second);
	hear_end(fd, n);
	/* Nor by the end of another session, while it waits to begin. */
	say_bye(other);
	ck_assert_uint_eq(stats().blocks_swept, 0);
	again = hear_begin(fd);
	ck_assert_uint_gt(again, n);
	ck_assert_uint_eq(stats().blocks_swept, 0);
	ack(fd, again);
	a = hear_question(fd, again);
	ck_assert_uint_eq(a.n, 2 * BLOCKS);
	claim(fd, again, a.req, NULL, 0);
	hear_end(fd, again);
	ck_assert_uint_eq(stats().blocks_swept, 2 * BLOCKS);
	ck_assert_uint_eq(stats().sweeps, 1);
	say_bye(fd);
}
END_TEST

/*
 * A sweep was stopped by the death of the last one who owed an answer. Before the
 * next begins another session comes and goes: what was claimed, and all the rest,
 * is asked about again.
 */
START_TEST(what_a_stopped_sweep_asked_about_stays)
{
	int fd = writer();
	struct victim first = victim_new(true), second = victim_new(true);
	struct block_ref mine[4];
	struct asked a;
	uint64_t n, again;

	raw_grant(fd, 0, 4, mine);
	victim_kill(&first);
	n = hear_begin(fd);
	ack(fd, n);
	a = hear_question(fd, n);
	ck_assert_uint_eq(among(&a, mine, 4), 4);
	claim(fd, n, a.req, mine, 4);
	victim_kill(&second);
	hear_end(fd, n);
	say_bye(writer());
	again = hear_begin(fd);
	ack(fd, again);
	a = hear_question(fd, again);
	ck_assert_uint_eq(a.n, 2 * BLOCKS + 4);
	claim(fd, again, a.req, mine, 4);
	hear_end(fd, again);
	ck_assert_uint_eq(stats().blocks_swept, 2 * BLOCKS);
	give_back(fd, mine, 4);
	check_alive(fd);
	say_bye(fd);
}
END_TEST

/* What it names on leaving is no answer, and comes in parts. */
START_TEST(who_leaves_in_the_middle_names_its_blocks_first)
{
	struct block_ref own[5], odd;
	int fd = writer(), leaver = writer();
	struct victim v = victim_new(true);
	uint64_t n;

	raw_grant(leaver, 0, 5, own);
	for (int i = 0; i < 5; i++)
		own[i].inc = 3;
	give_back(leaver, own, 5);
	raw_grant(leaver, 0, 5, own);
	ck_assert_uint_eq(own[3].inc, 3);
	victim_kill(&v);
	n = hear_begin(fd);
	ack(fd, n);
	ack(leaver, hear_begin(leaver));
	claim(fd, n, hear_question(fd, n).req, NULL, 0);
	(void)hear_question(leaver, n);
	claim(leaver, n, 0, own, 3);
	check_alive(leaver);
	ck_assert_uint_eq(stats().blocks_swept, 0);
	/* Which block it is counts, not the incarnation. */
	odd = own[3];
	odd.inc = 0;
	claim(leaver, n, 0, &odd, 1);
	claim(leaver, n, 0, own + 4, 1);
	say_bye(leaver);
	hear_end(fd, n);
	ck_assert_uint_eq(stats().blocks_swept, BLOCKS);
	ck_assert_uint_eq(stats().blocks_granted, 5);
	say_bye(fd);
}
END_TEST

/*
 * An operation that began before SWEEP_BEGIN ends before the acknowledgement, and
 * leaves nothing to be remembered: the walk has to see what it wrote.
 */
START_TEST(walk_begins_when_all_have_acknowledged)
{
	struct raw_region r;
	struct block_ref own[2];
	int fd = raw_session_map(srv.path, &r);
	struct victim v = victim_new(true);
	struct asked a;
	uint64_t n;

	raw_grant(fd, 0, 2, own);
	victim_kill(&v);
	n = hear_begin(fd);
	ck_assert_int_eq(raw_pending(fd, 100), 0);
	r.slots[7] = slot_pack(own[0], 1, 0);
	r.slots[9] = slot_pack(own[1], 1, 0) | SLOT_DEAD | SLOT_FROZEN;
	ack(fd, n);
	a = hear_question(fd, n);
	ck_assert_uint_eq(a.n, BLOCKS);
	claim(fd, n, a.req, NULL, 0);
	hear_end(fd, n);
	ck_assert_uint_eq(stats().blocks_granted, 2);
	raw_unmap(&r);
	say_bye(fd);
}
END_TEST

START_TEST(who_comes_in_the_middle_takes_part)
{
	struct block_ref granted[4];
	int fd = writer(), comer;
	struct victim v = victim_new(true);
	struct asked a;
	uint64_t n;

	victim_kill(&v);
	n = hear_begin(fd);
	comer = writer();
	ck_assert_uint_eq(hear_begin(comer), n);
	raw_grant(comer, 0, 4, granted);
	ack(fd, n);
	ck_assert_int_eq(raw_pending(fd, 50), 0); /* the comer has not said */
	ack(comer, n);
	a = hear_question(fd, n);
	ck_assert_uint_eq(among(&a, granted, 4), 0);
	ck_assert_uint_eq(a.n, BLOCKS);
	claim(fd, n, a.req, NULL, 0);
	claim(comer, n, hear_question(comer, n).req, NULL, 0);
	hear_end(fd, n);
	hear_end(comer, n);
	ck_assert_uint_eq(stats().blocks_granted, 4);
	give_back(comer, granted, 4);
	check_alive(comer);
	say_bye(comer);
	say_bye(fd);
}
END_TEST

enum out_of_turn {
	ACK_BEFORE_ANY,
	CLAIM_BEFORE_ANY,
	ACK_OF_THE_FUTURE,
	ACK_TWICE,
	ANSWER_UNASKED,
	CLAIM_OF_A_READER,
};

static void say_out_of_turn(enum out_of_turn what, const struct block_ref *ref)
{
	bool reader = what == CLAIM_OF_A_READER;
	int fd = raw_session(srv.path, reader ? MSG_ROLE_RO : MSG_ROLE_RW, NULL);
	uint64_t n = what >= ACK_OF_THE_FUTURE ? hear_begin(fd) : 1;

	if (what == ACK_TWICE)
		ack(fd, n);
	if (what == ANSWER_UNASKED || what == CLAIM_BEFORE_ANY)
		claim(fd, n, what == ANSWER_UNASKED, NULL, 0);
	else if (reader)
		claim(fd, n, 0, ref, 1);
	else
		ack(fd, n + (what == ACK_OF_THE_FUTURE));
	check_thrown_out(fd, reader ? MSG_REASON_PERMISSION :
				      MSG_REASON_PROTOCOL);
}

/* In a process that ends: a sweep waits for it. */
static void check_out_of_turn(enum out_of_turn what, const struct block_ref *ref)
{
	pid_t pid = fork();
	int status;

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		say_out_of_turn(what, ref);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

START_TEST(messages_out_of_turn)
{
	struct victim v = victim_new(true);
	int fd = writer();
	struct asked a;
	uint64_t n;

	check_out_of_turn(ACK_BEFORE_ANY, NULL);
	check_out_of_turn(CLAIM_BEFORE_ANY, NULL);
	victim_kill(&v);
	n = hear_begin(fd);
	check_out_of_turn(ACK_OF_THE_FUTURE, NULL);
	check_out_of_turn(ACK_TWICE, NULL);
	check_out_of_turn(ANSWER_UNASKED, NULL);
	check_out_of_turn(CLAIM_OF_A_READER, v.refs);
	ack(fd, n);
	a = hear_question(fd, n);
	/* Blocks that are not out, or none at all. */
	for (uint64_t off = 0; off < 4; off++) {
		struct block_ref none = {.off = 0x200000 + 32 * off,
					 .cls = (uint8_t)(off * 30)};

		claim(fd, n, 0, &none, 1);
	}
	check_alive(fd);
	claim(fd, n, a.req, NULL, 0);
	hear_end(fd, n);
	ck_assert_uint_eq(stats().blocks_swept, BLOCKS);
	/* Over: late is not wrong. */
	ack(fd, n);
	claim(fd, n, 1, v.refs, 1);
	check_alive(fd);
	say_bye(fd);
}
END_TEST

START_TEST(a_second_answer_to_a_question_is_refused)
{
	struct victim v = victim_new(true);
	int fd = writer(), other = writer();
	uint64_t n;

	victim_kill(&v);
	n = hear_begin(fd);
	ack(fd, n);
	ack(other, n);
	claim(fd, n, hear_question(fd, n).req, NULL, 0);
	claim(fd, n, 1, NULL, 0);
	check_thrown_out(fd, MSG_REASON_PROTOCOL);
	say_bye(other);
}
END_TEST

/* A client that is always replaced by one that dies must not keep sweeps from
 * their end. */
START_TEST(writers_wait_after_three_starts_in_vain)
{
	static const struct msg hello = {.type = MSG_HELLO, .req = 1};
	struct victim v[4];
	int fd = writer(), waits, reader;
	uint64_t n;

	for (int i = 0; i < 4; i++)
		v[i] = victim_new(false);
	victim_kill(&v[0]);
	for (int i = 1; i < 4; i++) {
		n = hear_begin(fd);
		victim_kill(&v[i]);
		hear_end(fd, n);
	}
	n = hear_begin(fd);
	waits = raw_dial(srv.path);
	raw_say(waits, &hello, NULL);
	reader = raw_session(srv.path, MSG_ROLE_RO, NULL);
	ck_assert_int_eq(raw_pending(waits, 300), 0);
	ack(reader, hear_begin(reader));
	ack(fd, n);
	claim(fd, n, hear_question(fd, n).req, NULL, 0);
	hear_end(fd, n);
	ck_assert_uint_eq(raw_hear(waits).type, MSG_WELCOME);
	ck_assert_uint_eq(stats().blocks_swept, 4 * BLOCKS);
	check_alive(waits);
	say_bye(waits);
	say_bye(reader);
	say_bye(fd);
}
END_TEST

/* No sweep can begin while a process lives on: that is nothing to wait for. */
START_TEST(writers_do_not_wait_for_a_process_that_lives_on)
{
	static const struct msg hello = {.type = MSG_HELLO, .req = 1};
	struct victim v[3];
	int fd = writer(), ghost, waits;
	struct block_ref refs[BLOCKS];
	uint64_t n;

	for (int i = 0; i < 3; i++)
		v[i] = victim_new(false);
	ghost = raw_session(srv.path, MSG_ROLE_RW, NULL);
	raw_grant(ghost, 0, BLOCKS, refs);
	victim_kill(&v[0]);
	for (int i = 1; i < 3; i++) {
		n = hear_begin(fd);
		victim_kill(&v[i]);
		hear_end(fd, n);
	}
	n = hear_begin(fd);
	close(ghost);
	hear_end(fd, n);
	waits = raw_dial(srv.path);
	raw_say(waits, &hello, NULL);
	ck_assert_uint_eq(raw_hear(waits).type, MSG_WELCOME);
	check_alive(waits);
	say_bye(waits);
	say_bye(fd);
}
END_TEST

/* On shared memory a closed socket proves nothing while the process lives. */
START_TEST(process_that_lives_on_is_waited_for)
{
	struct msg w, hello = {.type = MSG_HELLO, .req = 1};
	struct block_ref refs[BLOCKS];
	int fd = raw_session(srv.path, MSG_ROLE_RW, &w);
	struct farkv_fsck f;

	hello.hello.replaces = w.welcome.session;
	hello.hello.replaces_region[0] = w.welcome.region_id[0];
	hello.hello.replaces_region[1] = w.welcome.region_id[1];
	raw_grant(fd, 0, BLOCKS, refs);
	close(fd);
	wait_for(s.sweep_deaths == 1);
	f = check();
	ck_assert_uint_eq(f.undecided, FARKV_FSCK_GHOST);
	ck_assert_uint_eq(f.silent_pid, (uint64_t)getpid());
	ck_assert_uint_eq(f.silent_session, hello.hello.replaces);
	ck_assert_uint_eq(stats().sweeps, 0);
	fd = raw_dial(srv.path);
	raw_say(fd, &hello, NULL);
	ck_assert_uint_eq(raw_hear(fd).type, MSG_WELCOME);
	ack(fd, hear_begin(fd));
	claim(fd, 1, hear_question(fd, 1).req, NULL, 0);
	hear_end(fd, 1);
	ck_assert_uint_eq(stats().blocks_swept, BLOCKS);
	say_bye(fd);
}
END_TEST

/* It never had the region: nothing is to be waited for but a busy server. */
START_TEST(client_that_gave_up_before_its_welcome_is_not_waited_for)
{
	static const struct msg hello = {.type = MSG_HELLO, .req = 1};
	int fd;

	real_server_pause(&srv);
	fd = raw_dial(srv.path);
	raw_say(fd, &hello, NULL);
	close(fd);
	real_server_resume(&srv);
	wait_for(s.sessions_total == 2);
	ck_assert_uint_eq(check().undecided, FARKV_FSCK_DECIDED);
	ck_assert_uint_eq(stats().sweep_deaths, 0);
}
END_TEST

START_TEST(fsck_names_who_does_not_answer)
{
	struct msg w;
	int fd = raw_session(srv.path, MSG_ROLE_RW, &w);
	uint32_t id = w.welcome.session;
	struct farkv_fsck f = check();

	ck_assert_uint_eq(f.undecided, FARKV_FSCK_SILENT);
	ck_assert_uint_eq(f.silent_session, id);
	ck_assert_uint_eq(f.silent_pid, (uint64_t)getpid());
	hear_end(fd, hear_begin(fd));
	say_bye(fd);
	f = check();
	ck_assert_uint_eq(f.undecided, FARKV_FSCK_DECIDED);
	ck_assert_uint_eq(f.silent_session + f.silent_pid, 0);
}
END_TEST

/* ---- the library, in numbers -------------------------------------------------------------- */

static void worker(unsigned seed)
{
	struct farkv *kv;
	char key[24], value[200];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	kv = e2e_open(srv.path, 20000);
	for (unsigned x = seed;; x = x * 1664525u + 1013904223u) {
		unsigned k = x >> 8;

		snprintf(key, sizeof(key), "%u", k % 20000);
		if (k % 5 == 0)
			(void)e2e_del(kv, key);
		else if (farkv_put(kv, key, strlen(key), value,
				   k % sizeof(value)))
			_exit(1);
	}
}

static pid_t worker_new(unsigned seed)
{
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		worker(seed);
	return pid;
}

START_TEST(clients_die_at_any_moment_and_nothing_is_lost)
{
	struct farkv_fsck f;
	pid_t pid[4];
	int status;

	for (unsigned i = 0; i < 4; i++)
		pid[i] = worker_new(i);
	for (unsigned kills = 0; kills < KILLS; kills++) {
		unsigned i = kills % 3; /* the last one lives long */

		usleep(100000);
		if (kills % 6 == 0)
			(void)check();
		ck_assert_int_eq(kill(pid[i], SIGKILL), 0);
		ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
		ck_assert(WIFSIGNALED(status));
		pid[i] = worker_new(100 + kills);
	}
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(kill(pid[i], SIGKILL), 0);
		ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
		ck_assert(WIFSIGNALED(status));
	}
	wait_for(s.sweep_deaths == 0);
	f = check();
	ck_assert_uint_eq(f.undecided, FARKV_FSCK_DECIDED);
	ck_assert_uint_eq(f.blocks_held + f.blocks_leaked, 0);
	ck_assert_uint_eq(f.out_bytes, f.live_bytes + f.dead_bytes);
	ck_assert_uint_gt(f.items, 1000);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("sweep");
	TCase *t = tcase_create("sweep");

	real_server_require();
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, dead_session_is_swept_and_a_living_one_is_not);
	tcase_add_test(t, what_the_dead_published_stays);
	tcase_add_test(t, who_does_not_acknowledge_delays_the_sweep);
	tcase_add_test(t, who_does_not_answer_keeps_everything_as_it_is);
	tcase_add_test(t, death_in_the_middle_begins_anew);
	tcase_add_test(t, what_a_stopped_sweep_asked_about_stays);
	tcase_add_test(t, who_leaves_in_the_middle_names_its_blocks_first);
	tcase_add_test(t, walk_begins_when_all_have_acknowledged);
	tcase_add_test(t, who_comes_in_the_middle_takes_part);
	tcase_add_test(t, messages_out_of_turn);
	tcase_add_test(t, a_second_answer_to_a_question_is_refused);
	tcase_add_test(t, writers_wait_after_three_starts_in_vain);
	tcase_add_test(t, writers_do_not_wait_for_a_process_that_lives_on);
	tcase_add_test(t, process_that_lives_on_is_waited_for);
	tcase_add_test(
		t, client_that_gave_up_before_its_welcome_is_not_waited_for);
	tcase_add_test(t, fsck_names_who_does_not_answer);
	suite_add_tcase(s, t);
	t = tcase_create("deaths");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, clients_die_at_any_moment_and_nothing_is_lost);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
