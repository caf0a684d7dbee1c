/* SPDX-License-Identifier: BSD-3-Clause */
/** wr.h - short forms of requests for tests of lanes. */
#ifndef TESTS_RIG_WR_H
#define TESTS_RIG_WR_H

#include "common/xport/xport.h"

static inline struct xport_wr read_wr(uint64_t off, void *to, uint32_t len)
{
	return (struct xport_wr){
		.opcode = XPORT_READ, .off = off, .laddr = to, .len = len};
}

static inline struct xport_wr write_wr(uint64_t off, void *from, uint32_t len)
{
	return (struct xport_wr){
		.opcode = XPORT_WRITE, .off = off, .laddr = from, .len = len};
}

static inline struct xport_wr cas_wr(uint64_t off, uint64_t expect,
				     uint64_t swap)
{
	return (struct xport_wr){.opcode = XPORT_CAS, .off = off, .len = 8,
				 .expect = expect, .swap = swap};
}

#endif
