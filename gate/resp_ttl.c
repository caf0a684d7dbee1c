/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "common/base/util.h"
#include "resp_cmds.h"
#include "resp_reply.h"
#include "store.h"

bool resp_when_ms(struct client *c, struct slice word, enum resp_when when, bool positive,
		  int64_t *ms_out)
{
	int64_t n, now = store_date_ms(), date;
	bool overflow = false;

	if (!reply_or_i64(c, word, &n))
		return false;
	if (when == WHEN_EX || when == WHEN_EXAT)
		overflow = __builtin_mul_overflow(n, 1000, &n);
	if (when == WHEN_EX || when == WHEN_PX)
		overflow |= __builtin_add_overflow(n, now, &date);
	else
		date = n;
	if (overflow || (positive && n <= 0)) {
		reply_error(c, "ERR invalid expire time in '%s' command",
			    atom_load_relaxed(&c->command));
		return false;
	}
	/* A date before 1970 is over, and needs no difference. */
	*ms_out = date < 0 ? 0 : UTIL_MIN(date - now, (int64_t)FARKV_TTL_MAX_MS);
	return true;
}
