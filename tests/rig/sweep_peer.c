/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "sweep_peer.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "marks.h"

void put_n(unsigned from, unsigned n)
{
	char key[16];

	for (unsigned i = from; i < from + n; i++) {
		snprintf(key, sizeof(key), "%u", i);
		ck_assert_int_eq(put(key, "v"), 0);
	}
}

void enter(void)
{
	while (!qsbr_enter(kv->qsbr)) {
		qsbr_leave(kv->qsbr);
		conn_handle_pending(&kv->conn);
	}
}

/* ---- the server's side --------------------------------------------------------- */

void send_epoch(uint8_t type, uint64_t number)
{
	struct msg m = {.type = type, .epoch.number = number};

	fake_server_send(&srv, &m, NULL);
}

/* A later grant has arrived. */
void seen_by_client(void)
{
	struct msg m = {.type = MSG_PREFIX, .prefix.prefix = 5000};

	ck_assert_uint_eq(qsbr_pending(kv->qsbr) & PENDING_GRANTS, 0);
	fake_server_send(&srv, &m, NULL);
	session_wait(kv->conn.session, clock_now_ns() + FAKE_WAIT_S * NS_PER_SEC);
	ck_assert_uint_ne(qsbr_pending(kv->qsbr) & PENDING_GRANTS, 0);
	heard_by_server();
}

void begin_acked(uint64_t number)
{
	unsigned n = fake_server_count(&srv, MSG_SWEEP_ACK);

	send_epoch(MSG_SWEEP_BEGIN, number);
	ck_assert(fake_server_wait(&srv, MSG_SWEEP_ACK, n + 1));
	ck_assert_uint_eq(srv.ack_number, number);
}

void query(uint64_t number, uint32_t req, const struct block_ref *refs,
	   uint32_t n)
{
	struct msg m = {.type = MSG_SWEEP_QUERY, .req = req};

	m.blocks.number = number;
	m.blocks.n = n;
	fake_server_send(&srv, &m, refs);
}

uint32_t claims(uint64_t number, const struct block_ref *refs, uint32_t n)
{
	unsigned before = fake_server_count(&srv, MSG_SWEEP_CLAIM);

	query(number, before + 1, refs, n);
	ck_assert(fake_server_wait(&srv, MSG_SWEEP_CLAIM, before + 1));
	ck_assert_uint_eq(srv.claim_req, before + 1);
	ck_assert_uint_eq(srv.claim_number, number);
	return srv.claimed;
}

uint32_t blocks_out(bool linked, struct block_ref *refs, uint32_t cap)
{
	static uint8_t slot[FAKE_HEAP_BYTES / PTR_UNIT];
	uint64_t *w = (uint64_t *)(void *)srv.data;
	uint32_t n = 0;

	memset(slot, 0, sizeof(slot));
	for (unsigned i = 0; i < SUBTABLE_SLOTS; i++) {
		uint64_t word = __atomic_load_n(&w[i], __ATOMIC_ACQUIRE);

		if (!slot_is_null(word))
			slot[(slot_off(word) - META_ALIGN) / PTR_UNIT] = 1;
	}
	pthread_mutex_lock(&srv.lock);
	for (uint32_t i = 0; i < sizeof(slot); i++)
		if (srv.out[i] && slot[i] == linked) {
			ck_assert_uint_lt(n, cap);
			refs[n++] = (struct block_ref){
				.off = META_ALIGN + (uint64_t)i * PTR_UNIT,
				.cls = (uint8_t)(srv.out[i] - 1)};
		}
	pthread_mutex_unlock(&srv.lock);
	return n;
}
