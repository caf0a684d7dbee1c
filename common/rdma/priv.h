/* SPDX-License-Identifier: BSD-3-Clause */
/** priv.h - shared by the files of the RDMA transport. */
#ifndef COMMON_RDMA_PRIV_H
#define COMMON_RDMA_PRIV_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include "private_data.h"
#include "verbs.h"

/*
 * retry_count 6: some devices take 7 as infinite. rnr_retry 7 (infinite): receives are
 * posted before the peer may send, so an RNR NAK soon finds one.
 */
#define VERBS_RETRY_COUNT 6u
#define VERBS_RNR_RETRY 7u
#define VERBS_MIN_RNR_TIMER 6u /* 80 us */
/*
 * Pause after an RNR NAK from a client. A client whose process is stopped posts no
 * receives, and its server retries, perhaps for hours, so seldom.
 */
#define VERBS_CTRL_RNR_TIMER 14u /* 1.28 ms */
/* Most outstanding READs and CAS of a client. */
#define VERBS_DEPTH 16u
#define VERBS_LANE_SQ 512u
#define VERBS_INLINE 220u
/* SGEs of one request of a lane. */
#define VERBS_SGES 3u
/* Messages in flight in one direction of one connection. */
#define VERBS_SENDS 4u
#define VERBS_CTRL_RECVS 8u

/* ---- registered memory (memory.c) ------------------------------------------------- */

struct verbs_chunk {
	struct verbs_chunk *next;
	struct ibv_mr *mr;
	uint8_t *base;
	size_t bytes, used;
};

#define VERBS_MEM_CLASSES 48

/**
 * Registered memory, in powers of two. Single-threaded. A chunk is registered once and kept
 * until the end, so repeated operations register nothing. Exception: of free buffers above
 * 1 MiB at most 128 MiB are kept.
 */
struct verbs_mem {
	struct ibv_pd *pd;
	struct verbs_chunk *chunks;
	struct verbs_chunk *added; /* the caller's memory; only registered here */
	void *free[VERBS_MEM_CLASSES]; /* free lists by log2 of the size */
	size_t large_free; /* bytes in free buffers that are a chunk each */
	uint64_t registrations;
};

void verbs_mem_init(struct verbs_mem *m, struct ibv_pd *pd);
/** 64-byte aligned; NULL with a detail if memory or its registration fails. */
void *verbs_mem_alloc(struct verbs_mem *m, size_t bytes);
void verbs_mem_free(struct verbs_mem *m, void *p, size_t bytes);
/** Register the caller's memory. 0, FARKV_ENOMEM or FARKV_ESYS, with a detail. */
int verbs_mem_add(struct verbs_mem *m, void *p, size_t bytes);
/** No request in flight may use it. Unknown memory is ignored. */
void verbs_mem_remove(struct verbs_mem *m, const void *p);
/** True if all these bytes lie in one piece of added memory. */
bool verbs_mem_added(const struct verbs_mem *m, const void *p, size_t bytes);
/** The chunk of the list that contains `p`; NULL if none. */
static inline const struct verbs_chunk *verbs_chunk_of(const struct verbs_chunk *first,
						       const void *p)
{
	for (const struct verbs_chunk *c = first; c; c = c->next)
		if ((size_t)((const uint8_t *)p - c->base) < c->bytes)
			return c;
	return NULL;
}
/** The lkey of memory of verbs_mem_alloc() or verbs_mem_add(). */
static inline uint32_t verbs_mem_lkey(const struct verbs_mem *m, const void *p)
{
	const struct verbs_chunk *c = verbs_chunk_of(m->chunks, p);

	if (!c)
		c = verbs_chunk_of(m->added, p);
	return c ? c->mr->lkey : 0;
}
/** Deregister all and unmap the own chunks. All QPs that could use them are destroyed. */
void verbs_mem_fini(struct verbs_mem *m);

/** Report that ibv_reg_mr() failed with `errnum`, with the limit of locked memory. */
int verbs_reg_error(int errnum, uint64_t bytes, const char *what);

/* ---- connections (conn.c) --------------------------------------------------------- */

/** One end of a reliable connection. */
struct verbs_conn {
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	uint32_t max_inline, max_send;
	uint32_t max_sge; /* granted SGEs of a send */
	uint32_t depth; /* most outstanding READs and CAS */
	uint8_t tos;    /* server: of its packets; 0: as the client's */
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
/** Destroy QP, then id. Failures are logged. */
void verbs_conn_destroy(struct verbs_conn *c);

/** True if nothing can be sent to the id's peer. */
bool verbs_port_is_down(struct rdma_cm_id *id);
/** Disconnect, unless the port is down, and flush everything outstanding. */
void verbs_destroy_later(struct verbs_conn *c);
/** Destroy an id whose events are all acknowledged; deferred while its port is down. */
void verbs_id_release(struct rdma_cm_id *id);
/** Destroy deferred ids whose port is up again; true if some remain. Any thread. */
bool verbs_destroy_leftover(void);

/** Release an object and log a failure, which is a bug here or in the device. */
#define VERBS_RELEASE(what, call)                                          \
	do {                                                               \
		int rc_ = (call);                                          \
		if (rc_)                                                   \
			verbs_release_failed(what, rc_);                   \
	} while (0)
void verbs_release_failed(const char *what, int rc);

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

/* ---- lanes (lane.c) --------------------------------------------------------------- */

/** A lane; verbs_lane_new() creates it before its connection. */
struct verbs_lane;

/** `owner` is the context of the CQ's async events. FARKV_ENOMEM, FARKV_ESYS. */
int verbs_lane_new(struct ibv_pd *pd, void *owner,
		   const struct verbs_lane_params *p, struct verbs_lane **out);
/** The CQ for its QP. */
struct ibv_cq *verbs_lane_cq(const struct verbs_lane *l);
/** Give the lane its connection, which it owns from then on. */
int verbs_lane_start(struct verbs_lane *l, const struct verbs_conn *conn);
struct xport_lane *verbs_lane_base(struct verbs_lane *l);
struct verbs_lane *verbs_lane_of(struct xport_lane *lane);
/** Break the lane, if it is not broken, and end all its chains. Takes at most 0.5 s. */
void verbs_lane_stop(struct verbs_lane *l);
/** verbs_lane_start() of a broken lane. */
int verbs_lane_restart(struct verbs_lane *l, const struct verbs_conn *conn);
/** Why it broke. */
const char *verbs_lane_reason(const struct verbs_lane *l);
/** Free a lane that was not started. */
void verbs_lane_abandon(struct verbs_lane *l);

/* ---- devices (device.c) ----------------------------------------------------------- */

/** The device that holds the region. */
struct verbs_device {
	struct ibv_context *ctx; /* owned by librdmacm */
	struct ibv_pd *pd;
	uint8_t port;
	int gid_index;
	union ibv_gid gid;
	uint32_t scope; /* index of the GID's network interface, 0 if not known */
	uint8_t serve_depth, ask_depth;
	bool software; /* emulated: aligned words may tear */
	char text[160];
};

/** Choose by name (NULL: the first usable one) and open. FARKV_ENOTSUP, FARKV_ESYS. */
int verbs_device_open(const char *name, struct verbs_device *out);
void verbs_device_close(struct verbs_device *d);

/**
 * "10.0.0.1:7670", "[fd99::1]:7670" or "[fe80::1%25eth0]:7670" (RFC 6874): the part of a
 * URI after kv://.
 */
void verbs_format_address(const struct sockaddr *sa, unsigned port, char *buf,
			  size_t cap);

/** FARKV_EURI with a detail for a link-local address without an interface. */
int verbs_scope_check(const char *host, const struct sockaddr *sa);

/** An IP address of the device's port; false if there is none that a client can use. */
bool verbs_device_address(const struct verbs_device *d,
			  struct sockaddr_storage *out);

/**
 * Connect the loopback QP: `lane` on the areas of `p`; the far end's QP in *far_out, with
 * `rights`, to be destroyed before the lane is closed.
 */
int verbs_device_loop(struct verbs_device *d, const struct verbs_lane_params *p,
		      unsigned rights, struct xport_lane **lane_out,
		      struct verbs_conn *far_out);

/**
 * Connect a broken lane again: destroys both ends, then connects new ones. After 0, every
 * earlier request has happened or never will. On failure the lane stays broken:
 * FARKV_ENOTSUP (the port is down), FARKV_ESYS.
 */
int verbs_device_loop_again(struct verbs_device *d, unsigned rights,
			    struct xport_lane *lane, struct verbs_conn *far);

/** Test that the device does what the protocol needs. FARKV_ENOTSUP with a detail. */
int verbs_device_test(struct verbs_device *d);

#endif
