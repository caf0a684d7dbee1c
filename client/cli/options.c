/* SPDX-License-Identifier: BSD-3-Clause */
/* kvcli's options. */
#include "config.h"

#include "options.h"

#include <stddef.h>

#include "common/base/util.h"

#include "cli.h"

#define MIB (UINT64_C(1) << 20)

#define OFF(f) offsetof(struct cli, f)

static const char *const formats[] = {"auto", "tsv", "cdb", "nul", NULL};

static const struct opt opts[] = {
	{.name = "socket", .letter = 's', .type = OPT_STR, .offset = OFF(socket),
	 .metavar = "PATH", .flags = OPT_PATH, .help = "Socket of the server."},
	{.name = "uri", .letter = 'u', .type = OPT_STR, .offset = OFF(uri),
	 .metavar = "URI",
	 .help = "Address of the store, as in shm:///run/farkv/kvserver.sock or "
		 "kv://host:7670, or several of a cluster with commas between them; without "
		 "both $FARKV_URI or the default "
		 "socket."},
	{.name = "keys", .letter = 'k', .type = OPT_STR, .offset = OFF(keys),
	 .metavar = "FILE", .flags = OPT_PATH,
	 .help = "File with a key, for a server that asks for one; without it what "
		 "the URI says, or $FARKV_KEYS."},
	{.name = "key", .type = OPT_STR, .offset = OFF(key), .metavar = "NAME",
	 .help = "Name of the key, where the file holds several."},
	{.name = "timeout-ms", .letter = 't', .type = OPT_U64,
	 .offset = OFF(timeout_ms), .metavar = "MS", .min = 1, .max = 86400000,
	 .help = "How long to wait for the server, in each operation; without it "
		 "5000, for fsck 600000."},
	{.name = "raw", .type = OPT_BOOL, .offset = OFF(raw),
	 .help = "Print values as they are, without a newline after them."},
	{.name = "json", .letter = 'j', .type = OPT_BOOL, .offset = OFF(json),
	 .help = "Print one JSON object a line; bytes that are not UTF-8 in "
		 "base64 under NAME_base64."},
	{.name = "csv", .type = OPT_BOOL, .offset = OFF(csv),
	 .help = "Print comma-separated values: keys and values in double quotes, a \" "
		 "in them twice."},
	{.name = "last-from-stdin", .letter = 'x', .type = OPT_BOOL, .offset = OFF(last_stdin),
	 .help = "The last argument is what stdin has: a value as it is, anything else "
		 "without a newline at the end."},
	{.name = "repeat", .letter = 'r', .type = OPT_U64, .offset = OFF(repeat),
	 .metavar = "N", .min = 1, .help = "Run the command N times; watch: wait for N changes."},
	{.name = "interval", .letter = 'i', .type = OPT_STR, .offset = OFF(interval),
	 .metavar = "TIME",
	 .help = "How long to wait before the next time: a number of seconds, or with ms, s, "
		 "m, h or d after it; without it 0."},
	{.name = "format", .letter = 'f', .type = OPT_ENUM,
	 .offset = OFF(format), .metavar = "FORMAT", .deflt = "auto",
	 .choices = formats,
	 .help = "Format of load and dump: tsv, cdb or nul; auto goes by the "
		 "end of the file's name and takes tsv otherwise."},
	{.name = "if-absent", .type = OPT_BOOL, .offset = OFF(if_absent),
	 .help = "load, restore: leave keys alone that have a value."},
	{.name = "consistent", .type = OPT_BOOL, .offset = OFF(consistent),
	 .help = "save: have all keys of one moment; refused, with the reason."},
	{.name = "file", .type = OPT_STR, .offset = OFF(file), .metavar = "FILE", .flags = OPT_PATH,
	 .help = "fsck: check a snapshot instead of a store."},
	{.name = "servers", .type = OPT_STR, .offset = OFF(servers), .metavar = "LIST",
	 .help = "cluster init: NAME=ADDRESS,NAME=ADDRESS,...; an address is shm:///PATH or "
		 "kv://HOST:PORT."},
	{.name = "replicas", .type = OPT_U64, .offset = OFF(replicas), .metavar = "N", .max = 1,
	 .help = "cluster init with a URL: how many copies each server's keys have on another "
		 "server: 0 or 1; without it 0."},
	{.name = "no-wait", .type = OPT_BOOL, .offset = OFF(no_wait),
	 .help = "cluster add, drain, rebalance: do not wait until the partitions have moved."},
	{.name = "initial", .type = OPT_STR, .offset = OFF(initial), .metavar = "N",
	 .help = "incr, decr: the number that a key without a value gets."},
	{.name = "ttl", .type = OPT_STR, .offset = OFF(ttl), .metavar = "TIME",
	 .help = "put, add, replace, cas, and incr, decr with --initial: the value expires "
		 "after this time: a number of seconds, or with ms, s, m, h or d after it; "
		 "without it never."},
	{.name = "key-base64", .type = OPT_BOOL, .offset = OFF(key_base64),
	 .help = "Keys on the command line are in base64, for any bytes."},
	{.name = "count", .letter = 'c', .type = OPT_U64, .offset = OFF(count),
	 .metavar = "N", .min = 1, .max = UINT64_C(1000000000000),
	 .help = "ping: how often, once a second; without it once. keys, --bigkeys: print N keys at "
		 "most."},
	{.name = "match", .type = OPT_STR, .offset = OFF(match), .metavar = "GLOB",
	 .help = "keys: print those that match, as in 'user*'; * is any bytes, ? one, "
		 "[a-z] one of these, [!a-z] none of them."},
	{.name = "memory", .letter = 'm', .type = OPT_SIZE, .offset = OFF(memory),
	 .metavar = "SIZE", .deflt = "1g", .unit = MIB, .min = MIB,
	 .max = UINT64_C(511) << 30,
	 .help = "doctor: memory of the server that is planned; a bare number "
		 "counts MiB."},
	{.name = "stat", .type = OPT_BOOL, .offset = OFF(stat),
	 .help = "In place of a command: a line of rates each second, or --interval, until Ctrl-C or "
		 "--repeat lines."},
	{.name = "latency", .type = OPT_BOOL, .offset = OFF(latency),
	 .help = "In place of a command: how long a get and a ping take, measured for a second or "
		 "--interval."},
	{.name = "latency-history", .type = OPT_BOOL, .offset = OFF(latency_history),
	 .help = "--latency again and again, each time for 15 seconds or --interval."},
	{.name = "intrinsic-latency", .type = OPT_U64, .offset = OFF(intrinsic_s),
	 .metavar = "SECONDS", .min = 1, .max = 86400,
	 .help = "In place of a command: for how long this machine stops a program that only looks "
		 "at the clock. Needs no server, and one processor."},
	{.name = "bigkeys", .type = OPT_BOOL, .offset = OFF(bigkeys),
	 .help = "In place of a command: the 10, or --count, largest values, and how sizes are "
		 "spread. No values are read."},
	{.name = "quiet", .letter = 'q', .type = OPT_BOOL, .offset = OFF(quiet),
	 .help = "No progress, no summaries, no words about missing keys; the "
		 "exit status tells."},
	{.name = "version", .letter = 'V', .type = OPT_BOOL,
	 .offset = OFF(version), .help = "Print the version and exit."},
	{.name = "help", .letter = 'h', .type = OPT_BOOL, .offset = OFF(help),
	 .help = "Print this text, or that of the command, and exit."},
	{.name = "completion", .type = OPT_STR, .offset = OFF(completion), .metavar = "SHELL",
	 .help = "Print the script for completion in bash or zsh, and exit."},
	{.name = "print-man", .type = OPT_BOOL, .offset = OFF(print_man),
	 .flags = OPT_HIDDEN, .help = "Print the options for the man page."},
};

const struct opts_spec cli_spec = {
	.program = "kvcli",
	.usage = "[OPTION]... COMMAND [ARGUMENT]...",
	.summary = "Read and write a farkv store.",
	.opts = opts,
	.n_opts = ARRAY_SIZE(opts),
};
