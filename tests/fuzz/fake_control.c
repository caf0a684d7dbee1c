/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "fake_control.h"

#include <pthread.h>

#include "client/control.h"
#include "fuzz.h"

bool fake_control_runs;
static struct control_source *source;
/* Connections are made and closed by threads of their own (client/dial.h). */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void fake_control_ready(void)
{
	pthread_mutex_lock(&lock);
	if (source && !source->muted && !fake_control_runs) {
		fake_control_runs = true;
		source->ready(source);
		fake_control_runs = false;
	}
	pthread_mutex_unlock(&lock);
}

void fake_control_tick(void)
{
	pthread_mutex_lock(&lock);
	if (source && source->ticking && !fake_control_runs) {
		fake_control_runs = true;
		source->tick(source);
		fake_control_runs = false;
	}
	pthread_mutex_unlock(&lock);
}

int control_add(struct control_source *src)
{
	pthread_mutex_lock(&lock);
	FUZZ_CHECK(!source);
	src->ticking = src->muted = false;
	source = src;
	pthread_mutex_unlock(&lock);
	return 0;
}

void control_remove(struct control_source *src)
{
	pthread_mutex_lock(&lock);
	FUZZ_CHECK(source == src && !fake_control_runs);
	source = NULL;
	pthread_mutex_unlock(&lock);
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

void control_look(struct control_source *src, bool on)
{
	FUZZ_CHECK(src == source);
	src->looking = on;
}

void control_mute(struct control_source *src)
{
	FUZZ_CHECK(src == source);
	src->muted = true;
}

bool control_qsbr_fence(void)
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
