/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that use a store at full rate while others stop and kill them, and
 * record their operations: the parts, for stores at any address.
 *
 * A run has rounds. In each a namespace of keys is used that no other round knows, so
 * that each round's history begins with an empty store; at its end all its values are
 * read again, and deleted.
 */
#ifndef TESTS_LAB_STRESS_H
#define TESTS_LAB_STRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <farkv.h>

#include "recorder.h"
#include "tests/scale/scale.h"

#define STRESS_CLIENTS_MAX 32u
#define STRESS_HOT 48u         /* keys that everybody works on */
#define STRESS_RACES 4096u     /* ... that two try to make at one moment, */
#define STRESS_COLD (STRESS_HOT + STRESS_RACES)
#define STRESS_COLD_MAX 400000u /* and others, made as a round goes on */
#define STRESS_VALUE_MAX 6000u
#define STRESS_KEY_MAX 64u
#define STRESS_BATCH 16u

struct stress_plan {
	const char *const *server_args; /* to start it again with */
	uint64_t seed;
	unsigned clients;
	unsigned round_ms;
	unsigned harm_ms;     /* most time between two things that are done */
	bool kill_clients, stop_clients, stop_server;
	bool kill_server;     /* once a round: it ends with that */
	bool adopt_server;    /* kill it, and have the next one adopt its region */
	bool bad_way;         /* to the server: any network fault is allowed */
	bool dated;           /* some values expire; recorder_use_clock() was called */
	unsigned op_timeout_ms;
	unsigned pause_us;    /* of a client after each step; 0: none */
	uint64_t room;        /* operations that a client notes in a round */
};

enum stress_count {
	STRESS_NO_SPACE, STRESS_TIMED_OUT, STRESS_DISCONNECTED, STRESS_MAYBE,
	STRESS_COUNTS
};

/* What a client's place tells the others. */
struct stress_place {
	struct recorder rec;
	uint64_t count[STRESS_COUNTS];
	uint64_t together[STRESS_COUNTS]; /* of these, in batches and of requests */
	uint32_t client;     /* number, of the process that is there now */
	uint32_t ready;      /* it is connected */
};

struct stress_board {
	struct stress_plan plan;
	char address[128];
	uint32_t stop;       /* clients: end now */
	uint32_t round;
	uint32_t clients;    /* numbers given out, ever */
	uint32_t cold;       /* keys made in this round */
	uint32_t race;       /* the next to race for */
	uint32_t arrived[STRESS_RACES];
	uint32_t again;      /* the server was started again */
	struct stress_place place[STRESS_CLIENTS_MAX];
};

#define STRESS_LOAD(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STRESS_STORE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELEASE)

/* ---- stress_data.c: what keys and values look like ------------------------- */

/** The bytes of key `key` of a round, at most STRESS_KEY_MAX. Returns their number. */
size_t stress_key(uint32_t round, uint32_t key, uint8_t *out);

/** The value that an id stands for, at most STRESS_VALUE_MAX; length and bytes follow
 *  from the id alone. */
size_t stress_value(uint64_t id, uint8_t *out);

/**
 * The id of a value that was read. If it is none, whole and of the right length, a line
 * on stderr says so, and *whole_out is false.
 */
uint64_t stress_value_id(const void *data, size_t len, bool *whole_out);

/* ---- stress_client.c ------------------------------------------------------- */

/** A client's process, for scale_start(): `me` is its place, `arg` the board. */
void stress_client_main(unsigned me, void *arg);

/**
 * How an operation's result is noted; counts unusual ones in `count`. The process
 * ends if it is one that no client must ever get.
 */
uint8_t stress_result(int err, uint64_t *count);

/* ---- stress_nemesis.c ------------------------------------------------------ */

struct stress_tally {
	uint64_t kills, stops, server_stops, server_kills;
};

/**
 * Run a round's clients, and harm them by the plan, for the time of the plan;
 * returns when none is left. `server` is not touched unless its pid is set.
 */
void stress_harm(struct stress_board *b, struct real_server *server,
		 uint64_t *random, struct stress_tally *t);

#endif
