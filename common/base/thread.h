/* SPDX-License-Identifier: BSD-3-Clause */
/** thread.h - threads that do not disturb the program. Leaf. */
#ifndef COMMON_BASE_THREAD_H
#define COMMON_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

/**
 * pthread_create() of a thread that blocks all signals except those of its own faults: signals are
 * for the program's threads or the server's loop, but a program's handler may resolve a fault, such
 * as a write to a protected page. 0 or an error number.
 */
static inline int thread_create_masked(pthread_t *thread, void *(*run)(void *), void *arg)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	sigdelset(&all, SIGTRAP);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

#endif
