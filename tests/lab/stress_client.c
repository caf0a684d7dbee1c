/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "bench/gen/gen_zipfian.h"
#include "stress.h"

/* Number of the last keys made that a client works on. */
#define WARM 3000u

/* A hot key's version that a client saw, for its next cas. */
struct sight {
	uint64_t id, version;
};

struct client {
	struct stress_board *board;
	struct stress_place *place;
	struct farkv *kv;
	struct gen_zipfian zipf;
	struct rng rng;
	uint64_t writes;
	uint32_t number, round;
	struct sight seen[STRESS_HOT];
	uint8_t key[STRESS_BATCH][STRESS_KEY_MAX];
	struct values *mem;
};

struct values {
	uint8_t value[STRESS_BATCH][STRESS_VALUE_MAX + 8];
	uint8_t copy[STRESS_BATCH][STRESS_VALUE_MAX + 8]; /* to get into */
};

uint8_t stress_result(int err, uint64_t *count)
{
	switch (err) {
	case FARKV_OK:
		return HISTORY_OK;
	case FARKV_ENOTFOUND:
		return HISTORY_NOTFOUND;
	case FARKV_EEXISTS:
		return HISTORY_EXISTS;
	case FARKV_EVERSION:
		return HISTORY_CHANGED;
	case FARKV_EMAYBE:
		count[STRESS_MAYBE]++;
		return HISTORY_UNKNOWN;
	case FARKV_ENOSPC:
		count[STRESS_NO_SPACE]++;
		return HISTORY_FAILED;
	case FARKV_ETIMEDOUT:
		count[STRESS_TIMED_OUT]++;
		return HISTORY_FAILED;
	case FARKV_EDISCONNECTED:
	case FARKV_EUNREACHABLE:
	case FARKV_EREFUSED:
	case FARKV_ENOROUTE:
	case FARKV_ELINKDOWN:
		count[STRESS_DISCONNECTED]++;
		return HISTORY_FAILED;
	case FARKV_EABORTED:
		return HISTORY_FAILED;
	default:
		MUST(false, "%s", farkv_strerror(err));
		return HISTORY_FAILED;
	}
}

/* ---- what to do ------------------------------------------------------------ */

static uint32_t hot_key(struct client *c)
{
	return (uint32_t)gen_zipfian_next(&c->zipf, &c->rng);
}

static uint32_t fresh_key(struct client *c)
{
	uint32_t n = __atomic_fetch_add(&c->board->cold, 1, __ATOMIC_RELAXED);

	return STRESS_COLD + n % STRESS_COLD_MAX;
}

static uint32_t warm_key(struct client *c)
{
	uint32_t n = STRESS_LOAD(c->board->cold), back;

	if (n == 0)
		return hot_key(c);
	back = (uint32_t)rng_below(&c->rng, n < WARM ? n : WARM);
	return STRESS_COLD + (n - 1 - back) % STRESS_COLD_MAX;
}

static uint32_t any_key(struct client *c, unsigned hot_percent)
{
	return rng_below(&c->rng, 100) < hot_percent ? hot_key(c)
						     : warm_key(c);
}

/* One write in four expires, most within the round's next moments. */
static uint32_t any_ttl(struct client *c)
{
	if (!c->board->plan.dated || rng_below(&c->rng, 4))
		return 0;
	return 1 + (uint32_t)rng_below(&c->rng, rng_below(&c->rng, 4) ? 60 : 600);
}

static struct history_op op_of(struct client *c, enum history_kind kind,
			       uint32_t key)
{
	struct history_op op = {.client = c->number, .key = key,
				.kind = (uint8_t)kind};

	if (history_kind_writes(kind)) {
		op.value = history_id(c->number, ++c->writes);
		op.ttl_ms = any_ttl(c);
	}
	return op;
}

static void saw(struct client *c, const struct history_op *op)
{
	if (op->key < STRESS_HOT && op->version)
		c->seen[op->key] = (struct sight){op->value, op->version};
}

/* Of a value read: the checker finds an id that nobody wrote. */
static void note_value(struct client *c, struct history_op *op,
		       const struct farkv_value *v)
{
	bool whole;

	op->value = stress_value_id(v->data, v->len, &whole);
	op->version = v->version;
	if (!whole) {
		op->result = HISTORY_OK;
		op->responded = recorder_time();
		fprintf(stderr, "stress: client %u read it, key %u, round %u\n",
			c->number, op->key, c->round);
		_exit(1);
	}
	saw(c, op);
}

/* ---- one operation --------------------------------------------------------- */

/* A copy of a borrowed value. FARKV_ENOTSUP by RDMA, FARKV_ESTALE if others were quicker. */
static int borrow(struct client *c, size_t key_len, struct farkv_value *v)
{
	struct farkv_view view;
	int err = farkv_borrow(c->kv, c->key[0], key_len, &view);

	if (err)
		return err;
	memcpy(c->mem->copy[0], view.value.data, view.value.len);
	*v = view.value;
	v->data = c->mem->copy[0];
	return farkv_borrow_check(c->kv, &view);
}

/* One in eight borrows, and one in eight copies. */
static int get(struct client *c, size_t key_len, struct farkv_value *v)
{
	uint64_t way = rng_below(&c->rng, 8);
	int err;

	if (way > 1)
		return farkv_get(c->kv, c->key[0], key_len, v);
	err = way ? borrow(c, key_len, v) : FARKV_ESTALE;
	if (err != FARKV_ESTALE && err != FARKV_ENOTSUP)
		return err;
	v->data = c->mem->copy[0];
	return farkv_get_into(c->kv, c->key[0], key_len, c->mem->copy[0],
			      sizeof(c->mem->copy[0]), &v->len, &v->version);
}

/* A write with a time to live. */
static int write_dated(struct client *c, const struct history_op *op, size_t key_len, size_t len,
		       const struct sight *expected, uint64_t *version_out)
{
	static const uint32_t kinds[] = {[HISTORY_PUT] = FARKV_REQUEST_PUT,
					 [HISTORY_ADD] = FARKV_REQUEST_ADD,
					 [HISTORY_REPLACE] = FARKV_REQUEST_REPLACE,
					 [HISTORY_CAS] = FARKV_REQUEST_CAS};
	struct farkv_write_options o = {.size = sizeof(o), .ttl_ms = op->ttl_ms};
	struct farkv_request req = {.kind = kinds[op->kind],
				    .key = c->key[0],
				    .key_len = key_len,
				    .value = c->mem->value[0],
				    .value_len = len,
				    .expected = expected ? expected->version : 0,
				    .options = &o};

	return farkv_write(c->kv, &req, version_out);
}

/* A write, of `len` bytes, or another operation. */
static int call(struct client *c, const struct history_op *op, size_t key_len, size_t len,
		const struct sight *expected, uint64_t *version_out)
{
	const uint8_t *key = c->key[0], *value = c->mem->value[0];

	if (op->ttl_ms)
		return write_dated(c, op, key_len, len, expected, version_out);
	switch (op->kind) {
	case HISTORY_PUT:
		return farkv_put(c->kv, key, key_len, value, len);
	case HISTORY_ADD:
		return farkv_add(c->kv, key, key_len, value, len);
	case HISTORY_REPLACE:
		return farkv_replace(c->kv, key, key_len, value, len);
	case HISTORY_CAS:
		return farkv_cas(c->kv, key, key_len, value, len, expected->version,
				 version_out);
	case HISTORY_ASK:
		return farkv_exists(c->kv, key, key_len);
	default:
		return farkv_delete(c->kv, key, key_len);
	}
}

static void single(struct client *c, enum history_kind kind, uint32_t key,
		   const struct sight *expected)
{
	struct history_op op = op_of(c, kind, key), *at;
	size_t key_len = stress_key(c->round, key, c->key[0]), len = 0;
	struct farkv_value v = {0};
	uint64_t version = 0;
	uint8_t result;
	int err;

	if (op.value)
		len = stress_value(op.value, c->mem->value[0]);
	if (expected)
		op.expected = expected->id;
	at = recorder_begin(&c->place->rec, &op, 1);
	err = kind == HISTORY_GET ? get(c, key_len, &v) :
				    call(c, at, key_len, len, expected, &version);
	result = stress_result(err, c->place->count);
	if (err == 0 && kind == HISTORY_GET)
		note_value(c, at, &v);
	if (err == 0 && kind == HISTORY_CAS) {
		at->version = version;
		saw(c, at);
	}
	recorder_end(at, 1, &result);
}

/* With the version seen last, mostly old by now, or with the current one. */
static void compare_and_set(struct client *c, uint32_t key)
{
	struct recorder *rec = &c->place->rec;
	const struct history_op *at = rec->op + rec->n;
	struct sight s = {0};

	if (key < STRESS_HOT && rng_below(&c->rng, 2))
		s = c->seen[key];
	if (!s.version) {
		single(c, HISTORY_GET, key, NULL);
		if (at->result != HISTORY_OK)
			return;
		s = (struct sight){at->value, at->version};
	}
	single(c, HISTORY_CAS, key, &s);
}

/* Closer than the scheduler would bring two that make one key: wait for another. */
static void race(struct client *c)
{
	struct stress_board *b = c->board;
	uint32_t r = STRESS_LOAD(b->race), next = r;

	if (r >= STRESS_RACES)
		return;
	if (__atomic_add_fetch(&b->arrived[r], 1, __ATOMIC_SEQ_CST) == 1)
		for (int i = 0; i < 20000 && STRESS_LOAD(b->arrived[r]) < 2;
		     i++)
			;
	single(c, rng_below(&c->rng, 2) ? HISTORY_ADD : HISTORY_PUT,
	       STRESS_HOT + r, NULL);
	__atomic_compare_exchange_n(&b->race, &next, r + 1, false,
				    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	single(c, HISTORY_GET, STRESS_HOT + r, NULL);
}

/* ---- many at once ---------------------------------------------------------- */

/* farkv_mget(), or the same into memory of the client. */
static int mget(struct client *c, struct farkv_get_item *item, unsigned n)
{
	struct farkv_get_into_item into[STRESS_BATCH];
	int err;

	if (rng_below(&c->rng, 2))
		return farkv_mget(c->kv, item, n);
	for (unsigned i = 0; i < n; i++)
		into[i] = (struct farkv_get_into_item){.key = item[i].key,
						       .key_len = item[i].key_len,
						       .buf = c->mem->copy[i],
						       .cap = sizeof(c->mem->copy[i])};
	err = farkv_mget_into(c->kv, into, n);
	for (unsigned i = 0; i < n; i++) {
		item[i].result = into[i].result;
		item[i].value = (struct farkv_value){
			.data = into[i].buf, .len = into[i].len, .version = into[i].version};
	}
	return err;
}

static void batch_get(struct client *c, unsigned n)
{
	struct history_op ops[STRESS_BATCH], *at;
	struct farkv_get_item item[STRESS_BATCH];
	uint8_t result[STRESS_BATCH];

	for (unsigned i = 0; i < n; i++) {
		ops[i] = op_of(c, HISTORY_GET, any_key(c, 60));
		item[i] = (struct farkv_get_item){
			.key = c->key[i], .result = FARKV_EABORTED,
			.key_len = stress_key(c->round, ops[i].key,
					      c->key[i])};
	}
	at = recorder_begin(&c->place->rec, ops, n);
	/* Items that were not attempted give no reason. */
	(void)stress_result(mget(c, item, n), c->place->count);
	for (unsigned i = 0; i < n; i++) {
		result[i] = stress_result(item[i].result, c->place->count);
		if (result[i] == HISTORY_OK)
			note_value(c, &at[i], &item[i].value);
	}
	recorder_end(at, n, result);
}

static void batch_ask(struct client *c, unsigned n)
{
	struct history_op ops[STRESS_BATCH], *at;
	struct farkv_key keys[STRESS_BATCH];
	uint8_t result[STRESS_BATCH], bitmap[(STRESS_BATCH + 7) / 8];
	uint8_t all;

	for (unsigned i = 0; i < n; i++) {
		ops[i] = op_of(c, HISTORY_ASK, any_key(c, 60));
		keys[i] = (struct farkv_key){
			c->key[i], stress_key(c->round, ops[i].key, c->key[i])};
	}
	at = recorder_begin(&c->place->rec, ops, n);
	all = stress_result(farkv_mexists(c->kv, keys, n, bitmap, NULL), c->place->count);
	/* After an error nothing is known of the keys that seem missing. */
	for (unsigned i = 0; i < n; i++)
		result[i] = bitmap[i / 8] >> i % 8 & 1 ? HISTORY_OK :
			    all == HISTORY_OK ? HISTORY_NOTFOUND : HISTORY_FAILED;
	recorder_end(at, n, result);
}

static void batch_put(struct client *c, unsigned n)
{
	struct history_op ops[STRESS_BATCH], *at;
	struct farkv_put_item item[STRESS_BATCH];
	uint8_t result[STRESS_BATCH];

	for (unsigned i = 0; i < n; i++) {
		uint32_t key = rng_below(&c->rng, 4) ? any_key(c, 50)
						     : fresh_key(c);

		ops[i] = op_of(c, HISTORY_PUT, key);
		ops[i].ttl_ms = 0;
		item[i] = (struct farkv_put_item){
			.key = c->key[i], .value = c->mem->value[i],
			.key_len = stress_key(c->round, key, c->key[i]),
			.value_len = stress_value(ops[i].value, c->mem->value[i]),
			.result = FARKV_EABORTED};
	}
	at = recorder_begin(&c->place->rec, ops, n);
	(void)stress_result(farkv_mput(c->kv, item, n), c->place->count);
	for (unsigned i = 0; i < n; i++)
		result[i] = stress_result(item[i].result, c->place->count);
	recorder_end(at, n, result);
}

/* ---- requests -------------------------------------------------------------- */

/* One of any kind, of any key; a cas with the version seen last. */
static struct history_op any_request(struct client *c, struct farkv_request *req)
{
	static const uint32_t asks[] = {
		[HISTORY_GET] = FARKV_REQUEST_GET,
		[HISTORY_PUT] = FARKV_REQUEST_PUT,
		[HISTORY_ADD] = FARKV_REQUEST_ADD,
		[HISTORY_REPLACE] = FARKV_REQUEST_REPLACE,
		[HISTORY_CAS] = FARKV_REQUEST_CAS,
		[HISTORY_DELETE] = FARKV_REQUEST_DELETE,
		[HISTORY_ASK] = FARKV_REQUEST_EXISTS};
	static const enum history_kind kinds[] = {
		HISTORY_GET, HISTORY_GET, HISTORY_GET, HISTORY_PUT, HISTORY_PUT,
		HISTORY_ADD, HISTORY_REPLACE, HISTORY_CAS, HISTORY_CAS, HISTORY_DELETE,
		HISTORY_ASK};
	enum history_kind kind = kinds[rng_below(&c->rng, sizeof(kinds) / sizeof(kinds[0]))];
	uint32_t key = kind == HISTORY_CAS ? hot_key(c) : any_key(c, 60);
	struct history_op op;

	if (kind == HISTORY_CAS && !c->seen[key].version)
		kind = HISTORY_GET;
	op = op_of(c, kind, key);
	*req = (struct farkv_request){.kind = asks[kind]};
	if (kind == HISTORY_CAS) {
		op.expected = c->seen[key].id;
		req->expected = c->seen[key].version;
	}
	return op;
}

static void take(struct client *c, struct history_op *at, const struct farkv_completion *done)
{
	uint8_t result = stress_result(done->result, c->place->count);

	if (done->result == 0 && at->kind == HISTORY_GET)
		note_value(c, at, &done->value);
	if (done->result == 0 && at->kind == HISTORY_CAS) {
		at->version = done->version;
		saw(c, at);
	}
	recorder_end(at, 1, &result);
}

/* Of all kinds in flight together; their completions come in any order, a few at a time. */
static void requests(struct client *c, unsigned n)
{
	struct history_op ops[STRESS_BATCH], *at;
	struct farkv_request req[STRESS_BATCH];
	struct farkv_write_options o[STRESS_BATCH];
	struct farkv_completion done[STRESS_BATCH];
	unsigned left = n, sent = 0;

	for (unsigned i = 0; i < n; i++) {
		ops[i] = any_request(c, &req[i]);
		o[i] = (struct farkv_write_options){.size = sizeof(o[i]),
						    .ttl_ms = ops[i].ttl_ms};
		req[i].options = ops[i].ttl_ms ? &o[i] : NULL;
		req[i].tag = i;
		req[i].key = c->key[i];
		req[i].key_len = stress_key(c->round, ops[i].key, c->key[i]);
		if (ops[i].value) {
			req[i].value = c->mem->value[i];
			req[i].value_len = stress_value(ops[i].value, c->mem->value[i]);
		} else if (req[i].kind == FARKV_REQUEST_GET && rng_below(&c->rng, 2)) {
			req[i].buf = c->mem->copy[i];
			req[i].buf_len = sizeof(c->mem->copy[i]);
		}
	}
	at = recorder_begin(&c->place->rec, ops, n);
	while (left) {
		int k = sent < n ? farkv_submit(c->kv, req + sent, n - sent) : 0;

		/* A cluster takes some later: their partition moves. */
		MUST(k >= 0 || k == FARKV_EAGAIN, "submit: %s", farkv_errdetail());
		if (k > 0)
			sent += (unsigned)k;
		k = farkv_wait(c->kv, done, 1 + rng_below(&c->rng, 4), 60000);
		MUST(k >= (sent == n) && (unsigned)k <= left, "%d completions of %u: %s", k, left,
		     farkv_errdetail());
		left -= (unsigned)k;
		for (int i = 0; i < k; i++)
			take(c, &at[done[i].tag], &done[i]);
	}
}

/* ---- a life ---------------------------------------------------------------- */

static void several(struct client *c, void (*fn)(struct client *c, unsigned n))
{
	uint64_t before[STRESS_COUNTS];

	memcpy(before, c->place->count, sizeof(before));
	fn(c, 2 + (unsigned)rng_below(&c->rng, STRESS_BATCH - 1));
	for (unsigned i = 0; i < STRESS_COUNTS; i++)
		c->place->together[i] += c->place->count[i] - before[i];
}

static void one_step(struct client *c)
{
	uint64_t r = rng_below(&c->rng, 100);

	if (r == 0 && rng_below(&c->rng, 2))
		race(c);
	else if (r < 30)
		single(c, HISTORY_GET, any_key(c, 60), NULL);
	else if (r < 34)
		single(c, HISTORY_ASK, any_key(c, 40), NULL);
	else if (r < 50)
		single(c, HISTORY_PUT, any_key(c, 60), NULL);
	else if (r < 57)
		single(c, HISTORY_ADD, any_key(c, 70), NULL);
	else if (r < 63)
		single(c, HISTORY_REPLACE, any_key(c, 70), NULL);
	else if (r < 72)
		compare_and_set(c, any_key(c, 80));
	else if (r < 82)
		single(c, HISTORY_DELETE, any_key(c, 25), NULL);
	else if (r < 84)
		several(c, requests);
	else if (r < 86)
		several(c, batch_get);
	else if (r < 87)
		several(c, batch_ask);
	else if (r < 89)
		several(c, batch_put);
	else if (r < 95)
		single(c, HISTORY_PUT, fresh_key(c), NULL);
	else
		single(c, HISTORY_ADD, fresh_key(c), NULL);
}

static void connect_to(struct client *c)
{
	const struct stress_plan *p = &c->board->plan;
	bool patient = p->kill_server || p->adopt_server || p->bad_way;
	uint64_t end = recorder_now() + UINT64_C(180000000000);
	struct farkv_options o;
	int err;

	farkv_options_init(&o);
	o.op_timeout_ms = c->board->plan.op_timeout_ms;
	o.connect_timeout_ms = 60000;
	do {
		err = farkv_open(c->board->address, &o, &c->kv);
		/* Between two servers, or while nothing gets through. */
	} while (err && patient && !STRESS_LOAD(c->board->stop) &&
		 recorder_now() < end && usleep(20000) == 0);
	if (err && patient && STRESS_LOAD(c->board->stop))
		_exit(0);
	MUST(err == 0, "open: %s", farkv_strerror(err));
	/* By RDMA values of that size travel without a copy. */
	if (c->number % 2) {
		err = farkv_buf_alloc(c->kv, sizeof(*c->mem), (void **)&c->mem);
		MUST(err == 0, "buffers: %s", farkv_errdetail());
	}
}

static uint64_t failures(const struct client *c)
{
	return c->place->count[STRESS_DISCONNECTED] +
	       c->place->count[STRESS_MAYBE];
}

/* A key that nobody else knows. Its length. */
static size_t own_key(struct client *c)
{
	return stress_key(c->round, STRESS_COLD + STRESS_COLD_MAX + c->number,
			  c->key[0]);
}

static void leave_trace(struct client *c)
{
	size_t len = own_key(c);
	int err = farkv_put(c->kv, c->key[0], len, "mine", 4);

	MUST(err == 0, "put: %s", farkv_strerror(err));
}

/*
 * The server was killed. Every call ends in time and reports it, until another server is
 * there; then the same handle works, and no value of the old store is found.
 */
static void outlive_server(struct client *c)
{
	size_t len = own_key(c);
	uint64_t limit = (uint64_t)c->board->plan.op_timeout_ms * 1000000 +
			 UINT64_C(8000000000);
	uint64_t end = recorder_now() + UINT64_C(150000000000);
	int err = FARKV_EDISCONNECTED;

	while (!STRESS_LOAD(c->board->again) || err) {
		uint64_t begin = recorder_now();
		struct farkv_value v;

		err = farkv_get(c->kv, c->key[0], len, &v);
		MUST(recorder_now() - begin < limit, "a get took %" PRIu64
		     " ms without a server", (recorder_now() - begin) / 1000000);
		if (err == FARKV_ENOTFOUND) {
			err = 0;
			continue;
		}
		MUST(err == FARKV_EDISCONNECTED || err == FARKV_EUNREACHABLE ||
		     err == FARKV_ETIMEDOUT, "without a server: %s",
		     err ? farkv_strerror(err) : "a value is found");
		MUST(recorder_now() < end, "no connection after the restart: "
		     "%s", farkv_strerror(err));
		usleep(2000);
	}
	err = farkv_add(c->kv, c->key[0], len, "", 0);
	MUST(err == 0, "add after the restart: %s", farkv_strerror(err));
	err = farkv_delete(c->kv, c->key[0], len);
	MUST(err == 0, "delete after the restart: %s", farkv_strerror(err));
}

void stress_client_main(unsigned me, void *arg)
{
	static struct client c;
	static struct values plain;
	struct stress_board *b = arg;
	uint64_t before;

	c.board = b;
	c.place = &b->place[me];
	c.number = c.place->client;
	c.round = b->round;
	c.mem = &plain;
	rng_seed(&c.rng, b->plan.seed, c.number);
	gen_zipfian_init(&c.zipf, 0, STRESS_HOT - 1, ZIPFIAN_THETA);
	before = failures(&c);
	connect_to(&c);
	if (b->plan.kill_server)
		leave_trace(&c);
	STRESS_STORE(c.place->ready, 1);
	while (!STRESS_LOAD(b->stop) &&
	       recorder_has_room(&c.place->rec, STRESS_BATCH)) {
		one_step(&c);
		if (b->plan.pause_us)
			usleep(b->plan.pause_us);
		if (b->plan.kill_server && failures(&c) > before) {
			outlive_server(&c);
			break;
		}
		/* Not to note thousands of failures. */
		if (b->plan.bad_way && failures(&c) > before)
			usleep(5000);
		before = failures(&c);
		/* Some come and go as they should. */
		if (rng_below(&c.rng, 20000) == 0 && !b->plan.kill_server) {
			farkv_close(c.kv);
			connect_to(&c);
		}
	}
	farkv_close(c.kv);
	_exit(0);
}
