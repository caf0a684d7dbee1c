/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * line.h - a session of a kvserver message by message, over its socket or by RDMA, with
 * its region: for hostile clients, which act alike by both.
 */
#ifndef TESTS_LAB_LINE_H
#define TESTS_LAB_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/region/layout.h"
#include "common/proto/msg.h"

struct line;

/** Connect to `uri` and shake hands, up to READY. NULL if that fails, with a detail. */
struct line *line_open(const char *uri, bool readonly);
/** Hang up, without BYE. NULL is allowed. */
void line_close(struct line *l);

const struct superblock *line_superblock(const struct line *l);

/** Send a message: 0, EAGAIN if there is no room now, another errno if it is over. */
int line_try(struct line *l, const struct msg *m, const struct block_ref *refs);
/** The same, but waits for room. False: the session is over. */
bool line_say(struct line *l, const struct msg *m, const struct block_ref *refs);

/**
 * The next message, valid until the one after it; BARRIERs are acknowledged and not
 * shown, RECLAIMs neither. False if none comes within `ms`, or ever: line_over().
 */
bool line_hear(struct line *l, struct msg *m_out, int ms);
bool line_over(const struct line *l);

/** Ask for up to `n` blocks of a class: how many came; 0 also if the session is over. */
uint32_t line_grant(struct line *l, uint8_t cls, uint32_t n,
		    struct block_ref *refs_out);

/** Bytes of the region, LINE_BYTES_MAX at a time. False: the lane broke. */
bool line_read(struct line *l, uint64_t off, void *buf, uint32_t len);
bool line_write(struct line *l, uint64_t off, const void *buf, uint32_t len);
#define LINE_BYTES_MAX (128u << 10)

#endif
