/* SPDX-License-Identifier: BSD-3-Clause */
/* kvgate's parsers: what they read, cut at every place; numbers and patterns. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate/args.h"
#include "gate/glob.h"
#include "tests/rig/cases.h"
#include "tests/rig/gate_feed.h"

static void same(const struct buf *trace, const char *want, size_t cut)
{
	ck_assert_msg(trace->len == strlen(want) && (!trace->len ||
		      memcmp(trace->p, want, trace->len) == 0),
		      "cut at %zu: read '%.*s', expected '%s'", cut, (int)trace->len, trace->p, want);
}

/* Read `data` whole, cut in two at each place, and byte by byte. */
static void reads(gate_feed *feed, const char *data, size_t len, const char *want)
{
	for (size_t cut = 0; cut <= len; cut++) {
		struct buf trace = {0};

		feed(data, len, cut, len, &trace);
		same(&trace, want, cut);
		trace.len = 0;
		feed(data, len, cut, 1, &trace);
		same(&trace, want, cut);
		buf_free(&trace);
	}
}

static void resp_reads(const char *data, const char *want)
{
	reads(gate_feed_resp, data, strlen(data), want);
}

static void mc_reads(const char *data, const char *want)
{
	reads(gate_feed_mc, data, strlen(data), want);
}

TEST(resp_arrays_cut_anywhere_are_read_whole)
{
	resp_reads("*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n", "<GET> <a>\n<PING>\n");
	resp_reads("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4\r\n\r\n*1\r\n*0\r\n",
		   "<SET> <a> <\r\n*1>\n\n");
	resp_reads("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "<ECHO> <>\n");
	resp_reads("*-10\r\n*1\r\n$1\r\nx\r\n", "\n<x>\n");
	resp_reads("*2\r\n$3\r\nGET\r\n$5\r\nhalf", "");
}

TEST(resp_bytes_of_any_value_are_kept)
{
	static const char data[] = "*2\r\n$3\r\nGET\r\n$3\r\n\0\n\xff\r\n";
	struct buf trace = {0};

	gate_feed_resp(data, sizeof(data) - 1, 9, 2, &trace);
	ck_assert_uint_eq(trace.len, sizeof("<GET> <\0\n\xff>\n") - 1);
	ck_assert_mem_eq(trace.p, "<GET> <\0\n\xff>\n", trace.len);
	buf_free(&trace);
}

TEST(resp_inline_lines_are_split_as_a_shell_does)
{
	resp_reads("set a b\r\nping\n\r\n", "<set> <a> <b>\n<ping>\n\n");
	resp_reads("  set   'a b' \"c\\\"d\\x41\\n\" 'it\\'s'  \r\n",
		   "<set> <a b> <c\"dA\n> <it's>\n");
	resp_reads("set \"\" x\r\n", "<set> <> <x>\n");
	resp_reads("set \"a\r\n", "BAD Protocol error: unbalanced quotes in request\n");
	resp_reads("set \"a\"b\r\n", "BAD Protocol error: unbalanced quotes in request\n");
}

TEST(resp_violations_end_it_with_the_text_of_redis)
{
	resp_reads("*3000000000\r\n", "BAD Protocol error: invalid multibulk length\n");
	resp_reads("*x\r\n", "BAD Protocol error: invalid multibulk length\n");
	resp_reads("*1\r\nfoo\r\n", "BAD Protocol error: expected '$', got 'f'\n");
	resp_reads("*1\r\n$-10\r\n", "BAD Protocol error: invalid bulk length\n");
	resp_reads("*1\r\n$x\r\n", "BAD Protocol error: invalid bulk length\n");
	/* A gigabyte is refused when it is announced. */
	resp_reads("*1\r\n$1073741824\r\n", "BAD Protocol error: invalid bulk length\n");
	/* So is the word with which a request gets too long. */
	resp_reads("*2\r\n$1\r\na\r\n$99999\r\n", "BAD Protocol error: invalid bulk length\n");
}

/* A line without an end is given up. */
TEST(endless_lines_are_refused)
{
	size_t len = 70000;
	char *data = malloc(len);
	struct buf trace = {0};

	memset(data, 'x', len);
	gate_feed_resp(data, len, 1000, 1000, &trace);
	same(&trace, "BAD Protocol error: too big inline request\n", 0);
	trace.len = 0;
	data[0] = '*';
	memset(data + 1, '1', len - 1);
	gate_feed_resp(data, len, 1000, 1000, &trace);
	same(&trace, "BAD Protocol error: too big mbulk count string\n", 0);
	trace.len = 0;
	memcpy(data, "*1\r\n$", 5);
	gate_feed_resp(data, len, 1000, 1000, &trace);
	same(&trace, "BAD Protocol error: too big bulk count string\n", 0);
	trace.len = 0;
	memset(data, 'x', len);
	gate_feed_mc(data, 2049, 1000, 1000, &trace);
	same(&trace, "BAD CLIENT_ERROR line too long\n", 0);
	trace.len = 0;
	/* It is too long whether it comes at once or not. */
	data[2100] = '\n';
	gate_feed_mc(data, 2101, 2101, 1, &trace);
	same(&trace, "BAD CLIENT_ERROR line too long\n", 0);
	trace.len = 0;
	data[2100] = 'x';
	memcpy(data, "get ", 4);
	gate_feed_mc(data, len, 1000, 1000, &trace);
	same(&trace, "", 0);
	buf_free(&trace);
	free(data);
}

TEST(memcached_lines_and_blocks_cut_anywhere_are_read_whole)
{
	mc_reads("get a b\r\n\r\nversion\n", "<get> <a> <b>\n\n<version>\n");
	mc_reads("set a 1 0 5\r\nhello\r\nget a\r\n", "<set> <a> <1> <0> <5>|hello\n<get> <a>\n");
	mc_reads("set a 1 0 4 noreply\r\n\r\n\r\n\r\nmn\r\n",
		 "<set> <a> <1> <0> <4> <noreply>|\r\n\r\n\n<mn>\n");
	mc_reads("set a 0 0 0\r\n\r\nmn\r\n", "<set> <a> <0> <0> <0>|\n<mn>\n");
	mc_reads("ms k 2 T5 c\r\nab\r\nmn\r\n", "<ms> <k> <2> <T5> <c>|ab\n<mn>\n");
	mc_reads("cas k 0 0 1 77\r\nz\r\n", "<cas> <k> <0> <0> <1> <77>|z\n");
}

TEST(memcached_block_of_another_length_is_told)
{
	mc_reads("set a 1 0 3\r\nhello\r\n", "<set> <a> <1> <0> <3> bad|hel\n\n");
}

/* Words that announce no block are followed by a line. */
TEST(memcached_line_without_a_good_length_has_no_block)
{
	mc_reads("cas k 0 0 6 \r\nbarva2\r\n", "<cas> <k> <0> <0> <6>\n<barva2>\n");
	mc_reads("set k 0 0 -1\r\nx\r\n", "<set> <k> <0> <0> <-1>\n<x>\n");
	mc_reads("set k 0 0 99999999999999999999\r\n",
		 "<set> <k> <0> <0> <99999999999999999999>\n");
}

TEST(memcached_block_over_the_limit_is_skipped)
{
	char data[GATE_FEED_VALUE_MAX + 100];
	int n = snprintf(data, sizeof(data), "set a 0 0 %u\r\n", GATE_FEED_VALUE_MAX + 1u);

	memset(data + n, 'x', GATE_FEED_VALUE_MAX + 1);
	strcpy(data + n + GATE_FEED_VALUE_MAX + 1, "\r\nmn\r\n");
	mc_reads(data, "<set> <a> <0> <0> <1001> too large\n<mn>\n");
}

static struct slice text(const char *s)
{
	return (struct slice){s, strlen(s)};
}

TEST(numbers_follow_redis_and_memcached)
{
	static const char *const bad[] = {"",  "-",   "+1", " 1", "1 ", "01", "-0", "1.0",
					  "x", "9223372036854775808", "-9223372036854775809"};
	uint64_t u;
	int64_t n;

	ck_assert(slice_i64(text("-9223372036854775808"), &n) && n == INT64_MIN);
	ck_assert(slice_i64(text("9223372036854775807"), &n) && n == INT64_MAX);
	ck_assert(slice_i64(text("0"), &n) && n == 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ck_assert_msg(!slice_i64(text(bad[i]), &n), "'%s' was taken", bad[i]);
	ck_assert(slice_u64(text("018446744073709551615"), &u) && u == UINT64_MAX);
	ck_assert(!slice_u64(text("18446744073709551616"), &u));
	ck_assert(!slice_u64(text("-1"), &u));
}

TEST(floats_are_read_as_redis_does)
{
	long double f;

	ck_assert(slice_float(text("3.0e3"), &f) && f == 3000);
	ck_assert(!slice_float(text(" 1"), &f));
	ck_assert(!slice_float(text("1 "), &f));
	ck_assert(!slice_float(text("nan"), &f));
	ck_assert(!slice_float(text(""), &f));
	ck_assert(slice_float(text("inf"), &f));
}

TEST(patterns_match_as_redis_does)
{
	static const struct {
		const char *pattern, *text;
		bool match;
	} cases[] = {
		{"*", "", true},	   {"", "", true},	    {"", "a", false},
		{"h?llo", "hello", true},  {"h?llo", "hllo", false}, {"h*o", "hello", true},
		{"h*o", "hell", false},	   {"h[ae]llo", "hallo", true},
		{"h[^e]llo", "hello", false}, {"h[a-b]llo", "hbllo", true},
		{"h[b-a]llo", "hallo", true}, {"h[a-b]llo", "hcllo", false},
		{"a\\*b", "a*b", true},	   {"a\\*b", "axb", false}, {"[\\]]", "]", true},
		{"a*b*c*d", "axxbxxcxxd", true}, {"[a", "a", true}, {"*a*a*a*b", "aaaaaaaac", false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		ck_assert_msg(glob_match(text(cases[i].pattern), text(cases[i].text)) ==
				      cases[i].match,
			      "'%s' and '%s'", cases[i].pattern, cases[i].text);
}

TEST_SUITE("gate_parse")
