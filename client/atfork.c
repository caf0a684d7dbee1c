/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "atfork.h"

#include <pthread.h>

#include <farkv.h>

#include "common/base/err.h"

#include "control.h"
#include "latency.h"
#include "mapping.h"
#include "notifier.h"
#include "opened.h"

static uint64_t generation; /* changed only in a child that has one thread */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int once_err;

/* Take the locks of all modules, so that the child's copies are consistent. */
static void fork_prepare(void)
{
	control_fork_prepare();
	mapping_fork_prepare();
	notifier_fork_prepare();
	opened_fork_prepare();
	latency_fork_prepare();
}

static void fork_parent(void)
{
	latency_fork_end();
	opened_fork_end();
	notifier_fork_parent();
	mapping_fork_parent();
	control_fork_parent();
}

static void fork_child(void)
{
	generation++;
	latency_fork_end();
	opened_fork_end();
	notifier_fork_child();
	mapping_fork_child();
	control_fork_child();
}

static void install(void)
{
	once_err = pthread_atfork(fork_prepare, fork_parent, fork_child);
}

int atfork_init(void)
{
	pthread_once(&once, install);
	if (once_err)
		return err_set_errno(FARKV_ENOMEM, once_err, "pthread_atfork");
	return 0;
}

uint64_t atfork_generation(void)
{
	return generation;
}
