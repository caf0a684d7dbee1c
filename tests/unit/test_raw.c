/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare requests (client/raw.h) beside users of the store: they are executed, no value
 * changes, and the blocks go back at the end and when others lack memory.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/conn.h"
#include "client/raw.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"
#include "tests/rig/step_lane.h"

#define VALUE_BYTES 1000u
#define KEYS_MAX 20000u

static struct real_server srv;
static struct farkv *kv;
static struct raw *raw;
static struct step_lane *lane; /* of the session under a fault */

static void setup(void)
{
	static const char *const args[] = {"-m", "8m", NULL};

	real_server_init(&srv, args);
	kv = e2e_open(srv.path, 10000);
}

static void teardown(void)
{
	farkv_close(kv);
	real_server_fini(&srv);
}

static void open_raw_for(uint64_t timeout_ns)
{
	struct raw_spec spec = {
		.uri = srv.path,
		.name = "raw",
		.key_len = 8,
		.value_len = VALUE_BYTES,
		.timeout_ns = timeout_ns,
	};

	ck_assert_msg(raw_open(&spec, &raw) == 0, "%s", err_detail());
}

static void open_raw(void)
{
	open_raw_for(5 * NS_PER_SEC);
}

static uint64_t blocks_held(void)
{
	struct farkv_stats st = {.size = sizeof(st)};

	OK(farkv_stats(kv, &st));
	return st.blocks_held;
}

static size_t make_value(unsigned i, char *value)
{
	memset(value, 'a' + (int)(i % 26), VALUE_BYTES);
	memcpy(value, &i, sizeof(i));
	return VALUE_BYTES;
}

static int put(unsigned i)
{
	char value[VALUE_BYTES];

	make_value(i, value);
	return farkv_put(kv, &i, sizeof(i), value, sizeof(value));
}

static void check_value(unsigned i)
{
	char value[VALUE_BYTES];
	struct farkv_value v;

	make_value(i, value);
	OK(farkv_get(kv, &i, sizeof(i), &v));
	ck_assert_uint_eq(v.len, VALUE_BYTES);
	ck_assert_mem_eq(v.data, value, VALUE_BYTES);
}

static const enum raw_kind kinds[] = {RAW_READ, RAW_WRITE, RAW_CAS, RAW_PUT,
				      RAW_CHASE};

static void all_kinds(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		ck_assert_msg(raw_run(raw, kinds[i], real_server_is_remote() ? 100 : 1000) == 0,
			      "%s", err_detail());
		if (kinds[i] == RAW_CHASE)
			continue;
		for (size_t n = 1; n <= RAW_BATCH; n++)
			ck_assert_msg(raw_together(raw, kinds[i], n) == 0,
				      "%s", err_detail());
	}
}

TEST_GROUP(.setup = setup, .teardown = teardown, .timeout_s = 120);

TEST(requests_are_carried_out_and_blocks_go_back)
{
	ck_assert_uint_eq(blocks_held(), 0);
	open_raw();
	all_kinds();
	ck_assert_uint_ge(blocks_held(), 2);
	raw_close(raw);
	ck_assert_uint_eq(blocks_held(), 0);
}

TEST(requests_change_no_value)
{
	for (unsigned i = 0; i < 1000; i++)
		OK(put(i));
	open_raw();
	for (unsigned round = 0; round < 3; round++) {
		all_kinds();
		for (unsigned i = 0; i < 1000; i++) {
			check_value(i);
			OK(put(i));
		}
	}
	raw_close(raw);
	for (unsigned i = 0; i < 1000; i++)
		check_value(i);
}

/* The server asks for them back, and later others write to them. */
TEST(returned_blocks_are_not_used)
{
	unsigned n = 0;
	int err = 0;

	open_raw();
	all_kinds();
	while (n < KEYS_MAX && !(err = put(n)))
		n++;
	ck_assert_msg(err == FARKV_ENOSPC, "%u puts: %s", n,
		      farkv_strerror(err));
	err = raw_run(raw, RAW_PUT, 2000);
	ck_assert_msg(err == 0 || err == FARKV_ENOSPC, "%s", err_detail());
	for (unsigned i = 0; i < n; i++)
		check_value(i);
	raw_close(raw);
}

static struct xport_lane *wrap(struct xport_lane *inner)
{
	lane = step_lane_open_card(inner);
	return lane ? &lane->lane : NULL;
}

static void open_raw_on_card(void)
{
	conn_wrap_lane = wrap;
	open_raw_for(NS_PER_SEC);
	conn_wrap_lane = NULL;
}

TEST_GROUP(.setup = setup, .teardown = teardown, .timeout_s = 120, .skip = real_server_is_remote);

TEST(request_without_an_end_times_out)
{
	open_raw_on_card();
	lane->over = 0;
	ck_assert_int_eq(raw_run(raw, RAW_READ, 1), FARKV_ETIMEDOUT);
	ck_assert_int_eq(raw_run(raw, RAW_READ, 1), FARKV_EDISCONNECTED);
	raw_close(raw);
}

TEST(broken_lane_reports_its_reason)
{
	open_raw_on_card();
	lane->over = 1;
	lane->last_word = "the card has caught fire";
	ck_assert_int_eq(raw_together(raw, RAW_PUT, 2), FARKV_EDISCONNECTED);
	ck_assert_msg(strstr(err_detail(), lane->last_word), "%s",
		      err_detail());
	raw_close(raw);
}

TEST_SUITE("raw", real_server_require())
