/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private data of an RDMA connection's request or refusal. An input is the private data;
 * it is also tried with a correct header. The server reads it from every connecting
 * client, a client from every refusal.
 */
#include "config.h"

#include "fuzz.h"

#include <arpa/inet.h>

#include "common/base/err.h"
#include "common/rdma/private_data.h"

/* More than rdma_cm ever gives. */
#define PRIVATE_MAX 256u

#define PEER "[2001:db8::1]:7670"

/* As a client receives it, from a server that refused, and from none. */
static void check_refusal(const uint8_t *bytes, size_t len)
{
	static const int status[] = {VERBS_STATUS_REFUSED, 8, -104, 0};

	for (size_t i = 0; i < sizeof(status) / sizeof(*status); i++) {
		err_clear();
		FUZZ_CHECK(verbs_refusal_error(status[i], bytes, len, PEER));
		FUZZ_CHECK(strstr(err_detail(), PEER));
		FUZZ_CHECK(fuzz_detail_ok());
	}
}

/* Only the header counts, and it must be complete. */
static void check_ours(const uint8_t *bytes, size_t len,
		       const struct verbs_private *p)
{
	struct verbs_private back, again;

	FUZZ_CHECK(len >= sizeof(*p));
	verbs_private_fill(&back, (enum verbs_kind)p->kind);
	back.reason = p->reason;
	back.session = htonl(p->session);
	memcpy(back.token, p->token, sizeof(back.token));
	FUZZ_CHECK(memcmp(&back, bytes, sizeof(back)) == 0);
	memset(&again, 0x5A, sizeof(again));
	FUZZ_CHECK(verbs_private_read(bytes, sizeof(*p), &again));
	FUZZ_CHECK(memcmp(&again, p, sizeof(again)) == 0);
	FUZZ_CHECK(!verbs_private_read(bytes, sizeof(*p) - 1, &again));
}

/* `bytes` has exactly `len` bytes, so that reads beyond are detected. */
static void check(const uint8_t *bytes, size_t len)
{
	struct verbs_private p, before;

	memset(&p, 0x5A, sizeof(p));
	before = p;
	if (verbs_private_read(bytes, len, &p))
		check_ours(bytes, len, &p);
	else
		FUZZ_CHECK(memcmp(&p, &before, sizeof(p)) == 0);
	check_refusal(bytes, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct verbs_private head;
	uint8_t *copy;

	if (size > PRIVATE_MAX)
		return 0;
	check(size ? data : NULL, size);
	if (size < sizeof(head))
		return 0;
	verbs_private_fill(&head, (enum verbs_kind)data[6]);
	copy = malloc(size);
	FUZZ_CHECK(copy);
	memcpy(copy, data, size);
	memcpy(copy, &head, 7);
	check(copy, size);
	free(copy);
	return 0;
}
