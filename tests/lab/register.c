/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "register.h"

#include <stdlib.h>
#include <string.h>

uint64_t register_random(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

uint8_t register_do(uint64_t *state, struct history_op *op)
{
	switch (op->kind) {
	case HISTORY_GET:
		op->value = *state;
		return *state ? HISTORY_OK : HISTORY_NOTFOUND;
	case HISTORY_ASK:
		return *state ? HISTORY_OK : HISTORY_NOTFOUND;
	case HISTORY_PUT:
		break;
	case HISTORY_ADD:
		if (*state)
			return HISTORY_EXISTS;
		break;
	case HISTORY_EXPIRE:
		if (*state == op->expected)
			*state = HISTORY_ABSENT;
		return HISTORY_OK;
	case HISTORY_GONE:
		return *state == op->expected ? HISTORY_NOTFOUND : HISTORY_OK;
	case HISTORY_CAS:
		if (!*state)
			return HISTORY_NOTFOUND;
		if (*state != op->expected)
			return HISTORY_CHANGED;
		break;
	default:
		if (!*state)
			return HISTORY_NOTFOUND;
	}
	*state =
		op->kind == HISTORY_DELETE || op->kind == HISTORY_LATE ? HISTORY_ABSENT : op->value;
	return HISTORY_OK;
}

/* ---- all orders ------------------------------------------------------------ */

/* It happens or not, but not after its response. */
static bool ends_anyhow(const struct history_op *op)
{
	return op->result != HISTORY_UNKNOWN &&
	       (op->kind == HISTORY_EXPIRE || op->kind == HISTORY_LATE);
}

/* It need not happen. */
static bool is_optional(const struct history_op *op)
{
	return op->result == HISTORY_UNKNOWN || ends_anyhow(op);
}

static bool comes_too_late(const struct history *h, unsigned left, size_t i)
{
	for (size_t j = 0; j < h->n; j++)
		if ((left >> j & 1) && !is_optional(&h->op[j]) &&
		    h->op[j].responded < h->op[i].invoked)
			return true;
	return false;
}

/* What cannot happen any more at the i-th operation. */
static unsigned overdue(const struct history *h, size_t i)
{
	unsigned set = 0;

	for (size_t j = 0; j < h->n; j++)
		if (ends_anyhow(&h->op[j]) && h->op[j].responded < h->op[i].invoked)
			set |= 1u << j;
	return set;
}

static bool orders(const struct history *h, unsigned left, uint64_t state)
{
	bool done = true;

	for (size_t i = 0; i < h->n; i++) {
		struct history_op op = h->op[i];
		uint64_t then = state;
		uint8_t said;

		if (!(left >> i & 1))
			continue;
		done = done && is_optional(&op);
		if (comes_too_late(h, left, i))
			continue;
		said = register_do(&then, &op);
		if (op.result != HISTORY_UNKNOWN &&
		    (said != op.result || op.value != h->op[i].value))
			continue;
		if (orders(h, left & ~(1u << i) & ~overdue(h, i), then))
			return true;
	}
	return done;
}

bool register_explains(const struct history *h)
{
	unsigned left = 0;

	for (size_t i = 0; i < h->n; i++)
		if (h->op[i].result != HISTORY_FAILED)
			left |= 1u << i;
	return orders(h, left, HISTORY_ABSENT);
}

/* ---- histories that are right ---------------------------------------------- */

struct client {
	uint64_t free_at; /* when its last operation ended */
	uint64_t writes;
};

static void draw(struct history_op *op, struct client *c,
		 const uint64_t *seen, uint64_t *x)
{
	op->kind = (uint8_t)(register_random(x) % 8);
	if (op->kind > HISTORY_ASK)
		op->kind = HISTORY_GET;
	if (history_kind_writes(op->kind))
		op->value = history_id(op->client, ++c->writes);
	if (op->kind == HISTORY_CAS)
		op->expected = *seen ? *seen : 1;
}

static void carry_out(struct history_op *op, uint64_t *state,
		      const struct register_plan *plan, uint64_t *x)
{
	uint64_t r = register_random(x) % 1000;

	if (r < plan->failed_permille) {
		op->result = HISTORY_FAILED;
		return;
	}
	if (r < plan->failed_permille + plan->unknown_permille) {
		struct history_op copy = *op;

		if (r & 1)
			(void)register_do(state, &copy);
		op->result = HISTORY_UNKNOWN;
		if (r & 2)
			op->responded = HISTORY_OPEN;
		return;
	}
	op->result = register_do(state, op);
}

/* The i-th takes place at i * 1000; its times surround that. */
void register_history(const struct register_plan *plan, struct history *out)
{
	struct client *client = calloc(plan->clients, sizeof(*client));
	uint64_t *state = calloc(plan->keys, sizeof(*state));
	uint64_t *seen = calloc(plan->keys, sizeof(*seen));
	uint64_t x = plan->seed;

	if (!client || !state || !seen)
		abort();
	for (size_t i = 1; i <= plan->ops; i++) {
		uint64_t moment = i * 1000, r = register_random(&x);
		struct history_op op = {
			.client = (uint32_t)(r % plan->clients),
			.key = (uint32_t)((r >> 20) % plan->keys)};
		struct client *c = &client[op.client];
		uint64_t back = register_random(&x) % plan->longest;

		if (c->free_at >= moment)
			continue;
		op.invoked = back < moment ? moment - back : 0;
		if (op.invoked <= c->free_at)
			op.invoked = c->free_at + 1;
		op.responded = moment + register_random(&x) % plan->longest;
		c->free_at = op.responded;
		draw(&op, c, &seen[op.key], &x);
		carry_out(&op, &state[op.key], plan, &x);
		if (state[op.key] && (r >> 40) % 2)
			seen[op.key] = state[op.key];
		history_add(out, &op);
	}
	free(client);
	free(state);
	free(seen);
}
