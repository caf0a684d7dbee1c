/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kvbench's generators: draws compared with the probabilities of their formulas
 * (Pearson's chi-square), the share of the hottest record, and the fixed draws of one
 * seed.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/core/arrivals.h"
#include "bench/gen/gen_discrete.h"
#include "bench/gen/gen_exponential.h"
#include "bench/gen/gen_hotspot.h"
#include "bench/gen/gen_latest.h"
#include "bench/gen/gen_scrambled.h"
#include "bench/gen/gen_sequential.h"
#include "bench/gen/gen_uniform.h"
#include "bench/gen/gen_zipfian.h"
#include "common/base/util.h"
#include "tests/rig/cases.h"

#define DRAWS 300000
#define ITEMS_MAX 1000

/* The seeds are fixed, so a pass is repeatable. */
#define SEED 20260101

struct sample {
	uint64_t n; /* items: 0..n-1 */
	uint64_t count[ITEMS_MAX];
	double share[ITEMS_MAX]; /* what is expected */
};

static struct sample s;
static struct rng rng;

static void begin(uint64_t n)
{
	memset(&s, 0, sizeof(s));
	s.n = n;
	rng_seed(&rng, SEED, n);
}

static void draw(uint64_t number)
{
	ck_assert_uint_lt(number, s.n);
	s.count[number]++;
}

/*
 * Sum of (seen - expected)^2 / expected over cells of at least 10 expected
 * draws. With f degrees of freedom its mean is f and its variance 2 f; four
 * deviations off is one case in 30,000, five times as far any real mistake.
 */
static void check_chi_square(void)
{
	double chi = 0.0, expected = 0.0, seen = 0.0, total = 0.0;
	unsigned cells = 0;

	for (uint64_t i = 0; i < s.n; i++) {
		expected += s.share[i] * DRAWS;
		seen += (double)s.count[i];
		total += s.share[i];
		if (expected < 10.0 && i + 1 < s.n)
			continue;
		if (expected > 0.0)
			chi += (seen - expected) * (seen - expected) / expected;
		else
			ck_assert_msg(seen == 0.0, "drawn, but impossible");
		cells += expected > 0.0;
		expected = seen = 0.0;
	}
	ck_assert_msg(fabs(total - 1.0) < 1e-6, "shares sum to %g", total);
	ck_assert_msg(fabs(chi - (cells - 1)) < 4.0 * sqrt(2.0 * (cells - 1)),
		      "chi-square %.1f with %u degrees of freedom", chi,
		      cells - 1);
}

/* Within 2 % of the exact share. */
static void check_hottest(void)
{
	uint64_t hot = 0;
	double got;

	for (uint64_t i = 1; i < s.n; i++)
		if (s.share[i] > s.share[hot])
			hot = i;
	got = (double)s.count[hot] / DRAWS;
	ck_assert_msg(fabs(got / s.share[hot] - 1.0) < 0.02,
		      "record %llu has %.5f of the draws, not %.5f",
		      (unsigned long long)hot, got, s.share[hot]);
}

/*
 * Gray's method as a share for each rank: the draws below 1/zeta give rank 0,
 * those below (1 + 2^-theta)/zeta rank 1, the others floor(n (eta u - eta +
 * 1)^alpha). Here is its inverse, so no pow() of the generator is in it.
 */
struct gray {
	double n, theta, zeta, eta, head;
};

static double below(const struct gray *g, double rank)
{
	double u = 1.0 - (1.0 - pow(rank / g->n, 1.0 - g->theta)) / g->eta;

	return u < g->head ? g->head : u > 1.0 ? 1.0 : u;
}

static void gray_init(struct gray *g, double n, double theta, double zeta)
{
	double zeta_2 = 1.0 + pow(0.5, theta);

	*g = (struct gray){.n = n, .theta = theta, .zeta = zeta};
	g->eta = (1.0 - pow(2.0 / n, 1.0 - theta)) / (1.0 - zeta_2 / zeta);
	g->head = zeta_2 / zeta;
}

static double gray_share(const struct gray *g, uint64_t rank)
{
	double share = below(g, (double)rank + 1.0) - below(g, (double)rank);

	if (rank == 0)
		share += 1.0 / g->zeta;
	if (rank == 1)
		share += pow(0.5, g->theta) / g->zeta;
	return share;
}

static double zeta_of(uint64_t n, double theta)
{
	double sum = 0.0;

	for (uint64_t i = 1; i <= n; i++)
		sum += pow((double)i, -theta);
	return sum;
}

static const double thetas[] = {0.99, 0.5, 0.9};

TEST_EACH(zipfian_exact_has_its_shares, thetas)
{
	double theta = thetas[_i];
	struct gen_zipfian z;
	struct gray g;

	begin(1000);
	gray_init(&g, 1000, theta, zeta_of(1000, theta));
	for (uint64_t i = 0; i < s.n; i++)
		s.share[i] = gray_share(&g, i);
	/* The hottest is Zipf's law itself. */
	ck_assert(fabs(s.share[0] * zeta_of(1000, theta) - 1.0) < 1e-9);
	gen_zipfian_init(&z, 0, s.n - 1, theta);
	for (int i = 0; i < DRAWS; i++)
		draw(gen_zipfian_next(&z, &rng));
	check_chi_square();
	check_hottest();
}

TEST(zipfian_scrambled_has_its_shares)
{
	struct gen_scrambled z;
	struct gray g;
	double rest = 1.0;

	begin(1000);
	gray_init(&g, 1e10 + 1, 0.99, 26.46902820178302);
	/* The first ranks one by one; the later ones are many and hash evenly. */
	for (uint64_t i = 0; i < 500000; i++) {
		double share = gray_share(&g, i);

		s.share[fnvhash64(i) % s.n] += share;
		rest -= share;
	}
	for (uint64_t i = 0; i < s.n; i++)
		s.share[i] += rest / (double)s.n;
	gen_scrambled_init(&z, 0, s.n - 1);
	for (int i = 0; i < DRAWS; i++)
		draw(gen_scrambled_next(&z, &rng));
	check_chi_square();
	check_hottest();
}

TEST(latest_has_its_shares_while_the_window_moves)
{
	const uint64_t last = 999;
	struct gen_latest l;
	struct gray g;

	begin(1000);
	/* Built for 600 records; eta keeps their number, zeta goes on. */
	gen_latest_init(&l, 600);
	gray_init(&g, 600, 0.99, zeta_of(last, 0.99));
	g.eta = (1.0 - pow(2.0 / 600, 0.01)) /
		(1.0 - (1.0 + pow(0.5, 0.99)) / g.zeta);
	g.n = (double)last;
	for (uint64_t i = 0; i < last; i++)
		s.share[last - i] = gray_share(&g, i);
	for (int i = 0; i < DRAWS; i++)
		draw(gen_latest_next(&l, &rng, last));
	check_chi_square();
	check_hottest();
}

TEST(uniform_has_its_shares)
{
	struct gen_uniform u;

	begin(20);
	for (uint64_t i = 0; i < s.n; i++)
		s.share[i] = 1.0 / (double)s.n;
	gen_uniform_init(&u, 0, s.n - 1);
	for (int i = 0; i < DRAWS; i++)
		draw(gen_uniform_next(&u, &rng));
	check_chi_square();
	check_hottest();
}

TEST(sequential_has_all_in_order)
{
	struct gen_sequential q;

	gen_sequential_init(&q, 5, 7);
	for (uint64_t i = 0; i < 10; i++)
		ck_assert_uint_eq(gen_sequential_next(&q), 5 + i % 3);
}

TEST(hotspot_has_its_shares)
{
	struct gen_hotspot h;

	begin(20);
	for (uint64_t i = 0; i < s.n; i++)
		s.share[i] = i < 4 ? 0.8 / 4 : 0.2 / 16;
	ck_assert(gen_hotspot_init(&h, 0, s.n - 1, 0.2, 0.8));
	for (int i = 0; i < DRAWS; i++)
		draw(gen_hotspot_next(&h, &rng));
	check_chi_square();
	check_hottest();
}

TEST(exponential_has_its_shares)
{
	struct gen_exponential e;
	double gamma = -log(0.05) / 20.0;

	/* The last cell takes all larger values. */
	begin(41);
	for (uint64_t i = 0; i < 40; i++)
		s.share[i] = exp(-gamma * (double)i) -
			     exp(-gamma * (double)(i + 1));
	s.share[40] = exp(-gamma * 40.0);
	gen_exponential_init(&e, 95, 20);
	for (int i = 0; i < DRAWS; i++) {
		uint64_t far = gen_exponential_next(&e, &rng);

		draw(UTIL_MIN(far, UINT64_C(40)));
	}
	check_chi_square();
	check_hottest();
}

TEST(discrete_has_its_shares)
{
	static const double weights[] = {19, 0, 1, 5}, none[] = {0, 0};
	struct gen_discrete d;

	begin(4);
	for (int i = 0; i < 4; i++)
		s.share[i] = weights[i] / 25.0;
	ck_assert(!gen_discrete_init(&d, none, 2));
	ck_assert(gen_discrete_init(&d, weights, 4));
	for (int i = 0; i < DRAWS; i++)
		draw(gen_discrete_next(&d, &rng));
	check_chi_square();
	check_hottest();
}

TEST_LOOP(arrivals_keep_their_rate_and_end, 0, 2)
{
	bool poisson = _i == 1;
	double sum = 0.0, squares = 0.0;
	uint64_t last = 1000, at;
	struct arrivals a = {0};

	rng_seed(&rng, SEED, 0);
	arrivals_init(&a, 250.3, poisson);
	arrivals_begin(&a, 1000, 100000);
	for (int i = 0; i < 100000; i++) {
		ck_assert(arrivals_take(&a, &rng, &at));
		ck_assert_uint_ge(at, last);
		sum += (double)(at - last);
		squares += (double)(at - last) * (double)(at - last);
		last = at;
	}
	ck_assert(!arrivals_take(&a, &rng, &at));
	ck_assert(fabs(sum / 99999 - 250.3) < (poisson ? 2.5 : 0.01));
	/* The deviation of exponential gaps is their mean. */
	squares = sqrt(squares / 1e5 - sum / 1e5 * sum / 1e5);
	ck_assert(fabs(squares - (poisson ? 250.3 : 1.0)) < 4.0);
}

/* ---- one seed, one sequence ------------------------------------------------------- */

TEST(draws_of_a_seed_are_fixed)
{
	static const uint64_t zipfian[] = {
		348, 33119, 108503, 0, 98, 6,
	};
	static const uint64_t scrambled[] = {
		426969, 296834, 919374, 312648, 745619, 809465,
	};
	static const uint64_t uniform[] = {
		862798, 140669, 273986, 895293, 794802, 296244,
	};
	static const uint64_t hotspot[] = {
		545242, 120720, 53973, 147510, 28333, 100628,
	};
	static const uint64_t exponential[] = {
		72688, 178878, 106985, 153714, 429282, 163328,
	};
	struct gen_zipfian z;
	struct gen_scrambled c;
	struct gen_uniform u;
	struct gen_hotspot h;
	struct gen_exponential e;

	gen_zipfian_init(&z, 0, 999999, 0.99);
	gen_scrambled_init(&c, 0, 999999);
	gen_uniform_init(&u, 0, 999999);
	gen_hotspot_init(&h, 0, 999999, 0.2, 0.8);
	gen_exponential_init(&e, 95, 857142.8571);
	rng_seed(&rng, 1, 0);
	for (int i = 0; i < 6; i++) {
		ck_assert_uint_eq(gen_zipfian_next(&z, &rng), zipfian[i]);
		ck_assert_uint_eq(gen_scrambled_next(&c, &rng), scrambled[i]);
		ck_assert_uint_eq(gen_uniform_next(&u, &rng), uniform[i]);
		ck_assert_uint_eq(gen_hotspot_next(&h, &rng), hotspot[i]);
		ck_assert_uint_eq(gen_exponential_next(&e, &rng),
				  exponential[i]);
	}
}

TEST_SUITE("gens")
