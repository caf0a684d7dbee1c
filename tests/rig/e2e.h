/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * e2e.h - shared by tests of libfarkv with a real kvserver. They use the public interface
 * only, as a user would.
 */
#ifndef TESTS_RIG_E2E_H
#define TESTS_RIG_E2E_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <farkv.h>

#include "marks.h"

#define POISON 0xA5

/* A call that must succeed; prints the reason if it does not. */
#define OK(call)                                                              \
	do {                                                                  \
		int ok_err = (call);                                          \
                                                                              \
		ck_assert_msg(ok_err == 0, "%s: %s: %s", #call,               \
			      farkv_strerror(ok_err), farkv_errdetail());     \
	} while (0)

/* A call that must fail with `want`. */
#define FAILS(want, call)                                                     \
	do {                                                                  \
		int fails_err = (call);                                       \
                                                                              \
		ck_assert_msg(fails_err == (want), "%s: %s (%s), not %s",     \
			      #call, farkv_strerror(fails_err),               \
			      farkv_errdetail(), #want);                      \
	} while (0)

static inline struct farkv *e2e_open(const char *path, unsigned op_timeout_ms)
{
	struct farkv *kv = NULL;
	struct farkv_options o;

	farkv_options_init(&o);
	o.op_timeout_ms = op_timeout_ms;
	o.connect_timeout_ms = 60000;
	OK(farkv_open(path, &o, &kv));
	ck_assert_ptr_nonnull(kv);
	return kv;
}

/* A read-only handle: it takes no blocks. */
static inline struct farkv *e2e_open_readonly(const char *path,
					      unsigned op_timeout_ms)
{
	struct farkv *kv = NULL;
	struct farkv_options o;

	farkv_options_init(&o);
	o.flags = FARKV_OPEN_READONLY;
	o.op_timeout_ms = op_timeout_ms;
	o.connect_timeout_ms = 60000;
	OK(farkv_open(path, &o, &kv));
	ck_assert_ptr_nonnull(kv);
	return kv;
}

static inline int e2e_put(struct farkv *kv, const char *key, const char *value)
{
	return farkv_put(kv, key, strlen(key), value, strlen(value));
}

static inline int e2e_del(struct farkv *kv, const char *key)
{
	return farkv_delete(kv, key, strlen(key));
}

/* The result of a get whose value does not matter. */
static inline int e2e_probe(struct farkv *kv, const char *key)
{
	struct farkv_value v;

	return farkv_get(kv, key, strlen(key), &v);
}

static inline void e2e_expect(struct farkv *kv, const void *key, size_t key_len,
			      const void *value, size_t len)
{
	struct farkv_value v;

	OK(farkv_get(kv, key, key_len, &v));
	ck_assert_uint_eq(v.len, len);
	ck_assert_ptr_nonnull(v.data);
	ck_assert_int_eq(memcmp(v.data, value, len), 0);
}

static inline void e2e_expect_str(struct farkv *kv, const char *key,
				  const char *value)
{
	e2e_expect(kv, key, strlen(key), value, strlen(value));
}

static inline uint64_t e2e_version(struct farkv *kv, const char *key)
{
	struct farkv_value v;

	OK(farkv_get(kv, key, strlen(key), &v));
	return v.version;
}

/* True if the last failure's detail contains `says`. */
#define e2e_detail(says)                                                      \
	ck_assert_msg(strstr(farkv_errdetail(), says) != NULL,                \
		      "'%s' lacks '%s'", farkv_errdetail(), says)

/* Fill with bytes that depend on seed and position. */
static inline void e2e_fill(uint8_t *p, size_t n, uint64_t seed)
{
	uint64_t x = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;

	for (size_t i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		p[i] = (uint8_t)x;
	}
}

static inline bool e2e_poisoned(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((const uint8_t *)p)[i] != POISON)
			return false;
	return true;
}

static inline uint64_t e2e_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

#endif
