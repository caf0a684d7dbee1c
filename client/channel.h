/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * channel.h - how messages reach the server: a packet socket on this host, or the
 * control connection of the RDMA transport. One send or receive is one message.
 */
#ifndef CLIENT_CHANNEL_H
#define CLIENT_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/wakeup.h"

struct channel;
struct verbs_link;

#define CHANNEL_TETHER_BYTES 4096u

/* More descriptors than a peer should send: the rest can then be counted. */
#define CHANNEL_FDS_MAX 16

/** Descriptors that came along with a message; the receiver closes them. */
struct channel_fds {
	int fd[CHANNEL_FDS_MAX];
	unsigned n;
	bool cut; /* there were more: than fit here, or than this process may have */
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
	struct fd_id id; /* the program may have closed it: see wakeup.h */
	void *tether;    /* see channel_untie(); or NULL */
	bool pollable;   /* ... and writable when there is room */
	int errnum;      /* after the end: an errno, or 0 for an orderly one */
	char why[160];   /* after the end: one line */
};

/** Take a connected packet socket. NULL if out of memory; it is closed then. */
struct channel *channel_unix(int fd);
/** Take a control connection. NULL if out of memory; it is closed then. */
struct channel *channel_verbs(struct verbs_link *link);
/** The connection that channel_verbs() took. */
struct verbs_link *channel_verbs_link(struct channel *ch);

/** 0; EAGAIN if there is no room; another errno if the channel is over. Never
 * blocks. Any thread. */
static inline int channel_send(struct channel *ch, const void *buf, size_t len)
{
	return ch->ops->send(ch, buf, len);
}

/**
 * Receive one message without waiting. Its length, which is above `cap` if it was
 * cut; 0 if the channel is over (errnum and why say more); -1 if there is nothing.
 * With `fds` NULL, descriptors that come along are dropped. One thread.
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

/** False if the program has closed the descriptor: nothing will come any more. */
static inline bool channel_is_open(const struct channel *ch)
{
	return ch->id.ino == 0 || fd_id_is(ch->fd, ch->id);
}

/**
 * Unmap the session's tether (mapping_tether()), if there is one: no operation of the
 * session is under way, or will be. channel_close() does it, too.
 */
void channel_untie(struct channel *ch);

/** In one line, why a channel is over, from its errno. */
const char *channel_explain(int errnum, char *buf, size_t cap);

/** Close and free. NULL is allowed. In a child of fork(): only memory is freed,
 * see channel_forget(). */
void channel_close(struct channel *ch);
/** In the handler of fork(): nothing of the child's keeps the connection up.
 * `fd` is closed already. */
static inline void channel_forked(struct channel *ch)
{
	if (ch->ops->forked)
		ch->ops->forked(ch);
}
/** In a child of fork(), whose parent owns the connection: free the memory. */
void channel_forget(struct channel *ch);

#endif
