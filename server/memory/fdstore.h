/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fdstore.h - systemd's file-descriptor store: descriptors that a service has sent to systemd come
 * back to its next process (sd_notify(3), FDSTORE=1; sd_listen_fds(3)). systemd drops them when the
 * service is stopped for good. The socket of a socket unit comes in the same list. All have names
 * that begin with "farkv-".
 *
 * One store for the process, used by the event loop alone.
 */
#ifndef SERVER_MEMORY_FDSTORE_H
#define SERVER_MEMORY_FDSTORE_H

#include <stdbool.h>
#include <stdint.h>

/**
 * How many descriptors the store takes; 0: there is none. From $NOTIFY_SOCKET and $FDSTORE, which
 * systemd sets from version 254 on if the unit has FileDescriptorStoreMax.
 */
uint64_t fdstore_room(void);

/** The descriptor that an earlier process put there as `name`; it is then the caller's. -1: none.
 */
int fdstore_take(const char *name);
/** Close those of other names; the log warns of each. */
void fdstore_close_strangers(void);
/** Forget those that were not taken, and remove them from the store. */
void fdstore_drop_rest(void);

/**
 * Put a copy of `fd` there. 0 or an errno. systemd takes it later, in order, and even if this
 * process is killed. Waits for room in systemd's queue, at most a second.
 */
int fdstore_put(const char *name, int fd);
/** Remove all of that name. */
void fdstore_drop(const char *name);

#endif
