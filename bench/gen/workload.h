/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * workload.h - which operation comes next, on which key, with which value: YCSB's
 * CoreWorkload.
 *
 * The threads of a phase share a workload; each draws through its own workload_thread,
 * whose random numbers depend on seed and thread number only.
 */
#ifndef BENCH_GEN_WORKLOAD_H
#define BENCH_GEN_WORKLOAD_H

#include "ages.h"
#include "gen_counter.h"
#include "gen_discrete.h"
#include "gen_exponential.h"
#include "gen_hotspot.h"
#include "gen_latest.h"
#include "gen_scrambled.h"
#include "gen_sequential.h"
#include "gen_uniform.h"
#include "keys.h"
#include "params.h"
#include "values.h"

/** The generators of the request distribution; only the chosen one is set. */
union key_chooser {
	struct gen_uniform uniform;
	struct gen_zipfian zipfian;
	struct gen_scrambled scrambled;
	struct gen_latest latest;
	struct gen_hotspot hotspot;
	struct gen_exponential exponential;
};

struct workload {
	const struct params *params;
	struct key_format keys;
	struct value_spec values;
	struct value_ages ages; /* of a run with checked values that are replaced */
	struct gen_discrete ops;
	union key_chooser chooser; /* copied to each thread */
	struct gen_sequential sequential;
	struct gen_counter inserts; /* of a run; has a window only if it inserts */
	_Atomic uint64_t load_next; /* of a load */
	bool load;
	bool grows; /* the run inserts: the last record moves */
};

/** One operation, ready to be sent. */
struct op {
	enum op_kind kind;
	unsigned key_len;
	uint64_t number; /* of the record */
	char key[KEY_CAP];
};

struct workload_thread {
	struct workload *w;
	struct rng rng;
	union key_chooser chooser;
};

/**
 * Set up for a load or a run by `p`, which must outlive it. FARKV_EINVAL, FARKV_ENOMEM,
 * FARKV_ESYS with a detail. End with workload_fini().
 */
int workload_init(struct workload *w, const struct params *p, bool load);
void workload_fini(struct workload *w);

/** Start the same workload again from its first record. */
void workload_restart(struct workload *w);

void workload_thread_init(struct workload_thread *t, struct workload *w,
			  uint64_t seed, unsigned thread);

/** Prepare the key buffers of `n` operations for workload_next(). */
void workload_prepare_ops(const struct workload *w, struct op *ops, size_t n);

/**
 * How many operations may be drawn ahead without changing the draws: 1 if the choice
 * depends on the records inserted so far.
 */
size_t workload_lookahead(const struct workload *w, size_t most);

/** Draw the next `n` operations. No system call, no lock, no allocation. */
void workload_next(struct workload_thread *t, struct op *ops, size_t n);

/** The number of the last record present. */
uint64_t workload_last(struct workload *w);

/** The insert of `op` is over, successful or not. False: see gen_counter_ack(). */
bool workload_ack(struct workload *w, const struct op *op);

/** Bytes of shared memory that workload_init() takes for the versions of records. */
size_t workload_ages_bytes(const struct params *p);

/** Most records that the store may hold, to size it. */
uint64_t workload_records(const struct params *p);

#endif
