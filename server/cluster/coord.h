/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * coord.h - the coordinator of a cluster: a service that keeps the map and knows which servers
 * live.
 *
 * The coordinator has one map, replaced by compare-and-set on its version, and the registrations of
 * servers. It drops a registration when it has not heard of the server for the session's time.
 * coord_zk.c alone knows that the coordinator is ZooKeeper:
 *
 *   PATH/map            the map's text
 *   PATH/members/NAME   a server's registration, an ephemeral node
 *
 * A server asks in rounds: it writes its registration, then reads the map and the members. The
 * reads are answered after the write, so the view is not older than the round's begin: that is what
 * a lease counts from (doc/cluster.md, Leases).
 *
 * One thread. Nothing waits except where said; the owner polls the descriptor.
 */
#ifndef SERVER_CLUSTER_COORD_H
#define SERVER_CLUSTER_COORD_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coord;

/** What a round has found. */
struct coord_view {
	uint64_t as_of_ns; /* clock_now_ns() when it began */
	bool registered;   /* the server's registration stood then; otherwise a server learns nothing */
	const char *map;   /* not terminated; valid during the call */
	size_t map_len;
	int32_t map_version; /* for coord_replace_map() */
	const char *const *members; /* names */
	size_t n_members;
};

struct coord_config {
	const char *url; /* zk://HOST:PORT[,HOST:PORT]/PATH */
	const char *name; /* of the server */
	uint32_t session_ms; /* the registration's time; the service may choose another */
	void (*viewed)(void *arg, const struct coord_view *v); /* may not close the coordinator */
	void *arg;
};

/** Check a URL: FARKV_EINVAL with a line; FARKV_ENOTSUP if this build knows no such service. */
int coord_check(const char *url);

/**
 * Begin; connects and reconnects by itself. Errors as coord_check(), and FARKV_ENOMEM,
 * FARKV_ESYS.
 */
int coord_open(const struct coord_config *cfg, struct coord **out);

/**
 * Close. The registration goes at once if `leave`; otherwise it ends by itself after the session's
 * time, so that nobody takes over before the leases of clients have ended. NULL is allowed.
 */
void coord_close(struct coord *c, bool leave);

/** What to wait for: p->fd (-1: nothing) and p->events, and for how many ms at most. */
void coord_wants(struct coord *c, struct pollfd *p, int *ms_out);
/** Go on, with the events that came (0: the time is over). May call viewed(). */
void coord_process(struct coord *c, short revents);

/** Begin a round; viewed() is called at its end, unless the connection is lost. False: a round is
 * running, or the service cannot be reached. */
bool coord_round(struct coord *c);

/** Replace the map if it still has that version. The next rounds show what became of it. */
void coord_replace_map(struct coord *c, const char *text, size_t len, int32_t version);

/** The time after which a registration that is not heard of ends, in ms; 0: not known yet. */
uint32_t coord_session_ms(const struct coord *c);

/** What failed last, until a round succeeds; then an empty text. For log lines. */
const char *coord_last_error(const struct coord *c);

/**
 * Make the cluster of that URL with this map. Waits, at most `ms`. FARKV_EEXISTS if it is there;
 * FARKV_ETIMEDOUT if the service does not answer; errors as coord_check().
 */
int coord_make(const char *url, const char *text, size_t len, int ms);

/**
 * Read the map and the members, and call read() with them; `registered` is false. Repeats this
 * every 100 ms while read() returns true. Waits, each time at most `ms`. FARKV_ENOTFOUND: there is
 * no such cluster; FARKV_ETIMEDOUT if the service does not answer; errors as coord_check(), and
 * FARKV_ENOMEM, FARKV_ESYS.
 */
int coord_read(const char *url, int ms, bool (*read)(void *arg, const struct coord_view *v), void *arg);

/**
 * Change the map: `change` makes the next text, of at most CLUSTERMAP_TEXT_MAX bytes in a buffer of
 * one more, from what was read. If another process has replaced the map meanwhile, it is called
 * again with the new one. An error of `change` is returned. Waits; `ms` and errors as coord_read().
 */
int coord_change(const char *url, int ms,
		 int (*change)(void *arg, const struct coord_view *v, char *text_out, size_t *len_out),
		 void *arg);

#endif
