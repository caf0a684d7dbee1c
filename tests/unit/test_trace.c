/* SPDX-License-Identifier: BSD-3-Clause */
/* kvbench's traces: what both formats mean, and that every bad line is refused by its number. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <farkv.h>

#include "bench/gen/trace.h"
#include "common/base/err.h"
#include "tests/rig/cases.h"

static struct trace t;
static char path[64];

static int load(const char *text, size_t len)
{
	int fd, err;

	snprintf(path, sizeof(path), "/tmp/farkv-trace.XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, len), (ssize_t)len);
	close(fd);
	err = trace_load(path, &t);
	unlink(path);
	return err;
}

static void loads(const char *text)
{
	ck_assert_msg(load(text, strlen(text)) == 0, "%s", err_detail());
}

static void has_key(uint32_t key, const char *text)
{
	ck_assert_uint_eq(t.keys[key].len, strlen(text));
	ck_assert_mem_eq(trace_key_at(&t, key), text, strlen(text));
}

static void has_request(size_t i, struct trace_request want)
{
	const struct trace_request *q = &t.requests[i];

	ck_assert_uint_lt(i, t.n);
	ck_assert_uint_eq(q->time_us, want.time_us);
	ck_assert_uint_eq(q->key, want.key);
	ck_assert_uint_eq(q->size, want.size);
	ck_assert_uint_eq(q->ttl_s, want.ttl_s);
	ck_assert_uint_eq(q->op, want.op);
}

TEST(csv_line_with_any_fields_is_read)
{
	loads("Time,key,size,op,ttl\n"
	      "0,a,100\n"
	      "# comment\n"
	      " 1.5 ,\thttp://x/?y=1, 4294967295 , SET \r\n"
	      "1.5000009,a,0,,60\n"
	      "1099511627776,b,7,delete,\n"
	      "2.25,http://x/?y=1,5,get,0");
	ck_assert_uint_eq(t.n, 5);
	ck_assert(!t.has_blocks);
	has_request(0, (struct trace_request){0, 0, 100, 0, TRACE_GET});
	has_request(1, (struct trace_request){1500000, 1, UINT32_MAX, 0,
					      TRACE_SET});
	has_request(2, (struct trace_request){1500000, 0, 0, 60, TRACE_GET});
	has_request(3, (struct trace_request){UINT64_C(1099511627776000000), 2,
					      7, 0, TRACE_DELETE});
	has_request(4, (struct trace_request){2250000, 1, 5, 0, TRACE_GET});
	ck_assert_uint_eq(t.n_keys, 3);
	has_key(0, "a");
	has_key(1, "http://x/?y=1");
	has_key(2, "b");
	ck_assert_uint_eq(t.key_len_max, 13);
	ck_assert_uint_eq(t.size_max, UINT32_MAX);
	ck_assert_uint_eq(t.ttl_line, 5);
	trace_free(&t);
}

TEST(json_line_gives_the_blocks_in_order)
{
	loads("{\"timestamp\": 27482.5, \"input_length\": 6955, "
	      "\"output_length\": 52, \"hash_ids\": [46, 47,48]}\n"
	      "  { \"hash_ids\":[46,12345678901234567890123], "
	      "\"type\":\"te}\\\"xt\", \"more\": true, \"timestamp\":3 } \n"
	      "{\"timestamp\":4,\"hash_ids\":[ ]}\n");
	ck_assert(t.has_blocks);
	ck_assert_uint_eq(t.n, 3);
	has_request(0, (struct trace_request){27482500, 0, 3, 0, TRACE_GET});
	has_request(1, (struct trace_request){3000, 3, 2, 0, TRACE_GET});
	has_request(2, (struct trace_request){4000, 5, 0, 0, TRACE_GET});
	ck_assert_uint_eq(t.n_blocks, 5);
	ck_assert_uint_eq(t.n_keys, 4);
	has_key(t.blocks[0], "46");
	has_key(t.blocks[2], "48");
	ck_assert_uint_eq(t.blocks[3], t.blocks[0]);
	has_key(t.blocks[4], "12345678901234567890123");
	ck_assert_uint_eq(t.size_max, 3);
	trace_free(&t);
}

TEST(trace_of_many_keys_has_each_once)
{
	size_t room = 64 * 30000, len = 0;
	char *text = malloc(room), key[32];

	ck_assert_ptr_nonnull(text);
	for (unsigned i = 0; i < 30000; i++)
		len += (size_t)snprintf(text + len, room - len, "%u,key%u,%u\n",
					i, i % 10000, i);
	ck_assert_int_eq(load(text, len), 0);
	ck_assert_uint_eq(t.n, 30000);
	ck_assert_uint_eq(t.n_keys, 10000);
	for (unsigned i = 0; i < 30000; i++) {
		snprintf(key, sizeof(key), "key%u", i % 10000);
		has_key(t.requests[i].key, key);
		ck_assert_uint_eq(t.requests[i].size, i);
	}
	trace_free(&t);
	free(text);
}

#define KEY_50 "12345678901234567890123456789012345678901234567890"
#define KEY_250 KEY_50 KEY_50 KEY_50 KEY_50 KEY_50
#define GOOD "1,a,1\n"
#define PROMPT "{\"timestamp\":1,\"hash_ids\":[1]}\n"

static const struct {
	const char *text, *what;
	unsigned line; /* 0: the file as a whole */
} bad[] = {
	{"", "no request", 0},
	{"time,key,size\n", "no request", 0},
	{"{\"timestamp\":1,\"hash_ids\":[]}\n", "no block", 0},
	{GOOD "1,a\n", "expected time,key,size", 2},
	{GOOD "1,a,1,get,5,6\n", "expected time,key,size", 2},
	{GOOD "time,key,size\n", "first field is the time", 2},
	{"-1,a,1\n", "first field is the time", 1},
	{"1e3,a,1\n", "first field is the time", 1},
	{"1.5s,a,1\n", "first field is the time", 1},
	{"1099511627777,a,1\n", "first field is the time", 1},
	{",a,1\n", "first field is the time", 1},
	{"1,,1\n", "second field is the key", 1},
	{"1,a b,1\n", "second field is the key", 1},
	{"1,a\177,1\n", "second field is the key", 1},
	{"1," KEY_250 "1,1\n", "second field is the key", 1},
	{"1,a,\n", "third field is the size", 1},
	{"1,a,-1\n", "third field is the size", 1},
	{"1,a,4294967296\n", "third field is the size", 1},
	{"1,a,1.5\n", "third field is the size", 1},
	{GOOD GOOD "1,a,1,put\n", "get, set or delete", 3},
	{"1,a,1,get,1h\n", "fifth field is the ttl", 1},
	{GOOD "\n" GOOD, "the line is empty", 2},
	{GOOD PROMPT, "expected time,key,size", 2},
	{PROMPT GOOD, "expected an object", 2},
	{PROMPT "{}\n", "expected \"name\": value", 2},
	{PROMPT "{\"timestamp\":1}\n", "hash_ids is missing", 2},
	{PROMPT "{\"hash_ids\":[1]}\n", "timestamp is missing", 2},
	{"{\"timestamp\":\"1\",\"hash_ids\":[1]}\n", "milliseconds", 1},
	{"{\"timestamp\":1,\"hash_ids\":1}\n", "array of whole numbers", 1},
	{"{\"timestamp\":1,\"hash_ids\":[1,]}\n", "array of whole numbers", 1},
	{"{\"timestamp\":1,\"hash_ids\":[1 2]}\n", "array of whole numbers", 1},
	{"{\"timestamp\":1,\"hash_ids\":[1.5]}\n", "array of whole numbers", 1},
	{"{\"timestamp\":1,\"hash_ids\":[1\n", "array of whole numbers", 1},
	{"{\"timestamp\":1,\"hash_ids\":[1],\"hash_ids\":[2]}\n", "twice", 1},
	{"{\"timestamp\":1,\"x\":{},\"hash_ids\":[1]}\n", "neither a number", 1},
	{"{\"timestamp\":1 \"hash_ids\":[1]}\n", "expected a comma", 1},
	{"{\"timestamp\":1,\"hash_ids\":[1]} x\n", "end of the line", 1},
	{"{\"timestamp\n", "expected \"name\": value", 1},
	{"{\"timestamp\":1,\"hash_ids\":[1],\n", "expected \"name\": value", 1},
};

TEST_EACH(bad_line_is_refused_by_its_number, bad)
{
	char where[128];
	int err;

	err = load(bad[_i].text, strlen(bad[_i].text));
	ck_assert_int_eq(err, FARKV_EINVAL);
	if (bad[_i].line)
		snprintf(where, sizeof(where), "%s:%u: ", path, bad[_i].line);
	else
		snprintf(where, sizeof(where), "%s: ", path);
	ck_assert_msg(!strncmp(err_detail(), where, strlen(where)) &&
			      strstr(err_detail(), bad[_i].what),
		      "%s", err_detail());
	ck_assert_ptr_null(t.requests);
	ck_assert_ptr_null(t.keys);
}

TEST(byte_0_in_a_line_is_refused)
{
	static const char text[] = "1,a,1\n1,b\0,1\n";

	ck_assert_int_eq(load(text, sizeof(text) - 1), FARKV_EINVAL);
	ck_assert_ptr_nonnull(strstr(err_detail(), ":2: a byte 0"));
}

TEST(file_that_is_missing_or_a_folder_is_named)
{
	ck_assert_int_eq(trace_load("/nowhere/trace.csv", &t), FARKV_ESYS);
	ck_assert_ptr_nonnull(strstr(err_detail(), "/nowhere/trace.csv"));
	ck_assert_int_eq(trace_load("/", &t), FARKV_ESYS);
}

TEST_SUITE("trace")
