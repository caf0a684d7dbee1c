/* SPDX-License-Identifier: BSD-3-Clause */
/** live.h - commands that repeat: their interval, and when to end. */
#ifndef CLIENT_CLI_LIVE_H
#define CLIENT_CLI_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/clock.h"

#include "cli.h"

/** False after --repeat times, counted from 0, and after a signal. */
static inline bool live_goes_on(const struct cli *cli, uint64_t done)
{
	return !cli_signal && (!cli->repeat || done < cli->repeat);
}

/** --interval, or `ms` without it, in nanoseconds. */
static inline uint64_t live_interval_ns(const struct cli *cli, uint64_t ms)
{
	return (cli->interval ? cli->interval_ms : ms) * NS_PER_MS;
}

/** Seconds from one time to a later one; more than 0. */
static inline double live_seconds(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e9 : 1e-9;
}

/** Growth of a count per second; 0 if it decreased, as after a restart. */
static inline double live_rate(uint64_t before, uint64_t now, double seconds)
{
	return now > before ? (double)(now - before) / seconds : 0;
}

#endif
