/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

/* Only what <farkv.h> declares leaves the library. */
#pragma GCC visibility push(default)
#include <farkv.h>
#pragma GCC visibility pop

void farkv_options_init(struct farkv_options *o)
{
	(void)o;
}

int farkv_open(const char *uri, const struct farkv_options *opts,
	       struct farkv **kv_out)
{
	(void)uri;
	(void)opts;
	(void)kv_out;
	return FARKV_ENOTSUP;
}

void farkv_close(struct farkv *kv)
{
	(void)kv;
}

int farkv_get(struct farkv *kv, const void *key, size_t key_len,
	      struct farkv_value *value_out)
{
	(void)kv;
	(void)key;
	(void)key_len;
	(void)value_out;
	return FARKV_ENOTSUP;
}

int farkv_get_into(struct farkv *kv, const void *key, size_t key_len, void *buf,
		   size_t cap, size_t *len_out,
		   uint64_t *version_out)
{
	(void)kv;
	(void)key;
	(void)key_len;
	(void)buf;
	(void)cap;
	(void)len_out;
	(void)version_out;
	return FARKV_ENOTSUP;
}

int farkv_put(struct farkv *kv, const void *key, size_t key_len,
	      const void *value, size_t value_len)
{
	(void)kv;
	(void)key;
	(void)key_len;
	(void)value;
	(void)value_len;
	return FARKV_ENOTSUP;
}

int farkv_add(struct farkv *kv, const void *key, size_t key_len,
	      const void *value, size_t value_len)
{
	(void)kv;
	(void)key;
	(void)key_len;
	(void)value;
	(void)value_len;
	return FARKV_ENOTSUP;
}

int farkv_replace(struct farkv *kv, const void *key, size_t key_len,
		  const void *value, size_t value_len)
{
	(void)kv;
	(void)key;
	(void)key_len;
	(void)value;
	(void)value_len;
	return FARKV_ENOTSUP;
}

int farkv_cas(struct farkv *kv, const void *key, size_t key_len,
	      const void *value, size_t value_len, uint64_t expected,
	      uint64_t *version_out)
{
	(void)kv;
	(void)key;
	(void)key_len;
	(void)value;
	(void)value_len;
	(void)expected;
	(void)version_out;
	return FARKV_ENOTSUP;
}

int farkv_delete(struct farkv *kv, const void *key,
		 size_t key_len)
{
	(void)kv;
	(void)key;
	(void)key_len;
	return FARKV_ENOTSUP;
}

int farkv_mget(struct farkv *kv, struct farkv_get_item *items,
	       size_t n)
{
	(void)kv;
	(void)items;
	(void)n;
	return FARKV_ENOTSUP;
}

int farkv_mput(struct farkv *kv, struct farkv_put_item *items,
	       size_t n)
{
	(void)kv;
	(void)items;
	(void)n;
	return FARKV_ENOTSUP;
}

int farkv_ping(struct farkv *kv, uint64_t *rtt_ns_out)
{
	(void)kv;
	(void)rtt_ns_out;
	return FARKV_ENOTSUP;
}

int farkv_stats(struct farkv *kv, struct farkv_stats *stats)
{
	(void)kv;
	(void)stats;
	return FARKV_ENOTSUP;
}

int farkv_counters(const struct farkv *kv,
		   struct farkv_counters *c)
{
	(void)kv;
	(void)c;
	return FARKV_ENOTSUP;
}

const char *farkv_strerror(int err)
{
	(void)err;
	return "";
}

const char *farkv_errdetail(void)
{
	return "";
}

const char *farkv_version(void)
{
	return "";
}
