/* SPDX-License-Identifier: BSD-3-Clause */
/** serve.h - kvserver's options, and serving according to them. */
#ifndef SERVER_LOOP_SERVE_H
#define SERVER_LOOP_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/memory/region.h"

struct opts_changes;

enum serve_exit { EXIT_RUN = 1, EXIT_USAGE = 64, EXIT_CONFIG = 78 };

/** What happens to a put in a full store; --when-full. */
enum when_full { WHEN_FULL_REFUSE, WHEN_FULL_EVICT };

/** Values of the options, under their names. grace_ms 0: the default. */
struct server_config {
	uint64_t memory, max_value, max_key, index_slots, grace_ms;
	uint64_t max_sessions, drain_ms, ready_fd;
	uint64_t ack_timeout, tos, control_buffers;
	char *socket, *config, *listen, *device, *keys;
	char *memory_file, *verify_file, *cluster_map, *cluster, *node_name;
	char *save, *save_every, *restore, *metrics, *user, *numa_node, *completion;
	unsigned socket_mode, verbose;
	int hugepages, transport, when_full, log_format;
	bool keys_on_socket, no_auth, verify, replace;
	bool quiet, check_config, version, help, print_man;
};

/** Version of the region format that this server writes. */
unsigned serve_format(void);

/** The region that the options describe. */
struct region_config serve_region(const struct server_config *cfg);

/**
 * Check what needs no side effects: addresses, keys. Returns an exit code with a detail, or
 * 0.
 */
int serve_check(struct server_config *cfg);

/**
 * Read the options again into `cfg`, as far as they may change while it serves; at SIGHUP. 0, or an
 * exit code with a detail, and then nothing has changed.
 */
typedef int serve_reread(struct server_config *cfg, struct opts_changes *out);

/**
 * Serve until a signal ends it. Errors are logged. Returns the exit code. `reread` NULL: there is
 * no file of options.
 */
int serve(struct server_config *cfg, serve_reread *reread);

#endif
