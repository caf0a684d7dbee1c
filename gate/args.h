/* SPDX-License-Identifier: BSD-3-Clause */
/** args.h - the words of a request, and the few things to ask of one. */
#ifndef GATE_ARGS_H
#define GATE_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Bytes of a request; not terminated. */
struct slice {
	const char *p;
	size_t len;
};

/** All zero is empty. */
struct args {
	struct slice *v;
	size_t n;
	size_t cap;
};

/** Append a word; false if out of memory. */
bool args_add(struct args *a, const char *p, size_t len);

/** Forget the words; memory for more than a few hundred is freed. */
void args_clear(struct args *a);
void args_free(struct args *a);

/** Equal to a text, in any case of ASCII letters; exactly. */
bool slice_is(struct slice s, const char *text);
bool slice_same(struct slice s, const char *text);

/**
 * The whole slice as a number in decimal digits: no blanks, no plus, no superfluous zeros in
 * front (those are Redis's rules). False for everything else, and where it does not fit.
 */
bool slice_i64(struct slice s, int64_t *out);

/** As strtoull(3) reads memcached's numbers: digits alone, also with zeros in front. */
bool slice_u64(struct slice s, uint64_t *out);

/** Longest text of a floating point number, as Redis has it. */
#define SLICE_FLOAT_MAX 5120

/** The whole slice as a floating point number; "inf" is one, "nan" and blanks are none. */
bool slice_float(struct slice s, long double *out);

#endif
