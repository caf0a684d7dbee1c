/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The limit of RDMA: the indispensable requests of an operation, with its sizes, on a
 * connection like farkv's.
 *
 * get: READ a block. put: WRITE a block and CAS a word, in one chain. Their parts are sides
 * too, and so are two dependent READs, which a key without a cached location needs. All
 * share one session.
 */
#include "config.h"

#include <stdlib.h>

#include <farkv.h>

#include "client/raw.h"
#include "common/base/clock.h"
#include "common/base/err.h"

#include "limit_side.h"

#define TIMEOUT_NS (5 * NS_PER_SEC)

_Static_assert(LIMIT_BATCH <= RAW_BATCH, "a batch is one doorbell");

static struct {
	struct raw *raw;
	unsigned users;
} session;

static int session_get(const struct limit_plan *plan)
{
	struct raw_spec spec = {
		.uri = plan->uri,
		.name = "kvbench",
		.key_len = plan->key_len,
		.value_len = plan->value_len,
		.timeout_ns = TIMEOUT_NS,
	};
	int err = session.users ? 0 : raw_open(&spec, &session.raw);

	if (!err)
		session.users++;
	return err;
}

static void session_put(void)
{
	if (--session.users == 0)
		raw_close(session.raw);
}

static int open_as(const struct limit_side_ops *ops,
		   const struct limit_plan *plan, struct limit_side **side_out)
{
	struct limit_side *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return err_set(FARKV_ENOMEM, "no memory for the limit");
	err = session_get(plan);
	if (err) {
		free(s);
		return err;
	}
	*s = (struct limit_side){ops, plan};
	*side_out = s;
	return 0;
}

static int raw_side_open(const struct limit_plan *plan,
			 struct limit_side **side_out)
{
	return open_as(&limit_raw_ops, plan, side_out);
}

static int write_side_open(const struct limit_plan *plan,
			   struct limit_side **side_out)
{
	return open_as(&limit_raw_write_ops, plan, side_out);
}

static int cas_side_open(const struct limit_plan *plan,
			 struct limit_side **side_out)
{
	return open_as(&limit_raw_cas_ops, plan, side_out);
}

static int chase_side_open(const struct limit_plan *plan,
			   struct limit_side **side_out)
{
	return open_as(&limit_raw_chase_ops, plan, side_out);
}

static void raw_side_close(struct limit_side *s)
{
	session_put();
	free(s);
}

static const char *raw_side_error(struct limit_side *s)
{
	(void)s;
	return err_detail();
}

/* ---- tests; the keys are not used ---------------------------------------------- */

static size_t one_by_one(enum raw_kind kind, size_t n)
{
	return raw_run(session.raw, kind, n) ? 0 : n;
}

static size_t together(enum raw_kind kind, size_t n)
{
	return raw_together(session.raw, kind, n) ? 0 : n;
}

#define TEST(name, how, kind)                                                \
	static size_t name(struct limit_side *s, const struct limit_keys *k, \
			   size_t first, size_t n)                           \
	{                                                                    \
		(void)s;                                                     \
		(void)k;                                                     \
		(void)first;                                                 \
		return how(kind, n);                                         \
	}

TEST(raw_get, one_by_one, RAW_READ)
TEST(raw_put, one_by_one, RAW_PUT)
TEST(raw_mget, together, RAW_READ)
TEST(raw_mput, together, RAW_PUT)
TEST(write_put, one_by_one, RAW_WRITE)
TEST(write_mput, together, RAW_WRITE)
TEST(cas_put, one_by_one, RAW_CAS)
TEST(cas_mput, together, RAW_CAS)
TEST(chase_get, one_by_one, RAW_CHASE)

const struct limit_side_ops limit_raw_ops = {
	.name = "limit",
	.row = {"READ", "WRITE+CAS", "READ", "WRITE+CAS", "READ", "WRITE+CAS"},
	.no_records = true,
	.open = raw_side_open,
	.close = raw_side_close,
	.test = {raw_get, raw_put, raw_mget, raw_mput, raw_mget, raw_mput},
	.error = raw_side_error,
};

const struct limit_side_ops limit_raw_write_ops = {
	.name = "WRITE",
	.no_records = true,
	.open = write_side_open,
	.close = raw_side_close,
	.test = {[LIMIT_PUT] = write_put,
		 [LIMIT_MPUT] = write_mput,
		 [LIMIT_QPUT] = write_mput},
	.error = raw_side_error,
};

const struct limit_side_ops limit_raw_cas_ops = {
	.name = "CAS",
	.no_records = true,
	.open = cas_side_open,
	.close = raw_side_close,
	.test = {[LIMIT_PUT] = cas_put,
		 [LIMIT_MPUT] = cas_mput,
		 [LIMIT_QPUT] = cas_mput},
	.error = raw_side_error,
};

const struct limit_side_ops limit_raw_chase_ops = {
	.name = "READ,READ",
	.no_records = true,
	.open = chase_side_open,
	.close = raw_side_close,
	.test = {[LIMIT_GET] = chase_get},
	.error = raw_side_error,
};
