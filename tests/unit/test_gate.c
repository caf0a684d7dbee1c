/* SPDX-License-Identifier: BSD-3-Clause */
/* kvgate's commands on a real store: requests, and the answers byte by byte. */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "gate/mc.h"
#include "gate/mc_cmds.h"
#include "gate/resp.h"
#include "gate/resp_table.h"
#include "gate/store.h"
#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/gate_rig.h"

#define REFUSED_FLAG \
	"CLIENT_ERROR kvgate keeps no access times, stale marks or win tokens, and chooses " \
	"versions itself: flag refused\r\n"

/* A request whose data block has `len` bytes. */
static void mc_value(const char *line, size_t len)
{
	size_t head = strlen(line);
	char *request = malloc(head + len + 3);

	memcpy(request, line, head);
	memset(request + head, 'y', len);
	strcpy(request + head + len, "\r\n");
	mc_ask(request);
	free(request);
}

/* ---- Redis --------------------------------------------------------------------------- */

TEST_GROUP(.setup = gate_rig_setup, .teardown = gate_rig_teardown);

TEST(values_are_set_and_got)
{
	resp("GET a", "$-1");
	resp("SET a 1", "+OK");
	resp("get a", "$1\r\n1");
	resp("SET \"\\x00\\n\" \"\\xff\\r\\n\"", "+OK");
	resp("GET \"\\x00\\n\"", "$3\r\n\xff\r\n");
	resp("SETNX a 2", ":0");
	resp("SETNX b 2", ":1");
	resp("GETSET a 3", "$1\r\n1");
	resp("MSET c 4 d 5", "+OK");
	resp("MGET a x c", "*3\r\n$1\r\n3\r\n$-1\r\n$1\r\n4");
	resp("STRLEN a", ":1");
	resp("GETDEL a", "$1\r\n3");
	resp("GETDEL a", "$-1");
	resp("EXISTS a b b", ":2");
	resp("DEL a b c", ":2");
	resp("TYPE d", "+string");
	resp("TYPE a", "+none");
	resp("MSET a", "-ERR wrong number of arguments for 'mset' command");
	resp("MSET a b c", "-ERR wrong number of arguments for 'mset' command");
}

TEST(set_with_options_follows_redis)
{
	resp("SET a 1 NX", "+OK");
	resp("SET a 2 NX", "$-1");
	resp("SET b 2 XX", "$-1");
	resp("SET a 2 XX GET", "$1\r\n1");
	resp("SET b 1 GET", "$-1");
	resp("SET b 2 NX GET", "$1\r\n1");
	resp("GET b", "$1\r\n1");
	resp("SET a 3 EX 100", "+OK");
	resp("TTL a", ":100");
	resp("SET a 4 KEEPTTL", "+OK");
	resp("TTL a", ":100");
	resp("SET a 5", "+OK");
	resp("TTL a", ":-1");
	resp("TTL none", ":-2");
	resp("SET a 1 NX XX", "-ERR syntax error");
	resp("SET a 1 EX 10 PX 10", "-ERR syntax error");
	resp("SET a 1 EX", "-ERR syntax error");
	resp("SET a 1 EX 10 KEEPTTL", "-ERR syntax error");
	resp("SET a 1 EX 0", "-ERR invalid expire time in 'set' command");
	resp("SET a 1 EX x", "-ERR value is not an integer or out of range");
	resp("SET a 1 EX 9223372036854775807", "-ERR invalid expire time in 'set' command");
	resp("SETEX a 0 x", "-ERR invalid expire time in 'setex' command");
}

TEST(parts_of_values_are_read_and_written)
{
	resp("APPEND a hello", ":5");
	resp("APPEND a \" world\"", ":11");
	resp("GETRANGE a 0 4", "$5\r\nhello");
	resp("GETRANGE a -5 -1", "$5\r\nworld");
	resp("GETRANGE a 5 3", "$0\r\n");
	resp("GETRANGE a -100 100", "$11\r\nhello world");
	resp("GETRANGE none 0 -1", "$0\r\n");
	resp("SETRANGE a 6 WORLD", ":11");
	resp("GET a", "$11\r\nhello WORLD");
	resp("SETRANGE b 3 x", ":4");
	resp("STRLEN b", ":4");
	resp("SETRANGE c 0 \"\"", ":0");
	resp("EXISTS c", ":0");
	resp("SETRANGE a -1 x", "-ERR offset is out of range");
	resp("SETRANGE a 1048576 x",
	     "-ERR string exceeds maximum allowed size (proto-max-bulk-len)");
	resp("SETRANGE a 99999999999 x",
	     "-ERR string exceeds maximum allowed size (proto-max-bulk-len)");
}

TEST(counters_are_signed_and_checked)
{
	resp("INCR n", ":1");
	resp("INCRBY n 41", ":42");
	resp("DECRBY n 50", ":-8");
	resp("DECR n", ":-9");
	resp("GET n", "$2\r\n-9");
	resp("SET n 9223372036854775807", "+OK");
	resp("INCR n", "-ERR increment or decrement would overflow");
	resp("DECRBY n -9223372036854775808", "-ERR decrement would overflow");
	resp("SET n \" 1\"", "+OK");
	resp("INCR n", "-ERR value is not an integer or out of range");
	resp("INCRBYFLOAT f 10.5", "$4\r\n10.5");
	resp("INCRBYFLOAT f -0.5", "$2\r\n10");
	resp("INCRBYFLOAT f x", "-ERR value is not a valid float");
	resp("INCRBYFLOAT f inf", "-ERR increment would produce NaN or Infinity");
	resp("SET f 1e4932", "+OK");
	resp_begins("INCRBYFLOAT f 0", "$4933\r\n1000000000000000000");
	resp_begins("INCRBYFLOAT f 1", "$4933\r\n1000000000000000000");
	/* The time to live stays. */
	resp("SET n 1 EX 100", "+OK");
	resp("INCR n", ":2");
	resp("TTL n", ":100");
}

TEST(times_to_live_are_set_and_removed)
{
	resp("SET a 1", "+OK");
	resp("EXPIRE none 10", ":0");
	resp("EXPIRE a 100", ":1");
	resp("TTL a", ":100");
	resp("EXPIRE a 50 GT", ":0");
	resp("EXPIRE a 50 NX", ":0");
	resp("EXPIRE a 95 LT", ":1");
	resp("TTL a", ":95");
	resp("PERSIST a", ":1");
	resp("PERSIST a", ":0");
	resp("EXPIRE a 50 XX", ":0");
	resp("EXPIRE a 50 GT", ":0");
	resp("PEXPIRE a 100000", ":1");
	resp("GETEX a PERSIST", "$1\r\n1");
	resp("TTL a", ":-1");
	resp("GETEX a EX 70", "$1\r\n1");
	resp("TTL a", ":70");
	resp("EXPIRE a -1", ":1");
	resp("EXISTS a", ":0");
	resp("SET a 1", "+OK");
	resp("EXPIREAT a 1000", ":1");
	resp("EXISTS a", ":0");
	resp("EXPIRE a x", "-ERR value is not an integer or out of range");
	resp("EXPIRE a 9223372036854775807", "-ERR invalid expire time in 'expire' command");
	resp("EXPIRE a 1 AB", "-ERR Unsupported option AB");
	resp("EXPIRE a 1 NX GT",
	     "-ERR NX and XX, GT or LT options at the same time are not compatible");
}

TEST(times_are_told_in_seconds_and_milliseconds_and_as_dates)
{
	long long ms;

	resp("PSETEX a 100000 1", "+OK");
	resp_begins("PTTL a", ":");
	ck_assert_int_eq(sscanf(rig.out.p, ":%lld\r\n", &ms), 1);
	ck_assert(ms > 1000 && ms <= 100020);
	resp("PTTL none", ":-2");
	resp("EXPIREAT a 33000000000", ":1");
	/* Cut to 68 years. */
	resp_begins("EXPIRETIME a", ":39");
	resp("PERSIST a", ":1");
	resp("EXPIRETIME a", ":-1");
	resp("PEXPIREAT a 3000000000999", ":1");
	resp_begins("PEXPIRETIME a", ":300000000");
	resp("PEXPIREAT a 999", ":1");
	resp("EXPIRETIME a", ":-2");
	resp("PERSIST a", ":0");
}

/* Of blocks for values of 1 MiB, of which the store holds less than 64. */
TEST(a_full_store_is_told_in_both_protocols)
{
	static char megabyte[GATE_RIG_MAX_VALUE];
	int err = 0, i = 0;

	for (; !err; i++)
		err = farkv_put(rig.client.kv, &i, sizeof(i), megabyte, sizeof(megabyte));
	ck_assert_int_eq(err, FARKV_ENOSPC);
	resp_begins("SETRANGE a 900000 x", "-OOM command not allowed: ");
	resp("SET a 1", "+OK");
	resp_begins("SETRANGE a 900000 x", "-OOM command not allowed: ");
	resp("GET a", "$1\r\n1");
	mc_value("set b 0 0 900000\r\n", 900000);
	has_text("SERVER_ERROR out of memory storing object\r\n");
	mc_value("ms b 900000\r\n", 900000);
	has_text("SERVER_ERROR out of memory storing object\r\n");
	mc("get b\r\n", "END\r\n");
}

TEST(keys_are_listed_and_removed)
{
	resp("MSET user:1 a user:2 b other c", "+OK");
	resp("DBSIZE", ":3");
	resp("KEYS oth*", "*1\r\n$5\r\nother");
	resp("SCAN 0 MATCH oth* COUNT 1000", "*2\r\n$1\r\n0\r\n*1\r\n$5\r\nother");
	resp("SCAN 0 TYPE list", "*2\r\n$1\r\n0\r\n*0");
	resp("SCAN x", "-ERR invalid cursor");
	resp("SCAN 0 COUNT 0", "-ERR syntax error");
	resp("SCAN 0 COUNT", "-ERR syntax error");
	resp("DEL user:1 user:2", ":2");
	resp("RANDOMKEY", "$5\r\nother");
	resp("FLUSHALL", "+OK");
	resp("DBSIZE", ":0");
	resp("RANDOMKEY", "$-1");
	resp("FLUSHDB later", "-ERR syntax error");
}

TEST(what_is_refused_says_so)
{
	resp_begins("MSETNX a b", "-ERR MSETNX is refused");
	resp_begins("RENAME a b", "-ERR RENAME is refused");
	resp_begins("MULTI", "-ERR MULTI is refused");
	resp_begins("OBJECT FREQ a", "-ERR kvgate has OBJECT ENCODING");
	resp_begins("DEBUG sleep 1", "-ERR DEBUG is not part");
	resp("LPUSH a b", "-ERR unknown command 'LPUSH', with args beginning with: 'a' 'b' ");
	resp("GET", "-ERR wrong number of arguments for 'get' command");
	resp("SELECT 1", "-ERR DB index is out of range");
	resp("SELECT 0", "+OK");
	resp("WAIT 0 0", ":0");
	resp_begins("CONFIG SET maxmemory 1", "-ERR CONFIG SET failed");
	resp_begins("SET \"\" x", "-ERR "); /* an empty key */
}

TEST(versions_of_resp_differ_in_nulls_and_maps)
{
	resp_begins("HELLO 2", "*14\r\n$6\r\nserver\r\n");
	resp_begins("HELLO 3", "%7\r\n$6\r\nserver\r\n");
	resp("GET none", "_");
	resp("CONFIG GET save", "%1\r\n$4\r\nsave\r\n$0\r\n");
	resp("HELLO 4", "-NOPROTO unsupported protocol version");
	resp("RESET", "+RESET");
	resp("GET none", "$-1");
	resp("CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n");
}

static bool no_memory;

void *__real_realloc(void *p, size_t n);
/* Not hidden: gcc's address sanitizer is a shared library, which the linker makes refer to it. */
__attribute__((visibility("default"))) void *__wrap_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n)
{
	return no_memory ? NULL : __real_realloc(p, n);
}

/* `request` fails for want of memory for the old value. The value stays, and so do later commands.
 */
TEST_LOOP(out_of_memory_for_the_old_value_changes_nothing, 0, 4)
{
	static const char *const requests[] = {"GETEX a EX 100", "SET a new GET", "GETDEL a",
					       "APPEND a more"};
	static const char says[] = "-ERR ";
	char line[1100], value[1001], full[1100];

	memset(value, 'v', 1000);
	value[1000] = '\0';
	snprintf(line, sizeof(line), "SET a %s", value);
	snprintf(full, sizeof(full), "$1000\r\n%s", value);
	resp(line, "+OK");
	resp("GET a", full);
	buf_free(&rig.scratch);
	no_memory = true;
	snprintf(line, sizeof(line), "%s\r\n", requests[_i]);
	rig.out.len = 0;
	(void)resp_step(&rig.client, line, strlen(line));
	no_memory = false;
	ck_assert_msg(rig.out.len > 20 && rig.out.len < 300 && !memcmp(rig.out.p, says, strlen(says)) &&
			      memmem(rig.out.p, rig.out.len, "memory", 6),
		      "'%s': answered '%.*s'", requests[_i], (int)rig.out.len, rig.out.p);
	resp("TTL a", ":-1");
	resp("GET a", full);
	resp("SET b 1 GET", "$-1");
	resp("GETEX b PERSIST", "$1\r\n1");
	resp("SCAN 0 MATCH none COUNT 1000", "*2\r\n$1\r\n0\r\n*0");
	ck_assert(!rig.out.failed);
}

TEST(getex_counts_as_a_get)
{
	resp("SET a 1", "+OK");
	resp("GETEX a EX 100", "$1\r\n1");
	resp("GETEX b EX 100", "$-1");
	ck_assert_uint_eq(rig.counts.gets, 2);
	ck_assert_uint_eq(rig.counts.hits, 1);
}

TEST(the_connection_has_a_name)
{
	resp("CLIENT GETNAME", "$-1");
	resp("CLIENT SETNAME me", "+OK");
	resp("CLIENT GETNAME", "$2\r\nme");
	resp_begins("CLIENT SETNAME \"a b\"", "-ERR Client names cannot contain spaces");
	resp("CLIENT SETINFO LIB-NAME x", "+OK");
	resp_begins("CLIENT LIST", "$");
	ck_assert_ptr_nonnull(memmem(rig.out.p, rig.out.len, " name=me ", 9));
	ck_assert_ptr_nonnull(memmem(rig.out.p, rig.out.len, " lib-name=x ", 12));
	resp("CLIENT KILL ID 999", ":0");
	resp("CLIENT KILL 1.2.3.4:5", "-ERR No such client");
	ck_assert(!rig.client.closing);
	resp("CLIENT KILL ID 1 SKIPME NO", ":1");
	ck_assert(rig.client.closing);
}

TEST(the_table_is_sorted_and_described)
{
	const struct resp_command *t, *before = NULL;
	size_t n = 0;
	char want[32];

	for (size_t i = 0; (t = resp_at(i)); i++) {
		ck_assert_msg(!before || strcmp(before->name, t->name) < 0, "%s", t->name);
		ck_assert_ptr_eq(resp_find((struct slice){t->name, strlen(t->name)}), t);
		n += !(t->flags & RESP_REFUSED);
		before = t;
	}
	snprintf(want, sizeof(want), ":%zu", n);
	resp("COMMAND COUNT", want);
	resp_begins("COMMAND DOCS get", "*2\r\n$3\r\nget\r\n*8\r\n$7\r\nsummary\r\n");
	resp_begins("COMMAND INFO get lpush", "*2\r\n*10\r\n$3\r\nget\r\n:2\r\n");
	resp("COMMAND GETKEYS mset a 1 b 2", "*2\r\n$1\r\na\r\n$1\r\nb");
}

TEST(an_answer_over_the_limit_is_an_error)
{
	char request[300] = "MGET", get[300] = "get";

	resp("SETRANGE big 999999 x", ":1000000");
	for (unsigned i = 0; i < 5; i++) {
		strcat(request, " big");
		strcat(get, " big");
	}
	resp(request, "-ERR the answer is longer than the gate's --max-output");
	strcat(get, "\r\n");
	mc(get, "SERVER_ERROR the answer is longer than the gate's --max-output\r\n");
	resp("COMMAND GETKEYS memory usage", "-ERR Invalid number of arguments specified for command");
	resp("CONFIG SET maxclients 11", "-ERR CONFIG SET failed (possibly related to argument "
	     "'maxclients') - argument must be between 1 and the value at the start");
	resp("CONFIG SET maxclients 0", "-ERR CONFIG SET failed (possibly related to argument "
	     "'maxclients') - argument must be between 1 and the value at the start");
	resp("CONFIG SET maxclients 3 timeout 7", "+OK");
	ck_assert_uint_eq(rig.gate.max_clients, 3);
	ck_assert_uint_eq(rig.gate.idle_s, 7);
}

TEST(a_reader_may_not_write)
{
	rig.client.read_only = true;
	resp_begins("SET a 1", "-NOPERM");
	resp_begins("FLUSHALL", "-NOPERM");
	resp_begins("CONFIG GET save", "-NOPERM");
	resp_begins("CLIENT KILL ID 5", "-NOPERM");
	resp("GET a", "$-1");
	mc("set a 0 0 1\r\nx\r\n", "CLIENT_ERROR a key of the role ro may not write\r\n");
	mc("mg a T5\r\n", "CLIENT_ERROR a key of the role ro may not write\r\n");
	mc("mg a v\r\n", "EN\r\n");
}

TEST(before_the_login_nothing_is_executed)
{
	rig.client.authenticated = false;
	resp("GET a", "-NOAUTH Authentication required.");
	resp_begins("HELLO 3", "-NOAUTH HELLO must be called");
	resp("QUIT", "+OK");
	mc("get a\r\n", "CLIENT_ERROR unauthenticated\r\n");
	mc("set a 0 0 1\r\nx\r\n", "CLIENT_ERROR authentication failure\r\n");
}

/* ---- memcached ----------------------------------------------------------------------- */

TEST(memcached_stores_and_retrieves)
{
	mc("get a\r\n", "END\r\n");
	mc("set a 7 0 5\r\nhello\r\n", "STORED\r\n");
	mc("get a b\r\n", "VALUE a 7 5\r\nhello\r\nEND\r\n");
	mc("add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
	mc("replace b 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
	mc("append a 9 0 1\r\n!\r\n", "STORED\r\n");
	mc("prepend a 9 0 1\r\n<\r\n", "STORED\r\n");
	mc("append b 9 0 1\r\n!\r\n", "NOT_STORED\r\n");
	mc("get a\r\n", "VALUE a 7 7\r\n<hello!\r\nEND\r\n");
	mc("set b 4294967295 0 0\r\n\r\nget b\r\n", "STORED\r\nVALUE b 4294967295 0\r\n\r\nEND\r\n");
	mc("set b 4294967296 0 1\r\nx\r\n", "CLIENT_ERROR bad command line format\r\n");
	mc("delete a\r\ndelete a\r\n", "DELETED\r\nNOT_FOUND\r\n");
	mc("set a 0 0 1 noreply\r\nx\r\nget a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
	mc("set a 0 -1 1\r\nx\r\nget a\r\n", "STORED\r\nEND\r\n");
	mc("cas a 0 0 1 5\r\nx\r\n", "NOT_FOUND\r\n");
}

TEST(memcached_cas_unique_is_the_version)
{
	unsigned long long version;
	char text[128];

	mc("set a 0 0 1\r\nx\r\n", "STORED\r\n");
	rig.out.len = 0;
	ck_assert_uint_gt(mc_step(&rig.client, "gets a\r\n", 8), 0);
	ck_assert_int_eq(sscanf(rig.out.p, "VALUE a 0 1 %llu\r\n", &version), 1);
	snprintf(text, sizeof(text), "cas a 0 0 1 %llu\r\ny\r\n", version);
	mc(text, "STORED\r\n");
	mc(text, "EXISTS\r\n");
	mc("get a\r\n", "VALUE a 0 1\r\ny\r\nEND\r\n");
	snprintf(text, sizeof(text), "md a C%llu\r\nmg a v\r\n", version);
	mc(text, "EX\r\nVA 1\r\ny\r\n");
}

TEST(memcached_noreply_silences_errors_of_a_request_that_was_understood)
{
	mc("set a 0 0 1 noreply\r\nx\r\nincr a 1 noreply\r\nget a\r\n",
	   "VALUE a 0 1\r\nx\r\nEND\r\n");
	mc("set a b 0 1 noreply\r\ny\r\nset a 0 0 1 noreply\r\nyyyget a\r\n",
	   "VALUE a 0 1\r\nx\r\nEND\r\n");
	mc("touch a x noreply\r\nincr a x noreply\r\ndelete a 1 noreply\r\nmn\r\n", "MN\r\n");
	mc("flush_all x noreply\r\nverbosity x noreply\r\nmn\r\n", "MN\r\n");
	/* The word noreply as one of the words that a command needs. */
	mc("set noreply 0 0 1\r\n1\r\ndelete noreply\r\ndelete noreply noreply\r\n",
	   "STORED\r\nDELETED\r\n");
	mc("set a 0 noreply\r\nset a 0 0 1 2 3 noreply\r\n", "ERROR\r\nERROR\r\n");
}

TEST(memcached_times_over_68_years_are_cut)
{
	mc("set a 0 4294967295 1\r\nx\r\nmg a t\r\n", "STORED\r\nHD t2147483647\r\n");
	mc("ms a 1\r\nx\r\ntouch a 4294967295\r\nmg a t\r\n",
	   "HD\r\nTOUCHED\r\nHD t2147483647\r\n");
	mc("ms a 1\r\nx\r\ngat 99999999999 a\r\n", "HD\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
	mc("ms a 1\r\nx\r\nmg a T99999999999 t\r\n", "HD\r\nHD t2147483647\r\n");
	mc("ms a 1\r\n5\r\nma a T99999999999 t\r\n", "HD\r\nHD t2147483647\r\n");
}

TEST(memcached_counts)
{
	mc("incr n 1\r\n", "NOT_FOUND\r\n");
	mc("set n 5 0 2\r\n10\r\n", "STORED\r\n");
	mc("incr n 5\r\ndecr n 6\r\n", "15\r\n9\r\n");
	mc("get n\r\n", "VALUE n 5 2\r\n9 \r\nEND\r\n");
	mc("decr n 100\r\n", "0\r\n");
	mc("set n 0 0 20\r\n18446744073709551615\r\nincr n 1\r\n", "STORED\r\n0\r\n");
	mc("set n 0 0 1\r\nx\r\nincr n 1\r\n",
	   "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
	mc("incr n x\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n");
}

TEST(memcached_meta_commands_answer_their_flags)
{
	mc("mn\r\n", "MN\r\n");
	mc("mg a v\r\nmg a v q\r\nmg a k O7 v\r\n", "EN\r\nEN ka O7\r\n");
	mc("ms a 2 F3 T100 k O1\r\nhi\r\n", "HD ka O1\r\n");
	mc("mg a v f t s k O2\r\n", "VA 2 f3 t100 s2 ka O2\r\nhi\r\n");
	mc("mg a\r\n", "HD\r\n");
	mc("ms a 1 q\r\nx\r\nmg a v\r\n", "VA 1\r\nx\r\n");
	mc("ms a 1 ME\r\ny\r\n", "NS\r\n");
	mc("ms a 1 MA\r\ny\r\nms a 1 MP\r\nz\r\nmg a v\r\n", "HD\r\nHD\r\nVA 3\r\nzxy\r\n");
	mc("ms b 1 MR\r\ny\r\n", "NS\r\n");
	mc("ms a 1 MX\r\ny\r\n", "CLIENT_ERROR invalid mode for ms M token\r\n");
	mc("md a q\r\nmg a\r\nmd a\r\n", "EN\r\nNF\r\n");
	mc("ma n\r\nma n N0 J13 v\r\nma n D30 v\r\nma n MD D50 v\r\n",
	   "NF\r\nVA 2\r\n13\r\nVA 2\r\n43\r\nVA 1\r\n0\r\n");
	mc("ms a2V5 1 b\r\nx\r\nmg key v k\r\nmg a2V5 v k b\r\n",
	   "HD b\r\nVA 1 kkey\r\nx\r\nVA 1 ka2V5 b\r\nx\r\n");
	mc("mg a v v\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n");
}

TEST(memcached_meta_flags_are_refused_only_where_they_would_have_an_effect)
{
	mc("ms a 2 F3 T100\r\nhi\r\n", "HD\r\n");
	mc("mg a h\r\nmg a l\r\nmg a N30\r\nmg a R30\r\nmg a E5\r\n",
	   REFUSED_FLAG REFUSED_FLAG REFUSED_FLAG REFUSED_FLAG REFUSED_FLAG);
	mc("ms a 1 I\r\nx\r\nms a 1 E5\r\nx\r\nms a 1 MA N0\r\nx\r\n",
	   REFUSED_FLAG REFUSED_FLAG REFUSED_FLAG);
	mc("md a I\r\nmd a E5\r\nma a E5\r\n", REFUSED_FLAG REFUSED_FLAG REFUSED_FLAG);
	mc("mg a v\r\n", "VA 2\r\nhi\r\n");
	/* What has no effect on a command is ignored, and answered by nothing. */
	mc("mg a I C7 F1 D1 J1 x f u\r\n", "HD f3\r\n");
	mc("ms a 2 F3 T100 h l u v f t s R5\r\nhi\r\n", "HD s2\r\n");
	mc("md a T30 h c s v\r\n", "HD\r\n");
	mc("ma n N0 J5 h l I R1 f s v\r\n", "VA 1\r\n5\r\n");
	mc("mg a Z\r\nmg a y\r\nmg a v v\r\n",
	   "CLIENT_ERROR invalid or duplicate flag\r\n"
	   "CLIENT_ERROR invalid or duplicate flag\r\n"
	   "CLIENT_ERROR invalid or duplicate flag\r\n");
}

TEST(memcached_md_with_x_leaves_an_empty_value)
{
	unsigned long long version;
	char text[80];

	mc("md a x\r\nmd a x q\r\n", "NF\r\n");
	mc("ms a 2 F3 T100\r\nhi\r\nmd a x k\r\nmg a v f t\r\n",
	   "HD\r\nHD ka\r\nVA 0 f0 t100\r\n\r\n");
	rig.out.len = 0;
	ck_assert_uint_gt(mc_step(&rig.client, "mg a c\r\n", 8), 0);
	ck_assert_int_eq(sscanf(rig.out.p, "HD c%llu", &version), 1);
	snprintf(text, sizeof(text), "ms a 1\r\ny\r\nmd a x C%llu\r\nmg a v\r\n", version);
	mc(text, "HD\r\nEX\r\nVA 1\r\ny\r\n");
}

TEST(times_that_are_over_delete_the_value_that_was_read)
{
	mc("set a 3 0 1\r\nx\r\ngat -1 a b\r\nget a\r\n",
	   "STORED\r\nVALUE a 3 1\r\nx\r\nEND\r\nEND\r\n");
	mc("ms a 1 F3\r\nx\r\nmg a T-1 v f\r\nmg a\r\nmg a T-1 v\r\n",
	   "HD\r\nVA 1 f3\r\nx\r\nEN\r\nEN\r\n");
	rig.client.speaks = SPEAKS_RESP;
	resp("SET a 1", "+OK");
	resp("EXPIRE a 0 GT", ":0");
	resp("EXPIRE a -1", ":1");
	resp("EXPIRE a -1", ":0");
	resp("SET a 2", "+OK");
	resp("GETEX a PXAT 1", "$1\r\n2");
	resp("GETEX a PXAT 1", "$-1");
}

/* A removal whose value is replaced by someone else between its get and its delete. */
struct race {
	struct farkv *rival;
	unsigned calls;
	char seen[8];
};

static bool race_decide(struct edit *e, void *arg)
{
	struct race *r = arg;

	ck_assert(e->found && e->old.len == 1);
	r->seen[r->calls] = *(const char *)e->old.data;
	if (!r->calls++)
		ck_assert_int_eq(farkv_put(r->rival, "k", 1, "2", 1), 0);
	e->remove = true;
	return true;
}

TEST(removal_removes_the_value_that_it_has_seen)
{
	struct race r = {.rival = e2e_open(rig.srv.path, 20000)};
	struct edit e;

	rig.client.speaks = SPEAKS_RESP;
	resp("SET k 1", "+OK");
	ck_assert_int_eq(store_edit(&rig.client, (struct slice){"k", 1}, race_decide, &r, &e), 0);
	ck_assert_uint_eq(r.calls, 2);
	ck_assert_str_eq(r.seen, "12");
	resp("GET k", "$-1");
	farkv_close(r.rival);
}

TEST(memcached_errors_are_those_of_memcached)
{
	char line[400];

	mc("nonsense\r\n\r\nget\r\n", "ERROR\r\nERROR\r\nERROR\r\n");
	mc("set a 0 0 1\r\nxyz\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\n");
	snprintf(line, sizeof(line), "get %0251d\r\n", 0);
	mc(line, "CLIENT_ERROR bad command line format\r\n");
	mc("verbosity 1\r\nverbosity x\r\n", "OK\r\nCLIENT_ERROR bad command line format\r\n");
	mc("touch a 5\r\n", "NOT_FOUND\r\n");
	mc("set a 0 0 1\r\nx\r\ntouch a 5\r\ngat 0 a\r\n",
	   "STORED\r\nTOUCHED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
	mc("flush_all\r\nget a\r\n", "OK\r\nEND\r\n");
}

/* A thread remembers one: clients cannot fill its memory with them. */
TEST(memcached_flush_all_with_a_delay_replaces_the_planned_one)
{
	struct event_base *base = event_base_new();
	struct timeval first, last;

	rig.client.flush = event_new(base, -1, 0, mc_flush_late, rig.client.kv);
	mc("set a 0 0 1\r\nx\r\nflush_all 1000\r\n", "STORED\r\nOK\r\n");
	ck_assert(event_pending(rig.client.flush, EV_TIMEOUT, &first));
	mc("flush_all 2000\r\nget a\r\n", "OK\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
	ck_assert(event_pending(rig.client.flush, EV_TIMEOUT, &last));
	ck_assert_int_ge(last.tv_sec, first.tv_sec + 900);
	ck_assert_int_eq(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 1);
	event_active(rig.client.flush, EV_TIMEOUT, 0);
	ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
	mc("get a\r\n", "END\r\n");
	event_free(rig.client.flush);
	event_base_free(base);
}

/* The old value must not stay as if it were the new one. */
TEST(memcached_value_over_the_limit_is_refused_and_the_old_one_goes)
{
	mc("set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\n", "STORED\r\nSTORED\r\n");
	mc_value("set a 0 0 1048577\r\n", GATE_RIG_MAX_VALUE + 1);
	has_text("SERVER_ERROR object too large for cache\r\n");
	mc_value("ms b 1048577\r\n", GATE_RIG_MAX_VALUE + 1);
	has_text("SERVER_ERROR object too large for cache\r\n");
	mc("get a b\r\n", "END\r\n");
	mc("set a 0 0 1\r\nx\r\n", "STORED\r\n");
	mc_value("ms a 1048577 MR\r\n", GATE_RIG_MAX_VALUE + 1);
	has_text("SERVER_ERROR object too large for cache\r\n");
	mc("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
}

TEST(memcached_me_tells_of_a_value)
{
	mc("me a\r\n", "EN\r\n");
	mc("ms a 2 T100\r\nhi\r\n", "HD\r\n");
	mc_ask("me a\r\n");
	has_text("ME a exp=100 cas=");
	has_text(" size=2\r\n");
	mc("ms a 2\r\nhi\r\n", "HD\r\n");
	mc_ask("me YQ== b\r\n");
	has_text("ME YQ== exp=-1 cas=");
	mc("me ? b\r\n", "CLIENT_ERROR error decoding key\r\n");
	mc("mg a O123456789012345678901234567890123\r\n", "CLIENT_ERROR opaque token too long\r\n");
	mc("mg a Tx\r\nms a 1 F4294967296\r\nx\r\n",
	   "CLIENT_ERROR bad token in command line format\r\n"
	   "CLIENT_ERROR bad token in command line format\r\n");
	mc("ms a\r\nms a x\r\n", "CLIENT_ERROR bad command line format\r\n"
				   "CLIENT_ERROR bad command line format\r\n");
	mc("ms a 1\r\nxy\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\n");
	mc("ma a\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
	mc("ma a MX\r\n", "CLIENT_ERROR invalid mode for ma M token\r\n");
	mc("ms n 1\r\n7\r\nma n q\r\nma n q v\r\nma n C1\r\n", "HD\r\nEX\r\n");
	mc("mg n v\r\n", "VA 1\r\n9\r\n");
	mc("ma m N50 T100\r\nmg m t\r\n", "HD\r\nHD t100\r\n");
	mc("ms n 1 C1\r\n7\r\nms none 1 C1\r\n7\r\n", "EX\r\nNF\r\n");
	mc("ms n 1 T-1\r\n7\r\nmg n v\r\n", "HD\r\nEN\r\n");
}

/* The number after `name` in the answer. */
static unsigned long number_after(const char *name)
{
	const char *at;

	rig.out.p[rig.out.len - 1] = '\0'; /* the last line break */
	at = strstr(rig.out.p, name);
	ck_assert_msg(at, "no '%s' in '%s'", name, rig.out.p);
	return strtoul(at + strlen(name), NULL, 10);
}

TEST(a_store_that_refuses_says_so)
{
	resp("CONFIG GET maxmemory-policy", "*2\r\n$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction");
	resp("CONFIG SET maxmemory-policy noeviction", "+OK");
	resp_begins("CONFIG SET maxmemory-policy allkeys-lfu", "-ERR CONFIG SET failed");
	resp_begins("INFO stats", "$");
	ck_assert_uint_eq(number_after("evicted_keys:"), 0);
}

TEST_GROUP(.setup = gate_rig_setup_cache, .teardown = gate_rig_teardown);

TEST(a_store_that_evicts_says_so_and_counts)
{
	static char value[500000];
	char key[16];

	for (int i = 0; i < 400; i++) {
		int n = snprintf(key, sizeof(key), "k%d", i);

		OK(farkv_put(rig.client.kv, key, (size_t)n, value, sizeof(value)));
	}
	resp("CONFIG GET maxmemory-policy",
	     "*2\r\n$16\r\nmaxmemory-policy\r\n$11\r\nallkeys-lfu");
	resp("CONFIG SET maxmemory-policy allkeys-lfu", "+OK");
	resp_begins("INFO stats", "$");
	ck_assert_uint_ge(number_after("evicted_keys:"), 250);
	rig.out.len = 0;
	ck_assert_uint_gt(mc_step(&rig.client, "stats\r\n", 7), 0);
	ck_assert_uint_ge(number_after("STAT evictions "), 250);
}

TEST_SUITE("gate", real_server_require())
