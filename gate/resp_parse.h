/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * resp_parse.h - Redis's requests: arrays of bulk strings, and lines of words ("inline").
 *
 * The parser remembers how far it got, so that a request that arrives in many pieces is looked
 * at once. It allocates only the list of words, of which each has taken at least 5 bytes of the
 * request: a length that a client announces costs nothing.
 */
#ifndef GATE_RESP_PARSE_H
#define GATE_RESP_PARSE_H

#include "args.h"

/** All zero before the first request. */
struct resp_parser {
	size_t pos;       /**< bytes of this request that are done */
	uint64_t left;    /**< words to come of an array */
	uint64_t bulk;    /**< length of the word that comes, if `in_bulk` */
	bool in_array;
	bool in_bulk;
	const char *base; /**< where the request was when `args` was written */
	struct args args;
};

struct resp_limits {
	uint64_t max_request; /**< bytes of a request */
	bool trusted;         /**< false: at most 10 words of 16 KiB, before AUTH */
};

enum resp_state {
	RESP_MORE,    /**< the request is incomplete */
	RESP_REQUEST, /**< `args` are its words (maybe none), `pos` its bytes */
	RESP_BAD      /**< not the protocol: answer *error_out, then close */
};

/**
 * Go on with the request that begins at `data`, of which `len` bytes are there: at least those of
 * the last call, at the same or another address. `args` point into `data`; words in quotes are
 * decoded in place. *error_out is a static text, or `error` with one.
 */
enum resp_state resp_parse(struct resp_parser *p, char *data, size_t len,
			   const struct resp_limits *limits, const char **error_out);

/** Begin the next request. */
static inline void resp_parser_next(struct resp_parser *p)
{
	p->pos = 0;
	p->in_array = false;
	args_clear(&p->args);
}

#endif
