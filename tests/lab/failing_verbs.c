/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of an RDMA device that fail; see failing.h. Calls that free something or
 * take an event do not fail.
 */
#include "config.h"

#include "failing.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* These are macros, too. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* The call fails by returning `bad` with errno `errnum`. */
#define WRAP(type, bad, errnum, name, params, args)                            \
	type __real_##name params;                                             \
	type __wrap_##name params;                                             \
	type __wrap_##name params                                              \
	{                                                                      \
		if (failing_fails(#name)) {                                    \
			errno = (errnum);                                      \
			return (bad);                                          \
		}                                                              \
		return __real_##name args;                                     \
	}

/* What the device has. */
WRAP(struct ibv_context *, NULL, EMFILE, ibv_open_device,
     (struct ibv_device * device), (device))
WRAP(int, EIO, EIO, ibv_query_device,
     (struct ibv_context * ctx, struct ibv_device_attr *a), (ctx, a))

/* Objects of the device that a process holds. */
WRAP(struct ibv_pd *, NULL, ENOMEM, ibv_alloc_pd, (struct ibv_context * ctx),
     (ctx))
WRAP(struct ibv_mr *, NULL, ENOMEM, ibv_reg_mr,
     (struct ibv_pd * pd, void *at, size_t n, int access), (pd, at, n, access))
WRAP(struct ibv_mr *, NULL, ENOMEM, ibv_reg_mr_iova,
     (struct ibv_pd * pd, void *at, size_t n, uint64_t iova, int access),
     (pd, at, n, iova, access))
WRAP(struct ibv_mr *, NULL, ENOMEM, ibv_reg_mr_iova2,
     (struct ibv_pd * pd, void *at, size_t n, uint64_t iova, unsigned access),
     (pd, at, n, iova, access))
WRAP(struct ibv_comp_channel *, NULL, EMFILE, ibv_create_comp_channel,
     (struct ibv_context * ctx), (ctx))
WRAP(struct ibv_cq *, NULL, ENOMEM, ibv_create_cq,
     (struct ibv_context * ctx, int n, void *arg, struct ibv_comp_channel *ch,
      int vector),
     (ctx, n, arg, ch, vector))
WRAP(struct ibv_srq *, NULL, ENOMEM, ibv_create_srq,
     (struct ibv_pd * pd, struct ibv_srq_init_attr *a), (pd, a))
WRAP(int, ENOMEM, ENOMEM, ibv_modify_srq,
     (struct ibv_srq * srq, struct ibv_srq_attr *a, int mask), (srq, a, mask))
WRAP(struct ibv_qp *, NULL, ENOMEM, ibv_create_qp,
     (struct ibv_pd * pd, struct ibv_qp_init_attr *a), (pd, a))
WRAP(int, EINVAL, EINVAL, ibv_modify_qp,
     (struct ibv_qp * qp, struct ibv_qp_attr *a, int mask), (qp, a, mask))

/* Connections. */
WRAP(struct ibv_context **, NULL, ENODEV, rdma_get_devices, (int *n), (n))
WRAP(struct rdma_event_channel *, NULL, ENODEV, rdma_create_event_channel,
     (void), ())
WRAP(int, -1, ENOMEM, rdma_create_id,
     (struct rdma_event_channel * ch, struct rdma_cm_id **id, void *arg,
      enum rdma_port_space ps),
     (ch, id, arg, ps))
WRAP(int, -1, EADDRNOTAVAIL, rdma_bind_addr,
     (struct rdma_cm_id * id, struct sockaddr *a), (id, a))
WRAP(int, -1, EADDRINUSE, rdma_listen, (struct rdma_cm_id * id, int n), (id, n))
WRAP(int, -1, ENODEV, rdma_resolve_addr,
     (struct rdma_cm_id * id, struct sockaddr *from, struct sockaddr *to,
      int ms),
     (id, from, to, ms))
WRAP(int, -1, EHOSTUNREACH, rdma_resolve_route,
     (struct rdma_cm_id * id, int ms), (id, ms))
WRAP(int, -1, ENOMEM, rdma_migrate_id,
     (struct rdma_cm_id * id, struct rdma_event_channel *ch), (id, ch))
WRAP(int, -1, EINVAL, rdma_init_qp_attr,
     (struct rdma_cm_id * id, struct ibv_qp_attr *a, int *mask), (id, a, mask))
WRAP(int, -1, ENOSYS, rdma_set_option,
     (struct rdma_cm_id * id, int level, int what, void *to, size_t n),
     (id, level, what, to, n))
WRAP(int, -1, ENOMEM, rdma_connect,
     (struct rdma_cm_id * id, struct rdma_conn_param *p), (id, p))
WRAP(int, -1, EINVAL, rdma_establish, (struct rdma_cm_id * id), (id))
WRAP(int, -1, ENOMEM, rdma_accept,
     (struct rdma_cm_id * id, struct rdma_conn_param *p), (id, p))
