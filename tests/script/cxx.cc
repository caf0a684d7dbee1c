// SPDX-License-Identifier: BSD-3-Clause
// farkv.hpp, against the server at $FARKV_URI. Each case prints its name when it begins.
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <poll.h>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <farkv.hpp>

#if __cplusplus >= 202002L
#include <span>
#endif

using farkvpp::bytes_span;
using farkvpp::bytes_view;
using farkvpp::store;

#define CHECK(what)                                                                         \
	do {                                                                                \
		if (!(what)) {                                                              \
			std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
			std::exit(1);                                                       \
		}                                                                           \
	} while (0)

// The number of the error that `f` throws, or 0. The line is never empty.
template <typename F>
static int thrown(F f)
{
	try {
		f();
	} catch (const farkvpp::error &e) {
		CHECK(std::strlen(e.what()) > 10);
		return e.code();
	}
	return 0;
}

static void a_view_is_of_any_container_of_bytes()
{
	const std::string text("a\0b", 3);
	const std::vector<unsigned char> numbers{1, 2};
	std::array<std::byte, 4> room{};

	CHECK(bytes_view("ab").size() == 2 && bytes_view("").empty());
	CHECK(bytes_view(text).size() == 3 && bytes_view(text).str() == text);
	CHECK(bytes_view(std::string_view("xyz")).text() == "xyz");
	CHECK(bytes_view(numbers).data()[1] == std::byte{2});
	CHECK(bytes_span(room).size() == 4 && bytes_view(bytes_span(room)).size() == 4);
	static_assert(!std::is_constructible_v<bytes_view, std::vector<int>>);
	static_assert(!std::is_constructible_v<bytes_span, const std::string &>);
#if __cplusplus >= 202002L
	CHECK(bytes_view(std::span(room)).size() == 4 && bytes_span(std::span(room)).size() == 4);
#endif
}

static void a_miss_and_a_lost_race_are_results()
{
	store kv;

	kv.clear();
	CHECK(!kv.get("k") && !kv.exists("k") && !kv.erase("k"));
	CHECK(!kv.replace("k", "v") && !kv.append("k", "v") && !kv.prepend("k", "v"));
	CHECK(kv.add("k", "v") && !kv.add("k", "w"));
	const auto first = kv.get("k");
	CHECK(first && first->data.text() == "v" && first->version != 0);
	CHECK(kv.replace("k", "x"));
	CHECK(!kv.cas("k", "y", first->version) && !kv.cas("none", "y", first->version));
	CHECK(!kv.erase("k", first->version) && !kv.erase("none", first->version));
	const auto written = kv.cas("k", "z", kv.get("k")->version);
	CHECK(written && kv.get("k")->version == *written && kv.get("k")->data.text() == "z");
	CHECK(kv.append("k", "2") && kv.prepend("k", "1") && kv.get("k")->data.text() == "1z2");
	// The value of a get may be a value of the next call.
	kv.put("copy", kv.get("k")->data);
	CHECK(kv.get("copy")->data.text() == "1z2" && kv.exists("k"));
	CHECK(kv.erase("k", kv.get("k")->version) && !kv.exists("k"));
}

static void other_errors_are_thrown()
{
	store kv;

	CHECK(thrown([&] { kv.put("", "v"); }) == FARKV_EINVAL);
	CHECK(thrown([&] { kv.put("text", "x"), kv.incr("text"); }) == FARKV_EINVAL);
	CHECK(thrown([&] { kv.incr("none"); }) == FARKV_ENOTFOUND);
	CHECK(thrown([] { store s("/nowhere/kvserver.sock"); }) == FARKV_EUNREACHABLE);
	CHECK(thrown([] { store s(std::string("what://")); }) == FARKV_EURI);
	farkvpp::options readonly;
	readonly.flags = FARKV_OPEN_READONLY;
	store reader(nullptr, readonly);
	CHECK(thrown([&] { reader.put("k", "v"); }) == FARKV_EPERM);
	CHECK(reader.get("text")->data.text() == "x");
}

static void a_buffer_receives_a_value_or_tells_its_size()
{
	store kv;
	const std::string large(100000, 'l');
	farkvpp::buffer buf(kv, 100000);
	std::array<char, 3> tiny{};

	kv.put("large", large);
	const auto info = kv.get_into("large", buf);
	CHECK(info && info->size == large.size() && info->version == kv.get("large")->version);
	CHECK(bytes_view(buf).text() == large && !kv.get_into("none", buf));
	try {
		kv.get_into("large", tiny);
		CHECK(false);
	} catch (const farkvpp::too_small &e) {
		CHECK(e.needed() == large.size() && e.code() == FARKV_ETOOSMALL);
	}
	kv.put("again", buf);
	CHECK(kv.get("again")->data.text() == large);
}

static void registered_memory_and_borrowed_values()
{
	store kv;
	std::vector<char> area(16384);
	const bytes_span low(area.data(), 8192), high(area.data() + 8192, 8192);

	kv.put("low", std::string(8192, 'l'));
	kv.put("long", std::string(9000, 'x'));
	{
		farkvpp::registration r(kv, area);
		CHECK(thrown([&] { farkvpp::registration again(kv, low); }) == FARKV_EINVAL);
		const auto infos = kv.mget_into({{"low", high}, {"long", low}, {"no", low}});
		CHECK(infos[0]->size == 8192 && infos[1]->size == 9000 && !infos[2]);
		CHECK(bytes_view(high).text() == std::string(8192, 'l'));
	}
	farkvpp::registration again(kv, low);
	CHECK(thrown([&] { kv.mget_into({{"", low}}); }) == FARKV_EINVAL);
	CHECK(!kv.borrow("no"));
	const auto view = kv.borrow("low");
	CHECK(view && view->value.len == 8192 && kv.borrow_check(*view));
}

static void numbers_are_counted()
{
	store kv;

	CHECK(kv.incr("n", 5, 40) == 40 && kv.incr("n", 5, 40) == 45 && kv.incr("n") == 46);
	CHECK(kv.decr("n", 6) == 40 && kv.decr("n", 100) == 0 && kv.get("n")->data.text() == "0");
}

static void batches_keep_the_order_of_their_keys()
{
	store kv;

	kv.mput({{"a", "1"}, {"b", ""}, {"c", "3"}});
	const auto values = kv.mget({"c", "none", "b", "a"});
	CHECK(values.size() == 4 && values[0]->data.text() == "3" && !values[1]);
	CHECK(values[2]->data.empty() && values[3]->data.text() == "1");
	CHECK((kv.mexists({"a", "none", "c"}) == std::vector<bool>{true, false, true}));
	CHECK(kv.prefix({"a", "b", "none", "c"}) == 2 && kv.prefix({}) == 0);
	CHECK(kv.mget({}).empty() && kv.mexists({}).empty());
	CHECK(thrown([&] { kv.mput({{"a", "2"}, {"", "x"}}); }) == FARKV_EINVAL);
}

static void values_expire_and_carry_a_number()
{
	using namespace std::chrono_literals;
	store kv;

	kv.clear();
	kv.put("k", "v", {1h, 4294967295u});
	const auto found = kv.get("k");
	CHECK(found->ttl > 1min && found->ttl <= 1h && found->user == 4294967295u);
	CHECK(kv.mget({"k"})[0]->ttl > 1min && kv.mget({"k"})[0]->user == 4294967295u);
	CHECK(kv.replace("k", kv.get("k")->data, {0ms, 5}));
	CHECK(kv.get("k")->ttl == 0ms && kv.get("k")->user == 5 && kv.get("k")->data.text() == "v");
	CHECK(kv.cas("k", "w", kv.get("k")->version, {2h}));
	CHECK(kv.get("k")->ttl > 1h && kv.get("k")->user == 0);
	kv.put("k", "x");
	CHECK(kv.get("k")->ttl == 0ms);
	// A new time to live, alone and with the value.
	CHECK(kv.touch("k", 1h) && kv.get("k")->ttl > 1min && kv.get("k")->ttl <= 1h);
	const auto touched = kv.get_touch("k", 3h);
	CHECK(touched->data.text() == "x" && touched->ttl > 2h && kv.get("k")->ttl > 2h);
	CHECK(touched->version == kv.get("k")->version);
	CHECK(kv.touch("k", 0ms) && kv.get("k")->ttl == 0ms);
	CHECK(!kv.touch("none", 1h) && !kv.get_touch("none", 1h));
	CHECK(kv.incr("n", 1, 7, 1h) == 7 && kv.incr("n", 1, 7) == 8 && kv.get("n")->ttl > 1min);
	// What is over is absent.
	CHECK(kv.add("short", "v", {30ms}) && !kv.add("k", "v", {30ms}));
	while (kv.exists("short")) {
	}
	CHECK(!kv.get("short") && !kv.replace("short", "w", {1h}) && kv.add("short", "w", {1h, 1}));
	CHECK(thrown([&] { kv.put("k", "v", {-1ms}); }) == FARKV_EINVAL);
	CHECK(thrown([&] { kv.touch("k", -1ms); }) == FARKV_EINVAL);
}

static void a_scan_lists_all_and_ends_when_its_caller_throws()
{
	store kv;
	std::set<std::string> keys;
	struct stop {};

	kv.clear();
	for (int i = 0; i < 1000; i++)
		kv.put(std::to_string(i), "value");
	kv.scan([&](const farkvpp::scan_item &it) {
		CHECK(it.value_size == 5 && it.version != 0);
		CHECK(keys.insert(it.key.str()).second);
		kv.erase(it.key);
	});
	CHECK(keys.size() == 1000 && !kv.exists("7"));
	kv.put("last", "");
	try {
		kv.scan([](const farkvpp::scan_item &) { throw stop(); });
		CHECK(false);
	} catch (const stop &) {
	}
	CHECK(kv.clear() == 1 && kv.clear() == 0);
}

static void requests_in_flight_come_back_with_their_tags()
{
	store kv;
	std::array<farkv_request, 3> reqs{};
	std::array<farkv_completion, 3> done{};
	std::map<std::uint64_t, int> results;

	kv.put("k", "v");
	for (std::size_t i = 0; i < reqs.size(); i++) {
		reqs[i].tag = i;
		reqs[i].kind = FARKV_REQUEST_GET;
		reqs[i].key = i == 2 ? "x" : "k";
		reqs[i].key_len = 1;
	}
	const int fd = kv.event_fd();
	for (std::size_t sent = 0; sent < reqs.size();)
		sent += kv.submit(&reqs[sent], reqs.size() - sent);
	CHECK(kv.in_flight() == 3);
	while (kv.in_flight() != 0) {
		pollfd p{fd, POLLIN, 0};
		CHECK(::poll(&p, 1, 60000) == 1);
		const std::size_t n = kv.poll(done.data(), done.size());
		for (std::size_t i = 0; i < n; i++)
			results[done[i].tag] = done[i].result;
	}
	CHECK((results == std::map<std::uint64_t, int>{{0, 0}, {1, 0}, {2, FARKV_ENOTFOUND}}));
	CHECK(kv.wait(done.data(), done.size(), 0) == 0);
	reqs[0].flags = 1;
	CHECK(thrown([&] { kv.submit(reqs.data(), 1); }) == FARKV_EINVAL);
}

static void a_store_moves_and_closes_once()
{
	static_assert(!std::is_copy_constructible_v<store> && !std::is_copy_assignable_v<store>);
	static_assert(std::is_nothrow_move_constructible_v<store>);
	std::vector<store> stores;

	for (int i = 0; i < 4; i++)
		stores.emplace_back();
	store first = std::move(stores[0]);
	CHECK(stores[0].handle() == nullptr);
	CHECK(thrown([&] { stores[0].ping(); }) == FARKV_EINVAL);
	stores[1] = std::move(first);
	CHECK(stores[1].ping() > 0 && stores[1].stats().sessions >= 4);
	stores.clear();
	store last;
	CHECK(last.fsck().bad_words == 0 && last.counters().size == sizeof(struct farkv_counters));
	CHECK(last.server(0)->epoch == 0 && last.server(0)->handle == last.handle() && !last.server(1));
	CHECK(thrown([&] { last.wait_followers(1); }) == FARKV_ENOTSUP);
	// Those that were closed are gone, which the server learns from their messages.
	std::uint64_t sessions = 0;
	for (int i = 0; i < 10000 && (sessions = last.stats().sessions) > 2; i++) {
	}
	CHECK(sessions <= 2);
}

static void a_store_records_latency_if_asked()
{
	farkvpp::options o;

	o.flags = FARKV_OPEN_LATENCY;
	store recording(nullptr, o), other;
	CHECK(!recording.get("no such key") && recording.latency(FARKV_LATENCY_GET).count == 1);
	CHECK(thrown([&] { (void)other.latency(FARKV_LATENCY_GET); }) == FARKV_EINVAL);
	CHECK(farkvpp::metrics().find("farkv_client_latency_seconds_count{call=\"get\"} 1\n") != std::string::npos);
}

#define RUN(f) (std::printf("%s\n", #f), f())
int main()
{
	RUN(a_view_is_of_any_container_of_bytes);
	RUN(a_miss_and_a_lost_race_are_results);
	RUN(other_errors_are_thrown);
	RUN(a_buffer_receives_a_value_or_tells_its_size);
	RUN(registered_memory_and_borrowed_values);
	RUN(numbers_are_counted);
	RUN(batches_keep_the_order_of_their_keys);
	RUN(values_expire_and_carry_a_number);
	RUN(a_scan_lists_all_and_ends_when_its_caller_throws);
	RUN(requests_in_flight_come_back_with_their_tags);
	RUN(a_store_moves_and_closes_once);
	RUN(a_store_records_latency_if_asked);
}
