/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Values that a call has returned, as keys and values of the next call. They stay what they
 * were until that call has ended, also if it is a batch of several groups, or if the connection
 * breaks in the middle of it.
 */
#include "config.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "client/conn.h"
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

/* ---- lanes that break ----------------------------------------------------------------- */

static unsigned break_in; /* requests until the lane breaks; 0: it does not */
static unsigned breaks;

static int hook(void *arg, const struct xport_chain *c, unsigned i, bool after)
{
	(void)arg;
	(void)c;
	(void)i;
	if (after || break_in == 0 || --break_in > 0)
		return 0;
	breaks++;
	return FARKV_EDISCONNECTED;
}

static struct xport_lane *wrap_mapped(struct xport_lane *lane)
{
	static const struct xport_fault_config cfg = {.hook = hook};

	return xport_fault_open(lane, &cfg);
}

static struct xport_lane *wrap_hidden(struct xport_lane *lane)
{
	static const struct xport_fault_config cfg = {.hide_direct = true, .hook = hook};

	return xport_fault_open(lane, &cfg);
}

static void setup_mapped(void)
{
	conn_wrap_lane = wrap_mapped;
	setup();
}

static void setup_hidden(void)
{
	conn_wrap_lane = wrap_hidden;
	setup();
}

static void teardown(void)
{
	conn_wrap_lane = NULL;
	farkv_close(kv);
	real_server_fini(&srv);
}

/* ---- values of one get ---------------------------------------------------------------- */

/* `source` has a value of this length; returns it, of a get. */
static struct farkv_value returned(size_t len)
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

		v = returned(len);
		OK(farkv_add(kv, key, n, v.data, v.len));
		e2e_expect(kv, key, n, want, len);
		v = returned(len);
		OK(farkv_replace(kv, key, n, v.data, v.len));
		e2e_expect(kv, key, n, want, len);
		version = e2e_version(kv, key);
		v = returned(len);
		OK(farkv_cas(kv, key, n, v.data, v.len, version, NULL));
		e2e_expect(kv, key, n, want, len);
		for (unsigned again = 0; again < 2; again++) {
			v = returned(len);
			OK(farkv_put(kv, key, n, v.data, v.len));
			e2e_expect(kv, key, n, want, len);
		}
		/* Part of it, and to the key that it came from. */
		v = returned(len);
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
	v = returned(70000);
	FAILS(FARKV_ETOOLARGE, farkv_put(kv, v.data, v.len, "x", 1));
	v = returned(0);
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

/* ---- values of a batch ---------------------------------------------------------------- */

/* `n` keys whose values an mget has returned. */
static void return_many(unsigned n, size_t len)
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
			return_many(n, len);
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
			return_many(n, len);
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
		return_many(N, large[l]);
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
	static struct farkv_key asked[ITEMS];
	struct farkv_value v;
	size_t prefix;

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
	for (unsigned i = 0; i < ITEMS; i++)
		asked[i] = (struct farkv_key){get[i].key, get[i].key_len};
	OK(farkv_mexists(kv, asked, ITEMS, NULL, &prefix));
	ck_assert_uint_eq(prefix, ITEMS);
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

/* Keys and values of an mput are values of one mget, each of another of its groups. */
START_TEST(values_of_a_batch_are_keys_and_values)
{
	char to[16], value[16];

	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < ITEMS; i++) {
			snprintf(names[i], sizeof(names[i]), "n%u", i);
			snprintf(value, sizeof(value), "%u of %u", i, round);
			OK(e2e_put(kv, names[i], value));
			get[i] = (struct farkv_get_item){.key = names[i],
							 .key_len = strlen(names[i])};
		}
		OK(farkv_mget(kv, get, ITEMS));
		for (unsigned i = 0; i < ITEMS; i++) {
			const struct farkv_value *k = &get[i].value;
			const struct farkv_value *v = &get[(i * 7 + 129) % ITEMS].value;

			put[i] = (struct farkv_put_item){.key = k->data, .key_len = k->len,
							 .value = v->data,
							 .value_len = v->len};
		}
		OK(farkv_mput(kv, put, ITEMS));
		for (unsigned i = 0; i < ITEMS; i++) {
			snprintf(to, sizeof(to), "%u of %u", i, round);
			snprintf(value, sizeof(value), "%u of %u", (i * 7 + 129) % ITEMS,
				 round);
			e2e_expect_str(kv, to, value);
		}
	}
}
END_TEST

/* ---- values of requests --------------------------------------------------------------- */

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
			(void)returned(len);
			poll_some(c, 3);
			ck_assert_int_eq(c[i].result, 0);
			OK(farkv_put(kv, "alone", 5, c[i].value.data, c[i].value.len));
			e2e_expect(kv, "alone", 5, want, len);
		}
	}
}
END_TEST

START_TEST(values_of_a_poll_are_keys_and_values)
{
	enum { N = 40 };
	struct farkv_completion c[N];
	struct farkv_get_item g[N];
	struct farkv_put_item p[N];

	for (unsigned round = 0; round < 3; round++) {
		(void)returned(100);
		poll_some(c, N);
		OK(farkv_put(kv, c[0].value.data, 50, c[N - 1].value.data, 100));
		e2e_expect(kv, want, 50, want, 100);
		poll_some(c, N);
		for (unsigned i = 0; i < N; i++)
			p[i] = (struct farkv_put_item){.key = c[i].value.data,
						       .key_len = 10 + i,
						       .value = c[N - 1 - i].value.data,
						       .value_len = 100 - i};
		OK(farkv_mput(kv, p, N));
		for (unsigned i = 0; i < N; i++)
			e2e_expect(kv, want, 10 + i, want, 100 - i);
		poll_some(c, N);
		for (unsigned i = 0; i < N; i++)
			g[i] = (struct farkv_get_item){.key = c[i].value.data,
						       .key_len = 10 + i};
		OK(farkv_mget(kv, g, N));
		for (unsigned i = 0; i < N; i++) {
			ck_assert_int_eq(g[i].result, 0);
			ck_assert_uint_eq(g[i].value.len, 100 - i);
			ck_assert_mem_eq(g[i].value.data, want, 100 - i);
		}
	}
}
END_TEST

/* ---- another connection --------------------------------------------------------------- */

/*
 * The lane of the call that follows breaks before its n-th request. The call does what is asked,
 * or does not know whether it did.
 */
#define BREAK_MAX 6

static unsigned unsure;

static bool is_done(int err)
{
	break_in = 0;
	if (err == FARKV_EMAYBE) {
		unsure++;
		return false;
	}
	OK(err);
	return true;
}

START_TEST(value_of_a_get_outlives_the_connection)
{
	struct farkv_value v;

	for (unsigned l = 0; l < LENGTHS; l++) {
		for (unsigned n = 1; n < BREAK_MAX; n++) {
			size_t len = lengths[l];

			v = returned(len);
			break_in = n;
			if (is_done(farkv_put(kv, "alone", 5, v.data, v.len)))
				e2e_expect(kv, "alone", 5, want, len);
			v = returned(len);
			break_in = n;
			(void)is_done(farkv_replace(kv, "source", 6, v.data, v.len));
			e2e_expect(kv, "source", 6, want, len);
			if (len == 0 || len > 5000)
				continue;
			v = returned(len);
			break_in = n;
			if (is_done(farkv_put(kv, v.data, v.len, "its key", 7)))
				e2e_expect(kv, want, len, (const uint8_t *)"its key", 7);
		}
	}
	printf("  %u breaks, %u of unknown outcome\n", breaks, unsure);
	ck_assert_uint_gt(breaks, unsure);
}
END_TEST

START_TEST(values_of_a_batch_outlive_the_connection)
{
	static const unsigned at[] = {1, 2, 40, 130, 260, 400};

	for (unsigned l = 0; l < LENGTHS; l++) {
		size_t len = lengths[l];
		unsigned n = len > 10000 ? 8 : ITEMS;

		for (unsigned b = 0; b < sizeof(at) / sizeof(at[0]); b++) {
			return_many(n, len);
			for (unsigned i = 0; i < n; i++) {
				const struct farkv_value *v = &get[n - 1 - i].value;

				snprintf(others[i], sizeof(others[i]), "other %u", i);
				put[i] = (struct farkv_put_item){
					.key = others[i],
					.key_len = strlen(others[i]),
					.value = v->data,
					.value_len = v->len};
			}
			break_in = at[b];
			(void)is_done(farkv_mput(kv, put, n));
			for (unsigned i = 0; i < n; i++)
				if (put[i].result == 0)
					e2e_expect(kv, others[i], put[i].key_len, want,
						   length_of(n - 1 - i, len));
		}
	}
	printf("  %u breaks, %u of unknown outcome\n", breaks, unsure);
	ck_assert_uint_gt(breaks, unsure);
}
END_TEST

/* Where gets are requests of the lane, too. */
START_TEST(keys_of_a_batch_outlive_the_connection)
{
	static const unsigned at[] = {1, 2, 150, 300, 500, 700};
	char text[16];

	for (unsigned i = 0; i < ITEMS; i++) {
		snprintf(names[i], sizeof(names[i]), "n%u", i);
		snprintf(text, sizeof(text), "n%u", (i + 1) % ITEMS);
		OK(e2e_put(kv, names[i], text));
		get[i] = (struct farkv_get_item){.key = names[i],
						 .key_len = strlen(names[i])};
	}
	for (unsigned b = 0; b < sizeof(at) / sizeof(at[0]); b++) {
		break_in = at[b];
		OK(farkv_mget(kv, get, ITEMS));
		for (unsigned i = 0; i < ITEMS; i++) {
			snprintf(text, sizeof(text), "n%u", (i + 1 + b) % ITEMS);
			ck_assert_int_eq(get[i].result, 0);
			ck_assert_uint_eq(get[i].value.len, strlen(text));
			ck_assert_mem_eq(get[i].value.data, text, strlen(text));
			get[i].key = get[i].value.data;
			get[i].key_len = get[i].value.len;
		}
	}
	break_in = 0;
	printf("  %u breaks, %u of unknown outcome\n", breaks, unsure);
	ck_assert_uint_gt(breaks, unsure);
}
END_TEST

START_TEST(values_of_a_poll_outlive_the_connection)
{
	struct farkv_completion c[3];

	for (unsigned l = 0; l < LENGTHS; l++) {
		for (unsigned n = 1; n < BREAK_MAX; n++) {
			size_t len = lengths[l];

			(void)returned(len);
			poll_some(c, 3);
			break_in = n;
			if (is_done(farkv_put(kv, "alone", 5, c[n % 3].value.data,
					      c[n % 3].value.len)))
				e2e_expect(kv, "alone", 5, want, len);
		}
	}
	printf("  %u breaks, %u of unknown outcome\n", breaks, unsure);
	ck_assert_uint_gt(breaks, unsure);
}
END_TEST

/* What is to be seen to before the next call can go on does not end it either. */
START_TEST(value_is_what_it_was_when_the_store_is_another)
{
	static const size_t some[] = {100, 5000, LARGEST};

	for (unsigned i = 0; i < 3; i++) {
		struct farkv_value v = returned(some[i]);

		ck_assert_int_eq(real_server_end(&srv, SIGTERM), 0);
		real_server_start(&srv, args);
		FAILS(FARKV_EDISCONNECTED, farkv_put(kv, "alone", 5, v.data, v.len));
		return_many(4, some[i]);
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

static void add_calls(TCase *t)
{
	tcase_set_timeout(t, 120);
	tcase_add_test(t, value_that_was_got_is_put_as_it_was);
	tcase_add_test(t, value_that_was_got_is_a_key);
	tcase_add_test(t, values_of_a_batch_are_put_as_they_were);
	tcase_add_test(t, parts_of_a_batch_are_put_as_they_were);
	tcase_add_test(t, values_of_a_batch_are_keys);
	tcase_add_test(t, values_of_a_batch_are_keys_and_values);
	tcase_add_test(t, values_of_a_poll_are_put_as_they_were);
	tcase_add_test(t, values_of_a_poll_are_keys_and_values);
	tcase_add_test(t, value_is_what_it_was_when_the_store_is_another);
}

static void add_breaks(TCase *t)
{
	tcase_add_test(t, value_of_a_get_outlives_the_connection);
	tcase_add_test(t, values_of_a_batch_outlive_the_connection);
	tcase_add_test(t, values_of_a_poll_outlive_the_connection);
}

static Suite *suite(void)
{
	Suite *s = suite_create("returned values");
	TCase *plain = tcase_create("plain"), *mapped = tcase_create("mapped");
	TCase *hidden = tcase_create("hidden");

	real_server_require();
	tcase_add_checked_fixture(plain, setup, teardown);
	add_calls(plain);
	suite_add_tcase(s, plain);
	tcase_add_checked_fixture(mapped, setup_mapped, teardown);
	add_calls(mapped);
	add_breaks(mapped);
	tcase_add_checked_fixture(hidden, setup_hidden, teardown);
	add_calls(hidden);
	add_breaks(hidden);
	tcase_add_test(hidden, keys_of_a_batch_outlive_the_connection);
	if (!real_server_is_remote()) {
		suite_add_tcase(s, mapped);
		suite_add_tcase(s, hidden);
	}
	return s;
}

TEST_MAIN(suite())
