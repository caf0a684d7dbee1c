/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * mc_parse.h - memcached's requests: a line of words, and a data block after the lines of some
 * commands.
 *
 * The parser remembers how far it got. A data block that is longer than the store's longest value
 * is skipped as it arrives and is never kept.
 */
#ifndef GATE_MC_PARSE_H
#define GATE_MC_PARSE_H

#include "args.h"

/** All zero before the first request. */
struct mc_parser {
	size_t pos;        /**< bytes of the request that are done */
	size_t line;       /**< bytes of its line, with the newline; 0: that has not come */
	size_t body;       /**< bytes of the data block after it, with its newline */
	uint64_t skip;     /**< bytes to skip before the next request */
	bool body_due;     /**< the command has a data block */
	bool too_large;    /**< ... which is skipped */
	bool bad_body;     /**< ... which does not end in a newline */
	struct args args;
	struct slice data; /**< the data block without its newline */
};

struct mc_limits {
	uint64_t max_request; /**< bytes of a line */
	uint64_t max_value;   /**< bytes of a data block */
};

enum mc_state {
	MC_MORE,    /**< the request is incomplete */
	MC_REQUEST, /**< `args` are its words, `data` its block, `pos` its bytes */
	MC_SKIPPED, /**< `pos` bytes belong to no request */
	MC_BAD      /**< not the protocol: answer *error_out, then close */
};

/** As resp_parse(), but `data` is not changed. */
enum mc_state mc_parse(struct mc_parser *p, const char *data, size_t len,
		       const struct mc_limits *limits, const char **error_out);

/** Begin the next request. */
void mc_parser_next(struct mc_parser *p);

#endif
