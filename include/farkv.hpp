// SPDX-License-Identifier: BSD-3-Clause
/**
 * farkv.hpp - libfarkv for C++17: RAII, views, exceptions. Only this header; link with -lfarkv.
 *
 * farkv.h has the contract of each operation: effect, threads, ordering, cost. This header adds
 * ownership and types, no memory on the path of a get or put, and no system call.
 *
 * Errors: what a program expects of an operation is its result: get() returns an empty optional
 * for a key without a value; add(), replace(), cas() and erase() return whether they were done. Any
 * other error is thrown as farkvpp::error, with the number of farkv.h and its line. No function of
 * this header is called by C, so no exception passes through C.
 *
 * Threads: a store belongs to one thread at a time; give every thread its own.
 *
 * The namespace is farkvpp because C has a struct farkv.
 */
#ifndef FARKV_HPP
#define FARKV_HPP

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <farkv.h>

namespace farkvpp {

/** An error of libfarkv; what() is its line: what was wrong, where, what to do. */
class error : public std::runtime_error {
public:
	error(int code, const char *detail) : std::runtime_error(detail), code_(code) {}

	/** A number of enum farkv_error. */
	int code() const noexcept { return code_; }

private:
	int code_;
};

/** FARKV_ETOOSMALL: the buffer cannot hold the value. */
class too_small : public error {
public:
	too_small(std::size_t needed, const char *detail)
		: error(FARKV_ETOOSMALL, detail), needed_(needed) {}

	/** The value's length in bytes. */
	std::size_t needed() const noexcept { return needed_; }

private:
	std::size_t needed_;
};

namespace detail {

inline void check(int err)
{
	if (err != FARKV_OK)
		throw error(err, farkv_errdetail());
}

/** True if it was done, false if it ended with `expected`. */
inline bool done_unless(int expected, int err)
{
	if (err == expected)
		return false;
	check(err);
	return true;
}

/** Containers of contiguous bytes: std::string, std::vector<std::byte>, std::span<char>... */
template <typename C>
using element = std::remove_pointer_t<decltype(std::declval<C &>().data())>;
template <typename C>
using if_bytes = std::enable_if_t<sizeof(element<C>) == 1 &&
				  std::is_trivially_copyable_v<element<C>> &&
				  sizeof(std::declval<C &>().size()) != 0>;
template <typename C>
using if_writable = std::enable_if_t<!std::is_const_v<element<C>>>;

} // namespace detail

/** Bytes of someone else's, to read: a key or a value. Text has no 0 at its end. */
class bytes_view {
public:
	constexpr bytes_view() noexcept = default;
	constexpr bytes_view(const void *data, std::size_t size) noexcept
		: data_(data), size_(size) {}
	constexpr bytes_view(const char *text) noexcept
		: bytes_view(text, std::string_view(text).size()) {}
	template <typename C, typename = detail::if_bytes<const C>>
	constexpr bytes_view(const C &c) noexcept : data_(c.data()), size_(c.size()) {}

	const std::byte *data() const noexcept { return static_cast<const std::byte *>(data_); }
	constexpr std::size_t size() const noexcept { return size_; }
	constexpr bool empty() const noexcept { return size_ == 0; }
	const std::byte *begin() const noexcept { return data(); }
	const std::byte *end() const noexcept { return data() + size_; }

	/** The same bytes as text, and a copy of them. */
	std::string_view text() const noexcept
	{
		return {static_cast<const char *>(data_), size_};
	}
	std::string str() const { return std::string(text()); }

private:
	const void *data_ = "";
	std::size_t size_ = 0;
};

/** Bytes of someone else's, to write to. */
class bytes_span {
public:
	constexpr bytes_span(void *data, std::size_t size) noexcept : data_(data), size_(size) {}
	template <typename C, typename = detail::if_bytes<C>, typename = detail::if_writable<C>>
	constexpr bytes_span(C &&c) noexcept : data_(c.data()), size_(c.size()) {}

	std::byte *data() const noexcept { return static_cast<std::byte *>(data_); }
	constexpr std::size_t size() const noexcept { return size_; }
	std::byte *begin() const noexcept { return data(); }
	std::byte *end() const noexcept { return data() + size_; }
	operator bytes_view() const noexcept { return {data_, size_}; }

private:
	void *data_;
	std::size_t size_;
};

/** How to open a store: farkv.h's fields, with the defaults. */
struct options : ::farkv_options {
	options() noexcept { farkv_options_init_sized(this, sizeof(::farkv_options)); }
};

/** How to write a value: kv.put(key, data, {30min, 7}). */
struct write_options {
	/** The value expires after this time; 0: never. */
	std::chrono::milliseconds ttl{};
	/** Any number, for the caller: comes back with the value. */
	std::uint32_t user = 0;

	/** The same for a farkv_request. */
	operator ::farkv_write_options() const noexcept
	{
		return {sizeof(::farkv_write_options), static_cast<std::uint64_t>(ttl.count()), user, 0};
	}
};

/** A value in memory of the store: valid until the end of the next call on it. */
struct value {
	bytes_view data;
	std::uint64_t version = 0;
	/** Time until it expires, at least 1 ms; 0: it never does. */
	std::chrono::milliseconds ttl{};
	/** The number that it was written with, or 0. */
	std::uint32_t user = 0;
};

/** What get_into() has written. */
struct value_info {
	std::size_t size;
	std::uint64_t version;
};

/** A key and the value that mput() stores. */
struct item {
	bytes_view key;
	bytes_view value;
};

/** A key, and where mget_into() writes its value. */
struct into_item {
	bytes_view key;
	bytes_span buf;
};

/** One key of a scan; valid until the next scan or clear of the store. */
struct scan_item {
	bytes_view key;
	std::size_t value_size;
	std::uint64_t version;
};

/** One session with a store. Moving leaves a store that only can be assigned or destroyed. */
class store {
public:
	/** farkv_open(). nullptr: $FARKV_URI, or the default socket. */
	explicit store(const char *uri = nullptr, const options &opts = options())
	{
		detail::check(farkv_open(uri, &opts, &kv_));
	}
	explicit store(const std::string &uri, const options &opts = options())
		: store(uri.c_str(), opts) {}
	~store() { farkv_close(kv_); }
	store(store &&other) noexcept : kv_(std::exchange(other.kv_, nullptr)) {}
	store &operator=(store &&other) noexcept
	{
		std::swap(kv_, other.kv_);
		return *this;
	}

	/** The handle, for functions of farkv.h; it stays the store's. */
	::farkv *handle() const noexcept { return kv_; }

	std::optional<value> get(bytes_view key)
	{
		::farkv_value v;

		if (!detail::done_unless(FARKV_ENOTFOUND,
					 farkv_get(kv_, key.data(), key.size(), &v)))
			return std::nullopt;
		return value_of(v);
	}

	/** farkv_get_touch(): the value, with its new version and `ttl`; 0: it never expires. */
	std::optional<value> get_touch(bytes_view key, std::chrono::milliseconds ttl)
	{
		::farkv_value v;

		if (!detail::done_unless(FARKV_ENOTFOUND,
					 farkv_get_touch(kv_, key.data(), key.size(),
							 static_cast<std::uint64_t>(ttl.count()), &v)))
			return std::nullopt;
		return value_of(v);
	}

	/** farkv_get_into(). Throws too_small if `buf` cannot hold the value. */
	std::optional<value_info> get_into(bytes_view key, bytes_span buf)
	{
		value_info info{};
		const int err = farkv_get_into(kv_, key.data(), key.size(), buf.data(), buf.size(),
					       &info.size, &info.version);

		if (err == FARKV_ETOOSMALL)
			throw too_small(info.size, farkv_errdetail());
		if (!detail::done_unless(FARKV_ENOTFOUND, err))
			return std::nullopt;
		return info;
	}

	bool exists(bytes_view key)
	{
		return detail::done_unless(FARKV_ENOTFOUND,
					   farkv_exists(kv_, key.data(), key.size()));
	}

	/** farkv_mexists(): for each key whether it has a value. */
	std::vector<bool> mexists(const std::vector<bytes_view> &keys)
	{
		std::vector<std::uint8_t> bitmap((keys.size() + 7) / 8);
		std::vector<bool> found(keys.size());
		const auto c_keys = c_keys_of(keys);

		detail::check(farkv_mexists(kv_, c_keys.data(), keys.size(), bitmap.data(), nullptr));
		for (std::size_t i = 0; i < keys.size(); i++)
			found[i] = (bitmap[i / 8] >> (i % 8)) & 1;
		return found;
	}

	/** farkv_mexists(): how many keys have a value, from the first on. */
	std::size_t prefix(const std::vector<bytes_view> &keys)
	{
		const auto c_keys = c_keys_of(keys);
		std::size_t n = 0;

		detail::check(farkv_mexists(kv_, c_keys.data(), keys.size(), nullptr, &n));
		return n;
	}

	/** farkv_put(), or farkv_write() if there are options. */
	void put(bytes_view key, bytes_view data, const write_options &opts = {})
	{
		detail::check(write(farkv_put, FARKV_REQUEST_PUT, key, data, opts));
	}

	/** False if the key already has a value. */
	bool add(bytes_view key, bytes_view data, const write_options &opts = {})
	{
		return detail::done_unless(FARKV_EEXISTS,
					   write(farkv_add, FARKV_REQUEST_ADD, key, data, opts));
	}

	/** False if the key has no value. */
	bool replace(bytes_view key, bytes_view data, const write_options &opts = {})
	{
		return detail::done_unless(FARKV_ENOTFOUND,
			write(farkv_replace, FARKV_REQUEST_REPLACE, key, data, opts));
	}

	/** The new version; empty if the value has another one than `expected`, or there is none. */
	std::optional<std::uint64_t> cas(bytes_view key, bytes_view data, std::uint64_t expected,
					 const write_options &opts = {})
	{
		const ::farkv_write_options options = opts;
		::farkv_request req = request(FARKV_REQUEST_CAS, key, data, options);
		std::uint64_t version = 0;

		req.expected = expected;
		const int err = farkv_write(kv_, &req, &version);

		if (err == FARKV_EVERSION || err == FARKV_ENOTFOUND)
			return std::nullopt;
		detail::check(err);
		return version;
	}

	/** farkv_touch(): a new time to live, 0: for ever. False if the key has no value. */
	bool touch(bytes_view key, std::chrono::milliseconds ttl)
	{
		return detail::done_unless(FARKV_ENOTFOUND,
			farkv_touch(kv_, key.data(), key.size(),
				    static_cast<std::uint64_t>(ttl.count())));
	}

	/** farkv_delete(). False if the key had no value. */
	bool erase(bytes_view key)
	{
		return detail::done_unless(FARKV_ENOTFOUND,
					   farkv_delete(kv_, key.data(), key.size()));
	}

	/** False if the value has another version than `expected`, or there is none. */
	bool erase(bytes_view key, std::uint64_t expected)
	{
		const int err = farkv_delete_cas(kv_, key.data(), key.size(), expected);

		return err != FARKV_EVERSION && detail::done_unless(FARKV_ENOTFOUND, err);
	}

	/**
	 * farkv_incr(): the new number; a key without a value gets `initial`, if there is one, which
	 * expires after `ttl`, 0: never.
	 */
	std::uint64_t incr(bytes_view key, std::uint64_t delta = 1,
			   std::optional<std::uint64_t> initial = std::nullopt,
			   std::chrono::milliseconds ttl = {})
	{
		return count(farkv_incr, key, delta, initial, ttl);
	}
	std::uint64_t decr(bytes_view key, std::uint64_t delta = 1,
			   std::optional<std::uint64_t> initial = std::nullopt,
			   std::chrono::milliseconds ttl = {})
	{
		return count(farkv_decr, key, delta, initial, ttl);
	}

	/** False if the key has no value. */
	bool append(bytes_view key, bytes_view data)
	{
		return detail::done_unless(FARKV_ENOTFOUND,
			farkv_append(kv_, key.data(), key.size(), data.data(), data.size()));
	}
	bool prepend(bytes_view key, bytes_view data)
	{
		return detail::done_unless(FARKV_ENOTFOUND,
			farkv_prepend(kv_, key.data(), key.size(), data.data(), data.size()));
	}

	/** farkv_mget(): values in the order of the keys; an item's other error is thrown. */
	std::vector<std::optional<value>> mget(const std::vector<bytes_view> &keys)
	{
		std::vector<::farkv_get_item> items(keys.size());
		std::vector<std::optional<value>> values(keys.size());

		for (std::size_t i = 0; i < keys.size(); i++) {
			items[i].key = keys[i].data();
			items[i].key_len = keys[i].size();
		}
		detail::check(farkv_mget(kv_, items.data(), items.size()));
		for (std::size_t i = 0; i < items.size(); i++)
			if (items[i].result == FARKV_OK)
				values[i] = value_of(items[i].value);
		return values;
	}

	/**
	 * farkv_mget_into(): empty for a key without a value; with a size greater than the buffer's
	 * nothing was written.
	 */
	std::vector<std::optional<value_info>> mget_into(const std::vector<into_item> &items)
	{
		std::vector<::farkv_get_into_item> c_items(items.size());
		std::vector<std::optional<value_info>> infos(items.size());

		for (std::size_t i = 0; i < items.size(); i++) {
			c_items[i].key = items[i].key.data();
			c_items[i].key_len = items[i].key.size();
			c_items[i].buf = items[i].buf.data();
			c_items[i].cap = items[i].buf.size();
		}
		const int err = farkv_mget_into(kv_, c_items.data(), c_items.size());

		if (err != FARKV_ETOOSMALL)
			detail::check(err);
		for (std::size_t i = 0; i < items.size(); i++)
			infos[i] = into_result(c_items[i]);
		return infos;
	}

	/** farkv_borrow(): the value where it lies; empty for a key without a value. */
	std::optional<::farkv_view> borrow(bytes_view key)
	{
		::farkv_view view;

		if (!detail::done_unless(FARKV_ENOTFOUND,
					 farkv_borrow(kv_, key.data(), key.size(), &view)))
			return std::nullopt;
		return view;
	}

	/** farkv_borrow_check(): false if what was read of the view must not be used. */
	bool borrow_check(const ::farkv_view &view)
	{
		return detail::done_unless(FARKV_ESTALE, farkv_borrow_check(kv_, &view));
	}

	/** farkv_mput(). If it throws, some items may be stored. */
	void mput(const std::vector<item> &items)
	{
		std::vector<::farkv_put_item> c_items(items.size());

		for (std::size_t i = 0; i < items.size(); i++) {
			c_items[i].key = items[i].key.data();
			c_items[i].key_len = items[i].key.size();
			c_items[i].value = items[i].value.data();
			c_items[i].value_len = items[i].value.size();
		}
		detail::check(farkv_mput(kv_, c_items.data(), c_items.size()));
	}

	/**
	 * farkv_scan(): call f(scan_item) for each key. `f` may use the store, but not scan or clear
	 * it; what it throws ends the scan.
	 */
	template <typename F>
	void scan(F &&f)
	{
		std::uint64_t cursor = 0;

		do {
			const ::farkv_scan_item *items = nullptr;
			std::size_t n = 0;

			detail::check(farkv_scan(kv_, &cursor, SIZE_MAX, &items, &n));
			for (std::size_t i = 0; i < n; i++)
				f(scan_item{{items[i].key, items[i].key_len},
					    items[i].value_len, items[i].version});
		} while (cursor != 0);
	}

	/** farkv_clear(): the number of values removed. */
	std::uint64_t clear()
	{
		std::uint64_t n = 0;

		detail::check(farkv_clear(kv_, &n));
		return n;
	}

	/** The round-trip time in nanoseconds. */
	std::uint64_t ping()
	{
		std::uint64_t rtt_ns = 0;

		detail::check(farkv_ping(kv_, &rtt_ns));
		return rtt_ns;
	}

	/** farkv_wait_followers(): the followers have all that this store has written. */
	void wait_followers(std::uint32_t timeout_ms) { detail::check(farkv_wait_followers(kv_, timeout_ms)); }

	struct ::farkv_stats stats() { return filled<struct ::farkv_stats>(::farkv_stats); }
	struct ::farkv_fsck fsck() { return filled<struct ::farkv_fsck>(::farkv_fsck); }

	/** All sessions of the store. */
	std::vector<struct ::farkv_client> clients()
	{
		std::vector<struct ::farkv_client> all;
		struct ::farkv_client c = {};
		int err;

		c.size = sizeof(c);
		while ((err = farkv_client_next(kv_, &c)) == 0)
			all.push_back(c);
		detail::done_unless(FARKV_ENOTFOUND, err);
		return all;
	}

	/** End another session; false if there is no other of that number. */
	bool kill(std::uint64_t session)
	{
		return detail::done_unless(FARKV_ENOTFOUND, farkv_kill(kv_, session));
	}

	struct ::farkv_counters counters() const { return filled<struct ::farkv_counters>(::farkv_counters); }

	/** farkv_latency() of a store that was opened with FARKV_OPEN_LATENCY. */
	struct ::farkv_latency latency(::farkv_latency_kind kind) const
	{
		return filled<struct ::farkv_latency>([kind](const ::farkv *kv, struct ::farkv_latency *l) {
			return ::farkv_latency(kv, kind, l);
		});
	}

	/** farkv_server(): server `i` of the store, or none. */
	std::optional<struct ::farkv_server> server(std::size_t i) const
	{
		struct ::farkv_server s = {};
		int err;

		s.size = sizeof(s);
		err = ::farkv_server(kv_, i, &s);
		if (err == FARKV_ENOTFOUND)
			return std::nullopt;
		detail::check(err);
		return s;
	}

	/** farkv_submit(): how many were accepted; 0 if the queue is full. */
	std::size_t submit(const ::farkv_request *reqs, std::size_t n)
	{
		const int taken = farkv_submit(kv_, reqs, n);

		return taken == FARKV_EAGAIN ? 0 : count_of(taken);
	}

	/** farkv_poll() and farkv_wait(): how many completions were taken. */
	std::size_t poll(::farkv_completion *completions, std::size_t max)
	{
		return count_of(farkv_poll(kv_, completions, max));
	}
	std::size_t wait(::farkv_completion *completions, std::size_t max,
			 std::uint32_t timeout_ms)
	{
		return count_of(farkv_wait(kv_, completions, max, timeout_ms));
	}
	std::size_t in_flight() const noexcept { return farkv_in_flight(kv_); }

	/** farkv_event_fd(): the store's descriptor to wait on. */
	int event_fd() { return static_cast<int>(count_of(farkv_event_fd(kv_))); }

private:
	static std::size_t count_of(int n)
	{
		if (n < 0)
			throw error(n, farkv_errdetail());
		return static_cast<std::size_t>(n);
	}

	static value value_of(const ::farkv_value &v)
	{
		return {{v.data, v.len}, v.version,
			std::chrono::milliseconds(static_cast<std::int64_t>(v.ttl_ms)), v.user};
	}

	static ::farkv_request request(::farkv_request_kind kind, bytes_view key, bytes_view data,
				       const ::farkv_write_options &options)
	{
		::farkv_request req{};

		req.kind = kind;
		req.key = key.data();
		req.key_len = key.size();
		req.value = data.data();
		req.value_len = data.size();
		req.options = &options;
		return req;
	}

	template <typename F>
	int write(F plain, ::farkv_request_kind kind, bytes_view key, bytes_view data,
		  const write_options &opts)
	{
		if (opts.ttl.count() == 0 && opts.user == 0)
			return plain(kv_, key.data(), key.size(), data.data(), data.size());

		const ::farkv_write_options options = opts;
		const ::farkv_request req = request(kind, key, data, options);

		return farkv_write(kv_, &req, nullptr);
	}

	static std::optional<value_info> into_result(const ::farkv_get_into_item &item)
	{
		if (item.result == FARKV_ENOTFOUND)
			return std::nullopt;
		if (item.result != FARKV_ETOOSMALL)
			detail::check(item.result);
		return value_info{item.len, item.result == FARKV_OK ? item.version : 0};
	}

	static std::vector<::farkv_key> c_keys_of(const std::vector<bytes_view> &keys)
	{
		std::vector<::farkv_key> c_keys(keys.size());

		for (std::size_t i = 0; i < keys.size(); i++) {
			c_keys[i].key = keys[i].data();
			c_keys[i].key_len = keys[i].size();
		}
		return c_keys;
	}

	template <typename F>
	std::uint64_t count(F f, bytes_view key, std::uint64_t delta,
			    std::optional<std::uint64_t> initial, std::chrono::milliseconds ttl)
	{
		::farkv_incr_options opts{};
		std::uint64_t number = 0;

		opts.size = sizeof(opts);
		opts.delta = delta;
		opts.initial = initial.value_or(0);
		opts.ttl_ms = static_cast<std::uint64_t>(ttl.count());
		if (initial)
			opts.flags = FARKV_INCR_CREATE;
		detail::check(f(kv_, key.data(), key.size(), &opts, &number));
		return number;
	}

	template <typename S, typename F>
	S filled(F f) const
	{
		S s{};

		s.size = sizeof(s);
		detail::check(f(kv_, &s));
		return s;
	}

	::farkv *kv_ = nullptr;
};

/** Memory of farkv_buf_alloc(), freed at its end. The store must outlive it, and stay in place. */
class buffer {
public:
	buffer(store &s, std::size_t size) : store_(s), size_(size)
	{
		detail::check(farkv_buf_alloc(s.handle(), size, &data_));
	}
	~buffer() { farkv_buf_free(store_.handle(), data_); }
	buffer(const buffer &) = delete;
	buffer &operator=(const buffer &) = delete;

	std::byte *data() const noexcept { return static_cast<std::byte *>(data_); }
	std::size_t size() const noexcept { return size_; }

private:
	store &store_;
	void *data_ = nullptr;
	std::size_t size_;
};

/** Memory registered by farkv_buf_register(), until its end. The store must outlive it, and stay
 * in place; the memory must stay mapped. */
class registration {
public:
	registration(store &s, bytes_span memory) : store_(s), memory_(memory)
	{
		detail::check(farkv_buf_register(s.handle(), memory.data(), memory.size()));
	}
	~registration()
	{
		if (farkv_buf_unregister(store_.handle(), memory_.data()) != FARKV_OK) {
			// A child of fork(), which has nothing registered.
		}
	}
	registration(const registration &) = delete;
	registration &operator=(const registration &) = delete;

private:
	store &store_;
	bytes_span memory_;
};

/** The text of farkv_metrics(), of all stores of the process. */
inline std::string metrics()
{
	std::string text(FARKV_METRICS_MAX, '\0');

	text.resize(farkv_metrics(text.data(), text.size()));
	return text;
}

} // namespace farkvpp
#endif // FARKV_HPP
