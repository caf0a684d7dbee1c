/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The course of a sweep: it begins, all sessions acknowledge, the index is walked, blocks
 * that no slot names are asked about, and unclaimed ones come back.
 */
#include "config.h"

#include <sys/wait.h>

#include "tests/rig/cases.h"
#include "tests/rig/sweep_rig.h"

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST(sweep_of_a_dead_session_leaves_living_ones_alone)
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
	ck_assert_uint_eq(stats().blocks_swept, 0); /* only after all acknowledged */
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
	} while (stats().blocks_exhausted);
	give_back(fd, own, 5);
	check_alive(fd);
	give_back(fd, v.refs, BLOCKS);
	check_thrown_out(fd, MSG_REASON_PROTOCOL);
	say_bye(other);
}

TEST(session_without_acknowledgement_delays_the_sweep)
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
	ack(fd, n); /* of the old sweep: skipped */
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

TEST(session_without_answer_keeps_all_blocks)
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
	/* No session is left to ask. */
	wait_for(s.sweeps == 1);
	ck_assert_uint_eq(stats().blocks_swept, BLOCKS);
}

/*
 * An operation that began before SWEEP_BEGIN ends before the acknowledgement, and is not
 * recorded: the walk has to see its writes.
 */
TEST(walk_begins_when_all_have_acknowledged)
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

TEST(messages_out_of_turn_are_refused_or_ignored)
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
	/* Blocks that are not granted, or none. */
	for (uint64_t off = 0; off < 4; off++) {
		struct block_ref none = {.off = RAW_INDEX_PAGE(64) * PAGE_BYTES +
						32 * off,
					 .cls = (uint8_t)(off * 30)};

		claim(fd, n, 0, &none, 1);
	}
	check_alive(fd);
	claim(fd, n, a.req, NULL, 0);
	hear_end(fd, n);
	ck_assert_uint_eq(stats().blocks_swept, BLOCKS);
	/* The sweep is over: a late answer is not an error. */
	ack(fd, n);
	claim(fd, n, 1, v.refs, 1);
	check_alive(fd);
	say_bye(fd);
}

TEST(second_answer_to_a_question_is_refused)
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

TEST_SUITE("sweep", real_server_require())
