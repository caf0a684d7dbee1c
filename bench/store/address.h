/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * address.h - the address of another store's server: "/run/x.sock" or "unix:///run/x.sock",
 * "host", "host:port" or "[::1]:port".
 */
#ifndef BENCH_STORE_ADDRESS_H
#define BENCH_STORE_ADDRESS_H

#include <stdint.h>

struct address {
	char path[108];  /* of a Unix socket, or "" */
	char host[256];  /* without brackets; "" with a path */
	uint16_t port;
};

/**
 * FARKV_EINVAL with a detail that begins with the property's `name`.
 */
int address_parse(const char *name, const char *text, uint16_t default_port,
		  struct address *out);

/**
 * A connected stream socket with TCP_NODELAY, whose reads and writes time out after
 * `timeout_ms`. FARKV_EUNREACHABLE or FARKV_ESYS with a detail.
 */
int address_connect(const struct address *a, uint64_t timeout_ms, int *fd_out);

#endif
