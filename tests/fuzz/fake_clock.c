/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "fake_clock.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define START_NS UINT64_C(1000000000000)
#define LOOK_NS 1000u

void (*fake_clock_idle)(void);

static uint64_t now_ns = START_NS, looks;

void fake_clock_reset(void)
{
	now_ns = START_NS;
	looks = 0;
}

void fake_clock_advance(uint64_t ns)
{
	now_ns += ns;
}

uint64_t fake_clock_looks(void)
{
	return looks;
}

/* Replaces libc's function, also for its other users in this program. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE &&
	    clock != CLOCK_BOOTTIME)
		return (int)syscall(SYS_clock_gettime, clock, ts);
	looks++;
	now_ns += LOOK_NS;
	ts->tv_sec = (time_t)(now_ns / 1000000000u);
	ts->tv_nsec = (long)(now_ns % 1000000000u);
	return 0;
}

int nanosleep(const struct timespec *want, struct timespec *left)
{
	(void)left;
	now_ns += (uint64_t)want->tv_sec * 1000000000u + (uint64_t)want->tv_nsec;
	return 0;
}

/* Runs what other threads would do meanwhile; then the time has passed. */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
			   const struct timespec *until)
{
	uint64_t ns = (uint64_t)until->tv_sec * 1000000000u +
		      (uint64_t)until->tv_nsec;

	(void)cond;
	if (fake_clock_idle) {
		pthread_mutex_unlock(mutex);
		fake_clock_idle();
		pthread_mutex_lock(mutex);
	}
	if (now_ns < ns)
		now_ns = ns;
	return ETIMEDOUT;
}
