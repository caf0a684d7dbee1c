/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * session_grants.h - what the server has granted and the handle has not taken yet. No functions.
 */
#ifndef CLIENT_SESSION_GRANTS_H
#define CLIENT_SESSION_GRANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/region/layout.h"

/** Blocks of one GRANT; `n` 0 means that the server has none. */
struct session_grant {
	struct session_grant *next;
	uint8_t cls;
	uint32_t n;
	struct block_ref refs[];
};

#define SESSION_FULL_WORDS ((CLASS_COUNT + 63u) / 64u)

/** Contents of the grants inbox since the last session_take_grants(). */
struct session_grants_inbox {
	struct session_grant *grants; /* oldest first; become the receiver's */
	uint32_t prefix;
	bool has_prefix;
	/*
	 * Bitmap of classes whose request waits because the server has no memory, and the server's
	 * last figures.
	 */
	uint64_t full[SESSION_FULL_WORDS];
	uint64_t other_bytes; /* free in other classes */
	bool no_pages;        /* its machine has no more */
};

#endif
