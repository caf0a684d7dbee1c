/* SPDX-License-Identifier: BSD-3-Clause */
/** resp_table.h - the one table of Redis's commands: what is executed, counted and documented. */
#ifndef GATE_RESP_TABLE_H
#define GATE_RESP_TABLE_H

#include "resp_cmds.h"

enum resp_flags {
	RESP_WRITE = 1u << 0,    /**< changes the store: not for keys of the role ro */
	RESP_NO_AUTH = 1u << 1,  /**< also before AUTH */
	RESP_ADMIN = 1u << 2,    /**< changes the gate or other connections: likewise */
	RESP_REFUSED = 1u << 3,  /**< `summary` is the error that it gets */
};

struct resp_command {
	const char *name;      /**< in lower case */
	resp_handler *run;
	int arity;             /**< words; negative: at least */
	unsigned flags;
	int first, last, step; /**< which words are keys; 0: none */
	const char *group;
	const char *since;     /**< of Redis */
	const char *summary;
	const char *arguments; /**< separated by blanks; [optional], several... */
};

/** The command of that name, in any case, or NULL. */
const struct resp_command *resp_find(struct slice name);

/** The `i`-th of the table, NULL after the last. */
const struct resp_command *resp_at(size_t i);

#endif
