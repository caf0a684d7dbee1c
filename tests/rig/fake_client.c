/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "fake_client.h"

#include <string.h>

#include "common/base/clock.h"
#include "marks.h"

void fake_client_init(struct fake_client *c, struct fake_region *r,
		      struct xport_lane *lane, uint32_t prefix)
{
	memset(c, 0, sizeof(*c));
	c->region = r;
	c->lane = lane;
	c->alloc = alloc_new(r->sb.grace_ns);
	ck_assert_int_eq(index_open(&r->sb, c->lane, c->alloc, UINT64_MAX,
				    &c->ix), 0);
	index_set_prefix(c->ix, prefix);
	index_op_init(&c->op);
}

void fake_client_open(struct fake_client *c, struct fake_region *r,
		      const struct xport_fault_config *cfg, uint32_t prefix)
{
	struct xport_lane *lane =
		xport_shm_open(r->base, r->sb.region_bytes + r->sb.heat_bytes, false);

	fake_client_init(c, r, cfg ? xport_fault_open(lane, cfg) : lane,
			 prefix);
}

void fake_client_close(struct fake_client *c)
{
	index_op_fini(c->ix, &c->op);
	index_close(c->ix);
	alloc_free(c->alloc);
	xport_close(c->lane);
}

int fake_client_run(struct fake_client *c, enum index_kind kind,
		    struct index_key k, const char *value, uint64_t expected)
{
	struct index_op *op = &c->op;

	index_op_start(op, kind, &k, value,
		       value ? (uint32_t)strlen(value) : 0);
	op->expected = expected;
	if (index_try(c->ix, op))
		return op->result;
	for (int i = 0; i < 10; i++) {
		index_run(c->ix, &op, 1, 0, clock_now_ns() + 20 * NS_PER_SEC);
		if (op->result != INDEX_PENDING)
			return op->result;
		ck_assert_int_ne(op->wait, INDEX_WAIT_NONE);
		if (op->wait != INDEX_WAIT_BLOCK)
			break;
		fake_region_grant(c->region, c->alloc, op->cls, 4);
	}
	return INDEX_PENDING;
}
