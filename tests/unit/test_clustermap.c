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
#include "tests/rig/test_main.h"

#define HEAD "farkv cluster 1\nepoch 7\nseed 0123456789abcdef\n"
#define SERVERS "server a shm:///run/a.sock\nserver b kv://host:7670\n"
#define TEXT HEAD SERVERS "partitions 0-1023 a\npartitions 1024-4095 b\n"

static struct clustermap *parsed(const char *text)
{
	struct clustermap *m = NULL;

	ck_assert_msg(clustermap_parse("map", text, strlen(text), &m) == 0, "%s", err_detail());
	return m;
}

START_TEST(parse_a_map_gives_its_fields_and_the_same_text)
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
END_TEST

START_TEST(id_depends_on_what_a_map_says_not_on_how_it_is_written)
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
END_TEST

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
	{TEXT "epoch 8\n", "map:8: after the servers"},
};

START_TEST(parse_a_wrong_map_names_the_line)
{
	struct clustermap *m = NULL;
	const char *text = refused[_i].text;

	ck_assert_int_eq(clustermap_parse("map", text, strlen(text), &m), FARKV_EINVAL);
	ck_assert_ptr_null(m);
	ck_assert_msg(strstr(err_detail(), refused[_i].says), "%s", err_detail());
}
END_TEST

START_TEST(parse_a_map_that_fits_no_message_is_refused)
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
END_TEST

START_TEST(make_divides_the_partitions_in_equal_parts)
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
END_TEST

START_TEST(make_of_wrong_servers_names_the_one)
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
END_TEST

START_TEST(make_with_64_servers_of_the_longest_names_and_addresses_says_that_it_is_too_long)
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
END_TEST

/* The hash is XXH3 with the seed of the map, and its low 12 bits: other programs route the same. */
START_TEST(owner_is_that_of_the_low_bits_of_xxh3)
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
END_TEST

START_TEST(owner_keys_spread_by_the_share_of_partitions)
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
END_TEST

START_TEST(load_a_file_or_say_why_not)
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
END_TEST

#define LEASED HEAD "lease 1000\n" SERVERS "server c /c 6\n"

START_TEST(take_over_divides_the_partitions_of_the_gone_among_the_living)
{
	struct clustermap *m = parsed(LEASED "partitions 0-1023 a\npartitions 1024-3071 b\n"
					     "partitions 3072-4095 c\n");
	char buf[CLUSTERMAP_TEXT_MAX + 1];
	struct clustermap *next, *again;

	ck_assert_uint_eq(m->lease_ms, 1000);
	ck_assert_uint_eq(m->server[2].lost, 6);
	ck_assert_int_eq(clustermap_take_over(m, 2, 5, &next), 0);
	ck_assert_uint_eq(next->epoch, 8);
	ck_assert_uint_eq(next->server[0].partitions, 2048);
	ck_assert_uint_eq(next->server[1].partitions, 0);
	ck_assert_uint_eq(next->server[1].lost, 8);
	ck_assert_uint_eq(next->server[0].lost, 0);
	ck_assert_uint_eq(next->server[2].partitions, 2048);
	ck_assert_uint_eq(next->server[2].lost, 6);
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
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("clustermap");
	TCase *t = tcase_create("clustermap");

	tcase_add_test(t, parse_a_map_gives_its_fields_and_the_same_text);
	tcase_add_test(t, id_depends_on_what_a_map_says_not_on_how_it_is_written);
	tcase_add_loop_test(t, parse_a_wrong_map_names_the_line, 0, (int)ARRAY_SIZE(refused));
	tcase_add_test(t, parse_a_map_that_fits_no_message_is_refused);
	tcase_add_test(t, make_divides_the_partitions_in_equal_parts);
	tcase_add_test(t, make_of_wrong_servers_names_the_one);
	tcase_add_test(
		t, make_with_64_servers_of_the_longest_names_and_addresses_says_that_it_is_too_long);
	tcase_add_test(t, owner_is_that_of_the_low_bits_of_xxh3);
	tcase_add_test(t, owner_keys_spread_by_the_share_of_partitions);
	tcase_add_test(t, load_a_file_or_say_why_not);
	tcase_add_test(t, take_over_divides_the_partitions_of_the_gone_among_the_living);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
