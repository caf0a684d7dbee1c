/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * db.h - what kvbench asks of a store: the interface that every binding
 * (db_*.c) implements.
 *
 * A store is opened once per process, a session once per thread. Calls on one
 * session come from one thread at a time. Failures of init and open are
 * FARKV_E... numbers with a detail in err.h; failures of operations are
 * YCSB's names, counted in the report as Return=NAME.
 */
#ifndef BENCH_DB_H
#define BENCH_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "props.h"

enum db_status {
	DB_OK,
	DB_ERROR,
	DB_NOT_FOUND,
	DB_NOT_IMPLEMENTED,
	DB_UNEXPECTED_STATE,
	DB_BAD_REQUEST,
	DB_FORBIDDEN,
	DB_SERVICE_UNAVAILABLE,
	DB_STATUS_COUNT,
};

/** "OK", "NOT_FOUND", ... */
const char *db_status_name(enum db_status s);

/** The longest batch. */
#define DB_BATCH_MAX 128

/** What a binding may want to know before it opens. */
struct db_setup {
	struct props *props; /* bindings read their own "<name>.*" */
	const char *uri;     /* of the command line, or NULL */
	unsigned threads;
	uint64_t records;    /* how many the store has to hold in the end */
	const char *key_prefix; /* what keys begin with, before digits */
	size_t key_len;      /* the longest key */
	size_t value_len;    /* the longest value */
	unsigned queue_depth; /* requests in flight of a session; 0: submit is not used */
	bool loads;           /* the command loads records, at least at first */
};

struct db_value {
	const void *data;
	size_t len;
};

/** One item of a batch; value is in for writes, out for reads. */
struct db_item {
	const char *key;
	size_t key_len;
	struct db_value value;
	enum db_status status; /* out */
};

/** For submit. Key and value stay the caller's, who leaves them alone until the
 * completion was polled. */
struct db_request {
	uint64_t tag; /* comes back */
	bool write;   /* as update or insert; else read */
	const char *key;
	size_t key_len;
	struct db_value value; /* of a write */
};

/** The end of a request. */
struct db_completion {
	uint64_t tag;
	enum db_status status;
	struct db_value value; /* of a read that is DB_OK, until the next poll */
	const char *why; /* one line if it failed, until the next call; NULL: error() */
};

/** Completions that one poll takes at most. */
#define DB_POLL_MAX 32

/** The head of a binding's store and of its session. */
struct db_store {
	const struct db_ops *ops;
};

struct db {
	const struct db_ops *ops;
};

/** The same in words, as "Transport", "shm". */
typedef void (*db_fact_fn)(void *arg, const char *name, const char *text);

/** Takes one line of a binding's own figures for the report. */
typedef void (*db_figure_fn)(void *arg, const char *name, double value);

struct db_ops {
	const char *name;    /* of -db, and of its properties' prefix */
	const char *summary; /* one line for --help */
	bool forks; /* a store may be used by processes forked after init */

	/** The properties that it reads, "<name>.*". */
	const struct prop_spec *props;
	size_t n_props;

	/** Once per process, before open. *store_out is ended by fini. */
	int (*init)(const struct db_setup *setup, struct db_store **store_out);
	void (*fini)(struct db_store *store);

	/** Once per thread. *db_out is ended by close, on the same thread. */
	int (*open)(struct db_store *store, struct db **db_out);
	void (*close)(struct db *db);

	/**
	 * The value stays valid until the next call on the session. Writes
	 * copy what they are given. update and insert store the whole value
	 * whether or not the key had one.
	 */
	enum db_status (*read)(struct db *db, const char *key, size_t key_len,
			       struct db_value *value_out);
	enum db_status (*update)(struct db *db, const char *key,
				 size_t key_len, const void *value,
				 size_t value_len);
	enum db_status (*insert)(struct db *db, const char *key,
				 size_t key_len, const void *value,
				 size_t value_len);
	enum db_status (*remove)(struct db *db, const char *key,
				 size_t key_len);

	/** Up to DB_BATCH_MAX at once; the values of reads stay valid
	 * together, until the next call. */
	void (*read_many)(struct db *db, struct db_item *items, size_t n);
	void (*write_many)(struct db *db, struct db_item *items, size_t n);

	/**
	 * Both or neither; NULL: the store has calls only. submit hands a
	 * request over and never waits for it; it has room for one while fewer
	 * than db_setup.queue_depth are in flight. Anything but DB_OK means
	 * that it was not taken and has failed. Requests in flight have no
	 * order.
	 *
	 * poll carries all on as far as it goes without waiting, and gives up
	 * to DB_POLL_MAX completions; every request comes to an end in bounded
	 * time. Anything but DB_OK is the end of all in flight.
	 */
	enum db_status (*submit)(struct db *db, const struct db_request *r);
	enum db_status (*poll)(struct db *db, struct db_completion *out,
			       size_t *n_out);

	/** One line about the session's last failure; never NULL. */
	const char *(*error)(struct db *db);

	/** Whether the store starts without records in every process; NULL:
	 * no. A run then loads first. */
	bool (*starts_empty)(const struct db_store *store);

	/** Processor time that the server has used so far, in ns, 0 if that
	 * is not known. NULL: there is no server, or nobody knows. */
	uint64_t (*server_cpu)(struct db *db);

	/** What the store is: transport, versions, memory; after sessions
	 * were open. NULL: nothing to say. */
	void (*facts)(struct db_store *store, db_fact_fn fn, void *arg);

	/** Figures of all closed sessions since the last call; NULL: none. */
	void (*figures)(struct db_store *store, db_figure_fn fn, void *arg);
};

extern const struct db_ops db_farkv_ops;
extern const struct db_ops db_libcuckoo_ops;
extern const struct db_ops db_lmdb_ops;
extern const struct db_ops db_memcached_ops;
extern const struct db_ops db_null_ops;
extern const struct db_ops db_redis_ops;

/** All bindings of this build, NULL at the end. */
extern const struct db_ops *const db_bindings[];

/** By name; NULL if this build has none such. */
const struct db_ops *db_find(const char *name, size_t name_len);

#endif
