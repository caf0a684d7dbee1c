/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * farkv_borrow() and farkv_borrow_check(): doc/protocol.md, "Borrowing".
 *
 * A view holds no reference, so a barrier does not wait for it. kv->epoch shows whether the session
 * has answered one since: handle_pending() counts it before the call that follows, and no barrier
 * is answered inside a call.
 */
#include "config.h"

#include "public.h"

#include "call.h"

#include "common/base/err.h"
#include "common/index/search.h"

#include "router.h"
#include "router_map.h"
#include "timed.h"

/* Attempts of an ordinary GET to resolve an unusual state before a borrow gives up. */
#define TRIES_MAX 2

/* The words of farkv_view.proof. */
enum proof { PROOF_HANDLE, PROOF_EPOCH, PROOF_SLOT, PROOF_WORD, PROOF_LOOK_NS };

/* Keep the region's pages mapped while a view may be read, even without the connection. */
static void keep_mapped(struct farkv *kv)
{
	struct mapping **at = &kv->borrowed[kv->conn.readonly];

	if (*at == kv->conn.map)
		return;
	mapping_put(*at);
	*at = mapping_hold(kv->conn.map);
}

static int check_mapped(const struct farkv *kv)
{
	if (kv->conn.map && (kv->conn.lane->caps & XPORT_DIRECT))
		return 0;
	return err_set(FARKV_ENOTSUP,
		       "%s: values are borrowed over shared memory only; use farkv_get_into()",
		       kv->uri.shown);
}

/* Find the key by an ordinary GET, which reads the directory again and waits if necessary. */
static int get(struct farkv *kv, const struct index_key *key)
{
	struct index_op *op = &kv->op;

	err_clear();
	index_op_start(op, INDEX_GET, key, NULL, 0);
	handle_run(kv, &op, 1, 0);
	return op->result ? handle_result(kv, op->result) : 0;
}

static int borrow(struct farkv *kv, const struct index_key *key, struct index_borrowed *out)
{
	for (unsigned tries = 0;; tries++) {
		int err = check_mapped(kv);

		if (!err)
			err = index_borrow(kv->conn.index, &kv->op, key, out);
		if (err == FARKV_ENOTFOUND)
			return handle_result(kv, err);
		if (err != INDEX_PENDING)
			return err;
		if (tries == TRIES_MAX)
			return err_set(FARKV_ESTALE,
				       "the key's part of the index is being rebuilt: use "
				       "farkv_get_into(), or try again");
		err = get(kv, key);
		if (err)
			return err;
	}
}

static int borrow_key(struct farkv *kv, const void *key, size_t key_len,
		      struct farkv_view *view_out)
{
	struct index_borrowed b = {0};
	struct index_key k;
	int err = handle_key(kv, key, key_len, &k);

	if (!err)
		err = borrow(kv, &k, &b);
	if (err)
		return err;
	keep_mapped(kv);
	*view_out = (struct farkv_view){
		.value = {.data = b.value,
			  .len = b.value_len,
			  .version = b.version,
			  .ttl_ms = b.left_ms == BLOCK_NEVER ? 0 : b.left_ms,
			  .user = b.user},
		.proof = {[PROOF_HANDLE] = kv->opened.number,
			  [PROOF_EPOCH] = kv->epoch,
			  [PROOF_SLOT] = b.look.slot,
			  [PROOF_WORD] = b.look.word,
			  [PROOF_LOOK_NS] = b.look.at_ns}};
	return 0;
}

static int borrow_in_cluster(struct farkv *kv, const void *key, size_t key_len,
			     struct farkv_view *view_out);

/* NOLINTBEGIN(misc-no-recursion): once, from a cluster's handle to its member's. */
static int borrow_call(struct farkv *kv, const void *key, size_t key_len,
		       struct farkv_view *view_out)
{
	int err;

	if (!kv)
		return handle_missing();
	if (!view_out)
		return err_set(FARKV_EINVAL, "farkv_borrow: view_out is NULL");
	err = handle_begin(kv);
	if (err == HANDLE_CLUSTER)
		return borrow_in_cluster(kv, key, key_len, view_out);
	if (err)
		return err;
	err = borrow_key(kv, key, key_len, view_out);
	handle_count(kv, INDEX_GET, err, 1);
	handle_end(kv);
	return err;
}

static int borrow_in_cluster(struct farkv *kv, const void *key, size_t key_len,
			     struct farkv_view *view_out)
{
	struct router_call c = {.kv = kv, .key = key, .key_len = key_len};
	int err;

	do {
		err = router_enter(&c);
		if (err)
			return err;
		err = borrow_call(c.member, key, key_len, view_out);
	} while (kv->router->leased && c.member != kv && router_again(&c, &err));
	return err;
}
/* NOLINTEND(misc-no-recursion) */

int farkv_borrow(struct farkv *kv, const void *key, size_t key_len,
		 struct farkv_view *view_out)
{
	uint64_t began = timed_begin(kv);
	int err = borrow_call(kv, key, key_len, view_out);

	return timed_end(kv, FARKV_LATENCY_GET, err, began);
}

static int stale(const char *why)
{
	return err_set(FARKV_ESTALE, "%s: what was read of the view may be something else; read "
		       "the key again", why);
}

static int check(const struct farkv *kv, const struct farkv_view *view)
{
	const struct index_look look = {.slot = view->proof[PROOF_SLOT],
					.word = view->proof[PROOF_WORD],
					.at_ns = view->proof[PROOF_LOOK_NS]};

	if (view->proof[PROOF_EPOCH] != kv->epoch)
		return stale("the server has reclaimed memory, or the connection is a new one");
	/* RDMA clients can write while this machine, and its clock, is suspended. */
	if (!index_look_holds(kv->conn.index, &look, !kv->conn.writers[0]))
		return stale("the value was replaced or moved");
	return 0;
}

int farkv_borrow_check(struct farkv *kv, const struct farkv_view *view)
{
	struct farkv *member, *cluster = NULL;
	int err;

	if (!kv)
		return handle_missing();
	if (view && view->proof[PROOF_HANDLE] != kv->opened.number &&
	    (member = router_numbered(kv, view->proof[PROOF_HANDLE]))) {
		cluster = kv;
		kv = member;
	}
	if (!view || view->proof[PROOF_HANDLE] != kv->opened.number)
		return err_set(FARKV_EINVAL, "farkv_borrow_check: %s",
			       view ? "the view is not one of this handle" : "view is NULL");
	/* No barrier is answered from here to handle_end(), and the view was read before. */
	err = handle_enter(kv);
	if (err)
		return err;
	err = check(kv, view);
	handle_end(kv);
	if (!err && cluster && !router_lease_covers_now(cluster, kv) &&
	    router_await_lease(cluster, kv, clock_now_ns()))
		err = stale("the lease of the value's server has ended");
	return err;
}
