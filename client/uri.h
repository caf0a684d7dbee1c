/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * uri.h - addresses of servers.
 *
 *   shm:///run/farkv/kvserver.sock?keys=FILE&key=NAME
 *                                    Unix socket; all after the path is optional;
 *                                    %XX escapes are decoded
 *   /run/farkv/kvserver.sock         the same, nothing is decoded
 *   ./kvserver.sock                  any text with a '/' and no scheme
 *   NULL                             $FARKV_URI, or the default socket
 *   kv://host:port?keys=FILE&key=NAME&ack-timeout=N&tos=N
 *                                    RDMA; all after the host is optional; an IPv6
 *                                    address has brackets, with a scope after %25
 *                                    (RFC 6874) or % if it needs one
 *
 *   URI,URI,...                      servers of one cluster, tried in turn: a comma before the next
 *   kv://host,host:port,...?...      scheme, or between hosts, which share what follows them
 *
 * No system call except to find the default socket (sockpath.h).
 */
#ifndef CLIENT_URI_H
#define CLIENT_URI_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/sockpath.h"

#define URI_HOST_MAX 256u
#define URI_FILE_MAX 1024u
#define URI_KEY_MAX 64u

/** Where to connect, and how. All texts are terminated. */
struct uri {
	char path[SOCKPATH_MAX]; /* of a Unix socket; empty for RDMA */
	char host[URI_HOST_MAX]; /* RDMA: name or address, without brackets */
	char port[8];
	char keys[URI_FILE_MAX]; /* file with the client's key; may be empty */
	char key[URI_KEY_MAX];   /* its name; empty: the only one */
	uint8_t ack_timeout, tos;
	char shown[SOCKPATH_MAX + 16]; /* "kv://host:port", or the path */
};

/**
 * Resolve `text` (NULL allowed, see above; an empty $FARKV_URI counts as unset). 0, or FARKV_EURI
 * with a detail that shows the address, what is wrong and the right form.
 */
int uri_resolve(const char *text, struct uri *out);

/** Addresses in one list, at most. */
#define URI_LIST_MAX 64u

/**
 * uri_resolve() for a list of addresses, which may have one. *list_out, to be freed, has *n_out of
 * them, at least one. FARKV_EURI, FARKV_ENOMEM.
 */
int uri_resolve_list(const char *text, struct uri **list_out, size_t *n_out);

#endif
