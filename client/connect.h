/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * connect.h - connects to an address, up to the server's WELCOME.
 *
 * The peer is not trusted during the handshake: it may be silent, speak another protocol, or
 * send unwanted descriptors.
 */
#ifndef CLIENT_CONNECT_H
#define CLIENT_CONNECT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/proto/clustermap.h"
#include "common/proto/msg.h"
#include "common/rdma/verbs.h"

#include "channel.h"
#include "uri.h"

#define CONNECT_AREAS 3u

/** Where to connect, and the content of HELLO. */
struct connect_params {
	const struct uri *uri;
	const char *name; /* of this client, for the server's log; may be NULL */
	bool readonly;
	uint32_t replaces; /* the session that it replaces, or 0, ... */
	uint64_t replaces_region[2]; /* ... and the region of that session */
	uint64_t map;   /* id of the cluster's map, or 0; ... */
	uint64_t map_epoch; /* ... its epoch: waits for a server with an older map; ... */
	uint8_t server; /* ... and which of its servers this is */
	/* NULL: a server with another map is an error. Otherwise: takes its map, with CONNECT_MAP.
	 */
	struct clustermap **map_out;
	uint64_t deadline_ns; /* clock_now_ns() */
};

/** Result of connect_open(): no session, but the map of the server's cluster. */
#define CONNECT_MAP 1

/** The result. The receiver closes channel and descriptors. */
struct connect_result {
	struct channel *channel;
	bool by_verbs;
	int meta_fd; /* server-written part of the region; -1 for RDMA */
	int data_fd; /* the rest; -1 for RDMA */
	int heat_fd; /* the heat area; -1: none, or RDMA */
	int tether_fd; /* see mapping_tether(); -1 for RDMA */
	uint32_t session;
	uint32_t prefix; /* of the versions of this session */
	bool readonly;   /* granted role, or the requested one if that is less */
	bool swept;      /* `replaces`: its blocks may have been reused, or its last
					requests may still be executed */
	bool peer_may_kill; /* the server's user is ours or root */
	bool outlives;      /* another server may adopt the region when this one ends */
	bool read8_atomic;  /* aligned 8-byte READs never tear */
	uint64_t region_id[2];
	uint64_t region_bytes;
	uint64_t meta_bytes;
	uint64_t heat_bytes; /* 0: no heat area, or none for this session */
	uint64_t grace_ns;
	struct verbs_area areas[CONNECT_AREAS]; /* RDMA: meta, data; heat, if heat_bytes */
	uint8_t token[VERBS_TOKEN_BYTES];
	char writers[MSG_TEXT_MAX + 1]; /* where writers connect, or empty */
};

/**
 * Connect and shake hands, within the deadline.
 *
 * Errors: FARKV_EUNREACHABLE (nobody listens), FARKV_ENOROUTE (no way to the
 * host), FARKV_EPERM (file modes, credentials, or the server's refusal for that
 * reason), FARKV_EPROTOCOL (not a farkv server, or another protocol version),
 * FARKV_EREFUSED (with the server's reason), FARKV_ENOTSUP (no RDMA here),
 * FARKV_ETIMEDOUT, FARKV_ENOMEM, FARKV_ESYS; FARKV_EDISCONNECTED (the connection ended before the
 * server's answer; where no session is replaced that is FARKV_EPROTOCOL, because it may be no
 * kvserver). Nothing stays open then, nor after CONNECT_MAP, whose map the caller frees.
 */
int connect_open(const struct connect_params *p, struct connect_result *out);

#endif
