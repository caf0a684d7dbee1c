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

/* Run parts until all have begun. Called with the lock held, which is released while a part runs.
 */
static void run_parts(struct fanout *f)
{
	while (f->not_begun) {
		uint32_t part = (uint32_t)__builtin_ctzll(f->not_begun);

		f->not_begun &= f->not_begun - 1;
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
	while (!f->closing) {
		/*
		 * A thread that wakes up late may find the next call, which may need fewer helpers.
		 */
		if (f->not_begun && f->helpers_wanted > 0) {
			f->helpers_wanted--;
			run_parts(f);
		}
		if (!f->running)
			pthread_cond_signal(&f->idle);
		pthread_cond_wait(&f->work, &f->lock);
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

static void start_helpers(struct fanout *f, unsigned n)
{
	while (f->n_threads < n && f->n_threads < FANOUT_HELPERS_MAX &&
	       thread_create_masked(&f->thread[f->n_threads], helper_main, f) == 0) {
		(void)pthread_setname_np(f->thread[f->n_threads], "farkv-fanout");
		f->n_threads++;
	}
}

void fanout_init(struct fanout *f)
{
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->work, NULL);
	pthread_cond_init(&f->idle, NULL);
	f->n_threads = f->running = 0;
	f->helpers_wanted = 0;
	f->not_begun = 0;
	f->closing = false;
}

void fanout_fini(struct fanout *f)
{
	pthread_mutex_lock(&f->lock);
	f->closing = true;
	pthread_cond_broadcast(&f->work);
	pthread_mutex_unlock(&f->lock);
	for (uint32_t i = 0; i < f->n_threads; i++)
		pthread_join(f->thread[i], NULL);
	pthread_cond_destroy(&f->idle);
	pthread_cond_destroy(&f->work);
	pthread_mutex_destroy(&f->lock);
}

void fanout_run(struct fanout *f, uint64_t parts, unsigned helpers, fanout_step *step, void *arg)
{
	f->step = step;
	f->arg = arg;
	if (helpers == 0) {
		for (; parts; parts &= parts - 1)
			run_part(f, (uint32_t)__builtin_ctzll(parts));
		return;
	}
	pthread_mutex_lock(&f->lock);
	f->not_begun = parts;
	f->helpers_wanted = helpers;
	start_helpers(f, helpers);
	for (unsigned i = 0; i < helpers; i++)
		pthread_cond_signal(&f->work);
	run_parts(f);
	while (f->running)
		pthread_cond_wait(&f->idle, &f->lock);
	pthread_mutex_unlock(&f->lock);
}

int fanout_take_result(const struct fanout *f, uint32_t part)
{
	return f->err[part] ? err_set(f->err[part], "%s", f->line[part]) : 0;
}
