/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "closer.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/atomic.h"
#include "common/base/thread.h"

struct closer {
	pthread_mutex_t lock; /* protects all below */
	pthread_cond_t more;
	pthread_t thread;
	bool running, stop;
	bool abandoned; /* closer_free() has left it all to the thread */
	struct closer_item *first;
	uint32_t pending; /* also read without the lock */
};

struct closer *closer_new(void)
{
	struct closer *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->more, NULL);
	return c;
}

static void dispose(struct closer *c)
{
	struct closer_item *item;

	/* Their descriptors are closed when the process ends. */
	while ((item = c->first)) {
		c->first = item->next;
		free(item);
	}
	pthread_cond_destroy(&c->more);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void *closer_main(void *arg)
{
	struct closer *c = arg;
	bool abandoned;

	pthread_mutex_lock(&c->lock);
	while (!c->stop) {
		struct closer_item *item = c->first;

		if (!item) {
			pthread_cond_wait(&c->more, &c->lock);
			continue;
		}
		c->first = item->next;
		pthread_mutex_unlock(&c->lock);
		close(item->fd);
		free(item);
		pthread_mutex_lock(&c->lock);
		atom_store_relaxed(&c->pending, c->pending - 1);
	}
	abandoned = c->abandoned;
	pthread_mutex_unlock(&c->lock);
	if (abandoned)
		dispose(c);
	return NULL;
}

void closer_take(struct closer *c, struct closer_item *item)
{
	pthread_mutex_lock(&c->lock);
	item->next = c->first;
	c->first = item;
	atom_store_relaxed(&c->pending, c->pending + 1);
	/* If no thread can be made the item waits until the next one comes. */
	if (!c->running)
		c->running = thread_create_masked(&c->thread, closer_main, c) == 0;
	pthread_cond_signal(&c->more);
	pthread_mutex_unlock(&c->lock);
}

uint32_t closer_pending(const struct closer *c)
{
	return atom_load_relaxed(&c->pending);
}

void closer_free(struct closer *c)
{
	pthread_t thread;
	bool running, abandoned;

	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	thread = c->thread;
	running = c->running;
	/* The thread may sleep in close() for as long as a client likes: do not join it. */
	abandoned = c->abandoned = running && c->pending > 0;
	pthread_cond_signal(&c->more);
	pthread_mutex_unlock(&c->lock);
	if (abandoned) {
		pthread_detach(thread);
		return;
	}
	if (running)
		pthread_join(thread, NULL);
	dispose(c);
}
