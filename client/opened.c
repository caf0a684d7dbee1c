/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "opened.h"

#include <pthread.h>
#include <stddef.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct opened *first;
static uint64_t last_number;

void opened_number(struct opened *o)
{
	pthread_mutex_lock(&lock);
	o->number = ++last_number;
	pthread_mutex_unlock(&lock);
}

void opened_add(struct opened *o)
{
	pthread_mutex_lock(&lock);
	if (!o->number)
		o->number = ++last_number;
	o->next = first;
	first = o;
	pthread_mutex_unlock(&lock);
}

bool opened_remove(struct opened *o)
{
	struct opened **at = &first;
	bool found;

	pthread_mutex_lock(&lock);
	while (*at && *at != o)
		at = &(*at)->next;
	found = *at != NULL;
	if (found)
		*at = o->next;
	pthread_mutex_unlock(&lock);
	return found;
}

void opened_fork_prepare(void)
{
	pthread_mutex_lock(&lock);
}

void opened_fork_end(void)
{
	pthread_mutex_unlock(&lock);
}
