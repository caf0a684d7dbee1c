/* SPDX-License-Identifier: BSD-3-Clause */
/** notify.h - messages to systemd, or any listener at $NOTIFY_SOCKET: sd_notify(3). */
#ifndef SERVER_MEMORY_NOTIFY_H
#define SERVER_MEMORY_NOTIFY_H

/**
 * Send lines such as "READY=1", and a copy of `fd` unless it is -1. 0 or an errno; EINVAL: nobody
 * listens. Waits for room in the receiver's queue, at most a second.
 */
int notify_send(const char *text, int fd);

#endif
