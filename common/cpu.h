/* SPDX-License-Identifier: BSD-3-Clause */
/** cpu.h - what this CPU has beyond what the program was built for. Leaf. */
#ifndef COMMON_CPU_H
#define COMMON_CPU_H

#include <stdbool.h>

/** Vectors of 32 bytes of whole numbers, which the system saves. Two instructions. */
static inline bool cpu_has_avx2(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("avx2");
#else
	return false;
#endif
}

#endif
