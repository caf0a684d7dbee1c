/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "timed.h"

#include "common/base/err.h"

#include "latency.h"
#include "router.h"
#include "router_all.h"

/* When a call ends, the counters that farkv_metrics() shows are at most this old. */
#define FIGURES_NS (10 * NS_PER_MS)

int timed_start(struct farkv *kv)
{
	struct router *r = kv->router;

	kv->latency = latency_new();
	if (!kv->latency)
		return err_set(FARKV_ENOMEM, "no memory for histograms of latency");
	for (uint32_t i = 0; r && i < r->map.n_servers; i++)
		r->member[i]->latency = kv->latency;
	kv->timed = true;
	return 0;
}

static void store_figures(struct farkv *kv, uint64_t now_ns)
{
	struct farkv_counters sum;

	handle_counters(kv, &sum);
	if (kv->router)
		router_counters(kv, &sum);
	latency_store(kv->latency, &sum, now_ns);
}

static void store_in_time(struct farkv *kv, uint64_t now_ns)
{
	if (now_ns - kv->latency->figures_ns >= FIGURES_NS)
		store_figures(kv, now_ns);
}

void timed_stop(struct farkv *kv)
{
	struct router *r = kv->router;

	if (!kv->latency)
		return;
	store_figures(kv, clock_now_ns());
	latency_retire(kv->latency);
	kv->latency = NULL;
	for (uint32_t i = 0; r && i < r->map.n_servers; i++)
		r->member[i]->latency = NULL;
}

int timed_record(struct farkv *kv, enum farkv_latency_kind kind, int result, uint64_t began_ns)
{
	uint64_t now = clock_now_ns();

	latency_record(kv->latency, kind, result, now - began_ns);
	store_in_time(kv, now);
	kv->timed = true;
	return result;
}

int timed_took(struct farkv *kv, int n)
{
	if (n > 0 && kv->latency && !kv->server_name)
		store_in_time(kv, clock_now_ns());
	return n;
}
