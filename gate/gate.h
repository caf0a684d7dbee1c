/* SPDX-License-Identifier: BSD-3-Clause */
/** gate.h - what all threads of kvgate share. */
#ifndef GATE_GATE_H
#define GATE_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <farkv.h>

#include "common/base/opts.h"

struct keyfile;
struct client;
struct waits;

/** Values of the options, under their names. */
struct gate_config {
	struct opt_list resp, memcached;
	const char *uri, *keys, *key, *client_keys, *config, *completion;
	unsigned socket_mode, verbose;
	uint64_t threads, max_clients, idle_timeout, max_request, max_output, timeout_ms;
	uint64_t ready_fd;
	bool no_auth, quiet, check_config, version, help, print_man;
};

/** Events of one thread. It alone writes them, others read them; atomic.h, relaxed. */
struct gate_counts {
	uint64_t commands, gets, hits, sets, touches, deletes, flushes, errors;
	uint64_t bytes_in, bytes_out;
};

/** Add to a counter of the own thread. */
#define GATE_COUNT(counts, field, n) \
	atom_store_relaxed(&(counts)->field, atom_load_relaxed(&(counts)->field) + (n))

struct gate {
	struct gate_config cfg;
	struct keyfile *clients; /**< keys of the clients; NULL: they need none */
	uint64_t start_ns;       /**< clock_now_ns() */
	struct waits *waits;     /**< for WAIT; NULL: the store has no followers */
	uint64_t max_value;      /**< the store's limits */
	uint64_t max_key;
	uint64_t max_clients;    /**< CONFIG SET changes these two: atomic.h, relaxed */
	uint64_t idle_s;

	/* Atomic. */
	uint64_t connected, accepted, rejected, next_id, blocked;
	uint64_t n_workers;
	struct gate_counts *counts; /**< of n_workers */

	pthread_mutex_t lock;       /**< for the list of clients */
	struct client *first;
};

/** Counters of all threads, added up. */
struct gate_counts gate_totals(struct gate *g);

#endif
