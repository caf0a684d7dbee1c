/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * rdma_peer.h - connections to a server as no library would make them: bare
 * ones that say and ask for anything, and sessions step by step. What goes wrong
 * on their own side ends the program with one line.
 */
#ifndef TESTS_GUEST_RDMA_PEER_H
#define TESTS_GUEST_RDMA_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "common/proto/msg.h"
#include "common/rdma/conn.h"
#include "common/rdma/private_data.h"
#include "tests/rig/die.h"

#define WAIT_NS (60 * NS_PER_SEC)

/** Where the server is. */
extern const char *client_host, *client_port;

/* ---- bare connections ---------------------------------------------------- */

struct raw {
	struct rdma_event_channel *channel;
	struct verbs_conn conn;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *buf; /* what is sent, what is received */
};

/**
 * 0: accepted. Else why not: enum verbs_reject. raw_hang_up() follows in any case.
 */
int raw_dial(struct raw *r, const void *private_data, size_t len);
/** As raw_dial() up to the client's last word: half open. */
int raw_ask(struct raw *r, const void *private_data, size_t len);
void raw_hang_up(struct raw *r);

/** Say HELLO there and take the WELCOME. */
void raw_welcome(struct raw *r);

#define RAW_REQUESTS 3u
extern const struct raw_request_kind {
	const char *name;
	enum ibv_wr_opcode opcode;
} raw_requests[RAW_REQUESTS];

/** One request of 8 bytes; how it ended. */
enum ibv_wc_status raw_request(struct raw *r, unsigned which, uint64_t raddr,
			       uint32_t rkey);

/* ---- sessions ------------------------------------------------------------ */

struct client {
	struct verbs_ctrl *link;
	uint8_t buf[MSG_MAX_BYTES];
	size_t len;
	struct msg m; /* the last that came */
	uint8_t hello[256];
	size_t hello_len;
};

void client_dial(struct client *c);
void client_say(struct client *c, const void *buf, size_t len);
/** Encode into `buf`, and say it. Its length. */
size_t client_say_msg(struct client *c, const struct msg *m, uint8_t *buf,
		      size_t cap);
void client_hello(struct client *c, uint8_t role);
/** HELLO that names the session before, if `old` is its WELCOME and not NULL. */
void client_hello_after(struct client *c, uint8_t role, const struct msg *old);
/** The next message, in c->m; false: the connection is over. */
bool client_hear(struct client *c);
/** Dial, HELLO, WELCOME. */
void client_welcome(struct client *c, uint8_t role);
/** Of the WELCOME that came last. */
void client_areas(const struct client *c, struct verbs_area out[2]);

#endif
