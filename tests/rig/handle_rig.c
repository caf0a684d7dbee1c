/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "handle_rig.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "client/session_state.h"
#include "common/base/clock.h"
#include "common/region/hash.h"
#include "marks.h"

struct fake_server srv;
struct farkv *kv;

struct farkv *open_handle(void)
{
	struct farkv *h = NULL;
	struct farkv_options o;
	int err;

	farkv_options_init(&o);
	o.connect_timeout_ms = o.op_timeout_ms = LONG_MS;
	err = farkv_open(srv.path, &o, &h);
	ck_assert_msg(err == 0, "%s", farkv_errdetail());
	return h;
}

static void begin(uint64_t grace_ns)
{
	fake_server_init(&srv, F_SEAL_SHRINK | F_SEAL_GROW);
	if (grace_ns) {
		srv.sb.grace_ns = grace_ns;
		fake_server_superblock(&srv, true);
	}
	fake_server_start(&srv);
	kv = open_handle();
}

void setup(void)
{
	begin(0);
}

void setup_long_grace(void)
{
	begin(2 * LONG_MS * NS_PER_MS);
}

void teardown(void)
{
	conn_wrap_lane = NULL;
	farkv_close(kv);
	fake_server_fini(&srv);
}

void set_timeout_ms(unsigned ms)
{
	kv->op_timeout_ns = ms * NS_PER_MS;
}

int put(const char *key, const char *value)
{
	return farkv_put(kv, key, strlen(key), value, strlen(value));
}

int get(const char *key, char out[64])
{
	struct farkv_value v;
	int err = farkv_get(kv, key, strlen(key), &v);

	if (!err)
		snprintf(out, 64, "%.*s", (int)v.len, (const char *)v.data);
	return err;
}

int del(const char *key)
{
	return farkv_delete(kv, key, strlen(key));
}

int put_as_request(const char *key, const char *value)
{
	struct farkv_request r = {.kind = FARKV_REQUEST_PUT,
				  .key = key,
				  .key_len = strlen(key),
				  .value = value,
				  .value_len = strlen(value)};
	struct farkv_completion c = {0};

	ck_assert_int_eq(farkv_submit(kv, &r, 1), 1);
	ck_assert_int_eq(farkv_wait(kv, &c, 1, LONG_MS), 1);
	return c.result;
}

int put_as_batch(const char *key, const char *value)
{
	struct farkv_put_item item = {.key = key,
				      .key_len = strlen(key),
				      .value = value,
				      .value_len = strlen(value)};

	return farkv_mput(kv, &item, 1);
}

void assert_value(const char *key, const char *value)
{
	char out[64];

	ck_assert_int_eq(get(key, out), 0);
	ck_assert_str_eq(out, value);
}

void close_at_leisure(void)
{
	kv->farewell_ns = LONG_MS * NS_PER_MS;
	farkv_close(kv);
}

void wait_broken(void)
{
	uint64_t end = clock_now_ns() + LONG_MS * NS_PER_MS;

	while (!(qsbr_pending(kv->qsbr) & PENDING_BROKEN)) {
		ck_assert_uint_lt(clock_now_ns(), end);
		clock_sleep_ns(NS_PER_MS / 10);
	}
}

void heard_by_server(void)
{
	struct msg m = {.type = MSG_PING}, answer;

	ck_assert_int_eq(session_call(kv->conn.session, &m, MSG_PONG, &answer,
				      clock_now_ns() + LONG_MS * NS_PER_MS),
			 0);
}

void assert_detail(const char *says)
{
	ck_assert_msg(strstr(farkv_errdetail(), says) != NULL,
		      "'%s' lacks '%s'", farkv_errdetail(), says);
}

void no_grant_out(void)
{
	while (session_grants_out(kv->conn.session) > 0)
		ck_assert_int_eq(farkv_ping(kv, NULL), 0);
	ck_assert_int_eq(farkv_ping(kv, NULL), 0); /* takes it from the inbox */
}

void crowded_key(char *key)
{
	static unsigned long i;

	do
		snprintf(key, 16, "%lu", i++);
	while (hash_home_line(hash_key(srv.sb.hash_seed, key, strlen(key))));
}
