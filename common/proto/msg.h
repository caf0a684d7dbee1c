/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * msg.h - the messages of the control channel, for the Unix socket and for RDMA.
 *
 * A message is a header of 16 bytes and a body:
 *   u16 magic 0x4B46 | u8 type | u8 protocol version | u32 body length |
 *   u32 request number | u32 checksum (XXH3 of the body, seeded with the XXH3 of
 *   the 12 bytes before it; low 32 bits)
 * All little-endian. On the Unix socket (SOCK_SEQPACKET) one message is one packet;
 * descriptors travel with WELCOME only. An answer echoes its request's number; messages
 * that the server starts carry 0, except SWEEP_QUERY.
 *
 * A message that does not decode exactly (length, checksum, unknown type, extra bytes,
 * a field out of range) is refused with a reason and ends the session.
 */
#ifndef COMMON_PROTO_MSG_H
#define COMMON_PROTO_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <farkv.h>

#include "common/region/layout.h"

#define MSG_MAGIC 0x4B46u
#define MSG_PROTOCOL 3u
#define MSG_HEADER_BYTES 16u
#define MSG_MAX_BYTES 16384u /* header and body */
#define MSG_REFS_MAX 1024u   /* block references in one message */
#define MSG_TEXT_MAX 200u    /* bytes of a name or reason */
#define MSG_KEY_NAME_MAX 63u /* bytes of a key's name, at least 1 */
#define MSG_NONCE_BYTES 32u
#define MSG_TAG_BYTES 32u
#define MSG_TOKEN_BYTES 16u
#define MSG_MAP_MAX 16000u   /* bytes of a cluster's map */
#define MSG_SERVERS_MAX 64u  /* of a cluster */

enum msg_type {
	/* client to server */
	MSG_HELLO = 1,        /* first message of a session */
	MSG_GRANT_REQ = 2,    /* request blocks */
	MSG_RETURN = 3,       /* return blocks; final when sent, no answer */
	MSG_HINT = 4,         /* a subtable is (nearly) full */
	MSG_PREFIX_REQ = 5,   /* request a new version prefix */
	MSG_STATS_REQ = 6,
	MSG_PING = 7,
	MSG_BARRIER_ACK = 8,  /* references dropped, operations finished */
	MSG_SWEEP_ACK = 9,    /* SWEEP_BEGIN took effect */
	/*
	 * Blocks held since SWEEP_BEGIN. The answer to a SWEEP_QUERY echoes its request number.
	 * Number 0: unsolicited; before BYE a session sends its whole journal in this way, in any
	 * number of messages.
	 */
	MSG_SWEEP_CLAIM = 10,
	MSG_BYE = 11,         /* last message */
	MSG_AUTH = 12,        /* answers CHALLENGE */
	MSG_FSCK_REQ = 13,    /* check the whole region; the answer may take long */
	/* Sent after WELCOME: operations may begin. No answer. */
	MSG_READY = 14,
	MSG_HITS = 15,        /* what the session has counted since it began. No answer */
	/*
	 * The session is about to store a value that expires: write CLOCK from now on. No answer
	 * but CLOCK.
	 */
	MSG_CLOCK_START = 16,
	MSG_CLIENT_REQ = 17,  /* the next session after this number */
	MSG_KILL = 18,        /* end the session of this number */
	MSG_CLASS_REQ = 19,   /* the next size of blocks after this one */
	MSG_PAUSE_REQ = 20,   /* the next pause after the one of this rank */
	MSG_LEASE_REQ = 21,   /* what is left of the server's lease? */
	MSG_MAP_ACK = 22,     /* no operation by a map older than this epoch runs or begins */
	MSG_PASS = 23,        /* a copying server begins a pass: enum msg_pass */
	MSG_WAIT_REQ = 24,    /* answer once the follower has all earlier writes */
	/* server to client */
	MSG_WELCOME = 65,
	MSG_REFUSE = 66,      /* the channel closes */
	MSG_GRANT = 67,       /* blocks; none: out of memory */
	MSG_HINT_REPLY = 68,
	MSG_PREFIX = 69,
	MSG_STATS = 70,
	MSG_PONG = 71,
	MSG_BARRIER = 72,     /* drop cached references, finish operations */
	MSG_SWEEP_BEGIN = 73, /* from now on remember every block you hold */
	MSG_SWEEP_QUERY = 74, /* which of these did you hold? Numbered from 1 */
	MSG_SWEEP_END = 75,
	MSG_BYE_ACK = 76,
	MSG_SHUTDOWN = 77,    /* the server shuts down */
	MSG_RECLAIM = 78,     /* return surplus blocks */
	MSG_CHALLENGE = 79,   /* answers HELLO: prove that you have a key */
	MSG_FSCK = 80,        /* result of the check */
	/*
	 * The cluster's map. In place of WELCOME: HELLO named another one; the channel closes.
	 * Later: the map has changed; MAP_ACK follows when all operations by older maps have ended.
	 */
	MSG_MAP = 81,
	MSG_CLIENT = 82,      /* one session */
	MSG_KILLED = 83,      /* 1: it was ended; 0: no other session has that number */
	MSG_CLASS = 84,       /* figures of the blocks of one size */
	MSG_PAUSE = 85,       /* figures of one pause of the server */
	MSG_LEASE = 86,       /* nanoseconds; 0: it has none */
	MSG_PASSED = 87,      /* figures for the pass that begins */
	MSG_WAITED = 88,      /* 1: the follower has them; 0: there is no follower */
};

/** The number of a PASS. */
enum msg_pass {
	MSG_PASS_MOVE = 0,   /* of partitions that move */
	MSG_PASS_FOLLOW = 1, /* of a follower: it has applied all of the previous pass */
	MSG_PASS_MORE = 2,   /* no new pass: the rest of the last PASSED */
};
/** Above the kind: the number of the copying server in the map. */
#define MSG_PASS_SERVER_SHIFT 8u
#define MSG_PASS_KIND_MASK 0xFFu

/** Figures of PASSED. */
enum msg_passed {
	MSG_PASSED_FENCED = 1, /* the epoch of the map whose fence is complete */
	MSG_PASSED_ALL = 2,    /* not 0: incarnations may have restarted anywhere */
	MSG_PASSED_MORE = 3,   /* not 0: there are more pages; ask by MSG_PASS_MORE */
	/*
	 * Any number of these: pages << 40 | first page. The incarnations of their blocks
	 * restarted.
	 */
	MSG_PASSED_PAGES = 4,
};

enum msg_role { MSG_ROLE_RW = 0, MSG_ROLE_RO = 1 };

enum msg_reason {
	MSG_REASON_PROTOCOL = 1, /* version or malformed message */
	MSG_REASON_PERMISSION = 2,
	MSG_REASON_FULL = 3,     /* too many sessions */
	MSG_REASON_SHUTDOWN = 4,
	MSG_REASON_INTERNAL = 5,
	/*
	 * Credentials are missing, unknown or wrong. The refusal has no text, so that the
	 * peer does not learn which.
	 */
	MSG_REASON_AUTH = 6,
	/*
	 * The connection was closed before HELLO, to make space or after a timeout: try
	 * again.
	 */
	MSG_REASON_DISPLACED = 7,
	/* HELLO names a cluster's map that this server does not have, or another server. */
	MSG_REASON_CLUSTER = 8,
};
#define MSG_REASON_LAST MSG_REASON_CLUSTER

/** WELCOME: aligned 8-byte READs of this region never tear. */
#define MSG_WELCOME_READ8_ATOMIC 1u
#define MSG_WELCOME_OUTLIVES 2u /* another server may adopt the region */
#define MSG_WELCOME_FLAGS (MSG_WELCOME_READ8_ATOMIC | MSG_WELCOME_OUTLIVES) /* all known flags */

enum msg_hint_status {
	MSG_HINT_DONE,    /* read the directory again */
	MSG_HINT_WORKING, /* read it again soon */
	MSG_HINT_NOSPC,   /* no memory to grow the index */
	MSG_HINT_FULL,    /* the directory has reached its largest size */
};

/**
 * Statistics are (id, value) pairs; unknown ids are skipped. Ids never change meaning; the
 * order is that of struct farkv_stats.
 */
enum msg_stat {
	MSG_STAT_UPTIME_MS = 1, MSG_STAT_REGION_BYTES, MSG_STAT_HEAP_BYTES,
	MSG_STAT_USED_BYTES, MSG_STAT_INDEX_BYTES, MSG_STAT_INDEX_SLOTS,
	MSG_STAT_SUBTABLES, MSG_STAT_ITEMS, MSG_STAT_DEAD_SLOTS,
	MSG_STAT_ITEM_BYTES, MSG_STAT_BLOCKS_GRANTED, MSG_STAT_BLOCKS_FREE,
	MSG_STAT_BLOCKS_DEFERRED, MSG_STAT_BLOCKS_EXHAUSTED, MSG_STAT_SESSIONS,
	MSG_STAT_SESSIONS_TOTAL, MSG_STAT_GRANTS, MSG_STAT_HINTS,
	MSG_STAT_PROTOCOL_ERRORS, MSG_STAT_MAX_VALUE, MSG_STAT_MAX_KEY,
	MSG_STAT_GRACE_NS, MSG_STAT_INDEX_LOAD, MSG_STAT_DIR_DEPTH,
	MSG_STAT_DIR_DOUBLINGS, MSG_STAT_SPLITS, MSG_STAT_COMPACTIONS,
	MSG_STAT_MIGRATION_NS, MSG_STAT_MIGRATION_NS_MAX,
	MSG_STAT_BLOCKS_LIVE, MSG_STAT_BLOCKS_DEAD, MSG_STAT_BLOCKS_HELD,
	MSG_STAT_BLOCKS_SWEPT, MSG_STAT_BLOCKS_DAMAGED, MSG_STAT_SWEEPS,
	MSG_STAT_SWEEP_NS, MSG_STAT_SWEEP_DEATHS, MSG_STAT_BARRIERS,
	MSG_STAT_BARRIER_WAITS, MSG_STAT_RETIRED_BYTES,
	MSG_STAT_CPU_NS, MSG_STAT_FREE_BYTES, MSG_STAT_PAGES_REFUSED,
	MSG_STAT_GETS, MSG_STAT_HITS, MSG_STAT_MISSES, MSG_STAT_SETS,
	MSG_STAT_EXPIRED, MSG_STAT_SAVES, MSG_STAT_SAVES_FAILED, MSG_STAT_SAVED_AT_MS,
	MSG_STAT_EVICTIONS, MSG_STAT_EVICTED_BYTES, MSG_STAT_MOVES,
	MSG_STAT_CACHE, MSG_STAT_VICTIM_AGE_MS,
	/* Three of each size: evictions, expired, victim_age_ms. */
	MSG_STAT_SIZES,
	MSG_STAT_FOLLOWERS = MSG_STAT_SIZES + 3 * FARKV_SIZES,
	MSG_STAT_FOLLOWER_LAG_MS,
	MSG_STAT_END /* one past the last */
};

/**
 * In a STATS with the number of a GRANT_REQ: there is no memory for blocks of this class now, and
 * the request waits. MSG_STAT_FREE_BYTES is then the free memory of other classes;
 * MSG_STAT_PAGES_REFUSED is not 0 if the server's machine is out of memory. A client that does not
 * know this drops the message.
 */
#define MSG_STAT_FULL_CLASS 256u

/** Results of FSCK, (id, value) pairs in the order of struct farkv_fsck. */
enum msg_fsck {
	MSG_FSCK_DURATION_NS = 1, MSG_FSCK_SUBTABLES, MSG_FSCK_ITEMS,
	MSG_FSCK_DEAD_SLOTS, MSG_FSCK_META_BYTES, MSG_FSCK_INDEX_BYTES,
	MSG_FSCK_LIVE_BYTES, MSG_FSCK_DEAD_BYTES, MSG_FSCK_OUT_BYTES,
	MSG_FSCK_DEFERRED_BYTES, MSG_FSCK_EXHAUSTED_BYTES, MSG_FSCK_FREE_BYTES,
	MSG_FSCK_SLACK_BYTES, MSG_FSCK_RETIRED_BYTES,
	MSG_FSCK_UNUSED_BYTES, MSG_FSCK_REGION_BYTES, MSG_FSCK_BLOCKS_HELD,
	MSG_FSCK_BLOCKS_LEAKED, MSG_FSCK_BYTES_LEAKED,
	MSG_FSCK_BAD_DIRECTORY, MSG_FSCK_BAD_EMPTY, MSG_FSCK_BAD_WORDS,
	MSG_FSCK_DAMAGED, MSG_FSCK_SHARED, MSG_FSCK_MISPLACED,
	MSG_FSCK_BEHIND_EMPTY, MSG_FSCK_DUPLICATES, MSG_FSCK_BAD_SUMS,
	MSG_FSCK_FIRST_PAGE, MSG_FSCK_FIRST_SLOT, MSG_FSCK_UNDECIDED,
	MSG_FSCK_SILENT_SESSION, MSG_FSCK_SILENT_PID,
	MSG_FSCK_EXPIRED,
	MSG_FSCK_END /* one past the last */
};
#define MSG_STATS_MAX 160u

/** Figures of CLASS, (id, value) pairs in the order of struct farkv_class; none: no such size. */
enum msg_class {
	MSG_CLASS_BLOCK_BYTES = 1, MSG_CLASS_OUT, MSG_CLASS_FREE, MSG_CLASS_DEFERRED,
	MSG_CLASS_EXHAUSTED,
	MSG_CLASS_END /* one past the last */
};

/** Figures of PAUSE, (id, value) pairs; none: there are no more. Rank 1 is the longest. */
enum msg_pause {
	MSG_PAUSE_RANK = 1, MSG_PAUSE_NS, MSG_PAUSE_AGO_MS, MSG_PAUSE_KIND,
	MSG_PAUSE_END /* one past the last */
};

/** What the server did in a pause. */
enum msg_pause_kind {
	MSG_PAUSE_MESSAGE = 1, /* answered a message */
	MSG_PAUSE_GROWTH,      /* split, compacted or visited a part of the index */
	MSG_PAUSE_SWEEP,       /* looked for blocks of dead clients */
	MSG_PAUSE_CHECK,       /* fsck */
	MSG_PAUSE_COUNT,       /* counted items */
	MSG_PAUSE_EXPIRY,      /* freed expired values */
	MSG_PAUSE_RETURNS,     /* took back blocks */
	MSG_PAUSE_TICK,        /* timers of all kinds */
	MSG_PAUSE_KIND_END     /* one past the last */
};

#define MSG_CLIENT_NAME_MAX 63u
#define MSG_CLIENT_PEER_MAX 79u
/** CLIENT: flags of enum farkv_client_flags. */
#define MSG_CLIENT_FLAGS 7u

/** A contiguous range of the region and its access. */
struct msg_area {
	uint64_t off;   /* where it starts in the region */
	uint64_t bytes;
	uint64_t raddr; /* verbs: remote address of its start; shm: 0 */
	uint32_t rkey;  /* verbs; shm: 0 */
};
#define MSG_AREAS_MAX 4u

/** A decoded message. Pointers point into the decoded buffer. */
struct msg {
	uint8_t type; /* enum msg_type */
	uint32_t req; /* request number */
	union {
		struct {
			uint8_t role;           /* enum msg_role */
			uint32_t pid;
			uint32_t replaces;      /* session that this one replaces, or 0 */
			uint64_t replaces_region[2];
			uint64_t map;           /* id of the cluster's map; 0: none, ... */
			uint8_t server;         /* ... and the server that the client expects */
			const uint8_t *name;    /* not terminated */
			uint16_t name_len;
		} hello;
		struct {
			uint32_t session;       /* 32 bits, never reused */
			uint32_t prefix;        /* of the versions it writes */
			uint8_t role;           /* granted role */
			uint8_t swept;          /* all that `replaces` cached is invalid */
			uint64_t region_id[2];
			uint64_t region_bytes;
			uint64_t meta_bytes;
			uint64_t grace_ns;
			uint32_t flags;         /* MSG_WELCOME_* */
			/* Identifies this session on its data connection. */
			uint8_t token[MSG_TOKEN_BYTES];
			/* The server's proof; zeros without credentials. */
			uint8_t tag[MSG_TAG_BYTES];
			/* Address for writers, printable ASCII, not terminated; empty: this one. */
			const uint8_t *address;
			uint16_t address_len;
			/* Meta, data, and in a cache heat; shm: a descriptor of each. */
			uint32_t n_areas;
			struct msg_area areas[MSG_AREAS_MAX];
		} welcome;
		struct {
			uint8_t nonce[MSG_NONCE_BYTES]; /* the server's */
		} challenge;
		struct {
			uint8_t nonce[MSG_NONCE_BYTES]; /* the client's */
			uint8_t tag[MSG_TAG_BYTES];     /* see auth.h */
			const uint8_t *name;    /* of the key; see keyfile.h */
			uint16_t name_len;      /* 1..MSG_KEY_NAME_MAX */
		} auth;
		struct {
			uint16_t reason;        /* enum msg_reason */
			const uint8_t *text;
			uint16_t text_len;
		} refuse; /* REFUSE, SHUTDOWN */
		struct {
			const uint8_t *text;    /* see clustermap.h; not terminated */
			uint16_t text_len;
		} map;
		struct {
			uint8_t cls;
			uint32_t count;         /* 1..MSG_REFS_MAX */
		} grant_req;
		struct {
			uint8_t cls;            /* GRANT: class; else 0 */
			uint8_t state;          /* RETURN: enum return_kind; */
						/* else 0 */
			uint64_t number;        /* SWEEP_*: its number; else 0 */
			uint32_t n;
			const uint8_t *refs;    /* n words, see msg_ref() */
		} blocks; /* GRANT, RETURN, SWEEP_QUERY, SWEEP_CLAIM, BYE */
		struct {
			uint64_t page;
			uint32_t gen;
			uint8_t full;           /* 1: a writer waits; 0: early hint */
		} hint;
		struct {
			uint8_t status;         /* enum msg_hint_status */
		} hint_reply;
		struct {
			uint32_t prefix;
		} prefix;
		struct {
			uint32_t session;       /* 0: there are no more */
			uint32_t pid;           /* 0: unknown */
			uint8_t flags;
			uint64_t age_ms, hits, misses, sets;
			uint16_t name_len, peer_len;
			uint8_t name[MSG_CLIENT_NAME_MAX]; /* not terminated */
			uint8_t peer[MSG_CLIENT_PEER_MAX];
		} client;
		struct {
			uint32_t n;
			struct {
				uint16_t id;    /* enum msg_stat, msg_fsck, msg_class */
				uint64_t value;
			} stat[MSG_STATS_MAX];
		} stats; /* STATS, FSCK, HITS, CLASS, PAUSE, PASSED */
		struct {
			uint64_t number;        /* echoed by the _ACK */
		} epoch; /* PING, PONG, BARRIER*, SWEEP_BEGIN, SWEEP_ACK, SWEEP_END,
			    RECLAIM (bytes wanted), CLIENT_REQ, KILL, KILLED,
			    CLASS_REQ (bytes of a block), LEASE_REQ (0), LEASE,
			    MAP_ACK (its epoch), PASS, WAIT_REQ (0), WAITED */
	};
};

/** Reference `i` < n. On the wire it is slot_pack(ref, 0, 0), nothing else. */
struct block_ref msg_ref(const struct msg *m, uint32_t i);

/**
 * Encode into buf; *len_out is the message's length. GRANT, RETURN, SWEEP_* and BYE take
 * m->blocks.n references from `refs` and ignore m->blocks.refs. FARKV_EINVAL with a detail
 * if the message does not fit `cap` or a field is out of range; buf is then undefined.
 */
int msg_encode(const struct msg *m, const struct block_ref *refs, void *buf,
	       size_t cap, size_t *len_out);

/**
 * Decode one whole message. FARKV_EPROTOCOL with a detail; *out is then unchanged. Never
 * reads outside buf.
 */
int msg_decode(const void *buf, size_t len, struct msg *out);

/** One more figure of a STATS, FSCK, HITS, CLASS, PAUSE or PASSED; at most MSG_STATS_MAX. */
static inline void msg_add_stat(struct msg *m, uint16_t id, uint64_t value)
{
	m->stats.stat[m->stats.n].id = id;
	m->stats.stat[m->stats.n].value = value;
	m->stats.n++;
}

/** "GRANT_REQ" etc.; "?" for unknown numbers. */
const char *msg_type_name(uint8_t type);

/** "growth" etc., as farkv_pause_next() shows a kind; "other" for unknown ones. */
const char *msg_pause_name(uint64_t kind);

#endif
