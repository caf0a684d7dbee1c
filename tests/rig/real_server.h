/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * real_server.h - a private kvserver for tests, in a directory of its own.
 *
 * The program is $KVSERVER, which the makefile sets. It is started with
 * --ready-fd and is ready when real_server_start() returns; it dies with the
 * test. Failures of these functions fail the running test case.
 *
 * With FARKV_TEST_TRANSPORT=rdma it serves at a kv:// address of this machine's
 * RDMA device, without keys, and has no socket.
 */
#ifndef TESTS_RIG_REAL_SERVER_H
#define TESTS_RIG_REAL_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct real_server {
	char dir[64];
	char path[96]; /* for farkv_open(): the socket's, or kv://... */
	pid_t pid;     /* 0: does not run */
};

/** True if clients connect over RDMA. */
bool real_server_is_remote(void);

/** True if the clients' words may tear, so that a get READs its window twice. */
bool real_server_tears(void);

/** As is_remote; if true, prints that the running case is left out, and why. */
bool real_server_skips(const char *test, const char *why);

/** Skip the whole program (exit 77) if there is no server to test with. */
void real_server_require(void);

/** Make the directory and start; `args` end with NULL and may be NULL. */
void real_server_init(struct real_server *s, const char *const *args);

/** Start at the same address again; the server must not run. */
void real_server_start(struct real_server *s, const char *const *args);

/** SIGSTOP or SIGCONT, and wait until it took effect. */
void real_server_pause(struct real_server *s);
void real_server_resume(struct real_server *s);

/** End it by `sig` and reap it. Returns the status as waitpid(2) gives it. */
int real_server_end(struct real_server *s, int sig);

/** SIGTERM; the server must exit with 0. Removes the directory. */
void real_server_fini(struct real_server *s);

/** Its open descriptors, but for its sessions' tethers (server/loop/lingering.h). */
unsigned real_server_fds(const struct real_server *s);

#endif
