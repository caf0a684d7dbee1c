/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * html.h - results as one HTML page for a browser: stores side by side, throughput over time,
 * latency by percentile, counts and failures, settings, and every line of the report. Styles
 * and drawings are in the page; it has no scripts and loads nothing. It is well-formed XML, too.
 */
#ifndef BENCH_CORE_HTML_H
#define BENCH_CORE_HTML_H

#include <stdio.h>

#include "bench.h"

/**
 * Write the page of the finished rounds of `b`, at least one, whose timelines were kept.
 * Errors show in ferror(out).
 */
void html_write(const struct bench *b, FILE *out);

#endif
