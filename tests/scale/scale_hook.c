/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "scale_hook.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "client/conn.h"
#include "common/xport/xport.h"

static struct hook_plan plan;
static bool armed, show_all;

static int on_request(void *arg, const struct xport_chain *chain, unsigned i,
		      bool after)
{
	const struct xport_wr *wr = &chain->wr[i];
	bool is_cas = wr->opcode == XPORT_CAS;
	struct hook_seen *s = plan.seen;
	uint32_t number;

	(void)arg;
	if (!armed)
		return 0;
	if (after) {
		s->requests++;
		s->cas += is_cas;
		s->swaps += is_cas && wr->found == wr->expect;
	}
	number = (plan.only_cas ? s->cas : s->requests) + !after;
	if (number == plan.at && after == plan.after &&
	    (is_cas || !plan.only_cas))
		raise(plan.sig);
	return 0;
}

static struct xport_lane *wrap(struct xport_lane *inner)
{
	struct xport_fault_config cfg = {.hide_direct = show_all,
					 .hook = on_request};

	return xport_fault_open(inner, &cfg);
}

void hook_install(bool all)
{
	show_all = all;
	conn_wrap_lane = wrap;
}

void hook_arm(const struct hook_plan *p)
{
	armed = false;
	if (!p)
		return;
	plan = *p;
	memset(plan.seen, 0, sizeof(*plan.seen));
	armed = true;
}
