/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "open.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "common/index/scan.h"

#include "atfork.h"
#include "notifier.h"
#include "queue.h"
#include "queue_state.h"
#include "relink.h"

/* farkv_close() waits this long for the server. */
#define FAREWELL_NS NS_PER_SEC

static int text_set(char *to, size_t cap, const char *from, const char *what)
{
	if (!from || !*from)
		return 0;
	if (strlen(from) >= cap)
		return err_set(FARKV_EINVAL, "%s is too long", what);
	strcpy(to, from);
	return 0;
}

/* Precedence: the program's options, the address, the environment. */
static int credentials_set(struct uri *u, const struct farkv_options *opts)
{
	int err = 0;

	if (!u->keys[0])
		err = text_set(u->keys, sizeof(u->keys), getenv("FARKV_KEYS"),
			       "$FARKV_KEYS");
	if (!err)
		err = text_set(u->keys, sizeof(u->keys), opts->keys, "keys");
	if (!err)
		err = text_set(u->key, sizeof(u->key), opts->key, "key");
	if (!err && u->key[0] && !u->keys[0])
		err = err_set(FARKV_EINVAL,
			      "the key '%s' is named, but no file that holds it; "
			      "give one by keys=FILE or $FARKV_KEYS",
			      u->key);
	return err;
}

int handle_open(const struct uri *uri, const struct farkv_options *opts,
		struct farkv **kv_out)
{
	struct farkv *kv;
	int err;

	err = atfork_init();
	if (err)
		return err;
	kv = calloc(1, sizeof(*kv));
	if (!kv)
		return err_set(FARKV_ENOMEM, "no memory for a handle");
	kv->uri = *uri;
	err = credentials_set(&kv->uri, opts);
	if (err) {
		free(kv);
		return err;
	}
	kv->op_timeout_ns = opts->op_timeout_ms * NS_PER_MS;
	kv->farewell_ns = FAREWELL_NS;
	kv->cache_entries = opts->cache_entries;
	kv->cache_bytes = opts->cache_bytes;
	kv->queue_depth = opts->queue_depth;
	kv->readonly = (opts->flags & FARKV_OPEN_READONLY) != 0;
	snprintf(kv->name, sizeof(kv->name), "%s",
		 opts->name ? opts->name : program_invocation_short_name);
	kv->prefix_low = UINT32_MAX / 2;
	kv->fork_gen = atfork_generation();
	kv->closed.pending = PENDING_BROKEN;
	kv->closed.hits = &kv->uncounted;
	kv->qsbr = &kv->closed;
	index_op_init(&kv->op);
	kv->copy[0] = (uint8_t *)(uintptr_t)util_align_up((uintptr_t)kv->copies, LINE_BYTES);
	kv->copy[1] = kv->copy[0] + HANDLE_COPY_BYTES;
	err = relink_up(kv, clock_now_ns() +
				    opts->connect_timeout_ms * NS_PER_MS);
	if (err) {
		free(kv);
		return err;
	}
	opened_add(&kv->opened);
	*kv_out = kv;
	return 0;
}

/* True if the handle may be closed; otherwise logs the reason. */
static bool may_close(struct farkv *kv)
{
	if (!opened_remove(&kv->opened)) {
		err_set(FARKV_EINVAL,
			"farkv_close: the handle is not open; was it closed before?");
		return false;
	}
	if (!handle_is_busy(kv))
		return true;
	/* In a child another thread of the parent may have been using the handle: its state
	 * is unknown. */
	if (handle_busy(kv) == FARKV_EINVAL)
		opened_add(&kv->opened);
	return false;
}

static void close_handle(struct farkv *kv)
{
	bool inherited = handle_inherited(kv);
	uint64_t until = clock_now_ns() + kv->farewell_ns;

	if (!inherited)
		queue_finish(kv);
	(void)relink_stop(kv, until);
	handle_look_at_lane(kv);
	if (!inherited && kv->conn.session &&
	    !(qsbr_pending(kv->qsbr) & PENDING_BROKEN))
		(void)conn_farewell(&kv->conn, until);
	arena_fini(&kv->arena);
	index_scan_free(kv->scan);
	if (inherited && kv->conn.session && !(kv->conn.lane->caps & XPORT_DIRECT))
		index_abandon_spare(kv->conn.index);
	relink_down(kv);
	handle_drop_borrowed(kv);
	if (inherited)
		buffers_abandon(&kv->buffers);
	else
		buffers_fini(&kv->buffers);
	queue_free(kv->queue);
	notifier_free(kv->notifier);
	index_op_free_held(&kv->op);
	for (size_t i = 0; kv->ops && i < INDEX_RUN_MAX; i++)
		index_op_free_held(&kv->ops[i]);
	free(kv->ops);
	free(kv->hints);
	free(kv);
}

void handle_close(struct farkv *kv)
{
	if (may_close(kv))
		close_handle(kv);
}
