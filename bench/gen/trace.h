/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * trace.h - a trace of requests, read from a file into memory as a whole: a bad line is found
 * before anything is measured, and reading costs the measurement nothing.
 *
 * Two formats, told by the first character:
 *
 * CSV: `time,key,size[,op[,ttl]]`. Time in seconds; a key without blanks and control
 * characters; size of the value in bytes; op get (if it is missing or empty), set or delete;
 * ttl in seconds, 0 or empty: none. Blanks around a field do not count. A first line that
 * begins with "time," is a heading; lines that begin with # are comments.
 *
 * JSON, one object a line, as Mooncake publishes its traces:
 *
 *     {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}
 *
 * Time in ms. Each hash is the key of a block, which depends on all blocks before it; the
 * order is that of the prompt. Other members, numbers or text, are ignored.
 */
#ifndef BENCH_GEN_TRACE_H
#define BENCH_GEN_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_op { TRACE_GET, TRACE_SET, TRACE_DELETE };

/** Longest key: memcached's limit, the lowest of the stores'. */
#define TRACE_KEY_MAX 250

struct trace_request {
	uint64_t time_us;
	uint32_t key;   /* number of the key; with blocks: of the first in `blocks` */
	uint32_t size;  /* bytes of the value; with blocks: number of blocks */
	uint32_t ttl_s; /* 0: none */
	uint32_t op;    /* enum trace_op; with blocks: TRACE_GET */
};

struct trace_key {
	uint64_t at; /* offset in `text` */
	uint32_t len;
};

/** Read-only after trace_load(). */
struct trace {
	bool has_blocks; /* JSON: a request is a prompt */
	struct trace_request *requests;
	size_t n, room;
	uint32_t *blocks; /* numbers of keys */
	size_t n_blocks, blocks_room;
	struct trace_key *keys; /* each once, in the order of their first request */
	size_t n_keys, keys_room;
	char *text;       /* the keys' bytes */
	size_t text_len, text_room;
	size_t key_len_max;
	uint32_t size_max; /* of a value, or blocks of a request */
	size_t ttl_line;   /* the first line with a ttl; 0: none */
};

/**
 * Read the file. FARKV_EINVAL with "FILE:LINE: what is wrong", FARKV_ESYS, FARKV_ENOMEM;
 * with a detail, and *out is empty. End with trace_free(). Takes 24 bytes per request, 4 per
 * block, and 16 and its bytes per different key.
 */
int trace_load(const char *path, struct trace *out);

/** A zeroed struct is allowed. */
void trace_free(struct trace *t);

static inline const char *trace_key_at(const struct trace *t, uint32_t key)
{
	return t->text + t->keys[key].at;
}

#endif
