/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "workload.h"

#include <string.h>

#include "bench/base/shared.h"
#include "common/base/err.h"
#include "common/base/util.h"

/* Twice the records that a run is likely to add, as in YCSB. */
static uint64_t expected_new(const struct params *p)
{
	double n = (double)p->operation_count * p->proportion_insert * 2.0;

	return n < 0x1p61 ? (uint64_t)n : UINT64_C(1) << 61;
}

uint64_t workload_records(const struct params *p)
{
	return p->record_count + expected_new(p);
}

static int init_values(struct value_spec *v, const struct params *p)
{
	int err = 0;

	v->fields = p->field_count;
	v->field_len = p->field_len;
	v->field_len_min = p->field_len_min;
	v->dist = (enum field_length_dist)p->field_len_dist;
	v->checked = p->data_integrity;
	if (v->dist == FIELD_LENGTH_ZIPFIAN)
		gen_zipfian_init(&v->zipfian, v->field_len_min, v->field_len,
				 ZIPFIAN_THETA);
	if (v->dist == FIELD_LENGTH_HISTOGRAM)
		err = gen_histogram_load(&v->histogram, p->field_len_histogram);
	return err ? err : value_init(v, value_max_len(v));
}

size_t workload_ages_bytes(const struct params *p)
{
	return p->data_integrity && p->update_mode == UPDATE_REPLACE
		       ? UTIL_MIN(params_keys(p), AGES_MAX) *
				 sizeof(struct value_age)
		       : 0;
}

static int init_ages(struct value_ages *a, const struct params *p)
{
	size_t bytes = workload_ages_bytes(p);

	if (!bytes)
		return 0;
	a->v = shared_new(bytes);
	if (!a->v)
		return err_set(FARKV_ENOMEM,
			       "dataintegrity: no memory for the versions of "
			       "records");
	a->n = bytes / sizeof(*a->v);
	return 0;
}

static int init_chooser(struct workload *w, const struct params *p)
{
	union key_chooser *c = &w->chooser;
	uint64_t min = p->insert_start;
	uint64_t max = min + p->insert_count - 1;

	switch (p->dist) {
	case DIST_UNIFORM:
		gen_uniform_init(&c->uniform, min, max);
		break;
	case DIST_SEQUENTIAL:
		gen_sequential_init(&w->sequential, min, max);
		break;
	case DIST_ZIPFIAN:
		/* One number too many, as in YCSB: draws of missing records are repeated. */
		gen_scrambled_init(&c->scrambled, min,
				   max + 1 + expected_new(p));
		break;
	case DIST_LATEST:
		gen_latest_init(&c->latest, p->record_count - 1);
		break;
	case DIST_HOTSPOT:
		if (!gen_hotspot_init(&c->hotspot, min, max,
				      p->hotspot_data_frac, p->hotspot_op_frac))
			return err_set(FARKV_EINVAL,
				       "hotspotdatafraction: %g of %llu "
				       "records leaves one part empty",
				       p->hotspot_data_frac,
				       (unsigned long long)p->insert_count);
		break;
	case DIST_EXPONENTIAL:
		gen_exponential_init(&c->exponential, p->exponential_percentile,
				     (double)p->record_count *
					     p->exponential_frac);
		break;
	case DIST_ZIPFIAN_EXACT:
		gen_zipfian_init(&c->zipfian, min, max, p->zipfian_theta);
		break;
	default:
		break;
	}
	return 0;
}

static int init_run(struct workload *w, const struct params *p)
{
	if (!gen_discrete_init(&w->ops, p->proportion, OP_KINDS))
		return err_set(FARKV_EINVAL, "no operation has a proportion");
	w->grows = p->proportion[OP_INSERT] > 0.0;
	if (w->grows && !gen_counter_init(&w->inserts, p->record_count))
		return err_set(FARKV_ENOMEM, "no memory for the workload");
	return init_chooser(w, p);
}

int workload_init(struct workload *w, const struct params *p, bool load)
{
	int err;

	memset(w, 0, sizeof(*w));
	w->params = p;
	w->load = load;
	atomic_init(&w->load_next, p->insert_start);
	if (!key_format_init(&w->keys, p->key_prefix, p->zero_padding,
			     p->insert_order == 0))
		return err_set(FARKV_EINVAL, "keyprefix or zeropadding is too "
					     "long");
	err = init_values(&w->values, p);
	if (!err && !load)
		err = init_ages(&w->ages, p);
	if (!err && !load)
		err = init_run(w, p);
	if (err)
		workload_fini(w);
	return err;
}

void workload_fini(struct workload *w)
{
	value_fini(&w->values);
	shared_free(w->ages.v);
	gen_counter_fini(&w->inserts);
}

void workload_restart(struct workload *w)
{
	const struct params *p = w->params;

	atomic_store(&w->load_next, p->insert_start);
	atomic_store(&w->sequential.count, 0);
	if (!w->grows)
		return;
	memset((void *)w->inserts.window, 0, COUNTER_WINDOW);
	atomic_store(&w->inserts.next, p->record_count);
	atomic_store(&w->inserts.limit, p->record_count);
}

void workload_thread_init(struct workload_thread *t, struct workload *w,
			  uint64_t seed, unsigned thread)
{
	t->w = w;
	t->chooser = w->chooser;
	rng_seed(&t->rng, seed, thread);
}

void workload_prepare_ops(const struct workload *w, struct op *ops, size_t n)
{
	for (size_t i = 0; i < n; i++)
		key_prepare(&w->keys, ops[i].key);
}

size_t workload_lookahead(const struct workload *w, size_t most)
{
	return w->grows && w->params->dist != DIST_UNIFORM &&
			       w->params->dist != DIST_SEQUENTIAL &&
			       w->params->dist != DIST_HOTSPOT
		       ? 1
		       : most;
}

uint64_t workload_last(struct workload *w)
{
	if (!w->grows)
		return w->params->record_count - 1;
	return gen_counter_limit(&w->inserts) - 1;
}

bool workload_ack(struct workload *w, const struct op *op)
{
	return w->load || gen_counter_ack(&w->inserts, op->number);
}

/* Distances back from the last record, drawn again if they are too large. */
static uint64_t exponential_number(struct workload_thread *t, struct rng *r)
{
	uint64_t last = workload_last(t->w), back;

	do
		back = gen_exponential_next(&t->chooser.exponential, r);
	while (back > last);
	return last - back;
}

static uint64_t scrambled_number(struct workload_thread *t, struct rng *r)
{
	uint64_t last = workload_last(t->w), number;

	do
		number = gen_scrambled_next(&t->chooser.scrambled, r);
	while (__builtin_expect(number > last, 0));
	return number;
}

static uint64_t zipfian_number(struct workload_thread *t, struct rng *r)
{
	const struct params *p = t->w->params;
	uint64_t items = p->insert_count;

	/* New records join at the unpopular end, if the range ends at the last record. */
	if (t->w->grows && p->insert_start + items == p->record_count)
		items += workload_last(t->w) + 1 - p->record_count;
	return gen_zipfian_next_of(&t->chooser.zipfian, r, items);
}

static uint64_t choose_number(struct workload_thread *t, struct rng *r)
{
	switch (t->w->params->dist) {
	case DIST_SEQUENTIAL:
		return gen_sequential_next(&t->w->sequential);
	case DIST_ZIPFIAN:
		return scrambled_number(t, r);
	case DIST_LATEST:
		return gen_latest_next(&t->chooser.latest, r,
				       workload_last(t->w));
	case DIST_HOTSPOT:
		return gen_hotspot_next(&t->chooser.hotspot, r);
	case DIST_EXPONENTIAL:
		return exponential_number(t, r);
	case DIST_ZIPFIAN_EXACT:
		return zipfian_number(t, r);
	case DIST_UNIFORM:
	default:
		return gen_uniform_next(&t->chooser.uniform, r);
	}
}

static void next_loads(struct workload *w, struct op *ops, size_t n)
{
	uint64_t first = atomic_fetch_add_explicit(&w->load_next, n,
						   memory_order_relaxed);

	for (size_t i = 0; i < n; i++) {
		ops[i].kind = OP_INSERT;
		ops[i].number = first + i;
		ops[i].key_len = key_build(&w->keys, first + i, ops[i].key);
	}
}

/* For reads only, because it draws no random number for the kind. */
static void draw_uniform(struct workload_thread *t, struct op *ops, size_t n)
{
	const struct gen_uniform u = t->chooser.uniform;
	enum op_kind kind = t->w->ops.choice[0];
	struct rng r = t->rng;

	for (size_t i = 0; i < n; i++) {
		ops[i].kind = kind;
		ops[i].number = gen_uniform_next(&u, &r);
	}
	t->rng = r;
}

/* A local copy of the generator stays in registers. */
static void draw(struct workload_thread *t, struct op *ops, size_t n)
{
	struct workload *w = t->w;
	struct rng copy = t->rng, *r = &copy;

	for (size_t i = 0; i < n; i++) {
		struct op *op = &ops[i];

		op->kind = gen_discrete_next(&w->ops, r);
		op->number = op->kind == OP_INSERT
				     ? gen_counter_next(&w->inserts)
				     : choose_number(t, r);
	}
	t->rng = copy;
}

void workload_next(struct workload_thread *t, struct op *ops, size_t n)
{
	struct workload *w = t->w;

	if (w->load) {
		next_loads(w, ops, n);
		return;
	}
	if (w->ops.n == 1 && !w->grows && w->params->dist == DIST_UNIFORM)
		draw_uniform(t, ops, n);
	else
		draw(t, ops, n);
	/* A separate loop, so short that the processor overlaps several iterations. */
	for (size_t i = 0; i < n; i++)
		ops[i].key_len = key_build(&w->keys, ops[i].number, ops[i].key);
}
