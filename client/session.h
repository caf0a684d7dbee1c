/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * session.h - one handle's conversation with its server after WELCOME.
 *
 * The handle's thread sends requests and may wait for answers. The control
 * thread receives everything: it keeps blocks and prefixes for the handle
 * (mail), answers BARRIER, SWEEP and RECLAIM, and ends the session when the socket
 * does.
 *
 * No answer is lost to a deadline: a GRANT that comes after its request was
 * given up is mail like any other.
 */
#ifndef CLIENT_SESSION_H
#define CLIENT_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/layout.h"
#include "common/msg.h"
#include "common/xport.h"

#include "channel.h"
#include "gate.h"
#include "inventory.h"

struct session;
struct waker;

/** Blocks of one GRANT; `n` 0 means that the server has none. */
struct session_grant {
	struct session_grant *next;
	uint8_t cls;
	uint32_t n;
	struct block_ref refs[];
};

#define SESSION_FULL_WORDS ((CLASS_COUNT + 63u) / 64u)

/** What arrived since the last session_take_mail(). */
struct session_mail {
	struct session_grant *grants; /* oldest first; the receiver's */
	uint32_t prefix;
	bool has_prefix;
	/* Classes of which a request waits since the server has no memory, a bit for
	   each, and what it said of that last. */
	uint64_t full[SESSION_FULL_WORDS];
	uint64_t other_bytes; /* free in other classes */
	bool no_pages;        /* its machine has no more */
};

/**
 * Begin: `ch` is a channel after WELCOME, `sb` bounds the blocks that may be
 * granted, `lane` is broken when the session ends, `inv` (NULL: read-only) is
 * recorded for sweeps and returned from on RECLAIM. Registers with the control
 * thread. 0, FARKV_ENOMEM, FARKV_ESYS; the channel is still the caller's then.
 */
int session_new(struct channel *ch, const struct superblock *sb,
		struct xport_lane *lane, struct inventory *inv,
		struct session **s_out);

/**
 * End without a word. Waits for the control thread. Returns the channel, which is
 * the caller's again; NULL for NULL, and in a child of fork().
 */
struct channel *session_free(struct session *s);

/** Where the handle's operations announce themselves. Never NULL. */
struct gate *session_gate(struct session *s);

/**
 * Send a request or notice; its number is chosen here. Waits while the socket is
 * full, until `deadline_ns` (0: not at all).
 * 0, FARKV_ETIMEDOUT (not sent), FARKV_EDISCONNECTED, FARKV_EINVAL.
 */
int session_send(struct session *s, struct msg *m, const struct block_ref *refs,
		 uint64_t deadline_ns);

/**
 * Send a request and wait for its answer, of type `expect`. *answer_out has no
 * references. 0, FARKV_ETIMEDOUT, FARKV_EDISCONNECTED, FARKV_EINVAL.
 */
int session_call(struct session *s, struct msg *m, uint8_t expect,
		 struct msg *answer_out, uint64_t deadline_ns);

/**
 * The same in two halves, for who does other things meanwhile. The first sends; the
 * second takes the answer to the last request that was begun: FARKV_EAGAIN if it has
 * not come yet.
 */
int session_call_begin(struct session *s, struct msg *m, uint8_t expect,
		       uint64_t deadline_ns);
int session_call_take(struct session *s, struct msg *answer_out);
/** Nobody wants the answer to that request any more; one that is there is dropped. */
void session_call_forget(struct session *s);
/** session_call_take() would not return FARKV_EAGAIN. */
bool session_call_ready(struct session *s);

/** Sleep until there is mail, or an answer that session_call_take() has not taken,
 * the session ends, or `until_ns`. */
void session_wait(struct session *s, uint64_t until_ns);

/**
 * From now on call `w` (NULL: nobody) when the session ends; with `mail` also when
 * there is mail or an answer, as session_wait() would return. What came before is not
 * told: look for it behind this. `w` must outlive the session. No cost if nothing
 * changes. The handle's thread.
 */
void session_wakes(struct session *s, struct waker *w, bool mail);

/** Sleep until the socket may have room again, or `until_ns`. */
void session_wait_room(struct session *s, uint64_t until_ns);

/**
 * A sweep has begun: put all that the session holds into the journal, mail too, and
 * lower GATE_SWEEP. The caller has the inventory's lock; see gate.h.
 */
void session_record(struct session *s);

/** Take the mail; lowers GATE_MAIL. */
void session_take_mail(struct session *s, struct session_mail *mail_out);

/** GRANT requests sent and not answered yet. */
uint32_t session_grants_out(const struct session *s);

/** Requests sent. */
uint64_t session_sent(const struct session *s);

/**
 * Say BYE and wait for its acknowledgement, the session's end, or `until_ns`. All
 * blocks have gone back. What a sweep must know of them is said first; if that is
 * too much to say, or does not get through, nothing is: the server then sweeps again.
 * True if BYE will be, or was, heard: false if it was not said, or the session ended
 * before the acknowledgement.
 */
bool session_bye(struct session *s, uint64_t until_ns);

/**
 * True if the session ended, or did not, for no other reason than that the channel
 * was cut: neither side said why, and a new session may go on where it stopped.
 */
bool session_was_cut(struct session *s);

/** Set the error detail to why the session ended; returns FARKV_EDISCONNECTED. */
int session_why(struct session *s);

#endif
