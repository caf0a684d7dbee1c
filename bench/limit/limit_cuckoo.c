/* SPDX-License-Identifier: BSD-3-Clause */
/* libcuckoo as a side: a table with locks within one process. */
#include "config.h"

#include <stdlib.h>

#include <farkv.h>

#include "bench/store/cuckoo.h"
#include "common/base/err.h"

#include "limit_side.h"

struct cuckoo_side {
	struct limit_side base;
	struct cuckoo *map;
};

static int side_open(const struct limit_plan *plan,
		     struct limit_side **side_out)
{
	struct cuckoo_side *c = calloc(1, sizeof(*c));

	if (c)
		c->map = cuckoo_new(plan->records, plan->key_len,
				    plan->value_len);
	if (!c || !c->map) {
		free(c);
		return err_set(FARKV_ENOMEM,
			       "libcuckoo: no memory for %llu records",
			       (unsigned long long)plan->records);
	}
	c->base = (struct limit_side){&limit_cuckoo_ops, plan};
	*side_out = &c->base;
	return 0;
}

static void side_close(struct limit_side *s)
{
	cuckoo_free(((struct cuckoo_side *)s)->map);
	free(s);
}

static size_t side_get(struct limit_side *s, const struct limit_keys *k,
		       size_t first, size_t n)
{
	struct cuckoo *map = ((struct cuckoo_side *)s)->map;
	size_t good = 0;

	for (size_t i = first; i < first + n; i++)
		good += cuckoo_get(map, limit_key(k, i), k->len[i],
				   s->plan->into) ==
			(int64_t)s->plan->value_len;
	return good;
}

static size_t side_put(struct limit_side *s, const struct limit_keys *k,
		       size_t first, size_t n)
{
	struct cuckoo *map = ((struct cuckoo_side *)s)->map;
	size_t good = 0;

	for (size_t i = first; i < first + n; i++)
		good += cuckoo_put(map, limit_key(k, i), k->len[i],
				   s->plan->value, s->plan->value_len) == 0;
	return good;
}

const struct limit_side_ops limit_cuckoo_ops = {
	.name = "libcuckoo",
	.open = side_open,
	.close = side_close,
	.test = {[LIMIT_GET] = side_get, [LIMIT_PUT] = side_put},
};
