/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "fake_control.h"

#include "client/control.h"
#include "fuzz.h"

bool fake_control_runs;
static struct control_source *source;

void fake_control_ready(void)
{
	if (!source || source->muted || fake_control_runs)
		return;
	fake_control_runs = true;
	source->ready(source);
	fake_control_runs = false;
}

void fake_control_tick(void)
{
	if (!source || !source->ticking || fake_control_runs)
		return;
	fake_control_runs = true;
	source->tick(source);
	fake_control_runs = false;
}

int control_add(struct control_source *src)
{
	FUZZ_CHECK(!source);
	src->ticking = src->muted = false;
	source = src;
	return 0;
}

void control_remove(struct control_source *src)
{
	FUZZ_CHECK(source == src && !fake_control_runs);
	source = NULL;
}

void control_watch(struct control_source *src, bool writable)
{
	(void)writable;
	FUZZ_CHECK(src == source);
}

void control_tick(struct control_source *src, bool on)
{
	FUZZ_CHECK(src == source);
	src->ticking = on;
}

void control_mute(struct control_source *src)
{
	FUZZ_CHECK(src == source);
	src->muted = true;
}

bool control_gates_fence(void)
{
	return false;
}

void control_heavy_barrier(void)
{
}

void control_fork_prepare(void)
{
}

void control_fork_parent(void)
{
}

void control_fork_child(void)
{
}
