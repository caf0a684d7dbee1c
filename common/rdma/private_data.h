/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * private_data.h - the private data of rdma_cm in connection requests and answers.
 * Untrusted bytes; no verbs here.
 */
#ifndef COMMON_RDMA_PRIVATE_DATA_H
#define COMMON_RDMA_PRIVATE_DATA_H

#include "verbs.h"

#define VERBS_MAGIC 0x564B4146u /* "FAKV" */
#define VERBS_VERSION 1u
/* rdma_cm's status when the other end's program rejected the connection. */
#define VERBS_STATUS_REFUSED 28

enum verbs_kind { VERBS_CONTROL = 1, VERBS_DATA = 2, VERBS_REFUSAL = 3 };

/** All fields in network byte order on the wire. */
struct verbs_private {
	uint32_t magic;
	uint8_t version;
	uint8_t bytes; /* of this struct; the rest that arrives is zero */
	uint8_t kind;
	uint8_t reason; /* VERBS_REFUSAL: enum verbs_reject */
	uint32_t session;
	uint8_t token[VERBS_TOKEN_BYTES];
};
_Static_assert(sizeof(struct verbs_private) == 28, "wire format");
_Static_assert(sizeof(struct verbs_private) <= 56, "rdma_cm's limit");

void verbs_private_fill(struct verbs_private *p, enum verbs_kind kind);

/**
 * False, without output, if the bytes are not farkv's. Reads at most `len`. The session is returned
 * in host order; kind and reason are not checked.
 */
bool verbs_private_read(const void *data, size_t len, struct verbs_private *out);

/**
 * Set the error (err.h) that explains a rejection by `peer` from its `status` and its `len`
 * bytes of `data`. Returns it, never 0.
 */
int verbs_refusal_error(int status, const void *data, size_t len,
			const char *peer);

#endif
