/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fake_server.h - a kvserver for tests of the client: a thread that listens on a real
 * socket, serves a tiny region, and misbehaves as configured.
 */
#ifndef TESTS_RIG_FAKE_SERVER_H
#define TESTS_RIG_FAKE_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/region/layout.h"
#include "common/proto/msg.h"

#define FAKE_PAGES 512 /* data area: 16 MiB */
#define FAKE_HEAP_BYTES (FAKE_PAGES * PAGE_BYTES)
/* Deadline of an immediate answer, on a busy machine. */
#define FAKE_WAIT_S 60

/* How the server answers HELLO. */
enum fake_hello {
	FAKE_WELCOME,
	FAKE_SILENT,    /* accept, read, send nothing */
	FAKE_CLOSE,     /* accept and close */
	FAKE_HANGUP,    /* read HELLO and close */
	FAKE_BYTES,     /* send `bytes` as they are */
	FAKE_REFUSE,    /* with `refuse_text` and `refuse_reason` */
	FAKE_OTHER,     /* a PONG */
	FAKE_EDITED,    /* WELCOME, passed through `edit` first */
};

#define FAKE_DEFERRED_MAX 1024u

struct fake_server {
	/* set before fake_server_start() or between connections */
	enum fake_hello hello;
	const void *bytes;
	size_t n_bytes;
	uint16_t refuse_reason;
	const char *refuse_text;
	unsigned refuse_times; /* closes, hangs up, sends `bytes`, too; then it welcomes; 0: forever */
	size_t (*edit)(uint8_t *buf, size_t len); /* returns the new length */
	unsigned n_fds;        /* descriptors sent with WELCOME; default 3 */
	uint8_t role;          /* granted */
	uint64_t grant_blocks; /* blocks left to grant; default: plenty */
	unsigned grant_each;   /* at most this many in one GRANT; 0: any */
	bool keep_deferred;       /* deferred blocks that are returned are not granted again */
	bool hold_grants;      /* keep GRANT_REQs until fake_server_release() */
	bool ignore_requests;  /* read them, answer none */
	bool deaf;             /* read nothing at all */
	uint8_t hint_status;
	bool hint_is_last;     /* it shuts down directly after the answer */

	/* the region; may be changed before a connection */
	struct superblock sb;
	int meta_fd, data_fd, tether_fd;
	uint8_t *meta, *data;

	/* Returned as deferred: granted again, at once. */
	struct block_ref deferred[FAKE_DEFERRED_MAX];
	unsigned n_deferred;

	/* what arrived; read with fake_server_count() */
	unsigned seen[256];
	uint64_t returned;      /* blocks in RETURN messages */
	uint64_t granted;       /* blocks in GRANT messages */
	uint64_t ack_number;    /* of the last BARRIER_ACK or SWEEP_ACK */
	struct block_ref claims[MSG_REFS_MAX]; /* in the last SWEEP_CLAIM */
	uint32_t claimed;       /* ... how many */
	uint32_t claim_req;     /* ... the question's number */
	uint64_t claim_number;  /* ... the sweep's */
	uint64_t unasked;       /* blocks claimed without a question, BYE not yet said */
	uint8_t out[FAKE_HEAP_BYTES / PTR_UNIT]; /* granted, not returned: class + 1 */
	uint32_t hello_replaces;
	uint64_t hello_replaces_region;

	/* private */
	char dir[64], path[96];
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	int listen_fd, conn_fd, wake_fd;
	uint32_t next_session;
	uint64_t next_block;
	struct { uint32_t req; uint8_t cls; uint32_t count; } held[128];
	unsigned n_held;
	bool stop;
};

/** Make region and socket, not listening yet. `seals`: of both descriptors. */
void fake_server_init(struct fake_server *f, int seals);
/** Store a changed `sb`; `seal` it first, so that only its content is invalid. */
void fake_server_superblock(struct fake_server *f, bool seal);
void fake_server_start(struct fake_server *f);
void fake_server_fini(struct fake_server *f);

/** Send to the connected client; `refs` as for msg_encode(). */
void fake_server_send(struct fake_server *f, const struct msg *m,
		      const struct block_ref *refs);
/** Send raw bytes to the connected client. */
void fake_server_send_bytes(struct fake_server *f, const void *p, size_t n);
/** Answer the GRANT_REQs that were held. */
void fake_server_release(struct fake_server *f);
/** Close the connection to the client. */
void fake_server_hangup(struct fake_server *f);
/**
 * The same for connections not accepted yet, of a client that does not connect any more.
 */
void fake_server_hangup_all(struct fake_server *f);
/** Change a knob while the server runs. */
#define fake_server_set(f, knob, v)                    \
	do {                                           \
		pthread_mutex_lock(&(f)->lock);        \
		(f)->knob = (v);                       \
		pthread_mutex_unlock(&(f)->lock);      \
		fake_server_wake(f);                   \
	} while (0)
void fake_server_wake(struct fake_server *f);

/** How many messages of `type` have arrived. */
unsigned fake_server_count(struct fake_server *f, uint8_t type);
/** Wait (FAKE_WAIT_S at most) until `n` have arrived; false if they have not. */
bool fake_server_wait(struct fake_server *f, uint8_t type, unsigned n);

#endif
