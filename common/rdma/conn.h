/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * conn.h - for client and server: queue pairs, limits of the device, completion
 * statuses, descriptors.
 */
#ifndef COMMON_RDMA_CONN_H
#define COMMON_RDMA_CONN_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "verbs.h"

/*
 * retry_count 6: some devices take 7 as infinite. rnr_retry 7 (infinite): receives are
 * posted before the peer may send, so an RNR NAK soon finds one.
 */
#define VERBS_RETRY_COUNT 6u
#define VERBS_RNR_RETRY 7u
#define VERBS_MIN_RNR_TIMER 6u /* 80 us */
/* Most outstanding READs and CAS of a client. */
#define VERBS_DEPTH 16u
/* SGEs of one request of a lane. */
#define VERBS_SGES 3u
/* Messages in flight in one direction of one connection. */
#define VERBS_SENDS 4u

/** One end of a reliable connection. */
struct verbs_conn {
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	uint32_t max_inline, max_send;
	uint32_t max_sge; /* granted SGEs of a send */
	uint32_t depth; /* most outstanding READs and CAS */
	uint8_t tos;    /* server: of its packets; 0: same as the client's */
	uint8_t rnr_timer; /* RNR NAK timer for the peer; 0: VERBS_MIN_RNR_TIMER */
};

struct verbs_qp_spec {
	struct ibv_pd *pd;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq; /* may be NULL */
	uint32_t max_send, max_recv, max_inline;
	uint32_t max_sge; /* 0: 1 */
	void *context;
};

/**
 * The device context for this process. librdmacm opens each device once, and a child of
 * fork() cannot use its parent's: there *own_out is true and the caller closes it. 0 or
 * FARKV_ESYS.
 */
int verbs_context_get(struct ibv_context *shared, struct ibv_context **out,
		      bool *own_out);

/** Create the QP; *c gets the granted limits. 0 or FARKV_ESYS, with a detail. */
int verbs_qp_create(struct verbs_conn *c, const struct verbs_qp_spec *spec);
/** RESET to INIT, with these remote rights. */
int verbs_qp_init(struct verbs_conn *c, unsigned access);
/** INIT to RTS. responder_resources: READs and CAS served; initiator_depth: issued. */
int verbs_qp_connect(struct verbs_conn *c, uint8_t responder_resources,
		     uint8_t initiator_depth);
/** To ERR: flushes everything outstanding. */
void verbs_qp_error(struct verbs_conn *c);
/** Disconnect, unless the port is down, and flush everything outstanding. */
void verbs_conn_disconnect(struct verbs_conn *c);
/** Destroy QP, then id (verbs_id_release()). Failures are logged. */
void verbs_conn_destroy(struct verbs_conn *c);

/** Set the options of a new id: acknowledgement timeout, type of service. */
int verbs_id_tune(struct rdma_cm_id *id, const struct verbs_tuning *t);

/** READs and CAS that the device serves and issues, the latter clamped to VERBS_DEPTH. */
int verbs_device_depths(struct ibv_context *ctx, uint8_t *serve_out,
			uint8_t *ask_out);

/**
 * The error of the operations that a completion status ends; `why` (may be NULL) gets one
 * line for the user.
 */
int verbs_status_error(enum ibv_wc_status status, const char **why);

/** SGEs that READs and WRITEs of this device may have; 1 to VERBS_SGES. */
uint32_t verbs_device_sges(struct ibv_context *ctx);

/** Make a descriptor non-blocking and close-on-exec. */
int verbs_fd_prepare(int fd);

/** The next event of a channel, or NULL; `timeout_ms` as poll(2). */
struct rdma_cm_event *verbs_cm_event(struct rdma_event_channel *ch,
				     int timeout_ms);

#endif
