/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * db.h - the interface to a store, which every binding (db_*.c) implements.
 *
 * A store is opened once per process, a session once per thread; one thread at a time uses
 * a session. Failures of init and open are FARKV_E... numbers with a detail in err.h.
 * Failures of operations have YCSB's names, except NO_SPACE, and are counted in the report
 * as Return=NAME.
 */
#ifndef BENCH_STORE_DB_H
#define BENCH_STORE_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/base/props.h"

enum db_status {
	DB_OK,
	DB_ERROR,
	DB_NOT_FOUND,
	DB_NOT_IMPLEMENTED,
	DB_UNEXPECTED_STATE,
	DB_BAD_REQUEST,
	DB_FORBIDDEN,
	DB_SERVICE_UNAVAILABLE,
	DB_NO_SPACE, /* the store is full; not one of YCSB's */
	DB_STATUS_COUNT,
};

/** "OK", "NOT_FOUND", ... */
const char *db_status_name(enum db_status s);

/** True if a write with this failure certainly changed nothing. */
static inline bool db_status_is_definite(enum db_status s)
{
	return s == DB_NOT_FOUND || s == DB_NOT_IMPLEMENTED ||
	       s == DB_BAD_REQUEST || s == DB_FORBIDDEN ||
	       s == DB_NO_SPACE;
}

/** The longest batch. */
#define DB_BATCH_MAX 128

/** Input of a binding before it opens. */
struct db_setup {
	struct props *props; /* bindings read their own "<name>.*" */
	const char *uri;     /* from the command line, or NULL */
	unsigned threads;
	uint64_t records;    /* records that the store holds in the end */
	const char *key_prefix; /* part of each key before the digits */
	size_t key_len;      /* the longest key */
	size_t value_len;    /* the longest value */
	unsigned queue_depth; /* requests in flight of a session; 0: submit is not used */
	bool loads;           /* the command loads records, at least at first */
};

struct db_value {
	const void *data;
	size_t len;
};

/** One item of a batch; value is input of writes, output of reads. */
struct db_item {
	const char *key;
	size_t key_len;
	struct db_value value;
	enum db_status status; /* out */
	void *into; /* read_into: memory for the value */
	size_t cap; /* its bytes */
};

/**
 * For submit. Key and value belong to the caller, who must not change them until the
 * completion was polled.
 */
struct db_request {
	uint64_t tag; /* returned in the completion */
	bool write;   /* update or insert; otherwise read */
	const char *key;
	size_t key_len;
	struct db_value value; /* of a write */
};

/** The end of a request. */
struct db_completion {
	uint64_t tag;
	enum db_status status;
	struct db_value value; /* of a successful read, valid until the next poll */
	const char *why; /* one line if it failed, valid until the next call; NULL:
			    error() */
};

/** Most completions of one poll. */
#define DB_POLL_MAX 32

#define DB_SERVERS_MAX 64
#define DB_SERVER_NAME 32

/** What one server of a store of several did in a phase. */
struct db_served {
	char name[DB_SERVER_NAME];
	bool known;      /* false: it was away at the beginning or at the end, and `ops` is 0 */
	uint64_t ops;    /* reads and writes, by its own counts: of other clients, too */
	uint64_t errors; /* failed operations whose error names it */
};

/** First member of a binding's store and session structs. */
struct db_store {
	const struct db_ops *ops;
};

struct db {
	const struct db_ops *ops;
};

/** Takes a fact as text: "Transport", "shm". */
typedef void (*db_fact_fn)(void *arg, const char *name, const char *text);

/** Takes one of a binding's own figures for the report. */
typedef void (*db_figure_fn)(void *arg, const char *name, double value);

struct db_ops {
	const char *name;    /* of -db, and of its properties' prefix */
	const char *summary; /* one line for --help */
	bool forks; /* processes forked after init may use the store */

	/** The properties that it reads, "<name>.*". */
	const struct prop_spec *props;
	size_t n_props;

	/** Once per process, before open. fini frees *store_out. */
	int (*init)(const struct db_setup *setup, struct db_store **store_out);
	void (*fini)(struct db_store *store);

	/** Once per thread. close frees *db_out, on the same thread. */
	int (*open)(struct db_store *store, struct db **db_out);
	void (*close)(struct db *db);

	/**
	 * The value stays valid until the next call on the session. Writes copy their
	 * arguments. update and insert store the whole value whether or not the key had
	 * one.
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

	/**
	 * Up to DB_BATCH_MAX items. The values of reads stay valid together until the next
	 * call.
	 */
	void (*read_many)(struct db *db, struct db_item *items, size_t n);
	void (*write_many)(struct db *db, struct db_item *items, size_t n);

	/**
	 * Which keys have a value: status DB_OK or DB_NOT_FOUND. Up to DB_BATCH_MAX; no value
	 * is transferred. NULL: see db_exists().
	 */
	void (*exists)(struct db *db, struct db_item *items, size_t n);

	/**
	 * Read values to the items' own memory; value.data is then item.into. A value that is
	 * longer than `cap` is DB_UNEXPECTED_STATE. Up to DB_BATCH_MAX. NULL: see
	 * db_read_into().
	 */
	void (*read_into)(struct db *db, struct db_item *items, size_t n);

	/**
	 * Both or neither: memory that read_into and writes use without a copy; NULL: they
	 * gain nothing from it. buf_new returns NULL, with a detail, if there is none.
	 */
	void *(*buf_new)(struct db *db, size_t bytes);
	void (*buf_free)(struct db *db, void *buf);

	/** An update whose value expires after `ttl_ms` > 0. NULL: the binding cannot. */
	enum db_status (*update_ttl)(struct db *db, const char *key,
				     size_t key_len, struct db_value value,
				     uint64_t ttl_ms);

	/**
	 * Both or neither; NULL: the store has calls only. submit hands over a request
	 * without waiting; it always has space while fewer than db_setup.queue_depth are in
	 * flight. A result other than DB_OK means that the request was not taken and has
	 * failed. Requests in flight are unordered.
	 *
	 * poll advances all requests as far as possible without waiting and returns up to
	 * DB_POLL_MAX completions. Every request ends in bounded time. A result other than
	 * DB_OK ends all in flight.
	 */
	enum db_status (*submit)(struct db *db, const struct db_request *r);
	enum db_status (*poll)(struct db *db, struct db_completion *out,
			       size_t *n_out);

	/** One line about the session's last failure; never NULL. */
	const char *(*error)(struct db *db);

	/**
	 * True if the store is empty in every new process, so that a run loads first; NULL:
	 * false.
	 */
	bool (*starts_empty)(const struct db_store *store);

	/**
	 * CPU time of the server so far, in ns; 0 if unknown. NULL: there is no server, or
	 * it is never known.
	 */
	uint64_t (*server_cpu)(struct db *db);

	/**
	 * Facts of the store: transport, versions, memory; after sessions were open. NULL:
	 * none.
	 */
	void (*facts)(struct db_store *store, db_fact_fn fn, void *arg);

	/** Figures of all sessions closed since the last call; NULL: none. */
	void (*figures)(struct db_store *store, db_figure_fn fn, void *arg);

	/**
	 * What each server did while the last sessions of this process were open; returns how many
	 * there are, 0 if it is one. NULL: it always is.
	 */
	unsigned (*servers)(struct db_store *store, struct db_served out[DB_SERVERS_MAX]);
};

extern const struct db_ops db_farkv_ops;
extern const struct db_ops db_libcuckoo_ops;
extern const struct db_ops db_lmdb_ops;
extern const struct db_ops db_memcached_ops;
extern const struct db_ops db_null_ops;
extern const struct db_ops db_redis_ops;

/** All bindings of this build; ends with NULL. */
extern const struct db_ops *const db_bindings[];

/** update() and insert() by a write_many() of one item, for bindings without faster ones. */
enum db_status db_write_one(struct db *db, const char *key, size_t key_len,
			    const void *value, size_t value_len);

/** db_ops.exists() of any number of items; without it by read(), value after value. */
void db_exists(struct db *db, struct db_item *items, size_t n);

/** db_ops.read_into() of any number of items; without it by read() and a copy. */
void db_read_into(struct db *db, struct db_item *items, size_t n);

/** db_ops.buf_new(), or aligned memory of malloc(3). NULL: none, with a detail. */
void *db_buf_new(struct db *db, size_t bytes);
void db_buf_free(struct db *db, void *buf);

/** By name; NULL if this build has no such binding. */
const struct db_ops *db_find(const char *name, size_t name_len);

#endif
