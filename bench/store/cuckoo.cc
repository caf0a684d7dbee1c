/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "cuckoo.h"

#include <cstring>
#include <memory>
#include <new>

#include <libcuckoo/cuckoohash_map.hh>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace
{

template <size_t Cap> struct key_inline {
	uint8_t len;
	char at[Cap];

	key_inline(const char *key, size_t n) : len(static_cast<uint8_t>(n))
	{
		std::memcpy(at, key, n);
	}
	bool operator==(const key_inline &o) const
	{
		return len == o.len && std::memcmp(at, o.at, len) == 0;
	}
};

struct key_hash {
	template <size_t Cap> size_t operator()(const key_inline<Cap> &k) const
	{
		return static_cast<size_t>(XXH3_64bits(k.at, k.len));
	}
};

template <size_t Cap> struct value_inline {
	uint32_t len;
	char at[Cap];

	value_inline(const void *v, size_t n)
	{
		set(v, n);
	}
	void set(const void *v, size_t n)
	{
		len = static_cast<uint32_t>(n);
		std::memcpy(at, v, n);
	}
	const char *data() const
	{
		return at;
	}
};

struct value_apart {
	size_t len;
	std::unique_ptr<char[]> at;

	value_apart(const void *v, size_t n) : len(0)
	{
		set(v, n);
	}
	void set(const void *v, size_t n)
	{
		if (!at || n > len)
			at.reset(new char[n ? n : 1]);
		len = n;
		std::memcpy(at.get(), v, n);
	}
	const char *data() const
	{
		return at.get();
	}
};

} // namespace

struct cuckoo {
	virtual ~cuckoo()
	{
	}
	virtual int64_t get(const char *key, size_t key_len, void *buf) = 0;
	virtual void put(const char *key, size_t key_len, const void *value,
			 size_t value_len) = 0;
	virtual bool remove(const char *key, size_t key_len) = 0;
};

namespace
{

template <class Key, class Value> struct table : cuckoo {
	libcuckoo::cuckoohash_map<Key, Value, key_hash> map;

	explicit table(uint64_t records) : map(static_cast<size_t>(records))
	{
	}
	int64_t get(const char *key, size_t key_len, void *buf) override
	{
		int64_t n = -1;

		map.find_fn(Key(key, key_len), [&](const Value &v) {
			n = static_cast<int64_t>(v.len);
			std::memcpy(buf, v.data(), v.len);
		});
		return n;
	}
	void put(const char *key, size_t key_len, const void *value,
		 size_t value_len) override
	{
		map.upsert(Key(key, key_len),
			   [&](Value &v) { v.set(value, value_len); }, value,
			   value_len);
	}
	bool remove(const char *key, size_t key_len) override
	{
		return map.erase(Key(key, key_len));
	}
};

template <class Key> cuckoo *table_new(uint64_t records, size_t value_len)
{
	if (value_len <= 108)
		return new table<Key, value_inline<108>>(records);
	return new table<Key, value_apart>(records);
}

} // namespace

struct cuckoo *cuckoo_new(uint64_t records, size_t key_len, size_t value_len)
{
	try {
		if (key_len <= 23)
			return table_new<key_inline<23>>(records, value_len);
		return table_new<key_inline<255>>(records, value_len);
	} catch (const std::exception &) {
		return nullptr;
	}
}

void cuckoo_free(struct cuckoo *c)
{
	delete c;
}

int64_t cuckoo_get(struct cuckoo *c, const char *key, size_t key_len, void *buf)
{
	return c->get(key, key_len, buf);
}

int cuckoo_put(struct cuckoo *c, const char *key, size_t key_len,
	       const void *value, size_t value_len)
{
	try {
		c->put(key, key_len, value, value_len);
		return 0;
	} catch (const std::exception &) {
		return -1;
	}
}

int cuckoo_remove(struct cuckoo *c, const char *key, size_t key_len)
{
	return c->remove(key, key_len) ? 0 : -1;
}
