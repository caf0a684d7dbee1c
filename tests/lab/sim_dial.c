/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client/dial.h without a thread: a caller that asks whether it is over does its next step.
 * The connection is taken a while later, so that the new session gets barriers and
 * sweeps before its handle knows of it.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/dial.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "sim.h"

#define ATTEMPT_NS (2 * NS_PER_SEC)
#define PAUSE_NS (2 * NS_PER_MS)

struct dial {
	struct conn_order order;
	uint64_t until_ns;
	bool over;
	unsigned lies; /* times that it still reports not to be over */
	int err;
	char line[ERR_LINE_MAX];
	struct conn conn;
};

int sim_nanosleep(const struct timespec *ts, struct timespec *rest);

static bool may_pass(int err)
{
	return err == FARKV_ETIMEDOUT || err == FARKV_ENOROUTE ||
	       err == FARKV_ELINKDOWN || err == FARKV_EDISCONNECTED ||
	       err == FARKV_ESYS;
}

/* An attempt, or the pause after one. Others go on meanwhile. */
static void step(struct dial *d)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	uint64_t now = clock_now_ns();

	if (now < d->until_ns) {
		d->err = conn_make(&d->order, UTIL_MIN(now + ATTEMPT_NS, d->until_ns),
				   &d->conn);
		snprintf(d->line, sizeof(d->line), "%s", err_detail());
		d->lies = d->err ? 0 : (unsigned)sim_below(4);
		d->over = !may_pass(d->err);
		if (d->over || clock_now_ns() + PAUSE_NS < d->until_ns) {
			if (!d->over)
				(void)sim_nanosleep(&pause, NULL);
			return;
		}
	}
	d->over = true;
}

int dial_start(struct dial **dp, const struct conn_order *o, struct conn *old,
	       uint64_t until_ns)
{
	struct dial *d = *dp ? *dp : calloc(1, sizeof(*d));

	if (!d)
		sim_fail("no memory");
	*d = (struct dial){
		.order = *o, .until_ns = until_ns, .err = FARKV_ETIMEDOUT};
	if (old->session)
		conn_close(old);
	memset(old, 0, sizeof(*old));
	*dp = d;
	return 0;
}

bool dial_extend(struct dial *d, uint64_t until_ns)
{
	if (!d)
		return false;
	d->until_ns = UTIL_MAX(d->until_ns, until_ns);
	return !d->over || !d->err;
}

bool dial_is_over(const struct dial *dc)
{
	struct dial *d = (struct dial *)(uintptr_t)dc;

	if (!d->over && (sim.running->dying || sim_below(3) == 0))
		step(d);
	if (!d->over || !d->lies)
		return d->over;
	d->lies--;
	return false;
}

void dial_wait(struct dial *d, uint64_t until_ns)
{
	while (!d->over && clock_now_ns() < until_ns && !sim.running->dying)
		step(d);
	d->lies = 0;
	if (d->over && sim_below(2))
		sim_give_way();
}

void dial_wakes(struct dial *d, struct notifier *w)
{
	(void)d;
	(void)w;
}

static int outcome(struct dial *d, struct conn *out)
{
	int err = d->err;

	if (!err)
		*out = d->conn;
	d->err = FARKV_EDISCONNECTED;
	return err;
}

int dial_take(struct dial *d, struct conn *out)
{
	int err = d->over ? outcome(d, out) : FARKV_ETIMEDOUT;

	return err ? err_set(err, "%s", d->line) : 0;
}

bool dial_free(struct dial *d, uint64_t until_ns, struct conn *out)
{
	bool linked = d && d->over && outcome(d, out) == 0;

	(void)until_ns;
	free(d);
	return linked;
}

bool dial_abandon(struct dial *d, struct conn *out)
{
	return dial_free(d, 0, out);
}
