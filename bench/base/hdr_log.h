/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * hdr_log.h - files of interval histograms for HdrHistogram's own tools: its log format
 * 1.3, each histogram in V2 compressed form (a zlib stream of ZigZag LEB128 counts, in
 * base64). Written from HdrHistogram's description of the format and the layout of
 * AbstractHistogram.encodeIntoByteBuffer().
 *
 *	#[Logging for: READ]
 *	#[Histogram log format version 1.3]
 *	#[StartTime: 1795200704.322 (seconds since epoch)]
 *	#[BaseTime: 1795200704.322 (seconds since epoch)]
 *	"StartTimestamp","Interval_Length","Interval_Max",...
 *	0.000,1.000,2.769,HISTFAAAAEV42pNp...
 *
 * Start and length are in seconds, the maximum in ms, the values inside in ns, as
 * HdrHistogram's tools expect. One thread.
 */
#ifndef BENCH_BASE_HDR_LOG_H
#define BENCH_BASE_HDR_LOG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "hist.h"

/** Bytes of the longest histogram before compression. */
#define HDR_RAW_MAX (40 + 9 * (size_t)HIST_COUNTERS)

/**
 * Encode `h` as uncompressed V2 into `buf` of HDR_RAW_MAX bytes; returns its length. `h`
 * may be written meanwhile.
 */
size_t hdr_encode(const struct hist *h, unsigned char *buf);

/** The V2 compressed form in base64, terminated; the caller frees it. NULL: no memory. */
char *hdr_text(const struct hist *h);

/**
 * Begin a log named `name`; `start_s` is in seconds since the epoch. FARKV_ESYS with a
 * detail. End with hdr_log_close().
 */
int hdr_log_open(const char *path, const char *name, double start_s,
		 FILE **out);

/**
 * Add a line: `h` was recorded for `len_s` from `from_s` after the log's start.
 * FARKV_ENOMEM; write errors show in hdr_log_close().
 */
int hdr_log_add(FILE *f, const struct hist *h, double from_s, double len_s);

/** FARKV_ESYS with a detail if a line could not be written. NULL is allowed. */
int hdr_log_close(FILE *f, const char *path);

#endif
