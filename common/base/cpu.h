/* SPDX-License-Identifier: BSD-3-Clause */
/** cpu.h - CPU features beyond those the program was built for. Leaf. */
#ifndef COMMON_BASE_CPU_H
#define COMMON_BASE_CPU_H

#include <stdbool.h>
#include <stdint.h>

/** True if the CPU has AVX2 and the operating system saves its registers. Two instructions. */
static inline bool cpu_has_avx2(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("avx2");
#else
	return false;
#endif
}

/**
 * Return `what` after AVX2 code, with the upper halves of the vector registers cleared;
 * left set, they slow down all SSE code (Intel's optimization manual, "Mixing AVX code with
 * SSE code"; AMD's for Family 17h, "Mixing AVX and SSE"). Compilers do that in AVX2
 * functions, but GCC 12.2 omits it in some that end in a call. The clobbers keep the
 * compiler from holding vectors across this.
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
