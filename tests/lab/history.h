/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations of clients and their results, with the times of both, for linear.h to check.
 *
 * A value is a number here, its id: a client gives every write of a history an id of its
 * own (history_id()), puts it into the value's bytes and finds it there again. A
 * version of the store stands for one value of one key, so an operation that expects a
 * version is recorded with the id of the value that had it; history_versions() checks
 * that ids and versions correspond one to one.
 */
#ifndef TESTS_LAB_HISTORY_H
#define TESTS_LAB_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum history_kind {
	HISTORY_GET,
	HISTORY_PUT,
	HISTORY_ADD,
	HISTORY_REPLACE,
	HISTORY_CAS,
	HISTORY_DELETE,
	HISTORY_ASK,    /* exists: a get that tells no value */
	HISTORY_LATE,   /* a delete that happened or not, but not after its response */
	HISTORY_EXPIRE, /* the value `expected` ends at one moment in that time, or is replaced */
	HISTORY_GONE    /* at that time the key does not have the value `expected` */
};

/** Does an operation of that kind have a value of its own, which it writes? */
static inline bool history_kind_writes(unsigned kind)
{
	return kind != HISTORY_GET && kind != HISTORY_ASK && kind < HISTORY_EXPIRE &&
	       kind != HISTORY_DELETE && kind != HISTORY_LATE;
}

enum history_result {
	HISTORY_OK,
	HISTORY_NOTFOUND, /* get, exists, replace, cas, delete */
	HISTORY_EXISTS,   /* add */
	HISTORY_CHANGED,  /* cas: the key has another version */
	/*
	 * FARKV_EMAYBE, or the client died in it: it happens once or never, at any
	 * time from its invocation on, even after its response.
	 */
	HISTORY_UNKNOWN,
	HISTORY_FAILED /* it did not happen: times out, no memory, disconnected */
};

#define HISTORY_ABSENT 0 /* the id of no value; every key begins with it */
#define HISTORY_OPEN UINT64_MAX /* the response of an operation without one */

struct history_op {
	uint64_t invoked, responded; /* ns of one clock for all clients */
	uint64_t value;    /* id: written (put, add, replace, cas) or found (get) */
	uint64_t expected; /* cas: the id that the key must have; expire, gone */
	uint64_t version;  /* of `value`, if the call returned it; 0: not */
	uint32_t client, key;
	uint8_t kind, result;
	/* For history_expire(), and not in the text: */
	uint32_t ttl_ms;       /* of what it writes; 0: it never expires */
	uint32_t clock_before; /* CLOCK, loaded before `invoked`; 0: not */
	uint32_t clock_after;  /* CLOCK, loaded after `responded`; 0: not */
};

struct history {
	struct history_op *op;
	size_t n, room;
};

/** The id of a client's n-th write; client below 2^20, n below 2^40. Never ABSENT. */
uint64_t history_id(uint32_t client, uint64_t n);

/** Appends; aborts with a line on stderr without memory. Not for several threads. */
void history_add(struct history *h, const struct history_op *op);

/** Appends all of `from`. */
void history_join(struct history *h, const struct history *from);

void history_free(struct history *h);

/**
 * Append, as operations of `client`, when the values that were written with a time to live end.
 * The rule is that of farkv.h: a value ends when CLOCK reaches its expiry, which is CLOCK plus the
 * time to live at some moment of the write, and it is absent from then on. CLOCK's course is
 * known from the operations themselves. `early_ms`, `late_ms`: by how much the writer's idea of
 * CLOCK may be wrong. A replace, cas or delete that may have found a value before it ended, while
 * another client missed that, becomes a put or a late delete (farkv.h allows that).
 */
void history_expire(struct history *h, uint32_t client, uint32_t early_ms, uint32_t late_ms);

/**
 * Text: a line for each operation,
 * "CLIENT KEY KIND INVOKED RESPONDED RESULT VALUE EXPECTED VERSION", kinds and results
 * by name, "-" for HISTORY_OPEN; lines with '#' in front and empty ones are comments.
 * history_write() is 0 or -1 (errno). history_read() appends; 0, or -1 with one line on
 * stderr that names the line.
 */
int history_write(const struct history *h, FILE *f);
int history_read(struct history *h, FILE *f, const char *name);

/**
 * Does each version of a key name one id, and each id one version? 0, or -1 with the two
 * operations that disagree printed to `out`.
 */
int history_versions(const struct history *h, FILE *out);

const char *history_kind_name(unsigned kind);
const char *history_result_name(unsigned result);

#endif
