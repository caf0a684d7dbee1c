/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim.h - libfarkv and kvserver in one process, without threads, sockets or a clock:
 * a seed decides which of them goes on next, and for how long.
 *
 *   sim.c         the command line, many seeds, the events that they met
 *   sim_run.c     one run: the order of steps, accidents, the end
 *   sim_mix.c     the mix of a run: operations and their shares
 *   sim_client.c  a client's program: its calls on its handle
 *   sim_host.c    the library's environment: clock, threads, connections
 *   sim_dial.c    ... and the thread that makes its connection again
 *   sim_lane.c    its lanes: requests that tear, break, or arrive late
 *   sim_try.c     ... and gets without a lane
 *   sim_server.c  the server's side: its loop, its sessions, its region
 *   sim_region.c  its region
 *   sim_pages.c   ... and the uses of its pages
 *   sim_check.c   the truth, and the places that may be written
 *
 * A client's thread is a coroutine; its control thread, the server's loop and the
 * network do a step and return. All state is in struct sim; a run leaves nothing
 * to the next.
 */
#ifndef TESTS_LAB_SIM_H
#define TESTS_LAB_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <farkv.h>

#include "common/index/index.h"
#include "common/index/run.h"
#include "common/index/try.h"
#include "common/xport/xport.h"
#include "server/memory/region.h"
#include "server/memory/slab.h"
#include "coroutine.h"

#define SIM_CLIENTS 6
#define SIM_AUDITOR SIM_CLIENTS /* an extra one, which checks at the end */
#define SIM_KEYS 96
#define SIM_HOT 4 /* keys that the clients work on; the rest fills the window */
#define SIM_BATCH 4
#define SIM_WORDS 520u /* of a value, at most: some go in parts (INDEX_SEGMENT_MIN) */
#define SIM_T UINT64_C(100000000) /* the grace period, ns */
#define SIM_SLOWEST 80u /* clocks, percent */
#define SIM_FASTEST 140u
#define SIM_START UINT64_C(1000000000000) /* the time at which a run begins */
#define SIM_STACK (192u << 10)

/* Events that many seeds should meet. */
enum sim_event {
	SIM_OPS, SIM_SPLITS, SIM_COMPACTIONS, SIM_DOUBLINGS, SIM_ABSORBED,
	SIM_FROZEN, SIM_FULL, SIM_SLOW, SIM_TORN_WORDS, SIM_TORN_BYTES,
	SIM_PARTIAL, SIM_BREAKS, SIM_RESUMED, SIM_LATE, SIM_MAYBE, SIM_TIMEOUTS,
	SIM_STOPPED, SIM_PAUSED, SIM_SERVER_STOPPED, SIM_KILLED, SIM_LEFT,
	SIM_CUT, SIM_SWEEPS, SIM_SWEPT, SIM_BARRIERS, SIM_BLOCKS_AGAIN,
	SIM_PAGES_AGAIN, SIM_EXHAUSTED, SIM_COPIES, SIM_AT_ONCE,
	SIM_BACKOFFS, SIM_LOOKS, SIM_HITS, SIM_STALE, SIM_KEPT,
	SIM_PARTS, SIM_PIPELINES, SIM_ABANDONED, SIM_QUEUE_FULL,
	SIM_BORROWED, SIM_BORROWED_IN_VAIN, SIM_SAME_KEY, SIM_SCANS, SIM_SCAN_CALLS,
	SIM_DATED, SIM_CLOCKS, SIM_REAPED, SIM_EVICTED, SIM_MOVED, SIM_EVENTS
};
extern uint64_t sim_events[SIM_EVENTS];

/*
 * The mix of a run. Odds are "once in N", 0 is never. Runs that do mostly one thing
 * reach states that a run of all things now and then never reaches.
 */
struct sim_mix {
	unsigned kind[INDEX_DELETE_CAS + 1], kinds; /* weights of operations; their sum */
	unsigned dated;   /* of writes: the value expires */
	unsigned batch;   /* of operations */
	unsigned pipeline; /* of operations: some are submitted together */
	unsigned scan;    /* of operations: all keys are listed instead */
	unsigned cold;    /* of keys: not a hot one */
	unsigned hot;     /* so many keys are */
	unsigned march;   /* of operations: all go on to the next key; cold keys are
			     those around it */
	bool rush;        /* all are there for one key, as near as possible */
	bool fill;        /* windows are filled before */
	bool crowded;     /* windows are to overflow */
	bool one_length;  /* of all values */
	unsigned pool;    /* their blocks: in so many of 8 KiB; 0: any */
	unsigned words;   /* a value's, at most */
	unsigned tick_ns; /* a step's time, at most */
	unsigned leap;    /* of steps: T/3 passes */
	unsigned hold;    /* of requests: others go on for long */
	unsigned hold_swap; /* ... of compare-and-swaps */
	unsigned stop_swap; /* of compare-and-swaps: it stops before that */
	unsigned break_swap; /* of compare-and-swaps: the lane breaks after that */
	unsigned stop_broken; /* of breaks: it stops */
	unsigned stop, break_any, kill, cut, stop_server; /* of a client's turns */
	unsigned cache;   /* keys whose locations a handle caches */
	unsigned keep;    /* ... and bytes of its value cache */
	unsigned queue;   /* requests that can be in flight; 0: any */
	unsigned leave;   /* of operations: the handle is closed */
	unsigned guest;   /* of clients by a network: their clocks stop with them */
	unsigned moods;   /* of a client's turns: it gets faster or slower */
	unsigned hold_server; /* of a migration's requests: others go on for long */
	unsigned late;    /* of the network's turns: something late happens */
	unsigned reclaim, wear; /* of the server's rounds */
	unsigned evict;   /* of the server's rounds: somebody waits for memory; 0: it never
			     evicts */
};

/* An operation, for the model: it may outlive its client. */
struct sim_op {
	uint8_t kind; /* enum index_kind */
	uint16_t key;
	uint32_t from;   /* the key's state when it began */
	uint32_t len;    /* of the value */
	uint32_t swaps;  /* changes of a slot that it has made */
	uint64_t value, expected; /* ids */
	uint64_t clock;  /* CLOCK when it began */
	uint64_t ttl_ms; /* of its value; 0: it never expires */
	bool over, unsure;
};

struct sim_conn;
struct control_source;

/* A client's orders. */
enum sim_order { SIM_WORK, SIM_FILL, SIM_REST, SIM_AUDIT, SIM_LEAVE };

struct sim_client {
	unsigned id;
	uint32_t pid; /* of the process that is at work in its place */
	struct coroutine thread;
	char *stack;
	bool alive;  /* its process runs */
	bool dying;  /* it unwinds, and can do nothing */
	bool idle;   /* it has carried out its orders */
	bool over;   /* its coroutine has come to its end */
	enum sim_order order;

	uint64_t stopped_until; /* on the true clock */
	bool guest;             /* its clock stops with it */
	uint64_t lost;          /* ... its time so far */
	unsigned rate;          /* of its clock, percent */
	uint64_t wake;          /* on its clock: what its thread waits for */
	bool woken;

	bool direct, at_once, readonly, quiet;
	unsigned lag; /* its control thread gets one turn in N */
	unsigned slow; /* it takes one turn in N */
	unsigned held; /* it lets so many turns pass */
	unsigned timeout_ms;
	struct farkv *kv;
	struct sim_conn *conn; /* the newest */
	struct control_source *sources;
	struct sim_op *op[SIM_BATCH];
	unsigned n_ops;
	uint64_t seen_id[SIM_KEYS], seen_version[SIM_KEYS];
	struct sim_scan {
		uint32_t from[SIM_KEYS]; /* the keys' states when it began, ... */
		uint32_t call[SIM_KEYS]; /* ... and when its present call did, ... */
		uint64_t clock;          /* ... and CLOCK at that time */
		bool listed[SIM_KEYS];
	} scan;
	struct farkv_write_options options[SIM_BATCH]; /* of requests */
};

struct sim {
	uint64_t seed, rng, now, trace;
	bool verbose, whole_words; /* for all runs */
	bool remote;  /* clients come by a network */
	bool tears;   /* ... whose READs tear inside of words */
	bool finishing;
	uint64_t server_stopped_until;
	unsigned server_held; /* it lets so many turns pass */
	unsigned n_clients;
	struct sim_mix mix;
	unsigned marched; /* the key that all have come to */
	uint32_t last_pid;
	uint64_t last_id; /* of values */
	struct sim_client client[SIM_CLIENTS + 1];
	struct sim_client *running; /* whose thread or control thread is at work */
	bool in_thread;             /* ... the thread, which can give way */
	bool in_server;
	struct coroutine scheduler, server;
	uint8_t *base;
	uint64_t pages;
	struct region region;
};
extern struct sim sim;

extern char sim_key_name[SIM_KEYS][16];
extern uint64_t sim_key_hash[SIM_KEYS];

/* ---- sim_run.c */
/** One run; returns the hash of its trace. Ends the program if something is wrong. */
uint64_t sim_run(uint64_t seed, unsigned steps);
uint64_t sim_below(uint64_t n);
/** True once in N times, for 0 never. */
bool sim_once_in(unsigned n);
/** From its thread or for it: it gets no turn for a while, T/4 to 3 T; `long`: 2 to
 * 8 T. */
void sim_stop(struct sim_client *c, bool for_long);
/** Into the trace; shown if it is to be seen. `who` is -1 for the server. */
void sim_note(int who, const char *what, uint64_t a, uint64_t b);
void sim_fail(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), noreturn));
/** From a coroutine: others go on. */
void sim_give_way(void);

/* ---- sim_mix.c */
/** Drawn for each run, for sim.remote and sim.tears. */
void sim_mix_draw(void);

/* ---- sim_client.c */
void sim_client_main(void);
void sim_choose_keys(void);

/* ---- sim_host.c */
uint64_t sim_clock_of(const struct sim_client *c);
/** A step of its control thread. */
void sim_control_step(struct sim_client *c);
/** Its thread can go on. */
bool sim_can_run(const struct sim_client *c);
bool sim_pid_alive(uint32_t pid);

/* ---- sim_server.c */
struct sim_conn *sim_conn_new(struct sim_client *c);
/** The client's end: 0, or an errno. */
int sim_conn_send(struct sim_conn *k, const void *buf, size_t len);
/** A packet's length, 0 at the end, -1 if there is none. */
long sim_conn_receive(struct sim_conn *k, void *buf, size_t cap);
void sim_conn_hang_up(struct sim_conn *k);
/* Its client has the tether mapped, or not any more. */
void sim_conn_tie(struct sim_conn *k);
void sim_conn_untie(struct sim_conn *k);
struct hits *sim_conn_hits(struct sim_conn *k);
bool sim_conn_fenced(const struct sim_conn *k);
struct sim_lane_state *sim_conn_lane(struct sim_conn *k);
struct sim_client *sim_conn_client(struct sim_conn *k);
/** Those of the run, newest first, from NULL to NULL. */
struct sim_conn *sim_conn_next(struct sim_conn *k);

void sim_server_new(void);
void sim_server_step(void);
/** True between two rounds of its loop. */
bool sim_server_rests(void);
/** It ends a session by itself. */
void sim_server_cut(void);
/** All sessions have ended, and no work is left. */
bool sim_server_calm(void);
void sim_server_free(void);
/** Allocator and slots, when all clients have left. */
void sim_server_audit(void);

/* ---- sim_pages.c */
void sim_pages_begin(void);
/** Which are subtables now; look often enough to see each change. */
void sim_pages_look(void);
/** Slots are READ or changed there: no page that a barrier has freed since. */
void sim_check_slots(uint64_t off);
/** A block is written there: not in a page of slots. */
void sim_check_page(uint64_t off);

/* ---- sim_region.c */
/** An empty index in sim.pages of zeros. */
void sim_region_setup(void);
/** The key of a block that this word names. */
unsigned sim_region_key(uint64_t word);
/** The word of a key, or 0. */
uint64_t sim_region_word(unsigned key);
/** All slots against the model, all blocks against the slots, all pages. */
void sim_region_audit(struct slab *slab);

/* ---- sim_lane.c */
struct sim_lane_state {
	struct xport_chain *chain; /* in flight, at this request */
	unsigned at;
	bool break_now;
	bool dead;                /* it broke */
	struct sim_late *late;    /* requests that the network still has */
	const struct xport_wr *reading; /* what may be torn now */
	uint64_t window_at;       /* on its clock: when slots were last READ */
	uint64_t block;           /* when a block was last READ, ... */
	bool slow;                /* ... T/2 later, and slots not since */
};
struct xport_lane *sim_lane_wrap(struct xport_lane *lane);
/** No request of the client happens any more. */
bool sim_lane_gone(const struct sim_client *c);
/** A CAS of the key of this hash without a chain, by a write of `value` or, for NULL, by
 * a delete. False: not any more. */
bool sim_lane_swap(struct sim_client *c, uint64_t key_hash, const void *value,
		   uint64_t off, uint64_t expect, uint64_t swap,
		   uint64_t *found_out);
struct xport_lane *sim_lane_server(void);
/** Requests in flight stay in flight, though their client gets no answer. */
void sim_lane_abandon(struct sim_conn *k);
/** Carry out one request that is late. */
void sim_lane_late(struct sim_conn *k);
void sim_lane_forget(struct sim_conn *k);

/* ---- sim_check.c */
void sim_check_begin(void);
struct sim_op *sim_op_begin(unsigned kind, unsigned key, uint64_t value,
			    uint32_t len, uint64_t expected);
/** It has ended so; GET: found this value. */
void sim_op_end(struct sim_op *op, int result, const void *value, size_t len,
		uint64_t *id_out);
/** A scan begins, and each of its calls. */
void sim_scan_begin(struct sim_scan *scan);
void sim_scan_call(struct sim_scan *scan);
/** The present call has listed the key, with a value of this length. */
void sim_scan_listed(struct sim_scan *scan, unsigned key, size_t len);
/** It has come to its end. */
void sim_scan_end(const struct sim_scan *scan);
/** Its CAS has just changed a slot. */
void sim_op_swapped(struct sim_op *op, uint64_t before, uint64_t after);
/** The server has just swapped this word of a value for a tombstone's. */
void sim_check_reaped(uint64_t word);
/** A migration has just replaced the subtable in which this word was, and gives up its block:
 * the key is evicted, or `now` is its word, of a copy. */
void sim_check_dropped(unsigned key, uint64_t word, uint64_t now);
/** A slot holds this word now. */
void sim_check_published(uint64_t word);
/** A block is about to be written. */
void sim_check_write(uint64_t off);
/** A block is free from now on. */
void sim_check_unlinked(uint64_t off);
/** A barrier has passed that began then. */
void sim_check_barrier(uint64_t began);
/** The id of the key's value, 0 if it has none. */
uint64_t sim_current(unsigned key);
/** CLOCK, in the region. */
uint64_t sim_clock_ms(void);

#endif
