/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * index_rig.h - shared by tests of the operations: a region, the client under test, and
 * another client that may act between any two requests of the first. Most cases run over
 * the shared-memory lane (direct GETs) and over the fault lane (steps only), which alone
 * has rivals.
 */
#ifndef TESTS_RIG_INDEX_RIG_H
#define TESTS_RIG_INDEX_RIG_H

#include <stdbool.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "fake_client.h"
#include "test_main.h"

#define GRACE (100 * NS_PER_MS)

extern struct fake_region region;
extern struct fake_client me, other;

/** A region and both clients; `fault`: `me` uses the fault lane. */
void setup(bool fault);
void teardown(void);

/* ---- operations and their effects -------------------------------------------- */

/** As fake_client_run(). */
int run(struct fake_client *c, enum index_kind kind, struct index_key k,
	const char *value, uint64_t expected);

#define PUT(c, k, v) ck_assert_int_eq(run(c, INDEX_PUT, k, v, 0), 0)
#define ABSENT(c, k)                                                           \
	ck_assert_int_eq(run(c, INDEX_GET, k, NULL, 0), FARKV_ENOTFOUND)

void check_value(struct fake_client *c, struct index_key k, const char *want);

/** I1 over the whole index: no key is bound to two slots. */
void check_no_duplicates(struct index_key k);

struct index_key key_of(const char *s);

/**
 * A key that starts with `s`, whose window is the first of the first subtable
 * and whose fingerprint is `fp`.
 */
struct index_key key_at(const char *s, uint32_t fp);
#define ANY_FP 0u /* no fingerprint is 0 */

/** The key's window in the region. */
uint64_t *slots_of(struct index_key k);

/* ---- time -------------------------------------------------------------------- */

/** A clock for index_set_clock(), that shows fake_now. */
extern uint64_t fake_now;
uint64_t fake_clock(void *arg);

/* ---- rivals ------------------------------------------------------------------ */

/* Action before a request of `me`. */
struct rival {
	int opcode;      /* opcode of the request to act before; -1 none */
	unsigned skip;   /* let this many of them pass first */
	void (*act)(void);
	unsigned acted;
	/* operation of rival_op() */
	enum index_kind kind;
	struct index_key key;
	const char *value;
	int result;
};
extern struct rival rival;

/** The hook of a fault lane before whose requests the rival acts. */
int rival_hook(void *arg, const struct xport_chain *c, unsigned i, bool after);

/**
 * Before the next request with `opcode`, once, calls act() with the remaining arguments.
 */
void rival_sets(int opcode, void (*act)(void), enum index_kind kind,
		struct index_key k, const char *value);

/** act(): the other client does the rival's operation. */
void rival_op(void);
/** act(): a CAS of the rival's value that wins. */
void rival_cas(void);

#endif
