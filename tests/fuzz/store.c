/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library as a program uses it, with a hostile server (hostile.h): every call of
 * <farkv.h>, including requests in flight, over a region that the input damages, with
 * sessions that end and are replaced. The input decides the results of connect.c and
 * mapping.c, which have their own targets.
 *
 * Every call ends, at the latest soon after its deadline. It returns an error with a line
 * of text, or a value within the store's limits. Every accepted request completes once,
 * unchanged.
 */
#include "config.h"

#include "fuzz.h"

#include <sched.h>
#include <sys/stat.h>

#include <farkv.h>

#include "client/connect.h"
#include "client/handle.h"
#include "client/mapping.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "fake_clock.h"
#include "fake_control.h"
#include "hostile.h"

#define COMMANDS_MAX 60
#define TIMEOUT_MS 3
#define BATCH_MAX 140 /* more than a group of index_run() */

static uint32_t next_session;
static struct farkv *kv;
static pthread_t user; /* the handle's thread */

/* A thread that connects may outlast the handle, and has a connection of its own. */
static pthread_mutex_t *lock_of_client(void)
{
	return pthread_equal(pthread_self(), user) && kv && kv->conn.inv ? &kv->conn.inv->lock :
									    NULL;
}

/* ---- in place of connect.c and mapping.c --------------------------------------- */

int connect_open(const struct connect_params *p, struct connect_result *out)
{
	static const int errors[] = {FARKV_EUNREACHABLE, FARKV_ETIMEDOUT,
				     FARKV_EREFUSED, FARKV_EPROTOCOL};
	uint8_t how = fuzz_u8(&hostile_in);

	next_session++;
	fake_clock_advance((how & 3) * NS_PER_MS);
	if (how >= 0xF0)
		return err_set(errors[how % 4], "no");
	*out = (struct connect_result){
		.channel = hostile_channel(!(how & 4)),
		.meta_fd = -1,
		.tether_fd = -1,
		.heat_fd = -1,
		.data_fd = -1,
		.session = next_session,
		.prefix = next_session,
		.readonly = p->readonly || how % 32 == 31,
		.swept = how & 8,
		.read8_atomic = true,
		.region_id = {hostile_sb.region_id[0] + (how >= 0xE0), 2},
		.region_bytes = hostile_sb.region_bytes,
		.meta_bytes = hostile_sb.meta_bytes,
		.grace_ns = hostile_sb.grace_ns};
	return 0;
}

static struct superblock mapped;

int mapping_get(const struct mapping_spec *spec, struct mapping **map_out)
{
	mapped = hostile_sb;
	memcpy(mapped.region_id, spec->region_id, sizeof(mapped.region_id));
	*map_out = NULL;
	return 0;
}

int mapping_tether(int fd, bool peer_may_kill, void **tether_out)
{
	(void)fd;
	(void)peer_may_kill;
	(void)tether_out;
	return 0;
}

void mapping_put(struct mapping *map)
{
	(void)map;
}

uint8_t *mapping_base(const struct mapping *map)
{
	(void)map;
	return hostile_base;
}

const struct superblock *mapping_superblock(const struct mapping *map)
{
	(void)map;
	return &mapped;
}

void mapping_fork_prepare(void)
{
}

void mapping_fork_parent(void)
{
}

void mapping_fork_child(void)
{
}

/* ---- calls ------------------------------------------------------------------------ */

static void check_value(const struct farkv_value *v)
{
	volatile uint8_t sum = 0;

	FUZZ_CHECK(v->data);
	for (size_t i = 0; i < v->len; i++)
		sum = (uint8_t)(sum + ((const uint8_t *)v->data)[i]);
}

static void check_error(int err)
{
	FUZZ_CHECK(err >= 0 || *farkv_strerror(err));
	if (err && err != FARKV_ENOTFOUND && err != FARKV_EEXISTS &&
	    err != FARKV_EVERSION)
		FUZZ_CHECK(fuzz_detail_ok());
}

static int call_one(uint8_t what)
{
	static const uint8_t value[UINT8_MAX * 8];
	struct index_key k = hostile_key(fuzz_u8(&hostile_in));
	size_t len = fuzz_u8(&hostile_in) * 8u;
	struct farkv_value v = {0};
	uint64_t version = 0;
	uint8_t into[16];
	int err;

	switch (what) {
	case 0:
		err = farkv_get(kv, k.data, k.len, &v);
		if (!err)
			check_value(&v);
		return err;
	case 1:
		return farkv_put(kv, k.data, k.len, value, len);
	case 2:
		return farkv_add(kv, k.data, k.len, value, len);
	case 3:
		return farkv_replace(kv, k.data, k.len, value, len);
	case 4:
		return farkv_cas(kv, k.data, k.len, value, len, len,
				 &version);
	case 5:
		return farkv_delete(kv, k.data, k.len);
	default:
		err = farkv_get_into(kv, k.data, k.len, into, sizeof(into),
				     &len, &version);
		FUZZ_CHECK(err || len <= sizeof(into));
		return err;
	}
}

static int call_mget(void)
{
	struct farkv_get_item items[BATCH_MAX] = {0};
	size_t n = fuzz_u8(&hostile_in) % BATCH_MAX;
	int err;

	for (size_t i = 0; i < n; i++) {
		struct index_key k = hostile_key((unsigned)i);

		items[i].key = k.data;
		items[i].key_len = k.len;
	}
	err = farkv_mget(kv, items, n);
	for (size_t i = 0; i < n && !err; i++)
		if (items[i].result == 0)
			check_value(&items[i].value);
	return err;
}

static int call_mput(void)
{
	static const uint8_t value[UINT8_MAX * 8];
	struct farkv_put_item items[BATCH_MAX] = {0};
	size_t n = fuzz_u8(&hostile_in) % BATCH_MAX;
	size_t len = fuzz_u8(&hostile_in) * 8u;

	for (size_t i = 0; i < n; i++) {
		struct index_key k = hostile_key((unsigned)i);

		items[i].key = k.data;
		items[i].key_len = k.len;
		items[i].value = value;
		items[i].value_len = len;
	}
	return farkv_mput(kv, items, n);
}

/* ---- requests --------------------------------------------------------------------- */

#define DEPTH 5

/* Those in flight; a request's tag is its place here. */
static struct asked {
	bool in_flight;
	uint32_t kind;
	uint8_t into[16];
} asked[DEPTH];
static size_t n_asked;

static struct farkv_request any_request(uint64_t tag)
{
	static const uint8_t value[UINT8_MAX * 8];
	uint8_t how = fuzz_u8(&hostile_in);
	struct index_key k = hostile_key(how >> 4);
	struct farkv_request r = {.tag = tag,
				  .kind = how % 9, /* one of them is none */
				  .key = k.data,
				  .key_len = k.len,
				  .expected = how};

	if (r.kind >= FARKV_REQUEST_PUT && r.kind <= FARKV_REQUEST_CAS) {
		r.value = value;
		r.value_len = fuzz_u8(&hostile_in) * 8u;
	} else if ((how & 0x80) && tag < DEPTH) {
		r.buf = asked[tag].into;
		r.buf_len = sizeof(asked[tag].into);
	}
	return r;
}

static int call_submit(void)
{
	size_t n = 1 + fuzz_u8(&hostile_in) % DEPTH, place = 0;
	struct farkv_request r[DEPTH];
	int taken;

	for (size_t i = 0; i < n; i++, place++) {
		while (place < DEPTH && asked[place].in_flight)
			place++;
		r[i] = any_request(place);
	}
	taken = farkv_submit(kv, r, n);
	FUZZ_CHECK(taken && taken <= (int)n);
	FUZZ_CHECK((taken == FARKV_EAGAIN) == (n_asked == DEPTH));
	for (int i = 0; i < taken; i++) {
		FUZZ_CHECK(r[i].tag < DEPTH && r[i].kind <= FARKV_REQUEST_DELETE_CAS);
		asked[r[i].tag].in_flight = true;
		asked[r[i].tag].kind = r[i].kind;
		n_asked++;
	}
	return taken > 0 ? 0 : taken;
}

static int call_take(bool wait)
{
	struct farkv_completion done[DEPTH];
	size_t max = 1 + fuzz_u8(&hostile_in) % DEPTH;
	int n = wait ? farkv_wait(kv, done, max, TIMEOUT_MS) : farkv_poll(kv, done, max);

	FUZZ_CHECK(n <= (int)max);
	for (int i = 0; i < n; i++) {
		const struct farkv_completion *c = &done[i];

		FUZZ_CHECK(c->tag < DEPTH && asked[c->tag].in_flight &&
			   c->kind == asked[c->tag].kind);
		FUZZ_CHECK(c->result == 0 || *farkv_strerror(c->result));
		if (c->result == 0 && c->kind == FARKV_REQUEST_GET)
			check_value(&c->value);
		asked[c->tag].in_flight = false;
		n_asked--;
	}
	return n > 0 ? done[n - 1].result : n;
}

static int call_queue(uint8_t what)
{
	switch (what % 4) {
	case 0:
		return call_submit();
	case 1:
		return call_take(false);
	case 2:
		return call_take(true);
	default:
		return farkv_event_fd(kv) >= 0 ? 0 : farkv_event_fd(kv);
	}
}

/* ---- all calls -------------------------------------------------------------------- */

static int call_server(uint8_t what)
{
	struct farkv_stats stats = {.size = sizeof(stats)};
	struct farkv_fsck fsck = {.size = sizeof(fsck)};
	struct farkv_counters counters = {.size = sizeof(counters)};
	uint64_t ns;

	switch (what % 4) {
	case 0:
		return farkv_stats(kv, &stats);
	case 1:
		return farkv_fsck(kv, &fsck);
	case 2:
		return farkv_ping(kv, &ns);
	default:
		return farkv_counters(kv, &counters);
	}
}

static void call(uint8_t what)
{
	uint64_t looks = fake_clock_looks();
	int err;

	err_clear();
	if (what < 16)
		err = call_one(what % 8);
	else if (what < 20)
		err = call_mget();
	else if (what < 24)
		err = call_mput();
	else if (what < 28)
		err = call_server(what);
	else
		err = call_queue(what);
	check_error(err);
	FUZZ_CHECK(farkv_in_flight(kv) == n_asked);
	/* After ten times its deadline the call counts as endless. */
	FUZZ_CHECK(fake_clock_looks() - looks < TIMEOUT_MS * 10000);
}

static void act(void)
{
	uint8_t what = fuzz_u8(&hostile_in);

	switch (what % 8) {
	case 0:
		hostile_pump(what >> 4);
		break;
	case 1:
		hostile_scribble();
		break;
	case 2:
		fake_clock_advance((what >> 3) * NS_PER_MS);
		fake_control_tick();
		break;
	case 3:
		hostile_stuck(what >> 3);
		break;
	default:
		call(what >> 3);
		break;
	}
}

static nlink_t threads(void)
{
	struct stat st;

	FUZZ_CHECK(stat("/proc/self/task", &st) == 0);
	return st.st_nlink;
}

/* A thread that connects also reads the input. */
static void await_threads(nlink_t before)
{
	while (threads() > before)
		sched_yield();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	nlink_t threads_before = threads();
	struct farkv_options o;
	int err;

	kv = NULL;
	user = pthread_self();
	hostile_begin(data, size);
	hostile_lock = lock_of_client;
	next_session = 0;
	memset(asked, 0, sizeof(asked));
	n_asked = 0;
	farkv_options_init(&o);
	o.op_timeout_ms = TIMEOUT_MS;
	o.connect_timeout_ms = TIMEOUT_MS;
	o.queue_depth = DEPTH;
	o.flags = fuzz_u8(&hostile_in) & FARKV_OPEN_READONLY;
	err_clear();
	err = farkv_open("/nowhere", &o, &kv);
	if (err) {
		FUZZ_CHECK(!kv && fuzz_detail_ok());
		await_threads(threads_before);
		return 0;
	}
	for (int i = 0; i < COMMANDS_MAX && fuzz_left(&hostile_in); i++)
		act();
	farkv_close(kv);
	await_threads(threads_before);
	return 0;
}
