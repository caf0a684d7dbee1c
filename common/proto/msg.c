/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "msg.h"

#include <string.h>

#include "common/base/err.h"
#include "common/base/util.h"
#include "common/base/wire.h"
#include "common/region/hash.h"

#include "auth.h"
#include "clustermap.h"
#include "keyfile.h"

#define REF_BYTES 8u
static_assert(MSG_HEADER_BYTES + 16 + MSG_REFS_MAX * REF_BYTES <= MSG_MAX_BYTES,
	      "the largest list of blocks must fit a message");
static_assert(MSG_NONCE_BYTES == AUTH_NONCE_BYTES &&
		      MSG_TAG_BYTES == AUTH_TAG_BYTES &&
		      MSG_TOKEN_BYTES == AUTH_TOKEN_BYTES &&
		      MSG_KEY_NAME_MAX == KEY_NAME_MAX &&
		      (int)MSG_ROLE_RW == (int)KEY_RW &&
		      (int)MSG_ROLE_RO == (int)KEY_RO,
	      "messages carry what auth.h and keyfile.h make");
static_assert(MSG_MAP_MAX == CLUSTERMAP_TEXT_MAX && MSG_SERVERS_MAX == CLUSTERMAP_SERVERS_MAX &&
		      MSG_HEADER_BYTES + 2 + MSG_MAP_MAX <= MSG_MAX_BYTES,
	      "a map fits a message");

/* The layout of a message's body. */
enum body {
	BODY_BAD,
	BODY_NONE,
	BODY_HELLO,
	BODY_WELCOME,
	BODY_TEXT,
	BODY_GRANT_REQ,
	BODY_BLOCKS,
	BODY_HINT,
	BODY_HINT_REPLY,
	BODY_PREFIX,
	BODY_STATS,
	BODY_EPOCH,
	BODY_CHALLENGE,
	BODY_AUTH,
	BODY_MAP,
	BODY_CLIENT,
};

static const struct kind {
	const char *name;
	enum body body;
} kinds[] = {
	[MSG_HELLO] = {"HELLO", BODY_HELLO},
	[MSG_GRANT_REQ] = {"GRANT_REQ", BODY_GRANT_REQ},
	[MSG_RETURN] = {"RETURN", BODY_BLOCKS},
	[MSG_HINT] = {"HINT", BODY_HINT},
	[MSG_PREFIX_REQ] = {"PREFIX_REQ", BODY_NONE},
	[MSG_STATS_REQ] = {"STATS_REQ", BODY_NONE},
	[MSG_PING] = {"PING", BODY_EPOCH},
	[MSG_BARRIER_ACK] = {"BARRIER_ACK", BODY_EPOCH},
	[MSG_SWEEP_ACK] = {"SWEEP_ACK", BODY_EPOCH},
	[MSG_SWEEP_CLAIM] = {"SWEEP_CLAIM", BODY_BLOCKS},
	[MSG_BYE] = {"BYE", BODY_BLOCKS},
	[MSG_AUTH] = {"AUTH", BODY_AUTH},
	[MSG_FSCK_REQ] = {"FSCK_REQ", BODY_NONE},
	[MSG_READY] = {"READY", BODY_NONE},
	[MSG_HITS] = {"HITS", BODY_STATS},
	[MSG_CLOCK_START] = {"CLOCK_START", BODY_NONE},
	[MSG_CLIENT_REQ] = {"CLIENT_REQ", BODY_EPOCH},
	[MSG_KILL] = {"KILL", BODY_EPOCH},
	[MSG_CLASS_REQ] = {"CLASS_REQ", BODY_EPOCH},
	[MSG_PAUSE_REQ] = {"PAUSE_REQ", BODY_EPOCH},
	[MSG_LEASE_REQ] = {"LEASE_REQ", BODY_EPOCH},
	[MSG_MAP_ACK] = {"MAP_ACK", BODY_EPOCH},
	[MSG_PASS] = {"PASS", BODY_EPOCH},
	[MSG_WAIT_REQ] = {"WAIT_REQ", BODY_EPOCH},
	[MSG_WELCOME] = {"WELCOME", BODY_WELCOME},
	[MSG_REFUSE] = {"REFUSE", BODY_TEXT},
	[MSG_GRANT] = {"GRANT", BODY_BLOCKS},
	[MSG_HINT_REPLY] = {"HINT_REPLY", BODY_HINT_REPLY},
	[MSG_PREFIX] = {"PREFIX", BODY_PREFIX},
	[MSG_STATS] = {"STATS", BODY_STATS},
	[MSG_PONG] = {"PONG", BODY_EPOCH},
	[MSG_BARRIER] = {"BARRIER", BODY_EPOCH},
	[MSG_SWEEP_BEGIN] = {"SWEEP_BEGIN", BODY_EPOCH},
	[MSG_SWEEP_QUERY] = {"SWEEP_QUERY", BODY_BLOCKS},
	[MSG_SWEEP_END] = {"SWEEP_END", BODY_EPOCH},
	[MSG_BYE_ACK] = {"BYE_ACK", BODY_NONE},
	[MSG_SHUTDOWN] = {"SHUTDOWN", BODY_TEXT},
	[MSG_RECLAIM] = {"RECLAIM", BODY_EPOCH},
	[MSG_CHALLENGE] = {"CHALLENGE", BODY_CHALLENGE},
	[MSG_FSCK] = {"FSCK", BODY_STATS},
	[MSG_MAP] = {"MAP", BODY_MAP},
	[MSG_CLIENT] = {"CLIENT", BODY_CLIENT},
	[MSG_KILLED] = {"KILLED", BODY_EPOCH},
	[MSG_CLASS] = {"CLASS", BODY_STATS},
	[MSG_PAUSE] = {"PAUSE", BODY_STATS},
	[MSG_LEASE] = {"LEASE", BODY_EPOCH},
	[MSG_PASSED] = {"PASSED", BODY_STATS},
	[MSG_WAITED] = {"WAITED", BODY_EPOCH},
};

static enum body body_of(uint8_t type)
{
	return type < ARRAY_SIZE(kinds) ? kinds[type].body : BODY_BAD;
}

const char *msg_type_name(uint8_t type)
{
	return body_of(type) == BODY_BAD ? "?" : kinds[type].name;
}

const char *msg_pause_name(uint64_t kind)
{
	static const char *const names[MSG_PAUSE_KIND_END] = {
		[MSG_PAUSE_MESSAGE] = "message", [MSG_PAUSE_GROWTH] = "growth",
		[MSG_PAUSE_SWEEP] = "sweep",     [MSG_PAUSE_CHECK] = "check",
		[MSG_PAUSE_COUNT] = "count",     [MSG_PAUSE_EXPIRY] = "expiry",
		[MSG_PAUSE_RETURNS] = "returns", [MSG_PAUSE_TICK] = "timers"};

	return kind < MSG_PAUSE_KIND_END && names[kind] ? names[kind] : "other";
}

static uint64_t ref_word(const struct msg *m, uint32_t i)
{
	struct wire w = wire_reader(m->blocks.refs + (size_t)i * REF_BYTES,
				    REF_BYTES);

	return wire_get_u64(&w);
}

struct block_ref msg_ref(const struct msg *m, uint32_t i)
{
	return slot_block(ref_word(m, i));
}

static uint32_t message_checksum(const uint8_t *buf, size_t len)
{
	/* The header up to the checksum seeds the checksum of the body. */
	uint64_t head = hash_image(buf, MSG_HEADER_BYTES - 4);

	return (uint32_t)(XXH3_64bits_withSeed(buf + MSG_HEADER_BYTES,
					       len - MSG_HEADER_BYTES, head));
}

/* ---- encoding ---------------------------------------------------------------- */

static void put_hello(struct wire *w, const struct msg *m)
{
	wire_put_u8(w, m->hello.role);
	wire_put_u32(w, m->hello.pid);
	wire_put_u32(w, m->hello.replaces);
	wire_put_u64(w, m->hello.replaces_region[0]);
	wire_put_u64(w, m->hello.replaces_region[1]);
	wire_put_u64(w, m->hello.map);
	wire_put_u8(w, m->hello.server);
	wire_put_blob(w, m->hello.name, m->hello.name_len);
}

static void put_welcome(struct wire *w, const struct msg *m)
{
	wire_put_u32(w, m->welcome.session);
	wire_put_u32(w, m->welcome.prefix);
	wire_put_u8(w, m->welcome.role);
	wire_put_u8(w, m->welcome.swept);
	wire_put_u64(w, m->welcome.region_id[0]);
	wire_put_u64(w, m->welcome.region_id[1]);
	wire_put_u64(w, m->welcome.region_bytes);
	wire_put_u64(w, m->welcome.meta_bytes);
	wire_put_u64(w, m->welcome.grace_ns);
	wire_put_u32(w, m->welcome.flags);
	wire_put_bytes(w, m->welcome.token, sizeof(m->welcome.token));
	wire_put_bytes(w, m->welcome.tag, sizeof(m->welcome.tag));
	wire_put_blob(w, m->welcome.address, m->welcome.address_len);
	wire_put_u32(w, m->welcome.n_areas);
	for (uint32_t i = 0; i < m->welcome.n_areas; i++) {
		wire_put_u64(w, m->welcome.areas[i].off);
		wire_put_u64(w, m->welcome.areas[i].bytes);
		wire_put_u64(w, m->welcome.areas[i].raddr);
		wire_put_u32(w, m->welcome.areas[i].rkey);
	}
}

static void put_auth(struct wire *w, const struct msg *m)
{
	wire_put_bytes(w, m->auth.nonce, sizeof(m->auth.nonce));
	wire_put_bytes(w, m->auth.tag, sizeof(m->auth.tag));
	wire_put_blob(w, m->auth.name, m->auth.name_len);
}

static void put_client(struct wire *w, const struct msg *m)
{
	wire_put_u32(w, m->client.session);
	wire_put_u32(w, m->client.pid);
	wire_put_u8(w, m->client.flags);
	wire_put_u64(w, m->client.age_ms);
	wire_put_u64(w, m->client.hits);
	wire_put_u64(w, m->client.misses);
	wire_put_u64(w, m->client.sets);
	wire_put_blob(w, m->client.name, m->client.name_len);
	wire_put_blob(w, m->client.peer, m->client.peer_len);
}

static void put_blocks(struct wire *w, const struct msg *m,
		       const struct block_ref *refs)
{
	wire_put_u8(w, m->blocks.cls);
	wire_put_u8(w, m->blocks.state);
	wire_put_u64(w, m->blocks.number);
	wire_put_u32(w, m->blocks.n);
	for (uint32_t i = 0; i < m->blocks.n; i++)
		wire_put_u64(w, slot_pack(refs[i], 0, 0));
}

static void put_body(struct wire *w, const struct msg *m,
		     const struct block_ref *refs)
{
	switch (body_of(m->type)) {
	case BODY_HELLO:
		put_hello(w, m);
		break;
	case BODY_WELCOME:
		put_welcome(w, m);
		break;
	case BODY_TEXT:
		wire_put_u16(w, m->refuse.reason);
		wire_put_blob(w, m->refuse.text, m->refuse.text_len);
		break;
	case BODY_GRANT_REQ:
		wire_put_u8(w, m->grant_req.cls);
		wire_put_u32(w, m->grant_req.count);
		break;
	case BODY_BLOCKS:
		put_blocks(w, m, refs);
		break;
	case BODY_HINT:
		wire_put_u64(w, m->hint.page);
		wire_put_u32(w, m->hint.gen);
		wire_put_u8(w, m->hint.full);
		break;
	case BODY_HINT_REPLY:
		wire_put_u8(w, m->hint_reply.status);
		break;
	case BODY_PREFIX:
		wire_put_u32(w, m->prefix.prefix);
		break;
	case BODY_STATS:
		wire_put_u32(w, m->stats.n);
		for (uint32_t i = 0; i < m->stats.n; i++) {
			wire_put_u16(w, m->stats.stat[i].id);
			wire_put_u64(w, m->stats.stat[i].value);
		}
		break;
	case BODY_EPOCH:
		wire_put_u64(w, m->epoch.number);
		break;
	case BODY_CHALLENGE:
		wire_put_bytes(w, m->challenge.nonce,
			       sizeof(m->challenge.nonce));
		break;
	case BODY_AUTH:
		put_auth(w, m);
		break;
	case BODY_MAP:
		wire_put_blob(w, m->map.text, m->map.text_len);
		break;
	case BODY_CLIENT:
		put_client(w, m);
		break;
	default:
		break;
	}
}

/* ---- decoding ---------------------------------------------------------------- */

/* Copy `len` bytes; zeros and the sticky error if fewer are left. */
static void get_array(struct wire *w, uint8_t *to, size_t len)
{
	const uint8_t *p = wire_get_bytes(w, len);

	if (p)
		memcpy(to, p, len);
	else
		memset(to, 0, len);
}

/* Each returns NULL, or what is wrong. */

static const char *get_hello(struct wire *w, struct msg *m)
{
	m->hello.role = wire_get_u8(w);
	m->hello.pid = wire_get_u32(w);
	m->hello.replaces = wire_get_u32(w);
	m->hello.replaces_region[0] = wire_get_u64(w);
	m->hello.replaces_region[1] = wire_get_u64(w);
	m->hello.map = wire_get_u64(w);
	m->hello.server = wire_get_u8(w);
	m->hello.name = wire_get_blob(w, &m->hello.name_len);
	if (m->hello.role > MSG_ROLE_RO)
		return "unknown role";
	if (m->hello.server >= MSG_SERVERS_MAX || (m->hello.server && !m->hello.map))
		return "no cluster has such a server";
	return m->hello.name_len > MSG_TEXT_MAX ? "name too long" : NULL;
}

static const char *get_welcome(struct wire *w, struct msg *m)
{
	m->welcome.session = wire_get_u32(w);
	m->welcome.prefix = wire_get_u32(w);
	m->welcome.role = wire_get_u8(w);
	m->welcome.swept = wire_get_u8(w);
	m->welcome.region_id[0] = wire_get_u64(w);
	m->welcome.region_id[1] = wire_get_u64(w);
	m->welcome.region_bytes = wire_get_u64(w);
	m->welcome.meta_bytes = wire_get_u64(w);
	m->welcome.grace_ns = wire_get_u64(w);
	m->welcome.flags = wire_get_u32(w);
	get_array(w, m->welcome.token, sizeof(m->welcome.token));
	get_array(w, m->welcome.tag, sizeof(m->welcome.tag));
	m->welcome.address = wire_get_blob(w, &m->welcome.address_len);
	m->welcome.n_areas = wire_get_u32(w);
	if (w->error)
		return NULL; /* truncated: w->error */
	if (m->welcome.role > MSG_ROLE_RO)
		return "unknown role";
	if (m->welcome.swept > 1)
		return "swept is neither 0 nor 1";
	if (m->welcome.flags & ~MSG_WELCOME_FLAGS)
		return "unknown flags";
	if (m->welcome.address_len > MSG_TEXT_MAX)
		return "address too long";
	for (uint32_t i = 0; i < m->welcome.address_len; i++)
		if (m->welcome.address[i] <= ' ' || m->welcome.address[i] > '~')
			return "address is not printable";
	if (m->welcome.n_areas == 0 || m->welcome.n_areas > MSG_AREAS_MAX)
		return "impossible number of areas";
	for (uint32_t i = 0; i < m->welcome.n_areas; i++) {
		m->welcome.areas[i].off = wire_get_u64(w);
		m->welcome.areas[i].bytes = wire_get_u64(w);
		m->welcome.areas[i].raddr = wire_get_u64(w);
		m->welcome.areas[i].rkey = wire_get_u32(w);
	}
	return NULL;
}

static const char *get_text(struct wire *w, struct msg *m)
{
	m->refuse.reason = wire_get_u16(w);
	m->refuse.text = wire_get_blob(w, &m->refuse.text_len);
	if (m->refuse.reason == 0 || m->refuse.reason > MSG_REASON_LAST)
		return "unknown reason";
	if (m->refuse.reason == MSG_REASON_AUTH && m->refuse.text_len)
		return "text about credentials";
	return m->refuse.text_len > MSG_TEXT_MAX ? "text too long" : NULL;
}

static const char *get_auth(struct wire *w, struct msg *m)
{
	get_array(w, m->auth.nonce, sizeof(m->auth.nonce));
	get_array(w, m->auth.tag, sizeof(m->auth.tag));
	m->auth.name = wire_get_blob(w, &m->auth.name_len);
	/* The server logs this name, so only valid names pass. */
	return w->error || keyfile_name_ok(m->auth.name, m->auth.name_len) ?
		       NULL :
		       "impossible key name";
}

/* A text of at most `cap` bytes into `to`; false if it is longer. */
static bool get_text_into(struct wire *w, uint8_t *to, size_t cap, uint16_t *len_out)
{
	const uint8_t *p = wire_get_blob(w, len_out);

	if (*len_out > cap)
		return false;
	if (p)
		memcpy(to, p, *len_out);
	return true;
}

static const char *get_client(struct wire *w, struct msg *m)
{
	m->client.session = wire_get_u32(w);
	m->client.pid = wire_get_u32(w);
	m->client.flags = wire_get_u8(w);
	m->client.age_ms = wire_get_u64(w);
	m->client.hits = wire_get_u64(w);
	m->client.misses = wire_get_u64(w);
	m->client.sets = wire_get_u64(w);
	if (m->client.flags & ~MSG_CLIENT_FLAGS)
		return "unknown flags";
	if (!get_text_into(w, m->client.name, MSG_CLIENT_NAME_MAX, &m->client.name_len) ||
	    !get_text_into(w, m->client.peer, MSG_CLIENT_PEER_MAX, &m->client.peer_len))
		return "text too long";
	return NULL;
}

/* References have one encoding: fingerprint and flags are 0. */
static const char *check_refs(const struct msg *m)
{
	for (uint32_t i = 0; i < m->blocks.n; i++) {
		uint64_t word = ref_word(m, i);
		struct block_ref ref = slot_block(word);

		if (ref.off == 0 || ref.cls >= CLASS_COUNT ||
		    slot_pack(ref, 0, 0) != word)
			return "impossible block";
		if (m->type == MSG_GRANT && ref.cls != m->blocks.cls)
			return "block of another class";
	}
	return NULL;
}

static const char *get_blocks(struct wire *w, struct msg *m)
{
	m->blocks.cls = wire_get_u8(w);
	m->blocks.state = wire_get_u8(w);
	m->blocks.number = wire_get_u64(w);
	m->blocks.n = wire_get_u32(w);
	if (m->blocks.cls >= CLASS_COUNT)
		return "size class out of range";
	if (m->blocks.state > RETURN_EXHAUSTED)
		return "unknown block state";
	if ((m->blocks.cls && m->type != MSG_GRANT) ||
	    (m->blocks.state && m->type != MSG_RETURN) ||
	    (m->blocks.number && m->type != MSG_SWEEP_QUERY &&
	     m->type != MSG_SWEEP_CLAIM))
		return "a field is set that this message does not use";
	if (m->blocks.n > MSG_REFS_MAX)
		return "too many blocks";
	m->blocks.refs = wire_get_bytes(w, (size_t)m->blocks.n * REF_BYTES);
	return m->blocks.refs ? check_refs(m) : NULL;
}

static const char *get_stats(struct wire *w, struct msg *m)
{
	m->stats.n = wire_get_u32(w);
	if (m->stats.n > MSG_STATS_MAX)
		return "too many statistics";
	for (uint32_t i = 0; i < m->stats.n; i++) {
		m->stats.stat[i].id = wire_get_u16(w);
		m->stats.stat[i].value = wire_get_u64(w);
	}
	return NULL;
}

static const char *get_map(struct wire *w, struct msg *m)
{
	m->map.text = wire_get_blob(w, &m->map.text_len);
	return m->map.text_len > MSG_MAP_MAX ? "the map is too long" : NULL;
}

static const char *get_small(struct wire *w, struct msg *m)
{
	switch (body_of(m->type)) {
	case BODY_GRANT_REQ:
		m->grant_req.cls = wire_get_u8(w);
		m->grant_req.count = wire_get_u32(w);
		if (m->grant_req.cls >= CLASS_COUNT)
			return "size class out of range";
		if (m->grant_req.count == 0 ||
		    m->grant_req.count > MSG_REFS_MAX)
			return "block count out of range";
		break;
	case BODY_HINT:
		m->hint.page = wire_get_u64(w);
		m->hint.gen = wire_get_u32(w);
		m->hint.full = wire_get_u8(w);
		if (m->hint.page >> ENTRY_PAGE_BITS ||
		    m->hint.gen > SLOT_GEN_MASK)
			return "no subtable can be there";
		if (m->hint.full > 1)
			return "full is neither 0 nor 1";
		break;
	case BODY_HINT_REPLY:
		m->hint_reply.status = wire_get_u8(w);
		if (m->hint_reply.status > MSG_HINT_FULL)
			return "unknown hint status";
		break;
	case BODY_PREFIX:
		m->prefix.prefix = wire_get_u32(w);
		break;
	case BODY_EPOCH:
		m->epoch.number = wire_get_u64(w);
		break;
	case BODY_CHALLENGE:
		get_array(w, m->challenge.nonce, sizeof(m->challenge.nonce));
		break;
	default:
		break;
	}
	return NULL;
}

static const char *get_body(struct wire *w, struct msg *m)
{
	switch (body_of(m->type)) {
	case BODY_HELLO:
		return get_hello(w, m);
	case BODY_WELCOME:
		return get_welcome(w, m);
	case BODY_TEXT:
		return get_text(w, m);
	case BODY_BLOCKS:
		return get_blocks(w, m);
	case BODY_STATS:
		return get_stats(w, m);
	case BODY_AUTH:
		return get_auth(w, m);
	case BODY_MAP:
		return get_map(w, m);
	case BODY_CLIENT:
		return get_client(w, m);
	default:
		return get_small(w, m);
	}
}

/* Check the counts that the encoder relies on; other fields are checked afterwards. */
static bool counts_fit(const struct msg *m)
{
	switch (body_of(m->type)) {
	case BODY_BLOCKS:
		return m->blocks.n <= MSG_REFS_MAX;
	case BODY_WELCOME:
		return m->welcome.n_areas <= MSG_AREAS_MAX;
	case BODY_STATS:
		return m->stats.n <= MSG_STATS_MAX;
	case BODY_CLIENT:
		return m->client.name_len <= MSG_CLIENT_NAME_MAX &&
		       m->client.peer_len <= MSG_CLIENT_PEER_MAX;
	default:
		return true;
	}
}

/* Refuse to send what the peer would refuse or read differently. */
static const char *check_encoded(const struct msg *m,
				 const struct block_ref *refs, uint8_t *body,
				 size_t len)
{
	struct wire w = wire_reader(body, len);
	struct msg back = {.type = m->type};
	const char *wrong = get_body(&w, &back);

	if (wrong || body_of(m->type) != BODY_BLOCKS)
		return wrong;
	for (uint32_t i = 0; i < m->blocks.n; i++) {
		struct block_ref ref = msg_ref(&back, i);

		if (ref.off != refs[i].off || ref.cls != refs[i].cls ||
		    ref.inc != refs[i].inc)
			return "impossible block";
	}
	return NULL;
}

int msg_encode(const struct msg *m, const struct block_ref *refs, void *buf,
	       size_t cap, size_t *len_out)
{
	uint8_t *body = (uint8_t *)buf + MSG_HEADER_BYTES;
	struct wire head, w;
	const char *wrong;
	size_t len;

	if (body_of(m->type) == BODY_BAD)
		return err_set(FARKV_EINVAL, "no message of type %u", m->type);
	cap = UTIL_MIN(cap, MSG_MAX_BYTES);
	if (cap < MSG_HEADER_BYTES || !counts_fit(m))
		goto err_room;
	w = wire_writer(body, cap - MSG_HEADER_BYTES);
	put_body(&w, m, refs);
	if (w.error)
		goto err_room;
	len = (size_t)(w.pos - body);
	wrong = check_encoded(m, refs, body, len);
	if (wrong)
		return err_set(FARKV_EINVAL, "%s: %s", msg_type_name(m->type),
			       wrong);
	head = wire_writer(buf, MSG_HEADER_BYTES);
	wire_put_u16(&head, MSG_MAGIC);
	wire_put_u8(&head, m->type);
	wire_put_u8(&head, MSG_PROTOCOL);
	wire_put_u32(&head, (uint32_t)len);
	wire_put_u32(&head, m->req);
	wire_put_u32(&head, message_checksum(buf, MSG_HEADER_BYTES + len));
	*len_out = MSG_HEADER_BYTES + len;
	return 0;

err_room:
	return err_set(FARKV_EINVAL, "%s does not fit a message",
		       msg_type_name(m->type));
}

static int decode_header(struct wire *w, const uint8_t *buf, size_t len,
			 struct msg *m)
{
	uint16_t magic = wire_get_u16(w);
	uint8_t protocol;
	uint32_t body, checksum;

	m->type = wire_get_u8(w);
	protocol = wire_get_u8(w);
	body = wire_get_u32(w);
	m->req = wire_get_u32(w);
	checksum = wire_get_u32(w);
	if (w->error || len > MSG_MAX_BYTES)
		return err_set(FARKV_EPROTOCOL,
			       "message of %zu bytes is too %s", len,
			       w->error ? "short" : "long");
	if (magic != MSG_MAGIC)
		return err_set(FARKV_EPROTOCOL,
			       "message starts with 0x%04x: the peer is not "
			       "farkv",
			       magic);
	if (body != len - MSG_HEADER_BYTES)
		return err_set(FARKV_EPROTOCOL,
			       "message of %zu bytes says its body has %u", len,
			       body);
	if (checksum != message_checksum(buf, len))
		return err_set(FARKV_EPROTOCOL, "message checksum is wrong");
	if (protocol != MSG_PROTOCOL)
		return err_set(FARKV_EPROTOCOL,
			       "protocol version %u, this side speaks %u; use "
			       "the same release on both sides",
			       protocol, MSG_PROTOCOL);
	if (body_of(m->type) == BODY_BAD)
		return err_set(FARKV_EPROTOCOL, "unknown message type %u",
			       m->type);
	return 0;
}

int msg_decode(const void *buf, size_t len, struct msg *out)
{
	struct wire w = wire_reader(buf, len);
	struct msg m = {0};
	const char *wrong;
	int err = decode_header(&w, buf, len, &m);

	if (err)
		return err;
	wrong = get_body(&w, &m);
	if (!wrong && w.error)
		wrong = "cut short";
	if (!wrong && wire_left(&w))
		wrong = "bytes left over";
	if (wrong)
		return err_set(FARKV_EPROTOCOL, "%s: %s",
			       msg_type_name(m.type), wrong);
	*out = m;
	return 0;
}
