/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "xport.h"

#include <farkv.h>

int xport_check_wr(const struct xport_lane *lane, const struct xport_wr *wr)
{
	if (wr->off > lane->region_bytes ||
	    wr->len > lane->region_bytes - wr->off || wr->len == 0)
		return FARKV_EINVAL;
	if (wr->opcode == XPORT_READ)
		return 0;
	if (wr->opcode == XPORT_CAS && (wr->len != 8 || wr->off % 8 != 0))
		return FARKV_EINVAL;
	return lane->caps & XPORT_READONLY ? FARKV_EPERM : 0;
}
