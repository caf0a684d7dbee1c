/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * rng.h - the random numbers of a benchmark thread: xoshiro256++ seeded through
 * splitmix64 (D. Blackman, S. Vigna, "Scrambled linear pseudorandom number
 * generators", ACM TOMS 47(4), 2021). One state per thread; not for secrets.
 */
#ifndef BENCH_GEN_RNG_H
#define BENCH_GEN_RNG_H

#include <stdint.h>

struct rng {
	uint64_t s[4];
};

/** One step of splitmix64; also good for turning a counter into a seed. */
static inline uint64_t rng_splitmix(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/** Start stream number `stream` of the run's `seed`. */
static inline void rng_seed(struct rng *r, uint64_t seed, uint64_t stream)
{
	uint64_t state = seed;
	uint64_t mixed = rng_splitmix(&state) + stream;

	for (int i = 0; i < 4; i++)
		r->s[i] = rng_splitmix(&mixed);
}

static inline uint64_t rng_rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

/** 64 uniform bits. */
static inline uint64_t rng_next(struct rng *r)
{
	uint64_t *s = r->s;
	uint64_t result = rng_rotl(s[0] + s[3], 23) + s[0];
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rng_rotl(s[3], 45);
	return result;
}

/** Uniform over [0,1) in steps of 2^-53. */
static inline double rng_double(struct rng *r)
{
	return (double)(rng_next(r) >> 11) * 0x1p-53;
}

/**
 * Uniform over 0..n-1; n is not 0. The high half of a 128-bit product: no division; the
 * bias is below n / 2^64.
 */
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)rng_next(r) * n) >> 64);
}

#endif
