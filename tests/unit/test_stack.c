/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stack that calls need: each runs on a small stack of its own, which is filled
 * before and inspected afterwards. The bound is STACK_BYTES, promised in farkv.h.
 */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <farkv.h>

#include "tests/rig/cases.h"
#include "tests/rig/e2e.h"
#include "tests/rig/real_server.h"

#define STACK_BYTES (24u << 10) /* as farkv.h says */
#define ROOM (256u << 10)
#define PAINT 0xA5

static struct real_server srv;
static struct farkv *kv;
static char value[100000];
static int result;

static void nothing(void)
{
	result = 0;
}

static void open_it(void)
{
	struct farkv_options o;

	farkv_options_init(&o);
	o.op_timeout_ms = 20000;
	result = farkv_open(srv.path, &o, &kv);
}

static void open_nowhere(void)
{
	struct farkv *none;

	result = farkv_open("/nowhere/at/all", NULL, &none) != FARKV_EUNREACHABLE;
}

static void puts_and_gets(void)
{
	static const size_t sizes[] = {0, 10, 5000, sizeof(value)};
	struct farkv_value v;
	uint64_t version;
	size_t len;

	result = 0;
	for (unsigned i = 0; i < 4; i++) {
		result |= farkv_put(kv, "key", 3, value, sizes[i]);
		result |= farkv_put(kv, "key", 3, value, sizes[i]);
		result |= farkv_get(kv, "key", 3, &v);
		result |= farkv_get_into(kv, "key", 3, value, sizeof(value), &len,
					 &version);
		result |= farkv_cas(kv, "key", 3, value, sizes[i], version, NULL);
		result |= farkv_replace(kv, "key", 3, value, sizes[i]);
		result |= farkv_delete(kv, "key", 3);
		result |= farkv_add(kv, "key", 3, value, sizes[i]);
	}
}

static void batches(void)
{
	static struct farkv_put_item p[300];
	static struct farkv_get_item g[300];
	static struct farkv_key asked[300];
	static char key[300][8];

	for (unsigned i = 0; i < 300; i++) {
		size_t n = (size_t)snprintf(key[i], sizeof(key[i]), "b%u", i);

		p[i] = (struct farkv_put_item){key[i], n, value, i, 0};
		g[i] = (struct farkv_get_item){.key = key[i], .key_len = n};
		asked[i] = (struct farkv_key){key[i], n};
	}
	result = farkv_mput(kv, p, 300) || farkv_mget(kv, g, 300) ||
		 farkv_mexists(kv, asked, 300, NULL, NULL) || farkv_exists(kv, "b0", 2);
}

static void all_keys(void)
{
	const struct farkv_scan_item *items;
	uint64_t cursor = 0;
	size_t n;

	do
		result = farkv_scan(kv, &cursor, SIZE_MAX, &items, &n);
	while (!result && cursor);
	result |= farkv_clear(kv, NULL);
}

static void requests(void)
{
	static struct farkv_completion c[8];
	struct farkv_request r[2] = {{.kind = FARKV_REQUEST_PUT, .key = "r", .key_len = 1,
				      .value = value, .value_len = 3000},
				     {.kind = FARKV_REQUEST_GET, .key = "n", .key_len = 1}};

	result = farkv_event_fd(kv) < 0 || farkv_submit(kv, r, 2) != 2 ||
		 farkv_poll(kv, c, 8) < 0 || farkv_wait(kv, c, 8, 1000) < 0;
}

static void questions(void)
{
	struct farkv_stats s = {.size = sizeof(s)};
	struct farkv_fsck f = {.size = sizeof(f)};

	result = farkv_ping(kv, NULL) || farkv_stats(kv, &s) || farkv_fsck(kv, &f);
}

static void reconnect(void)
{
	struct farkv_value v;

	while ((result = farkv_get(kv, "r", 1, &v)) == FARKV_EDISCONNECTED)
		;
	result = result != FARKV_ENOTFOUND;
}

static void close_it(void)
{
	farkv_close(kv);
	result = 0;
}

static void *on_thread(void *call)
{
	(*(void (**)(void))call)();
	return NULL;
}

/* Number of bytes of its stack that a thread writes to during this call. */
static size_t stack_of(void (*call)(void))
{
	uint8_t *stack = mmap(NULL, ROOM, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t thread;
	size_t clean = 0;

	ck_assert_ptr_ne(stack, MAP_FAILED);
	memset(stack, PAINT, ROOM);
	pthread_attr_init(&attr);
	ck_assert_int_eq(pthread_attr_setstack(&attr, stack, ROOM), 0);
	result = -1;
	ck_assert_int_eq(pthread_create(&thread, &attr, on_thread, &call), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	ck_assert_msg(result == 0, "%s", farkv_errdetail());
	while (clean < ROOM && stack[clean] == PAINT)
		clean++;
	munmap(stack, ROOM);
	return ROOM - clean;
}

static void setup(void)
{
	real_server_init(&srv, NULL);
}

static void teardown(void)
{
	real_server_fini(&srv);
}

static bool sanitized(void)
{
	if (!TEST_UNDER_ASAN && !TEST_UNDER_TSAN)
		return false;
	printf("  left out: sanitizers need more stack\n");
	return true;
}

TEST_GROUP(.setup = setup, .teardown = teardown, .timeout_s = 120, .skip = sanitized);

TEST(calls_need_less_stack_than_promised)
{
	static const struct {
		void (*call)(void);
		const char *name;
	} calls[] = {{open_nowhere, "farkv_open, in vain"}, {open_it, "farkv_open"},
		     {puts_and_gets, "puts and gets"}, {batches, "batches"},
		     {all_keys, "all keys"},
		     {requests, "requests"}, {questions, "questions"},
		     {reconnect, "reconnecting"}, {close_it, "farkv_close"}};
	size_t none = stack_of(nothing);

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		size_t used;

		if (calls[i].call == reconnect) {
			ck_assert_int_eq(real_server_end(&srv, SIGKILL), SIGKILL);
			real_server_start(&srv, NULL);
		}
		used = stack_of(calls[i].call) - none;
		printf("  %s: %zu bytes of stack\n", calls[i].name, used);
		ck_assert_msg(used <= STACK_BYTES, "%s: %zu bytes of stack",
			      calls[i].name, used);
	}
}

TEST_SUITE("stack", real_server_require())
