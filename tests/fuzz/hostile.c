/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "hostile.h"

#include <errno.h>

#include "common/base/clock.h"
#include "common/region/hash.h"
#include "common/proto/msg.h"
#include "fake_clock.h"
#include "fake_control.h"
#include "seal.h"

#define HEAP_PAGES 8u
#define REGION_BYTES (META_ALIGN + (1 + HEAP_PAGES) * PAGE_BYTES)

struct fuzz_in hostile_in;
struct superblock hostile_sb;
uint8_t *hostile_base;
pthread_mutex_t *(*hostile_lock)(void);

static uint8_t stuck; /* this many packets find no room */
static unsigned to_receive;
/* The client's last message. */
static uint32_t last_req;
static uint8_t last_type, asked_class;

/* ---- the region -------------------------------------------------------------- */

static uint64_t *word_at(uint64_t off)
{
	return (uint64_t *)(void *)(hostile_base + off);
}

static void region_make(void)
{
	hostile_sb = (struct superblock){.meta_bytes = META_ALIGN,
					 .region_bytes = REGION_BYTES,
					 .region_id = {1, 2},
					 .hash_seed = 42,
					 .max_value = 1 << 14,
					 .max_key = 100,
					 .grace_ns = 100 * NS_PER_MS};
	superblock_seal(&hostile_sb);
	hostile_base = aligned_alloc(4096, REGION_BYTES);
	FUZZ_CHECK(hostile_base);
	memset(hostile_base, 0, REGION_BYTES);
	memcpy(hostile_base, &hostile_sb, sizeof(hostile_sb));
	*word_at(REGION_D_OFF) = dirword_pack(REGION_DIR_OFF, 0);
	*word_at(REGION_DIR_OFF) = entry_pack(META_ALIGN / PAGE_BYTES, 1, 0);
}

static void region_reset(void)
{
	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
		word_at(META_ALIGN)[i] = slot_empty(1);
	memset(hostile_base + META_ALIGN + PAGE_BYTES, 0,
	       HEAP_PAGES * PAGE_BYTES);
}

struct index_key hostile_key(unsigned i)
{
	static const uint8_t keys[HOSTILE_KEYS] = "abcdefgh";
	const uint8_t *p = &keys[i % HOSTILE_KEYS];

	return (struct index_key){.data = p,
				  .hash = hash_key(hostile_sb.hash_seed, p, 1),
				  .len = 1};
}

/* ---- messages of the server -------------------------------------------------------- */

static struct block_ref some_block(uint8_t how)
{
	struct block_ref ref = {.off = META_ALIGN + PAGE_BYTES +
				       fuzz_u8(&hostile_in) * 1024u,
				.cls = asked_class};

	if (how & 0x10)
		ref.cls = fuzz_u8(&hostile_in) & SLOT_CLASS_MASK;
	if (how & 0x20)
		ref.off = fuzz_u64(&hostile_in) & SLOT_PTR_MASK * PTR_UNIT;
	if (how & 0x40)
		ref.inc = fuzz_u16(&hostile_in) & SLOT_INC_MASK;
	return ref;
}

/* GRANT or SWEEP_QUERY. */
static size_t blocks_say(uint8_t type, uint8_t *buf)
{
	uint8_t how = fuzz_u8(&hostile_in);
	struct msg m = {.type = type, .req = last_req};
	struct block_ref refs[16];
	size_t len;

	m.blocks.n = how & 15;
	for (unsigned i = 0; i < m.blocks.n; i++)
		refs[i] = some_block(how);
	if (type == MSG_GRANT)
		m.blocks.cls = m.blocks.n ? refs[0].cls : asked_class;
	else
		m.blocks.number = fuzz_u8(&hostile_in) % 4;
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
		m.refuse.reason = 1 + fuzz_u8(&hostile_in) % MSG_REASON_LAST;
		m.refuse.text = fuzz_bytes(&hostile_in, MSG_TEXT_MAX, &n);
		m.refuse.text_len = (uint16_t)n;
		break;
	case MSG_HINT_REPLY:
		m.hint_reply.status = fuzz_u8(&hostile_in) % 4;
		break;
	case MSG_STATS:
	case MSG_FSCK:
	case MSG_CLASS:
	case MSG_PAUSE:
		m.stats.n = fuzz_u8(&hostile_in) % (MSG_STATS_MAX + 1);
		for (unsigned i = 0; i < m.stats.n; i++) {
			m.stats.stat[i].id = fuzz_u8(&hostile_in);
			m.stats.stat[i].value = fuzz_u8(&hostile_in);
		}
		break;
	case MSG_CLIENT:
		m.client.session = fuzz_u8(&hostile_in);
		m.client.name_len = fuzz_u8(&hostile_in) % (MSG_CLIENT_NAME_MAX + 1);
		break;
	default:
		m.epoch.number = fuzz_u8(&hostile_in) % 4;
		break;
	}
	return msg_encode(&m, NULL, buf, MSG_MAX_BYTES, &len) ? 0 : len;
}

/* The awaited answer. */
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
	case MSG_CLIENT_REQ:
		return MSG_CLIENT;
	case MSG_KILL:
		return MSG_KILLED;
	case MSG_CLASS_REQ:
		return MSG_CLASS;
	case MSG_PAUSE_REQ:
		return MSG_PAUSE;
	default:
		return MSG_PONG;
	}
}

static size_t anything_say(uint8_t *buf)
{
	uint8_t type = fuzz_u8(&hostile_in);
	size_t n;
	const uint8_t *body = fuzz_bytes(&hostile_in, 255, &n);

	if (type)
		return seal_body(buf, MSG_MAX_BYTES, type, fuzz_u8(&hostile_in), body, n);
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
	uint8_t what = fuzz_u8(&hostile_in), type;

	if (what % 16 == 15)
		return anything_say(buf);
	type = what % 16 < 3 ? answer_type() : types[what % 16 % 12];
	if (type == MSG_GRANT || type == MSG_SWEEP_QUERY)
		return blocks_say(type, buf);
	return small_say(type, buf);
}

/* ---- the channel --------------------------------------------------------------- */

static ssize_t fake_receive(struct channel *ch, void *buf, size_t cap,
			    struct channel_fds *fds)
{
	uint8_t what;
	size_t n;

	FUZZ_CHECK(!fds && cap == MSG_MAX_BYTES);
	if (!to_receive || !fuzz_left(&hostile_in))
		return -1;
	to_receive--;
	what = fuzz_u8(&hostile_in);
	if (what == 0xFF) {
		snprintf(ch->reason, sizeof(ch->reason), "hung up");
		return 0;
	}
	if (what == 0xFE)
		return MSG_MAX_BYTES + 1; /* cut */
	n = server_says(buf);
	return n ? (ssize_t)n : -1;
}

/* False if the control thread would have to wait for the client's thread now. */
static bool lock_free(void)
{
	pthread_mutex_t *lock = hostile_lock ? hostile_lock() : NULL;

	if (!lock)
		return true;
	if (pthread_mutex_trylock(lock))
		return false;
	pthread_mutex_unlock(lock);
	return true;
}

void hostile_pump(unsigned n)
{
	if (fake_control_runs || !lock_free())
		return;
	to_receive = n;
	fake_control_ready();
	to_receive = 0;
}

/* No thread waits for the server with the lock held. */
static void on_idle(void)
{
	FUZZ_CHECK(lock_free());
	if (fuzz_left(&hostile_in))
		hostile_pump(1);
	fake_control_tick();
}

static void check_sent(const struct msg *m)
{
	struct block_ref ref;

	FUZZ_CHECK(m->type < MSG_WELCOME && m->type != MSG_HELLO);
	if (m->type != MSG_RETURN)
		return;
	for (uint32_t i = 0; i < m->blocks.n; i++) {
		ref = msg_ref(m, i);
		FUZZ_CHECK(region_block_ok(&hostile_sb, ref.off, ref.cls));
	}
}

/* The answer may arrive before the send has returned. */
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
	if (fake_control_runs || !fuzz_left(&hostile_in))
		return 0;
	hostile_pump(fuzz_u8(&hostile_in) % 4);
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

/* ---- for the target -------------------------------------------------------------- */

struct channel *hostile_channel(bool pollable)
{
	static struct channel channel;

	channel = (struct channel){.ops = &channel_ops,
				   .fd = -1,
				   .pollable = pollable};
	return &channel;
}

void hostile_stuck(uint8_t n)
{
	stuck = n & 31;
}

void hostile_scribble(void)
{
	struct index_key k = hostile_key(fuzz_u8(&hostile_in));
	uint8_t how = fuzz_u8(&hostile_in);
	struct block_ref ref = some_block(how);
	uint64_t *slot = &word_at(META_ALIGN)[hash_home_line(k.hash) *
						      LINE_SLOTS + how % 4];

	*slot = slot_pack(ref, hash_fp(k.hash),
			  (uint64_t)(fuzz_u8(&hostile_in) & 7) << 53);
	if ((how & 8) && region_block_ok(&hostile_sb, ref.off, ref.cls))
		block_encode(hostile_base + ref.off, ref, 9,
			     &(struct block_pair){.key = k.data, .key_hash = k.hash,
						  .key_len = k.len,
						  .value = "", .value_len = 0});
	else if (how & 0x80)
		*slot = fuzz_u64(&hostile_in);
}

void hostile_begin(const uint8_t *data, size_t size)
{
	if (!hostile_base)
		region_make();
	hostile_in = fuzz_begin(data, size);
	fake_clock_reset();
	fake_clock_idle = on_idle;
	region_reset();
	stuck = last_type = asked_class = 0;
	last_req = 0;
	hostile_lock = NULL;
}
