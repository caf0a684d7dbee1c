/* SPDX-License-Identifier: BSD-3-Clause */
/* kvgate's commands for the server and for all keys: INFO, CONFIG, CLIENT, COMMAND, SCAN, stats. */
#include "config.h"

#include <check.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "common/base/atomic.h"
#include "gate/mc_cmds.h"
#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/gate_rig.h"

/* ---- Redis --------------------------------------------------------------------------- */

TEST_GROUP(.setup = gate_rig_setup, .teardown = gate_rig_teardown);

TEST(info_has_the_sections_that_are_asked_for)
{
	resp("SET a 1", "+OK");
	resp("GET a", "$1\r\n1");
	resp("GET none", "$-1");
	resp_begins("INFO", "$");
	has_text("\r\n# Server\r\nredis_version:7.0.0\r\n");
	has_text("\r\n\r\n# Clients\r\nconnected_clients:0\r\nmaxclients:10\r\nblocked_clients:0\r\n");
	has_text("\r\n\r\n# Memory\r\nused_memory:");
	has_text("\r\nmaxmemory_policy:noeviction\r\n");
	has_text("\r\n\r\n# Persistence\r\nloading:0\r\n");
	has_text("\r\nkeyspace_hits:1\r\nkeyspace_misses:1\r\n");
	has_text("\r\n\r\n# Replication\r\nrole:master\r\n");
	has_text("\r\n\r\n# CPU\r\nused_cpu_sys:");
	has_text("\r\n\r\n# Cluster\r\ncluster_enabled:0\r\n");
	resp("INFO cluster", "$30\r\n# Cluster\r\ncluster_enabled:0\r\n");
	resp("INFO cluster REPLICATION",
	     "$80\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n"
	     "# Cluster\r\ncluster_enabled:0\r\n");
	resp("INFO nothing", "$0\r\n");
	resp_begins("INFO everything", "$");
	has_text("# Keyspace\r\n");
	rig.client.resp = 3;
	resp("INFO cluster", "=34\r\ntxt:# Cluster\r\ncluster_enabled:0\r\n");
}

TEST(info_without_a_server_has_the_gate_s_own_part)
{
	farkv_close(rig.client.kv);
	rig.client.kv = e2e_open(rig.srv.path, 100);
	ck_assert_int_eq(real_server_end(&rig.srv, SIGKILL), SIGKILL);
	resp_begins("INFO", "$");
	has_text("\r\nused_memory:0\r\n");
	has_text("\r\nmaxclients:10\r\n");
	resp("CONFIG GET maxmemory", "*2\r\n$9\r\nmaxmemory\r\n$1\r\n0");
	resp_begins("DBSIZE", "-ERR ");
	resp_begins("RANDOMKEY", "-ERR ");
	resp_begins("SCAN 0", "-ERR ");
	resp_begins("KEYS *", "-ERR ");
	resp_begins("FLUSHALL", "-ERR ");
	resp_begins("MEMORY USAGE a", "-ERR ");
	resp_begins("TYPE a", "-ERR ");
	resp_begins("DEL a", "-ERR ");
	rig.out.len = 0;
	for (unsigned i = 0; i < 4; i++) {
		static const char *const requests[] = {"stats\r\n", "stats settings\r\n",
						       "stats slabs\r\n", "flush_all\r\n"};

		ck_assert_uint_gt(mc_ask(requests[i]), 0);
		has_text("SERVER_ERROR ");
		ck_assert_ptr_null(memmem(rig.out.p, rig.out.len, "END", 3));
	}
	real_server_start(&rig.srv, NULL);
}

TEST(parameters_are_found_by_patterns)
{
	resp("CONFIG GET max*clients timeout",
	     "*4\r\n$10\r\nmaxclients\r\n$2\r\n10\r\n$7\r\ntimeout\r\n$1\r\n0");
	resp("CONFIG GET proto-max-bulk-len", "*2\r\n$18\r\nproto-max-bulk-len\r\n$7\r\n2097152");
	resp("CONFIG GET max-output", "*2\r\n$10\r\nmax-output\r\n$7\r\n4194304");
	resp("CONFIG GET io-threads", "*2\r\n$10\r\nio-threads\r\n$1\r\n1");
	resp_begins("CONFIG GET maxmemory", "*2\r\n$9\r\nmaxmemory\r\n$8\r\n");
	resp("CONFIG GET nothing", "*0");
	resp_begins("CONFIG GET *", "*22\r\n");
}

TEST(parameters_are_set_together_or_not_at_all)
{
	resp("CONFIG SET timeout 7 nothing 1",
	     "-ERR CONFIG SET failed (possibly related to argument 'nothing') - no such parameter");
	ck_assert_uint_eq(rig.gate.idle_s, 0);
	resp("CONFIG SET timeout 31536001",
	     "-ERR CONFIG SET failed (possibly related to argument 'timeout') - "
	     "argument must be between 0 and 31536000");
	resp_begins("CONFIG SET timeout x", "-ERR CONFIG SET failed");
	resp("CONFIG SET maxmemory 1",
	     "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - "
	     "can't set immutable config");
	/* What it is already. */
	resp("CONFIG SET save \"\" appendonly no", "+OK");
	resp_begins("CONFIG SET appendonly yes", "-ERR CONFIG SET failed");
	resp("CONFIG RESETSTAT", "-ERR CONFIG RESETSTAT is not part of kvgate");
	resp_begins("CONFIG SET timeout", "-ERR unknown subcommand or wrong number of arguments");
	resp_begins("CONFIG REWRITE", "-ERR unknown subcommand");
}

TEST(the_clock_is_told)
{
	long long seconds, us;

	resp_begins("TIME", "*2\r\n$10\r\n");
	ck_assert_int_eq(sscanf(rig.out.p, "*2\r\n$10\r\n%lld\r\n$%*d\r\n%lld\r\n", &seconds, &us), 2);
	ck_assert(llabs(seconds - (long long)time(NULL)) <= 1 && us >= 0 && us < 1000000);
}

TEST(what_is_wrong_in_a_request_for_the_connection_is_named)
{
	resp("PING a b", "-ERR wrong number of arguments for 'ping' command");
	resp("PING hello", "$5\r\nhello");
	resp("ECHO hello", "$5\r\nhello");
	resp("AUTH a b c", "-ERR syntax error");
	resp_begins("AUTH a", "-ERR AUTH <password> called without any password configured");
	resp("HELLO x", "-ERR Protocol version is not an integer or out of range");
	resp("HELLO 3 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'");
	resp_begins("HELLO 3 SETNAME \"a b\"", "-ERR Client names cannot contain spaces");
	resp_begins("HELLO 3 AUTH a b", "-ERR AUTH <password> called without any");
	ck_assert_uint_eq(rig.client.resp, 2);
	resp_begins("HELLO 3 SETNAME me", "%7\r\n");
	resp("CLIENT GETNAME", "$2\r\nme");
	resp("SELECT x", "-ERR invalid DB index");
	resp("CLIENT ID", ":1");
	resp_begins("CLIENT INFO", "=");
	has_text("id=1 addr= ");
	resp("CLIENT SETINFO LIB-NICK x", "-ERR Unrecognized option 'LIB-NICK'");
	resp_begins("CLIENT SETINFO LIB-VER \"\\n\"", "-ERR Client names cannot contain");
	resp("CLIENT SETINFO lib-ver 1.2", "+OK");
	resp_begins("CLIENT REPLY OFF", "-ERR unknown subcommand or wrong number of arguments for "
					"'REPLY'");
	resp("WAIT x 0", "-ERR value is not an integer or out of range");
	resp("WAIT 0 -1", "-ERR timeout is negative");
}

/* Another connection, whose socket is one end of a pair. */
static int enter_other(struct client *c, const char *addr)
{
	int fds[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	*c = (struct client){.gate = &rig.gate, .command = "get", .user = "default", .fd = fds[0]};
	snprintf(c->addr, sizeof(c->addr), "%s", addr);
	snprintf(c->local, sizeof(c->local), "here:1");
	clients_enter(c);
	return fds[1];
}

static bool is_cut_off(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

TEST(connections_are_closed_that_fit_all_filters)
{
	struct client a, b;
	int at_a = enter_other(&a, "1.1.1.1:1"), at_b = enter_other(&b, "2.2.2.2:2");

	resp_begins("CLIENT LIST", "$");
	has_text(" addr=1.1.1.1:1 laddr=here:1 ");
	has_text(" addr=2.2.2.2:2 laddr=here:1 ");
	resp("CLIENT KILL ID 2 ADDR 2.2.2.2:2", ":0");
	resp("CLIENT KILL USER nobody", ":0");
	resp("CLIENT KILL LADDR here:1 TYPE normal ID 2", ":1");
	ck_assert(is_cut_off(at_a) && !is_cut_off(at_b));
	resp("CLIENT KILL 2.2.2.2:2", "+OK");
	ck_assert(is_cut_off(at_b));
	resp("CLIENT KILL SKIPME yes USER default", ":2");
	ck_assert(!rig.client.closing);
	resp("CLIENT KILL TYPE replica", "-ERR syntax error");
	resp("CLIENT KILL ID x", "-ERR syntax error");
	resp("CLIENT KILL ID", "-ERR No such client"); /* an address */
	resp("CLIENT KILL ID 2 ADDR", "-ERR syntax error");
	resp("CLIENT KILL SKIPME maybe", "-ERR syntax error");
	clients_leave(&a);
	clients_leave(&b);
	close(a.fd);
	close(b.fd);
	close(at_a);
	close(at_b);
}

TEST(commands_are_described)
{
	char text[32];
	int n;

	resp_begins("COMMAND COUNT", ":");
	ck_assert_int_eq(sscanf(rig.out.p, ":%d", &n), 1);
	snprintf(text, sizeof(text), "*%d\r\n", n);
	resp_begins("COMMAND", text);
	resp_begins("COMMAND INFO", text);
	resp_begins("COMMAND LIST", text);
	has_text("$5\r\nsetex\r\n");
	ck_assert_ptr_null(memmem(rig.out.p, rig.out.len, "rename", 6));
	snprintf(text, sizeof(text), "*%d\r\n", 2 * n);
	resp_begins("COMMAND DOCS", text);
	resp("COMMAND INFO ping config", "*2\r\n"
	     "*10\r\n$4\r\nping\r\n:-1\r\n*0\r\n:0\r\n:0\r\n:0\r\n*0\r\n*0\r\n*0\r\n*0\r\n"
	     "*10\r\n$6\r\nconfig\r\n:-2\r\n*1\r\n+admin\r\n:0\r\n:0\r\n:0\r\n*0\r\n*0\r\n*0\r\n*0");
	resp("COMMAND INFO rename", "*1\r\n*-1");
	resp("COMMAND DOCS rename", "*0");
	resp_begins("COMMAND DOCS scan ping mset", "*6\r\n");
	has_text("\r\n$9\r\narguments\r\n*4\r\n"
		 "*6\r\n$4\r\nname\r\n$6\r\ncursor\r\n$4\r\ntype\r\n$6\r\nstring\r\n"
		 "$5\r\nflags\r\n*0\r\n"
		 "*6\r\n$4\r\nname\r\n$13\r\nMATCH pattern\r\n$4\r\ntype\r\n$6\r\nstring\r\n"
		 "$5\r\nflags\r\n*1\r\n+optional\r\n");
	has_text("$9\r\nkey value\r\n$4\r\ntype\r\n$6\r\nstring\r\n"
		 "$5\r\nflags\r\n*2\r\n+optional\r\n+multiple\r\n");
	resp_begins("COMMAND DOCS time", "*2\r\n");
	has_text("$9\r\narguments\r\n*0\r\n");
	rig.client.resp = 3;
	resp("COMMAND INFO rename", "*1\r\n_");
	rig.client.resp = 2;
	resp("COMMAND GETKEYS get a", "*1\r\n$1\r\na");
	resp("COMMAND GETKEYS ping", "-ERR The command has no key arguments");
	resp("COMMAND GETKEYS lpush a", "-ERR Invalid command specified");
	resp("COMMAND GETKEYS", "-ERR Invalid command specified");
	resp("COMMAND GETKEYS get", "-ERR Invalid number of arguments specified for command");
	resp_begins("COMMAND NOTHING", "-ERR unknown subcommand or wrong number of arguments for "
				       "'NOTHING'");
}

TEST(values_are_described)
{
	char line[128];

	resp("MSET number -12 short 123456789012345678901234567890 empty \"\"", "+OK");
	snprintf(line, sizeof(line), "SET long %045d", 7);
	resp(line, "+OK");
	resp("OBJECT ENCODING number", "$3\r\nint");
	resp("OBJECT ENCODING short", "$6\r\nembstr");
	resp("OBJECT ENCODING empty", "$6\r\nembstr");
	resp("OBJECT ENCODING long", "$3\r\nraw");
	resp("OBJECT ENCODING none", "$-1");
	resp("OBJECT REFCOUNT short", ":1");
	resp_begins("OBJECT IDLETIME short", "-ERR kvgate has OBJECT ENCODING and OBJECT REFCOUNT");
	resp("OBJECT ENCODING", "-ERR wrong number of arguments for 'object' command");
	resp("MEMORY USAGE", "-ERR wrong number of arguments for 'memory' command");
	resp("MEMORY USAGE long", ":89");
	resp("MEMORY USAGE long SAMPLES 0", ":89");
	resp("MEMORY USAGE none", "$-1");
	resp("MEMORY USAGE long SAMPLES", "-ERR syntax error");
	resp("MEMORY USAGE long SAMPLES -1", "-ERR syntax error");
	resp("MEMORY USAGE long SAMPLES x", "-ERR value is not an integer or out of range");
	resp("MEMORY DOCTOR", "-ERR unknown subcommand 'DOCTOR'. kvgate has MEMORY USAGE.");
}

#define MANY 20000

/* Clients read a cursor as a signed number of 64 bits. */
TEST(a_scan_of_many_parts_has_cursors_below_2_63_and_each_key_once)
{
	static bool seen[MANY];
	unsigned n = 0, calls = 0;
	uint64_t cursor = 0;

	memset(seen, 0, sizeof(seen));
	for (int i = 0; i < MANY; i++)
		OK(farkv_put(rig.client.kv, &i, sizeof(i), "x", 1));
	do {
		char line[64];
		const char *at;
		int i, found;

		snprintf(line, sizeof(line), "SCAN %" PRIu64 " COUNT 100", cursor);
		resp_begins(line, "*2\r\n$");
		ck_assert_int_eq(sscanf(rig.out.p, "*2\r\n$%*d\r\n%" SCNu64 "\r\n*%d\r\n", &cursor,
					&found), 2);
		ck_assert_uint_le(cursor, INT64_MAX);
		at = rig.out.p + rig.out.len - (size_t)found * 10; /* "$4\r\n", 4 bytes, "\r\n" */
		for (; found; found--, at += 10) {
			memcpy(&i, at + 4, sizeof(i));
			ck_assert(i >= 0 && i < MANY && !seen[i]);
			seen[i] = true;
			n++;
		}
		calls++;
	} while (cursor);
	ck_assert_uint_eq(n, MANY);
	ck_assert_uint_gt(calls, 100);
	resp("SCAN 9223372036854775808", "-ERR invalid cursor");
	resp_begins("SCAN 9223372036854775807", "*2\r\n$1\r\n0\r\n");
	resp("DBSIZE", ":20000");
	resp_begins("RANDOMKEY", "$4\r\n");
}

/* ---- memcached ----------------------------------------------------------------------- */

TEST(stats_are_those_of_gate_and_store)
{
	mc("set a 0 0 1\r\nx\r\nget a b\r\ntouch a 1\r\n",
	   "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nTOUCHED\r\n");
	mc_ask("stats\r\n");
	has_text("STAT version 1.6.18\r\n");
	has_text("STAT pointer_size 64\r\nSTAT rusage_user ");
	has_text("STAT max_connections 10\r\nSTAT curr_connections 0\r\n");
	has_text("STAT cmd_get 2\r\n");
	has_text("STAT get_hits 1\r\nSTAT get_misses 1\r\n");
	has_text("STAT cmd_touch 1\r\n");
	has_text("STAT limit_maxbytes ");
	has_text("STAT evictions 0\r\n");
	has_text("\r\nEND\r\n");
	mc_ask("stats settings\r\n");
	has_text("STAT maxconns 10\r\nSTAT num_threads 1\r\nSTAT item_size_max 1048576\r\n");
	has_text("STAT auth_enabled_ascii no\r\nSTAT idle_timeout 0\r\nEND\r\n");
	mc_ask("stats slabs\r\n");
	has_text("STAT active_slabs 0\r\nSTAT total_malloced ");
	has_text("\r\nEND\r\n");
	mc("stats items\r\nstats sizes\r\nstats conns\r\n", "END\r\nEND\r\nEND\r\n");
	mc("stats nothing\r\n",
	   "CLIENT_ERROR kvgate has stats, stats settings, items and slabs\r\n");
	mc("stats reset\r\n", "CLIENT_ERROR kvgate has stats, stats settings, items and slabs\r\n");
}

TEST(flush_all_with_a_delay_removes_what_is_there_then)
{
	struct event_base *base = event_base_new();

	ck_assert_ptr_nonnull(base);
	rig.client.flush = event_new(base, -1, 0, mc_flush_late, rig.client.kv);
	mc("set a 0 0 1\r\nx\r\nflush_all 1\r\nget a\r\nset b 0 0 1\r\ny\r\n",
	   "STORED\r\nOK\r\nVALUE a 0 1\r\nx\r\nEND\r\nSTORED\r\n");
	event_base_dispatch(base); /* until it has run */
	mc("get a b\r\n", "END\r\n");
	mc("flush_all x\r\n", "CLIENT_ERROR bad command line format\r\n");
	mc("set a 0 0 1\r\nx\r\nflush_all noreply\r\nget a\r\n", "STORED\r\nEND\r\n");
	mc("set a 0 0 1\r\nx\r\nflush_all 0\r\nget a\r\n", "STORED\r\nOK\r\nEND\r\n");
	mc("flush_all 0 noreply\r\nflush_all 1 2 3\r\n", "ERROR\r\n");
	event_free(rig.client.flush);
	event_base_free(base);
}

TEST(the_other_commands_of_the_connection)
{
	mc("version\r\n", "VERSION 1.6.18\r\n");
	mc("verbosity\r\nverbosity noreply\r\nverbosity 1 noreply\r\n", "ERROR\r\n");
	mc("verbosity 1\r\n", "OK\r\n");
	mc("quit\r\n", "");
	ck_assert(rig.client.closing);
}

TEST_SUITE("gate_server", real_server_require())
