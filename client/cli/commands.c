/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of kvcli's commands. */
#include "config.h"

#include "cli.h"

static const char touch_help[] =
	"TIME is a number of seconds, or a number with ms, s, m, h or d; 0 or never for\n"
	"a value that does not expire.";

#define VALUE_HELP                                                             \
	"VALUE is the text itself; - reads it from stdin, @FILE from a file, " \
	"and\n@@TEXT is TEXT with one @ in front. Any byte may occur in a "    \
	"value."

static const char incr_help[] =
	"The value is a number below 2^64 in decimal digits, as memcached has it; it\n"
	"wraps at 2^64 and stops at 0. DELTA is 1 without it. A key without a value is\n"
	"an error, unless --initial N gives its first number, which --ttl lets expire.\n"
	"Other numbers keep the time that they have.";

static const char load_help[] =
	"FILE holds the records, - is stdin. Formats:\n"
	"  tsv  key TAB value, each line with a newline; \\t \\n \\r \\0 \\\\ \\xHH stand\n"
	"       for bytes\n"
	"  cdb  +KEYLEN,VALUELEN:KEY->VALUE on each line, an empty line at the end\n"
	"  nul  KEY NUL VALUE NUL\n"
	"Of two records with one key the later wins. After an error the records\n"
	"before it are stored, and the message names the one that failed.";

static const char dump_help[] =
	"Without FILE: of all keys. FILE, - is stdin, names keys. tsv: the first field\n"
	"of each line; cdb: the keys of the records in a cdb file; nul: keys that end\n"
	"with NUL bytes. Records go to stdout in the same format, or as JSON; load\n"
	"takes them back, without their times to live, which JSON alone shows.";

static const char keys_help[] =
	"One line each, in no order that means anything, with \\t \\n \\r \\0 \\\\ for these\n"
	"bytes, and \\xHH for the first one if the output would begin like another kind\n"
	"of file; --format nul: as they are, a NUL after each; --json: with length and\n"
	"version. A key that is there all the time is printed exactly once, whatever is\n"
	"written meanwhile.";

static const char clear_help[] =
	"It does not ask. Keys that others write meanwhile may stay. Prints how many\n"
	"values were removed.";

static const char watch_help[] =
	"Prints the value after each of --repeat changes, 1 without it. Nobody tells a\n"
	"client of a change, so kvcli looks: 1 ms after a change, later every 100 ms. Of\n"
	"changes in between only the last is seen. Exit status 1 if the value was removed.";

static const char stat_help[] =
	"Gets and sets are what clients have counted: those by RDMA as of their last\n"
	"barrier. Keys are counted once a second.";

static const char memory_help[] =
	"A value is in a block of the next larger size. OUT: with a value, the tombstone of\n"
	"a key, or in clients' hands; FREE at the server; DEFERRED: in the grace period;\n"
	"EXHAUSTED: waiting for a barrier.";

static const char clients_help[] =
	"PEER is the process, or the address of a client by RDMA. Hits, misses and sets\n"
	"are what the client has counted; by RDMA as of its last barrier.";

static const char kill_help[] =
	"ID is what clients prints. The client's next operation may fail\n"
	"and tell so; then it connects again, and gets another ID.";

static const char fsck_help[] =
	"The server looks at every slot, reads every value, and adds up all bytes;\n"
	"what dead clients held is given back. That takes about a second for a\n"
	"million small values, and is waited for --timeout-ms, 10 minutes without it.\n"
	"Exit status 1 if something is wrong; 2 if a client does not answer, so that\n"
	"what it holds cannot be told from what has leaked.\n"
	"With --file FILE, - is stdin, a snapshot is verified; that needs no server.";

static const char save_help[] =
	"FILE is a snapshot for restore, - is stdout. Others may write meanwhile: each\n"
	"record is a value that its key had during the save. A previous FILE stays until\n"
	"all of the new one is on the disk, also if the save fails or is interrupted.";

static const char restore_help[] =
	"FILE is a snapshot that save wrote, - is stdin. Keys that have a value get that\n"
	"of the snapshot, or keep it with --if-absent; keys that are not in the snapshot\n"
	"stay. A damaged file restores nothing. A pipe is verified chunk by chunk: what\n"
	"came before the damage is restored, and the last line tells how many records.\n"
	"Values expire when they would have in the store that was saved.";

static const char info_help[] =
	"FILE is a snapshot that save wrote, - is stdin. All of it is verified. Needs no\n"
	"server.";

static const char cluster_help[] =
	"init: FILE, - is stdout, becomes the map of the servers that --servers lists; each\n"
	"gets the same number of partitions. Needs no server; every server is then started\n"
	"with this map. With zk://HOST:PORT/PATH in place of FILE the map is made in ZooKeeper,\n"
	"and servers are started with --cluster; --replicas 1 lets another server have a copy of\n"
	"each one's keys. add: a server more, which gets its share of the keys; drain: a server\n"
	"that gives all keys away, and can be stopped then; rebalance: the same number of\n"
	"partitions for each. They wait until the keys have moved; the store is in use meanwhile.\n"
	"status: one line for each server of the store's cluster. Exit status 0 if all of them\n"
	"serve. With FILE or URL: what the map says, and at a URL which servers are registered; no\n"
	"server is asked.";

static const char wait_help[] =
	"Needs a cluster made with --replicas 1. All that was written before then outlives any one\n"
	"server. Waits for MS milliseconds, 10 s without it. Prints nothing; exit status 1, with the\n"
	"reason, if the followers do not have all by then, or a server was lost since this kvcli has\n"
	"connected.";

static const char slowlog_help[] =
	"The longest times, since its start, for which the server did one thing and answered nobody: 32\n"
	"at most, the longest first. Gets and puts do not need the server. WHAT: message (it answered\n"
	"one), growth (of the index), sweep (for blocks of dead clients), check (fsck), count (of items,\n"
	"for stats), expiry, returns (blocks of clients that left), timers.";

static const char top_help[] =
	"Needs a terminal. Drawn again after each --interval, 1 s without it; the space bar draws it at\n"
	"once, q ends it. Rates are each second since the screen before. HITS % is the share of gets\n"
	"that found a value. EXISTS and PING are times of this program's own: an exists, which does\n"
	"not need the server's processor, and a question to the server. Sizes of blocks are sorted by\n"
	"the bytes that are out, sessions by their rates.";

static const char devices_help[] =
	"Needs no server. --quiet prints the names of usable devices alone. Exit\n"
	"status 0 if there is one, otherwise 1.";

static const char doctor_help[] =
	"Needs no server. One line for each check: ok, warn or FAIL, what was looked\n"
	"at, and what to do; --quiet leaves out what is ok. Exit status 1 if any line\n"
	"says FAIL, otherwise 0.";

static const char keygen_help[] =
	"Needs no server. The line is for a key file, NAME ROLE KEY: the server's,\n"
	"and that of the client it is for. NAME is 1 to 63 of A-Z a-z 0-9 . _ -, the\n"
	"role is rw unless ro is given. Both files are to be readable by their owner\n"
	"alone: umask 077 first, or chmod 600 after.";

const struct cli_command cli_commands[] = {
	{"get", "KEY", "Print a value.", NULL, cmd_get, 1, 1, true,
	 "raw csv key-base64", "fetch read cat show getex"},
	{"gets", "KEY", "Print version and value.",
	 "Plain: VERSION TAB VALUE. With --raw: VERSION, a newline, the bytes.",
	 cmd_gets, 1, 1, true, "raw csv key-base64", ""},
	{"put", "KEY VALUE", "Store a value.", VALUE_HELP, cmd_put, 2, 2, false,
	 "ttl key-base64", "set store write setex"},
	{"add", "KEY VALUE", "Store a value unless the key has one.", VALUE_HELP,
	 cmd_add, 2, 2, false, "ttl key-base64", "insert new setnx"},
	{"replace", "KEY VALUE", "Store a value if the key has one.", VALUE_HELP,
	 cmd_replace, 2, 2, false, "ttl key-base64", "update"},
	{"cas", "KEY VERSION VALUE",
	 "Store a value if the version is still VERSION.",
	 "VERSION is the number that gets printed before; cas prints the new one.\n"
	 VALUE_HELP, cmd_cas, 3, 3, false, "ttl key-base64", "swap"},
	{"append", "KEY VALUE", "Add to the end of a value.", VALUE_HELP, cmd_append, 2, 2, false,
	 "key-base64", "concat"},
	{"prepend", "KEY VALUE", "Add to the beginning of a value.", VALUE_HELP, cmd_prepend, 2, 2,
	 false, "key-base64", ""},
	{"incr", "KEY [DELTA]", "Add to a number, and print it.", incr_help, cmd_incr, 1, 2, false,
	 "initial ttl key-base64", "inc increment count incrby"},
	{"decr", "KEY [DELTA]", "Subtract from a number, and print it.", incr_help, cmd_decr, 1, 2,
	 false, "initial ttl key-base64", "dec decrement decrby"},
	{"ttl", "KEY", "Print the seconds until a value expires, or never.", NULL, cmd_ttl,
	 1, 1, true, "key-base64", "pttl"},
	{"touch", "KEY TIME", "Let a value expire after TIME from now.", touch_help,
	 cmd_touch, 2, 2, false, "key-base64", "expire pexpire persist gat"},
	{"del", "KEY...", "Remove values.", NULL, cmd_del, 1, -1, false,
	 "key-base64", "rm delete remove erase unlink"},
	{"mget", "KEY...", "Print several values, as tsv lines.",
	 "With --raw: one value after the other.", cmd_mget, 1, -1, true,
	 "raw csv key-base64", "getall"},
	{"exists", "KEY...", "Say whether keys have values.", NULL, cmd_exists, 1,
	 -1, true, "csv key-base64", "has mexists"},
	{"keys", "", "Print all keys.", keys_help, cmd_keys, 0, 0, true,
	 "match count format csv", "ls list scan randomkey"},
	{"load", "FILE", "Store many records.", load_help, cmd_load, 1, 1, false,
	 "format if-absent", "import"},
	{"dump", "[FILE]", "Print the records of all keys, or of many.", dump_help,
	 cmd_dump, 0, 1, true, "format csv", "export"},
	{"save", "FILE", "Save all keys and values to a snapshot.", save_help, cmd_save, 1, 1, true,
	 "consistent", "backup snapshot bgsave"},
	{"restore", "FILE", "Store all records of a snapshot.", restore_help, cmd_restore, 1, 1,
	 false, "if-absent", ""},
	{"info", "FILE", "Say what is in a snapshot.", info_help, cmd_info, 1, 1, true, "local",
	 ""},
	{"clear", "", "Remove all keys.", clear_help, cmd_clear, 0, 0, false, "",
	 "flushall flush_all flush flushdb truncate"},
	{"stats", "", "Print the state of the store.", NULL, cmd_stats, 0, 0,
	 true, "", "status info dbsize"},
	{"memory", "", "Print where the bytes are, by the size of blocks.", memory_help, cmd_memory,
	 0, 0, true, "csv", "slabs"},
	{"clients", "", "List the sessions of the store.", clients_help, cmd_clients, 0, 0, true,
	 "csv", "client who sessions"},
	{"kill", "ID", "End the session of a client.", kill_help, cmd_kill, 1, 1, false, "",
	 "disconnect"},
	{"slowlog", "", "List the longest pauses of the server.", slowlog_help, cmd_slowlog, 0, 0, true,
	 "csv", "pauses"},
	{"fsck", "", "Check the whole store while it is in use.", fsck_help,
	 cmd_fsck, 0, 0, true, "file", "check verify"},
	{"cluster", "init|add|drain|...", "Make the map of a cluster, change it, or show its servers.",
	 cluster_help, cmd_cluster, 1, 3, true, "servers replicas no-wait", "nodes"},
	{"wait", "[MS]", "Wait until the followers of a cluster's servers have all writes.", wait_help,
	 cmd_wait, 0, 1, true, "", "sync"},
	{"ping", "", "Ask the server for a sign of life.", NULL, cmd_ping, 0, 0,
	 true, "count", ""},
	{"devices", "", "List the RDMA devices of this machine.", devices_help,
	 cmd_devices, 0, 0, true, "local", ""},
	{"doctor", "", "Say what keeps this machine from RDMA.", doctor_help,
	 cmd_doctor, 0, 0, true, "memory", ""},
	{"keygen", "NAME [rw|ro]", "Print a new key for a client.", keygen_help,
	 cmd_keygen, 1, 2, true, "local", "genkey"},
	{"watch", "KEY", "Wait until a value changes, and print it.", watch_help, cmd_watch, 1, 1, true,
	 "raw csv repeat key-base64", "monitor subscribe"},
	{"top", "", "Show rates, memory and sessions on one screen.", top_help, cmd_top, 0, 0, true,
	 "repeat interval", "htop"},
	{"--stat", "", "Print rates, a line each second.", stat_help, cmd_stat, 0, 0, true,
	 "csv repeat interval", ""},
	{"--latency", "", "Measure how long a get and a ping take.", NULL, cmd_latency, 0, 0, true,
	 "csv interval", ""},
	{"--latency-history", "", "Measure that again and again.", NULL, cmd_latency_history, 0, 0,
	 true, "csv repeat interval", ""},
	{"--intrinsic-latency", "", "Measure how long this machine stops a program.", NULL,
	 cmd_intrinsic, 0, 0, true, "csv local", ""},
	{"--bigkeys", "", "Print the largest values.", NULL, cmd_bigkeys, 0, 0, true, "csv count", ""},
	{NULL, NULL, NULL, NULL, NULL, 0, 0, false, NULL, NULL},
};
