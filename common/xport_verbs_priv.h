/* SPDX-License-Identifier: BSD-3-Clause */
/** xport_verbs_priv.h - what the files of the RDMA transport share. */
#ifndef COMMON_XPORT_VERBS_PRIV_H
#define COMMON_XPORT_VERBS_PRIV_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include "xport_verbs.h"
#include "xport_verbs_private.h"

/*
 * 6, not 7: some devices take 7 for "for ever". Receives are always posted before
 * the other side may send, so waiting for one is a matter of moments: 7 there.
 */
#define VERBS_RETRY_COUNT 6u
#define VERBS_RNR_RETRY 7u
#define VERBS_MIN_RNR_TIMER 6u /* 80 us */
/*
 * At a client, receives are missing when its process stands still (a debugger, a
 * full machine): what the server sends then is tried again and again, for hours
 * perhaps, so not in a hurry.
 */
#define VERBS_LINK_RNR_TIMER 14u /* 1.28 ms */
/* READs and CAS that a client may have outstanding at most. */
#define VERBS_DEPTH 16u
#define VERBS_LANE_SQ 512u
#define VERBS_INLINE 220u
/* Pieces of memory that one request of a lane gathers or scatters. */
#define VERBS_SGES 3u
/* Messages under way in one direction of one connection. */
#define VERBS_SENDS 4u
#define VERBS_LINK_RECVS 8u

/* ---- registered memory (xport_verbs_mem.c) ------------------------------------ */

struct verbs_chunk {
	struct verbs_chunk *next;
	struct ibv_mr *mr;
	uint8_t *base;
	size_t bytes, used;
};

#define VERBS_MEM_CLASSES 48

/**
 * Registered memory, carved into powers of two. Single-threaded. A chunk is
 * registered once and stays until the end, so nothing is registered on the way
 * of an operation that has run before; but of buffers above 1 MiB, 128 MiB at most
 * are kept while they are free.
 */
struct verbs_mem {
	struct ibv_pd *pd;
	struct verbs_chunk *chunks;
	struct verbs_chunk *added; /* memory of the user's: only the key is ours */
	void *free[VERBS_MEM_CLASSES]; /* by log2 of the size */
	size_t large_free; /* bytes in free buffers with chunks of their own */
	uint64_t registrations;
};

void verbs_mem_init(struct verbs_mem *m, struct ibv_pd *pd);
/** 64-byte aligned; NULL with a detail if memory or its registration fails. */
void *verbs_mem_alloc(struct verbs_mem *m, size_t bytes);
void verbs_mem_free(struct verbs_mem *m, void *p, size_t bytes);
/** Register memory of the user's. 0, FARKV_ENOMEM or FARKV_ESYS, with a detail. */
int verbs_mem_add(struct verbs_mem *m, void *p, size_t bytes);
/** No request under way may name it. Unknown memory is left alone. */
void verbs_mem_remove(struct verbs_mem *m, const void *p);
/** Do all these bytes lie in memory that was added in one piece? */
bool verbs_mem_added(const struct verbs_mem *m, const void *p, size_t bytes);
/** The chunk of that list that `p` lies in; NULL if none. */
static inline const struct verbs_chunk *verbs_chunk_of(const struct verbs_chunk *first,
						       const void *p)
{
	for (const struct verbs_chunk *c = first; c; c = c->next)
		if ((size_t)((const uint8_t *)p - c->base) < c->bytes)
			return c;
	return NULL;
}
/** The local key of memory that verbs_mem_alloc() gave or verbs_mem_add() took. */
static inline uint32_t verbs_mem_lkey(const struct verbs_mem *m, const void *p)
{
	const struct verbs_chunk *c = verbs_chunk_of(m->chunks, p);

	if (!c)
		c = verbs_chunk_of(m->added, p);
	return c ? c->mr->lkey : 0;
}
/** Deregister all, unmap what is ours; all QPs that could use it are gone. */
void verbs_mem_fini(struct verbs_mem *m);

/** ibv_reg_mr() failed with `errnum`: explain it by the limits. */
int verbs_reg_error(int errnum, uint64_t bytes, const char *what);

/* ---- connections (xport_verbs_conn.c) ----------------------------------------- */

/** One end of a reliable connection. */
struct verbs_conn {
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	uint32_t max_inline, max_send;
	uint32_t max_sge; /* pieces of a send's memory */
	uint32_t depth; /* READs and CAS that may be outstanding */
	uint8_t tos;    /* server: of what it sends; 0: as the client's */
	uint8_t rnr_timer; /* the peer's pause while receives are missing; 0:
			      VERBS_MIN_RNR_TIMER */
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
 * The device that rdma_cm opened, for this process: librdmacm opens each device
 * once, and a child of fork() cannot use what its parent opened. There *own_out
 * is true and the caller closes it. 0 or FARKV_ESYS.
 */
int verbs_context_get(struct ibv_context *shared, struct ibv_context **out,
		      bool *own_out);

/** Create the QP with the granted limits in *c. 0 or FARKV_ESYS, with a detail. */
int verbs_qp_create(struct verbs_conn *c, const struct verbs_qp_spec *spec);
/** RESET to INIT, with these remote rights. */
int verbs_qp_init(struct verbs_conn *c, unsigned access);
/** INIT to RTS; depths are those of each direction. */
int verbs_qp_connect(struct verbs_conn *c, uint8_t responder_resources,
		     uint8_t initiator_depth);
/** To ERR: everything outstanding is flushed. */
void verbs_qp_error(struct verbs_conn *c);
/** Destroy QP, then id. Return codes are checked and logged. */
void verbs_conn_destroy(struct verbs_conn *c);

/** True if nothing that is said to the id's peer can go out. */
bool verbs_port_is_down(struct rdma_cm_id *id);
/** Disconnect, if the port is up, and flush everything outstanding. */
void verbs_leave(struct verbs_conn *c);
/** Destroy an id whose events are all acknowledged; later, if its port is down. */
void verbs_id_release(struct rdma_cm_id *id);
/** Destroy those whose port is up again; true if others wait on. Any thread. */
bool verbs_leave_late(void);

/** Release an object; a failure is a bug or the device's, and logged. */
#define VERBS_RELEASE(what, call)                                          \
	do {                                                               \
		int rc_ = (call);                                          \
		if (rc_)                                                   \
			verbs_release_failed(what, rc_);                   \
	} while (0)
void verbs_release_failed(const char *what, int rc);

/** Pre-set options of a fresh id: acknowledgement timeout, type of service. */
int verbs_id_tune(struct rdma_cm_id *id, const struct verbs_tuning *t);

/** What the device allows of READs and CAS, clamped to VERBS_DEPTH. */
int verbs_device_depths(struct ibv_context *ctx, uint8_t *serve_out,
			uint8_t *ask_out);

/**
 * What a completion status means for the connection: a line for people in `why`
 * (may be NULL) and the error of its operations.
 */
int verbs_status_error(enum ibv_wc_status status, const char **why);

/** Pieces of memory that a READ or WRITE of this device may have; at most
 * VERBS_SGES, at least 1. */
uint32_t verbs_device_sges(struct ibv_context *ctx);

/** Make a descriptor non-blocking and close-on-exec. */
int verbs_fd_prepare(int fd);

/** The next event of a channel, or NULL; `timeout_ms` as poll(2). */
struct rdma_cm_event *verbs_cm_event(struct rdma_event_channel *ch,
				     int timeout_ms);

/* ---- lanes (xport_verbs_lane.c) ------------------------------------------------ */

/** Things of a lane that exist before its connection does. */
struct verbs_lane;

/** `owner` is what the device's events about its queue name. FARKV_ENOMEM,
 * FARKV_ESYS. */
int verbs_lane_new(struct ibv_pd *pd, void *owner,
		   const struct verbs_lane_params *p, struct verbs_lane **out);
/** Where its QP reports. */
struct ibv_cq *verbs_lane_cq(const struct verbs_lane *l);
/** The lane owns the connection and is ready. */
int verbs_lane_start(struct verbs_lane *l, const struct verbs_conn *conn);
struct xport_lane *verbs_lane_base(struct verbs_lane *l);
struct verbs_lane *verbs_lane_of(struct xport_lane *lane);
/** Break it, if it is not broken, and end all its chains. 0.5 s at most. */
void verbs_lane_stop(struct verbs_lane *l);
/** A lane that broke owns this connection and is ready again. */
int verbs_lane_restart(struct verbs_lane *l, const struct verbs_conn *conn);
/** Why it broke. */
const char *verbs_lane_why(const struct verbs_lane *l);
/** Give up a lane before verbs_lane_start(). */
void verbs_lane_abandon(struct verbs_lane *l);

/* ---- devices (xport_verbs_dev.c) ----------------------------------------------- */

/** The device that holds the region. */
struct verbs_device {
	struct ibv_context *ctx; /* librdmacm's */
	struct ibv_pd *pd;
	uint8_t port;
	int gid_index;
	union ibv_gid gid;
	uint32_t scope; /* index of the GID's network interface, 0 if not known */
	uint8_t serve_depth, ask_depth;
	bool software; /* emulated: its words may tear */
	char text[160];
};

/** Choose by name (NULL: the first that can) and open. FARKV_ENOTSUP, ... */
int verbs_device_open(const char *name, struct verbs_device *out);
void verbs_device_close(struct verbs_device *d);

/**
 * "10.0.0.1:7670", "[fd99::1]:7670" or "[fe80::1%25eth0]:7670" (RFC 6874), as it stands
 * behind kv:// for a client.
 */
void verbs_format_address(const struct sockaddr *sa, unsigned port, char *buf,
			  size_t cap);

/** FARKV_EURI with a detail for an address of a link whose interface is missing. */
int verbs_scope_check(const char *host, const struct sockaddr *sa);

/** An IP address of the device's port, for people and clients; false if there is none
 * that a client can use. */
bool verbs_device_address(const struct verbs_device *d,
			  struct sockaddr_storage *out);

/**
 * Connect the device with itself: `lane` on what `p` names, and the far end's
 * QP in *far_out, to be destroyed before the lane is closed. `rights` are those
 * of the far end.
 */
int verbs_device_loop(struct verbs_device *d, const struct verbs_lane_params *p,
		      unsigned rights, struct xport_lane **lane_out,
		      struct verbs_conn *far_out);

/**
 * The same for a lane that broke: it and *far end, and then a new connection takes
 * their place. When this returns 0, what was under way on the old one has happened
 * or never will. On failure the lane stays broken: FARKV_ENOTSUP (the port is
 * down), FARKV_ESYS.
 */
int verbs_device_loop_again(struct verbs_device *d, unsigned rights,
			    struct xport_lane *lane, struct verbs_conn *far);

/** Does the device do what the protocol needs? FARKV_ENOTSUP with a detail. */
int verbs_device_test(struct verbs_device *d);

#endif
