/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * scale_hook.h - a process that stops or kills itself at one of its requests: all its
 * lanes are wrapped in the fault transport, which reports every request before and after
 * it is executed. For programs that link the library's modules; one handle at a time.
 */
#ifndef TESTS_SCALE_SCALE_HOOK_H
#define TESTS_SCALE_SCALE_HOOK_H

#include <stdbool.h>
#include <stdint.h>

/** What happened since hook_arm(). May lie in shared memory. */
struct hook_seen {
	uint32_t requests; /* carried out */
	uint32_t cas;      /* of which CAS */
	uint32_t swaps;    /* of which found what they expected */
};

struct hook_plan {
	uint32_t at;    /* request, or CAS, number `at` from 1; 0: none */
	bool only_cas;  /* count CAS alone */
	bool after;     /* it has been carried out */
	int sig;        /* raise(sig) */
	struct hook_seen *seen;
};

/**
 * From now on. With `all` the requests that this transport would carry out by
 * plain loads and stores are made requests too.
 */
void hook_install(bool all);

/** Begin to count, from 0; `p` is copied. NULL: neither count nor act. */
void hook_arm(const struct hook_plan *p);

#endif
