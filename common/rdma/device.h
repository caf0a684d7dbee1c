/* SPDX-License-Identifier: BSD-3-Clause */
/** device.h - the server's device, its self-test and loopback QP; addresses. */
#ifndef COMMON_RDMA_DEVICE_H
#define COMMON_RDMA_DEVICE_H

#include "conn.h"

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
 * Connect a broken lane again: destroys both ends, then connects new ones. After 0, every earlier
 * request was executed or never will be. On failure the lane stays broken: FARKV_ENOTSUP (the port
 * is down), FARKV_ESYS.
 */
int verbs_device_loop_again(struct verbs_device *d, unsigned rights,
			    struct xport_lane *lane, struct verbs_conn *far);

/** Test that the device does what the protocol needs. FARKV_ENOTSUP with a detail. */
int verbs_device_test(struct verbs_device *d);

#endif
