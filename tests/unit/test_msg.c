/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every message compared with bytes laid out by hand from the format in msg.h (checksums
 * by XXH3 itself), and decoding of everything else.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include <farkv.h>

#include "common/index/alloc.h"
#include "common/base/err.h"
#include "common/region/hash.h"
#include "common/proto/msg.h"
#include "tests/rig/cases.h"

/* ---- the bytes --------------------------------------------------------------- */

static const char gold_hello[] =
	"464b010329000000070000006fd8ac9d01671200000300000088776655443322"
	"1100ffeeddccbbaa99ffeeddccbbaa99880205006b76636c69";
static const char gold_grant_req[] =
	"464b0203050000000800000081ac3fda0300040000";
static const char gold_ret[] =
	"464b030326000000090000002957628800010000000000000000030000000000"
	"01000c000000000020000c0a0000ffffffff0ffe1f00";
static const char gold_hint[] =
	"464b04030d0000000a000000bd5ffd7c40000000000000000100000001";
static const char gold_prefix_req[] =
	"464b0503000000000b000000e66b38f7";
static const char gold_stats_req[] =
	"464b0603000000000c000000f27cb939";
static const char gold_ping[] =
	"464b0703080000000d000000540953deefcdab8967452301";
static const char gold_barrier_ack[] =
	"464b08030800000000000000d0b7272b0200000000000000";
static const char gold_sweep_ack[] =
	"464b09030800000000000000004028e70300000000000000";
static const char gold_sweep_claim[] =
	"464b0a032600000011000000a0363e0100000300000000000000030000000000"
	"01000c000000000020000c0a0000ffffffff0ffe1f00";
static const char gold_bye[] =
	"464b0b030e0000000e000000d5b3a37c0000000000000000000000000000";
static const char gold_auth[] =
	"464b0c03490000000f00000099469358a0a1a2a3a4a5a6a7a8a9aaabacadaeaf"
	"b0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecf"
	"d0d1d2d3d4d5d6d7d8d9dadbdcdddedf0700616c6963652e31";
static const char gold_welcome[] =
	"464b4103bb0000000700000095dab74f05000000060000000001887766554433"
	"221100ffeeddccbbaa990000004000000000000020000000000000e1f5050000"
	"000001000000404142434445464748494a4b4c4d4e4f60616263646566676869"
	"6a6b6c6d6e6f707172737475767778797a7b7c7d7e7f17006b763a2f2f5b3230"
	"30313a6462383a3a375d3a373437310200000000000000000000000000200000"
	"00000000000000000000000000000000002000000000000000e03f0000000000"
	"100000007f0000cdab0000";
static const char gold_refuse[] =
	"464b42031500000007000000ecb1bff803001100746f6f206d616e7920736573"
	"73696f6e73";
static const char gold_grant[] =
	"464b4303260000000800000020dd05d103000000000000000000030000000000"
	"01000c000000000020000c0a0000ffffffff0ffe1f00";
static const char gold_hint_reply[] =
	"464b4403010000000a0000002d89ff1302";
static const char gold_prefix[] =
	"464b4503040000000b0000008f0edb834d000000";
static const char gold_stats[] =
	"464b4603180000000c0000006d6412a602000000010015cd5b07000000001600"
	"00e1f50500000000";
static const char gold_pong[] =
	"464b4703080000000d000000bec1a24aefcdab8967452301";
static const char gold_barrier[] =
	"464b480308000000000000000a46dcf70200000000000000";
static const char gold_sweep_begin[] =
	"464b4903080000000000000026bf259e0300000000000000";
static const char gold_sweep_query[] =
	"464b4a03260000001100000057c70cb100000300000000000000030000000000"
	"01000c000000000020000c0a0000ffffffff0ffe1f00";
static const char gold_sweep_end[] =
	"464b4b030800000000000000ba4ca0ac0300000000000000";
static const char gold_bye_ack[] =
	"464b4c03000000000e000000eac6fae4";
static const char gold_shutdown[] =
	"464b4d031900000000000000f187150304001500746865207365727665722069"
	"73206c656176696e67";
static const char gold_reclaim[] =
	"464b4e030800000000000000c30252190000000000000000";
static const char gold_challenge[] =
	"464b4f032000000007000000771f1a4a808182838485868788898a8b8c8d8e8f"
	"909192939495969798999a9b9c9d9e9f";
static const char gold_fsck_req[] =
	"464b0d030000000010000000611e7f28";
static const char gold_ready[] =
	"464b0e0300000000120000005ae3f550";
static const char gold_hits[] =
	"464b0f0322000000000000002ea5e0ab030000002d00e8030000000000002e00"
	"07000000000000002f00efcdab8967452301";
static const char gold_clock_start[] =
	"464b10030000000013000000812f3b01";
static const char gold_fsck[] =
	"464b500318000000100000001a23848702000000010015cd5b07000000002100"
	"6712000000000000";

static const char gold_map[] =
	"464b51031a0000000700000031e90db718006661726b7620636c757374657220"
	"310a65706f636820310a";
static const char gold_client_req[] =
	"464b1103080000001400000051a0abd20500000000000000";
static const char gold_kill[] =
	"464b12030800000015000000514560820600000000000000";
static const char gold_class_req[] =
	"464b1303080000001600000014f010bd4000000000000000";
static const char gold_client[] =
	"464b52033a00000014000000a06e8e14060000006712000003dc050000000000"
	"000a000000000000000200000000000000efcdab896745230105006b76636c69"
	"08007069642034373131";
static const char gold_killed[] =
	"464b53030800000015000000a270190e0100000000000000";
static const char gold_class[] =
	"464b54031800000016000000688703b702000000010060000000000000000200"
	"0700000000000000";
static const char gold_lease_req[] =
	"464b150308000000180000001ce0f7f10000000000000000";
static const char gold_lease[] =
	"464b56030800000018000000dc906f3f00ca9a3b00000000";
static const char gold_map_ack[] =
	"464b160308000000000000003ac11d7b0700000000000000";
static const char gold_pass[] =
	"464b17030800000019000000f927685f0100000000000000";
static const char gold_passed[] =
	"464b57031800000019000000ae64b0f302000000010007000000000000000400"
	"4000000000210000";
static const char gold_wait_req[] =
	"464b1803080000001a000000706d987d0000000000000000";
static const char gold_waited[] =
	"464b5803080000001a000000a5b727660100000000000000";
static const char gold_pause_req[] =
	"464b14030800000017000000a270ccbd0100000000000000";
static const char gold_pause[] =
	"464b5503180000001700000082ad79b902000000010002000000000000000200"
	"e093040000000000";

static const struct block_ref refs[] = {
	{.off = 0x200000, .cls = 3, .inc = 0},
	{.off = 0x4000000, .cls = 3, .inc = 5},
	{.off = 0x7FFFFFFFE0, .cls = 3, .inc = 4095},
};

#define TEXT(s) (const uint8_t *)(s), sizeof(s) - 1
/* n bytes that count up from the first. */
#define COUNT4(b) (b), (b) + 1, (b) + 2, (b) + 3
#define COUNT16(b) COUNT4(b), COUNT4((b) + 4), COUNT4((b) + 8), COUNT4((b) + 12)
#define COUNT32(b) COUNT16(b), COUNT16((b) + 16)
#define REGION {0x1122334455667788, 0x99AABBCCDDEEFF00}

static const struct golden {
	struct msg m;
	const char *hex;
} golden[] = {
	{{.type = MSG_HELLO, .req = 7,
	  .hello = {MSG_ROLE_RO, 4711, 3, REGION, 0x8899AABBCCDDEEFF, 2, TEXT("kvcli")}},
	 gold_hello},
	{{.type = MSG_GRANT_REQ, .req = 8, .grant_req = {3, 1024}},
	 gold_grant_req},
	{{.type = MSG_RETURN, .req = 9,
	  .blocks = {.state = RETURN_DEFERRED, .n = 3}}, gold_ret},
	{{.type = MSG_HINT, .req = 10, .hint = {64, 1, 1}}, gold_hint},
	{{.type = MSG_PREFIX_REQ, .req = 11}, gold_prefix_req},
	{{.type = MSG_STATS_REQ, .req = 12}, gold_stats_req},
	{{.type = MSG_HITS,
	  .stats = {3, {{MSG_STAT_HITS, 1000}, {MSG_STAT_MISSES, 7},
			{MSG_STAT_SETS, 0x0123456789ABCDEF}}}}, gold_hits},
	{{.type = MSG_PING, .req = 13, .epoch = {0x0123456789ABCDEF}},
	 gold_ping},
	{{.type = MSG_BARRIER_ACK, .epoch = {2}}, gold_barrier_ack},
	{{.type = MSG_SWEEP_ACK, .epoch = {3}}, gold_sweep_ack},
	{{.type = MSG_SWEEP_CLAIM, .req = 17, .blocks = {.number = 3, .n = 3}},
	 gold_sweep_claim},
	{{.type = MSG_BYE, .req = 14}, gold_bye},
	{{.type = MSG_AUTH, .req = 15,
	  .auth = {{COUNT32(0xA0)}, {COUNT32(0xC0)}, TEXT("alice.1")}},
	 gold_auth},
	{{.type = MSG_WELCOME, .req = 7,
	  .welcome = {5, 6, MSG_ROLE_RW, 1, REGION, 1u << 30, 2u << 20,
		      100000000, MSG_WELCOME_READ8_ATOMIC, {COUNT16(0x40)},
		      {COUNT32(0x60)}, TEXT("kv://[2001:db8::7]:7471"), 2,
		      {{0, 2u << 20, 0, 0},
		       {2u << 20, (1u << 30) - (2u << 20), 0x7F0000001000,
			0xABCD}}}}, gold_welcome},
	{{.type = MSG_REFUSE, .req = 7,
	  .refuse = {MSG_REASON_FULL, TEXT("too many sessions")}}, gold_refuse},
	{{.type = MSG_GRANT, .req = 8, .blocks = {.cls = 3, .n = 3}},
	 gold_grant},
	{{.type = MSG_HINT_REPLY, .req = 10, .hint_reply = {MSG_HINT_NOSPC}},
	 gold_hint_reply},
	{{.type = MSG_PREFIX, .req = 11, .prefix = {77}}, gold_prefix},
	{{.type = MSG_STATS, .req = 12,
	  .stats = {2, {{MSG_STAT_UPTIME_MS, 123456789},
			{MSG_STAT_GRACE_NS, 100000000}}}}, gold_stats},
	{{.type = MSG_PONG, .req = 13, .epoch = {0x0123456789ABCDEF}},
	 gold_pong},
	{{.type = MSG_BARRIER, .epoch = {2}}, gold_barrier},
	{{.type = MSG_SWEEP_BEGIN, .epoch = {3}}, gold_sweep_begin},
	{{.type = MSG_SWEEP_QUERY, .req = 17, .blocks = {.number = 3, .n = 3}},
	 gold_sweep_query},
	{{.type = MSG_SWEEP_END, .epoch = {3}}, gold_sweep_end},
	{{.type = MSG_BYE_ACK, .req = 14}, gold_bye_ack},
	{{.type = MSG_SHUTDOWN,
	  .refuse = {MSG_REASON_SHUTDOWN, TEXT("the server is leaving")}},
	 gold_shutdown},
	{{.type = MSG_RECLAIM}, gold_reclaim},
	{{.type = MSG_CHALLENGE, .req = 7, .challenge = {{COUNT32(0x80)}}},
	 gold_challenge},
	{{.type = MSG_FSCK_REQ, .req = 16}, gold_fsck_req},
	{{.type = MSG_READY, .req = 18}, gold_ready},
	{{.type = MSG_CLOCK_START, .req = 19}, gold_clock_start},
	{{.type = MSG_CLIENT_REQ, .req = 20, .epoch = {5}}, gold_client_req},
	{{.type = MSG_KILL, .req = 21, .epoch = {6}}, gold_kill},
	{{.type = MSG_CLASS_REQ, .req = 22, .epoch = {64}}, gold_class_req},
	{{.type = MSG_PAUSE_REQ, .req = 23, .epoch = {1}}, gold_pause_req},
	{{.type = MSG_LEASE_REQ, .req = 24}, gold_lease_req},
	{{.type = MSG_LEASE, .req = 24, .epoch = {1000000000}}, gold_lease},
	{{.type = MSG_MAP_ACK, .epoch = {7}}, gold_map_ack},
	{{.type = MSG_PASS, .req = 25, .epoch = {MSG_PASS_FOLLOW}}, gold_pass},
	{{.type = MSG_PASSED, .req = 25,
	  .stats = {2, {{MSG_PASSED_FENCED, 7}, {MSG_PASSED_PAGES, UINT64_C(33) << 40 | 64}}}},
	 gold_passed},
	{{.type = MSG_WAIT_REQ, .req = 26}, gold_wait_req},
	{{.type = MSG_WAITED, .req = 26, .epoch = {1}}, gold_waited},
	{{.type = MSG_CLIENT, .req = 20,
	  .client = {6, 4711, 3, 1500, 10, 2, 0x0123456789ABCDEF, 5, 8, "kvcli", "pid 4711"}},
	 gold_client},
	{{.type = MSG_KILLED, .req = 21, .epoch = {1}}, gold_killed},
	{{.type = MSG_CLASS, .req = 22,
	  .stats = {2, {{MSG_CLASS_BLOCK_BYTES, 96}, {MSG_CLASS_OUT, 7}}}}, gold_class},
	{{.type = MSG_PAUSE, .req = 23,
	  .stats = {2, {{MSG_PAUSE_RANK, 2}, {MSG_PAUSE_NS, 300000}}}}, gold_pause},
	{{.type = MSG_FSCK, .req = 16,
	  .stats = {2, {{MSG_FSCK_DURATION_NS, 123456789},
			{MSG_FSCK_SILENT_PID, 4711}}}}, gold_fsck},
	{{.type = MSG_MAP, .req = 7, .map = {TEXT("farkv cluster 1\nepoch 1\n")}}, gold_map},
};
#define GOLDEN (int)(sizeof(golden) / sizeof(golden[0]))

static size_t unhex(const char *hex, uint8_t *buf)
{
	size_t n = strlen(hex) / 2;

	for (size_t i = 0; i < n; i++) {
		unsigned byte;

		ck_assert_int_eq(sscanf(hex + 2 * i, "%2x", &byte), 1);
		buf[i] = (uint8_t)byte;
	}
	return n;
}

/* Make the checksum right again after a change, as an attacker would. */
static void reseal(uint8_t *buf, size_t len)
{
	uint32_t sum = (uint32_t)XXH3_64bits_withSeed(
		buf + MSG_HEADER_BYTES, len - MSG_HEADER_BYTES,
		hash_image(buf, MSG_HEADER_BYTES - 4));

	memcpy(buf + MSG_HEADER_BYTES - 4, &sum, sizeof(sum));
}

static void check_refused(const uint8_t *buf, size_t len)
{
	struct msg poison, out;

	memset(&poison, 0xA5, sizeof(poison));
	out = poison;
	/* A copy of the exact size, so that sanitizers see reads beyond. */
	uint8_t *copy = malloc(len ? len : 1);

	memcpy(copy, buf, len);
	err_clear();
	ck_assert_int_eq(msg_decode(copy, len, &out), FARKV_EPROTOCOL);
	ck_assert(err_detail()[0]);
	ck_assert_mem_eq(&out, &poison, sizeof(out));
	free(copy);
}

/* ---- golden --------------------------------------------------------------------- */

TEST_LOOP(msg_encode_every_type_gives_the_golden_bytes, 0, GOLDEN)
{
	const struct golden *g = &golden[_i];
	uint8_t want[1024], got[1024];
	size_t want_len = unhex(g->hex, want), len = 0;

	memset(got, 0xA5, sizeof(got));
	ck_assert_int_eq(msg_encode(&g->m, refs, got, sizeof(got), &len), 0);
	ck_assert_uint_eq(len, want_len);
	ck_assert_mem_eq(got, want, len);
	ck_assert_uint_eq(got[len], 0xA5);
}

TEST_LOOP(msg_decode_golden_bytes_and_encode_gives_them_back, 0, GOLDEN)
{
	const struct golden *g = &golden[_i];
	struct block_ref back[3];
	uint8_t bytes[1024], again[1024];
	size_t n = unhex(g->hex, bytes), len;
	struct msg m;

	ck_assert_int_eq(msg_decode(bytes, n, &m), 0);
	ck_assert_uint_eq(m.type, g->m.type);
	ck_assert_uint_eq(m.req, g->m.req);
	if (m.type == MSG_RETURN || m.type == MSG_GRANT ||
	    m.type == MSG_SWEEP_CLAIM || m.type == MSG_SWEEP_QUERY) {
		ck_assert_uint_eq(m.blocks.n, 3);
		for (uint32_t i = 0; i < 3; i++) {
			back[i] = msg_ref(&m, i);
			ck_assert_uint_eq(back[i].off, refs[i].off);
			ck_assert_uint_eq(back[i].cls, refs[i].cls);
			ck_assert_uint_eq(back[i].inc, refs[i].inc);
		}
	}
	ck_assert_int_eq(msg_encode(&m, back, again, sizeof(again), &len), 0);
	ck_assert_uint_eq(len, n);
	ck_assert_mem_eq(again, bytes, n);
}

TEST(msg_decode_fields_of_hello_welcome_stats)
{
	static const uint8_t token[] = {COUNT16(0x40)}, tag[] = {COUNT32(0x60)};
	uint8_t b[1024];
	struct msg m;

	ck_assert_int_eq(msg_decode(b, unhex(gold_hello, b), &m), 0);
	ck_assert_uint_eq(m.hello.role, MSG_ROLE_RO);
	ck_assert_uint_eq(m.hello.pid, 4711);
	ck_assert_uint_eq(m.hello.replaces, 3);
	ck_assert_uint_eq(m.hello.replaces_region[1], 0x99AABBCCDDEEFF00);
	ck_assert_uint_eq(m.hello.map, 0x8899AABBCCDDEEFF);
	ck_assert_uint_eq(m.hello.server, 2);
	ck_assert_uint_eq(m.hello.name_len, 5);
	ck_assert_mem_eq(m.hello.name, "kvcli", 5);
	ck_assert_int_eq(msg_decode(b, unhex(gold_welcome, b), &m), 0);
	ck_assert_uint_eq(m.welcome.session, 5);
	ck_assert_uint_eq(m.welcome.prefix, 6);
	ck_assert_uint_eq(m.welcome.swept, 1);
	ck_assert_uint_eq(m.welcome.grace_ns, 100000000);
	ck_assert_uint_eq(m.welcome.flags, MSG_WELCOME_READ8_ATOMIC);
	ck_assert_mem_eq(m.welcome.token, token, sizeof(token));
	ck_assert_mem_eq(m.welcome.tag, tag, sizeof(tag));
	ck_assert_uint_eq(m.welcome.address_len, 23);
	ck_assert_mem_eq(m.welcome.address, "kv://[2001:db8::7]:7471", 23);
	ck_assert_uint_eq(m.welcome.n_areas, 2);
	ck_assert_uint_eq(m.welcome.areas[1].raddr, 0x7F0000001000);
	ck_assert_uint_eq(m.welcome.areas[1].rkey, 0xABCD);
	ck_assert_int_eq(msg_decode(b, unhex(gold_stats, b), &m), 0);
	ck_assert_uint_eq(m.stats.n, 2);
	ck_assert_uint_eq(m.stats.stat[1].id, MSG_STAT_GRACE_NS);
	ck_assert_uint_eq(m.stats.stat[1].value, 100000000);
}

TEST(msg_decode_fields_of_challenge_and_auth)
{
	static const uint8_t theirs[] = {COUNT32(0x80)}, ours[] = {COUNT32(0xA0)},
			     tag[] = {COUNT32(0xC0)};
	uint8_t b[1024];
	struct msg m;

	ck_assert_int_eq(msg_decode(b, unhex(gold_challenge, b), &m), 0);
	ck_assert_mem_eq(m.challenge.nonce, theirs, sizeof(theirs));
	ck_assert_int_eq(msg_decode(b, unhex(gold_auth, b), &m), 0);
	ck_assert_mem_eq(m.auth.nonce, ours, sizeof(ours));
	ck_assert_mem_eq(m.auth.tag, tag, sizeof(tag));
	ck_assert_uint_eq(m.auth.name_len, 7);
	ck_assert_mem_eq(m.auth.name, "alice.1", 7);
}

TEST(msg_golden_covers_every_type)
{
	unsigned known = 0;

	for (unsigned t = 0; t < 256; t++) {
		bool there = false;

		if (strcmp(msg_type_name((uint8_t)t), "?") == 0)
			continue;
		known++;
		for (int i = 0; i < GOLDEN; i++)
			there = there || golden[i].m.type == t;
		ck_assert_msg(there, "type %u has no golden bytes", t);
	}
	ck_assert_uint_eq(known, GOLDEN);
}

/* ---- damage ----------------------------------------------------------------------- */

TEST_LOOP(msg_decode_cut_at_any_byte_or_longer_is_refused, 0, GOLDEN)
{
	uint8_t b[1024];
	size_t n = unhex(golden[_i].hex, b);

	for (size_t len = 0; len < n; len++)
		check_refused(b, len);
	b[n] = 0;
	check_refused(b, n + 1);
}

/* Also with length and checksum made to fit: the body itself must not. */
TEST_LOOP(msg_decode_body_cut_or_longer_and_resealed_is_refused, 0, GOLDEN)
{
	uint8_t b[1024], c[1024];
	size_t n = unhex(golden[_i].hex, b);

	b[n] = 0;
	for (size_t len = MSG_HEADER_BYTES; len <= n + 1; len++) {
		uint32_t body = (uint32_t)(len - MSG_HEADER_BYTES);

		if (len == n)
			continue;
		memcpy(c, b, len);
		memcpy(c + 4, &body, sizeof(body));
		reseal(c, len);
		check_refused(c, len);
	}
}

TEST_LOOP(msg_decode_any_bit_flipped_is_refused, 0, GOLDEN)
{
	uint8_t b[1024];
	size_t n = unhex(golden[_i].hex, b);

	for (size_t bit = 0; bit < n * 8; bit++) {
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
		check_refused(b, n);
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

/*
 * With a correct checksum a flipped message may decode; then its fields are in range, and
 * it can be encoded.
 */
TEST_LOOP(msg_decode_any_bit_flipped_and_resealed_stays_in_range, 0, GOLDEN)
{
	uint8_t b[1024], again[MSG_MAX_BYTES];
	size_t n = unhex(golden[_i].hex, b), len;

	for (size_t bit = 0; bit < n * 8; bit++) {
		struct block_ref back[MSG_REFS_MAX];
		uint8_t *copy = malloc(n);
		struct msg m;

		memcpy(copy, b, n);
		copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
		reseal(copy, n);
		if (msg_decode(copy, n, &m) == 0) {
			bool blocks = m.type == MSG_GRANT ||
				      m.type == MSG_RETURN ||
				      m.type == MSG_BYE ||
				      m.type == MSG_SWEEP_CLAIM ||
				      m.type == MSG_SWEEP_QUERY;

			for (uint32_t i = 0; blocks && i < m.blocks.n; i++) {
				back[i] = msg_ref(&m, i);
				ck_assert_uint_lt(back[i].cls, CLASS_COUNT);
				ck_assert_uint_ne(back[i].off, 0);
			}
			ck_assert_int_eq(msg_encode(&m, back, again,
						    sizeof(again), &len),
					 0);
			/* Nothing has two encodings. */
			ck_assert_uint_eq(len, n);
			ck_assert_mem_eq(again, copy, n);
		}
		free(copy);
	}
}

/* Bytes at one offset of a golden message replaced, then sealed. */
static const struct {
	const char *hex;
	size_t at, n;
	uint8_t bytes[8];
	const char *says;
} bad_fields[] = {
	{gold_hello, 0, 1, {0x47}, "not farkv"},
	{gold_hello, 3, 1, {2}, "protocol version 2"},
	{gold_hello, 3, 1, {4}, "protocol version 4"},
	{gold_hello, 2, 1, {64}, "unknown message type"},
	{gold_hello, 49, 1, {64}, "no cluster has such a server"},
	{gold_hello, 41, 8, {0}, "no cluster has such a server"},
	{gold_map, 16, 2, {25, 0}, "cut short"},
	{gold_map, 16, 2, {23, 0}, "left over"},
	{gold_hello, 16, 1, {2}, "unknown role"},
	{gold_grant_req, 16, 1, {95}, "size class out of range"},
	{gold_grant_req, 17, 2, {0, 0}, "block count out of range"},
	{gold_grant_req, 17, 2, {1, 4}, "block count out of range"},
	{gold_ret, 16, 1, {95}, "size class out of range"},
	{gold_ret, 17, 1, {3}, "unknown block state"},
	{gold_ret, 26, 2, {1, 4}, "too many blocks"},
	{gold_ret, 26, 1, {4}, "cut short"},
	{gold_ret, 26, 1, {2}, "left over"},
	{gold_ret, 32, 1, {0xFF}, NULL},
	{gold_ret, 16, 1, {3}, "does not use"},
	{gold_ret, 18, 1, {1}, "does not use"},
	{gold_ret, 37, 1, {0x80}, "impossible block"},
	{gold_grant, 17, 1, {1}, "does not use"},
	{gold_sweep_query, 17, 1, {2}, "does not use"},
	{gold_bye, 18, 1, {1}, "does not use"},
	{gold_grant, 16, 1, {4}, "block of another class"},
	{gold_hint, 28, 1, {2}, "full is neither"},
	{gold_hint, 19, 1, {0x40}, "no subtable"},
	{gold_hint, 27, 1, {0x80}, "no subtable"},
	{gold_hint_reply, 16, 1, {4}, "unknown hint status"},
	{gold_refuse, 16, 1, {0}, "unknown reason"},
	{gold_refuse, 16, 1, {6}, "text about credentials"},
	{gold_refuse, 16, 1, {9}, "unknown reason"},
	{gold_welcome, 24, 1, {2}, "unknown role"},
	{gold_welcome, 25, 1, {2}, "swept"},
	{gold_welcome, 66, 1, {5}, "unknown flags"},
	{gold_welcome, 69, 1, {0x80}, "unknown flags"},
	{gold_welcome, 118, 2, {200, 0}, "cut short"},
	{gold_welcome, 118, 2, {22, 0}, "number of areas"},
	{gold_welcome, 120, 1, {' '}, "address is not printable"},
	{gold_welcome, 142, 1, {0x7F}, "address is not printable"},
	{gold_welcome, 142, 1, {0xC4}, "address is not printable"},
	{gold_welcome, 143, 1, {0}, "number of areas"},
	{gold_welcome, 143, 1, {5}, "number of areas"},
	{gold_auth, 80, 2, {0, 0}, "impossible key name"},
	{gold_auth, 80, 2, {6, 0}, "left over"},
	{gold_auth, 80, 2, {8, 0}, "cut short"},
	{gold_auth, 82, 1, {' '}, "impossible key name"},
	{gold_auth, 82, 1, {'@'}, "impossible key name"},
	{gold_auth, 82, 1, {'['}, "impossible key name"},
	{gold_auth, 85, 1, {'/'}, "impossible key name"},
	{gold_auth, 88, 1, {0}, "impossible key name"},
	{gold_auth, 88, 1, {'_'}, NULL},
	{gold_auth, 88, 1, {'-'}, NULL},
	{gold_auth, 88, 1, {'Z'}, NULL},
	{gold_stats, 16, 1, {MSG_STATS_MAX + 1}, "too many statistics"},
};

TEST_EACH(msg_decode_field_out_of_range_is_named, bad_fields)
{
	uint8_t b[1024];
	size_t n = unhex(bad_fields[_i].hex, b);
	struct msg m;

	memcpy(b + bad_fields[_i].at, bad_fields[_i].bytes, bad_fields[_i].n);
	reseal(b, n);
	if (!bad_fields[_i].says) {
		ck_assert_int_eq(msg_decode(b, n, &m), 0);
		return;
	}
	check_refused(b, n);
	ck_assert_ptr_nonnull(strstr(err_detail(), bad_fields[_i].says));
}

TEST(msg_encode_what_a_peer_would_refuse_is_not_sent)
{
	struct block_ref zero = {.off = 0, .cls = 1};
	struct block_ref odd = {.off = 0x200001, .cls = 1};
	struct block_ref old = {.off = 0x200000, .cls = 1, .inc = 4096};
	uint8_t b[64];
	size_t len = 4711;
	struct msg m = {.type = 200};

	ck_assert_int_eq(msg_encode(&m, NULL, b, sizeof(b), &len), FARKV_EINVAL);
	m = (struct msg){.type = MSG_GRANT_REQ, .grant_req = {CLASS_COUNT, 1}};
	ck_assert_int_eq(msg_encode(&m, NULL, b, sizeof(b), &len), FARKV_EINVAL);
	m = (struct msg){.type = MSG_GRANT_REQ, .grant_req = {0, 1025}};
	ck_assert_int_eq(msg_encode(&m, NULL, b, sizeof(b), &len), FARKV_EINVAL);
	m = (struct msg){.type = MSG_RETURN, .blocks = {.n = 1}};
	ck_assert_int_eq(msg_encode(&m, &zero, b, sizeof(b), &len),
			 FARKV_EINVAL);
	m = (struct msg){.type = MSG_RETURN, .blocks = {.number = 1, .n = 1}};
	ck_assert_int_eq(msg_encode(&m, refs, b, sizeof(b), &len),
			 FARKV_EINVAL);
	m.blocks.number = 0;
	/* A number that does not fit the word would arrive as another block. */
	ck_assert_int_eq(msg_encode(&m, &odd, b, sizeof(b), &len),
			 FARKV_EINVAL);
	ck_assert_int_eq(msg_encode(&m, &old, b, sizeof(b), &len),
			 FARKV_EINVAL);
	m = (struct msg){.type = MSG_WELCOME,
			 .welcome = {.n_areas = MSG_AREAS_MAX + 1}};
	ck_assert_int_eq(msg_encode(&m, NULL, b, sizeof(b), &len), FARKV_EINVAL);
	m = (struct msg){.type = MSG_PING};
	ck_assert_int_eq(msg_encode(&m, NULL, b, 15, &len), FARKV_EINVAL);
	ck_assert_int_eq(msg_encode(&m, NULL, b, 23, &len), FARKV_EINVAL);
	ck_assert_uint_eq(len, 4711);
	ck_assert_int_eq(msg_encode(&m, NULL, b, 24, &len), 0);
	ck_assert_uint_eq(len, 24);
}

/* A refused client gets only the number about credentials. */
TEST(msg_refuse_for_credentials_has_no_text)
{
	struct msg m = {.type = MSG_REFUSE,
			.refuse = {MSG_REASON_AUTH, TEXT("no such key")}}, d;
	uint8_t b[64];
	size_t len;

	ck_assert_int_eq(msg_encode(&m, NULL, b, sizeof(b), &len),
			 FARKV_EINVAL);
	m.refuse.text_len = 0;
	ck_assert_int_eq(msg_encode(&m, NULL, b, sizeof(b), &len), 0);
	ck_assert_int_eq(msg_decode(b, len, &d), 0);
	ck_assert_uint_eq(d.refuse.reason, MSG_REASON_AUTH);
	ck_assert_uint_eq(d.refuse.text_len, 0);
}

TEST(msg_texts_of_the_largest_size_fit_and_one_byte_more_does_not)
{
	uint8_t text[MSG_TEXT_MAX + 1], b[1024];
	struct msg a = {.type = MSG_AUTH, .auth = {.name = text}};
	struct msg w = {.type = MSG_WELCOME,
			.welcome = {.address = text, .n_areas = 1}};
	size_t len;

	memset(text, 'x', sizeof(text));
	a.auth.name_len = MSG_KEY_NAME_MAX;
	ck_assert_int_eq(msg_encode(&a, NULL, b, sizeof(b), &len), 0);
	a.auth.name_len++;
	ck_assert_int_eq(msg_encode(&a, NULL, b, sizeof(b), &len),
			 FARKV_EINVAL);
	w.welcome.address_len = MSG_TEXT_MAX;
	ck_assert_int_eq(msg_encode(&w, NULL, b, sizeof(b), &len), 0);
	w.welcome.address_len++;
	ck_assert_int_eq(msg_encode(&w, NULL, b, sizeof(b), &len),
			 FARKV_EINVAL);
	ck_assert_ptr_nonnull(strstr(err_detail(), "address too long"));
	w.welcome.address_len = 0;
	ck_assert_int_eq(msg_encode(&w, NULL, b, sizeof(b), &len), 0);
}

TEST(msg_largest_list_of_blocks_fits_and_one_more_does_not)
{
	static struct block_ref many[MSG_REFS_MAX + 1];
	static uint8_t b[MSG_MAX_BYTES];
	struct msg m = {.type = MSG_RETURN, .blocks = {.n = MSG_REFS_MAX}}, d;
	size_t len;

	for (size_t i = 0; i <= MSG_REFS_MAX; i++)
		many[i] = (struct block_ref){.off = 0x200000 + i * 64};
	ck_assert_int_eq(msg_encode(&m, many, b, sizeof(b), &len), 0);
	ck_assert_int_eq(msg_decode(b, len, &d), 0);
	ck_assert_uint_eq(msg_ref(&d, MSG_REFS_MAX - 1).off,
			  0x200000 + (MSG_REFS_MAX - 1) * 64);
	m.blocks.n++;
	ck_assert_int_eq(msg_encode(&m, many, b, sizeof(b), &len),
			 FARKV_EINVAL);
}

/* Noise with a correct header: never a crash, never a field out of range. */
TEST(msg_decode_noise_is_survived)
{
	uint64_t x = 88172645463325252u;
	unsigned decoded = 0;

	for (int round = 0; round < 50000; round++) {
		uint8_t b[96];
		size_t n;
		uint32_t body;
		struct msg m;

		for (size_t i = 0; i < sizeof(b); i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			/* Small numbers are likely: they reach further. */
			b[i] = (uint8_t)(x & 256 ? x : x & 3);
		}
		n = MSG_HEADER_BYTES + x % (sizeof(b) - MSG_HEADER_BYTES);
		body = (uint32_t)(n - MSG_HEADER_BYTES);
		b[0] = 0x46;
		b[1] = 0x4B;
		b[2] = golden[round % GOLDEN].m.type;
		b[3] = MSG_PROTOCOL;
		memcpy(b + 4, &body, 4);
		reseal(b, n);
		decoded += msg_decode(b, n, &m) == 0;
	}
	/* Bodies of fixed length decode now and then. */
	ck_assert_uint_gt(decoded, 10);
}

TEST_SUITE("msg")
