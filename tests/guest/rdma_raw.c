/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of its own making, for what libfarkv would never do: asks a server's
 * card for what it must refuse, and a server for sessions without a right to one.
 *
 *	rdma_raw CASE ADDRESS PORT [KEYFILE]
 *
 * 0: as it must be. 1: one line on stderr says what was not.
 */
#include "config.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "common/index/alloc.h"
#include "common/proto/auth.h"
#include "common/base/err.h"
#include "common/base/util.h"

#include "rdma_peer.h"

#define TARGET_BYTES 64u
/* Wait for events that are due after five or ten seconds, on a busy machine. */
#define LATE_NS (30 * NS_PER_SEC)

static const char *keys_path;

/* ---- lanes --------------------------------------------------------------- */

/* A lane with these areas that asks for everything, whatever the role. */
static struct xport_lane *lane_open(struct client *c,
				    const struct verbs_area *areas)
{
	struct verbs_lane_params p = {
		.areas = areas,
		.n_areas = 2,
		.region_bytes = areas[1].off + areas[1].bytes,
		.session = c->m.welcome.session,
		.token = c->m.welcome.token,
		.deadline_ns = clock_now_ns() + WAIT_NS};
	struct xport_lane *lane;

	if (verbs_lane_open(c->link, &p, &lane))
		die("%s", err_detail());
	return lane;
}

/* One request of `len` bytes at `off`; its status. */
static int lane_request(struct xport_lane *lane, uint8_t opcode, uint64_t off,
			uint8_t *bytes)
{
	uint32_t len = opcode == XPORT_CAS ? 8 : TARGET_BYTES;
	struct xport_chain c = {.n = 1};
	uint64_t until = clock_now_ns() + WAIT_NS;
	uint8_t *mem = xport_mem_alloc(lane, len);
	int err;

	c.wr[0] = (struct xport_wr){.opcode = opcode, .len = len, .off = off,
				    .laddr = mem, .expect = 0, .swap = 1};
	memcpy(mem, bytes, len);
	err = xport_post(lane, &c);
	while (!err && !c.done) {
		xport_poll(lane);
		if (clock_now_ns() > until)
			die("a request never ends");
	}
	if (opcode == XPORT_READ)
		memcpy(bytes, mem, len);
	return err ? err : c.status;
}

/* A writer's session, and bytes in the middle of the region that nobody else uses. */
struct witness {
	struct client client;
	struct xport_lane *lane;
	struct verbs_area areas[2];
	uint64_t target; /* offset */
	uint8_t bytes[TARGET_BYTES];
};

static void witness_open(struct witness *w)
{
	client_welcome(&w->client, MSG_ROLE_RW);
	client_areas(&w->client, w->areas);
	w->lane = lane_open(&w->client, w->areas);
	w->target = w->areas[1].off + w->areas[1].bytes / 2;
	memset(w->bytes, 0, sizeof(w->bytes));
	memset(w->bytes + 8, 0x5a, sizeof(w->bytes) - 8);
	if (lane_request(w->lane, XPORT_WRITE, w->target, w->bytes))
		die("a writer's WRITE fails: %s", err_detail());
}

static void witness_look(struct witness *w, const char *what)
{
	uint8_t now[TARGET_BYTES] = {0};

	if (lane_request(w->lane, XPORT_READ, w->target, now))
		die("a writer's READ fails: %s", err_detail());
	if (memcmp(now, w->bytes, sizeof(now)) != 0)
		die("%s: refused, but the bytes have changed", what);
}

/* ---- cases --------------------------------------------------------------- */

/* A control connection never has a right, welcomed or not, whatever it knows. */
static void case_control(void)
{
	struct witness w;
	uint64_t raddr;

	witness_open(&w);
	raddr = w.areas[1].raddr + (w.target - w.areas[1].off);
	for (unsigned i = 0; i < 2 * RAW_REQUESTS; i++) {
		unsigned which = i / 2;
		bool welcomed = i % 2;
		struct verbs_private p;
		enum ibv_wc_status st;
		struct raw r;

		verbs_private_fill(&p, VERBS_CONTROL);
		if (raw_dial(&r, &p, sizeof(p)))
			die("a control connection was rejected");
		if (welcomed)
			raw_welcome(&r);
		st = raw_request(&r, which, raddr, w.areas[1].rkey);
		printf("%s %s WELCOME: %s\n", raw_requests[which].name,
		       welcomed ? "after" : "before", ibv_wc_status_str(st));
		if (st != IBV_WC_REM_ACCESS_ERR && st != IBV_WC_REM_INV_REQ_ERR)
			die("%s on a control connection: %s",
			    raw_requests[which].name, ibv_wc_status_str(st));
		raw_hang_up(&r);
		witness_look(&w, raw_requests[which].name);
	}
	xport_close(w.lane);
	verbs_ctrl_close(w.client.link);
}

static int data_attempt(uint32_t session, const uint8_t *token, int spoil)
{
	struct verbs_private p;
	size_t len = sizeof(p);
	struct raw r;
	int reason;

	verbs_private_fill(&p, VERBS_DATA);
	p.session = htonl(session);
	memcpy(p.token, token, sizeof(p.token));
	if (spoil == 1)
		p.magic ^= 1;
	else if (spoil == 2)
		p.version++;
	else if (spoil == 3)
		p.bytes--;
	else if (spoil == 4)
		p.kind = 77;
	else if (spoil == 5)
		len = 4;
	reason = raw_dial(&r, &p, len);
	raw_hang_up(&r);
	return reason;
}

static void want_reason(const char *what, int want, int got)
{
	printf("%s: %d\n", what, got);
	if (got != want)
		die("%s: reason %d instead of %d", what, got, want);
}

/* Only a welcomed session gets a data connection, and only one. */
static void case_data(void)
{
	static const uint8_t zeros[VERBS_TOKEN_BYTES];
	uint8_t token[VERBS_TOKEN_BYTES], near[VERBS_TOKEN_BYTES], buf[64];
	struct msg m = {.type = MSG_BYE, .req = 2};
	struct verbs_area areas[2];
	struct xport_lane *lane;
	struct client c;
	uint32_t id;

	want_reason("no session", VERBS_REJECT_SESSION,
		    data_attempt(0, zeros, 0));
	client_welcome(&c, MSG_ROLE_RW);
	id = c.m.welcome.session;
	memcpy(token, c.m.welcome.token, sizeof(token));
	memcpy(near, token, sizeof(near));
	near[15] ^= 1;
	want_reason("no token", VERBS_REJECT_SESSION,
		    data_attempt(id, zeros, 0));
	want_reason("a token that is nearly right", VERBS_REJECT_SESSION,
		    data_attempt(id, near, 0));
	want_reason("another session's number", VERBS_REJECT_SESSION,
		    data_attempt(id + 1, token, 0));
	for (int spoil = 1; spoil <= 5; spoil++)
		want_reason("private data that are not ours",
			    VERBS_REJECT_PROTOCOL,
			    data_attempt(id, token, spoil));
	client_areas(&c, areas);
	lane = lane_open(&c, areas);
	want_reason("a second one", VERBS_REJECT_SESSION,
		    data_attempt(id, token, 0));
	xport_close(lane);
	verbs_ctrl_close(c.link);

	client_welcome(&c, MSG_ROLE_RW);
	id = c.m.welcome.session;
	memcpy(token, c.m.welcome.token, sizeof(token));
	(void)client_say_msg(&c, &m, buf, sizeof(buf));
	if (!client_hear(&c) || c.m.type != MSG_BYE_ACK)
		die("BYE was not answered");
	want_reason("after BYE", VERBS_REJECT_SESSION,
		    data_attempt(id, token, 0));
	verbs_ctrl_close(c.link);
}

enum key_of { OWN, WRITERS, READERS, WRONG };
enum place { TARGET, META, BEYOND, BELOW };

static const struct right {
	const char *what;
	uint8_t role;
	enum key_of key;
	uint8_t opcode;
	enum place place;
	int want;
} rights[] = {
	{"reader: READ", MSG_ROLE_RO, OWN, XPORT_READ, TARGET, 0},
	{"reader: READ meta", MSG_ROLE_RO, OWN, XPORT_READ, META, 0},
	{"reader: WRITE", MSG_ROLE_RO, OWN, XPORT_WRITE, TARGET, FARKV_EPERM},
	{"reader: CAS", MSG_ROLE_RO, OWN, XPORT_CAS, TARGET, FARKV_EPERM},
	{"reader with a writer's key: WRITE", MSG_ROLE_RO, WRITERS, XPORT_WRITE,
	 TARGET, FARKV_EPERM},
	{"reader with a writer's key: CAS", MSG_ROLE_RO, WRITERS, XPORT_CAS,
	 TARGET, FARKV_EPERM},
	{"writer: READ", MSG_ROLE_RW, OWN, XPORT_READ, TARGET, 0},
	{"writer: WRITE", MSG_ROLE_RW, OWN, XPORT_WRITE, TARGET, 0},
	{"writer with a reader's key: WRITE", MSG_ROLE_RW, READERS, XPORT_WRITE,
	 TARGET, FARKV_EPERM},
	{"writer with a reader's key: CAS", MSG_ROLE_RW, READERS, XPORT_CAS,
	 TARGET, FARKV_EPERM},
	{"writer: WRITE meta", MSG_ROLE_RW, OWN, XPORT_WRITE, META, FARKV_EPERM},
	{"writer: CAS meta", MSG_ROLE_RW, OWN, XPORT_CAS, META, FARKV_EPERM},
	{"writer: READ after the end", MSG_ROLE_RW, OWN, XPORT_READ, BEYOND,
	 FARKV_EPERM},
	{"writer: WRITE after the end", MSG_ROLE_RW, OWN, XPORT_WRITE, BEYOND,
	 FARKV_EPERM},
	{"writer: WRITE before the start", MSG_ROLE_RW, OWN, XPORT_WRITE, BELOW,
	 FARKV_EPERM},
	{"writer with a wrong key: READ", MSG_ROLE_RW, WRONG, XPORT_READ, TARGET,
	 FARKV_EPERM},
};

static void try_right(const struct right *t, struct witness *w,
		      uint32_t readers_rkey)
{
	struct verbs_area areas[2];
	uint8_t bytes[TARGET_BYTES];
	uint64_t off = w->target;
	struct xport_lane *lane;
	struct client c;
	int got;

	client_welcome(&c, t->role);
	client_areas(&c, areas);
	if (t->key == WRITERS)
		areas[1].rkey = w->areas[1].rkey;
	else if (t->key == READERS)
		areas[1].rkey = readers_rkey;
	else if (t->key == WRONG)
		areas[1].rkey ^= 0x5500;
	if (t->place == META)
		off = areas[0].bytes - TARGET_BYTES;
	else if (t->place == BEYOND)
		areas[1].raddr += areas[1].bytes / 2 - TARGET_BYTES / 2;
	else if (t->place == BELOW)
		areas[1].raddr -= areas[1].bytes;
	lane = lane_open(&c, areas);
	memcpy(bytes, w->bytes, sizeof(bytes));
	if (t->want)
		memset(bytes, 0xee, sizeof(bytes));
	got = lane_request(lane, t->opcode, off, bytes);
	printf("%s: %s\n", t->what, got ? err_detail() : "done");
	if (got != t->want)
		die("%s: %d instead of %d", t->what, got, t->want);
	if (t->want)
		witness_look(w, t->what);
	xport_close(lane);
	verbs_ctrl_close(c.link);
}

static void case_rights(void)
{
	struct verbs_area areas[2];
	struct client reader;
	struct witness w;

	witness_open(&w);
	client_welcome(&reader, MSG_ROLE_RO);
	client_areas(&reader, areas);
	if (areas[1].rkey == w.areas[1].rkey)
		die("readers and writers have the same key");
	for (size_t i = 0; i < ARRAY_SIZE(rights); i++)
		try_right(&rights[i], &w, areas[1].rkey);
	verbs_ctrl_close(reader.link);
	xport_close(w.lane);
	verbs_ctrl_close(w.client.link);
}

/* ---- credentials --------------------------------------------------------- */

/* What is wrong with an AUTH. */
enum fault { RIGHT, KEY_BIT, TAG_ZERO, NAME_UNKNOWN, NAME_OTHER, ROLE_OTHER,
	     NONCE_OTHER, REPLAY };
static const char *const faults[] = {"right", "wrong key", "no tag",
				     "unknown name", "another's name",
				     "another role", "another nonce", "replay"};

struct answer {
	uint8_t bytes[MSG_MAX_BYTES];
	size_t len;
};

static void auth_say(struct client *c, const struct key *key, enum fault f)
{
	static uint8_t old[512];
	static size_t old_len;
	struct msg m = {.type = MSG_AUTH, .req = 1};
	uint8_t server_nonce[MSG_NONCE_BYTES];
	struct key k = *key;
	struct auth_client in = {.server_nonce = server_nonce,
				 .client_nonce = m.auth.nonce,
				 .name = k.name,
				 .name_len = k.name_len,
				 .hello = c->hello + MSG_HEADER_BYTES,
				 .hello_len = (uint16_t)(c->hello_len -
							 MSG_HEADER_BYTES),
				 .role = MSG_ROLE_RW};

	memcpy(server_nonce, c->m.challenge.nonce, sizeof(server_nonce));
	if (auth_nonce(m.auth.nonce))
		die("%s", err_detail());
	if (f == KEY_BIT)
		k.secret[31] ^= 1;
	if (f == NAME_UNKNOWN)
		in.name = "nobody", in.name_len = 6;
	if (f == NAME_OTHER)
		in.name = "reader", in.name_len = 6;
	if (f == ROLE_OTHER)
		in.role = MSG_ROLE_RO;
	auth_client_tag(&k, &in, m.auth.tag);
	if (f == TAG_ZERO)
		memset(m.auth.tag, 0, sizeof(m.auth.tag));
	if (f == NONCE_OTHER)
		m.auth.nonce[0] ^= 1;
	m.auth.name = (const uint8_t *)in.name;
	m.auth.name_len = in.name_len;
	if (f == REPLAY)
		client_say(c, old, old_len);
	else if (f == RIGHT)
		old_len = client_say_msg(c, &m, old, sizeof(old));
	else
		(void)client_say_msg(c, &m, c->buf, sizeof(c->buf));
}

/* Every refusal is the same: a reason, no text, and the connection is over. */
static void auth_attempt(const struct key *key, enum fault f,
			 struct answer *refusal)
{
	struct client c;

	client_dial(&c);
	client_hello(&c, MSG_ROLE_RW);
	if (!client_hear(&c) || c.m.type != MSG_CHALLENGE)
		die("HELLO was not answered with CHALLENGE");
	auth_say(&c, key, f);
	if (!client_hear(&c))
		die("%s: no answer", faults[f]);
	printf("%s: %s\n", faults[f], msg_type_name(c.m.type));
	if (f == RIGHT && c.m.type != MSG_WELCOME)
		die("the right key was refused");
	if (f != RIGHT) {
		if (c.m.type != MSG_REFUSE ||
		    c.m.refuse.reason != MSG_REASON_AUTH ||
		    c.m.refuse.text_len != 0)
			die("%s: %s, reason %u, %u bytes of text", faults[f],
			    msg_type_name(c.m.type), c.m.refuse.reason,
			    c.m.refuse.text_len);
		if (refusal->len && (refusal->len != c.len ||
				     memcmp(refusal->bytes, c.buf, c.len) != 0))
			die("%s: its refusal can be told from the others",
			    faults[f]);
		memcpy(refusal->bytes, c.buf, c.len);
		refusal->len = c.len;
		if (client_hear(&c))
			die("%s: the server says more", faults[f]);
	}
	verbs_ctrl_close(c.link);
}

static void case_auth(void)
{
	static struct answer refusal;
	struct keyfile *kf;
	const struct key *key;

	if (!keys_path || keyfile_load(keys_path, &kf))
		die("%s", err_detail());
	key = keyfile_find(kf, "writer", 6);
	if (!key)
		die("%s has no key 'writer'", keys_path);
	for (enum fault f = RIGHT; f <= REPLAY; f++)
		auth_attempt(key, f, &refusal);
	keyfile_free(kf);
}

/* A session with a key that says which one it replaces. */
static void replace(struct client *c, const struct key *key,
		    const struct msg *old)
{
	client_dial(c);
	client_hello_after(c, MSG_ROLE_RW, old);
	if (!client_hear(c) || c->m.type != MSG_CHALLENGE)
		die("HELLO was not answered with CHALLENGE");
	auth_say(c, key, RIGHT);
	if (!client_hear(c) || c->m.type != MSG_WELCOME)
		die("%s: no WELCOME", key->name);
}

/* Replacing sessions: a session of another key cannot be ended. */
static void case_replace(void)
{
	struct msg ping = {.type = MSG_PING, .req = 2}, old;
	const struct key *writer, *reader;
	struct client first, other, next;
	struct keyfile *kf;

	if (!keys_path || keyfile_load(keys_path, &kf))
		die("%s", err_detail());
	writer = keyfile_find(kf, "writer", 6);
	reader = keyfile_find(kf, "reader", 6);
	replace(&first, writer, NULL);
	old = first.m;
	replace(&other, reader, &old);
	if (!other.m.welcome.swept)
		die("a session is left alone, and nobody is told");
	(void)client_say_msg(&first, &ping, first.buf, sizeof(first.buf));
	if (!client_hear(&first) || first.m.type != MSG_PONG)
		die("a reader's key ended a writer's session");
	replace(&next, writer, &old);
	if (next.m.welcome.swept)
		die("the session before is over, and is said not to be");
	if (client_hear(&first))
		die("the session that was replaced goes on");
	verbs_ctrl_close(next.link);
	verbs_ctrl_close(other.link);
	verbs_ctrl_close(first.link);
	keyfile_free(kf);
}

/* ---- before HELLO -------------------------------------------------------- */

/* A first message other than HELLO ends the connection, with a reason only. */
static void case_strangers(void)
{
	uint8_t buf[MSG_MAX_BYTES];
	size_t len;

	for (unsigned i = 0; i < 6; i++) {
		static const uint8_t types[] = {MSG_PING, MSG_STATS_REQ,
						MSG_BYE, MSG_AUTH};
		struct msg m = {.req = 1};
		struct client c;

		memset(buf, 0xdb, sizeof(buf));
		len = i == 4 ? 100 : sizeof(buf);
		if (i < ARRAY_SIZE(types)) {
			m.type = types[i];
			if (m.type == MSG_AUTH) {
				m.auth.name = (const uint8_t *)"writer";
				m.auth.name_len = 6;
			}
			if (msg_encode(&m, NULL, buf, sizeof(buf), &len))
				die("%s", err_detail());
		}
		client_dial(&c);
		client_say(&c, buf, len);
		if (!client_hear(&c) || c.m.type != MSG_REFUSE ||
		    c.m.refuse.reason != MSG_REASON_PROTOCOL ||
		    c.m.refuse.text_len != 0)
			die("stranger %u: %s, reason %u, %u bytes of text", i,
			    msg_type_name(c.m.type), c.m.refuse.reason,
			    c.m.refuse.text_len);
		if (client_hear(&c))
			die("stranger %u: the server says more", i);
		verbs_ctrl_close(c.link);
	}
}

/* A silent connection is closed after five seconds. */
static void case_silent(void)
{
	uint64_t began = clock_now_ns(), took;
	struct client c;

	client_dial(&c);
	while (client_hear(&c))
		if (c.m.type != MSG_REFUSE)
			die("%s", msg_type_name(c.m.type));
	took = clock_now_ns() - began;
	verbs_ctrl_close(c.link);
	printf("%llu ms\n", (unsigned long long)(took / NS_PER_MS));
	if (took < 4 * NS_PER_SEC || took > LATE_NS)
		die("the server waited %llu ms",
		    (unsigned long long)(took / NS_PER_MS));
}

/*
 * Connections that are never finished take the places of others, but not for
 * long. For a server with --max-sessions 4.
 */
static void case_half_open(void)
{
	uint64_t began = clock_now_ns(), took;
	struct verbs_private p;
	struct raw half[4], whole;
	int reason;

	verbs_private_fill(&p, VERBS_CONTROL);
	for (size_t i = 0; i < ARRAY_SIZE(half); i++)
		if (raw_ask(&half[i], &p, sizeof(p)))
			die("connection %zu was refused", i);
	reason = raw_dial(&whole, &p, sizeof(p));
	if (reason != VERBS_REJECT_FULL)
		die("one too many: reason %d", reason);
	do {
		raw_hang_up(&whole);
		reason = raw_dial(&whole, &p, sizeof(p));
		took = clock_now_ns() - began;
		if (reason && reason != VERBS_REJECT_FULL)
			die("reason %d", reason);
		clock_sleep_ns(100 * NS_PER_MS);
	} while (reason && took < WAIT_NS);
	printf("%llu ms\n", (unsigned long long)(took / NS_PER_MS));
	if (took < 3 * NS_PER_SEC || took > LATE_NS)
		die("unfinished connections kept others out for %llu ms",
		    (unsigned long long)(took / NS_PER_MS));
	raw_hang_up(&whole);
	for (size_t i = 0; i < ARRAY_SIZE(half); i++)
		raw_hang_up(&half[i]);
}

/* ---- after WELCOME ------------------------------------------------------- */

/* A session that does not answer a BARRIER is cut off: others need the memory. */
static void case_barrier(void)
{
	struct msg m = {.type = MSG_GRANT_REQ, .req = 2};
	struct block_ref ref;
	uint64_t began, took;
	struct client c;
	size_t len;

	client_welcome(&c, MSG_ROLE_RW);
	m.grant_req.count = 1;
	(void)client_say_msg(&c, &m, c.buf, sizeof(c.buf));
	if (!client_hear(&c) || c.m.type != MSG_GRANT || c.m.blocks.n == 0)
		die("no block was granted");
	ref = msg_ref(&c.m, 0);
	m = (struct msg){.type = MSG_RETURN, .req = 3};
	m.blocks.state = RETURN_EXHAUSTED;
	m.blocks.n = 1;
	if (msg_encode(&m, &ref, c.buf, sizeof(c.buf), &len))
		die("%s", err_detail());
	client_say(&c, c.buf, len);
	if (!client_hear(&c) || c.m.type != MSG_BARRIER)
		die("a worn block brought no BARRIER");
	began = clock_now_ns();
	if (client_hear(&c))
		die("the server says more: %s", msg_type_name(c.m.type));
	took = clock_now_ns() - began;
	verbs_ctrl_close(c.link);
	printf("%llu ms\n", (unsigned long long)(took / NS_PER_MS));
	if (took < 6 * NS_PER_SEC || took > LATE_NS)
		die("the server waited %llu ms",
		    (unsigned long long)(took / NS_PER_MS));
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"control", case_control}, {"data", case_data},
	{"rights", case_rights},   {"auth", case_auth},
	{"strangers", case_strangers}, {"silent", case_silent},
	{"replace", case_replace}, {"half-open", case_half_open},
	{"barrier", case_barrier},
};

int main(int argc, char **argv)
{
	if (argc < 4)
		die("usage: rdma_raw CASE ADDRESS PORT [KEYFILE]");
	client_host = argv[2];
	client_port = argv[3];
	keys_path = argv[4];
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (strcmp(argv[1], cases[i].name) == 0) {
			cases[i].run();
			return 0;
		}
	die("there is no case %s", argv[1]);
}
