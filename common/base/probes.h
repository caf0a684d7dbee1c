/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * probes.h - tracepoints of rare events for perf, bpftrace and SystemTap: a nop in the code and a
 * note in the file each if configure found sys/sdt.h, otherwise nothing. doc/monitoring.md lists
 * them with their arguments, which are integers.
 */
#ifndef COMMON_BASE_PROBES_H
#define COMMON_BASE_PROBES_H

#ifdef HAVE_SDT
#include <sys/sdt.h>

#define PROBE1(name, a) DTRACE_PROBE1(farkv, name, a)
#define PROBE3(name, a, b, c) DTRACE_PROBE3(farkv, name, a, b, c)
#else
#define PROBE1(name, a) ((void)(a))
#define PROBE3(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

#endif
