/* SPDX-License-Identifier: BSD-3-Clause */
/** cpu.h - what this CPU has beyond what the program was built for. Leaf. */
#ifndef COMMON_CPU_H
#define COMMON_CPU_H

#include <stdbool.h>
#include <stdint.h>

/** Vectors of 32 bytes of whole numbers, which the system saves. Two instructions. */
static inline bool cpu_has_avx2(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("avx2");
#else
	return false;
#endif
}

/**
 * Behind code for AVX2 that returns `what`, on a CPU that has it: no upper halves of vectors
 * are left, which would slow down all code that knows of 16 bytes only (Intel's optimization
 * manual, "Mixing AVX code with SSE code"; AMD's for Family 17h, "Mixing AVX and SSE"). A
 * compiler sees to it where it compiles a function for AVX2; but GCC (12.2) not everywhere
 * where the last thing that such a function does is a call. The vectors are named to keep it
 * from having anything in them across this.
 */
static inline uint64_t cpu_without_uppers(uint64_t what)
{
#if defined(__x86_64__)
	__asm__ __volatile__("vzeroupper"
			     : "+r"(what)
			     :
			     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
			       "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
			       "xmm13", "xmm14", "xmm15");
#endif
	return what;
}

#endif
