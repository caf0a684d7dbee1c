/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "core.h"

#include <string.h>

#include "common/base/atomic.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "server/saver/saver.h"

#define TICK_MS 200
/* Log lines per period: warnings about peers, notes about single clients. */
#define COMPLAINTS_MAX 1u
#define COMPLAINTS_NS NS_PER_SEC
#define NOTES_MAX 20u
#define NOTES_NS (10 * NS_PER_SEC)

void core_tick_soon(struct control *c)
{
	static const struct timeval soon = {.tv_usec = TICK_MS * 1000};

	if (!event_pending(c->tick, EV_TIMEOUT, NULL))
		event_add(c->tick, &soon);
}

void core_fail(struct control *c)
{
	c->failed = true;
	event_active(c->on_term, EV_SIGNAL, 1);
}

void core_begin_again(struct control *c)
{
	c->again = true;
	event_base_loopbreak(c->base);
}

void core_look_at_map(struct control *c)
{
	if (c->look)
		event_active(c->look, EV_TIMEOUT, 0);
}

bool core_is_saver(const struct control *c, const char *name)
{
	return c->cfg.saver && strcmp(c->cfg.saver->name, name) == 0;
}

void core_memory_freed(struct control *c)
{
	for (const struct loop_module *const *m = c->modules; *m; m++)
		if ((*m)->memory_freed)
			(*m)->memory_freed(c);
}

bool core_tell_dropped(struct control *c, uint64_t now)
{
	uint32_t n = rate_limit_dropped(&c->complaints, COMPLAINTS_NS, now);

	if (n)
		log_warn("%u more warnings about peers were not shown", n);
	n = rate_limit_dropped(&c->notes, NOTES_NS, now);
	if (n)
		log_info("%u more lines about single sessions were not shown",
			 n);
	return c->complaints.dropped || c->notes.dropped;
}

bool core_complaint_due(struct control *c)
{
	uint64_t now = clock_now_ns();

	(void)core_tell_dropped(c, now);
	if (rate_limit_take(&c->complaints, COMPLAINTS_MAX, COMPLAINTS_NS, now))
		return true;
	core_tick_soon(c);
	return false;
}

bool core_note_due(struct control *c)
{
	uint64_t now = clock_now_ns();

	(void)core_tell_dropped(c, now);
	if (rate_limit_take(&c->notes, NOTES_MAX, NOTES_NS, now))
		return true;
	core_tick_soon(c);
	return false;
}

bool core_next_id(struct control *c, uint32_t *id_out)
{
	struct region_state *st = region_state(c->region);

	if (st->last_id == UINT32_MAX)
		return false;
	atom_store_publish(&st->last_id, st->last_id + 1);
	*id_out = st->last_id;
	return true;
}
