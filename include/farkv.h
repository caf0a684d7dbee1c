/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * farkv.h - the public interface of libfarkv, a remote-memory key-value store.
 *
 * A program opens a handle on a store, reads and writes values under binary
 * keys, and closes the handle. GET, PUT and DELETE are carried out by the
 * caller's own CPU (shared memory) or by the network card (RDMA): the server
 * process takes no part in them.
 *
 * Threads: a handle belongs to one thread at a time; give every thread a
 * handle of its own. Handles of one process share the mapping of the region.
 * Functions without a handle argument may be called from any thread. A call on a handle
 * on which another call is under way (another thread's, or one that a signal handler has
 * interrupted) changes nothing and returns FARKV_EINVAL; but for the cost of an atomic
 * operation in every call, two calls that begin at the very same moment are not seen, and
 * corrupt the handle, as does memory of a handle that was closed: only farkv_close() knows
 * those. farkv_counters() and farkv_in_flight() do not look.
 * A call on a handle with requests in flight first carries these to their ends, all
 * but farkv_submit(), farkv_poll(), farkv_wait(), farkv_in_flight(), farkv_event_fd(),
 * farkv_counters(), farkv_buf_alloc(), farkv_buf_free(), and farkv_close(), which drops
 * them.
 * Signals: no call is async-signal-safe. Cancellation: a thread must not be cancelled
 * (pthread_cancel(3)) within a call. Fork: a child must open handles of its own; calls on
 * an inherited handle return FARKV_EDISCONNECTED, but for farkv_counters(), which goes on
 * saying what the parent had done, and farkv_in_flight(), which is 0.
 *
 * Errors: every function that can fail returns 0 or a negative number from the
 * list below. farkv_strerror() gives the text of a number; farkv_errdetail()
 * says in one line what was wrong, where, and what to do about it.
 *
 * Requests: every call for one key can also be submitted, and its completion be taken
 * later: farkv_submit(), farkv_poll(), farkv_wait(); farkv_event_fd() is for who
 * waits for other things as well.
 *
 * Stack: over shared memory a call needs at most 24 KiB; by RDMA give a thread 128 KiB, for
 * the resolution of names and the device's libraries.
 *
 * Blocking: no call waits for ever. Each operation ends within the handle's
 * op_timeout_ms with a result or with FARKV_ETIMEDOUT; but a call that is no request's
 * carries the requests in flight to their ends first, and may take twice as long where
 * these have to wait for the server, and thrice if the connection breaks meanwhile. Not
 * bounded is the system's resolution of a host name in farkv_open(). farkv_submit() and
 * farkv_poll() never wait for the server, a name or a new connection: a thread of the
 * library's makes that. Other calls wait for it.
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
	FARKV_EVERSION = -1002,    /**< cas: the value has another version */
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

	/* No connection; the library tries to make a new one at the next call; after two attempts
	 * in a row that found nobody, not before 0.1 s have passed. */
	FARKV_EDISCONNECTED = -1100, /**< the server is gone, or started again */
	FARKV_EUNREACHABLE = -1101,  /**< nobody listens at that address */
	FARKV_EREFUSED = -1102,      /**< the server turned the session down */
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
	FARKV_OPEN_READONLY = 1u << 0 /**< map the store without write access */
};

/**
 * How to open a handle. Fill it with farkv_options_init(), change what you
 * need. `size` lets programs built against an older header keep working.
 */
struct farkv_options {
	size_t size;                 /**< sizeof(struct farkv_options) */
	uint32_t flags;              /**< enum farkv_open_flags, or 0 */
	uint32_t connect_timeout_ms; /**< bound on farkv_open(); 0: the default,
					  5000. UINT32_MAX is 49 days: no number
					  stands for "for ever" */
	uint32_t op_timeout_ms;      /**< bound on every operation; likewise */
	const char *name;            /**< shown in the server's log; may be NULL */
	const char *keys;            /**< file with the client's key, for servers
					  that ask for one, and others are left
					  then; NULL: what the address says, or
					  $FARKV_KEYS */
	const char *key;             /**< its name in that file; NULL: what the
					  address says, or the only one */
	uint32_t cache_entries;      /**< keys whose place in the store the handle
					  remembers, which halves the round trips of
					  operations on them; 40 bytes each, rounded up
					  to a power of two, taken when first used
					  (without memory for them nothing is
					  remembered). By RDMA only; default 65536,
					  0: none */
	uint32_t queue_depth;        /**< requests that can be in flight, at most
					  4096; 0: 128. Takes no memory before
					  the first farkv_submit() */
	size_t cache_bytes;          /**< memory for values of those keys: a get of one
					  that nobody has written since asks the store
					  for 8 bytes, which tell that. Taken as it
					  fills, with the value's second get. By RDMA
					  only; default 1 MiB, at least 1024 and at
					  most 1 GiB, 0: none */
};

/** A value as farkv_get() returns it. */
struct farkv_value {
	const void *data; /**< the bytes; never NULL after success */
	size_t len;       /**< their number; 0 is a valid value */
	uint64_t version; /**< for farkv_cas(); unique for every write */
};

/** One item of farkv_mget(). */
struct farkv_get_item {
	const void *key;          /**< in */
	size_t key_len;           /**< in */
	struct farkv_value value; /**< out, valid if result is FARKV_OK */
	int result;               /**< out: FARKV_OK, FARKV_ENOTFOUND, ... */
};

/** One item of farkv_mput(). */
struct farkv_put_item {
	const void *key;   /**< in */
	size_t key_len;    /**< in */
	const void *value; /**< in; may be NULL if value_len is 0 */
	size_t value_len;  /**< in */
	int result;        /**< out: FARKV_OK, FARKV_ENOSPC, ... */
};

/** What a submitted request does: as the function of that name. */
enum farkv_request_kind {
	FARKV_REQUEST_GET,
	FARKV_REQUEST_PUT,
	FARKV_REQUEST_ADD,
	FARKV_REQUEST_REPLACE,
	FARKV_REQUEST_CAS,
	FARKV_REQUEST_DELETE
};

/** One request for farkv_submit(). Set what is not needed to 0. */
struct farkv_request {
	uint64_t tag;         /**< the caller's; comes back with the completion */
	uint32_t kind;        /**< enum farkv_request_kind */
	uint32_t flags;       /**< 0 */
	const void *key;
	size_t key_len;
	const void *value;    /**< all but get and delete; NULL if value_len is 0 */
	size_t value_len;
	uint64_t expected;    /**< cas: the version that must be there */
	void *buf;            /**< get: where the value goes, as with
				   farkv_get_into(), or NULL */
	size_t buf_len;       /**< get: bytes of `buf` */
	uint64_t reserved[2]; /**< 0 */
};

/** The end of one request. */
struct farkv_completion {
	uint64_t tag;             /**< the request's */
	uint32_t kind;            /**< the request's */
	int result;               /**< as the function of that name returns it */
	struct farkv_value value; /**< get, with FARKV_OK; with FARKV_ETOOSMALL
				       the length is set */
	uint64_t version;         /**< found (get) or written, with FARKV_OK; of a put
				       that others' puts of the key replaced at once
				       it may never have been there; delete: 0 */
	const char *detail;       /**< NULL with FARKV_OK; else one line: what was
				       wrong, where, what to do. Valid as long as a
				       value is that was read to no buffer */
};

/**
 * What a handle has asked of its transport since it was opened. Requests are the network
 * card's: over shared memory their counts, from `reads` to `round_trips`, are 0.
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
	uint64_t retries;      /**< operations' steps that had to be repeated */
	uint64_t control_msgs; /**< requests sent to the server */
	uint64_t registrations; /**< of memory with the RDMA device */
	uint64_t cache_hits;   /**< operations that found their key as remembered */
	uint64_t cache_stale;  /**< ... that found it written by somebody else */
	uint64_t cache_misses; /**< ... of whose key nothing was remembered, or not
				    asked since others write it all the time */
	uint64_t cache_values; /**< of the hits: gets whose value was at hand, too */
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
	uint64_t blocks_granted;  /**< blocks now with clients or published */
	uint64_t blocks_free;     /**< blocks on the server's free lists */
	uint64_t blocks_limbo;    /**< returned blocks waiting out the grace period */
	uint64_t blocks_worn;     /**< blocks whose incarnation ran out */
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
	uint64_t migration_ns;    /**< time that those took, together */
	uint64_t migration_ns_max; /**< ... and the longest of them */
	uint64_t blocks_live;     /**< blocks that hold an item's value */
	uint64_t blocks_dead;     /**< blocks that stand for a deleted key */
	uint64_t blocks_held;     /**< with clients: blocks_granted less those */
	uint64_t blocks_swept;    /**< given back for clients that died, ever */
	uint64_t blocks_damaged;  /**< dropped as unreadable, ever */
	uint64_t sweeps;          /**< sweeps for blocks of the dead, done */
	uint64_t sweep_ns;        /**< what the last one took */
	uint64_t sweep_deaths;    /**< deaths whose blocks are not back yet */
	uint64_t barriers;        /**< barriers done */
	uint64_t barrier_waits;   /**< sessions that one waits for: that have not
				       answered, or ended without goodbye while
				       their process runs */
	uint64_t retired_bytes;   /**< pages that wait for a barrier */
	uint64_t cpu_ns;          /**< processor time the server has used, before
				       the scan for this answer */
	uint64_t free_bytes;      /**< in blocks_free, of all sizes */
	uint64_t pages_refused;   /**< times that the machine had no memory for
				       pages of the region */
};

/** What farkv_fsck() found. */
struct farkv_fsck {
	size_t size;            /**< in: sizeof(struct farkv_fsck) */
	uint64_t duration_ns;   /**< what the check took */
	uint64_t subtables;     /**< parts of the index looked at */
	uint64_t items;         /**< keys with a value */
	uint64_t dead_slots;    /**< slots of deleted keys */

	/* Where the bytes are. live and dead are part of out. */
	uint64_t meta_bytes;    /**< superblock and directory */
	uint64_t index_bytes;   /**< subtables */
	uint64_t live_bytes;    /**< blocks of items */
	uint64_t dead_bytes;    /**< blocks that stand for deleted keys */
	uint64_t out_bytes;     /**< blocks with clients or published */
	uint64_t limbo_bytes;   /**< ... that wait out the grace period */
	uint64_t worn_bytes;    /**< ... that wait for a barrier */
	uint64_t free_bytes;    /**< ... that are free */
	uint64_t slack_bytes;   /**< of segments, too short for a block */
	uint64_t retired_bytes; /**< pages that wait for a barrier */
	uint64_t unused_bytes;  /**< free pages */
	uint64_t region_bytes;  /**< all of it */

	/* Blocks that are out but not in the index. */
	uint64_t blocks_held;   /**< clients say that they hold them */
	uint64_t blocks_leaked; /**< nobody does: given back now */
	uint64_t bytes_leaked;  /**< their bytes */

	/* Problems. Each counts finds; all 0 means that nothing is wrong. */
	uint64_t bad_directory; /**< impossible entries of the directory */
	uint64_t bad_empty;     /**< EMPTY words of another generation */
	uint64_t bad_words;     /**< slots that name no block in use */
	uint64_t damaged;       /**< slots whose block fails its checksum */
	uint64_t shared;        /**< slots whose block has another content */
	uint64_t misplaced;     /**< keys in a slot where nobody finds them */
	uint64_t behind_empty;  /**< keys behind an EMPTY slot of their window */
	uint64_t duplicates;    /**< keys that have two slots */
	uint64_t bad_sums;      /**< sums of the accounting that differ */
	uint64_t first_page;    /**< page of the first slot with a problem */
	uint64_t first_slot;    /**< its number there */

	/* Whether held and leaked blocks could be told apart. */
	uint64_t undecided;      /**< enum farkv_fsck_undecided */
	uint64_t silent_session; /**< session that was waited for in vain */
	uint64_t silent_pid;     /**< its process; 0 if that is on another machine
				    or in another pid namespace */
};

/** Why a check could not tell held blocks from leaked ones. */
enum farkv_fsck_undecided {
	FARKV_FSCK_DECIDED = 0,
	FARKV_FSCK_SILENT = 1, /**< a session does not answer */
	FARKV_FSCK_GHOST = 2,  /**< a session ended without goodbye, and its
				    process has not let go of it */
	FARKV_FSCK_BUSY = 3    /**< clients die faster than it can look */
};

/**
 * Fill `o`, whose size the caller knows as `size`, with the defaults; what this library does
 * not know of it is zeroed. NULL is ignored, and so is a size that not even `size` fits in.
 */
void farkv_options_init_sized(struct farkv_options *o, size_t size);

/** ... as the program's header has it. For C; the function of this name fills all that the
 * library knows, which may be more than a program that was built earlier has room for. */
void farkv_options_init(struct farkv_options *o);
#define farkv_options_init(o) farkv_options_init_sized((o), sizeof(struct farkv_options))

/**
 * Open a handle on the store at `uri`.
 *
 * `uri` is "shm:///path/to/socket?keys=FILE&key=NAME", a plain path with a '/' in it, or
 * "kv://host:port?keys=FILE&key=NAME&ack-timeout=N&tos=N" for RDMA, where all but
 * the host or path may be left out (see kvserver(1) for the meanings); NULL means
 * $FARKV_URI if that is set, otherwise the socket at which kvserver listens by
 * default: the first of $XDG_RUNTIME_DIR/farkv/kvserver.sock,
 * /run/farkv/kvserver.sock and /tmp/farkv-UID/kvserver.sock at which one does.
 * `opts` may be NULL for the defaults; it is not kept.
 * Relative paths, of the socket and of a file with keys, are looked up from the working
 * directory of the moment, here and whenever the connection is made anew: a program
 * that calls chdir(2) gives absolute ones.
 *
 * On success *kv_out is the handle, to be ended by farkv_close(). On failure
 * *kv_out is not touched and nothing is left behind.
 *
 * Errors: FARKV_EURI (malformed address), FARKV_EUNREACHABLE (no server there),
 * FARKV_ENOROUTE (no such host, or no RDMA way to it), FARKV_ELINKDOWN,
 * FARKV_ENOTSUP (no RDMA here),
 * FARKV_EPROTOCOL (something else listens there), FARKV_EREFUSED (the server
 * said no; the detail gives its reason), FARKV_EFORMAT (incompatible region),
 * FARKV_EPERM (file modes, or the key), FARKV_EDISCONNECTED (the server left in the
 * middle), FARKV_ETIMEDOUT, FARKV_ENOMEM, FARKV_ESYS.
 *
 * Starts one control thread per process with the first handle; it blocks all
 * signals, as do the threads that make new connections. Blocks up to connect_timeout_ms.
 */
int farkv_open(const char *uri, const struct farkv_options *opts,
	       struct farkv **kv_out) FARKV_MUST_CHECK;

/**
 * Give all memory that the handle holds back to the server and free the
 * handle. NULL is allowed. Waits for what the network card has in hand, op_timeout_ms
 * at most, and then at most one second for the server's answer.
 * Values returned by farkv_get() and farkv_mget() on this handle end here.
 *
 * Requests in flight end without completions: what of them has reached the store is
 * carried to its end, the others are not carried out; nobody can tell which. Their
 * keys, values and buffers are the caller's again.
 *
 * A handle that is not open (it was closed before) is left alone, and so is one on which a
 * call is under way; farkv_errdetail() says so. A handle that was opened since at the address
 * of a closed one cannot be told from it.
 */
void farkv_close(struct farkv *kv);

/**
 * Read the value of a key.
 *
 * On success *value_out describes the value in memory that belongs to the
 * handle: it is valid until the next call on this handle and must not be
 * written or freed. It may be that call's key, or its value (copied then), but no
 * request's of farkv_submit(), which lasts longer than the call.
 *
 * Errors: FARKV_ENOTFOUND, FARKV_ETOOLARGE (key), FARKV_EINVAL (empty key),
 * FARKV_ECORRUPT, FARKV_EFORMAT (the directory is damaged), FARKV_ETIMEDOUT,
 * FARKV_EDISCONNECTED, FARKV_ELINKDOWN, FARKV_EPERM (the device refused the read),
 * FARKV_ENOMEM.
 * Linearizable per key. Cost: 1 round trip for a key whose place is remembered;
 * otherwise 2 for a hit, 1 for a miss; none leaves the machine over shared memory.
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
 * Values of 4 KiB and more come into `buf` without a copy between if it is, with all
 * `cap` bytes, within a buffer of farkv_buf_alloc() of this handle; over shared memory
 * into any memory. So what stands in `buf` behind the value, and after an error, is
 * undefined.
 */
int farkv_get_into(struct farkv *kv, const void *key, size_t key_len, void *buf,
		   size_t cap, size_t *len_out,
		   uint64_t *version_out) FARKV_MUST_CHECK;

/**
 * Store a value under a key, whether or not the key had one before.
 *
 * Key and value may be changed again when the call returns, and not before. A value
 * of 4 KiB and more within a buffer of farkv_buf_alloc() of this handle goes out
 * without a copy. Errors: FARKV_ETOOLARGE, FARKV_EINVAL, FARKV_EPERM (read-only handle),
 * FARKV_ENOSPC, FARKV_EINDEXFULL, FARKV_ETIMEDOUT, FARKV_EDISCONNECTED, FARKV_ELINKDOWN,
 * FARKV_EMAYBE, FARKV_ECORRUPT (what stands under the key cannot be read; where the key
 * itself can, over shared memory, it is replaced), FARKV_EFORMAT (the directory is
 * damaged), FARKV_ENOMEM.
 * After every one but FARKV_EMAYBE the old value stands.
 * FARKV_ENOSPC says that the server answered and has no memory, for the value or to
 * enlarge the index for a new key, or none that becomes usable before the deadline;
 * its line says how much is free in other sizes. FARKV_EINDEXFULL says that the index has reached
 * the largest size that there is; FARKV_ETIMEDOUT that the server did not answer in
 * time.
 * Cost: 1 round trip for a key whose place is remembered, or a new one if its window
 * is (a get that missed leaves it); otherwise 3 over an existing key, 2 for a new one.
 * Messages to the server, which nothing waits for: now and then one for new blocks,
 * before those of the size at hand run out, one that gives back many that were replaced,
 * one when the key's part of the index is nearly full. Without a block at hand, or in a
 * window that is full, the call waits for the answer.
 * Of a key that others put at the same moment, over shared memory, it may spin for some
 * microseconds, and from another chip for half a millisecond at most, to stand just before
 * one of theirs: then it has written nothing.
 */
int farkv_put(struct farkv *kv, const void *key, size_t key_len,
	      const void *value, size_t value_len) FARKV_MUST_CHECK;

/** Like farkv_put(), but FARKV_EEXISTS if the key has a value. */
int farkv_add(struct farkv *kv, const void *key, size_t key_len,
	      const void *value, size_t value_len) FARKV_MUST_CHECK;

/** Like farkv_put(), but FARKV_ENOTFOUND if the key has no value. */
int farkv_replace(struct farkv *kv, const void *key, size_t key_len,
		  const void *value, size_t value_len) FARKV_MUST_CHECK;

/**
 * Store a value if the key's value still has the version `expected`, which a
 * get returned. *version_out, if not NULL, is the version of the new value.
 *
 * Errors: FARKV_EVERSION (somebody wrote since), FARKV_ENOTFOUND (no value),
 * and those of farkv_put(). Cost: 1 round trip if the place is remembered, else 3.
 */
int farkv_cas(struct farkv *kv, const void *key, size_t key_len,
	      const void *value, size_t value_len, uint64_t expected,
	      uint64_t *version_out) FARKV_MUST_CHECK;

/**
 * Remove a key and its value. Needs no memory, so it works in a full store.
 * Errors: FARKV_ENOTFOUND and those of farkv_put() but FARKV_ENOSPC and
 * FARKV_EINDEXFULL. Cost: 1 round trip if the place is remembered, else 3.
 */
int farkv_delete(struct farkv *kv, const void *key,
		 size_t key_len) FARKV_MUST_CHECK;

/**
 * Memory for values, `bytes` (not 0) of it, that farkv_get_into() and the calls that
 * write carry without a copy: registered with the RDMA device once, in huge pages
 * where the system has them. Contents are undefined. It begins at a page of 4 KiB if
 * `bytes` are whole pages, else at a multiple of 64, and no other buffer has a byte in a
 * line of 64 that it touches.
 *
 * In a program that has jemalloc 5 (linked or preloaded; libfarkv built with its header)
 * small buffers share pages: they come from an arena of the handle's own, which is
 * destroyed with it and not for the program's use. In others whole pages are given out,
 * so there this is for few buffers that are used again and again.
 *
 * *buf_out belongs to the handle and is valid until farkv_buf_free() or
 * farkv_close(), whatever becomes of the connection: a new one learns of it. Any use
 * of memory is allowed, by other threads and handles too; to those it is memory as
 * any other. Its pages are the library's: after munmap(), mremap(), madvise() or an mmap()
 * over them the device goes on with those that were there. A child of fork() does not have
 * its contents, and may not use it. What is freed stays registered for the next buffers of
 * this handle.
 *
 * Errors: FARKV_EINVAL, FARKV_ENOMEM (also: the limit of locked memory), FARKV_ESYS,
 * FARKV_EDISCONNECTED (an inherited handle). No message, no round trip.
 */
int farkv_buf_alloc(struct farkv *kv, size_t bytes,
		    void **buf_out) FARKV_MUST_CHECK;

/**
 * Give a buffer back. Nothing happens if `buf` is NULL or anything else but the start of
 * a buffer in use of this handle, and with every handle in a child of fork().
 */
void farkv_buf_free(struct farkv *kv, void *buf);

/**
 * Read `n` keys together; each item reports for itself. The values belong to
 * the handle until the next call on it, as that of farkv_get(). The items run side by side and are
 * linearized one by one, not as a transaction.
 *
 * Memory: the handle keeps up to 256 KiB of buffers for batches and requests. If they needed
 * more, it keeps up to 8 MiB of that for the next ones until it is closed; what exceeds 8 MiB
 * goes with the next call.
 *
 * Returns 0 if every item has a result (FARKV_OK or FARKV_ENOTFOUND among
 * them), otherwise the first other item's error. FARKV_ETIMEDOUT, FARKV_EDISCONNECTED,
 * FARKV_ELINKDOWN and FARKV_ENOMEM of an item end the call, with that group of 128: those
 * behind it, and all if no item was begun (there is no connection), carry FARKV_EABORTED.
 * Cost: 2 round trips for each 128 items, 1 where the places of all are remembered; the
 * values of all groups but the last are copied once more.
 */
int farkv_mget(struct farkv *kv, struct farkv_get_item *items,
	       size_t n) FARKV_MUST_CHECK;

/**
 * Store `n` values together, each as farkv_put() does; where a key stands
 * twice the later item wins. Returns 0 if all were stored, otherwise the first
 * failed item's error, or what was in the way of all (a read-only handle, no connection).
 * FARKV_ETIMEDOUT, FARKV_EMAYBE, FARKV_EDISCONNECTED, FARKV_ELINKDOWN and FARKV_ENOMEM of an
 * item end the call, as for farkv_mget(); items not attempted carry FARKV_EABORTED.
 * Cost: for each 128 items as many round trips as that of them takes that takes most, 1 to 3
 * (farkv_put()); a key that stands twice begins a new group.
 */
int farkv_mput(struct farkv *kv, struct farkv_put_item *items,
	       size_t n) FARKV_MUST_CHECK;

/**
 * Submit `n` requests; they are carried out side by side with all others in flight.
 * Waits for nobody, and does not connect anew. (By RDMA, once the index has changed its
 * shape, it and farkv_poll() read the directory: two round trips, for which they spin. A card
 * that has stopped answering may keep them until the deadline.)
 *
 * The structs are copied; key, value and buffer stay the caller's and must be left
 * alone until the request's completion has been taken, by farkv_poll() or farkv_wait(),
 * or the handle is closed. The deadline of each is op_timeout_ms from now: one that no poll
 * has begun until then ends with FARKV_ETIMEDOUT, untried.
 *
 * Requests in flight have no order: two on one key are as two of different clients.
 * Who needs an order submits the second when the first is complete.
 *
 * Returns how many were taken, from the first on: n, or fewer if the queue is full
 * then, or the next request is malformed. If none was: FARKV_EAGAIN (full: take
 * completions), FARKV_EINVAL (kind, flags or reserved fields, or a length of `buf`
 * without memory), FARKV_EDISCONNECTED (a child of fork()), FARKV_ENOMEM (at the first
 * call). Whatever else may be wrong is said by the request's completion.
 *
 * Cost: nothing but memory over shared memory, where requests are carried out by the
 * next poll; one doorbell for all by RDMA.
 */
int farkv_submit(struct farkv *kv, const struct farkv_request *reqs,
		 size_t n) FARKV_MUST_CHECK;

/**
 * Take the completions of up to `max` requests. Carries all that is in flight on as far
 * as it goes without waiting for anybody. If the connection has broken, a thread makes a new
 * one: until then requests wait, each until its own deadline, and polls return at once; when
 * nobody listens, or the server refuses, they end with FARKV_EDISCONNECTED. In a
 * loop it keeps a CPU busy; where all that is in flight waits for the server, it lets others
 * have it now and then (sched_yield(2)). Who has nothing else to do calls farkv_wait().
 *
 * Values that were READ to no buffer belong to the handle until the next call on it,
 * farkv_submit(), farkv_in_flight() and farkv_event_fd() aside, as that of farkv_get(). So do
 * the completions' lines (`detail`).
 *
 * Returns how many were taken, 0 if no request is complete; FARKV_EINVAL,
 * FARKV_EDISCONNECTED (a child of fork()). The failures of requests are told by their
 * completions, each with its own line; farkv_errdetail() speaks of the last one taken.
 *
 * While requests are in flight, poll: the server cannot use memory again that they may
 * be reading, and waits as for a process that stands still.
 */
int farkv_poll(struct farkv *kv, struct farkv_completion *completions,
	       size_t max) FARKV_MUST_CHECK;

/**
 * As farkv_poll(), but if no request is complete, wait until one is, none is in flight,
 * or `timeout_ms` are over. By RDMA it spins, as all calls do.
 */
int farkv_wait(struct farkv *kv, struct farkv_completion *completions, size_t max,
	       uint32_t timeout_ms) FARKV_MUST_CHECK;

/** Requests submitted whose completions have not been taken. No cost; 0 for NULL, and in a
 * child of fork(). */
size_t farkv_in_flight(const struct farkv *kv);

/**
 * A descriptor to wait on, with poll(2), epoll(7) and what is built on them: readable
 * while the next farkv_poll() would complete requests or carry them on. So who does
 *
 *	wait until it is readable; farkv_poll(), until that returns 0; and again
 *
 * sleeps as long as there is nothing to do and misses nothing: not the far side's
 * answers, nor a block or an answer of the server's, a deadline, a connection that
 * breaks, or one that is there again. It is level-triggered: EPOLLET would miss what is left after a poll.
 * farkv_poll() then says, by the requests' results, what came of it. At times it is
 * readable without need; the next farkv_poll() returns 0 and ends that.
 *
 * Returns the descriptor, the same at each call, whatever becomes of the connection.
 * It belongs to the handle and is closed by farkv_close(): it must not be read,
 * written or closed. Any thread may wait on it; this call and farkv_poll() are for
 * the handle's thread. Does not connect.
 * Errors: FARKV_EINVAL, FARKV_ESYS (no more descriptors), FARKV_ENOMEM,
 * FARKV_EDISCONNECTED (a child of fork()).
 *
 * When the connection breaks, it becomes readable even if no request is in flight;
 * farkv_poll() returns 0 then, and the next request connects anew. In a child of
 * fork() the inherited descriptor is always readable, so that nobody waits in vain for
 * a handle that says FARKV_EDISCONNECTED; but an epoll(7) set that was made before the
 * fork goes on looking at the parent's.
 *
 * Cost: four descriptors from the first call on. From then on farkv_submit(),
 * farkv_poll() and farkv_wait() make system calls where they leave requests in flight:
 * one or two over shared memory, up to three by RDMA. The one that takes the last
 * completion makes one, too, to take back what was said. Who has never called it pays no
 * call; but every connection by RDMA has a completion channel, one descriptor more.
 */
int farkv_event_fd(struct farkv *kv) FARKV_MUST_CHECK;

/**
 * Ask the server for a sign of life. *rtt_ns_out, if not NULL, is the time it
 * took in nanoseconds. Errors: FARKV_EINVAL (no handle), FARKV_ETIMEDOUT,
 * FARKV_EDISCONNECTED, FARKV_ELINKDOWN, FARKV_ENOMEM, FARKV_EPROTOCOL (its answer makes no
 * sense).
 */
int farkv_ping(struct farkv *kv, uint64_t *rtt_ns_out) FARKV_MUST_CHECK;

/**
 * Ask the server for its statistics. `stats->size` must be set by the caller.
 * Item counts come from a scan that the server repeats at most once a second. Errors as
 * farkv_ping(), which the other questions share; FARKV_EINVAL also without `stats`, and for
 * a size that is none.
 */
int farkv_stats(struct farkv *kv, struct farkv_stats *stats) FARKV_MUST_CHECK;

/**
 * Have the server check the whole store while it is in use: every entry of the
 * directory, every slot, every block's checksum, and whether all bytes are
 * accounted for. Blocks that a client left behind when it died are given back.
 *
 * `f->size` must be set by the caller. Returns 0 if the check was made, whatever
 * it found. Takes about as long as reading all values once; a handle's
 * op_timeout_ms bounds it, FARKV_ETIMEDOUT. One check runs at a time; for a read-only
 * handle the next one begins after a rest of three times what the last one took, a
 * minute at most.
 */
int farkv_fsck(struct farkv *kv, struct farkv_fsck *f) FARKV_MUST_CHECK;

/** The handle's own counters. `c->size` must be set by the caller. No cost. */
int farkv_counters(const struct farkv *kv,
		   struct farkv_counters *c) FARKV_MUST_CHECK;

/** The text of an error number; never NULL. */
const char *farkv_strerror(int err);

/**
 * One line about this thread's last failed call: what, where, what to do. To be
 * asked for behind a failure: a call that succeeds may leave it as it was, or empty.
 * Never NULL; valid until the thread's next call into the library.
 */
const char *farkv_errdetail(void);

/** The library's version, "0.1.0". */
const char *farkv_version(void);

#ifdef __cplusplus
}
#endif
#endif /* FARKV_H */
