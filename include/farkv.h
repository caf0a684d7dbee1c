/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * farkv.h - the public interface of libfarkv, a remote-memory key-value store.
 *
 * A program opens a handle on a store, reads and writes values under binary keys, and closes
 * the handle. GET, PUT and DELETE are executed by the caller's own CPU (shared memory) or by
 * the network card (RDMA), without the server process.
 *
 * Threads: a handle belongs to one thread at a time; give every thread its own. Handles of one
 * process share the mapping of the region. Functions without a handle argument may be called
 * from any thread. A call on a handle on which another call is running (in another thread, or
 * interrupted by a signal handler) changes nothing and returns FARKV_EINVAL. To save an atomic
 * operation per call, this check misses two calls that begin at the very same moment; they
 * corrupt the handle, and so does a call on a closed handle. Only farkv_close() recognizes
 * closed handles. farkv_counters(), farkv_in_flight(), farkv_server() and farkv_latency() do not check.
 * A call on a handle with requests in flight first completes these, except farkv_submit(),
 * farkv_poll(), farkv_wait(), farkv_in_flight(), farkv_event_fd(), farkv_counters(), farkv_server(),
 * farkv_latency(), farkv_buf_alloc(), farkv_buf_free(), farkv_buf_register(), and farkv_close(), which
 * drops them.
 * Signals: no call is async-signal-safe. Cancellation: a thread must not be cancelled
 * (pthread_cancel(3)) within a call. Fork: a child must open its own handles; calls on an
 * inherited handle return FARKV_EDISCONNECTED, except farkv_counters() and farkv_latency(), which
 * return the parent's figures, farkv_server(), and farkv_in_flight(), which returns 0.
 *
 * Errors: every function that can fail returns 0 or a negative number from the list below.
 * farkv_strerror() gives the text of a number; farkv_errdetail() says in one line what was
 * wrong, where, and what to do about it.
 *
 * Requests: every call for one key can also be submitted, and its completion taken later:
 * farkv_submit(), farkv_poll(), farkv_wait(); farkv_event_fd() serves programs that also wait
 * for other things.
 *
 * Stack: over shared memory a call needs at most 24 KiB; by RDMA give a thread 128 KiB, for
 * the resolution of names and the device's libraries.
 *
 * Blocking: no call waits forever. Each operation ends within the handle's op_timeout_ms, with
 * a result or with FARKV_ETIMEDOUT; farkv_clear() consists of many. A call that first completes
 * requests in flight may take twice as long if these have to wait for the server, and three times
 * if the connection breaks meanwhile. The system's resolution of a host name in farkv_open() has
 * no limit.
 * farkv_submit() and farkv_poll() never wait for the server, a name or a new connection, which
 * a thread of the library makes. Other calls wait for it.
 *
 * Clusters whose map changes (ZooKeeper): a call may wait for three things, op_timeout_ms each: until
 * its key's partition has moved, at its server, and for a lease that covers it; and once more after
 * each change of the map. When a server is away, a call, and farkv_submit() and farkv_poll() too, may
 * ask the others for a newer map: at most every 50 ms, and 0.2 s for each server that does not answer.
 * On any cluster, threads of the library may read and write a batch's keys, values and buffers while
 * the call runs.
 */
#ifndef FARKV_H
#define FARKV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FARKV_MUST_CHECK __attribute__((warn_unused_result))
#else
#define FARKV_MUST_CHECK
#endif

/** The interface version that this header describes. */
#define FARKV_VERSION_MAJOR 0
#define FARKV_VERSION_MINOR 1
#define FARKV_VERSION_PATCH 0

/** The longest key, in bytes; a server may set a lower limit. */
#define FARKV_KEY_MAX 65535u

/**
 * Error numbers. They never change meaning and are grouped by what a caller
 * has to rebuild afterwards.
 */
enum farkv_error {
	FARKV_OK = 0,

	/* The operation ended; handle and store are fine. */
	FARKV_ENOTFOUND = -1000,   /**< no value is stored under the key */
	FARKV_EEXISTS = -1001,     /**< add: the key already has a value */
	FARKV_EVERSION = -1002,    /**< cas, delete_cas: the value has another version */
	FARKV_ENOSPC = -1003,      /**< the region has no memory for value or index */
	FARKV_EINDEXFULL = -1004,  /**< the index cannot grow any further */
	FARKV_ETOOLARGE = -1005,   /**< key or value is over the store's limit */
	FARKV_ETOOSMALL = -1006,   /**< the caller's buffer cannot hold the value */
	FARKV_ETIMEDOUT = -1007,   /**< the deadline passed; nothing was changed */
	FARKV_EMAYBE = -1008,      /**< outcome unknown: it may have happened */
	FARKV_EPERM = -1009,       /**< the session may not do this */
	FARKV_EINVAL = -1010,      /**< an argument is not valid */
	FARKV_ENOMEM = -1011,      /**< this process is out of memory */
	FARKV_EABORTED = -1012,    /**< mget/mput: the item was not attempted */
	FARKV_EAGAIN = -1013,      /**< submit: the queue is full; take completions */
	FARKV_ESTALE = -1014,      /**< borrow: what was read is not certain; read again */

	/* No connection. The next call tries to make a new one; after two attempts in a row that
	 * found no server, not before 0.1 s have passed. */
	FARKV_EDISCONNECTED = -1100, /**< the server is gone, or was restarted
					  without its memory file */
	FARKV_EUNREACHABLE = -1101,  /**< nobody listens at that address */
	FARKV_EREFUSED = -1102,      /**< the server refused the session */
	FARKV_EPROTOCOL = -1103,     /**< the peer does not speak the protocol */
	FARKV_ENOROUTE = -1104,      /**< no way to that host, or no such host */
	FARKV_ELINKDOWN = -1105,     /**< this machine's RDMA port is down */

	/* The store cannot be used. */
	FARKV_EFORMAT = -1200,  /**< region magic, version or checksum is wrong */
	FARKV_ECORRUPT = -1201, /**< stored data fails its checksum for good */
	FARKV_EURI = -1202,     /**< the address is malformed */
	FARKV_ENOTSUP = -1203,  /**< this build or machine cannot do it */
	FARKV_ESYS = -1204      /**< a system call failed; see farkv_errdetail() */
};

/** A handle: one session with one store. */
struct farkv;

/** Open flags. */
enum farkv_open_flags {
	FARKV_OPEN_READONLY = 1u << 0, /**< map the store without write access */
	FARKV_OPEN_LATENCY = 1u << 1   /**< record the latency of calls: farkv_latency() */
};

/**
 * How to open a handle. Fill it with farkv_options_init(), then change what you need. `size`
 * lets programs built against an older header continue to work.
 */
struct farkv_options {
	size_t size;                 /**< sizeof(struct farkv_options) */
	uint32_t flags;              /**< enum farkv_open_flags, or 0 */
	uint32_t connect_timeout_ms; /**< bound on farkv_open(); 0: the default,
					  5000. UINT32_MAX is 49 days: no number
					  means "forever" */
	uint32_t op_timeout_ms;      /**< bound on every operation; likewise */
	const char *name;            /**< shown in the server's log; may be NULL */
	const char *keys;            /**< file with the client's key; only servers that
					  ask for a key are accepted then. NULL: the address's, or
					  $FARKV_KEYS */
	const char *key;             /**< its name in that file; NULL: the
					  address's, or the only one */
	uint32_t cache_entries;      /**< keys whose location the handle caches, which
					  halves the round trips of operations on them; 40
					  bytes each, rounded up to a power of two,
					  allocated at the first use (if out of memory
					  nothing is cached). RDMA only; default 65536,
					  0: none */
	uint32_t queue_depth;        /**< requests that can be in flight, at most
					  4096; 0: 128. No memory is allocated
					  before the first farkv_submit() */
	size_t cache_bytes;          /**< memory for cached values of those keys: a get
					  of one that was not written meanwhile READs only
					  8 bytes. Allocated as it fills, at the second get
					  of a value. RDMA only; default 1 MiB, at least
					  1024 and at most 1 GiB, 0: none */
};

/** A value as farkv_get() returns it. */
struct farkv_value {
	const void *data; /**< the bytes; never NULL after success */
	size_t len;       /**< their number; 0 is a valid value */
	uint64_t version; /**< for farkv_cas() and farkv_delete_cas(); unique for every write */
	uint64_t ttl_ms;  /**< time until it expires, at least 1; 0: it never does */
	uint32_t user;    /**< the user word that it was written with; else 0 */
};

/** How to write a value; set what is not needed to 0. See farkv_write(). */
struct farkv_write_options {
	size_t size;     /**< sizeof(struct farkv_write_options) */
	uint64_t ttl_ms; /**< the value expires after this time; 0: never. At most
			      FARKV_TTL_MAX_MS. Over 24 days it counts in whole seconds */
	uint32_t user;   /**< any number, for the caller: comes back with the value */
	uint32_t flags;  /**< 0 */
};

/** The longest time to live, 68 years. */
#define FARKV_TTL_MAX_MS (UINT64_C(0x7FFFFFFF) * 1000)

/** One item of farkv_mget(). */
struct farkv_get_item {
	const void *key;          /**< in */
	size_t key_len;           /**< in */
	struct farkv_value value; /**< out, valid if result is FARKV_OK */
	int result;               /**< out: FARKV_OK, FARKV_ENOTFOUND, ... */
};

/** One item of farkv_mget_into(). */
struct farkv_get_into_item {
	const void *key;  /**< in */
	size_t key_len;   /**< in */
	void *buf;        /**< in: where the value goes; may be NULL if cap is 0 */
	size_t cap;       /**< in: bytes of `buf` */
	size_t len;       /**< out: the value's length, with FARKV_OK and FARKV_ETOOSMALL */
	uint64_t version; /**< out, valid if result is FARKV_OK */
	int result;       /**< out: FARKV_OK, FARKV_ENOTFOUND, FARKV_ETOOSMALL, ... */
};

/** A value where it lies in the store's memory: farkv_borrow(). */
struct farkv_view {
	struct farkv_value value; /**< out; `data` must not be written */
	uint64_t proof[5];        /**< for farkv_borrow_check() */
};

/** One item of farkv_mput(). */
struct farkv_put_item {
	const void *key;   /**< in */
	size_t key_len;    /**< in */
	const void *value; /**< in; may be NULL if value_len is 0 */
	size_t value_len;  /**< in */
	int result;        /**< out: FARKV_OK, FARKV_ENOSPC, ... */
};

/** A key of farkv_mexists(). */
struct farkv_key {
	const void *key;
	size_t key_len;
};

/** Flags of farkv_incr() and farkv_decr(). */
enum farkv_incr_flags {
	FARKV_INCR_CREATE = 1u << 0 /**< a key without a value gets `initial` */
};

/** How farkv_incr() and farkv_decr() count. Set what is not needed to 0. */
struct farkv_incr_options {
	size_t size;       /**< sizeof(struct farkv_incr_options) */
	uint64_t delta;    /**< what is added or subtracted */
	uint64_t initial;  /**< with FARKV_INCR_CREATE: a new key's number; `delta` is not
				added to it */
	uint64_t ttl_ms;   /**< ... which expires after this time; 0: never. At most
				FARKV_TTL_MAX_MS */
	uint32_t flags;    /**< enum farkv_incr_flags, or 0 */
	uint32_t reserved; /**< 0 */
};

/** One key of farkv_scan(). */
struct farkv_scan_item {
	const void *key;
	size_t key_len;
	size_t value_len;
	uint64_t version;     /**< for farkv_cas() */
	uint64_t ttl_ms;      /**< time until it expires, at least 1; 0: it never does */
	uint64_t reserved;    /**< 0 */
};

/** farkv_scan(): the least that `max` can be. */
#define FARKV_SCAN_MIN 64u

/** Kinds of submitted requests, with the effect of the function of that name. */
enum farkv_request_kind {
	FARKV_REQUEST_GET,
	FARKV_REQUEST_PUT,
	FARKV_REQUEST_ADD,
	FARKV_REQUEST_REPLACE,
	FARKV_REQUEST_CAS,
	FARKV_REQUEST_DELETE,
	FARKV_REQUEST_EXISTS,
	FARKV_REQUEST_DELETE_CAS
};

/** One request for farkv_submit(). Set what is not needed to 0. */
struct farkv_request {
	uint64_t tag;         /**< the caller's; comes back with the completion */
	uint32_t kind;        /**< enum farkv_request_kind */
	uint32_t flags;       /**< 0 */
	const void *key;
	size_t key_len;
	const void *value;    /**< put, add, replace, cas; NULL if value_len is 0 */
	size_t value_len;
	uint64_t expected;    /**< cas, delete_cas: the version that must be there */
	void *buf;            /**< get: where the value goes, as with
				   farkv_get_into(), or NULL */
	size_t buf_len;       /**< get: bytes of `buf` */
	const struct farkv_write_options *options; /**< put, add, replace, cas; NULL: none.
						      Read by farkv_submit() alone */
	uint64_t reserved;    /**< 0 */
};

/** The end of one request. */
struct farkv_completion {
	uint64_t tag;             /**< the request's */
	uint32_t kind;            /**< the request's */
	int result;               /**< as the function of that name returns it */
	struct farkv_value value; /**< get, with FARKV_OK; with FARKV_ETOOSMALL
				       the length is set */
	uint64_t version;         /**< found (get) or written, with FARKV_OK; deletes and
				       exists: 0. If other clients' puts replaced a put's value
				       at once it may never have been visible */
	const char *detail;       /**< NULL with FARKV_OK; otherwise one line: what was
				       wrong, where, what to do. Valid as long as a
				       value without a buffer is */
};

/**
 * Work of a handle since it was opened. Requests are the network card's: over shared memory
 * their counts, from `reads` to `round_trips`, are 0.
 */
struct farkv_counters {
	size_t size;           /**< in: sizeof(struct farkv_counters) */
	uint64_t reads;        /**< READ requests */
	uint64_t writes;       /**< WRITE requests */
	uint64_t cas;          /**< compare-and-swap requests */
	uint64_t read_bytes;   /**< bytes READ */
	uint64_t write_bytes;  /**< bytes WRITTEN */
	uint64_t doorbells;    /**< posts; one post may carry many requests */
	uint64_t round_trips;  /**< times an operation waited for the far side */
	uint64_t retries;      /**< steps of operations that were repeated */
	uint64_t control_msgs; /**< requests sent to the server */
	uint64_t registrations; /**< of memory with the RDMA device */
	uint64_t cache_hits;   /**< operations whose cached location was right */
	uint64_t cache_stale;  /**< ... was outdated by another write */
	uint64_t cache_misses; /**< ... was missing, or not used because others
				    write the key all the time */
	uint64_t cache_values; /**< of the hits: gets with a cached value, too */
};

/** Kinds of calls with a histogram of their own: farkv_latency(). */
enum farkv_latency_kind {
	FARKV_LATENCY_GET,     /**< farkv_get(), farkv_get_into(), farkv_borrow() */
	FARKV_LATENCY_PUT,     /**< farkv_put(), _add(), _replace(), _cas(), _write() */
	FARKV_LATENCY_DELETE,  /**< farkv_delete(), farkv_delete_cas() */
	FARKV_LATENCY_EXISTS,  /**< farkv_exists() */
	FARKV_LATENCY_UPDATE,  /**< farkv_incr(), farkv_decr(), farkv_append(), farkv_prepend() */
	FARKV_LATENCY_MGET,    /**< farkv_mget(), farkv_mget_into(): the call, not an item */
	FARKV_LATENCY_MPUT,    /**< farkv_mput(): likewise */
	FARKV_LATENCY_MEXISTS, /**< farkv_mexists(): likewise */
	FARKV_LATENCY_REQUEST  /**< from farkv_submit() until farkv_poll() or farkv_wait() has
				    returned the request's completion */
};

/** Counters of a histogram. */
#define FARKV_LATENCY_COUNTERS 512u

/** A histogram of times in ns: farkv_latency(). */
struct farkv_latency {
	size_t size;     /**< in: sizeof(struct farkv_latency) */
	uint64_t count;  /**< calls */
	uint64_t errors; /**< ... that failed, other than with FARKV_ENOTFOUND, FARKV_EEXISTS and
			      FARKV_EVERSION */
	uint64_t sum_ns; /**< of all their times */
	uint64_t min_ns; /**< the shortest time; 0 without calls */
	uint64_t max_ns; /**< the longest time */
	/** Calls that took more than farkv_latency_bound(i - 1) and at most farkv_latency_bound(i);
	    in the last one all that took longer, too. */
	uint64_t counters[FARKV_LATENCY_COUNTERS];
};

/** Bytes that farkv_metrics() never exceeds. */
#define FARKV_METRICS_MAX 65536u

#define FARKV_SIZES 25

/** Values of one size that left the store without being deleted or overwritten. */
struct farkv_size_stats {
	uint64_t evictions;     /**< ever */
	uint64_t expired;       /**< expired values freed by the server, ever */
	uint64_t victim_age_ms; /**< as in struct farkv_stats */
};

/** Flags of struct farkv_client. */
enum farkv_client_flags {
	FARKV_CLIENT_RDMA = 1u << 0,     /**< by RDMA; else over shared memory */
	FARKV_CLIENT_READONLY = 1u << 1, /**< it may not write */
	FARKV_CLIENT_SELF = 1u << 2      /**< the session that asks */
};

/** A session of the store: farkv_client_next(). */
struct farkv_client {
	size_t size;      /**< in: sizeof(struct farkv_client) */
	uint64_t session; /**< in: the previous one, 0 at first; out: this one's number */
	uint64_t pid;     /**< its process; 0: on another host, or in another PID namespace */
	uint64_t age_ms;  /**< since it connected */
	uint64_t hits;    /**< gets that found a value; by RDMA as of the last barrier */
	uint64_t misses;  /**< gets that found none */
	uint64_t sets;    /**< values stored */
	uint64_t flags;   /**< enum farkv_client_flags */
	char name[64];    /**< farkv_options.name, perhaps shortened; terminated */
	char peer[80];    /**< "pid 4711" or "192.0.2.7:41234"; terminated */
};

/** The blocks of one size: farkv_class_next(). */
struct farkv_class {
	size_t size;          /**< in: sizeof(struct farkv_class) */
	uint64_t block_bytes; /**< in: the previous one, 0 at first; out: bytes of a block */
	uint64_t out;         /**< blocks with clients or published */
	uint64_t free;        /**< on the server's free lists */
	uint64_t deferred;    /**< in their grace period */
	uint64_t exhausted;   /**< waiting for a barrier */
};

/** A time for which the server did one thing and answered nobody: farkv_pause_next(). */
struct farkv_pause {
	size_t size;      /**< in: sizeof(struct farkv_pause) */
	uint64_t rank;    /**< in: the previous one's, 0 at first; out: 1 for the longest, ... */
	uint64_t ns;      /**< how long it took */
	uint64_t ago_ms;  /**< when it ended, before this call */
	const char *what; /**< "growth", "sweep", "message", ...; never NULL, lives for ever */
};

/** The state of the store, as the server sees it. */
struct farkv_stats {
	size_t size;              /**< in: sizeof(struct farkv_stats) */
	uint64_t uptime_ms;       /**< since the server started */
	uint64_t region_bytes;    /**< size of the region */
	uint64_t heap_bytes;      /**< of which for values and index */
	uint64_t used_bytes;      /**< heap pages in use, index and segments */
	uint64_t index_bytes;     /**< heap pages used by the index */
	uint64_t index_slots;     /**< slots of the index */
	uint64_t subtables;       /**< parts of the index */
	uint64_t items;           /**< keys with a value, at the last scan */
	uint64_t dead_slots;      /**< slots of deleted keys, at that scan */
	uint64_t item_bytes;      /**< block bytes of those items */
	uint64_t blocks_granted;  /**< blocks held by clients or published */
	uint64_t blocks_free;     /**< blocks on the server's free lists */
	uint64_t blocks_deferred;    /**< returned blocks in their grace period */
	uint64_t blocks_exhausted;     /**< exhausted blocks, which wait for a barrier */
	uint64_t sessions;        /**< sessions open now */
	uint64_t sessions_total;  /**< sessions ever opened */
	uint64_t grants;          /**< GRANT messages answered */
	uint64_t hints;           /**< HINT messages answered */
	uint64_t protocol_errors; /**< messages against the rules */
	uint64_t max_value;       /**< longest value, bytes */
	uint64_t max_key;         /**< longest key, bytes */
	uint64_t grace_ns;        /**< grace period T */
	uint64_t index_load_permille; /**< slots in use, of 1000 */
	uint64_t dir_depth;       /**< the directory has 2^depth entries */
	uint64_t dir_doublings;   /**< times that it doubled */
	uint64_t splits;          /**< subtables that became two */
	uint64_t compactions;     /**< subtables rebuilt without deleted keys */
	uint64_t migration_ns;    /**< total time of those */
	uint64_t migration_ns_max; /**< ... and the longest of them */
	uint64_t blocks_live;     /**< blocks that hold an item's value */
	uint64_t blocks_dead;     /**< blocks that stand for a deleted key */
	uint64_t blocks_held;     /**< held by clients: blocks_granted less those */
	uint64_t blocks_swept;    /**< given back for dead clients, ever */
	uint64_t blocks_damaged;  /**< dropped as unreadable, ever */
	uint64_t sweeps;          /**< sweeps for blocks of dead clients, done */
	uint64_t sweep_ns;        /**< duration of the last one */
	uint64_t sweep_deaths;    /**< dead clients, or servers, whose blocks are not back yet */
	uint64_t barriers;        /**< barriers done */
	uint64_t barrier_waits;   /**< sessions that one waits for: they have not
				       answered, or ended without goodbye while
				       their process runs */
	uint64_t retired_bytes;   /**< pages that wait for a barrier */
	uint64_t cpu_ns;          /**< processor time the server has used, before
				       the scan for this answer */
	uint64_t free_bytes;      /**< in blocks_free, of all sizes */
	uint64_t pages_refused;   /**< times that the machine had no memory for
				       pages of the region */
	/* Of all sessions since the server started, by their own account: single calls, items of
	   batches, and requests. A borrow counts as a get, and a touch as the get and the cas that
	   it consists of. Exists and delete do not count. Over RDMA as of a session's last barrier,
	   farkv_stats() or end. */
	uint64_t gets;            /**< hits and misses */
	uint64_t hits;            /**< gets that found a value */
	uint64_t misses;          /**< gets that ended with FARKV_ENOTFOUND */
	uint64_t sets;            /**< put, add, replace, cas, incr, decr, append and prepend
				       that succeeded */
	uint64_t expired;         /**< expired values freed by the server, ever */
	uint64_t saves;           /**< snapshots that the server has saved (kvserver --save) */
	uint64_t saves_failed;    /**< ... and could not save */
	uint64_t saved_at_ms;     /**< when the last good one began, ms since 1970; 0: never */
	/* With kvserver --when-full evict, otherwise 0. */
	uint64_t evictions;       /**< keys that left to make room, ever */
	uint64_t evicted_bytes;   /**< of their blocks */
	uint64_t moves;           /**< values moved so that others of another size
				       find room, ever */
	uint64_t cache;           /**< 1: the server evicts */
	uint64_t victim_age_ms;   /**< of the key that was evicted last: at least so
				       long before, it was put or last seen in use; of a
				       cluster the smallest */
	/** The same by block size: sizes[i] is of blocks of 2^(i+6) bytes to less than twice as
	    many. */
	struct farkv_size_stats sizes[FARKV_SIZES];
	uint64_t followers;       /**< servers that have a whole copy of what this one has, and
				       go on copying: 0 or 1; of a cluster the sum */
	uint64_t follower_lag_ms; /**< how old that copy is at most: since the begin of the
				       last pass that it has applied; 0 without one; of a
				       cluster the largest */
};

/** Results of farkv_fsck(). */
struct farkv_fsck {
	size_t size;            /**< in: sizeof(struct farkv_fsck) */
	uint64_t duration_ns;   /**< duration of the check */
	uint64_t subtables;     /**< parts of the index checked */
	uint64_t items;         /**< keys with a value */
	uint64_t dead_slots;    /**< slots of deleted keys */

	/* Where the bytes are. live and dead are part of out. */
	uint64_t meta_bytes;    /**< superblock and directory */
	uint64_t index_bytes;   /**< subtables */
	uint64_t live_bytes;    /**< blocks of items */
	uint64_t dead_bytes;    /**< blocks that stand for deleted keys */
	uint64_t out_bytes;     /**< blocks held by clients or published */
	uint64_t deferred_bytes;   /**< ... in their grace period */
	uint64_t exhausted_bytes;    /**< ... exhausted, waiting for a barrier */
	uint64_t free_bytes;    /**< ... that are free */
	uint64_t slack_bytes;   /**< of segments, too short for a block */
	uint64_t retired_bytes; /**< pages that wait for a barrier */
	uint64_t unused_bytes;  /**< free pages */
	uint64_t region_bytes;  /**< all of it */

	/* Blocks that are out but not in the index. */
	uint64_t blocks_held;   /**< held by clients */
	uint64_t blocks_leaked; /**< held by nobody: given back now */
	uint64_t bytes_leaked;  /**< their bytes */

	/* Problems. Each counts occurrences; all 0 means that nothing is wrong. */
	uint64_t bad_directory; /**< impossible entries of the directory */
	uint64_t bad_empty;     /**< EMPTY words of another generation */
	uint64_t bad_words;     /**< slots that name no block in use */
	uint64_t damaged;       /**< slots whose block fails its checksum */
	uint64_t shared;        /**< slots whose block has other content */
	uint64_t misplaced;     /**< keys in a slot where no lookup finds them */
	uint64_t behind_empty;  /**< keys after an EMPTY slot of their window */
	uint64_t duplicates;    /**< keys that have two slots */
	uint64_t bad_sums;      /**< sums of the accounting that differ */
	uint64_t first_page;    /**< page of the first slot with a problem */
	uint64_t first_slot;    /**< its number there */

	/* Whether held and leaked blocks could be told apart. */
	uint64_t undecided;      /**< enum farkv_fsck_undecided */
	uint64_t silent_session; /**< session that did not answer */
	uint64_t silent_pid;     /**< its process; 0 if that is on another machine
				    or in another pid namespace */
	uint64_t expired;        /**< of the items: expired, and not freed yet */
};

/** One server of a store: farkv_server(). */
struct farkv_server {
	size_t size;          /**< in: sizeof(struct farkv_server) */
	const char *name;     /**< in the cluster's map; "" without a cluster */
	const char *address;  /**< where it is */
	uint64_t partitions;  /**< how many of the 4096 it has */
	uint64_t epoch;       /**< of the map; 0 without a cluster */
	struct farkv *handle; /**< reaches this server alone */
	const char *follower; /**< the server that has a copy of what it has; "" if none has */
	uint64_t moving;      /**< how many partitions are to move from it to other servers */
};

/** Why a check could not tell held blocks from leaked ones. */
enum farkv_fsck_undecided {
	FARKV_FSCK_DECIDED = 0,
	FARKV_FSCK_SILENT = 1, /**< a session does not answer */
	FARKV_FSCK_GHOST = 2,  /**< a session ended without goodbye, and its
				    process still maps the region */
	FARKV_FSCK_BUSY = 3    /**< clients die faster than it can look */
};

/**
 * Fill `o`, whose size the caller knows as `size`, with the defaults; fields unknown to this
 * library are zeroed. No effect if `o` is NULL, or if `size` does not
 * even cover the field of that name.
 */
void farkv_options_init_sized(struct farkv_options *o, size_t size);

/** The same with the program's struct. For C; the function of this name fills all that the
 * library knows, which may exceed the struct of a program that was built earlier. */
void farkv_options_init(struct farkv_options *o);
#define farkv_options_init(o) farkv_options_init_sized((o), sizeof(struct farkv_options))

/**
 * Open a handle on the store at `uri`.
 *
 * `uri` is "shm:///path/to/socket?keys=FILE&key=NAME", a plain path with a '/' in it, or
 * "kv://host:port?keys=FILE&key=NAME&ack-timeout=N&tos=N" for RDMA, where only the host or
 * path is required (kvserver(8) explains the rest). NULL means $FARKV_URI if set, otherwise
 * the socket at which kvserver listens by default: the first of
 * $XDG_RUNTIME_DIR/farkv/kvserver.sock, /run/farkv/kvserver.sock and
 * /tmp/farkv-UID/kvserver.sock with a server. `opts` may be NULL for the defaults; it is not
 * kept. Relative paths, of the socket and of a key file, are resolved from the current working
 * directory, at each connection: a program that calls chdir(2) gives absolute ones.
 *
 * Several kvservers can be one store, a cluster (doc/cluster.md): `uri` is then the address of any
 * of its servers, or several with commas between them, of which one must answer; "kv://a,b:port" is
 * short for hosts that share what follows. The handle reaches every key by the same calls. An error
 * of a server names it, and concerns its keys alone.
 *
 * On success *kv_out is the handle, to be ended by farkv_close(). On failure *kv_out is not
 * touched and nothing stays open.
 *
 * Errors: FARKV_EURI (malformed address), FARKV_EUNREACHABLE (no server there),
 * FARKV_ENOROUTE (no such host, or no RDMA way to it), FARKV_ELINKDOWN, FARKV_ENOTSUP (no RDMA
 * here), FARKV_EPROTOCOL (another program listens there), FARKV_EREFUSED (the server refused;
 * the detail gives its reason), FARKV_EFORMAT (incompatible region), FARKV_EPERM (file modes,
 * or the key), FARKV_EDISCONNECTED (the server left meanwhile), FARKV_ETIMEDOUT,
 * FARKV_ENOMEM, FARKV_ESYS.
 *
 * The first handle of a process starts its control thread. Other threads reconnect, and carry out calls
 * on several servers of a cluster (at most 15 for a handle, until it is closed). All of them block the
 * signals that a thread does not raise by a fault of its own. Blocks up to connect_timeout_ms.
 */
int farkv_open(const char *uri, const struct farkv_options *opts,
	       struct farkv **kv_out) FARKV_MUST_CHECK;

/**
 * Return all memory that the handle holds to the server and free the handle. NULL is allowed.
 * Waits for requests that the network card executes, at most op_timeout_ms, and then at most
 * one second for the server's answer. Values returned by farkv_get() and farkv_mget() on this
 * handle become invalid.
 *
 * Requests in flight end without completions: those that have reached the store are completed,
 * the others are not executed; the caller cannot tell which. Their keys, values and buffers
 * are the caller's again.
 *
 * On a handle that is not open (already closed), or on which a call is running, nothing is
 * done; farkv_errdetail() says so. A closed handle is not recognized if a new one was opened
 * at its address.
 */
void farkv_close(struct farkv *kv);

/**
 * Read the value of a key.
 *
 * On success *value_out describes the value in memory of the handle: it is valid until the end
 * of the next call on this handle, and must not be written or freed. So it may be a key or a
 * value of that call, but not of a request of farkv_submit(), which outlasts the call.
 *
 * Errors: FARKV_ENOTFOUND, FARKV_ETOOLARGE (key), FARKV_EINVAL (empty key),
 * FARKV_ECORRUPT, FARKV_EFORMAT (the directory is damaged), FARKV_ETIMEDOUT,
 * FARKV_EDISCONNECTED, FARKV_ELINKDOWN, FARKV_EPERM (the device refused the read),
 * FARKV_ENOMEM.
 * Linearizable per key. Cost: 1 round trip for a key with a cached location; otherwise 2 for a
 * hit, 1 for a miss. Over shared memory nothing leaves the machine.
 */
int farkv_get(struct farkv *kv, const void *key, size_t key_len,
	      struct farkv_value *value_out) FARKV_MUST_CHECK;

/**
 * Read the value of a key into the caller's buffer of `cap` bytes.
 *
 * *len_out is the value's length. It is also set with FARKV_ETOOSMALL.
 * `version_out` may be NULL; `buf` may be NULL if cap is 0.
 * Other errors and cost as farkv_get().
 *
 * Values of 4 KiB and more are written to `buf` directly, without a copy, if all its `cap` bytes
 * lie in a buffer of farkv_buf_alloc() or in one range of farkv_buf_register() of this handle;
 * over shared memory in any memory. So the content of `buf` after the value, and after an error,
 * is undefined.
 */
int farkv_get_into(struct farkv *kv, const void *key, size_t key_len, void *buf,
		   size_t cap, size_t *len_out,
		   uint64_t *version_out) FARKV_MUST_CHECK;

/**
 * Ask whether a key has a value: FARKV_OK, or FARKV_ENOTFOUND. The value is not read, so nothing
 * is said of its integrity: only a get verifies it.
 *
 * Errors: those of farkv_get() (FARKV_ECORRUPT: the stored key is damaged).
 * Linearizable per key. Cost: 1 round trip for a key with a cached location, which READs 8 bytes,
 * and header and key too if the value expires; 2 if another client has written it since.
 * Otherwise 2 if the key has a value, which READ the window and the value's header and key, and 1
 * if not. The next operation on the key finds its location cached, but its value is not.
 */
int farkv_exists(struct farkv *kv, const void *key,
		 size_t key_len) FARKV_MUST_CHECK;

/**
 * Ask for `n` keys together which have a value, as farkv_exists() does for one.
 *
 * `bitmap` is the caller's, of (n + 7) / 8 bytes: bit i % 8 of bitmap[i / 8] is 1 if key i has a
 * value, and the bits after the last key are 0. *prefix_out is the number of keys with a value from
 * the first on: the first bit that is 0, or n. Either may be NULL. The keys are asked in parallel
 * and linearized one by one, not as a transaction.
 *
 * Returns 0 if every key was answered, otherwise the error of the first one that was not. Bitmap
 * and prefix are written also then, unless the handle is in use by another call, and say of such a
 * key that it has no value. FARKV_ETIMEDOUT,
 * FARKV_EDISCONNECTED, FARKV_ELINKDOWN and FARKV_ENOMEM end the call, as for farkv_mget(): the keys
 * after that group of 128 were not asked.
 * Cost: for each 128 keys the round trips of the key that needs most, 1 or 2.
 */
int farkv_mexists(struct farkv *kv, const struct farkv_key *keys, size_t n,
		  uint8_t *bitmap, size_t *prefix_out) FARKV_MUST_CHECK;

/**
 * Store a value under a key, whether or not the key had one before.
 *
 * Key and value must not be changed until the call returns. A value of 4 KiB and more in memory
 * of farkv_buf_alloc() or farkv_buf_register() of this handle is sent without a copy. Errors:
 * FARKV_ETOOLARGE, FARKV_EINVAL, FARKV_EPERM (read-only handle), FARKV_ENOSPC, FARKV_EINDEXFULL,
 * FARKV_ETIMEDOUT, FARKV_EDISCONNECTED, FARKV_ELINKDOWN, FARKV_EMAYBE, FARKV_ECORRUPT (the
 * current value cannot be read; if its key can, over shared memory, it is replaced),
 * FARKV_EFORMAT (the directory is damaged), FARKV_ENOMEM.
 * After every error but FARKV_EMAYBE the old value remains.
 * FARKV_ENOSPC: the server answered and has no memory for the value, or to enlarge the index
 * for a new key, or none that becomes usable before the deadline; the detail says how much is
 * free in other sizes. FARKV_EINDEXFULL: the index has reached the largest possible size.
 * FARKV_ETIMEDOUT: the server did not answer in time.
 * Cost: 1 round trip for a key with a cached location, or a new key with a cached window (which
 * a get that missed leaves); otherwise 3 for an existing key, 2 for a new one.
 * Messages to the server, for which the call does not wait: occasionally a request for new
 * blocks, before those of this size run out, a message that returns many replaced blocks, and
 * one when the key's part of the index is nearly full. Without a block, or if the window is
 * full, the call waits for the answer.
 * If others put the same key at the same moment over shared memory, the call may spin for some
 * microseconds, and from another chip for half a millisecond at most, to take effect directly
 * before one of theirs: then it has written nothing.
 */
int farkv_put(struct farkv *kv, const void *key, size_t key_len,
	      const void *value, size_t value_len) FARKV_MUST_CHECK;

/** Like farkv_put(), but FARKV_EEXISTS if the key has a value. */
int farkv_add(struct farkv *kv, const void *key, size_t key_len,
	      const void *value, size_t value_len) FARKV_MUST_CHECK;

/**
 * Like farkv_put(), but FARKV_ENOTFOUND if the key has no value. With a cached location 2 round
 * trips if the value there expires, 3 if another client has written it since.
 */
int farkv_replace(struct farkv *kv, const void *key, size_t key_len,
		  const void *value, size_t value_len) FARKV_MUST_CHECK;

/**
 * Store a value if the key's value still has the version `expected`, which a
 * get returned. *version_out, if not NULL, is the version of the new value.
 *
 * Errors: FARKV_EVERSION (another write came first), FARKV_ENOTFOUND (no value), and those of
 * farkv_put(). Cost: 1 round trip with a cached location, 2 if the value there expires or another
 * client has written it since; otherwise 3.
 */
int farkv_cas(struct farkv *kv, const void *key, size_t key_len,
	      const void *value, size_t value_len, uint64_t expected,
	      uint64_t *version_out) FARKV_MUST_CHECK;

/**
 * Execute one request of a put, add, replace or cas, with its options, as the function of that
 * name does; `tag`, `buf` and `buf_len` are ignored. *version_out, if not NULL, is the version
 * of the new value.
 *
 * Expiry. A value whose time is over is absent for every call, as if it had been deleted. Times
 * are those of the region's clock, which the server advances every 10 ms: a get returns no value
 * later than 20 ms after its time, as long as the server runs. While the server is stopped
 * the clock stands still for all clients, and no value expires. The time to live counts from the
 * call; a value may expire 10 ms early. A replace, cas or delete decides by the value that it
 * finds: if that expires before the write is done, the write is done nevertheless.
 * The server frees expired values by itself, within some seconds.
 *
 * Errors: those of the function of that name, and FARKV_EINVAL for another kind, or options that
 * are not valid. Cost: that of the function; by RDMA one round trip more for the first value
 * with a time to live, and if none was written for a second. The first one after the server has
 * started waits for an answer of the server.
 */
int farkv_write(struct farkv *kv, const struct farkv_request *req,
		uint64_t *version_out) FARKV_MUST_CHECK;

/**
 * Give the key's value a new time to live, `ttl_ms` from now on; 0: it never expires.
 *
 * The value is written again, under a new version, unless someone else writes it meanwhile; then
 * the new value gets the time to live. A value that has between 7/8 of `ttl_ms` and all of it
 * left is not written, so that touching often costs no more than reading.
 *
 * Errors: FARKV_ENOTFOUND (no value), and those of farkv_get() and farkv_cas() except
 * FARKV_EVERSION. Cost: that of farkv_get(), and if it writes that of farkv_cas().
 */
int farkv_touch(struct farkv *kv, const void *key, size_t key_len,
		uint64_t ttl_ms) FARKV_MUST_CHECK;

/**
 * farkv_get() and farkv_touch() in one: *value_out is the value, with its new version and time; it
 * belongs to the handle as that of farkv_get(). Errors and cost as farkv_touch().
 */
int farkv_get_touch(struct farkv *kv, const void *key, size_t key_len, uint64_t ttl_ms,
		    struct farkv_value *value_out) FARKV_MUST_CHECK;

/**
 * Remove a key and its value. Needs no memory, so it works in a full store.
 * Errors: FARKV_ENOTFOUND and those of farkv_put() except FARKV_ENOSPC and FARKV_EINDEXFULL.
 * Cost: 1 round trip with a cached location, 2 if the value there expires; otherwise 3.
 */
int farkv_delete(struct farkv *kv, const void *key,
		 size_t key_len) FARKV_MUST_CHECK;

/**
 * Remove a key and its value if the value still has the version `expected`, which a get returned:
 * what is removed is what was read. Needs no memory.
 * Errors: FARKV_EVERSION (another write came first), and those of farkv_delete(). Cost: that of
 * farkv_delete(), 2 round trips with a cached location if the value there expires or another client
 * has written it since.
 */
int farkv_delete_cas(struct farkv *kv, const void *key, size_t key_len,
		     uint64_t expected) FARKV_MUST_CHECK;

/**
 * Add to the number that is a key's value. The value is text, as memcached has it: decimal digits
 * of a number below 2^64, which blanks may follow. What is written are the digits alone, so the
 * length follows the number. A sum wraps at 2^64.
 *
 * `opts` may be NULL: add 1, and the key must have a value. *value_out, if not NULL, is the new
 * number. A value that is there keeps its time to live and its user word.
 *
 * A get and a farkv_cas(), repeated after a random delay of some microseconds as long as other
 * writes come in between: linearizable, and no increment is lost or counted twice.
 * Errors: FARKV_ENOTFOUND (no value, without FARKV_INCR_CREATE), FARKV_EINVAL (the value is no
 * such number, or an option is wrong), FARKV_ETIMEDOUT (also: others wrote the key between each
 * get and its cas until op_timeout_ms had passed), FARKV_EMAYBE (the connection broke: it was
 * counted once or not at all), and those of farkv_put(). After every error but FARKV_EMAYBE the
 * old value remains.
 * Cost: that of a get and a cas, for each attempt: 2 round trips with a cached location. A new key:
 * that of a get that misses and an add.
 */
int farkv_incr(struct farkv *kv, const void *key, size_t key_len,
	       const struct farkv_incr_options *opts,
	       uint64_t *value_out) FARKV_MUST_CHECK;

/** Like farkv_incr(), but subtract; the number stops at 0. */
int farkv_decr(struct farkv *kv, const void *key, size_t key_len,
	       const struct farkv_incr_options *opts,
	       uint64_t *value_out) FARKV_MUST_CHECK;

/**
 * Add `data_len` bytes at the end of a key's value, which must exist (FARKV_ENOTFOUND).
 *
 * The value keeps its time to live and its user word. A get and a cas as in farkv_incr(), with its
 * errors and cost; FARKV_ETOOLARGE if the whole value would exceed the store's limit, before `data`
 * is read. Otherwise allocates the whole value's length for the time of the call. `data` may be
 * NULL if data_len is 0.
 */
int farkv_append(struct farkv *kv, const void *key, size_t key_len,
		 const void *data, size_t data_len) FARKV_MUST_CHECK;

/** Like farkv_append(), but at the beginning of the value. */
int farkv_prepend(struct farkv *kv, const void *key, size_t key_len,
		  const void *data, size_t data_len) FARKV_MUST_CHECK;

/**
 * Allocate `bytes` (not 0) for values that farkv_get_into() and the calls that write transfer
 * without a copy: registered with the RDMA device once, in huge pages if available. Contents are
 * undefined. The buffer is aligned to 4 KiB if `bytes` are whole pages, otherwise to 64; no two
 * buffers share a line of 64 bytes.
 *
 * In a program with jemalloc 5 (linked or preloaded; libfarkv built with its header) small
 * buffers share pages: they come from an arena of the handle, which the program must not use and
 * which ends with the handle. Without jemalloc buffers are whole pages, so allocate few and use
 * them again.
 *
 * *buf_out belongs to the handle and is valid until farkv_buf_free() or farkv_close(); a new
 * connection registers it again. It may be used in any way, also by other threads and handles,
 * for which it is ordinary memory. Its pages belong to the library: after munmap(), mremap(),
 * madvise() or mmap() on them the device still uses the old ones. A child of fork() does not
 * have the contents and must not use the memory. Freed memory stays registered for later buffers
 * of this handle.
 *
 * Errors: FARKV_EINVAL, FARKV_ENOMEM (also: the limit of locked memory), FARKV_ESYS,
 * FARKV_EDISCONNECTED (an inherited handle). No message, no round trip.
 */
int farkv_buf_alloc(struct farkv *kv, size_t bytes,
		    void **buf_out) FARKV_MUST_CHECK;

/**
 * Free a buffer, of which no request in flight may make use. No effect if `buf` is NULL or not the start
 * of a buffer in use of this handle, nor in a child of fork() with an inherited handle. For the handle's
 * thread. No round trip.
 */
void farkv_buf_free(struct farkv *kv, void *buf);

/**
 * Register `len` bytes of the program's own memory at `ptr`, so that values of 4 KiB and more come
 * to it and go from it without a copy, as with farkv_buf_alloc(): by farkv_get_into(),
 * farkv_mget_into(), requests with `buf`, and all calls that write. Any mapped memory: of
 * malloc(3), mmap(2), huge pages; no alignment is needed. Memory that may only be read can be the
 * source of writes. A value that is not in one range as a whole is copied.
 *
 * The memory stays the program's. It must stay mapped, with the same pages, until
 * farkv_buf_unregister() or farkv_close(): the device pins its pages, and after munmap(2),
 * mremap(2) or madvise(MADV_DONTNEED) it would continue to use those. Nothing is registered or
 * remembered on the library's own account. A new connection registers the range again; if the
 * device then refuses, values are copied, as they are by a device without scatter and gather.
 * Several handles may register the same memory. Each lookup compares ranges one by one: register
 * few large ones, once.
 *
 * Over shared memory the range is only recorded, after the same checks for unmapped pages and
 * overlaps; every farkv_get_into() is direct there. Memory that is mapped without access (PROT_NONE)
 * only the device refuses.
 *
 * fork(2): registration belongs to the parent's handle. Before Linux 5.12 the parent's first write
 * to a page after a fork moves it away from the device: exclude the memory from children there
 * (MADV_DONTFORK).
 *
 * Errors: FARKV_EINVAL (NULL, no bytes, not mapped, or overlaps a range of this handle or its
 * memory for buffers, in use or freed: that stays registered and the library's),
 * FARKV_ENOMEM (also: the limit of locked memory, ulimit -l), FARKV_ESYS (the device cannot
 * register this memory), FARKV_EDISCONNECTED (an inherited handle). No message, no round trip, but
 * the kernel pins page by page: not for the path of an operation.
 */
int farkv_buf_register(struct farkv *kv, void *ptr, size_t len) FARKV_MUST_CHECK;

/**
 * End the registration of the range that begins at `ptr`, which is then the program's to unmap.
 * Requests in flight are completed first, and their completions stay, as with every call.
 *
 * Errors: FARKV_EINVAL (no range of this handle begins there), FARKV_EDISCONNECTED (an inherited
 * handle).
 */
int farkv_buf_unregister(struct farkv *kv, void *ptr) FARKV_MUST_CHECK;

/**
 * Read `n` keys together; each item has its own result. The values belong to the handle until
 * the end of the next call on it, as that of farkv_get(). The items are executed in parallel and
 * linearized one by one, not as a transaction.
 *
 * Memory: the handle keeps up to 256 KiB of buffers for batches and requests. If they needed
 * more, it keeps up to 8 MiB of that for the next ones until it is closed; what exceeds 8 MiB
 * is freed by the next call.
 *
 * Returns 0 if every item has a result (FARKV_OK or FARKV_ENOTFOUND among
 * them), otherwise the first other item's error. FARKV_ETIMEDOUT, FARKV_EDISCONNECTED,
 * FARKV_ELINKDOWN and FARKV_ENOMEM of an item end the call, with that group of 128: those
 * after it, and all if no item was begun (there is no connection), carry FARKV_EABORTED.
 * Cost: 2 round trips for each 128 items, 1 if the locations of all are cached; the
 * values of all groups but the last are copied once more.
 */
int farkv_mget(struct farkv *kv, struct farkv_get_item *items,
	       size_t n) FARKV_MUST_CHECK;

/**
 * Read `n` keys together, each into its item's buffer, as by farkv_get_into(). Buffers must not
 * overlap each other, nor (other than there) any key of the call, because a value may arrive while
 * keys are still in use. Values of 4 KiB and more come directly to memory of
 * farkv_buf_alloc() and farkv_buf_register(); over shared memory to any memory.
 *
 * Returns as farkv_mget(); FARKV_ETOOSMALL of an item, whose `len` is set, is an error of that item
 * alone. Cost: round trips as farkv_mget().
 */
int farkv_mget_into(struct farkv *kv, struct farkv_get_into_item *items,
		    size_t n) FARKV_MUST_CHECK;

/**
 * Find the value of a key and return where it lies in the store's memory, without copying or
 * reading it. Over shared memory only.
 *
 * Another client may replace the value at any moment, and after a grace period its memory holds
 * something else. So the caller reads view_out->value.data, uses no result of that yet, and calls
 * farkv_borrow_check(): 0 means that each byte was the value's at each moment in between. Any
 * number of views may be open. Nothing is counted or locked: a view that is dropped, or whose
 * program is killed, delays no other client.
 *
 * A value that expires after farkv_borrow() returned it may be used until the check.
 *
 * Header and key are verified, value and user word are not: that would read all of it.
 * (farkv_get() verifies a checksum.) On a handle that was opened read-only the CPU refuses writes to
 * the value; on others the program must not write, which would damage the store.
 *
 * The memory stays mapped until farkv_close(), or until a call or completion returns
 * FARKV_EDISCONNECTED. A child of fork() does not have it.
 *
 * Errors: FARKV_ENOTSUP (the store is reached by RDMA), FARKV_ESTALE (the key's part of the index
 * is being rebuilt: use farkv_get_into(), or try again), and those of farkv_get(). Linearizable.
 * Nothing leaves the machine.
 */
int farkv_borrow(struct farkv *kv, const void *key, size_t key_len,
		 struct farkv_view *view_out) FARKV_MUST_CHECK;

/**
 * Tell whether all that was read of a view, since farkv_borrow() returned it, was the value.
 *
 * 0: it was. The key has kept the value, or it was replaced and less than half of the grace period
 * T has passed since farkv_borrow() (kvserver --grace-ms; time does not count on a server whose
 * writers come by RDMA).
 * FARKV_ESTALE: what was read may be something else and must not be used. The value was replaced,
 * its part of the index was rebuilt, or the server has reclaimed memory.
 * A view can be checked several times.
 *
 * Errors: FARKV_ESTALE; FARKV_EINVAL (no view of this handle: also one of a closed handle, whose
 * memory is gone); FARKV_EDISCONNECTED,
 * FARKV_ETIMEDOUT, FARKV_ELINKDOWN, FARKV_ENOMEM. No message; 0 takes two loads of shared memory.
 */
int farkv_borrow_check(struct farkv *kv, const struct farkv_view *view) FARKV_MUST_CHECK;

/**
 * Store `n` values together, each as by farkv_put(); if a key occurs twice the later item wins.
 * Returns 0 if all were stored, otherwise the error of the first failed item, or the one that
 * concerns all (a read-only handle, no connection).
 * FARKV_ETIMEDOUT, FARKV_EMAYBE, FARKV_EDISCONNECTED, FARKV_ELINKDOWN or FARKV_ENOMEM of an item
 * ends the call, as for farkv_mget(); items not attempted get FARKV_EABORTED.
 * Cost per 128 items: the round trips of the item that needs most, 1 to 3 (farkv_put()); a key
 * that occurs twice begins a new group.
 */
int farkv_mput(struct farkv *kv, struct farkv_put_item *items,
	       size_t n) FARKV_MUST_CHECK;

/**
 * Submit `n` requests, to be executed in parallel with all others in flight. Does not wait, and
 * does not reconnect. (By RDMA this call and farkv_poll() read the directory again after the
 * index has changed its shape: two round trips, for which they spin. A device that does not
 * answer may hold them until the deadline. In a cluster whose map has changed it first completes what
 * is in flight by the older one. While the partition of the first key moves to another server, and
 * nothing is in flight, it waits for that.)
 *
 * The structs are copied; key, value and buffer stay the caller's and must not be changed until
 * farkv_poll() or farkv_wait() has returned the request's completion, or the handle is closed.
 * The deadline of each request is op_timeout_ms from now: one that no poll has begun by then ends
 * with FARKV_ETIMEDOUT, without effect.
 *
 * Requests in flight have no order: two with one key are as two of different clients. For an
 * order, submit the second when the first is complete.
 *
 * Returns how many were accepted, from the first on: n, or fewer if the queue is full, the next
 * request is malformed, or its key's partition is moving to another server. If none was accepted:
 * FARKV_EAGAIN (full, or the first key's partition is moving: take completions),
 * FARKV_EINVAL (kind, flags or reserved fields, or `buf` is NULL with a length),
 * FARKV_EDISCONNECTED (a child of fork()), FARKV_ENOMEM (only at the first call), FARKV_ETIMEDOUT (the
 * first key's partition does not get to its new server). All other errors
 * are reported by the request's completion.
 *
 * Cost: over shared memory only memory accesses, and the next poll executes the requests; by
 * RDMA one doorbell for all.
 */
int farkv_submit(struct farkv *kv, const struct farkv_request *reqs,
		 size_t n) FARKV_MUST_CHECK;

/**
 * Take the completions of up to `max` requests. Advances all requests in flight as far as
 * possible without waiting. If the connection has broken, a thread makes a new one: until then
 * requests wait, each until its own deadline, and polls return at once; if no server listens, or
 * it refuses, they end with FARKV_EDISCONNECTED. Polling in a tight loop burns a CPU, except for
 * an occasional sched_yield(2) while all requests wait for the server; use farkv_wait() to block.
 *
 * Values of gets without a buffer belong to the handle until the end of the next call on it,
 * except farkv_submit(), farkv_in_flight() and farkv_event_fd(), as that of farkv_get(). So do
 * the completions' lines (`detail`). A poll ends them when it begins.
 *
 * Returns how many were taken, 0 if no request is complete; FARKV_EINVAL, FARKV_EDISCONNECTED (a
 * child of fork()). Each completion reports its request's failure with its own line;
 * farkv_errdetail() describes the last one taken.
 *
 * Poll while requests are in flight: the server cannot reuse memory that they may be reading,
 * and waits for them as for a stopped process.
 */
int farkv_poll(struct farkv *kv, struct farkv_completion *completions,
	       size_t max) FARKV_MUST_CHECK;

/**
 * As farkv_poll(), but if no request is complete, wait until one is, none is in flight, or
 * `timeout_ms` have passed; with 0 it is farkv_poll(). Results and errors as that. By RDMA it spins, as
 * all calls do; a cluster's handle looks once a millisecond while all requests wait for their servers.
 */
int farkv_wait(struct farkv *kv, struct farkv_completion *completions, size_t max,
	       uint32_t timeout_ms) FARKV_MUST_CHECK;

/** Requests submitted whose completions have not been taken. No cost; 0 for NULL, and in a
 * child of fork(). */
size_t farkv_in_flight(const struct farkv *kv);

/**
 * A descriptor to wait on with poll(2), epoll(7) and the like: readable while the next
 * farkv_poll() would complete or advance requests. So a program that repeats
 *
 *	wait until it is readable; farkv_poll(), until that returns 0
 *
 * sleeps while there is nothing to do and misses no event: answers of the far side, a block or an
 * answer of the server, a deadline, a connection that breaks or is restored. It is
 * level-triggered: EPOLLET would miss what is left after a poll. farkv_poll() then reports the
 * results. Sometimes it is readable without need; the next farkv_poll() returns 0 and ends that.
 *
 * Returns the descriptor, always the same, also after a reconnect. It belongs to the handle and
 * is closed by farkv_close(): it must not be read, written or closed. Any thread may wait on it;
 * this call and farkv_poll() are for the handle's thread. Does not connect. Errors:
 * FARKV_EINVAL, FARKV_ESYS (out of descriptors), FARKV_ENOMEM, FARKV_EDISCONNECTED (a child of
 * fork()).
 *
 * When the connection breaks it becomes readable even if no request is in flight; farkv_poll()
 * then returns 0, and the next request reconnects. In a child of fork() the inherited descriptor
 * is always readable, so that no thread waits in vain for a handle that only returns
 * FARKV_EDISCONNECTED; but an epoll(7) set made before the fork still watches the parent's.
 *
 * Cost: four descriptors from the first call on. From then on farkv_submit(), farkv_poll() and
 * farkv_wait() make system calls when they leave requests in flight: one or two over shared
 * memory, up to three by RDMA. The call that takes the last completion makes one, too, to clear
 * the descriptor. A handle without a descriptor pays nothing, but every RDMA connection has a
 * completion channel, one more descriptor.
 */
int farkv_event_fd(struct farkv *kv) FARKV_MUST_CHECK;

/**
 * List the keys of the store, some with each call:
 *
 *	uint64_t cursor = 0;
 *	do {
 *		err = farkv_scan(kv, &cursor, SIZE_MAX, &items, &n);
 *		... items[0] to items[n - 1]
 *	} while (!err && cursor);
 *
 * *cursor is 0 before the first call and 0 again after the last. In between it is a position in this
 * store that any of its handles can go on from, as long as the server is not restarted: the store of
 * a restarted server is another one, and a cursor from before would pass over keys of it, which no
 * call can tell. So after FARKV_EDISCONNECTED, from any call on the handle, begin at 0 again. *n_out
 * can be 0 before the end.
 *
 * A key that has a value during the whole scan is listed exactly once, whatever is written
 * meanwhile and however the index grows. A key that comes or goes during the scan is listed once
 * or not at all. Length and version are those that the value had at a moment during the call. The
 * order is that of the keys' hashes, which means nothing to a program.
 *
 * A call lists the keys of one part of the index, at most 4096 and 8 MiB of keys, and at most
 * `max` (FARKV_SCAN_MIN or more, because keys of one position stay together). It looks at all of
 * the part even if `max` is small: use SIZE_MAX unless there is a reason.
 *
 * The array and the keys belong to the handle and are valid until the next farkv_scan(),
 * farkv_clear() or farkv_close() on it; other calls leave them alone, so a loop may get or delete
 * each key. Memory: 600 KiB from the first call until farkv_close(), more for keys of over 100
 * bytes.
 *
 * Errors: FARKV_EINVAL, FARKV_ETIMEDOUT, FARKV_EDISCONNECTED, FARKV_ELINKDOWN, FARKV_EPERM (the
 * device refused the read), FARKV_ENOMEM, FARKV_EFORMAT (the directory is damaged); the cursor is
 * unchanged, and the call may be repeated (after FARKV_EDISCONNECTED from 0 on). FARKV_ECORRUPT: some
 * keys of this part cannot be read; the others are in the array, the cursor has gone on, and the scan
 * may, too. Of a cluster one server after another; FARKV_ENOTSUP: so many keys have nearly the same
 * hash that its cursor, which has 6 bits less for that, cannot tell them apart.
 * Cost: 1 round trip, and 1 for each 128 keys of the part, of which a large store has 1500 to 3000.
 * Over shared memory nothing leaves the machine.
 */
int farkv_scan(struct farkv *kv, uint64_t *cursor, size_t max,
	       const struct farkv_scan_item **items_out, size_t *n_out) FARKV_MUST_CHECK;

/**
 * Remove all keys: a scan whose keys are deleted.
 *
 * Keys that had a value when the call began and were not written since are gone afterwards. A key
 * that others write meanwhile has the value of such a write, or none. If the call
 * fails, or the program ends, some keys are gone and the others untouched; call it again.
 * *deleted_out, if not NULL, is the number of values removed, also after an error: 0 if the call
 * could not begin.
 *
 * Errors: those of farkv_delete() except FARKV_ENOTFOUND; FARKV_ECORRUPT: all is done, but keys
 * that cannot be read may be left. op_timeout_ms bounds each part of the index (farkv_scan()), not
 * the call: it takes some seconds for ten million keys.
 * Of a cluster all servers at the same time, also if one of them fails; the first one's error.
 * Cost: that of a scan, and the round trips of farkv_delete() for each 128 keys.
 */
int farkv_clear(struct farkv *kv, uint64_t *deleted_out) FARKV_MUST_CHECK;

/**
 * Ask the server for an answer. *rtt_ns_out, if not NULL, is the round-trip time in
 * nanoseconds; of a cluster the longest. Errors: FARKV_EINVAL (no handle), FARKV_ETIMEDOUT,
 * FARKV_EDISCONNECTED, FARKV_ELINKDOWN, FARKV_ENOMEM, FARKV_EPROTOCOL (a wrong answer). Cost: one
 * message and its answer, with each server.
 */
int farkv_ping(struct farkv *kv, uint64_t *rtt_ns_out) FARKV_MUST_CHECK;

/**
 * Ask the server for its statistics. The caller sets `stats->size`. Item counts come from a scan
 * that the server repeats at most once a second. Of a cluster sums; of times and depths the largest, of
 * limits and of victim_age_ms the smallest. Errors and cost as farkv_ping(), and the time of that scan;
 * FARKV_EINVAL also without `stats` or with an impossible size.
 */
int farkv_stats(struct farkv *kv, struct farkv_stats *stats) FARKV_MUST_CHECK;

/**
 * Have the server check the whole store while it is in use: every entry of the directory, every
 * slot, every block's checksum, and whether all bytes are accounted for. Blocks of clients that
 * died are given back.
 *
 * The caller sets `f->size`. Of a cluster sums; the places and processes of the first server that has
 * any. Returns 0 if the check was made, whatever it found; otherwise errors as farkv_stats(). Takes about as long as reading all values once, limited by op_timeout_ms
 * (FARKV_ETIMEDOUT). One check runs at a time; for a read-only handle the next one begins after a
 * rest of three times the duration of the last one, at most a minute.
 */
int farkv_fsck(struct farkv *kv, struct farkv_fsck *f) FARKV_MUST_CHECK;

/**
 * Describe server `i` of the store, from 0 on: those of a cluster in the order of its map; a store
 * that is no cluster has one. The caller sets `out->size`. FARKV_ENOTFOUND: there are no more;
 * FARKV_EINVAL. No cost; nothing is asked of the server.
 *
 * What it says is the map's that this handle has, which may be older than the cluster's. Texts and
 * `handle` belong to `kv`, live until farkv_close() on it, and are for its thread. The
 * handle is for questions about that server: farkv_ping(), farkv_stats(), farkv_fsck(),
 * farkv_counters(), farkv_client_next(), farkv_kill(), farkv_class_next(), farkv_pause_next(),
 * farkv_scan(), which also lists copies of other servers' keys there. A key that is written by it may
 * belong to another server, and is then not found by `kv`.
 */
int farkv_server(struct farkv *kv, size_t i, struct farkv_server *out) FARKV_MUST_CHECK;

/**
 * Wait until the followers of a cluster's servers have all that this handle has written and that has
 * returned: then it survives the loss of any one server. Requests in flight are completed first.
 *
 * A follower copies in passes and rests between them, so this takes as long as the rest of a pass, one
 * more with the rests, and the server's next look at the map: tens of milliseconds to a second with 10 M
 * keys. One message to each server, all at the same time, and one more every 50 ms to a server that has no
 * follower now. No round trip of a write gets longer, whether this is called or not. `timeout_ms` alone
 * bounds it; with 0 it can only fail.
 *
 * FARKV_EDISCONNECTED: a server is away, or has lost its keys since the last call (or since the open):
 * writes to it that no call has waited for may be lost; the next call covers later ones.
 * FARKV_ETIMEDOUT: not within `timeout_ms`, perhaps because a server has no follower with a whole copy.
 * FARKV_ENOTSUP: one server, or a cluster without followers; also a handle of farkv_server().
 * FARKV_EINVAL, FARKV_ENOMEM as farkv_ping().
 */
int farkv_wait_followers(struct farkv *kv, uint32_t timeout_ms) FARKV_MUST_CHECK;

/**
 * Get the session with the next higher number. The caller sets `c->size`, and `c->session` to 0 or to the number
 * of the previous one; sessions come in the order of their numbers, which are never used again.
 * FARKV_ENOTFOUND after the last; FARKV_ENOTSUP: a cluster's handle; its servers have handles of
 * their own (farkv_server()); otherwise errors as farkv_stats(). One message.
 */
int farkv_client_next(struct farkv *kv, struct farkv_client *c) FARKV_MUST_CHECK;

/**
 * End another session. Its next call may fail with FARKV_EDISCONNECTED and the reason; then it
 * connects again, as after any lost connection. What was stored stays. FARKV_ENOTFOUND: there is no
 * other session of that number; FARKV_EPERM: the handle is read-only; FARKV_ENOTSUP as
 * farkv_client_next(); otherwise errors as farkv_ping().
 */
int farkv_kill(struct farkv *kv, uint64_t session) FARKV_MUST_CHECK;

/**
 * The next larger size of blocks that the server has any of. The caller sets `c->size`, and
 * `c->block_bytes` to 0 or to the previous one. Of a cluster: sums over its servers.
 * FARKV_ENOTFOUND after the last; otherwise errors as farkv_stats(). One message to each server.
 */
int farkv_class_next(struct farkv *kv, struct farkv_class *c) FARKV_MUST_CHECK;

/**
 * The next of the server's longest pauses since it started, 32 at most. The caller sets `p->size`,
 * and `p->rank` to 0 or to that of the previous one. Gets and puts do not need the server and go on
 * in a pause; what waits are requests for memory, new clients, and questions such as farkv_stats().
 * FARKV_ENOTFOUND after the last; FARKV_ENOTSUP: a cluster's handle; its servers have handles of
 * their own (farkv_server()); otherwise errors as farkv_stats(). One message.
 */
int farkv_pause_next(struct farkv *kv, struct farkv_pause *p) FARKV_MUST_CHECK;

/**
 * The handle's own counters; of a cluster the sum over its servers. The caller sets `c->size`.
 * FARKV_EINVAL: NULL, or an impossible size. No cost. For the handle's thread; a call that runs is not
 * noticed.
 */
int farkv_counters(const struct farkv *kv,
		   struct farkv_counters *c) FARKV_MUST_CHECK;

/**
 * The latency of calls of one kind (enum farkv_latency_kind), by this handle, or with NULL by all of
 * this process that record it, those that were closed included.
 *
 * A handle records if it was opened with FARKV_OPEN_LATENCY. Every call counts, whatever its result,
 * with the time from its start to its end by the clock; a farkv_touch() or farkv_get_touch() as the
 * get and the cas that it consists of. Calls of other kinds than those of the enum are not recorded,
 * nor are those by a handle of farkv_server(), if the store is a cluster.
 *
 * The caller sets `l->size`. Times up to 32 ns are exact; above, a counter is at most 1/16 of its
 * times wide, up to 34 s. Counts never decrease: for an interval subtract counts, errors, sums
 * and counters of an earlier one.
 *
 * Threads: any may call this, also while the handle's makes a call, but not while it closes the
 * handle. A child of fork() begins with its parent's counts.
 * Cost: none for handles that do not record. A call that is recorded looks at the clock twice, some
 * 80 ns; a handle has 40 KiB for it.
 * Errors: FARKV_EINVAL (no such kind, `l` is NULL, an impossible size, a handle that does not record).
 */
int farkv_latency(const struct farkv *kv, uint32_t kind,
		  struct farkv_latency *l) FARKV_MUST_CHECK;

/** The longest time in ns that counter `i` of a histogram counts; UINT64_MAX from the last one on. */
uint64_t farkv_latency_bound(size_t i);

/**
 * The time in ns that `percent` of the calls did not exceed (99.9: of 1000 calls 999), as the bound of
 * its counter, which is at most 1/16 more, or `max_ns` if that is less. 0 without calls, and
 * for NULL; `percent` is limited to 0 to 100. Any thread.
 */
uint64_t farkv_latency_percentile(const struct farkv_latency *l, double percent);

/**
 * Metrics of this process in Prometheus's text format 0.0.4, over all handles that record latency and
 * those that did: for each kind with calls the histogram farkv_client_latency_seconds{call="get"}, with
 * two buckets per power of two from 64 ns to 8.6 s, and farkv_client_errors_total; then the sums of
 * struct farkv_counters, which a handle brings up to date when a recorded call ends, at most every
 * 10 ms. A program serves this text, or writes it to a file for the textfile collector of
 * node_exporter.
 *
 * Writes the first `cap` bytes to `buf`, which may be NULL if that is 0, without a '\0' after them.
 * Returns the length of all, at most FARKV_METRICS_MAX: a buffer of that size is always enough.
 * Any thread. Cost: 0.1 ms, and 3 us for each handle.
 */
size_t farkv_metrics(char *buf, size_t cap);

/** The text of an error number; never NULL. */
const char *farkv_strerror(int err);

/**
 * One line about this thread's last failed call: what, where, what to do. Call it after a
 * failure: a successful call may leave the line or clear it. Never NULL; valid until the thread's
 * next call into the library.
 */
const char *farkv_errdetail(void);

/** The library's version, "0.1.0". */
const char *farkv_version(void);

#ifdef __cplusplus
}
#endif
#endif /* FARKV_H */
