/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * listen.h - the server's Unix socket: created, guarded by a lock file, removed; or passed by
 * systemd, which keeps it over a restart of the server, so that clients wait meanwhile.
 */
#ifndef SERVER_LOOP_LISTEN_H
#define SERVER_LOOP_LISTEN_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/base/sockpath.h"

struct listen_socket {
	int fd;      /* SOCK_SEQPACKET, non-blocking */
	int lock_fd; /* PATH.lock, held by flock(2) while the server lives */
	char path[108];
	dev_t dev;   /* of the socket's file */
	ino_t ino;
	bool passed; /* by systemd: file and address are systemd's, and there is no lock */
};

/**
 * Take the address `path` with file mode `mode`; clients are refused until listen_begin(). A
 * missing parent folder is made, a stale socket is replaced. FARKV_EREFUSED if another server
 * listens there, FARKV_EINVAL if the path is too long or another kind of file is there, FARKV_ESYS;
 * each with a detail.
 */
int listen_open(const char *path, unsigned mode, struct listen_socket *l_out);

/**
 * Use the listening socket `fd`, which was passed; it is never closed. `path` is where it must
 * listen, NULL: anywhere. FARKV_EINVAL with a detail if it is another kind of descriptor, or
 * listens elsewhere; FARKV_ESYS.
 */
int listen_adopt(int fd, const char *path, struct listen_socket *l_out);

/**
 * Let clients connect. From then on the peer of new connections is this process, also for one
 * that was passed. 0 or FARKV_ESYS with a detail.
 */
int listen_begin(const struct listen_socket *l);

/* "shm://", each byte of a path as %XX, and a NUL. */
#define LISTEN_URI_MAX (3 * SOCKPATH_MAX + 8)

/**
 * The address as clients need it: an absolute path, or one relative to the server's folder, with
 * %XX for characters that are special in a URI. FARKV_EINVAL with a detail for a path that no
 * client accepts.
 */
int listen_uri(const char *path, char uri[LISTEN_URI_MAX]);

/** Remove the socket's name, if it is still ours: nobody finds it any more. Not a passed one's. */
void listen_hide(const struct listen_socket *l);

/**
 * Stop listening, remove the socket and the lock file if they are still ours: another server
 * may have taken the path. A passed socket stays as it is, with the connections that wait there.
 */
void listen_close(struct listen_socket *l);

#endif
