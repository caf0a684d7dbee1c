/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "scan.h"

#include "common/base/err.h"
#include "common/index/scan.h"
#include "common/proto/clustermap.h"

#include "batch.h"
#include "call.h"
#include "relink.h"

static int scan_reserve(struct farkv *kv)
{
	if (!kv->scan)
		kv->scan = index_scan_new();
	return kv->scan ? 0 : err_set(FARKV_ENOMEM, "no memory for a scan");
}

/*
 * The connection broke: make another one. 0: continue, the cursor is valid for it. Done as for an
 * interrupted get.
 */
static int connect_again(struct farkv *kv, int err)
{
	const struct index_key none = {.data = ""};
	struct index_op *op = &kv->op;

	index_op_start(op, INDEX_GET, &none, NULL, 0);
	op->result = err;
	if (!relink_needed(kv, &op, 1))
		return err;
	return relink_ops(kv, &op, 1) ? 0 : op->result;
}

int scan_next(struct farkv *kv, uint64_t *cursor, size_t max)
{
	int err = scan_reserve(kv);

	while (!err) {
		err = index_scan(kv->conn.index, kv->scan, cursor, max, kv->deadline_ns);
		if (err != FARKV_EDISCONNECTED)
			break;
		err = connect_again(kv, err);
	}
	return err ? handle_result(kv, err) : 0;
}

/*
 * Delete the keys that belong to this server: a cluster's server may have copies of others' keys.
 */
static int delete_own(struct farkv *kv, const struct farkv_scan_item *items, size_t n,
		      uint64_t *deleted_out)
{
	for (size_t from = 0, to; from < n; from = to + 1) {
		int err;

		for (to = from; to < n; to++)
			if (kv->map && clustermap_owner(kv->map, items[to].key, items[to].key_len) !=
					       kv->server)
				break;
		err = to > from ? batch_delete(kv, items + from, to - from, deleted_out) : 0;
		if (err)
			return err;
	}
	return 0;
}

int scan_clear(struct farkv *kv, uint64_t *deleted_out)
{
	uint64_t cursor = 0;
	bool damaged = false;
	int err;

	do {
		const struct farkv_scan_item *items;
		size_t n;

		(void)handle_start_clock(kv);
		err = scan_next(kv, &cursor, SIZE_MAX);
		damaged |= err == FARKV_ECORRUPT;
		if (err && err != FARKV_ECORRUPT)
			return err;
		items = index_scan_items(kv->scan, &n);
		err = delete_own(kv, items, n, deleted_out);
		handle_pause(kv);
	} while (!err && cursor);
	if (!err && damaged)
		err = err_set(FARKV_ECORRUPT,
			      "some keys could not be read and may be left; kvcli fsck tells more");
	return err;
}
