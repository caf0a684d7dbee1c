/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * server_state.h - the private structs of the server's end; no functions. Its files, each of
 * which calls those above it only:
 *
 *   inbox.c        received messages until the loop takes them
 *   recv_thread.c  the receive thread
 *   peer.c         clients' connections, from accept to end
 *   arrivals.c     the loop handles what the receive thread has taken
 *   loopback.c     the server's lane over the loopback QP
 *   server.c       device, region, listener, dispatch
 */
#ifndef COMMON_RDMA_SERVER_STATE_H
#define COMMON_RDMA_SERVER_STATE_H

#include <pthread.h>
#include <sys/queue.h>

#include "common/base/rate_limit.h"
#include "conn.h"
#include "device.h"
#include "memory.h"

#define PEER_BUCKETS 256u
/* Messages in flight to all peers together. */
#define SENDS_ALL 1024u
/* Bit in wr_id: the work request is a send. */
#define WR_SEND (UINT64_C(1) << 63)

/* A completion that the receive thread has taken. */
struct arrival {
	STAILQ_ENTRY(arrival) link;
	bool is_send;      /* a completed send: `slot`, `status` */
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

/* Why a message of a peer was dropped, so that the peer must end. */
enum verbs_overrun {
	VERBS_OVERRUN_NONE,
	VERBS_OVERRUN_BOUND,  /* too many messages are queued */
	VERBS_OVERRUN_MEMORY, /* out of memory */
};

struct verbs_peer {
	LIST_ENTRY(verbs_peer) link; /* in its bucket, or in `ending` */
	struct verbs_server *server;
	struct verbs_conn control, data;
	uint32_t n_sends; /* in flight */
	bool up;          /* on_connected() was called */
	bool data_up;
	bool ending, flushed;
	bool wants_room;
	const char *hung_up; /* why to end it once its inbox is empty; or NULL */
	uint64_t begun_ns, ended_ns;
	uint64_t heard_ns; /* last message or acknowledgement from its machine */
	void *user;
	char name[80];

	/* under the server's lock */
	struct arrival_list inbox;
	size_t held;  /* bytes in it */
	bool ready;   /* in the server's `ready` list */
	enum verbs_overrun overrun;
	TAILQ_ENTRY(verbs_peer) ready_entry;
};
LIST_HEAD(peer_list, verbs_peer);
TAILQ_HEAD(ready_list, verbs_peer);

struct verbs_server {
	struct verbs_server_config cfg;
	struct verbs_device dev;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *removal_id; /* device-removal cm_id */
	struct ibv_mr *meta_mr, *data_rw_mr, *data_ro_mr, *heat_mr;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;      /* of all control connections */
	struct ibv_cq *data_cq; /* of data connections; never has a CQE */
	struct ibv_srq *srq;
	struct ibv_mr *recv_mr;
	uint8_t *recv_bufs;
	struct verbs_mem send_mem;
	struct send_slot *sends;
	uint32_t free_send; /* first free slot, or SENDS_ALL */

	struct xport_lane *lane; /* over the loopback QP */
	struct verbs_conn lane_far;
	bool lane_lost;
	bool lane_fails; /* it broke again soon after it was reconnected */
	uint64_t lane_lost_ns; /* time since which it fails */
	uint64_t lane_made_ns; /* reconnected at; 0: never */

	pthread_t recv_thread;
	bool recv_thread_runs;
	int quit_fd, arrived_fd, epoll_fd;
	pthread_mutex_t lock; /* guards what follows up to `peers`; the loop, which
				 alone changes `peers`, reads it without the lock */
	struct arrival_list arrivals; /* completed sends */
	struct ready_list ready; /* peers with messages, in turn */
	uint32_t n_ready;
	size_t held; /* bytes in all inboxes */
	struct peer_list peers[PEER_BUCKETS]; /* by number of the control QP */
	struct peer_list ending;
	struct rate_limit complaints; /* of log lines */
	bool lost;
	struct verbs_server_counters n; /* `refills` is the receive thread's */
	char address[96];
};

#endif
