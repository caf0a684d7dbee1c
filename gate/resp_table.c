/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "resp_table.h"

#include <string.h>
#include <strings.h>

#include "common/base/util.h"

#define W RESP_WRITE
#define KEY 1, 1, 1
#define KEYS 1, -1, 1
#define NO_KEY 0, 0, 0
#define REFUSED(name, group, why) \
	{name, NULL, -1, RESP_REFUSED, NO_KEY, group, "1.0.0", "ERR " why, ""}

/* Sorted by name. */
static const struct resp_command table[] = {
	{"append", resp_append, 3, W, KEY, "string", "2.0.0", "Append to a value", "key value"},
	{"auth", resp_auth, -2, RESP_NO_AUTH, NO_KEY, "connection", "1.0.0", "Log in",
	 "[username] password"},
	{"client", resp_client, -2, 0, NO_KEY, "connection", "2.4.0",
	 "Name, list and close connections",
	 "ID|INFO|LIST|KILL|GETNAME|SETNAME|SETINFO [argument...]"},
	{"command", resp_command, -1, 0, NO_KEY, "server", "2.8.13", "Describe the commands",
	 "[COUNT|DOCS|INFO|LIST|GETKEYS] [command...]"},
	{"config", resp_config, -2, RESP_ADMIN, NO_KEY, "server", "2.0.0",
	 "Read and set parameters", "GET|SET parameter [value]"},
	{"dbsize", resp_dbsize, 1, 0, NO_KEY, "server", "1.0.0", "Count the keys", ""},
	REFUSED("debug", "server", "DEBUG is not part of kvgate"),
	{"decr", resp_decr, 2, W, KEY, "string", "1.0.0", "Subtract one from a number", "key"},
	{"decrby", resp_decrby, 3, W, KEY, "string", "1.0.0", "Subtract from a number",
	 "key decrement"},
	{"del", resp_del, -2, W, KEYS, "generic", "1.0.0", "Delete keys", "key..."},
	REFUSED("discard", "transactions", "kvgate has no transactions: see MULTI"),
	{"echo", resp_echo, 2, 0, NO_KEY, "connection", "1.0.0", "Return the message", "message"},
	REFUSED("exec", "transactions", "kvgate has no transactions: see MULTI"),
	{"exists", resp_exists, -2, 0, KEYS, "generic", "1.0.0", "Count the keys that exist",
	 "key..."},
	{"expire", resp_expire, -3, W, KEY, "generic", "1.0.0", "Set the time to live, in seconds",
	 "key seconds [NX|XX|GT|LT]"},
	{"expireat", resp_expireat, -3, W, KEY, "generic", "1.2.0",
	 "Set the end of life, in Unix seconds", "key unix-time-seconds [NX|XX|GT|LT]"},
	{"expiretime", resp_expiretime, 2, 0, KEY, "generic", "7.0.0",
	 "Get the end of life, in Unix seconds", "key"},
	{"flushall", resp_flush, -1, W, NO_KEY, "server", "1.0.0", "Delete all keys",
	 "[ASYNC|SYNC]"},
	{"flushdb", resp_flush, -1, W, NO_KEY, "server", "1.0.0", "Delete all keys",
	 "[ASYNC|SYNC]"},
	{"get", resp_get, 2, 0, KEY, "string", "1.0.0", "Get a value", "key"},
	{"getdel", resp_getdel, 2, W, KEY, "string", "6.2.0", "Get a value and delete the key",
	 "key"},
	{"getex", resp_getex, -2, W, KEY, "string", "6.2.0",
	 "Get a value and set its time to live",
	 "key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|"
	 "PERSIST]"},
	{"getrange", resp_getrange, 4, 0, KEY, "string", "2.4.0", "Get a part of a value",
	 "key start end"},
	{"getset", resp_getset, 3, W, KEY, "string", "1.0.0", "Set a value and get the old one",
	 "key value"},
	{"hello", resp_hello, -1, RESP_NO_AUTH, NO_KEY, "connection", "6.0.0",
	 "Choose the version of the protocol",
	 "[protover] [AUTH username password] [SETNAME clientname]"},
	{"incr", resp_incr, 2, W, KEY, "string", "1.0.0", "Add one to a number", "key"},
	{"incrby", resp_incrby, 3, W, KEY, "string", "1.0.0", "Add to a number", "key increment"},
	{"incrbyfloat", resp_incrbyfloat, 3, W, KEY, "string", "2.6.0",
	 "Add to a floating point number", "key increment"},
	{"info", resp_info, -1, 0, NO_KEY, "server", "1.0.0", "Describe gate and store",
	 "[section...]"},
	{"keys", resp_keys, 2, 0, NO_KEY, "generic", "1.0.0", "List the keys that match",
	 "pattern"},
	{"memory", resp_memory, -2, 0, 2, 2, 1, "server", "4.0.0",
	 "Estimate the memory of a key", "USAGE key [SAMPLES count]"},
	{"mget", resp_mget, -2, 0, KEYS, "string", "1.0.0", "Get values", "key..."},
	{"mset", resp_mset, -3, W, 1, -1, 2, "string", "1.0.1", "Set values, one by one",
	 "key value [key value...]"},
	REFUSED("msetnx", "string",
		"MSETNX is refused: kvgate cannot set several keys in one step"),
	REFUSED("multi", "transactions",
		"MULTI is refused: kvgate has no transactions; use a pipeline without one"),
	{"object", resp_object, -2, 0, 2, 2, 1, "generic", "2.2.3", "Describe a value",
	 "ENCODING|REFCOUNT key"},
	{"persist", resp_persist, 2, W, KEY, "generic", "2.2.0", "Remove the time to live", "key"},
	{"pexpire", resp_pexpire, -3, W, KEY, "generic", "2.6.0",
	 "Set the time to live, in milliseconds", "key milliseconds [NX|XX|GT|LT]"},
	{"pexpireat", resp_pexpireat, -3, W, KEY, "generic", "2.6.0",
	 "Set the end of life, in Unix milliseconds", "key unix-time-milliseconds [NX|XX|GT|LT]"},
	{"pexpiretime", resp_pexpiretime, 2, 0, KEY, "generic", "7.0.0",
	 "Get the end of life, in Unix milliseconds", "key"},
	{"ping", resp_ping, -1, 0, NO_KEY, "connection", "1.0.0", "Answer PONG", "[message]"},
	{"psetex", resp_psetex, 4, W, KEY, "string", "2.6.0",
	 "Set a value with a time to live, in milliseconds", "key milliseconds value"},
	{"pttl", resp_pttl, 2, 0, KEY, "generic", "2.6.0", "Get the time to live, in milliseconds",
	 "key"},
	{"quit", resp_quit, -1, RESP_NO_AUTH, NO_KEY, "connection", "1.0.0",
	 "Close the connection", ""},
	{"randomkey", resp_randomkey, 1, 0, NO_KEY, "generic", "1.0.0", "Get any key", ""},
	REFUSED("rename", "generic",
		"RENAME is refused: kvgate cannot change two keys in one step"),
	REFUSED("renamenx", "generic",
		"RENAMENX is refused: kvgate cannot change two keys in one step"),
	{"reset", resp_reset, 1, RESP_NO_AUTH, NO_KEY, "connection", "6.2.0",
	 "Reset the connection", ""},
	{"scan", resp_scan, -2, 0, NO_KEY, "generic", "2.8.0", "List keys, some at a time",
	 "cursor [MATCH pattern] [COUNT count] [TYPE type]"},
	{"select", resp_select, 2, 0, NO_KEY, "connection", "1.0.0", "Choose database 0", "index"},
	{"set", resp_set, -3, W, KEY, "string", "1.0.0", "Set a value",
	 "key value [NX|XX] [GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds|"
	 "PXAT unix-time-milliseconds|KEEPTTL]"},
	{"setex", resp_setex, 4, W, KEY, "string", "2.0.0",
	 "Set a value with a time to live, in seconds", "key seconds value"},
	{"setnx", resp_setnx, 3, W, KEY, "string", "1.0.0", "Set a value unless there is one",
	 "key value"},
	{"setrange", resp_setrange, 4, W, KEY, "string", "2.2.0", "Overwrite a part of a value",
	 "key offset value"},
	{"strlen", resp_strlen, 2, 0, KEY, "string", "2.2.0", "Get the length of a value", "key"},
	{"substr", resp_getrange, 4, 0, KEY, "string", "1.0.0", "Get a part of a value",
	 "key start end"},
	{"time", resp_time, 1, 0, NO_KEY, "server", "2.6.0", "Get the gate's clock", ""},
	{"touch", resp_exists, -2, 0, KEYS, "generic", "3.2.1", "Count the keys that exist",
	 "key..."},
	{"ttl", resp_ttl, 2, 0, KEY, "generic", "1.0.0", "Get the time to live, in seconds", "key"},
	{"type", resp_type, 2, 0, KEY, "generic", "1.0.0", "Say whether the key exists", "key"},
	{"unlink", resp_del, -2, W, KEYS, "generic", "4.0.0", "Delete keys", "key..."},
	{"wait", resp_wait, 3, 0, NO_KEY, "generic", "3.0.0", "Wait for a follower",
	 "numreplicas timeout"},
};

const struct resp_command *resp_find(struct slice name)
{
	size_t low = 0, high = ARRAY_SIZE(table);

	while (low < high) {
		size_t mid = (low + high) / 2;
		const char *at = table[mid].name;
		size_t len = strlen(at);
		int order = strncasecmp(name.p, at, UTIL_MIN(name.len, len));

		if (!order)
			order = (name.len > len) - (name.len < len);
		if (!order)
			return &table[mid];
		if (order < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

const struct resp_command *resp_at(size_t i)
{
	return i < ARRAY_SIZE(table) ? &table[i] : NULL;
}
