/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by client and server: queue pairs, devices, completion statuses. */
#include "config.h"

#include "conn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"
#include "release.h"

/* ---- devices ---------------------------------------------------------------------- */

static pid_t first_user;

static void first_user_note(void)
{
	first_user = getpid();
}

int verbs_context_get(struct ibv_context *shared, struct ibv_context **out,
		      bool *own_out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct ibv_context *own;

	pthread_once(&once, first_user_note);
	if (first_user == getpid()) {
		*out = shared;
		*own_out = false;
		return 0;
	}
	own = ibv_open_device(shared->device);
	if (!own)
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot open the RDMA device %s",
				     ibv_get_device_name(shared->device));
	*out = own;
	*own_out = true;
	return 0;
}

/* ---- queue pairs ------------------------------------------------------------------ */

int verbs_qp_create(struct verbs_conn *c, const struct verbs_qp_spec *spec)
{
	uint32_t ask = spec->max_inline, sges = UTIL_MAX(spec->max_sge, 1u);

	for (;;) {
		struct ibv_qp_init_attr a = {
			.qp_context = spec->context,
			.send_cq = spec->send_cq,
			.recv_cq = spec->recv_cq,
			.srq = spec->srq,
			.qp_type = IBV_QPT_RC,
			.cap = {.max_send_wr = spec->max_send,
				.max_recv_wr = spec->srq ? 0 : spec->max_recv,
				.max_send_sge = sges,
				.max_recv_sge = spec->srq ? 0 : 1,
				.max_inline_data = ask},
		};

		c->qp = ibv_create_qp(spec->pd, &a);
		if (c->qp) {
			c->max_inline = a.cap.max_inline_data;
			c->max_sge = UTIL_MIN(a.cap.max_send_sge, sges);
			c->max_send = UTIL_MIN(a.cap.max_send_wr,
					       spec->max_send);
			return 0;
		}
		/* A device may grant less inline data than requested. */
		if (ask == 0)
			return err_set_errno(FARKV_ESYS, errno,
					     "cannot create a queue pair");
		ask /= 2;
		if (ask < 16)
			ask = 0;
	}
}

static int qp_modify(struct verbs_conn *c, struct ibv_qp_attr *a, int mask,
		     const char *state)
{
	int rc = ibv_modify_qp(c->qp, a, mask);

	if (rc)
		return err_set_errno(FARKV_ESYS, rc > 0 ? rc : errno,
				     "cannot bring a queue pair to state %s",
				     state);
	return 0;
}

static int qp_attr(struct verbs_conn *c, enum ibv_qp_state state,
		   struct ibv_qp_attr *a, int *mask)
{
	memset(a, 0, sizeof(*a));
	a->qp_state = state;
	if (rdma_init_qp_attr(c->id, a, mask))
		return err_set_errno(FARKV_ESYS, errno,
				     "rdma_cm gives no attributes for a queue "
				     "pair");
	return 0;
}

int verbs_qp_init(struct verbs_conn *c, unsigned access)
{
	struct ibv_qp_attr a;
	int mask, err = qp_attr(c, IBV_QPS_INIT, &a, &mask);

	if (err)
		return err;
	/* rdma_cm's default would let the peer write. */
	a.qp_access_flags = access;
	return qp_modify(c, &a, mask, "INIT");
}

int verbs_qp_connect(struct verbs_conn *c, uint8_t responder_resources,
		     uint8_t initiator_depth)
{
	struct ibv_qp_attr a;
	int mask, err;

	err = qp_attr(c, IBV_QPS_RTR, &a, &mask);
	if (err)
		return err;
	a.max_dest_rd_atomic = responder_resources;
	a.min_rnr_timer = c->rnr_timer ? c->rnr_timer : VERBS_MIN_RNR_TIMER;
	if (c->tos)
		a.ah_attr.grh.traffic_class = c->tos;
	err = qp_modify(c, &a, mask, "RTR");
	if (!err)
		err = qp_attr(c, IBV_QPS_RTS, &a, &mask);
	if (err)
		return err;
	a.max_rd_atomic = initiator_depth;
	a.retry_cnt = VERBS_RETRY_COUNT;
	a.rnr_retry = VERBS_RNR_RETRY;
	c->depth = initiator_depth;
	return qp_modify(c, &a, mask, "RTS");
}

void verbs_qp_error(struct verbs_conn *c)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};

	if (c->qp)
		VERBS_RELEASE("a connection's state",
			      ibv_modify_qp(c->qp, &a, IBV_QP_STATE));
}

void verbs_conn_disconnect(struct verbs_conn *c)
{
	if (c->id && !verbs_port_is_down(c->id))
		(void)rdma_disconnect(c->id);
	verbs_qp_error(c);
}

void verbs_conn_destroy(struct verbs_conn *c)
{
	if (c->qp)
		VERBS_RELEASE("a queue pair", ibv_destroy_qp(c->qp));
	c->qp = NULL;
	if (c->id)
		verbs_id_release(c->id);
	c->id = NULL;
}

int verbs_id_tune(struct rdma_cm_id *id, const struct verbs_tuning *t)
{
	uint8_t timeout = t->ack_timeout, tos = t->tos;

	if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
			    &timeout, sizeof(timeout)))
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot set the acknowledgement timeout");
	/* Must precede the resolution of the route, which uses it. */
	if (tos && rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos,
				   sizeof(tos)))
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot set the type of service");
	return 0;
}

int verbs_device_depths(struct ibv_context *ctx, uint8_t *serve_out,
			uint8_t *ask_out)
{
	struct ibv_device_attr a;

	if (ibv_query_device(ctx, &a))
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot query the RDMA device");
	*serve_out = (uint8_t)UTIL_MIN((unsigned)a.max_qp_rd_atom, 128u);
	*ask_out = (uint8_t)UTIL_MIN((unsigned)a.max_qp_init_rd_atom,
				     VERBS_DEPTH);
	if (*serve_out == 0 || *ask_out == 0)
		return err_set(FARKV_ENOTSUP,
			       "the RDMA device %s allows no READs",
			       ibv_get_device_name(ctx->device));
	return 0;
}

uint32_t verbs_device_sges(struct ibv_context *ctx)
{
	struct ibv_device_attr a;
	int n;

	/* iWARP READs have one SGE; some devices report 0. */
	if (ibv_query_device(ctx, &a))
		return 1;
	n = UTIL_MIN(a.max_sge, a.max_sge_rd);
	return n < 1 ? 1 : UTIL_MIN((uint32_t)n, VERBS_SGES);
}

/* ---- statuses --------------------------------------------------------------------- */

/*
 * The initiator's view of a failed request; the QP is lost after any of these. Errors that
 * only an invalid request causes are a bug here or damage in the region; they would occur
 * again on a new connection.
 */
static const struct status_meaning {
	enum ibv_wc_status status;
	int err;
	const char *why;
} meanings[] = {
	{IBV_WC_WR_FLUSH_ERR, FARKV_EDISCONNECTED, "the connection ended"},
	{IBV_WC_RETRY_EXC_ERR, FARKV_EDISCONNECTED,
	 "the server's machine does not answer: is it up, and the link?"},
	{IBV_WC_RNR_RETRY_EXC_ERR, FARKV_EDISCONNECTED,
	 "the server takes no messages; is it stopped?"},
	{IBV_WC_RESP_TIMEOUT_ERR, FARKV_EDISCONNECTED,
	 "the server's machine answers too late"},
	{IBV_WC_REM_ABORT_ERR, FARKV_EDISCONNECTED,
	 "the server's device aborted the request"},
	{IBV_WC_REM_OP_ERR, FARKV_EDISCONNECTED,
	 "the server's device could not carry out the request"},
	{IBV_WC_REM_ACCESS_ERR, FARKV_EPERM,
	 "the server's device refused the access: no right to that memory"},
	{IBV_WC_REM_INV_REQ_ERR, FARKV_EPERM,
	 "the server's device refused the request: the session has no right "
	 "to it"},
	{IBV_WC_LOC_LEN_ERR, FARKV_ESYS, "a request has an impossible length"},
	{IBV_WC_LOC_QP_OP_ERR, FARKV_ESYS,
	 "the local device cannot carry out the request"},
	{IBV_WC_LOC_PROT_ERR, FARKV_ESYS,
	 "a request names memory that is not registered"},
	{IBV_WC_BAD_RESP_ERR, FARKV_EPROTOCOL,
	 "the server's device gave an answer that makes no sense"},
	{IBV_WC_GENERAL_ERR, FARKV_EDISCONNECTED,
	 "the local device lost an answer"},
	{IBV_WC_FATAL_ERR, FARKV_ESYS, "the local RDMA device failed"},
};

int verbs_status_error(enum ibv_wc_status status, const char **why)
{
	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
		if (meanings[i].status == status) {
			if (why)
				*why = meanings[i].why;
			return meanings[i].err;
		}
	if (why)
		*why = ibv_wc_status_str(status);
	return FARKV_ESYS;
}

/* ---- descriptors ------------------------------------------------------------------ */

int verbs_fd_prepare(int fd)
{
	int fl = fcntl(fd, F_GETFL), fdfl = fcntl(fd, F_GETFD);

	if (fl < 0 || fdfl < 0 || fcntl(fd, F_SETFL, fl | O_NONBLOCK) < 0 ||
	    fcntl(fd, F_SETFD, fdfl | FD_CLOEXEC) < 0)
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot prepare a descriptor of the RDMA "
				     "device");
	return 0;
}

struct rdma_cm_event *verbs_cm_event(struct rdma_event_channel *ch,
				     int timeout_ms)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	struct rdma_cm_event *ev;

	if (poll(&p, 1, timeout_ms) <= 0 || rdma_get_cm_event(ch, &ev))
		return NULL;
	return ev;
}
