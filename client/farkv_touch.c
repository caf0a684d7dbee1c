/* SPDX-License-Identifier: BSD-3-Clause */
/* The public functions that give a value another time to live. */
#include "config.h"

#include "public.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"

#include "handle.h"

/* True if a value with this time left (0: never expires) need not be written again. */
static bool is_near(uint64_t left_ms, uint64_t ttl_ms)
{
	if (left_ms == 0 || ttl_ms == 0)
		return left_ms == ttl_ms;
	return left_ms <= ttl_ms && left_ms >= ttl_ms - ttl_ms / 8;
}

/* Write the value that a get has just returned under its version. */
static int rewrite(struct farkv *kv, const void *key, size_t key_len,
		   const struct farkv_write_options *options, struct farkv_value *v)
{
	struct farkv_request req = {.kind = FARKV_REQUEST_CAS, .key = key, .key_len = key_len,
				    .value = v->data, .value_len = v->len,
				    .expected = v->version, .options = options};
	int err = farkv_write(kv, &req, &v->version);

	if (!err)
		v->ttl_ms = options->ttl_ms;
	return err;
}

static int touch_key(struct farkv *kv, const void *key, size_t key_len, uint64_t ttl_ms,
		     struct farkv_value *value_out)
{
	struct farkv_write_options o = {.size = sizeof(o), .ttl_ms = ttl_ms};
	uint64_t end_ns = 0;
	struct farkv_value v;
	int err = handle_write_options(&o);

	if (err)
		return err;
	for (;;) {
		err = farkv_get(kv, key, key_len, &v);
		if (err)
			return err;
		o.user = v.user;
		if (!is_near(v.ttl_ms, ttl_ms))
			err = rewrite(kv, key, key_len, &o, &v);
		if (!err)
			*value_out = v;
		if (err != FARKV_EVERSION)
			return err;
		if (!end_ns)
			end_ns = clock_now_ns() + kv->op_timeout_ns;
		else if (clock_now_ns() > end_ns)
			return err_set(FARKV_ETIMEDOUT,
				       "others wrote the value all the time");
	}
}

/*
 * Makes several calls, so the key is copied: a key that an earlier call returned is valid for one
 * call only.
 */
static int touch(struct farkv *kv, const void *key, size_t key_len, uint64_t ttl_ms,
		 struct farkv_value *value_out)
{
	uint8_t small[256], *copy = small;
	int err;

	if (!key || key_len > FARKV_KEY_MAX) /* farkv_get() refuses it */
		return touch_key(kv, key, key_len, ttl_ms, value_out);
	if (key_len > sizeof(small))
		copy = malloc(key_len);
	if (!copy)
		return err_set(FARKV_ENOMEM, "no memory for a key of %zu bytes", key_len);
	memcpy(copy, key, key_len);
	err = touch_key(kv, copy, key_len, ttl_ms, value_out);
	if (copy != small)
		free(copy);
	return err;
}

int farkv_get_touch(struct farkv *kv, const void *key, size_t key_len, uint64_t ttl_ms,
		    struct farkv_value *value_out)
{
	if (!value_out)
		return err_set(FARKV_EINVAL, "farkv_get_touch: value_out is NULL");
	return touch(kv, key, key_len, ttl_ms, value_out);
}

int farkv_touch(struct farkv *kv, const void *key, size_t key_len, uint64_t ttl_ms)
{
	struct farkv_value v;

	return touch(kv, key, key_len, ttl_ms, &v);
}
