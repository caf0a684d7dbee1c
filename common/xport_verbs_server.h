/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * xport_verbs_server.h - the parts of the server's end:
 *
 *   xport_verbs_server.c  device, region, listener; what happens, by turns
 *   xport_verbs_peer.c    connections of clients: made, used, ended
 *   xport_verbs_mover.c   the thread that keeps the shared buffers free
 *   xport_verbs_inbox.c   what clients have said, until the loop takes it
 *   xport_verbs_own.c     the server's lane to itself
 */
#ifndef COMMON_XPORT_VERBS_SERVER_H
#define COMMON_XPORT_VERBS_SERVER_H

#include <pthread.h>
#include <sys/queue.h>

#include "rate_limit.h"
#include "xport_verbs_priv.h"

#define PEER_BUCKETS 256u
/* Messages under way to all peers together. */
#define SENDS_ALL 1024u
/* In the number of a work request: it is a send. */
#define WR_SEND (UINT64_C(1) << 63)

/* An address that is listened at; see xport_verbs.h. */
struct verbs_claim {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	int errnum; /* why it could not be bound */
};

/* What the mover found. */
struct arrival {
	STAILQ_ENTRY(arrival) link;
	bool is_send;      /* a send is over: `slot`, `status` */
	enum ibv_wc_status status;
	uint32_t qp_num;
	uint32_t slot;
	uint32_t len;      /* of a message */
	uint8_t bytes[];
};
STAILQ_HEAD(arrival_list, arrival);

struct send_slot {
	struct verbs_peer *peer; /* NULL: free */
	uint8_t *buf;
	uint32_t bytes;
	uint32_t next_free;
};

/* Why a message of a peer's was dropped, and so the peer must end. */
enum verbs_overrun {
	VERBS_OVERRUN_NONE,
	VERBS_OVERRUN_BOUND,  /* it sends more than the loop takes */
	VERBS_OVERRUN_MEMORY, /* there is none */
};

struct verbs_peer {
	LIST_ENTRY(verbs_peer) link; /* of its bucket, or of those that end */
	struct verbs_server *server;
	struct verbs_conn control, data;
	uint32_t n_sends; /* under way */
	bool up;          /* on_connected() was called */
	bool data_up;
	bool ending, flushed;
	bool wants_room;
	const char *hung_up; /* why it ends when its inbox is empty, or NULL */
	uint64_t begun_ns, ended_ns;
	uint64_t heard_ns; /* of its machine: a message, or that one arrived */
	void *user;
	char name[80];

	/* under the server's lock */
	struct arrival_list inbox;
	size_t held;  /* bytes in it */
	bool ready;   /* in the server's list: the loop has something to do for it */
	enum verbs_overrun overrun;
	TAILQ_ENTRY(verbs_peer) ready_link;
};
LIST_HEAD(peer_list, verbs_peer);
TAILQ_HEAD(ready_list, verbs_peer);

struct verbs_server {
	struct verbs_server_config cfg;
	struct verbs_device dev;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *witness; /* of the device: hears of its removal */
	struct ibv_mr *meta_mr, *data_rw_mr, *data_ro_mr;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;      /* of all control connections */
	struct ibv_cq *data_cq; /* of data connections: never reports */
	struct ibv_srq *srq;
	struct ibv_mr *recv_mr;
	uint8_t *recv_bufs;
	struct verbs_mem send_mem;
	struct send_slot *sends;
	uint32_t free_send; /* first free slot, or SENDS_ALL */

	struct xport_lane *lane; /* to itself */
	struct verbs_conn lane_far;
	bool lane_lost;
	bool lane_fails; /* it was lost soon after it was made anew */
	uint64_t lane_lost_ns; /* since when it fails */
	uint64_t lane_made_ns; /* anew; 0: never */

	pthread_t mover;
	bool mover_runs;
	int quit_fd, arrived_fd, epoll_fd;
	pthread_mutex_t lock; /* all below up to `peers`; the loop may read that
				 without it, for only the loop changes it */
	struct arrival_list arrivals; /* sends that are over */
	struct ready_list ready; /* peers with messages, in the order of their turns */
	uint32_t n_ready;
	size_t held; /* bytes in all inboxes */
	struct peer_list peers[PEER_BUCKETS]; /* by number of the control QP */
	struct peer_list ending;
	struct rate_limit complaints; /* lines in the log */
	bool lost;
	struct verbs_server_counters n; /* some written by the mover */
	char address[96];
};

/* ---- xport_verbs_mover.c -------------------------------------------------------- */

/** Post receive buffer `i`. 0 or an errno. */
int verbs_recv_post(struct verbs_server *vs, uint64_t i);
/** Move what has arrived to vs->arrivals and to the inboxes. Any thread. */
void verbs_move_all(struct verbs_server *vs);
/** A copy of what a completion says, with its message; NULL if out of memory. */
struct arrival *verbs_arrival_new(struct verbs_server *vs,
				  const struct ibv_wc *wc);
int verbs_mover_start(struct verbs_server *vs);
void verbs_mover_stop(struct verbs_server *vs);

/* ---- xport_verbs_inbox.c -------------------------------------------------------- */

/** A message has come. Drops it if its peer is gone, or has too many. With the lock. */
void verbs_inbox_add(struct verbs_server *vs, const struct ibv_wc *wc);
/** Messages of a new peer can come, and none of one that ends, whose inbox is emptied. */
void verbs_inbox_join(struct verbs_peer *p);
void verbs_inbox_leave(struct verbs_peer *p);
/** verbs_peer_gone(), as soon as what it said before has been taken. `why` stays. */
void verbs_inbox_hang_up(struct verbs_peer *p, const char *why);
/** Hand messages to the loop, for a short time; what is left makes arrived_fd ready. */
void verbs_inbox_dispatch(struct verbs_server *vs);

/* ---- xport_verbs_own.c ------------------------------------------------------------ */

int verbs_own_create(struct verbs_server *vs);
void verbs_own_destroy(struct verbs_server *vs);
/** True: it is lost, come again. */
bool verbs_own_tick(struct verbs_server *vs, uint64_t now);

/* ---- xport_verbs_peer.c ---------------------------------------------------------- */

static inline struct peer_list *verbs_peer_bucket(struct verbs_server *vs,
						  uint32_t qp_num)
{
	return &vs->peers[qp_num % PEER_BUCKETS];
}
/** NULL if there is none, or it ends. With the lock, or on the loop. */
struct verbs_peer *verbs_peer_by_qp(struct verbs_server *vs, uint32_t qp_num);
/** Its control connection is up. Fine if that is known, or if it ends. */
void verbs_peer_established(struct verbs_peer *p);
/** Messages of it were dropped: it ends. */
void verbs_peer_overrun(struct verbs_peer *p, enum verbs_overrun why);

/** Handle what the mover found: sends that are over, and some messages. */
void verbs_arrivals_dispatch(struct verbs_server *vs);
/** Handle rdma_cm's events. */
void verbs_cm_dispatch(struct verbs_server *vs);
/** The other side is gone, or must go: on_gone() is called. */
void verbs_peer_gone(struct verbs_peer *p, const char *why);
/** All peers are gone, and so is the device. */
void verbs_device_lost(struct verbs_server *vs, const char *why);
/** End all connections at once; nobody is told. */
void verbs_peers_destroy(struct verbs_server *vs);

#endif
