/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A kvserver that ends itself, as by kill -9, at a step of server/memory/step.h: the one with
 * number $FARKV_STEP, when it is reached after $FARKV_STEP_SKIP times, counted from when the file
 * $FARKV_STEP_ARM exists, if that is set.
 */
#include "config.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/memory/step.h"

static unsigned at, skip;
static const char *arm; /* NULL: it is armed */

static void on_step(enum step step)
{
	if (arm && access(arm, F_OK))
		return;
	arm = NULL;
	if ((unsigned)step == at && skip-- == 0)
		kill(getpid(), SIGKILL);
}

static __attribute__((constructor)) void steps_init(void)
{
	const char *number = getenv("FARKV_STEP"), *times = getenv("FARKV_STEP_SKIP");

	if (!number)
		return;
	arm = getenv("FARKV_STEP_ARM");
	at = (unsigned)atoi(number);
	skip = times ? (unsigned)atoi(times) : 0;
	step_hook = on_step;
}
