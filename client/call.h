/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * call.h - the steps of every call that does not use the queue:
 *
 *   handle_begin()  enter the critical section (client/qsbr.h); handle pending flags; reconnect
 *   handle_run()    drive index operations to their ends, waiting as needed
 *   handle_end()    leave the critical section; release what earlier calls returned
 */
#ifndef CLIENT_CALL_H
#define CLIENT_CALL_H

#include "handle.h"

/**
 * Begin a call: set its deadline. After success handle_end() must follow. FARKV_EDISCONNECTED,
 * FARKV_ETIMEDOUT, FARKV_ENOMEM; HANDLE_CLUSTER.
 */
int handle_begin(struct farkv *kv);
/** The slow path after handle_enter_at_once(). Errors as handle_begin(); HANDLE_CLUSTER. */
int handle_enter_slow(struct farkv *kv);

/** Fast path of handle_enter() for a handle that is not taken. */
static inline bool handle_enter_free(struct farkv *kv)
{
	atom_store_relaxed(&kv->taken, HANDLE_BUSY);
	kv->deadline_ns = 0;
	if (qsbr_enter(kv->qsbr))
		return true;
	qsbr_leave(kv->qsbr);
	atom_store_relaxed(&kv->taken, 0);
	return false;
}
/**
 * Fast path of handle_enter(): true if nothing is pending, so that connection and store are
 * unchanged. False: nothing was done; call handle_enter_slow().
 */
static inline bool handle_enter_at_once(struct farkv *kv)
{
	return __builtin_expect(!atom_load_relaxed(&kv->taken), 1) &&
	       handle_enter_free(kv);
}
/**
 * handle_begin() for a call that expects to end without reading the clock; if it does not, it must
 * call handle_need_clock() before anything that waits. The error line remains the last call's: use
 * err_clear().
 */
static inline int handle_enter(struct farkv *kv)
{
	return handle_enter_at_once(kv) ? 0 : handle_enter_slow(kv);
}
/** Set the call's deadline, counted from now; returns the current time. */
uint64_t handle_start_clock(struct farkv *kv);
/** handle_start_clock(), unless this call has called it already. */
void handle_need_clock(struct farkv *kv);
/** End of a call that began by handle_enter_at_once(). Leaves the critical section. */
static inline void handle_end_at_once(struct farkv *kv)
{
	qsbr_leave(kv->qsbr);
	atom_store_relaxed(&kv->taken, 0);
}
/** handle_end() of a handle whose `taken` has more than `busy`. */
void handle_end_in_full(struct farkv *kv);
/** End of a call. Leaves the critical section. */
static inline void handle_end(struct farkv *kv)
{
	if (__builtin_expect(kv->taken != HANDLE_BUSY, 0))
		handle_end_in_full(kv);
	else
		handle_end_at_once(kv);
}

/** Between the groups of a batch: leave the critical section for a moment. */
void handle_pause(struct farkv *kv);

/** Slow path of handle_writable(). */
int handle_not_writable(struct farkv *kv);
/** Fast path of handle_writable(). */
static inline bool handle_writable_at_once(const struct farkv *kv)
{
	return !kv->conn.readonly &
	       (index_versions_left(kv->conn.index) >= HANDLE_VERSIONS);
}
/**
 * Before a write: FARKV_EPERM on a read-only handle; waits for versions. If it has to wait, it
 * leaves the critical section meanwhile, so what the caller knows of the index may be outdated.
 */
static inline int handle_writable(struct farkv *kv)
{
	return __builtin_expect(handle_writable_at_once(kv), 1) ?
		       0 :
		       handle_not_writable(kv);
}

/**
 * Drive operations until each is final. Waits for blocks, migrations and growth
 * until the call's deadline. `began_ns`: as index_run().
 */
void handle_run(struct farkv *kv, struct index_op *const *ops, size_t n,
		uint64_t began_ns);

#endif
