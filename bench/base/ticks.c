/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "ticks.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define CALIBRATION_NS (10 * NS_PER_MS)

struct ticks_state ticks_state = {
	.counter = false,
	.ns_mul = UINT64_C(1) << 60,
	.ticks_per_ns = 1.0,
};

#if defined(__x86_64__)
/* CPUID 0x80000007, EDX bit 8: "invariant TSC", one rate in every power state
 * (Intel SDM vol. 3, 18.17.1; AMD APM vol. 3, appendix E). */
static bool counter_is_invariant(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
}

/*
 * Read clock and counter together: of several tries the one with the shortest time between
 * the counter readings before and after the clock's.
 */
static void sample(uint64_t *clock_out, uint64_t *counter_out)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 8; i++) {
		uint64_t before = __rdtsc();
		uint64_t now = ticks_clock_ns();
		uint64_t after = __rdtsc();

		if (after - before < best) {
			best = after - before;
			*clock_out = now;
			*counter_out = before + (after - before) / 2;
		}
	}
}

void ticks_init(void)
{
	uint64_t clock_0 = 0, clock_1 = 0, counter_0 = 0, counter_1 = 0;
	double rate;

	if (!counter_is_invariant())
		return;
	sample(&clock_0, &counter_0);
	do
		clock_sleep_ns(CALIBRATION_NS);
	while (ticks_clock_ns() - clock_0 < CALIBRATION_NS);
	sample(&clock_1, &counter_1);
	rate = (double)(counter_1 - counter_0) / (double)(clock_1 - clock_0);
	/*
	 * Reject rates outside of 0.1 to 100 GHz as implausible; ns_mul only fits above
	 * 1/16 GHz.
	 */
	if (rate < 0.1 || rate > 100.0)
		return;
	ticks_state.ticks_per_ns = rate;
	ticks_state.ns_mul = (uint64_t)(0x1p60 / rate + 0.5);
	ticks_state.counter = true;
}
#else
void ticks_init(void)
{
}
#endif
