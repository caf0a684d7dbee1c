/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's control loop and up to four clients that say and do what the input
 * wants, without sockets: messages in any order, made of what the server said
 * before or of anything; the region scribbled on; connections that take nothing or
 * end; time that passes.
 *
 * Whatever they do, the server decodes or refuses, sends what decodes, hands no
 * block to two who tell the truth, and its books agree at the end.
 */
#include "config.h"

#include "fuzz.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "common/proto/auth.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/region/hash.h"
#include "fake_clock.h"
#include "seal.h"
#include "common/proto/keyfile.h"
#include "server/loop/control.h"
#include "server/loop/core.h"
#include "server/loop/dispatch.h"
#include "server/loop/grow.h"
#include "server/loop/session.h"
#include "server/loop/welcome.h"
#include "server/memory/slab_marks.h"

#define PEERS 4
#define HELD_MAX 256
#define COMMANDS_MAX 200
#define MEMORY (UINT64_C(1) << 20)

struct peer {
	struct session *s; /* NULL: not connected */
	uint8_t stuck;     /* this many packets find no room */
	struct block_ref held[HELD_MAX]; /* granted, and not returned */
	unsigned n_held;
	uint64_t barrier, sweep; /* numbers received last */
	struct block_ref query[MSG_REFS_MAX];
	unsigned n_query;
	uint32_t query_req;
	uint8_t nonce[MSG_NONCE_BYTES];
	uint8_t hello[256];
	size_t hello_len;
	bool proved; /* it proved its key */
};

static struct peer peers[PEERS];
static struct region region;
static struct control *control;
static struct keyfile *keys;
static struct fuzz_in in;
static uint32_t last_id; /* session welcomed last */
/* No sweep has begun and no client has died: each block has one holder. */
static bool honest;
static uint8_t holder[(MEMORY + PAGE_BYTES) / PTR_UNIT];

/* ---- messages of the server --------------------------------------------------------- */

static uint8_t *holder_of(struct block_ref ref)
{
	FUZZ_CHECK(region_block_ok(&region.sb, ref.off, ref.cls));
	return &holder[(ref.off - region.sb.meta_bytes) / PTR_UNIT];
}

static void on_grant(struct peer *p, const struct msg *m)
{
	for (uint32_t i = 0; i < m->blocks.n; i++) {
		struct block_ref ref = msg_ref(m, i);
		uint8_t *h = holder_of(ref);

		for (uint64_t k = 0; k < class_bytes(ref.cls) / PTR_UNIT; k++) {
			FUZZ_CHECK(!honest || !h[k]);
			h[k] = 1;
		}
		if (p->n_held < HELD_MAX)
			p->held[p->n_held++] = ref;
	}
}

static void on_query(struct peer *p, const struct msg *m)
{
	p->sweep = m->blocks.number;
	p->query_req = m->req;
	p->n_query = m->blocks.n;
	for (uint32_t i = 0; i < m->blocks.n; i++)
		p->query[i] = msg_ref(m, i);
}

static void hear(struct peer *p, const struct msg *m)
{
	switch (m->type) {
	case MSG_WELCOME:
		last_id = m->welcome.session;
		break;
	case MSG_CHALLENGE:
		memcpy(p->nonce, m->challenge.nonce, sizeof(p->nonce));
		break;
	case MSG_GRANT:
		on_grant(p, m);
		break;
	case MSG_BARRIER:
		p->barrier = m->epoch.number;
		break;
	case MSG_SWEEP_BEGIN:
		p->sweep = m->epoch.number;
		honest = false;
		break;
	case MSG_SWEEP_QUERY:
		on_query(p, m);
		break;
	default:
		break;
	}
}

static int peer_send(void *conn, const void *buf, size_t len, const int *fds,
		     int n_fds)
{
	struct peer *p = conn;
	struct msg m;

	(void)fds;
	if (p->stuck) {
		p->stuck--;
		return p->stuck & 16 ? EPIPE : EAGAIN;
	}
	FUZZ_CHECK(msg_decode(buf, len, &m) == 0);
	FUZZ_CHECK(m.type >= MSG_WELCOME);
	FUZZ_CHECK(p->s->welcomed || m.type == MSG_CHALLENGE ||
		   m.type == MSG_REFUSE || m.type == MSG_SHUTDOWN);
	FUZZ_CHECK((m.type == MSG_WELCOME) == (n_fds == 3));
	hear(p, &m);
	return 0;
}

static void peer_fence(void *conn)
{
	FUZZ_CHECK(((struct peer *)conn)->s);
}

static void peer_close(void *conn)
{
	struct peer *p = conn;

	if (p->n_held)
		honest = false;
	*p = (struct peer){0};
}

static const char *peer_name(void *conn, char *buf, size_t cap)
{
	snprintf(buf, cap, "peer %d", (int)((struct peer *)conn - peers));
	return buf;
}

static const struct conn_ops port = {.send = peer_send,
					 .fence = peer_fence,
					 .close = peer_close,
					 .peer = peer_name};

/*
 * ---- messages of clients --------------------------------------------------------------
 */

static void packet(struct peer *p, const void *buf, size_t len)
{
	uint8_t *copy = malloc(len + !len);

	FUZZ_CHECK(copy);
	memcpy(copy, buf, len);
	err_clear();
	if (dispatch_packet(p->s, copy, len))
		FUZZ_CHECK(p->s && (!control->cfg.keys || p->proved ||
				    !p->s->welcomed));
	free(copy);
}

static void say(struct peer *p, struct msg *m, const struct block_ref *refs)
{
	uint8_t buf[MSG_MAX_BYTES];
	size_t len;

	if (msg_encode(m, refs, buf, sizeof(buf), &len))
		return;
	if (m->type == MSG_HELLO) {
		p->hello_len = len - MSG_HEADER_BYTES;
		memcpy(p->hello, buf + MSG_HEADER_BYTES, p->hello_len);
	}
	packet(p, buf, len);
}

static void connect_peer(struct peer *p)
{
	static const pid_t pids[] = {0x3FFFFFFF, 0x3FFFFFFE, -1, 0};
	unsigned which = fuzz_u8(&in) % 4;

	p->s = session_new(control, &port, p);
	FUZZ_CHECK(p->s);
	p->s->pid = which == 2 ? getpid() : pids[which];
	welcome_begin(p->s);
}

static void say_hello(struct peer *p)
{
	uint8_t how = fuzz_u8(&in);
	struct msg m = {.type = MSG_HELLO, .req = 1};
	size_t n;

	m.hello.role = how & 1;
	if (how & 2)
		m.hello.replaces = last_id - fuzz_u8(&in) % 4;
	memcpy(m.hello.replaces_region, region.sb.region_id,
	       sizeof(m.hello.replaces_region));
	m.hello.name = fuzz_bytes(&in, how & 4 ? MSG_TEXT_MAX : 4, &n);
	m.hello.name_len = (uint16_t)n;
	say(p, &m, NULL);
}

static void say_auth(struct peer *p)
{
	static const char *const names[] = {"writer", "reader", "nobody"};
	uint8_t how = fuzz_u8(&in);
	const char *name = names[how % 3];
	const struct key *key = keyfile_find(keys, name, strlen(name));
	struct msg m = {.type = MSG_AUTH, .req = 1};
	struct auth_client a = {.server_nonce = p->nonce,
				.client_nonce = m.auth.nonce,
				.name = name,
				.name_len = (uint16_t)strlen(name),
				.hello = p->hello,
				.hello_len = (uint16_t)p->hello_len,
				.role = p->s->hello.role};

	m.auth.name = (const uint8_t *)name;
	m.auth.name_len = a.name_len;
	if (key)
		auth_client_tag(key, &a, m.auth.tag);
	if (how & 0x80)
		m.auth.tag[how & 31] ^= 1;
	p->proved = key && !(how & 0x80);
	say(p, &m, NULL);
}

/* Some of its blocks, or similar ones. */
static void say_return(struct peer *p)
{
	uint8_t n = fuzz_u8(&in) % 32, how = fuzz_u8(&in);
	struct msg m = {.type = MSG_RETURN, .blocks = {.state = how % 3}};
	struct block_ref refs[32];

	for (; m.blocks.n < n && p->n_held; m.blocks.n++) {
		struct block_ref *r = &refs[m.blocks.n];

		*r = p->held[--p->n_held];
		if (how & 4)
			memset(holder_of(*r), 0,
			       class_bytes(r->cls) / PTR_UNIT);
		if (!(how & 4)) /* twice, perhaps */
			p->n_held += how >> 7;
		honest = honest && (how & 4);
		if (how & 8)
			r->inc = (uint16_t)(r->inc + fuzz_u8(&in) * 16);
		if (how & 16)
			r->off += fuzz_u16(&in) * PTR_UNIT;
		if (how & 32)
			r->cls = fuzz_u8(&in);
		if (how & 0x38)
			honest = false;
	}
	say(p, &m, refs);
}

static void say_hint(struct peer *p)
{
	uint8_t how = fuzz_u8(&in);
	uint64_t entry = region_entry(&region, (uint64_t)how << 56);
	struct msg m = {.type = MSG_HINT,
			.req = 2,
			.hint = {.page = entry_page(entry),
				 .gen = entry_gen(entry),
				 .full = how & 1}};

	if (how & 2)
		m.hint.page = fuzz_u32(&in) & ((1u << ENTRY_PAGE_BITS) - 1);
	if (how & 4)
		m.hint.gen = fuzz_u32(&in) & SLOT_GEN_MASK;
	say(p, &m, NULL);
}

static void say_small(struct peer *p)
{
	static const uint8_t types[] = {MSG_PREFIX_REQ, MSG_STATS_REQ, MSG_PING,
					MSG_BYE, MSG_FSCK_REQ, MSG_CLIENT_REQ, MSG_KILL,
					MSG_CLASS_REQ, MSG_PAUSE_REQ};
	struct msg m = {.type = types[fuzz_u8(&in) % sizeof(types)], .req = 3};

	if (m.type >= MSG_CLIENT_REQ)
		m.epoch.number = last_id - fuzz_u8(&in) % 4;
	if (m.type == MSG_BYE && p->n_held)
		honest = false;
	say(p, &m, NULL);
}

static void say_grant(struct peer *p)
{
	struct msg m = {.type = MSG_GRANT_REQ, .req = 4};

	m.grant_req.cls = fuzz_u8(&in) % CLASS_COUNT;
	m.grant_req.count = fuzz_u8(&in) + 1u;
	say(p, &m, NULL);
}

static void say_ack(struct peer *p, bool sweep)
{
	struct msg m = {.type = sweep ? MSG_SWEEP_ACK : MSG_BARRIER_ACK};

	m.epoch.number = (sweep ? p->sweep : p->barrier) + fuzz_u8(&in) % 4;
	if (m.epoch.number)
		m.epoch.number--;
	else
		m.epoch.number = fuzz_u64(&in);
	say(p, &m, NULL);
}

static void say_claim(struct peer *p)
{
	uint8_t how = fuzz_u8(&in);
	struct msg m = {.type = MSG_SWEEP_CLAIM, .req = p->query_req};
	struct block_ref refs[MSG_REFS_MAX];

	m.blocks.number = p->sweep;
	if (how & 1)
		m.req = fuzz_u8(&in) % 4;
	if (how & 2)
		m.blocks.number += fuzz_u8(&in) - 2u;
	for (unsigned i = 0; i < p->n_query && !(how & 4); i++)
		if (!(how & 8) || fuzz_u8(&in) & 1)
			refs[m.blocks.n++] = p->query[i];
	for (unsigned i = 0; i < p->n_held && (how & 16); i++)
		if (m.blocks.n < MSG_REFS_MAX)
			refs[m.blocks.n++] = p->held[i];
	say(p, &m, refs);
}

/* Any type with any body, with a correct header or not. */
static void say_anything(struct peer *p)
{
	uint8_t type = fuzz_u8(&in), buf[512];
	size_t n, len;
	const uint8_t *body = fuzz_bytes(&in, 255, &n);

	honest = honest && type != MSG_RETURN && type != MSG_BYE &&
		 type != MSG_SWEEP_CLAIM;
	if (type == 0) {
		packet(p, body, n);
		return;
	}
	len = seal_body(buf, sizeof(buf), type, 5, body, n);
	packet(p, buf, len);
}

/*
 * ---- other events ---------------------------------------------------------------------
 */

/* A word that leads to one of its blocks, or anywhere. */
static void scribble_slots(struct peer *p)
{
	uint8_t how = fuzz_u8(&in);
	uint64_t entry = region_entry(&region, (uint64_t)how << 56);
	uint64_t *slots = region_slots(&region, entry);
	unsigned at = fuzz_u16(&in) % SUBTABLE_SLOTS, n = 1;
	uint64_t w = fuzz_u64(&in);

	honest = false;
	if (how & 1 && p->n_held)
		w = slot_pack(p->held[w % p->n_held], (uint32_t)(w >> 56),
			      w & (SLOT_DEAD | SLOT_BLIND | SLOT_FROZEN));
	if (how & 2)
		n = WINDOW_SLOTS * (1 + (how >> 2));
	for (; n && at < SUBTABLE_SLOTS; n--, at++)
		slots[at] = w;
}

/* A whole item: its block and its word, in its window, as a client writes it. */
static void store_item(struct peer *p)
{
	uint8_t how = fuzz_u8(&in), key[8] = {fuzz_u8(&in), fuzz_u8(&in)};
	uint64_t hash = hash_key(region.sb.hash_seed, key, sizeof(key));
	uint64_t *slots = region_slots(&region, region_entry(&region, hash));
	struct block_ref ref;

	if (!p->n_held)
		return;
	honest = false; /* the server may take its tombstone over */
	ref = p->held[how % p->n_held];
	if (class_bytes(ref.cls) < block_room(sizeof(key), 4))
		return;
	block_encode(region_at(&region, ref.off), ref, 1,
		     &(struct block_pair){.key = key, .key_hash = hash,
					  .key_len = sizeof(key),
					  .value = "abcd", .value_len = 4});
	slots += hash_home_line(hash) * LINE_SLOTS;
	slots[fuzz_u8(&in) % 4] =
		slot_pack(ref, hash_fp(hash),
			  how & 0x80 ? SLOT_DEAD | SLOT_BLIND : SLOT_BLIND);
}

static void scribble_bytes(void)
{
	uint64_t size = region.sb.region_bytes - region.sb.meta_bytes;
	uint64_t at = fuzz_u32(&in) % size;
	size_t n;
	const uint8_t *p = fuzz_bytes(&in, 64, &n);

	if (n > size - at)
		n = size - at;
	memcpy(region.data + at, p, n);
}

static void pass_time(void)
{
	uint8_t how = fuzz_u8(&in);

	fake_clock_advance((how & 15) * (how & 16 ? NS_PER_SEC : NS_PER_MS));
	for (int i = 0; i <= how >> 5; i++)
		event_base_loop(control->base, EVLOOP_NONBLOCK);
}

static void get_stuck(struct peer *p)
{
	uint8_t how = fuzz_u8(&in);

	p->stuck = how & 31;
	if (how & 32 && p->s && !session_flush(p->s))
		session_end(p->s);
	if (how >> 6 == 3) /* as SIGTERM would */
		event_active(control->on_term, EV_SIGNAL, 1);
}

static void speak(struct peer *p, uint8_t command)
{
	switch (command) {
	case 0:
		say_hello(p);
		break;
	case 1:
		say_auth(p);
		break;
	case 2:
		say_grant(p);
		break;
	case 3:
		say_return(p);
		break;
	case 4:
		say_hint(p);
		break;
	case 5:
		say_small(p);
		break;
	case 6:
	case 7:
		say_ack(p, command == 7);
		break;
	case 8:
		say_claim(p);
		break;
	case 9:
		session_end(p->s);
		break;
	default:
		say_anything(p);
		break;
	}
}

static void act(void)
{
	uint8_t what = fuzz_u8(&in), command = what >> 2 & 31;
	struct peer *p = &peers[what % PEERS];

	if (!p->s && command < 16)
		connect_peer(p);
	if (command < 16 && p->s)
		speak(p, command);
	else if (command < 20)
		pass_time();
	else if (command < 23)
		scribble_slots(p);
	else if (command < 27)
		store_item(p);
	else if (command < 30)
		scribble_bytes();
	else
		get_stuck(p);
}

/* ---- setup and teardown ------------------------------------------------------------ */

static void keys_load(void)
{
	static const char text[] =
		"writer rw AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"
		"reader ro ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n";

	FUZZ_CHECK(keyfile_load(fuzz_file(text, sizeof(text) - 1), &keys) == 0);
	signal(SIGPIPE, SIG_IGN);
}

static void begin(uint8_t how)
{
	static const struct region_config rc = {.memory = MEMORY,
						.max_value = 1 << 16,
						.max_key = 1000,
						.grace_ns = 20 * NS_PER_MS};
	struct control_config cc = {.max_sessions = 3,
				    .drain_ms = 100,
				    .hello_ms = 1000,
				    .keys = how & 1 ? keys : NULL,
				    .keys_on_socket = true};

	FUZZ_CHECK(region_create(&rc, &region) == 0);
	/* Chosen by chance there, and so that hashes differ from run to run. */
	region.sb.hash_seed = 42;
	region.sb.region_id[0] = region.sb.region_id[1] = 7;
	superblock_seal(&region.sb);
	memcpy(region.meta, &region.sb, sizeof(region.sb));
	FUZZ_CHECK(control_new(&cc, &region, &control) == 0);
	memset(holder, 0, sizeof(holder));
	memset(peers, 0, sizeof(peers));
	last_id = 0;
	honest = true;
}

static void check_books(void)
{
	const struct heap *h = region.heap;
	struct slab_counts b = slab_count(control->slab);

	FUZZ_CHECK(slab_audit(control->slab));
	FUZZ_CHECK(region.subtables + grow_pages(control) + b.pages +
			   heap_retired(h) ==
		   heap_used(h));
	FUZZ_CHECK(heap_used(h) <= heap_total(h));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!keys)
		keys_load();
	in = fuzz_begin(data, size);
	fake_clock_reset();
	begin(fuzz_u8(&in));
	for (int i = 0; i < COMMANDS_MAX && fuzz_left(&in); i++)
		act();
	for (int i = 0; i < 8; i++)
		event_base_loop(control->base, EVLOOP_NONBLOCK);
	check_books();
	control_free(control);
	region_destroy(&region);
	return 0;
}
