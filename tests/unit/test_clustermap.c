/* SPDX-License-Identifier: BSD-3-Clause */
/* The map of a cluster: its text, what is refused and where, how keys spread. */
#include "config.h"

#include "common/proto/clustermap.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"
#include "tests/rig/cases.h"

#define HEAD "farkv cluster 1\nepoch 7\nseed 0123456789abcdef\n"
#define SERVERS "server a shm:///run/a.sock\nserver b kv://host:7670\n"
#define TEXT HEAD SERVERS "partitions 0-1023 a\npartitions 1024-4095 b\n"
#define LEASED HEAD "lease 1000\n" SERVERS "server c /c 6\n"
#define ALL_A "partitions 0-4095 a\n"

static struct clustermap *parsed(const char *text)
{
	struct clustermap *m = NULL;

	ck_assert_msg(clustermap_parse("map", text, strlen(text), &m) == 0, "%s", err_detail());
	return m;
}

TEST(parse_a_map_gives_its_fields_and_the_same_text)
{
	struct clustermap *m = parsed(TEXT);
	char buf[CLUSTERMAP_TEXT_MAX + 1];

	ck_assert_uint_eq(m->epoch, 7);
	ck_assert_uint_eq(m->seed, 0x0123456789abcdef);
	ck_assert_uint_eq(m->n_servers, 2);
	ck_assert_str_eq(m->server[0].name, "a");
	ck_assert_str_eq(m->server[1].address, "kv://host:7670");
	ck_assert_uint_eq(m->owner[1023], 0);
	ck_assert_uint_eq(m->owner[1024], 1);
	ck_assert_uint_eq(m->server[0].partitions, 1024);
	ck_assert_uint_eq(m->server[1].partitions, 3072);
	ck_assert_uint_eq(clustermap_find(m, "b"), 1);
	ck_assert_uint_eq(clustermap_find(m, "c"), 2);
	ck_assert_uint_eq(clustermap_print(m, buf), strlen(TEXT));
	ck_assert_str_eq(buf, TEXT);
	free(m);
}

TEST(id_depends_on_what_a_map_says_not_on_how_it_is_written)
{
	struct clustermap *m = parsed(TEXT);
	struct clustermap *same = parsed("# ours\n\n" HEAD "server\ta  shm:///run/a.sock # first\r\n"
					 "server b kv://host:7670\npartitions 0-511 a\n"
					 "partitions 512-1023 a\npartitions 1024-4095 b");
	struct clustermap *other = parsed(HEAD SERVERS "partitions 0-1024 a\n"
						       "partitions 1025-4095 b\n");

	ck_assert_uint_eq(m->id, same->id);
	ck_assert_uint_ne(m->id, other->id);
	ck_assert_uint_ne(m->id, 0);
	free(m);
	free(same);
	free(other);
}

static const struct {
	const char *text, *says;
} refused[] = {
	{"", "map:0: the map ends before partition 4095"},
	{"farkv cluster 2\n", "map:1: the first line is"},
	{"farkv cluster 1\nepoch 0\n", "map:2: the second line is"},
	{"farkv cluster 1\nepoch 1x\n", "map:2: the second line is"},
	{"farkv cluster 1\nepoch 1\n\nseed 0123456789ABCDEF\n", "map:4: the third line is"},
	{"farkv cluster 1\nepoch 1\nseed 123456789abcdef\n", "map:3: the third line is"},
	{HEAD "partitions 0-4095 a\n", "map:4: after the seed"},
	{HEAD "server a\n", "map:4: a server's line"},
	{HEAD "server a /run/a.sock b\n", "map:4: a server's line"},
	{HEAD "server a@b /run/a.sock\n", "map:4: a server's name"},
	{HEAD "server 0123456789abcdef0123456789abcdef /a\n", "map:4: a server's name"},
	{HEAD "server a run/a.sock\n", "map:4: an address is shm:"},
	{HEAD "server a kv://h\xc3\xb6st\n", "map:4: an address is printable"},
	{HEAD "server a kv://h?key=x\n", "map:4: a map has no keys"},
	{HEAD "server a kv://h?keys=/x\n", "map:4: a map has no keys"},
	{HEAD SERVERS "server a /run/c\n", "map:6: another server has this name"},
	{HEAD SERVERS "server c kv://host:7670\n", "map:6: another server has this address"},
	{HEAD SERVERS "partitions 0-4095 c\n", "map:6: no server of this map"},
	{HEAD SERVERS "partitions 0-4095\n", "map:6: a line of partitions"},
	{HEAD SERVERS "partitions 0 a\n", "map:6: a line of partitions"},
	{HEAD SERVERS "partitions 0- a\n", "map:6: a line of partitions"},
	{HEAD SERVERS "partitions 0-4096 a\n", "map:6: the partitions are"},
	{HEAD SERVERS "partitions 1-4095 a\n", "map:6: the partitions are"},
	{HEAD SERVERS "partitions 0-10 a\npartitions 10-4095 b\n", "map:7: the partitions are"},
	{HEAD SERVERS "partitions 0-10 a\npartitions 12-4095 b\n", "map:7: the partitions are"},
	{HEAD SERVERS "partitions 0-4094 a\n", "map:6: the map ends"},
	{HEAD SERVERS "partitions 0-9 a\nserver c /run/c\n", "map:7: after the servers"},
	{TEXT "partitions 0-4095 a\n", "map:8: the partitions are"},
	{TEXT "epoch 8\n", "map:8: after the partitions"},
	{HEAD "replicas 1\n", "map:4: after the lease"},
	{HEAD "lease 1000\nreplicas 2\n", "map:5: after the lease"},
	{HEAD "lease 1000\nreplicas 1\nlease 1000\n", "map:6: after the seed"},
	{HEAD "lease 1000\n" SERVERS "replicas 1\n", "map:7: after the lease"},
	{HEAD "server a /a 1 dried\n", "map:4: a server's line"},
	{HEAD "server a /a drained\n", "map:4: a server's line"},
	{HEAD "server a /a 1 drained 2\n", "map:4: a server's line"},
	{HEAD SERVERS "follower a b\n", "map:6: with a lease"},
	{HEAD "lease 1000\nfollower a b\n", "map:5: after the seed"},
	{LEASED "follower a\n", "map:8: with a lease"},
	{LEASED "follower a d\n", "map:8: no server"},
	{LEASED "follower a a\n", "map:8: a server cannot"},
	{LEASED "follower a b\nfollower a c\n", "map:9: a server has one"},
	{LEASED "follower a b\nserver d /d\n", "map:9: after the servers"},
	{LEASED "partitions 0-1 a\nfollower a b\n", "map:9: after the servers"},
	{LEASED "move 0-1 a\n", "map:8: after the servers"},
	{LEASED "partitions 0-4094 a\nmove 4095-4095 a\n", "map:9: after the servers"},
	{TEXT "move 0-1 b\n", "map:8: only a map with a lease"},
	{LEASED ALL_A "move 0-1\n", "map:9: a move is"},
	{LEASED ALL_A "move 0 b\n", "map:9: a move is"},
	{LEASED ALL_A "move 0-1 b fence\n", "map:9: a move is"},
	{LEASED ALL_A "move 0-1 b fenced fenced\n", "map:9: a move is"},
	{LEASED ALL_A "move 0-4096 b\n", "map:9: the partitions of moves"},
	{LEASED ALL_A "move 1-0 b\n", "map:9: the partitions of moves"},
	{LEASED ALL_A "move 4-5 b\nmove 5-6 c\n", "map:10: the partitions of moves"},
	{LEASED ALL_A "move 0-1 d\n", "map:9: no server"},
	{LEASED ALL_A "move 0-1 a\n", "map:9: that server has one"},
	{LEASED ALL_A "move 0-1 b\npartitions 0-4095 a\n", "map:10: after the partitions"},
};

TEST_EACH(parse_a_wrong_map_names_the_line, refused)
{
	struct clustermap *m = NULL;
	const char *text = refused[_i].text;

	ck_assert_int_eq(clustermap_parse("map", text, strlen(text), &m), FARKV_EINVAL);
	ck_assert_ptr_null(m);
	ck_assert_msg(strstr(err_detail(), refused[_i].says), "%s", err_detail());
}

TEST(parse_a_map_that_fits_no_message_is_refused)
{
	char text[32768], *at = text;
	struct clustermap *m = NULL;

	at += sprintf(at, "%s", HEAD SERVERS);
	for (int i = 0; i < 1000; i++)
		at += sprintf(at, "partitions %d-%d %c\n", i, i, 'a' + i % 2);
	at += sprintf(at, "partitions 1000-4095 a\n");
	ck_assert_int_eq(clustermap_parse("map", text, (size_t)(at - text), &m), FARKV_EINVAL);
	ck_assert_ptr_nonnull(strstr(err_detail(), "the map is too long"));
}

TEST(make_divides_the_partitions_in_equal_parts)
{
	struct clustermap *m = NULL, *again = NULL;
	char buf[CLUSTERMAP_TEXT_MAX + 1];

	ck_assert_int_eq(clustermap_make("a=/run/a,b=kv://h:1,c=shm:///c", &m), 0);
	ck_assert_uint_eq(m->epoch, 1);
	ck_assert_uint_eq(m->n_servers, 3);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_uint_eq(m->server[i].partitions, i == 0 ? 1366 : 1365);
	clustermap_print(m, buf);
	again = parsed(buf);
	ck_assert_uint_eq(again->id, m->id);
	free(again);
	ck_assert_int_eq(clustermap_make("a=/run/a", &again), 0);
	ck_assert_uint_ne(again->seed, m->seed);
	free(again);
	free(m);
}

TEST(make_of_wrong_servers_names_the_one)
{
	static const char *const servers[] = {"", "a", "a=x", "a=/a,,b=/b", "a=/a,a=/b",
					      "a=/a,b=/a"};
	static const char *const says[] = {"server 1: write NAME", "server 1: write NAME",
					   "server 1: an address is", "server 2: write NAME",
					   "server 2: another", "server 2: another"};
	struct clustermap *m = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(servers); i++) {
		ck_assert_int_eq(clustermap_make(servers[i], &m), FARKV_EINVAL);
		ck_assert_msg(strstr(err_detail(), says[i]), "%s", err_detail());
	}
	ck_assert_ptr_null(m);
}

TEST(make_with_64_servers_of_the_longest_names_and_addresses_says_that_it_is_too_long)
{
	char text[CLUSTERMAP_SERVERS_MAX * 256], *at = text;
	struct clustermap *m = NULL;

	for (int i = 0; i < 64; i++)
		at += sprintf(at, "%s%031d=/%0199d", i ? "," : "", i, i);
	ck_assert_int_eq(clustermap_make(text, &m), FARKV_EINVAL);
	ck_assert_msg(strncmp(err_detail(), "the map is too long", 19) == 0, "%s", err_detail());
	at = text;
	for (int i = 0; i < 64; i++)
		at += sprintf(at, "%s%031d=/%099d", i ? "," : "", i, i);
	ck_assert_msg(clustermap_make(text, &m) == 0, "%s", err_detail());
	free(m);
}

/* The hash is XXH3 with the seed of the map, and its low 12 bits: other programs route the same. */
TEST(owner_is_that_of_the_low_bits_of_xxh3)
{
	struct clustermap *m = parsed(TEXT);
	char key[40];

	for (int i = 0; i < 1000; i++) {
		size_t len = (size_t)sprintf(key, "%0*d", i % 39 + 1, i);
		uint64_t hash = XXH3_64bits_withSeed(key, len, 0x0123456789abcdef);

		ck_assert_uint_eq(clustermap_owner(m, key, len), hash % 4096 >= 1024);
	}
	free(m);
}

TEST(owner_keys_spread_by_the_share_of_partitions)
{
	uint32_t count[3] = {0};
	struct clustermap *m;
	char key[16];

	ck_assert_int_eq(clustermap_make("a=/a,b=/b,c=/c", &m), 0);
	for (int i = 0; i < 30000; i++)
		count[clustermap_owner(m, key, (size_t)sprintf(key, "user%d", i))]++;
	/* Binomial, standard deviation 82. */
	for (int i = 0; i < 3; i++)
		ck_assert_msg(count[i] > 9400 && count[i] < 10600, "%u keys", count[i]);
	free(m);
}

TEST(load_a_file_or_say_why_not)
{
	char path[] = "/tmp/test_clustermap.XXXXXX";
	int fd = mkstemp(path);
	struct clustermap *m = NULL;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, TEXT, strlen(TEXT)), (ssize_t)strlen(TEXT));
	ck_assert_int_eq(clustermap_load(path, &m), 0);
	ck_assert_uint_eq(m->n_servers, 2);
	free(m);
	m = NULL;
	ck_assert_int_eq(ftruncate(fd, 20000), 0);
	ck_assert_int_eq(clustermap_load(path, &m), FARKV_EINVAL);
	ck_assert_ptr_nonnull(strstr(err_detail(), "longer than"));
	close(fd);
	unlink(path);
	ck_assert_int_eq(clustermap_load(path, &m), FARKV_EINVAL);
	ck_assert_ptr_nonnull(strstr(err_detail(), path));
	ck_assert_int_eq(clustermap_load("/tmp", &m), FARKV_EINVAL);
	ck_assert_ptr_null(m);
}

TEST(take_over_divides_the_partitions_of_the_gone_among_the_living)
{
	struct clustermap *m = parsed(LEASED "partitions 0-1023 a\npartitions 1024-3071 b\n"
					     "partitions 3072-4095 c\n");
	char buf[CLUSTERMAP_TEXT_MAX + 1];
	struct clustermap *next, *again;

	ck_assert_uint_eq(m->lease_ms, 1000);
	ck_assert_uint_eq(m->server[2].emptied, 6);
	ck_assert_int_eq(clustermap_take_over(m, 2, 5, &next), 0);
	ck_assert_uint_eq(next->epoch, 8);
	ck_assert_uint_eq(next->server[0].partitions, 2048);
	ck_assert_uint_eq(next->server[1].partitions, 0);
	ck_assert_uint_eq(next->server[1].emptied, 8);
	ck_assert_uint_eq(next->server[0].emptied, 0);
	ck_assert_uint_eq(next->server[2].partitions, 2048);
	ck_assert_uint_eq(next->server[2].emptied, 6);
	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++)
		if (m->owner[i] != 1)
			ck_assert_uint_eq(next->owner[i], m->owner[i]);
	clustermap_print(next, buf);
	again = parsed(buf);
	ck_assert_uint_eq(again->id, next->id);
	ck_assert_uint_ne(again->id, m->id);
	ck_assert_int_eq(clustermap_take_over(m, 7, 0, &next), FARKV_EINVAL);
	free(again);
	free(next);
	free(m);
}

#define FULL                                                                                       \
	HEAD "lease 1000\nreplicas 1\n" SERVERS "server c /c 6 drained\nfollower a c\nfollower b a\n" \
	     "partitions 0-1023 a\npartitions 1024-4095 b\nmove 0-99 b fenced\nmove 100-199 b\n"        \
	     "move 2000-2000 a\n"

TEST(parse_a_map_with_followers_and_moves_gives_its_fields_and_the_same_text)
{
	struct clustermap *m = parsed(FULL);
	char buf[CLUSTERMAP_TEXT_MAX + 1];

	ck_assert_uint_eq(m->replicas, 1);
	ck_assert_uint_eq(m->server[0].follower, 2);
	ck_assert_uint_eq(m->server[1].follower, 0);
	ck_assert_uint_eq(m->server[2].follower, CLUSTERMAP_NONE);
	ck_assert(!m->server[1].drained && m->server[2].drained);
	ck_assert_uint_eq(m->n_moves, 201);
	ck_assert_uint_eq(m->n_fenced, 100);
	ck_assert_uint_eq(m->to[99], 1);
	ck_assert_uint_eq(m->to[2000], 0);
	ck_assert_uint_eq(m->to[2001], CLUSTERMAP_NONE);
	ck_assert(m->fenced[99] && !m->fenced[100]);
	clustermap_print(m, buf);
	ck_assert_str_eq(buf, FULL);
	free(m);
}

TEST(make_with_replicas_says_so)
{
	struct clustermap *m = NULL, *again;
	char buf[CLUSTERMAP_TEXT_MAX + 1];

	ck_assert_int_eq(clustermap_make("a=/a,b=/b", &m), 0);
	clustermap_set_lease(m, 1000);
	clustermap_set_replicas(m, 1);
	clustermap_print(m, buf);
	again = parsed(buf);
	ck_assert_uint_eq(again->id, m->id);
	ck_assert_uint_eq(again->replicas, 1);
	free(again);
	free(m);
}

TEST(a_map_without_a_lease_does_not_change)
{
	struct clustermap *m = parsed(TEXT), *next = NULL;

	ck_assert_int_eq(clustermap_take_over(m, 1, 2, &next), FARKV_EINVAL);
	ck_assert_int_eq(clustermap_add(m, "c", "/c", &next), FARKV_EINVAL);
	ck_assert_int_eq(clustermap_balance(m, 3, &next), FARKV_EINVAL);
	ck_assert_int_eq(clustermap_drain(m, 0, 3, &next), FARKV_EINVAL);
	ck_assert_int_eq(clustermap_fence(m, 0, 1, &next), FARKV_EINVAL);
	ck_assert_int_eq(clustermap_moved(m, 0, 1, &next), FARKV_EINVAL);
	ck_assert_int_eq(clustermap_follow(m, 0, 1, &next), FARKV_EINVAL);
	ck_assert_ptr_null(next);
	free(m);
}

/* a has 0-1023 and is followed by c; b has the rest, is followed by a, and c is drained. */
TEST(take_over_gives_partitions_to_the_follower_and_ends_moves_and_followers)
{
	struct clustermap *m = parsed(FULL), *next = NULL;

	ck_assert_int_eq(clustermap_take_over(m, 1, 6, &next), 0); /* a */
	ck_assert_uint_eq(next->server[2].partitions, 1024);
	ck_assert_uint_eq(next->server[1].partitions, 3072);
	ck_assert_uint_eq(next->n_moves, 0);
	ck_assert_uint_eq(next->server[0].emptied, 8);
	for (int i = 0; i < 3; i++)
		ck_assert_uint_eq(next->server[i].follower, CLUSTERMAP_NONE);
	free(next);
	ck_assert_int_eq(clustermap_take_over(m, 1, 2, &next), 0); /* a, and c is not there */
	ck_assert_uint_eq(next->server[1].partitions, 4096);
	free(next);
	ck_assert_int_eq(clustermap_take_over(m, 4, 3, &next), 0); /* c, which has none */
	ck_assert_uint_eq(next->server[0].follower, CLUSTERMAP_NONE);
	ck_assert_uint_eq(next->server[1].follower, 0);
	ck_assert_uint_eq(next->n_moves, 201);
	ck_assert_uint_eq(next->n_fenced, 100);
	free(next);
	free(m);
}

/* Their followers have no copies of what they got; b, whose follower is d, gets nothing. */
TEST(take_over_ends_the_followers_of_servers_that_get_partitions)
{
	struct clustermap *m = parsed(LEASED "server d /d\nfollower a b\nfollower b d\n"
					     "partitions 0-4094 a\npartitions 4095-4095 c\n");
	struct clustermap *next = NULL;

	ck_assert_int_eq(clustermap_take_over(m, 4, 11, &next), 0);
	ck_assert_uint_eq(next->server[0].partitions, 4096);
	ck_assert_uint_eq(next->server[0].follower, CLUSTERMAP_NONE);
	ck_assert_uint_eq(next->server[1].follower, 3);
	free(next);
	free(m);
}

TEST(take_over_gives_a_drained_server_partitions_only_if_all_are)
{
	struct clustermap *m = parsed(LEASED ALL_A), *dry = NULL, *next = NULL;

	m->server[2].drained = true;
	ck_assert_int_eq(clustermap_take_over(m, 1, 6, &next), 0);
	ck_assert_uint_eq(next->server[1].partitions, 4096);
	free(next);
	ck_assert_int_eq(clustermap_take_over(m, 1, 4, &dry), 0);
	ck_assert_uint_eq(dry->server[2].partitions, 4096);
	free(dry);
	free(m);
}

/* 640 runs leave no room for 64 more lines: then the runs that are there go as they are. */
TEST(take_over_in_a_long_map_cuts_no_runs)
{
	struct clustermap *m = NULL, *next = NULL;
	char text[2048], *at = text;

	for (int i = 0; i < 64; i++)
		at += sprintf(at, "%s%d=/%d", i ? "," : "", i, i);
	ck_assert_int_eq(clustermap_make(text, &m), 0);
	m->lease_ms = 1000;
	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++)
		m->owner[i] = i < 3850 && i % 12 == 0 ? (uint8_t)(i / 12 % 63 + 1) : 0;
	ck_assert_int_eq(clustermap_take_over(m, 1, ~UINT64_C(1), &next), 0);
	ck_assert_uint_eq(next->server[0].partitions, 0);
	for (uint32_t i = 1; i < 64; i++)
		ck_assert_uint_gt(next->server[i].partitions, 0);
	free(next);
	free(m);
}

TEST(add_appends_a_server_or_ends_its_drain)
{
	struct clustermap *m = parsed(FULL), *next = NULL;

	ck_assert_int_eq(clustermap_add(m, "d", "kv://d:1", &next), 0);
	ck_assert_uint_eq(next->epoch, 8);
	ck_assert_uint_eq(next->n_servers, 4);
	ck_assert_str_eq(next->server[3].name, "d");
	ck_assert_uint_eq(next->server[3].partitions, 0);
	ck_assert_uint_eq(next->server[3].follower, CLUSTERMAP_NONE);
	free(next);
	ck_assert_int_eq(clustermap_add(m, "c", "/c", &next), 0);
	ck_assert_uint_eq(next->n_servers, 3);
	ck_assert(!next->server[2].drained);
	ck_assert_uint_eq(next->server[2].emptied, 6);
	free(next);
	next = NULL;
	ck_assert_int_eq(clustermap_add(m, "c", "/d", &next), FARKV_EINVAL);
	ck_assert_int_eq(clustermap_add(m, "d", "/c", &next), FARKV_EINVAL);
	ck_assert_int_eq(clustermap_add(m, "a", "shm:///run/a.sock", &next), FARKV_EINVAL);
	ck_assert_int_eq(clustermap_add(m, "d", "d", &next), FARKV_EINVAL);
	ck_assert_ptr_null(next);
	free(m);
}

/* The new server gets a run of each, and the runs of neighbours touch: 5 lines, not 7. */
TEST(balance_after_add_plans_a_fair_share_in_few_lines)
{
	struct clustermap *m = parsed(LEASED "partitions 0-1365 a\npartitions 1366-2730 b\n"
					     "partitions 2731-4095 c\n");
	struct clustermap *more = NULL, *next = NULL;
	char buf[CLUSTERMAP_TEXT_MAX + 1];

	ck_assert_int_eq(clustermap_add(m, "d", "/d", &more), 0);
	ck_assert_int_eq(clustermap_balance(more, 15, &next), 0);
	ck_assert_uint_eq(next->epoch, 9);
	ck_assert_uint_eq(next->n_moves, 1024);
	ck_assert_uint_eq(next->n_fenced, 0);
	clustermap_print(next, buf);
	ck_assert_ptr_nonnull(strstr(buf, "move 1024-1706 d\nmove 3755-4095 d\n"));
	free(more);
	more = next;
	ck_assert_int_eq(clustermap_balance(more, 15, &next), FARKV_EEXISTS);
	ck_assert_str_eq(err_detail(), "these moves are planned already");
	free(more);
	ck_assert_int_eq(clustermap_balance(m, 7, &next), FARKV_EEXISTS);
	ck_assert_str_eq(err_detail(), "there is nothing to move");
	free(m);
}

TEST(balance_keeps_moves_that_are_still_of_use)
{
	struct clustermap *m = parsed(LEASED "partitions 0-2047 a\npartitions 2048-4095 b\n"
					     "move 100-199 c\nmove 200-299 b\n");
	struct clustermap *next = NULL;

	ck_assert_int_eq(clustermap_balance(m, 7, &next), 0);
	ck_assert_uint_eq(next->n_moves, 1365);
	for (uint32_t i = 100; i < 200; i++)
		ck_assert_uint_eq(next->to[i], 2);
	ck_assert_uint_ne(next->to[200], 1); /* b has enough */
	free(next);
	free(m);
}

TEST(balance_that_is_impossible_says_why)
{
	struct clustermap *m = parsed(LEASED "partitions 0-1365 a\npartitions 1366-4095 b\n"
					     "move 1366-1400 c fenced\n");
	struct clustermap *next = NULL;

	ck_assert_int_eq(clustermap_balance(m, 5, &next), FARKV_EINVAL);
	ck_assert_msg(strncmp(err_detail(), "server b has", 12) == 0, "%s", err_detail());
	ck_assert_int_eq(clustermap_balance(m, 0, &next), FARKV_EINVAL);
	ck_assert_msg(strncmp(err_detail(), "no server", 9) == 0, "%s", err_detail());
	ck_assert_int_eq(clustermap_drain(m, 2, 7, &next), FARKV_EINVAL);
	ck_assert_msg(strncmp(err_detail(), "partitions are about", 20) == 0, "%s", err_detail());
	ck_assert_ptr_null(next);
	free(m);
}

TEST(drain_fence_moved_take_all_from_a_server)
{
	struct clustermap *m = parsed(LEASED "follower b a\nfollower c a\npartitions 0-1365 a\n"
					     "partitions 1366-2730 b\npartitions 2731-4095 c\n");
	struct clustermap *next = NULL;

	ck_assert_int_eq(clustermap_drain(m, 0, 7, &next), 0);
	ck_assert(next->server[0].drained);
	ck_assert_uint_eq(next->n_moves, 1366);
	free(m);
	m = next;
	for (uint32_t to = 1; to < 3; to++) {
		ck_assert_int_eq(clustermap_moved(m, 0, to, &next), FARKV_EINVAL);
		ck_assert_int_eq(clustermap_fence(m, 0, to, &next), 0);
		ck_assert_uint_eq(next->n_fenced, 683);
		free(m);
		m = next;
		ck_assert_int_eq(clustermap_fence(m, 0, to, &next), FARKV_EINVAL);
		ck_assert_int_eq(clustermap_moved(m, 0, to, &next), 0);
		ck_assert_uint_eq(next->server[to].partitions, 2048);
		ck_assert_uint_eq(next->server[to].follower, CLUSTERMAP_NONE);
		ck_assert_uint_eq(next->server[2].follower, to == 1 ? 0 : CLUSTERMAP_NONE);
		free(m);
		m = next;
	}
	ck_assert_uint_eq(m->n_moves, 0);
	ck_assert_int_eq(clustermap_drain(m, 0, 7, &next), FARKV_EEXISTS);
	free(m);
}

TEST(follow_sets_one_line)
{
	struct clustermap *m = parsed(LEASED ALL_A), *next = NULL;

	ck_assert_int_eq(clustermap_follow(m, 0, 2, &next), 0);
	ck_assert_uint_eq(next->server[0].follower, 2);
	free(m);
	m = next;
	ck_assert_int_eq(clustermap_follow(m, 0, 2, &next), FARKV_EINVAL);
	ck_assert_int_eq(clustermap_follow(m, 0, 0, &next), FARKV_EINVAL);
	ck_assert_int_eq(clustermap_follow(m, 0, CLUSTERMAP_NONE, &next), 0);
	ck_assert_uint_eq(next->server[0].follower, CLUSTERMAP_NONE);
	free(next);
	free(m);
}

/* ---- random changes -------------------------------------------------------------------------- */

/* The map is one of those that parse, and its text gives the same. */
static void check_map(const struct clustermap *m)
{
	char buf[CLUSTERMAP_TEXT_MAX + 1], again[CLUSTERMAP_TEXT_MAX + 1];
	struct clustermap *p;

	clustermap_print(m, buf);
	p = parsed(buf); /* refuses a follower of itself, a move to the owner, and unknown servers */
	clustermap_print(p, again);
	ck_assert_str_eq(again, buf);
	ck_assert_uint_eq(p->id, m->id);
	ck_assert_uint_eq(p->epoch, m->epoch);
	ck_assert_mem_eq(p->owner, m->owner, sizeof(m->owner));
	ck_assert_mem_eq(p->to, m->to, sizeof(m->to));
	ck_assert_mem_eq(p->fenced, m->fenced, sizeof(m->fenced));
	ck_assert_mem_eq(p->server, m->server, sizeof(m->server));
	ck_assert_uint_eq(p->n_moves, m->n_moves);
	ck_assert_uint_eq(p->n_fenced, m->n_fenced);
	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++)
		ck_assert(!m->fenced[i] || m->to[i] != CLUSTERMAP_NONE);
	free(p);
}

static uint64_t all_of(const struct clustermap *m)
{
	return m->n_servers == 64 ? UINT64_MAX : (UINT64_C(1) << m->n_servers) - 1;
}

/* After the moves all shares are equal give or take one, and no plan with fewer moves does that. */
static void check_plan(const struct clustermap *before, const struct clustermap *m, uint64_t living)
{
	uint32_t now[64] = {0}, then[64] = {0}, share, n = 0, over = 0, needed = 0, new = 0;

	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++) {
		ck_assert_uint_eq(m->fenced[i], before->fenced[i]);
		now[m->fenced[i] ? m->to[i] : m->owner[i]]++;
		then[m->to[i] == CLUSTERMAP_NONE ? m->owner[i] : m->to[i]]++;
		new += m->to[i] != CLUSTERMAP_NONE && !m->fenced[i];
	}
	for (uint32_t i = 0; i < m->n_servers; i++)
		n += living >> i & 1 && !m->server[i].drained;
	share = CLUSTERMAP_PARTITIONS / n;
	for (uint32_t i = 0; i < m->n_servers; i++) {
		if (!(living >> i & 1) || m->server[i].drained) {
			ck_assert_uint_eq(then[i], 0);
			needed += now[i];
			continue;
		}
		ck_assert(then[i] == share || then[i] == share + 1);
		over += now[i] > share;
		needed += now[i] > share ? now[i] - share : 0;
	}
	/* Each of the shares with one more spares a move, if its server has that many. */
	needed -= over < CLUSTERMAP_PARTITIONS % n ? over : CLUSTERMAP_PARTITIONS % n;
	ck_assert_uint_eq(new, needed);
}

/* One random change; NULL if it was refused. */
static struct clustermap *change(const struct clustermap *m, unsigned which)
{
	uint32_t n = m->n_servers, a = (uint32_t)rand() % n, b = (uint32_t)rand() % n;
	uint64_t all = all_of(m), bit = UINT64_C(1) << a;
	uint32_t at = (uint32_t)rand() % CLUSTERMAP_PARTITIONS;
	struct clustermap *next = NULL;
	char name[8], address[8];
	int err;

	if (which >= 5) /* of a pair that has moves, mostly */
		for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++, at = (at + 1) % CLUSTERMAP_PARTITIONS)
			if (m->to[at] != CLUSTERMAP_NONE && m->fenced[at] == (which == 6)) {
				a = m->owner[at];
				b = m->to[at];
				break;
			}
	switch (which) {
	case 0:
		sprintf(name, "%u", n);
		sprintf(address, "/%u", n);
		err = n < 12 ? clustermap_add(m, name, address, &next) :
			       clustermap_add(m, m->server[a].name, m->server[a].address, &next);
		break;
	case 1:
		all &= rand() % 4 ? all : ~bit;
		err = clustermap_balance(m, all, &next);
		if (!err)
			check_plan(m, next, all);
		break;
	case 2:
		err = clustermap_drain(m, a, all, &next);
		if (!err)
			check_plan(m, next, all);
		break;
	case 3:
		err = clustermap_follow(m, a, (uint8_t)b, &next);
		break;
	case 4:
		err = n > 1 ? clustermap_take_over(m, bit, all & ~bit, &next) : -1;
		break;
	case 5:
		err = clustermap_fence(m, a, b, &next);
		break;
	default:
		err = clustermap_moved(m, a, b, &next);
		break;
	}
	ck_assert(!err == !!next);
	return next;
}

TEST_LOOP(random_changes_keep_a_map_that_is_whole, 0, 20)
{
	struct clustermap *m = NULL;
	unsigned made[7] = {0};

	srand((unsigned)_i + 1);
	ck_assert_int_eq(clustermap_make("0=/0,1=/1,2=/2", &m), 0);
	clustermap_set_lease(m, 1000);
	for (int i = 0; i < 600; i++) {
		static const unsigned often[] = {0, 1, 1, 2, 3, 4, 5, 5, 6, 6, 6, 6};
		unsigned which = often[(size_t)rand() % ARRAY_SIZE(often)];
		struct clustermap *next = change(m, which);

		if (!next)
			continue;
		made[which]++;
		ck_assert_uint_eq(next->epoch, m->epoch + 1);
		check_map(next);
		free(m);
		m = next;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(made); i++)
		ck_assert_msg(made[i] > 0, "change %u was never made", i);
	free(m);
}

/* Fence, then end all moves to a server. */
static struct clustermap *all_moved(struct clustermap *m, uint32_t to)
{
	struct clustermap *next = NULL;

	for (uint32_t from = 0; from < m->n_servers; from++) {
		if (clustermap_fence(m, from, to, &next) == 0) {
			free(m);
			m = next;
		}
	}
	for (uint32_t from = m->n_servers; from-- > 0;) {
		if (clustermap_moved(m, from, to, &next) == 0) {
			free(m);
			m = next;
		}
	}
	ck_assert_uint_eq(m->n_moves, 0);
	return m;
}

/* A plan whose moves could not end for the length of a map on the way is refused at once. */
TEST(servers_that_join_one_by_one_find_room_in_the_text)
{
	struct clustermap *m = NULL, *next = NULL;
	char name[8], address[8];
	uint32_t n;

	ck_assert_int_eq(clustermap_make("0=/0", &m), 0);
	clustermap_set_lease(m, 1000);
	for (n = 1; n < 64; n++) {
		sprintf(name, "%u", n);
		sprintf(address, "/%u", n);
		ck_assert_int_eq(clustermap_add(m, name, address, &next), 0);
		free(m);
		m = next;
		if (clustermap_balance(m, all_of(m), &next))
			break;
		check_plan(m, next, all_of(m));
		free(m);
		m = all_moved(next, n);
	}
	ck_assert_msg(n >= 32 && n < 64, "%u servers", n);
	ck_assert_msg(strncmp(err_detail(), "the moves need a map", 20) == 0, "%s", err_detail());
	free(m);
}

TEST_SUITE("clustermap")
