/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "event_rig.h"

#include <poll.h>

#include <farkv.h>

#include "marks.h"
#include "queue_rig.h"

int fd;
unsigned wakes;

bool readable(int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1 && (p.revents & POLLIN);
}

void open_fd(void)
{
	fd = farkv_event_fd(kv);
	ck_assert_msg(fd >= 0, "%s", farkv_errdetail());
}

void wait_readable(void)
{
	if (!readable((int)patience_ms()))
		waited_in_vain("the descriptor");
}

void poll_out(void)
{
	while (take())
		;
}

void drive(void)
{
	for (wakes = 0; farkv_in_flight(kv); wakes++) {
		wait_readable();
		poll_out();
	}
}

void quiet(void)
{
	clock_sleep_ns(SETTLE_NS);
	poll_out();
	ck_assert(!readable(0));
}
