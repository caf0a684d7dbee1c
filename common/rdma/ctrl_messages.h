/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * ctrl_messages.h - the client's control connection once it is made. Private to
 * ctrl_messages.c and ctrl.c, which connects and closes it.
 */
#ifndef COMMON_RDMA_CTRL_MESSAGES_H
#define COMMON_RDMA_CTRL_MESSAGES_H

#include <pthread.h>

#include "common/base/wakeup.h"
#include "conn.h"

#define VERBS_CTRL_RECVS 8u
/* Bytes of one message buffer; of all buffers, receives first, then sends. */
#define VERBS_CTRL_BUF 16384u
#define VERBS_CTRL_BUFS                                                     \
	((size_t)(VERBS_CTRL_RECVS + VERBS_SENDS) * VERBS_CTRL_BUF)

struct verbs_ctrl {
	struct rdma_event_channel *channel;
	struct verbs_conn control;
	struct ibv_context *ctx;
	bool own_ctx; /* opened here, not librdmacm's */
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp;
	struct ibv_cq *recv_cq, *send_cq;
	struct ibv_mr *mr;
	uint8_t *bufs; /* receives, then sends */
	int epoll_fd;
	struct wakeup more; /* wakes the reader for work that no device descriptor
			       reports */
	pid_t pid;
	struct verbs_tuning tuning;
	struct sockaddr_storage peer;
	char peer_text[96];

	pthread_mutex_t lock; /* guards the sends and the end */
	uint32_t sends_free;  /* bit mask of send buffers */
	uint32_t unacked;     /* receive events to acknowledge */
	bool over;
	char why[160];
};

static inline uint8_t *verbs_ctrl_buf(const struct verbs_ctrl *l, unsigned i)
{
	return l->bufs + (size_t)i * VERBS_CTRL_BUF;
}

/** Post receive buffer `i`. 0 or an errno. */
int verbs_ctrl_post_recv(struct verbs_ctrl *l, unsigned i);

#endif
