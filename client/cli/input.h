/* SPDX-License-Identifier: BSD-3-Clause */
/** input.h - keys and values from the command line. */
#ifndef CLIENT_CLI_INPUT_H
#define CLIENT_CLI_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli.h"

struct input_key {
	const void *data; /* in the argument's own memory */
	size_t len;
};

/**
 * The key of an argument: itself or, with --key-base64, the decoded bytes, which replace
 * it. 0, or CLI_USAGE after reporting the error.
 */
int input_key(const struct cli *cli, char *arg, struct input_key *out);

/** The source of a value. */
struct input_value {
	const char *text; /* the argument, or the name of `file` */
	FILE *file;       /* NULL: the value is `text` */
	uint8_t *buf;     /* set by input_read() */
	size_t len;       /* of `text` without a file, and then of `buf` */
};

/**
 * Parse a value argument: "-" is stdin, "@FILE" a file's content, "@@..." the text from the
 * second @ on, anything else the text itself. Opens the file, reads nothing. 0, or
 * CLI_USAGE after reporting the error. End with input_close().
 */
int input_open(const struct cli *cli, const char *arg, struct input_value *out);

/**
 * Read the whole value into v->buf and v->len. Needs the connection: the store's longest
 * value is the limit. 0 or an exit status after reporting the error.
 */
int input_read(const struct cli *cli, struct input_value *v);

void input_close(struct input_value *v);

#endif
