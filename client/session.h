/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * session.h - a handle's communication with its server after WELCOME.
 *
 * The handle's thread sends requests and may wait for answers. The control thread receives
 * everything: it puts blocks and prefixes for the handle into the grants inbox, answers BARRIER,
 * SWEEP and RECLAIM, and ends the session when the socket ends.
 *
 * No answer is lost to a deadline: a GRANT that comes after its request was given up goes to the
 * inbox, too.
 */
#ifndef CLIENT_SESSION_H
#define CLIENT_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/proto/msg.h"
#include "common/region/layout.h"
#include "common/xport/xport.h"

#include "channel.h"
#include "inventory.h"
#include "qsbr.h"
#include "session_grants.h"

struct clustermap;
struct notifier;
struct session;

/**
 * Begin: `ch` is a channel after WELCOME, `sb` limits the blocks that may be granted, `lane` is
 * broken when the session ends, `inv` (NULL: read-only) is recorded for sweeps and returned from
 * on RECLAIM. Registers with the control thread. 0, FARKV_ENOMEM, FARKV_ESYS; then the channel
 * is still the caller's.
 */
int session_begin(struct channel *ch, const struct superblock *sb,
		struct xport_lane *lane, struct inventory *inv,
		struct session **s_out);

/**
 * End without BYE. Waits for the control thread. Returns the channel, which is the caller's
 * again; NULL for NULL, and in a child of fork().
 */
struct channel *session_free(struct session *s);

/** The quiescence counter of the handle's operations. Never NULL. */
struct qsbr *session_qsbr(struct session *s);

/**
 * Send a request or notification; its number is chosen here. Waits while the socket is full,
 * until `deadline_ns` (0: not at all). 0, FARKV_ETIMEDOUT (not sent), FARKV_EDISCONNECTED,
 * FARKV_EINVAL.
 */
int session_post(struct session *s, struct msg *m, const struct block_ref *refs,
		 uint64_t deadline_ns);

/**
 * Send a request and wait for its answer, of type `expect`: one control round trip. *answer_out
 * has no references. 0, FARKV_ETIMEDOUT, FARKV_EDISCONNECTED, FARKV_EINVAL.
 */
int session_call(struct session *s, struct msg *m, uint8_t expect,
		 struct msg *answer_out, uint64_t deadline_ns);

/**
 * session_call() in two halves, without waiting: session_call_begin() sends, session_call_take()
 * takes the answer to the last request, or returns FARKV_EAGAIN if it has not come yet.
 */
int session_call_begin(struct session *s, struct msg *m, uint8_t expect,
		       uint64_t deadline_ns);
int session_call_take(struct session *s, struct msg *answer_out);
/** Drop the answer to that request, whether it has come or not. */
void session_call_forget(struct session *s);
/** True if session_call_take() would not return FARKV_EAGAIN. */
bool session_call_ready(struct session *s);

/** Sleep until the grants inbox has something, or there is an answer that was not taken, or the
 * session ends, or `until_ns`. */
void session_wait(struct session *s, uint64_t until_ns);

/**
 * From now on call `w` (NULL: nobody) when the session ends; with `grants` also for grants and
 * answers, when session_wait() would return. Earlier events do not notify: check for them after
 * this call. `w` must outlive the session. No cost if nothing changes. The handle's thread.
 */
void session_wakes(struct session *s, struct notifier *w, bool grants);

/** Sleep until the socket may have room, or `until_ns`. */
void session_wait_room(struct session *s, uint64_t until_ns);

/**
 * If PENDING_SWEEP is set (a sweep has begun), add all that the session holds to the journal,
 * including the grants inbox, and clear the flag. The caller has the inventory's lock; see qsbr.h.
 */
void session_record(struct session *s);

/** Take the contents of the grants inbox; clears PENDING_GRANTS. */
void session_take_grants(struct session *s, struct session_grants_inbox *inbox_out);

/** GRANT requests without an answer. */
uint32_t session_grants_out(const struct session *s);

/** Requests sent. */
uint64_t session_sent(const struct session *s);

/**
 * Say BYE and wait for its acknowledgement, the session's end, or `until_ns`. All blocks must have
 * been returned. First names the blocks that a sweep must know of; if they are too many or cannot
 * be sent, BYE is not sent, and the server sweeps again. True if the server has received BYE or
 * will; false if it was not sent, or the session ended before the acknowledgement.
 */
bool session_bye(struct session *s, uint64_t until_ns);

/**
 * False if one side ended the session for a reason of its own. True: the channel was cut, or still
 * works, and a new session may continue.
 */
bool session_was_cut(struct session *s);

/**
 * True while the server has ended and another may adopt the region (the channel's next_server).
 * Operations continue as with a stopped server: nothing is sent, and what needs an answer waits.
 * When a server listens there, the session ends as cut, and the handle connects again. Any thread.
 */
bool session_is_away(const struct session *s);

/**
 * From now on ask the server for its lease, five times per `lease_ms`: for a server of a cluster
 * whose map changes. Once per session, by the handle's thread.
 *
 * `routed` outlives the session. It is not 0 while an operation is running, or requests are in
 * flight, that a map sent to this server: set it, then check session_map_waits(). A new map is
 * acknowledged (MAP_ACK) when `routed` is 0, or the map was taken.
 */
void session_keep_lease(struct session *s, uint32_t lease_ms, const uint32_t *routed);

/**
 * Reads of the server's memory before this time (clock_now_ns()) were covered by its lease; 0: no
 * lease is known. Grows while the server answers. While a map waits, only leases from before that
 * map count, because a later one does not cover operations by the older map. The handle's thread.
 */
uint64_t session_lease_ns(const struct session *s);

/** True if the server has sent a newer map of its cluster, which was not taken yet. */
bool session_map_waits(const struct session *s);

/** Take that map: the caller installs it before its next operation, and frees it. NULL: none. */
struct clustermap *session_take_map(struct session *s);

/** Set the error detail to the reason of the session's end; returns FARKV_EDISCONNECTED. */
int session_reason(struct session *s);

#endif
