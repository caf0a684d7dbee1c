/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <string.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/rdma/private_data.h"
#include "tests/rig/cases.h"

#define PEER "192.0.2.7:7670"
/* The bytes that rdma_cm gives to a refused client. */
#define PADDED 148u

/* A refusal as it arrives: padded with zeros. */
static void refusal(uint8_t *bytes, uint8_t reason)
{
	struct verbs_private p;

	verbs_private_fill(&p, VERBS_REFUSAL);
	p.reason = reason;
	memset(bytes, 0, PADDED);
	memcpy(bytes, &p, sizeof(p));
}

TEST(request_has_exactly_these_bytes)
{
	static const uint8_t want[28] = {'V', 'K', 'A', 'F', 1, 28, 2, 0,
					 0x01, 0x02, 0x03, 0x04, 0xA0,
					 [27] = 0xAF};
	uint8_t bytes[PADDED] = {0};
	struct verbs_private p, before;

	memcpy(bytes, want, sizeof(want));
	ck_assert(verbs_private_read(bytes, sizeof(bytes), &p));
	ck_assert_uint_eq(p.kind, VERBS_DATA);
	ck_assert_uint_eq(p.session, 0x01020304);
	ck_assert_uint_eq(p.token[0], 0xA0);
	ck_assert_uint_eq(p.token[VERBS_TOKEN_BYTES - 1], 0xAF);
	ck_assert(verbs_private_read(bytes, sizeof(want), &p));
	memset(&p, 0x5A, sizeof(p));
	before = p;
	ck_assert(!verbs_private_read(NULL, 0, &p));
	ck_assert(!verbs_private_read(bytes, sizeof(want) - 1, &p));
	for (unsigned i = 0; i < 6; i++) {
		bytes[i] ^= 1;
		ck_assert(!verbs_private_read(bytes, sizeof(bytes), &p));
		bytes[i] ^= 1;
	}
	ck_assert_mem_eq(&p, &before, sizeof(p));
}

static const struct {
	uint8_t reason;
	int err;
	const char *says;
} reasons[] = {
	{VERBS_REJECT_PROTOCOL, FARKV_EPROTOCOL, "another version"},
	{VERBS_REJECT_FULL, FARKV_EREFUSED, "--max-sessions"},
	{VERBS_REJECT_SHUTDOWN, FARKV_EREFUSED, "is leaving"},
	{VERBS_REJECT_SESSION, FARKV_EREFUSED, "(reason 4)"},
	{VERBS_REJECT_DEVICE, FARKV_EREFUSED, "another RDMA device"},
	{VERBS_REJECT_INTERNAL, FARKV_EREFUSED, "its log says which"},
	{0, FARKV_EREFUSED, "(reason 0)"},
	{255, FARKV_EREFUSED, "(reason 255)"},
};

TEST_EACH(refusal_of_each_reason_names_the_remedy, reasons)
{
	uint8_t bytes[PADDED];

	refusal(bytes, reasons[_i].reason);
	ck_assert_int_eq(verbs_refusal_error(VERBS_STATUS_REFUSED, bytes,
					     PADDED, PEER),
			 reasons[_i].err);
	ck_assert_ptr_nonnull(strstr(err_detail(), reasons[_i].says));
	ck_assert_ptr_nonnull(strstr(err_detail(), PEER));
}

static void expect(int status, const uint8_t *bytes, size_t len, int err,
		   const char *says)
{
	ck_assert_int_eq(verbs_refusal_error(status, bytes, len, PEER), err);
	ck_assert_msg(strstr(err_detail(), says) && strstr(err_detail(), PEER),
		      "says \"%s\"", err_detail());
}

/* A dead server gives zeros or nothing; a stranger gives other bytes. */
TEST(foreign_refusal_differs_from_a_dead_server)
{
	uint8_t bytes[PADDED] = {0};

	expect(VERBS_STATUS_REFUSED, NULL, 0, FARKV_EUNREACHABLE, "ended");
	expect(VERBS_STATUS_REFUSED, bytes, PADDED, FARKV_EUNREACHABLE,
	       "ended");
	bytes[PADDED - 1] = 1;
	expect(VERBS_STATUS_REFUSED, bytes, PADDED - 1, FARKV_EUNREACHABLE,
	       "ended");
	expect(VERBS_STATUS_REFUSED, bytes, PADDED, FARKV_EPROTOCOL,
	       "no farkv server");
	refusal(bytes, VERBS_REJECT_FULL);
	bytes[0] ^= 1;
	expect(VERBS_STATUS_REFUSED, bytes, PADDED, FARKV_EPROTOCOL,
	       "no farkv server");
	expect(8, bytes, PADDED, FARKV_EUNREACHABLE, "no server listens");
}

/* Whatever its length and reasons. */
TEST(refusal_of_another_version_is_recognized)
{
	uint8_t bytes[PADDED];

	refusal(bytes, VERBS_REJECT_FULL);
	bytes[4] = VERBS_VERSION + 1;
	bytes[5] = 44;
	expect(VERBS_STATUS_REFUSED, bytes, PADDED, FARKV_EPROTOCOL,
	       "another version");
	expect(VERBS_STATUS_REFUSED, bytes, 5, FARKV_EPROTOCOL,
	       "another version");
	/* Too short to name a version, or ours and truncated. */
	expect(VERBS_STATUS_REFUSED, bytes, 4, FARKV_EPROTOCOL,
	       "no farkv server");
	bytes[4] = VERBS_VERSION;
	expect(VERBS_STATUS_REFUSED, bytes, 20, FARKV_EPROTOCOL,
	       "no farkv server");
}

TEST_SUITE("private")
