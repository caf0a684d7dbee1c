/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "queue_rig.h"

#include <string.h>
#include <sys/mman.h>

#include "common/base/clock.h"
#include "marks.h"

struct step_lane *lane;
struct farkv_completion done[DONE_MAX];

/* Shared by the processes of all cases. */
static bool *in_vain;

__attribute__((constructor)) static void share(void)
{
	in_vain = mmap(NULL, sizeof(*in_vain), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

unsigned patience_ms(void)
{
	return *in_vain ? 1000 : LONG_MS;
}

void waited_in_vain(const char *what)
{
	*in_vain = true;
	ck_abort_msg("%s: waited in vain, %zu requests in flight", what,
		     farkv_in_flight(kv));
}

static struct xport_lane *wrap(struct xport_lane *inner)
{
	lane = step_lane_open(inner);
	return lane ? &lane->lane : NULL;
}

static struct xport_lane *wrap_card(struct xport_lane *inner)
{
	lane = step_lane_open_card(inner);
	return lane ? &lane->lane : NULL;
}

void setup_card(void)
{
	conn_wrap_lane = wrap_card;
	setup();
}

void setup_stepping(void)
{
	conn_wrap_lane = wrap;
	setup();
}

void setup_stepping_long_grace(void)
{
	conn_wrap_lane = wrap;
	setup_long_grace();
}

struct farkv_request request(enum farkv_request_kind kind, uint64_t tag,
			     const char *key, const char *value)
{
	return (struct farkv_request){.tag = tag,
				      .kind = kind,
				      .key = key,
				      .key_len = strlen(key),
				      .value = value,
				      .value_len = value ? strlen(value) : 0};
}

void submit(enum farkv_request_kind kind, uint64_t tag, const char *key,
	    const char *value)
{
	struct farkv_request r = request(kind, tag, key, value);

	done[tag].result = 1;
	ck_assert_int_eq(farkv_submit(kv, &r, 1), 1);
}

static unsigned keep(const struct farkv_completion *c, int n)
{
	ck_assert_int_ge(n, 0);
	for (int i = 0; i < n; i++) {
		ck_assert_uint_lt(c[i].tag, DONE_MAX);
		ck_assert_int_eq(done[c[i].tag].result, 1);
		done[c[i].tag] = c[i];
	}
	return (unsigned)n;
}

unsigned take(void)
{
	struct farkv_completion c[DONE_MAX];

	return keep(c, farkv_poll(kv, c, DONE_MAX));
}

void reap(void)
{
	uint64_t end = clock_now_ns() + patience_ms() * NS_PER_MS;

	while (farkv_in_flight(kv)) {
		(void)take();
		if (clock_now_ns() > end)
			waited_in_vain("farkv_poll");
	}
}

void wait_all(void)
{
	struct farkv_completion c[DONE_MAX];

	while (farkv_in_flight(kv))
		if (!keep(c, farkv_wait(kv, c, DONE_MAX, patience_ms())))
			waited_in_vain("farkv_wait");
}

void assert_got(uint64_t tag, const char *value)
{
	ck_assert_int_eq(done[tag].result, 0);
	ck_assert_uint_eq(done[tag].value.len, strlen(value));
	ck_assert_mem_eq(done[tag].value.data, value, strlen(value));
}
