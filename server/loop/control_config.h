/* SPDX-License-Identifier: BSD-3-Clause */
/** control_config.h - what the control loop is to serve, and how. */
#ifndef SERVER_LOOP_CONTROL_CONFIG_H
#define SERVER_LOOP_CONTROL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

struct clustermap;
struct http_listen;
struct keyfile;
struct listen_socket;
struct saver;
struct verbs_server_config;

struct control_config {
	uint32_t max_sessions;
	uint32_t drain_ms;  /* how long to wait for clients at shutdown */
	uint32_t hello_ms;  /* time for a new connection to send HELLO */
	struct listen_socket *socket;            /* NULL: no Unix socket */
	const struct verbs_server_config *rdma;  /* NULL: no RDMA; region and
								functions in it are ignored */
	/* At SIGHUP: read options again and change them here; NULL: there are none to read. */
	void (*reload)(void *arg, struct control_config *cfg);
	void *reload_arg;
	const char *keys_path; /* of `keys`, absolute; or NULL */
	struct keyfile *keys; /* NULL: no authentication; read again at SIGHUP
				 by the control loop */
	bool evict; /* when memory is short, rather than refuse */
	bool keys_on_socket;        /* socket clients need a key, too */
	const struct clustermap *map; /* of the cluster; NULL: in none */
	uint32_t server;              /* which of its servers this is */
	uint64_t grown_epoch; /* of the latest map that gave it partitions */
	const struct http_listen *metrics; /* where monitoring asks; NULL: nowhere */
	const char *cluster; /* the URL of its coordinator, which has the map; NULL: it does not change */
	const char *node_name; /* with `cluster` */
	struct saver *saver; /* makes snapshots; NULL: none */
	bool saves;          /* to a file */
	uint64_t save_every_ms; /* 0: not by itself */
	bool save_at_end;
	bool verify; /* verify every block of a region that is adopted */
};

#endif
