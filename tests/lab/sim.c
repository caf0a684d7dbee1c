/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim --seed S [--steps N] [--trace]    one run, and a hash of its trace
 * sim --seeds A-B [--steps N] [--seconds N] [--all]
 *                                       many; stops at the first that fails, or
 *                                       after N seconds
 *
 * --whole-words: no READ tears inside of a word. --all: fail if there is an event
 * that none of the runs has met. The same seed and steps give the same run.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "common/base/log.h"
#include "sim.h"

/* These steps are some 200 operations. */
#define STEPS 3000u

uint64_t sim_events[SIM_EVENTS];

static const char *const event_names[SIM_EVENTS] = {
	[SIM_OPS] = "operations",
	[SIM_SPLITS] = "subtables split",
	[SIM_COMPACTIONS] = "subtables compacted",
	[SIM_DOUBLINGS] = "directories doubled",
	[SIM_ABSORBED] = "puts absorbed",
	[SIM_FROZEN] = "frozen words met",
	[SIM_FULL] = "hints",
	[SIM_SLOW] = "readers slower than T/2",
	[SIM_TORN_WORDS] = "READs torn between words",
	[SIM_TORN_BYTES] = "READs torn inside of words",
	[SIM_PARTIAL] = "WRITEs seen half done",
	[SIM_BREAKS] = "lanes broken",
	[SIM_RESUMED] = "operations resumed",
	[SIM_LATE] = "requests of a broken lane carried out",
	[SIM_MAYBE] = "outcomes unknown",
	[SIM_TIMEOUTS] = "timeouts",
	[SIM_STOPPED] = "clients stopped for longer than T",
	[SIM_PAUSED] = "... and their clocks with them",
	[SIM_SERVER_STOPPED] = "server stopped",
	[SIM_KILLED] = "clients killed",
	[SIM_LEFT] = "handles closed",
	[SIM_CUT] = "sessions ended without goodbye",
	[SIM_SWEEPS] = "sweeps",
	[SIM_SWEPT] = "blocks swept",
	[SIM_BARRIERS] = "barriers",
	[SIM_BLOCKS_AGAIN] = "blocks used again",
	[SIM_PAGES_AGAIN] = "pages used again as subtables",
	[SIM_EXHAUSTED] = "barriers for exhausted blocks",
	[SIM_COPIES] = "copies by loads that had to wait",
	[SIM_AT_ONCE] = "compare-and-swaps without a chain",
	[SIM_BACKOFFS] = "others going on while a writer backs off",
	[SIM_LOOKS] = "looks at remembered slots",
	[SIM_HITS] = "operations that found what they remembered",
	[SIM_STALE] = "... that did not",
	[SIM_KEPT] = "gets of values that were kept",
	[SIM_PARTS] = "requests with a part elsewhere",
	[SIM_PIPELINES] = "pipelines of requests",
	[SIM_BORROWED] = "borrowed values that were certain",
	[SIM_BORROWED_IN_VAIN] = "borrowed values that were not",
	[SIM_ABANDONED] = "handles closed with requests in flight",
	[SIM_QUEUE_FULL] = "queues found full",
	[SIM_SAME_KEY] = "pipelines of requests for one key",
	[SIM_SCANS] = "scans of all keys",
	[SIM_SCAN_CALLS] = "... and their calls",
	[SIM_DATED] = "values that are to expire",
	[SIM_CLOCKS] = "others going on before CLOCK is loaded",
	[SIM_REAPED] = "expired values removed by the server",
	[SIM_EVICTED] = "values evicted",
	[SIM_MOVED] = "values moved to other blocks",
};

static double wall(void)
{
	struct timeval tv;

	gettimeofday(&tv, NULL);
	return (double)tv.tv_sec + (double)tv.tv_usec / 1e6;
}

/* A build with sanitizers would take changing stacks for an error. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_stack_use_after_return=0:detect_leaks=0";
}

struct options {
	unsigned long long from, to;
	unsigned steps;
	double seconds; /* 0: no limit */
	bool all;
};

static int usage(void)
{
	fprintf(stderr, "usage: sim [--seed S | --seeds A-B] [--steps N] "
			"[--seconds N] [--trace] [--whole-words] [--all]\n");
	return 2;
}

static bool number(const char *text, unsigned long long *out)
{
	char *end;

	*out = text ? strtoull(text, &end, 0) : 0;
	return text && *text && !*end;
}

/* True if argv[i] is an option; *i moves to its last word. */
static bool option(struct options *o, char **argv, int *i)
{
	const char *name = argv[*i], *next = argv[*i + 1];
	unsigned long long n;

	if (!strcmp(name, "--trace"))
		return sim.verbose = true;
	if (!strcmp(name, "--whole-words"))
		return sim.whole_words = true;
	if (!strcmp(name, "--all"))
		return o->all = true;
	++*i;
	if (!strcmp(name, "--seeds"))
		return next && sscanf(next, "%llu-%llu", &o->from, &o->to) == 2;
	if (!number(next, &n))
		return false;
	if (!strcmp(name, "--seed"))
		o->from = o->to = n;
	else if (!strcmp(name, "--steps"))
		o->steps = (unsigned)n;
	else if (!strcmp(name, "--seconds"))
		o->seconds = (double)n;
	else
		return false;
	return true;
}

static int report(double seconds, unsigned long long seeds, bool all)
{
	int missing = 0;

	printf("%llu seeds, %.0f a second\n", seeds, (double)seeds / seconds);
	for (unsigned e = 0; e < SIM_EVENTS; e++) {
		printf("%12llu %s\n", (unsigned long long)sim_events[e],
		       event_names[e]);
		missing += sim_events[e] == 0;
	}
	if (!all || !missing)
		return 0;
	printf("%d kinds of events have not been met\n", missing);
	return 1;
}

int main(int argc, char **argv)
{
	struct options o = {.from = 1, .to = 100, .steps = STEPS};
	unsigned long long seed;
	uint64_t hash = 0;
	double begun;

	for (int i = 1; i < argc; i++)
		if (!option(&o, argv, &i))
			return usage();
	log_init("sim", LOG_LEVEL_OFF);
	sim.base = aligned_alloc(PAGE_BYTES, META_ALIGN + 64 * PAGE_BYTES);
	if (!sim.base)
		return 1;
	sim_choose_keys();
	begun = wall();
	for (seed = o.from; seed <= o.to; seed++) {
		hash = sim_run(seed, o.steps);
		if (o.seconds > 0 && wall() - begun > o.seconds)
			o.to = seed;
	}
	if (o.from == o.to)
		printf("seed %llu: trace %016llx\n", o.from,
		       (unsigned long long)hash);
	return report(wall() - begun, o.to - o.from + 1, o.all);
}
