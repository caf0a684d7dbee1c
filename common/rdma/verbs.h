/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * verbs.h - the RDMA transport: reliable connections through rdma_cm.
 *
 * A session has two connections to the server. The control connection carries messages by
 * SEND and RECV and gives no access to memory. The data connection is a lane (xport.h); the
 * server accepts it only for a session that was welcomed, with the rights of its role. Both
 * share one event channel.
 *
 * Client and server include this header only, which includes no verbs or rdma_cm headers.
 * verbs.c is the table of its functions; the files that define them are ctrl.c,
 * ctrl_messages.c, server.c, peer.c, loopback.c and device.c. Nothing here knows messages,
 * index or layout.
 *
 * Every wait has a deadline. retry_count is never 7, which some devices take as infinite;
 * every connection sets its own acknowledgement timeout.
 */
#ifndef COMMON_RDMA_VERBS_H
#define COMMON_RDMA_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/xport/xport.h"

#define VERBS_ACK_TIMEOUT 14u     /* default: 4.096 us * 2^14 = 67 ms */
#define VERBS_ACK_TIMEOUT_MAX 31u
#define VERBS_TOKEN_BYTES 16u
#define VERBS_PORT "7670" /* where servers listen by default */

/** Quality of service of a connection. */
struct verbs_tuning {
	/* a packet is sent again after 4.096 us * 2^n; 0 would be never */
	uint8_t ack_timeout;
	uint8_t tos;         /* IP type of service, 0..255 */
};

/** Why a server rejected a connection (in rdma_cm's private data). */
enum verbs_reject {
	VERBS_REJECT_PROTOCOL = 1, /* not farkv, or another version */
	VERBS_REJECT_FULL = 2,
	VERBS_REJECT_SHUTDOWN = 3,
	VERBS_REJECT_SESSION = 4,  /* data connection without a session */
	VERBS_REJECT_DEVICE = 5,   /* arrived on a device without the region */
	VERBS_REJECT_INTERNAL = 6,
};

/** A contiguous range of the region and its remote access. */
struct verbs_area {
	uint64_t off, bytes; /* in the region */
	uint64_t raddr;      /* remote address of its start */
	uint32_t rkey;
};
#define VERBS_AREAS_MAX 4u

/* ---- client ----------------------------------------------------------------------- */

struct verbs_ctrl;

struct verbs_dial {
	const char *host; /* name or address */
	const char *port;
	struct verbs_tuning tuning;
	uint64_t deadline_ns; /* clock_now_ns() */
};

/**
 * Open the control connection: tries each address of the host. Blocks at most until the
 * deadline, not counting the system's name resolution.
 *
 * FARKV_ENOTSUP (no RDMA on this machine; the detail says what to do), FARKV_ENOROUTE
 * (unknown host, or no RDMA route to it), FARKV_ELINKDOWN (this machine's port is down),
 * FARKV_EUNREACHABLE (nobody listens there), FARKV_EREFUSED, FARKV_EPROTOCOL,
 * FARKV_ETIMEDOUT, FARKV_ENOMEM, FARKV_ESYS. On failure nothing stays open.
 */
int verbs_ctrl_open(const struct verbs_dial *d, struct verbs_ctrl **out);

/** Close everything except the lane, which must be closed first. NULL is allowed. */
void verbs_ctrl_close(struct verbs_ctrl *l);

/**
 * In a child of fork(): close the descriptors that would keep the parent's connections up
 * after the parent ends. Async-signal-safe.
 */
void verbs_ctrl_forked(struct verbs_ctrl *l);

/** Readable when verbs_ctrl_receive() has work. */
int verbs_ctrl_fd(const struct verbs_ctrl *l);

/**
 * Send one message. 0; EAGAIN while earlier sends occupy all buffers; another errno if the
 * connection is over. Any thread.
 */
int verbs_ctrl_send(struct verbs_ctrl *l, const void *buf, size_t len);

/**
 * Receive one message and handle other events. Returns its length; 0 if the connection has ended
 * (see verbs_ctrl_why()); -1 if there is no message. One thread.
 */
ssize_t verbs_ctrl_receive(struct verbs_ctrl *l, void *buf, size_t cap);

/** One line with the reason why the connection ended. */
const char *verbs_ctrl_why(const struct verbs_ctrl *l);

struct verbs_lane_params {
	const struct verbs_area *areas; /* copied; at most VERBS_AREAS_MAX, within the
					   region */
	uint32_t n_areas;
	uint64_t region_bytes;
	uint32_t session;
	const uint8_t *token; /* VERBS_TOKEN_BYTES, from WELCOME */
	bool readonly;
	bool read8_atomic;    /* as the server reports of its device */
	bool events;          /* provide xport_wait_fd() */
	uint64_t deadline_ns;
};

/**
 * Open the session's data connection, a lane. The caller owns the lane and closes it before
 * the control connection. Errors as verbs_ctrl_open(). Call it before another thread uses
 * `l`.
 */
int verbs_lane_open(struct verbs_ctrl *l, const struct verbs_lane_params *p,
		    struct xport_lane **out);

/* ---- server ----------------------------------------------------------------------- */

struct verbs_server;
struct verbs_peer; /* a control connection */

struct verbs_server_ops {
	/* A client connects. 0: accept; otherwise enum verbs_reject. */
	int (*on_request)(void *arg);
	/* A control connection is up. Return false to close it. */
	bool (*on_connected)(void *arg, struct verbs_peer *peer);
	/* Return false to leave the peer's next message for a later round. */
	bool (*may_take)(void *arg, struct verbs_peer *peer);
	/*
	 * Messages of this peer were dropped: it exceeded its bound, or (no_memory) there
	 * is no memory. The connection ends after this call.
	 */
	void (*on_overrun)(void *arg, struct verbs_peer *peer, bool no_memory);
	/* A message; `buf` is valid during the call. */
	void (*on_message)(void *arg, struct verbs_peer *peer, const void *buf,
			   size_t len);
	/* An earlier send completed: verbs_peer_send() can succeed again. */
	void (*on_room)(void *arg, struct verbs_peer *peer);
	/* The connection is over; `peer` is invalid after the return. */
	void (*on_gone)(void *arg, struct verbs_peer *peer, const char *why);
	/*
	 * A data connection asks for `session`: set *peer_out and return 0 if that session
	 * was welcomed and `token` is its own; otherwise return enum verbs_reject.
	 */
	int (*on_data)(void *arg, uint32_t session, const uint8_t *token,
		       struct verbs_peer **peer_out, bool *readonly_out);
	/* A connection begins, ends or is waiting: call verbs_server_tick() soon. */
	void (*on_tick_due)(void *arg);
	/* After verbs_server_lane_lost(): the lane works again. May be NULL. */
	void (*on_lane)(void *arg);
	/* The device is lost and with it all connections. */
	void (*on_device_lost)(void *arg, const char *why);
};

struct verbs_server_config {
	const char *host; /* NULL: every address of the device */
	const char *port; /* "0": any */
	const char *device; /* NULL: the first usable one */
	struct verbs_tuning tuning;
	uint32_t n_recv;  /* receive buffers shared by all clients (SRQ) */
	uint32_t msg_max; /* longest message in bytes */
	uint8_t *meta, *data; /* the region's two mappings, ... */
	uint64_t meta_bytes, region_bytes;
	uint8_t *heat; /* ... and that of its heat area; or NULL */
	uint64_t heat_bytes;
	struct verbs_claim *claim; /* for host and port, or NULL; emptied by open */
	const struct verbs_server_ops *ops;
	void *arg;
};

/**
 * Listen at cfg->host and cfg->port (no other field is read) before the region exists.
 * Clients that connect wait. FARKV_EREFUSED if another server listens there. Any other
 * failure returns 0 and *out = NULL: verbs_server_open() reports it.
 */
struct verbs_claim;
int verbs_claim_open(const struct verbs_server_config *cfg, struct verbs_claim **out);
/** NULL is allowed. */
void verbs_claim_close(struct verbs_claim *c);

/**
 * Choose a device, test it (result of a compare-and-swap, order of WRITE and
 * compare-and-swap), register the region and listen. Starts the receive thread, which
 * copies messages out of the shared receive buffers.
 *
 * FARKV_ENOTSUP (no device, or none with an active port and atomics; the detail says what
 * to do), FARKV_EINVAL (address), FARKV_ENOMEM (registration: limit of locked memory),
 * FARKV_ESYS.
 */
int verbs_server_open(const struct verbs_server_config *cfg,
		      struct verbs_server **out);
void verbs_server_close(struct verbs_server *vs);

/** Readable when verbs_server_dispatch() has work. */
int verbs_server_fd(const struct verbs_server *vs);
/**
 * Handle events; calls the functions of `ops`. Bounded time: remaining messages wait for
 * the next round and keep the descriptor readable.
 */
void verbs_server_dispatch(struct verbs_server *vs);
/**
 * Finish connections that end, and end those not established after 5 s. True: more work
 * remains, call again soon.
 */
bool verbs_server_tick(struct verbs_server *vs);

/**
 * Probe the machines of all clients not heard of since `since_ns` (clock_now_ns()). The
 * client's card answers without its process. Without an answer on_gone() is called when the
 * retries are exhausted.
 */
void verbs_server_probe(struct verbs_server *vs, uint64_t since_ns);

/** "kv://192.0.2.1:7670", or "kv://[fd00::1]:7670". */
const char *verbs_server_address(const struct verbs_server *vs);
/** "rxe0 port 1, GID 1 ::ffff:192.0.2.1": for the log. */
const char *verbs_server_device(const struct verbs_server *vs);
/** True if the device reads aligned 8-byte words atomically. */
bool verbs_server_read8_atomic(const struct verbs_server *vs);

/**
 * The region's areas for a session of this role: meta, data, and if there is one and the session
 * may write the heat area, which begins where the region ends. Returns their number.
 */
uint32_t verbs_server_areas(const struct verbs_server *vs, bool readonly,
			    struct verbs_area areas[VERBS_AREAS_MAX]);

/**
 * The lane over the loopback QP, the server's only way to change slots while clients write (I3).
 * Owned by the server; the pointer stays valid until close. Posting does not wait: a thread may
 * post thousands of compare-and-swaps and poll from time to time.
 */
struct xport_lane *verbs_server_lane(struct verbs_server *vs);

/**
 * Report that the lane broke: its chains ended with an error. A port that is down for a
 * moment or a stopped machine is enough. verbs_server_tick() reconnects it and then calls
 * ops->on_lane(). From then on no earlier request can still take effect; the region shows
 * which ones did. If reconnecting fails for 30 s with the port up, or the lane keeps
 * breaking for that long, the device counts as lost.
 */
void verbs_server_lane_lost(struct verbs_server *vs);

/** Control connections, totals since the start. */
struct verbs_server_counters {
	uint64_t received, sent, refills, limit_events, rejected, async_events;
	uint32_t connections, buffers_posted;
};
void verbs_server_counters(const struct verbs_server *vs,
			   struct verbs_server_counters *out);

void verbs_peer_set_user(struct verbs_peer *peer, void *user);
void *verbs_peer_user(const struct verbs_peer *peer);
/** Address of the other end, "192.0.2.7:41234". */
const char *verbs_peer_name(const struct verbs_peer *peer);
/** True if both come from the same host address. */
bool verbs_peer_same_host(const struct verbs_peer *a,
			  const struct verbs_peer *b);
/** Send one message: 0, EAGAIN (wait for on_room), or another errno. */
int verbs_peer_send(struct verbs_peer *peer, const void *buf, size_t len);
/** End the data connection. Once this returns, none of its requests can reach the region (I6). */
void verbs_peer_fence(struct verbs_peer *peer);
/** End both connections without calling on_gone(). Earlier sends are still completed. */
void verbs_peer_close(struct verbs_peer *peer);

/** True if a usable device exists; otherwise `why` gets the reason and the remedy. */
bool verbs_available(char *why, size_t cap);

/* ---- builds without RDMA ---------------------------------------------------------- */

/** The functions above. Client and server call them by xport_verbs. */
struct xport_verbs_ops {
	__typeof__(verbs_ctrl_open) *ctrl_open;
	__typeof__(verbs_ctrl_close) *ctrl_close;
	__typeof__(verbs_ctrl_forked) *ctrl_forked;
	__typeof__(verbs_ctrl_fd) *ctrl_fd;
	__typeof__(verbs_ctrl_send) *ctrl_send;
	__typeof__(verbs_ctrl_receive) *ctrl_receive;
	__typeof__(verbs_ctrl_why) *ctrl_why;
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
