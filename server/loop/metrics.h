/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * metrics.h - what monitoring asks, by HTTP: /metrics (Prometheus's text format 0.0.4), /healthz
 * and /readyz.
 *
 * /metrics has the figures of STATS, with the names of memcached's exporter where the meaning is
 * the same, and sessions, blocks by size and pauses. A request waits while items are counted, as
 * STATS does. /healthz is 200 while the loop runs; /readyz is 503 while the server restores,
 * joins its cluster, or leaves.
 */
#ifndef SERVER_LOOP_METRICS_H
#define SERVER_LOOP_METRICS_H

struct loop_module;

/** Does nothing without control_config.metrics. */
extern const struct loop_module metrics_module;

#endif
