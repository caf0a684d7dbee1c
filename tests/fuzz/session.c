/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's session with a hostile server: what the input says arrives, at any
 * moment between two steps of the handle's thread, and within its requests. The
 * handle takes mail, asks for blocks and returns them, writes and reads a small
 * region, is in the middle of an operation, says goodbye.
 *
 * Whatever arrives, the client sends what decodes, takes no block from outside of
 * the region, and comes to an end.
 */
#include "config.h"

#include "fuzz.h"

#include <errno.h>

#include <farkv.h>

#include "client/link.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/hash.h"
#include "fake_clock.h"
#include "fake_control.h"
#include "seal.h"

#define HEAP_PAGES 8u
#define REGION_BYTES (META_ALIGN + (1 + HEAP_PAGES) * PAGE_BYTES)
#define COMMANDS_MAX 200
/* A deadline of this length takes a few thousand looks at the clock. */
#define PATIENCE_NS NS_PER_MS

static struct superblock sb;
static uint8_t *base;
static struct fuzz_in in;
static struct link client;
static bool inside; /* an operation runs */
static uint8_t stuck; /* so many packets find no room */

/* What the client said last. */
static uint32_t last_req;
static uint8_t last_type, asked_class;

/* ---- the region -------------------------------------------------------------- */

static void region_make(void)
{
	sb = (struct superblock){.meta_bytes = META_ALIGN,
				 .region_bytes = REGION_BYTES,
				 .hash_seed = 42,
				 .max_value = 1 << 14,
				 .max_key = 100,
				 .grace_ns = 100 * NS_PER_MS};
	superblock_seal(&sb);
	base = aligned_alloc(4096, REGION_BYTES);
	FUZZ_CHECK(base);
	memset(base, 0, REGION_BYTES);
	*(uint64_t *)(void *)(base + REGION_D_OFF) =
		dirword_pack(REGION_DIR_OFF, 0);
	*(uint64_t *)(void *)(base + REGION_DIR_OFF) =
		entry_pack(META_ALIGN / PAGE_BYTES, 1, 0);
}

static void region_reset(void)
{
	uint64_t *slots = (uint64_t *)(void *)(base + META_ALIGN);

	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		slots[i] = slot_empty(1);
}

/* ---- what the server says ------------------------------------------------------ */

static struct block_ref some_block(uint8_t how)
{
	struct block_ref ref = {.off = META_ALIGN + PAGE_BYTES +
				       fuzz_u8(&in) * 1024u,
				.cls = asked_class};

	if (how & 0x10)
		ref.cls = fuzz_u8(&in) & SLOT_CLASS_MASK;
	if (how & 0x20)
		ref.off = fuzz_u64(&in) & SLOT_PTR_MASK * PTR_UNIT;
	if (how & 0x40)
		ref.inc = fuzz_u16(&in) & SLOT_INC_MASK;
	return ref;
}

/* GRANT or SWEEP_QUERY. */
static size_t blocks_say(uint8_t type, uint8_t *buf)
{
	uint8_t how = fuzz_u8(&in);
	struct msg m = {.type = type, .req = last_req};
	struct block_ref refs[16];
	size_t len;

	m.blocks.n = how & 15;
	for (unsigned i = 0; i < m.blocks.n; i++)
		refs[i] = some_block(how);
	if (type == MSG_GRANT)
		m.blocks.cls = m.blocks.n ? refs[0].cls : asked_class;
	else
		m.blocks.number = fuzz_u8(&in) % 4;
	return msg_encode(&m, refs, buf, MSG_MAX_BYTES, &len) ? 0 : len;
}

/* A message of few fields. */
static size_t small_say(uint8_t type, uint8_t *buf)
{
	struct msg m = {.type = type, .req = last_req};
	size_t n, len;

	switch (type) {
	case MSG_REFUSE:
	case MSG_SHUTDOWN:
		m.refuse.reason = 1 + fuzz_u8(&in) % MSG_REASON_AUTH;
		m.refuse.text = fuzz_bytes(&in, MSG_TEXT_MAX, &n);
		m.refuse.text_len = (uint16_t)n;
		break;
	case MSG_HINT_REPLY:
		m.hint_reply.status = fuzz_u8(&in) % 4;
		break;
	case MSG_STATS:
	case MSG_FSCK:
		m.stats.n = fuzz_u8(&in) % (MSG_STATS_MAX + 1);
		for (unsigned i = 0; i < m.stats.n; i++) {
			m.stats.stat[i].id = fuzz_u8(&in);
			m.stats.stat[i].value = fuzz_u8(&in);
		}
		break;
	default:
		m.epoch.number = fuzz_u8(&in) % 4;
		break;
	}
	return msg_encode(&m, NULL, buf, MSG_MAX_BYTES, &len) ? 0 : len;
}

/* The answer that is waited for. */
static uint8_t answer_type(void)
{
	switch (last_type) {
	case MSG_GRANT_REQ:
		return MSG_GRANT;
	case MSG_HINT:
		return MSG_HINT_REPLY;
	case MSG_STATS_REQ:
		return MSG_STATS;
	case MSG_FSCK_REQ:
		return MSG_FSCK;
	case MSG_PREFIX_REQ:
		return MSG_PREFIX;
	case MSG_BYE:
		return MSG_BYE_ACK;
	default:
		return MSG_PONG;
	}
}

static size_t anything_say(uint8_t *buf)
{
	uint8_t type = fuzz_u8(&in);
	size_t n;
	const uint8_t *body = fuzz_bytes(&in, 255, &n);

	if (type)
		return seal_body(buf, MSG_MAX_BYTES, type, fuzz_u8(&in), body, n);
	memcpy(buf, body, n);
	return n;
}

/* The next message, if there is one; its length. */
static size_t server_says(uint8_t *buf)
{
	static const uint8_t types[] = {
		MSG_GRANT,	 MSG_SWEEP_QUERY, MSG_BARRIER, MSG_SWEEP_BEGIN,
		MSG_SWEEP_END,	 MSG_RECLAIM,	  MSG_PREFIX,  MSG_STATS,
		MSG_BYE_ACK,	 MSG_SHUTDOWN,	  MSG_REFUSE,  MSG_HINT_REPLY,
	};
	uint8_t what = fuzz_u8(&in), type;

	if (what % 16 == 15)
		return anything_say(buf);
	type = what % 16 < 3 ? answer_type() : types[what % 16 % 12];
	if (type == MSG_GRANT || type == MSG_SWEEP_QUERY)
		return blocks_say(type, buf);
	return small_say(type, buf);
}

/* ---- the channel --------------------------------------------------------------- */

static unsigned to_receive;

static ssize_t fake_receive(struct channel *ch, void *buf, size_t cap,
			    struct channel_fds *fds)
{
	uint8_t what;
	size_t n;

	FUZZ_CHECK(!fds && cap == MSG_MAX_BYTES);
	if (!to_receive || !fuzz_left(&in))
		return -1;
	to_receive--;
	what = fuzz_u8(&in);
	if (what == 0xFF) {
		snprintf(ch->why, sizeof(ch->why), "hung up");
		return 0;
	}
	if (what == 0xFE)
		return MSG_MAX_BYTES + 1; /* cut */
	n = server_says(buf);
	return n ? (ssize_t)n : -1;
}

static void pump(unsigned n)
{
	to_receive = n;
	fake_control_ready();
	to_receive = 0;
}

static void check_sent(const struct msg *m)
{
	struct block_ref ref;

	FUZZ_CHECK(m->type < MSG_WELCOME && m->type != MSG_HELLO);
	if (m->type != MSG_RETURN)
		return;
	for (uint32_t i = 0; i < m->blocks.n; i++) {
		ref = msg_ref(m, i);
		FUZZ_CHECK(region_block_ok(&sb, ref.off, ref.cls));
	}
}

/* The answer may be there before the request has been sent, as it seems. */
static int fake_send(struct channel *ch, const void *buf, size_t len)
{
	struct msg m;

	(void)ch;
	if (stuck) {
		stuck--;
		return stuck & 16 ? EPIPE : EAGAIN;
	}
	FUZZ_CHECK(msg_decode(buf, len, &m) == 0);
	check_sent(&m);
	last_type = m.type;
	last_req = m.req;
	if (m.type == MSG_GRANT_REQ)
		asked_class = m.grant_req.cls;
	if (fake_control_runs || !fuzz_left(&in))
		return 0;
	if (client.inv && pthread_mutex_trylock(&client.inv->lock))
		return 0; /* the handle holds what an answer may need */
	if (client.inv)
		pthread_mutex_unlock(&client.inv->lock);
	pump(fuzz_u8(&in) % 4);
	return 0;
}

static void fake_wait_room(struct channel *ch, int ms)
{
	(void)ch;
	fake_clock_advance((uint64_t)ms * NS_PER_MS);
}

static void fake_close(struct channel *ch)
{
	(void)ch;
}

static const struct channel_ops channel_ops = {.send = fake_send,
					       .receive = fake_receive,
					       .wait_room = fake_wait_room,
					       .close = fake_close};

/* ---- the handle's thread -------------------------------------------------------- */

static bool broken(void)
{
	return gate_alerts(session_gate(client.session)) & GATE_BROKEN;
}

/* As a handle begins: sees to alerts first. */
static bool enter(void)
{
	struct gate *g = session_gate(client.session);

	for (int i = 0; i < 100 && !gate_enter(g); i++) {
		gate_leave(g);
		if (gate_alerts(g) & GATE_BROKEN)
			return false;
		if (gate_alerts(g) & GATE_DROP) {
			gate_lower(g, GATE_DROP);
			index_drop_cache(client.index);
		}
		link_attend(&client);
		FUZZ_CHECK(i < 99 || fuzz_left(&in));
		if (i == 99)
			return false;
	}
	inside = true;
	return true;
}

static void leave(void)
{
	gate_leave(session_gate(client.session));
	inside = false;
}

static void operate(void)
{
	static const uint8_t value[600];
	uint8_t how = fuzz_u8(&in), key = fuzz_u8(&in) & 7;
	struct index_key k = {.data = &key, .hash = hash_key(42, &key, 1),
			      .len = 1};
	struct index_op op, *ops = &op;

	index_op_init(&op);
	index_op_start(&op, how % 6, &k, value, how * 2u, 0);
	if (enter()) {
		if (!index_try(client.index, &op))
			index_run(client.index, &ops, 1, UINT64_MAX);
		if (op.result == INDEX_PENDING &&
		    op.wait == INDEX_WAIT_BLOCK)
			(void)link_ask_blocks(&client, op.cls, clock_now_ns(),
					      0);
		index_abandon(client.index, &op, FARKV_ETIMEDOUT);
		leave();
	}
	index_op_fini(client.index, &op);
}

static void call(void)
{
	static const uint8_t types[][2] = {{MSG_STATS_REQ, MSG_STATS},
					   {MSG_HINT, MSG_HINT_REPLY},
					   {MSG_FSCK_REQ, MSG_FSCK},
					   {MSG_PING, MSG_PONG}};
	unsigned which = fuzz_u8(&in) % 4;
	struct msg m = {.type = types[which][0]}, answer;

	err_clear();
	if (session_call(client.session, &m, types[which][1], &answer,
			 clock_now_ns() + PATIENCE_NS))
		FUZZ_CHECK(fuzz_detail_ok());
	else
		FUZZ_CHECK(answer.type == types[which][1]);
}

static void ask(void)
{
	uint8_t cls = fuzz_u8(&in) % 40;

	if (!client.readonly && enter()) {
		(void)link_ask_blocks(&client, cls, clock_now_ns(), cls & 3);
		link_return_surplus(&client);
		link_ask_prefix(&client, cls & 8 ? UINT32_MAX : 10);
		leave();
	}
}

static void act(void)
{
	uint8_t what = fuzz_u8(&in);

	switch (what % 8) {
	case 0:
	case 1:
	case 2:
		pump(what >> 4);
		break;
	case 3:
		fake_clock_advance((what >> 3) * NS_PER_MS);
		fake_control_tick();
		break;
	case 4:
		stuck = what >> 3;
		break;
	case 5:
		if (inside)
			leave();
		else
			(void)enter();
		break;
	case 6:
		if (inside)
			leave();
		operate();
		break;
	default:
		if (inside)
			leave();
		if (what & 8)
			ask();
		else
			call();
		break;
	}
}

/* ---- life --------------------------------------------------------------------------- */

static struct channel channel = {.ops = &channel_ops, .fd = -1};

static void begin(uint8_t how)
{
	client = (struct link){.sb = &sb, .readonly = how & 1};
	channel.pollable = !(how & 2);
	stuck = last_type = asked_class = 0;
	last_req = 0;
	inside = false;
	client.lane = xport_shm_open(base, REGION_BYTES, client.readonly);
	FUZZ_CHECK(client.lane);
	if (!client.readonly) {
		client.inv = inventory_new(sb.grace_ns, REGION_BYTES);
		FUZZ_CHECK(client.inv);
		client.alloc = client.inv->alloc;
	}
	FUZZ_CHECK(index_open(&sb, client.lane, client.alloc, UINT64_MAX,
			      &client.index) == 0);
	FUZZ_CHECK(session_new(&channel, &sb, client.lane, client.inv,
			       &client.session) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!base)
		region_make();
	in = fuzz_begin(data, size);
	fake_clock_reset();
	region_reset();
	begin(fuzz_u8(&in));
	for (int i = 0; i < COMMANDS_MAX && fuzz_left(&in); i++)
		act();
	if (inside)
		leave();
	if (broken())
		FUZZ_CHECK(session_why(client.session) == FARKV_EDISCONNECTED &&
			   fuzz_detail_ok());
	link_farewell(&client, clock_now_ns() + PATIENCE_NS);
	link_close(&client);
	return 0;
}
