/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * xport_verbs_server.h - the parts of the server's end:
 *
 *   xport_verbs_server.c  device, region, listener; what happens, by turns
 *   xport_verbs_peer.c    connections of clients: made, used, ended
 *   xport_verbs_mover.c   the thread that keeps the shared buffers free
 *   xport_verbs_own.c     the server's lane to itself
 */
#ifndef COMMON_XPORT_VERBS_SERVER_H
#define COMMON_XPORT_VERBS_SERVER_H

#include <pthread.h>
#include <sys/queue.h>

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

struct verbs_peer {
	LIST_ENTRY(verbs_peer) link; /* of its bucket, or of those that end */
	struct verbs_server *server;
	struct verbs_conn control, data;
	uint32_t n_sends; /* under way */
	bool up;          /* on_connected() was called */
	bool data_up;
	bool ending, flushed;
	bool wants_room;
	uint64_t begun_ns, ended_ns;
	uint64_t heard_ns; /* of its machine: a message, or that one arrived */
	void *user;
	char name[80];
};
LIST_HEAD(peer_list, verbs_peer);

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
	pthread_mutex_t lock; /* arrivals */
	struct arrival_list arrivals;

	struct peer_list peers[PEER_BUCKETS]; /* by number of the control QP */
	struct peer_list ending;
	uint64_t complained_ns;
	bool lost;
	struct verbs_server_counters n; /* some written by the mover */
	char address[96];
};

/* ---- xport_verbs_mover.c -------------------------------------------------------- */

/** Post receive buffer `i`. 0 or an errno. */
int verbs_recv_post(struct verbs_server *vs, uint64_t i);
/** Move what has arrived to vs->arrivals. Any thread. */
void verbs_move_all(struct verbs_server *vs);
int verbs_mover_start(struct verbs_server *vs);
void verbs_mover_stop(struct verbs_server *vs);

/* ---- xport_verbs_own.c ------------------------------------------------------------ */

int verbs_own_create(struct verbs_server *vs);
void verbs_own_destroy(struct verbs_server *vs);
/** True: it is lost, come again. */
bool verbs_own_tick(struct verbs_server *vs, uint64_t now);

/* ---- xport_verbs_peer.c ---------------------------------------------------------- */

/** Handle what the mover found. */
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
