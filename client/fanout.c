/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "fanout.h"

#include <stdio.h>

#include "common/base/thread.h"

static void run_part(struct fanout *f, uint32_t part)
{
	f->err[part] = f->step(f->arg, part);
	if (f->err[part])
		snprintf(f->line[part], sizeof(f->line[part]), "%s", err_detail());
}

/* Carry out parts until all have begun. The lock is held, but not meanwhile. */
static void run_left(struct fanout *f)
{
	while (f->left) {
		uint32_t part = (uint32_t)__builtin_ctzll(f->left);

		f->left &= f->left - 1;
		f->running++;
		pthread_mutex_unlock(&f->lock);
		run_part(f, part);
		pthread_mutex_lock(&f->lock);
		f->running--;
	}
}

static void *helper_main(void *arg)
{
	struct fanout *f = arg;

	pthread_mutex_lock(&f->lock);
	while (!f->ends) {
		/* One that wakes up late may find the next call, which has use for fewer. */
		if (f->left && f->helpers > 0) {
			f->helpers--;
			run_left(f);
		}
		if (!f->running)
			pthread_cond_signal(&f->ended);
		pthread_cond_wait(&f->begun, &f->lock);
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

static void start_helpers(struct fanout *f, unsigned n)
{
	while (f->n_threads < n && f->n_threads < FANOUT_PARTS_MAX - 1 &&
	       thread_create_masked(&f->thread[f->n_threads], helper_main, f) == 0) {
		(void)pthread_setname_np(f->thread[f->n_threads], "farkv-fanout");
		f->n_threads++;
	}
}

void fanout_init(struct fanout *f)
{
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->begun, NULL);
	pthread_cond_init(&f->ended, NULL);
	f->n_threads = f->running = 0;
	f->helpers = 0;
	f->left = 0;
	f->ends = false;
}

void fanout_fini(struct fanout *f)
{
	pthread_mutex_lock(&f->lock);
	f->ends = true;
	pthread_cond_broadcast(&f->begun);
	pthread_mutex_unlock(&f->lock);
	for (uint32_t i = 0; i < f->n_threads; i++)
		pthread_join(f->thread[i], NULL);
	pthread_cond_destroy(&f->ended);
	pthread_cond_destroy(&f->begun);
	pthread_mutex_destroy(&f->lock);
}

void fanout_run(struct fanout *f, uint64_t parts, unsigned helpers, fanout_step *step, void *arg)
{
	pthread_mutex_lock(&f->lock);
	f->step = step;
	f->arg = arg;
	f->left = parts;
	f->helpers = helpers;
	start_helpers(f, helpers);
	for (unsigned i = 0; i < helpers; i++)
		pthread_cond_signal(&f->begun);
	run_left(f);
	while (f->running)
		pthread_cond_wait(&f->ended, &f->lock);
	pthread_mutex_unlock(&f->lock);
}

int fanout_result(const struct fanout *f, uint32_t part)
{
	return f->err[part] ? err_set(f->err[part], "%s", f->line[part]) : 0;
}
