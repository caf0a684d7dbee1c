/* SPDX-License-Identifier: BSD-3-Clause */
/** input.h - keys and values as they stand on the command line. */
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
 * The key that an argument means: itself or, under --key-base64, the bytes that
 * it encodes, which replace it. 0, or CLI_USAGE after saying why.
 */
int input_key(const struct cli *cli, char *arg, struct input_key *out);

/** Where a value comes from. */
struct input_value {
	const char *text; /* the argument, or the name of `file` */
	FILE *file;       /* NULL: the value is `text` */
	uint8_t *buf;     /* from input_read() on */
	size_t len;
};

/**
 * The meaning of an argument: "-" is stdin, "@FILE" the file's content, "@@..." the
 * text from the second @ on, anything else itself. Opens the file, reads
 * nothing. 0, or CLI_USAGE after saying why. End with input_close().
 */
int input_open(const struct cli *cli, const char *arg, struct input_value *out);

/**
 * Read the value to its end into v->buf and v->len; the store must be connected,
 * its longest value is a bound. 0 or an exit status after saying why.
 */
int input_read(const struct cli *cli, struct input_value *v);

void input_close(struct input_value *v);

#endif
