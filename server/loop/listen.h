/* SPDX-License-Identifier: BSD-3-Clause */
/** listen.h - the server's Unix socket: created, guarded by a lock file, removed. */
#ifndef SERVER_LOOP_LISTEN_H
#define SERVER_LOOP_LISTEN_H

#include <sys/types.h>

struct listen_socket {
	int fd;      /* SOCK_SEQPACKET, non-blocking */
	int lock_fd; /* PATH.lock, held by flock(2) while the server lives */
	char path[108];
	dev_t dev;   /* of the socket's file */
	ino_t ino;
};

/**
 * Take the address `path` with file mode `mode`; clients are refused until listen_begin(). A
 * missing parent folder is made, a stale socket is replaced. FARKV_EREFUSED if another server
 * listens there, FARKV_EINVAL if the path is too long or another kind of file is there, FARKV_ESYS;
 * each with a detail.
 */
int listen_open(const char *path, unsigned mode, struct listen_socket *l_out);

/** Let clients connect. 0 or FARKV_ESYS with a detail. */
int listen_begin(const struct listen_socket *l);

/** Remove the socket's name, if it is still ours: nobody finds it any more. */
void listen_hide(const struct listen_socket *l);

/** Stop listening, remove the socket and the lock file if they are still ours: another server
 * may have taken the path. */
void listen_close(struct listen_socket *l);

#endif
