/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * xport_verbs.h - the RDMA transport: reliable connections under rdma_cm.
 *
 * A session with a server has two connections. The control connection carries
 * messages by SEND and RECV; no memory can be reached by it. The data connection is
 * a lane (xport.h); the server accepts it only for a session that was welcomed,
 * with the rights of its role. Both belong to one event channel.
 *
 * Only files named xport_verbs* see verbs and rdma_cm; this header does not.
 * Nothing here knows messages, index or layout.
 *
 * Every wait has a deadline. retry_count is never 7, which some devices take
 * for "for ever"; every connection has an acknowledgement timeout of its own.
 */
#ifndef COMMON_XPORT_VERBS_H
#define COMMON_XPORT_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "xport.h"

#define VERBS_ACK_TIMEOUT 14u     /* default: 4.096 us * 2^14 = 67 ms */
#define VERBS_ACK_TIMEOUT_MAX 31u
#define VERBS_TOKEN_BYTES 16u
#define VERBS_PORT "7670" /* where servers listen by default */

/** What a connection's quality of service may be. */
struct verbs_tuning {
	/* 4.096 us * 2^n until a packet is sent again; 0 would be never */
	uint8_t ack_timeout;
	uint8_t tos;         /* IP type of service, 0..255 */
};

/** Why a server turned a connection down (in rdma_cm's private data). */
enum verbs_reject {
	VERBS_REJECT_PROTOCOL = 1, /* not ours, or another version */
	VERBS_REJECT_FULL = 2,
	VERBS_REJECT_SHUTDOWN = 3,
	VERBS_REJECT_SESSION = 4,  /* data connection without a session */
	VERBS_REJECT_DEVICE = 5,   /* came in by a device without the region */
	VERBS_REJECT_INTERNAL = 6,
};

/** A part of the region and how to reach it. */
struct verbs_area {
	uint64_t off, bytes; /* in the region */
	uint64_t raddr;      /* remote address of its start */
	uint32_t rkey;
};
#define VERBS_AREAS_MAX 4u

/* ---- client ------------------------------------------------------------------ */

struct verbs_link;

struct verbs_dial {
	const char *host; /* name or address */
	const char *port;
	struct verbs_tuning tuning;
	uint64_t deadline_ns; /* clock_now_ns() */
};

/**
 * Make the control connection. Tries each address of the host. Blocks until the
 * deadline at most; the resolution of a name by the system is not counted.
 *
 * FARKV_ENOTSUP (no RDMA on this machine; the detail says what to do),
 * FARKV_ENOROUTE (unknown host, or no RDMA way to it), FARKV_ELINKDOWN (this
 * machine's port is down), FARKV_EUNREACHABLE (nobody listens there),
 * FARKV_EREFUSED, FARKV_EPROTOCOL, FARKV_ETIMEDOUT, FARKV_ENOMEM, FARKV_ESYS.
 * Nothing is left behind then.
 */
int verbs_link_open(const struct verbs_dial *d, struct verbs_link **out);

/** Close everything but the lane, which must be closed before. NULL is allowed. */
void verbs_link_close(struct verbs_link *l);

/**
 * In a child of fork(): give up its copy of what keeps the parent's connections
 * up, so that they end with the parent. Async-signal-safe.
 */
void verbs_link_forked(struct verbs_link *l);

/** Readable when verbs_link_receive() has something to say. */
int verbs_link_fd(const struct verbs_link *l);

/**
 * Send one message. 0; EAGAIN while earlier ones are under way; another errno if
 * the connection is over. Any thread.
 */
int verbs_link_send(struct verbs_link *l, const void *buf, size_t len);

/**
 * Receive one message and handle what else happened. Its length; 0 if the
 * connection is over (see verbs_link_why()); -1 if there is nothing. One thread.
 */
ssize_t verbs_link_receive(struct verbs_link *l, void *buf, size_t cap);

/** One line: why the connection is over. */
const char *verbs_link_why(const struct verbs_link *l);

struct verbs_lane_params {
	const struct verbs_area *areas; /* copied; at most VERBS_AREAS_MAX, all within
					   the region */
	uint32_t n_areas;
	uint64_t region_bytes;
	uint32_t session;
	const uint8_t *token; /* VERBS_TOKEN_BYTES, of WELCOME */
	bool readonly;
	bool read8_atomic;    /* as the server says of its device */
	bool events;          /* xport_wait_fd() is wanted */
	uint64_t deadline_ns;
};

/**
 * Make the session's data connection: a lane. The lane belongs to the caller, who
 * closes it before the link. Errors as verbs_link_open(). Before the link is
 * given to another thread.
 */
int verbs_lane_open(struct verbs_link *l, const struct verbs_lane_params *p,
		    struct xport_lane **out);

/* ---- server ------------------------------------------------------------------ */

struct verbs_server;
struct verbs_peer; /* a control connection */

struct verbs_server_ops {
	/* Somebody connects. 0: accept; else enum verbs_reject. */
	int (*on_request)(void *arg);
	/* A control connection is up. False: close it. */
	bool (*on_connected)(void *arg, struct verbs_peer *peer);
	/* May the next message of this connection be taken? If not, ask again in
	   the next round. */
	bool (*may_take)(void *arg, struct verbs_peer *peer);
	/* It sent more than can be held (or, with `no_memory`, less): messages are
	   lost. It must be closed. */
	void (*on_overrun)(void *arg, struct verbs_peer *peer, bool no_memory);
	/* A message; `buf` is valid during the call. */
	void (*on_message)(void *arg, struct verbs_peer *peer, const void *buf,
			   size_t len);
	/* Earlier messages have gone out: verbs_peer_send() has room again. */
	void (*on_room)(void *arg, struct verbs_peer *peer);
	/* The connection is over; `peer` ends with the return. */
	void (*on_gone)(void *arg, struct verbs_peer *peer, const char *why);
	/*
	 * A data connection asks for `session`: 0 and *peer_out if it was
	 * welcomed and `token` is its own, else enum verbs_reject.
	 */
	int (*on_data)(void *arg, uint32_t session, const uint8_t *token,
		       struct verbs_peer **peer_out, bool *readonly_out);
	/* A connection begins, ends or waits: verbs_server_tick() is due soon. */
	void (*on_tick_due)(void *arg);
	/* After verbs_server_lane_lost(): the lane works again. May be NULL. */
	void (*on_lane)(void *arg);
	/* The device is lost: all connections are gone. */
	void (*on_device_lost)(void *arg, const char *why);
};

struct verbs_server_config {
	const char *host; /* NULL: every address of the device */
	const char *port; /* "0": any */
	const char *device; /* NULL: the first that can serve */
	struct verbs_tuning tuning;
	uint32_t n_recv;  /* receive buffers that all clients share */
	uint32_t msg_max; /* longest message */
	uint8_t *meta, *data; /* the region's two parts, mapped */
	uint64_t meta_bytes, region_bytes;
	struct verbs_claim *claim; /* of host and port, or NULL; it is empty afterwards */
	const struct verbs_server_ops *ops;
	void *arg;
};

/**
 * Listen at cfg->host and cfg->port (no other field is read) before the region exists.
 * Clients that connect wait. FARKV_EREFUSED if another server listens there. Any other
 * failure gives 0 and NULL: verbs_server_open() reports it.
 */
struct verbs_claim;
int verbs_claim_open(const struct verbs_server_config *cfg, struct verbs_claim **out);
/** NULL is allowed. */
void verbs_claim_close(struct verbs_claim *c);

/**
 * Choose a device, test it (compare-and-swap result, order of WRITE and
 * compare-and-swap), register the region and listen. Starts one thread that moves
 * received messages out of the shared buffers.
 *
 * FARKV_ENOTSUP (no device, none with an active port or with atomics; the detail
 * says what to do), FARKV_EINVAL (address), FARKV_ENOMEM (registration: limits of
 * locked memory), FARKV_ESYS.
 */
int verbs_server_open(const struct verbs_server_config *cfg,
		      struct verbs_server **out);
void verbs_server_close(struct verbs_server *vs);

/** A descriptor that is readable when verbs_server_dispatch() has work. */
int verbs_server_fd(const struct verbs_server *vs);
/**
 * Handle what happened; calls the functions of `ops`. Messages that would take long stay
 * for the next round: then the descriptor stays readable.
 */
void verbs_server_dispatch(struct verbs_server *vs);
/**
 * Connections that end are let go, those that are not finished after 5 s too.
 * True: there is more to do, come again soon.
 */
bool verbs_server_tick(struct verbs_server *vs);

/**
 * Ask the machines of which nothing was heard since `since_ns` (clock_now_ns())
 * whether they are alive. Their cards answer, without the client's process. Where
 * none does, on_gone() is called when the retries are used up.
 */
void verbs_server_probe(struct verbs_server *vs, uint64_t since_ns);

/** "kv://192.0.2.1:7670", or "kv://[fd00::1]:7670". */
const char *verbs_server_address(const struct verbs_server *vs);
/** "rxe0 port 1, GID 1 ::ffff:192.0.2.1": for the log. */
const char *verbs_server_device(const struct verbs_server *vs);
/** True if the device reads aligned words of 8 bytes whole. */
bool verbs_server_read8_atomic(const struct verbs_server *vs);

/** How a session of this role reaches the region: meta, then data. */
void verbs_server_areas(const struct verbs_server *vs, bool readonly,
			struct verbs_area areas[2]);

/**
 * A lane on the region through a connection of the device with itself: the only
 * way in which the server may change slots while clients write (I3). Owned by
 * the server; it stays the same for good. Does not wait: one thread may post
 * thousands of compare-and-swaps and poll now and then.
 */
struct xport_lane *verbs_server_lane(struct verbs_server *vs);

/**
 * The lane broke: its chains ended with an error. A moment with the port down, or
 * with the machine standing still, is enough. Makes it anew, by
 * verbs_server_tick(), as soon as it can be; ops->on_lane() tells. From then on
 * nothing that was posted before can happen any more: what has happened can be seen
 * in the region. If it cannot be made anew for 30 s, though the port is up, or does
 * not last, the device counts as lost.
 */
void verbs_server_lane_lost(struct verbs_server *vs);

/** Of the control plane: what happened since the start. */
struct verbs_server_counters {
	uint64_t received, sent, refills, limit_events, rejected, async_events;
	uint32_t connections, buffers_posted;
};
void verbs_server_counters(const struct verbs_server *vs,
			   struct verbs_server_counters *out);

void verbs_peer_set_user(struct verbs_peer *peer, void *user);
void *verbs_peer_user(const struct verbs_peer *peer);
/** "192.0.2.7:41234", terminated, of the other end. */
const char *verbs_peer_name(const struct verbs_peer *peer);
/** True if both come from the same host's address. */
bool verbs_peer_same_host(const struct verbs_peer *a,
			  const struct verbs_peer *b);
/** Send one message: 0, EAGAIN (wait for on_room), or another errno. */
int verbs_peer_send(struct verbs_peer *peer, const void *buf, size_t len);
/**
 * End the data connection: when this returns nothing of it can reach the region
 * any more (I6).
 */
void verbs_peer_fence(struct verbs_peer *peer);
/** End both connections; on_gone() is not called. What was sent still goes out. */
void verbs_peer_close(struct verbs_peer *peer);

/** True if a usable device exists; else false and why, with what to do. */
bool verbs_available(char *why, size_t cap);

/* ---- builds without RDMA --------------------------------------------------------- */

/** The functions above. Client and server call them by xport_verbs. */
struct xport_verbs_ops {
	__typeof__(verbs_link_open) *link_open;
	__typeof__(verbs_link_close) *link_close;
	__typeof__(verbs_link_forked) *link_forked;
	__typeof__(verbs_link_fd) *link_fd;
	__typeof__(verbs_link_send) *link_send;
	__typeof__(verbs_link_receive) *link_receive;
	__typeof__(verbs_link_why) *link_why;
	__typeof__(verbs_lane_open) *lane_open;
	__typeof__(verbs_claim_open) *claim_open;
	__typeof__(verbs_claim_close) *claim_close;
	__typeof__(verbs_server_open) *server_open;
	__typeof__(verbs_server_close) *server_close;
	__typeof__(verbs_server_fd) *server_fd;
	__typeof__(verbs_server_dispatch) *server_dispatch;
	__typeof__(verbs_server_tick) *server_tick;
	__typeof__(verbs_server_probe) *server_probe;
	__typeof__(verbs_server_address) *server_address;
	__typeof__(verbs_server_device) *server_device;
	__typeof__(verbs_server_read8_atomic) *server_read8_atomic;
	__typeof__(verbs_server_areas) *server_areas;
	__typeof__(verbs_server_lane) *server_lane;
	__typeof__(verbs_server_lane_lost) *server_lane_lost;
	__typeof__(verbs_server_counters) *server_counters;
	__typeof__(verbs_peer_set_user) *peer_set_user;
	__typeof__(verbs_peer_user) *peer_user;
	__typeof__(verbs_peer_name) *peer_name;
	__typeof__(verbs_peer_same_host) *peer_same_host;
	__typeof__(verbs_peer_send) *peer_send;
	__typeof__(verbs_peer_fence) *peer_fence;
	__typeof__(verbs_peer_close) *peer_close;
	__typeof__(verbs_available) *available;
};

/** NULL in a build without libibverbs and librdmacm: FARKV_ENOTSUP, XPORT_VERBS_NONE. */
extern const struct xport_verbs_ops *xport_verbs;

#define XPORT_VERBS_NONE                                                 \
	"this build has no RDMA: libibverbs and librdmacm were not found " \
	"(Debian: libibverbs-dev librdmacm-dev)"

#endif
