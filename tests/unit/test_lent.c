/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Values that a call has returned, as arguments of the next: as a key, as another key's
 * value. What the program gives back is what was lent, whatever the next call does with
 * that memory.
 */
#include "config.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"
#include "tests/rig/test_main.h"

/* More than an mget looks for at once. */
#define ITEMS 300
#define LARGEST 300000

static struct real_server srv;
static struct farkv *kv;
static const char *const args[] = {"-m", "512m", NULL};
static uint8_t want[LARGEST];

/* Small ones go straight on, others by way of a buffer, large ones' memory does not stay. */
static const size_t lengths[] = {0, 1, 10, 100, 500, 640, 1000, 5000, 70000, LARGEST};
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static void setup(void)
{
	real_server_init(&srv, args);
	kv = e2e_open(srv.path, 20000);
}

static void teardown(void)
{
	farkv_close(kv);
	real_server_fini(&srv);
}

/* `source` has a value of this length; returns it, lent. */
static struct farkv_value lent(size_t len)
{
	struct farkv_value v;

	e2e_fill(want, len, len + 1);
	OK(farkv_put(kv, "source", 6, want, len));
	OK(farkv_get(kv, "source", 6, &v));
	ck_assert_uint_eq(v.len, len);
	return v;
}

/* Of keys that are shorter than `source` and longer, there and not there. */
START_TEST(value_that_was_got_is_put_as_it_was)
{
	static const char *const keys[] = {"k", "a key that is longer than the other"};
	struct farkv_value v;

	for (unsigned i = 0; i < 2 * LENGTHS; i++) {
		const char *key = keys[i % 2];
		size_t n = strlen(key), len = lengths[i / 2];
		uint64_t version;

		v = lent(len);
		OK(farkv_add(kv, key, n, v.data, v.len));
		e2e_expect(kv, key, n, want, len);
		v = lent(len);
		OK(farkv_replace(kv, key, n, v.data, v.len));
		e2e_expect(kv, key, n, want, len);
		version = e2e_version(kv, key);
		v = lent(len);
		OK(farkv_cas(kv, key, n, v.data, v.len, version, NULL));
		e2e_expect(kv, key, n, want, len);
		for (unsigned again = 0; again < 2; again++) {
			v = lent(len);
			OK(farkv_put(kv, key, n, v.data, v.len));
			e2e_expect(kv, key, n, want, len);
		}
		/* Part of it, and to the key that it came from. */
		v = lent(len);
		OK(farkv_put(kv, "source", 6, (const uint8_t *)v.data + len / 2,
			     len - len / 2));
		e2e_expect(kv, "source", 6, want + len / 2, len - len / 2);
		OK(farkv_delete(kv, key, n));
	}
}
END_TEST

START_TEST(value_that_was_got_is_a_key)
{
	struct farkv_value v;
	char into[8];
	size_t len;

	OK(e2e_put(kv, "first", "second"));
	OK(e2e_put(kv, "second", "the third"));
	OK(e2e_put(kv, "the third", "4"));
	OK(e2e_put(kv, "4", "end"));
	for (unsigned i = 0; i < 3; i++) {
		OK(farkv_get(kv, "first", 5, &v));
		OK(farkv_get(kv, v.data, v.len, &v));
		OK(farkv_get(kv, v.data, v.len, &v));
		ck_assert_mem_eq(v.data, "4", 1);
		OK(farkv_get_into(kv, v.data, v.len, into, sizeof(into), &len, NULL));
		ck_assert_uint_eq(len, 3);
		ck_assert_mem_eq(into, "end", 3);
	}
	/* Both at once, and what goes is what was named. */
	OK(farkv_get(kv, "second", 6, &v));
	OK(farkv_put(kv, v.data, v.len, v.data, v.len));
	e2e_expect_str(kv, "the third", "the third");
	OK(farkv_get(kv, "first", 5, &v));
	OK(farkv_delete(kv, v.data, v.len));
	FAILS(FARKV_ENOTFOUND, e2e_probe(kv, "second"));
	/* A key that no store takes is refused as any other. */
	v = lent(70000);
	FAILS(FARKV_ETOOLARGE, farkv_put(kv, v.data, v.len, "x", 1));
	v = lent(0);
	FAILS(FARKV_EINVAL, farkv_put(kv, v.data, v.len, "x", 1));
}
END_TEST

static char names[ITEMS][16], others[ITEMS][32];
static struct farkv_get_item get[ITEMS];
static struct farkv_put_item put[ITEMS];

static size_t length_of(unsigned i, size_t len)
{
	return len - (len > 0 && i % 2);
}

/* `n` keys whose values are lent, by an mget. */
static void lend(unsigned n, size_t len)
{
	e2e_fill(want, len, len + 2);
	for (unsigned i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "n%u", i);
		OK(farkv_put(kv, names[i], strlen(names[i]), want, length_of(i, len)));
		get[i] = (struct farkv_get_item){.key = names[i],
						 .key_len = strlen(names[i])};
	}
	OK(farkv_mget(kv, get, n));
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(get[i].result, 0);
}

START_TEST(values_of_a_batch_are_put_as_they_were)
{
	for (unsigned l = 0; l < LENGTHS; l++) {
		size_t len = lengths[l];
		unsigned n = len > 10000 ? 8 : ITEMS;

		for (unsigned round = 0; round < 2; round++) {
			lend(n, len);
			for (unsigned i = 0; i < n; i++) {
				const struct farkv_value *v = &get[n - 1 - i].value;

				snprintf(others[i], sizeof(others[i]),
					 "the other, %u", i);
				put[i] = (struct farkv_put_item){
					.key = others[i],
					.key_len = strlen(others[i]),
					.value = v->data,
					.value_len = v->len};
			}
			OK(farkv_mput(kv, put, n));
			for (unsigned i = 0; i < n; i++) {
				ck_assert_int_eq(put[i].result, 0);
				e2e_expect(kv, others[i], put[i].key_len, want,
					   length_of(n - 1 - i, len));
			}
		}
		/* One alone: of the first, which was copied for the caller, and the last. */
		for (unsigned i = 0; i < n; i += n - 1) {
			lend(n, len);
			OK(farkv_put(kv, "alone", 5, get[i].value.data,
				     get[i].value.len));
			e2e_expect(kv, "alone", 5, want, length_of(i, len));
		}
	}
}
END_TEST

/* Their ends, wherever in the memory of a value these are: one page further, or sixteen. */
START_TEST(parts_of_a_batch_are_put_as_they_were)
{
	static const size_t large[] = {5000, 70000, LARGEST};
	enum { N = 8, PART = 100 };

	for (unsigned l = 0; l < sizeof(large) / sizeof(large[0]); l++) {
		lend(N, large[l]);
		for (unsigned i = 0; i < N; i++) {
			const struct farkv_value *v = &get[i].value;

			snprintf(others[i], sizeof(others[i]), "part %u", i);
			put[i] = (struct farkv_put_item){
				.key = others[i],
				.key_len = strlen(others[i]),
				.value = (const char *)v->data + v->len - PART,
				.value_len = PART};
		}
		OK(farkv_mput(kv, put, N));
		for (unsigned i = 0; i < N; i++)
			e2e_expect(kv, others[i], put[i].key_len,
				   want + length_of(i, large[l]) - PART, PART);
	}
}
END_TEST

START_TEST(values_of_a_batch_are_keys)
{
	struct farkv_value v;

	/* Each value is the next key; the last's is the first. */
	for (unsigned i = 0; i < ITEMS; i++) {
		snprintf(names[i], sizeof(names[i]), "n%u", i);
		snprintf(others[i], sizeof(others[i]), "n%u", (i + 1) % ITEMS);
		OK(e2e_put(kv, names[i], others[i]));
		get[i] = (struct farkv_get_item){.key = names[i],
						 .key_len = strlen(names[i])};
	}
	for (unsigned step = 0; step < 4; step++) {
		OK(farkv_mget(kv, get, ITEMS));
		for (unsigned i = 0; i < ITEMS; i++) {
			char next[16];

			snprintf(next, sizeof(next), "n%u", (i + 1 + step) % ITEMS);
			ck_assert_int_eq(get[i].result, 0);
			ck_assert_uint_eq(get[i].value.len, strlen(next));
			ck_assert_mem_eq(get[i].value.data, next, strlen(next));
			get[i].key = get[i].value.data;
			get[i].key_len = get[i].value.len;
		}
	}
	/* A single call's value among the keys of a batch, and the other way round. */
	OK(farkv_get(kv, "n5", 2, &v));
	get[0] = (struct farkv_get_item){.key = v.data, .key_len = v.len};
	get[1] = (struct farkv_get_item){.key = "", .key_len = 0};
	FAILS(FARKV_EINVAL, farkv_mget(kv, get, 2));
	ck_assert_int_eq(get[0].result, 0);
	ck_assert_int_eq(get[1].result, FARKV_EINVAL);
	ck_assert_mem_eq(get[0].value.data, "n7", 2);
	OK(farkv_get(kv, get[0].value.data, get[0].value.len, &v));
	ck_assert_mem_eq(v.data, "n8", 2);
}
END_TEST

/* The values of polls: `n` gets of the same key. */
static void poll_some(struct farkv_completion *c, unsigned n)
{
	struct farkv_request r = {.kind = FARKV_REQUEST_GET, .key = "source", .key_len = 6};

	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(farkv_submit(kv, &r, 1), 1);
	for (unsigned got = 0; got < n;) {
		int taken = farkv_wait(kv, c, n, 20000);

		ck_assert_int_gt(taken, 0);
		got += (unsigned)taken;
		ck_assert_uint_eq(got, n); /* all of one turn: none has ended yet */
	}
}

START_TEST(values_of_a_poll_are_put_as_they_were)
{
	struct farkv_completion c[3];

	for (unsigned l = 0; l < LENGTHS; l++) {
		size_t len = lengths[l];

		for (unsigned i = 0; i < 3; i++) {
			(void)lent(len);
			poll_some(c, 3);
			ck_assert_int_eq(c[i].result, 0);
			OK(farkv_put(kv, "alone", 5, c[i].value.data, c[i].value.len));
			e2e_expect(kv, "alone", 5, want, len);
		}
	}
}
END_TEST

/* What is to be seen to before the next call can go on does not end it either. */
START_TEST(value_is_what_it_was_when_the_store_is_another)
{
	static const size_t some[] = {100, 5000, LARGEST};

	for (unsigned i = 0; i < 3; i++) {
		struct farkv_value v = lent(some[i]);

		ck_assert_int_eq(real_server_end(&srv, SIGTERM), 0);
		real_server_start(&srv, args);
		FAILS(FARKV_EDISCONNECTED, farkv_put(kv, "alone", 5, v.data, v.len));
		lend(4, some[i]);
		ck_assert_int_eq(real_server_end(&srv, SIGTERM), 0);
		real_server_start(&srv, args);
		for (unsigned k = 0; k < 4; k++)
			put[k] = (struct farkv_put_item){.key = names[k],
							 .key_len = strlen(names[k]),
							 .value = get[k].value.data,
							 .value_len = get[k].value.len};
		FAILS(FARKV_EDISCONNECTED, farkv_mput(kv, put, 4));
		for (unsigned k = 0; k < 4; k++)
			ck_assert_int_eq(put[k].result, FARKV_EABORTED);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("values lent");
	TCase *t = tcase_create("lent");

	real_server_require();
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, value_that_was_got_is_put_as_it_was);
	tcase_add_test(t, value_that_was_got_is_a_key);
	tcase_add_test(t, values_of_a_batch_are_put_as_they_were);
	tcase_add_test(t, parts_of_a_batch_are_put_as_they_were);
	tcase_add_test(t, values_of_a_batch_are_keys);
	tcase_add_test(t, values_of_a_poll_are_put_as_they_were);
	tcase_add_test(t, value_is_what_it_was_when_the_store_is_another);
	suite_add_tcase(s, t);
	return s;
}

TEST_MAIN(suite())
