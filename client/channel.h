/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * channel.h - transports messages to the server: a packet socket on this host, or the control
 * connection of RDMA. One send or receive is one message.
 */
#ifndef CLIENT_CHANNEL_H
#define CLIENT_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/wakeup.h"
#include "common/proto/hits.h"

struct channel;
struct verbs_ctrl;

#define CHANNEL_TETHER_BYTES HITS_FILE_BYTES

/* More descriptors than the server sends, so that wrong numbers are noticed. */
#define CHANNEL_FDS_MAX 16

/** Descriptors that came with a message; the receiver closes them. */
struct channel_fds {
	int fd[CHANNEL_FDS_MAX];
	unsigned n;
	bool cut; /* there were more than fit here, or than this process may have */
};

struct channel_ops {
	int (*send)(struct channel *ch, const void *buf, size_t len);
	ssize_t (*receive)(struct channel *ch, void *buf, size_t cap,
			   struct channel_fds *fds);
	void (*wait_room)(struct channel *ch, int ms);
	void (*close)(struct channel *ch);
	void (*forked)(struct channel *ch);
};

struct channel {
	const struct channel_ops *ops;
	int fd;          /* readable when there is something to receive */
	struct fd_id id; /* to notice that the program has closed it: see wakeup.h */
	void *tether;    /* see channel_untie(); or NULL */
	bool pollable;   /* fd is also writable when there is room */
	bool outlives;   /* another server may adopt the region when this one ends */
	char next_server[108]; /* path where the next server will listen; empty over RDMA */
	int errnum;      /* after the end: an errno, or 0 if the server closed it */
	char reason[160];   /* after the end: one line */
};

/** Takes a connected packet socket. On NULL (out of memory) it is closed. */
struct channel *channel_unix(int fd);
/** Takes a control connection. On NULL (out of memory) it is closed. */
struct channel *channel_verbs(struct verbs_ctrl *link);
/** The connection that channel_verbs() took. */
struct verbs_ctrl *channel_verbs_ctrl(struct channel *ch);

/** 0; EAGAIN if there is no room; another errno if the channel has ended. Never
 * blocks. Any thread. */
static inline int channel_send(struct channel *ch, const void *buf, size_t len)
{
	return ch->ops->send(ch, buf, len);
}

/**
 * Receive one message without waiting. Returns its length, above `cap` if it was cut; 0 if the
 * channel has ended (see errnum and why); -1 if there is none. With `fds` NULL its descriptors
 * are dropped. One thread.
 */
static inline ssize_t channel_receive(struct channel *ch, void *buf, size_t cap,
				      struct channel_fds *fds)
{
	return ch->ops->receive(ch, buf, cap, fds);
}

/** Sleep until there may be room to send, at most `ms`. */
static inline void channel_wait_room(struct channel *ch, int ms)
{
	ch->ops->wait_room(ch, ms);
}

/** Sleep until there may be something to receive, at most `ms`. */
void channel_wait_message(struct channel *ch, int ms);

/**
 * True if `errnum` means that the server has closed the channel and another server may adopt its
 * region.
 */
bool channel_is_away(const struct channel *ch, int errnum);

/** Over a socket: tell the server that no more messages will follow. */
void channel_leave(struct channel *ch);

/**
 * Whether a server listens at ch->next_server. A killed server closes its files one by one: for a
 * moment the ended server may still listen. A socket that systemd keeps open between two servers
 * counts as no server: its peer is the process that has ended. OTHER_PROCESS: the peer of `ch` has
 * ended, so another server listens. SAME_PROCESS: that peer is alive, and may be the server or, if
 * `ch` waited for the first server, systemd. Some system calls; never waits.
 */
enum channel_next { CHANNEL_NO_SERVER, CHANNEL_SAME_PROCESS, CHANNEL_OTHER_PROCESS };
enum channel_next channel_look(const struct channel *ch);

/** False if the program has closed the descriptor: nothing will arrive any more. */
static inline bool channel_is_open(const struct channel *ch)
{
	return ch->id.ino == 0 || fd_id_is(ch->fd, ch->id);
}

/**
 * Unmap the session's tether (mapping_tether()), if there is one: no operation of the session is
 * running or will run. channel_close() does it, too.
 */
void channel_untie(struct channel *ch);

/** One line that says why a channel ended, from its errno. */
const char *channel_explain(int errnum, char *buf, size_t cap);

/** Close and free. NULL is allowed. In a child of fork() only memory is freed, see
 * channel_forget(). */
void channel_close(struct channel *ch);
/**
 * In the handler of fork(): release what would keep the connection open in the child. `fd` is
 * closed already.
 */
static inline void channel_forked(struct channel *ch)
{
	if (ch->ops->forked)
		ch->ops->forked(ch);
}
/** In a child of fork(): free the memory; the parent owns the connection. */
void channel_forget(struct channel *ch);

#endif
