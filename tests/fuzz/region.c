/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index over a region that others scribble on: a client's operations, one after
 * the other, on a lane that shows memory or on one that copies, while words, blocks
 * and directory change before, and between the requests of, each operation.
 *
 * Whatever the region says, an operation ends, within so many requests, touches
 * nothing outside of the region (which lies alone in memory of its size), and
 * blocks that it takes over lie within.
 */
#include "config.h"

#include "fuzz.h"

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/region/hash.h"
#include "common/index/index.h"
#include "common/index/run.h"
#include "common/index/scan.h"
#include "common/index/try.h"
#include "fake_clock.h"
#include "seal.h"

#define DEPTH 1u
#define SUBTABLES (1u << DEPTH)
#define HEAP_PAGES 4u
#define REGION_BYTES (META_ALIGN + (SUBTABLES + HEAP_PAGES) * PAGE_BYTES)
#define KEYS 6u
#define GRACE_NS UINT64_C(1000000)
/* One operation; damage ends it after about a hundred tries of a few each. */
#define REQUESTS_MAX 4000u
#define OPERATIONS_MAX 64u
/* A call of a scan: each slot of a subtable can be damaged, and is tried as often. */
#define SCAN_REQUESTS_MAX (110u * SUBTABLE_SLOTS)
#define SCAN_CALLS_MAX 2u

static const char *const keys[KEYS] = {"a", "b", "key-3", "key-4", "k", ""};

/* The initial region of each input, and the current one. */
static struct superblock sb;
static uint8_t *pristine, *base;

static struct fuzz_in in;
static uint64_t requests, requests_max;
static unsigned breaks; /* at the nth hook from here; 0: not */
static struct index *ix;
static struct alloc *alloc;
static struct xport_lane *lane;

static struct index_key key_of(unsigned i)
{
	static const uint8_t long_key[300] = "a key that no small block holds";
	const void *p = *keys[i] ? (const void *)keys[i] : long_key;
	size_t len = *keys[i] ? strlen(keys[i]) : sizeof(long_key);

	return (struct index_key){.data = p,
				  .hash = hash_key(sb.hash_seed, p, len),
				  .len = (uint16_t)len};
}

/* ---- the region ------------------------------------------------------------ */

static uint64_t *word_at(uint64_t off)
{
	return (uint64_t *)(void *)(base + off);
}

static uint64_t *window_of(unsigned i)
{
	struct index_key k = key_of(i);
	uint64_t page = META_ALIGN / PAGE_BYTES + hash_dir_index(k.hash, DEPTH);

	return word_at(page * PAGE_BYTES +
		       (uint64_t)hash_home_line(k.hash) * LINE_BYTES);
}

static struct block_ref block_of(unsigned i, uint8_t cls)
{
	return (struct block_ref){.off = META_ALIGN + SUBTABLES * PAGE_BYTES +
					 i * 4096u,
				  .cls = cls};
}

/* Every second key is present. */
static void region_make(void)
{
	sb = (struct superblock){.meta_bytes = META_ALIGN,
				 .region_bytes = REGION_BYTES,
				 .hash_seed = 42,
				 .max_value = 1 << 16,
				 .max_key = 1000,
				 .grace_ns = GRACE_NS};
	superblock_seal(&sb);
	base = aligned_alloc(4096, REGION_BYTES);
	pristine = malloc(REGION_BYTES - META_ALIGN);
	FUZZ_CHECK(base && pristine);
	memset(base, 0, REGION_BYTES);
	for (unsigned t = 0; t < SUBTABLES; t++)
		for (unsigned s = 0; s < SUBTABLE_SLOTS; s++)
			word_at(META_ALIGN + t * PAGE_BYTES)[s] =
				slot_empty(t + 1);
	for (unsigned i = 0; i < KEYS; i += 2) {
		struct index_key k = key_of(i);
		struct block_ref ref = block_of(i, (uint8_t)(i * 5));

		block_encode(base + ref.off, ref, i + 1,
			     &(struct block_pair){.key = k.data, .key_hash = k.hash,
						  .key_len = k.len,
						  .value = "value", .value_len = 5});
		*window_of(i) = slot_pack(ref, hash_fp(k.hash), SLOT_BLIND);
	}
	memcpy(pristine, base + META_ALIGN, REGION_BYTES - META_ALIGN);
}

static void region_reset(void)
{
	memset(base, 0, REGION_DIR_OFF + 4096);
	memcpy(base, &sb, sizeof(sb));
	*word_at(REGION_D_OFF) = dirword_pack(REGION_DIR_OFF, DEPTH);
	for (unsigned t = 0; t < SUBTABLES; t++)
		word_at(REGION_DIR_OFF)[t] =
			entry_pack(META_ALIGN / PAGE_BYTES + t, t + 1, DEPTH);
	memcpy(base + META_ALIGN, pristine, REGION_BYTES - META_ALIGN);
}

/* ---- scribbling ------------------------------------------------------------- */

static void scribble_slot(void)
{
	unsigned i = fuzz_u8(&in) % KEYS;
	uint64_t *slot = &window_of(i)[fuzz_u8(&in) % WINDOW_SLOTS];
	struct block_ref ref = block_of(fuzz_u8(&in) % 8, fuzz_u8(&in));
	uint8_t flags = fuzz_u8(&in);
	uint64_t w;

	ref.cls &= SLOT_CLASS_MASK;
	ref.inc = fuzz_u8(&in);
	if (flags & 8)
		ref.off = fuzz_u64(&in) & SLOT_PTR_MASK * PTR_UNIT;
	w = slot_pack(ref, hash_fp(key_of(i).hash),
		      (uint64_t)(flags & 7) << 53);
	if (flags & 16)
		w = slot_empty(fuzz_u8(&in)) | (uint64_t)(flags & 7) << 53;
	if (flags & 32)
		w ^= UINT64_C(1) << (flags >> 6) * 20;
	*slot = w;
}

/* The same word in a whole window: no EMPTY is left. */
static void scribble_window(void)
{
	unsigned i = fuzz_u8(&in) % KEYS;
	uint64_t w = fuzz_u64(&in);

	for (unsigned s = 0; s < WINDOW_SLOTS; s++)
		window_of(i)[s] = w + (s << SLOT_FP_SHIFT / 2);
}

/* A block's header and first bytes, with right sums or without. */
static void scribble_block(void)
{
	struct block_ref ref = block_of(fuzz_u8(&in) % 8, 0);
	uint8_t flags = fuzz_u8(&in);
	struct block_header h;
	size_t n;
	const uint8_t *p;

	ref.cls = fuzz_u8(&in) & SLOT_CLASS_MASK;
	memcpy(&h, base + ref.off, sizeof(h));
	h.value_len = flags & 1 ? fuzz_u32(&in) : fuzz_u8(&in);
	h.key_len = flags & 2 ? fuzz_u16(&in) : fuzz_u8(&in);
	h.inc_flags = fuzz_u16(&in);
	memcpy(base + ref.off, &h, sizeof(h));
	p = fuzz_bytes(&in, 64, &n);
	if (n)
		memcpy(base + ref.off + sizeof(h), p, n);
	ref.inc = h.inc_flags & BLOCK_INC_MASK;
	if (flags & 4)
		seal_block(base + ref.off, REGION_BYTES - ref.off, ref,
			   sb.hash_seed);
}

/* The server's part may be damaged as well. */
static void scribble_directory(void)
{
	uint8_t what = fuzz_u8(&in);
	uint64_t *entry = &word_at(REGION_DIR_OFF)[what >> 4];
	uint64_t page = META_ALIGN / PAGE_BYTES + fuzz_u8(&in) % 16;

	if (what & 1)
		*entry = fuzz_u64(&in);
	else if (what & 2)
		*entry = entry_pack(page, fuzz_u8(&in), fuzz_u8(&in));
	else if (what & 4)
		*word_at(REGION_D_OFF) = fuzz_u64(&in);
	else
		*word_at(REGION_D_OFF) =
			dirword_pack(REGION_DIR_OFF + 8 * (what >> 4),
				     fuzz_u8(&in));
}

static void scribble_word(void)
{
	uint64_t off = META_ALIGN + fuzz_u32(&in) % (REGION_BYTES - META_ALIGN);

	*word_at(off & ~UINT64_C(7)) = fuzz_u64(&in);
}

static void scribble(void)
{
	switch (fuzz_u8(&in) % 8) {
	case 0:
	case 1:
	case 2:
		scribble_slot();
		break;
	case 3:
		scribble_window();
		break;
	case 4:
	case 5:
		scribble_block();
		break;
	case 6:
		scribble_directory();
		break;
	default:
		scribble_word();
		break;
	}
}

/* Between two requests, while the input lasts. Non-zero: the lane breaks here. */
static int on_request(void *arg, const struct xport_chain *chain, unsigned i,
		      bool after)
{
	uint8_t what;

	(void)arg;
	(void)chain;
	(void)i;
	requests++;
	FUZZ_CHECK(requests <= requests_max || fuzz_left(&in));
	if (after || !fuzz_left(&in))
		return breaks && after ? breaks-- == 1 : 0;
	what = fuzz_u8(&in);
	if (what % 4 == 0)
		scribble();
	else if (what % 32 == 1)
		fake_clock_advance(GRACE_NS);
	return breaks ? breaks-- == 1 : 0;
}

/* ---- operations ---------------------------------------------------------------- */

static void check_result(const struct index_op *op)
{
	const struct block_view *v = &op->view;
	volatile uint8_t sum = 0;

	FUZZ_CHECK(op->result != INDEX_PENDING);
	if (op->kind != INDEX_GET || op->result)
		return;
	FUZZ_CHECK(v->key_len == op->key.len &&
		   !memcmp(v->key, op->key.data, v->key_len));
	for (uint32_t i = 0; i < v->value_len; i++)
		sum = (uint8_t)(sum + v->value[i]);
}

/* The awaited thing is available, a few times. */
static void attend(struct index_op *op)
{
	struct block_ref ref = block_of(8, op->cls);

	ref.off += fuzz_u8(&in) % 4 * 8192u;
	if (op->wait == INDEX_WAIT_BLOCK && region_block_ok(&sb, ref.off, ref.cls))
		FUZZ_CHECK(alloc_granted(alloc, op->cls, &ref, 1) == 0);
	fake_clock_advance(GRACE_NS);
}

static struct xport_lane *lane_open(uint8_t how)
{
	struct xport_lane *inner = xport_shm_open(base, REGION_BYTES, how & 1);
	struct xport_fault_config cfg = {.seed = how,
					 .hide_direct = how & 2,
					 .byte_tear = how & 4,
					 .tear_ppm = how & 8 ? 100000 : 0,
					 .hook = on_request};

	FUZZ_CHECK(inner);
	return how & 16 ? inner : xport_fault_open(inner, &cfg);
}

static int index_make(uint8_t how)
{
	int err;

	lane = lane_open(how);
	FUZZ_CHECK(lane);
	err = index_open(&sb, lane, how & 1 ? NULL : alloc, UINT64_MAX, &ix);
	if (err)
		xport_close(lane);
	else
		index_set_prefix(ix, 7);
	return err;
}

/* Operations in flight when the lane broke continue on a new connection. False: none. */
static bool relink(struct index_op *op, uint8_t how)
{
	index_op_fini(ix, op);
	index_close(ix);
	xport_close(lane);
	breaks = 0;
	if (index_make(how))
		return false;
	if (op->result == FARKV_EDISCONNECTED || op->doubt == DOUBT_OPEN)
		index_op_resume(op);
	return true;
}

static void run(struct index_op *op, uint64_t deadline_ns)
{
	for (unsigned i = 0; i < 4 && op->result == INDEX_PENDING; i++) {
		index_run(ix, &op, 1, 0, deadline_ns);
		if (op->result == INDEX_PENDING)
			attend(op);
	}
}

/* False: the region cannot be opened any more. */
static bool operate(struct index_op *op, uint8_t lane_how)
{
	static const uint8_t value[2000];
	uint64_t deadline_ns = UINT64_MAX;
	struct index_key k = key_of(fuzz_u8(&in) % KEYS);
	uint8_t how = fuzz_u8(&in);
	uint32_t len = how & 0x80 ? fuzz_u16(&in) % sizeof(value) : how >> 3;

	requests = 0;
	index_op_start(op, (enum index_kind)(how % 6), &k, value, len);
	op->expected = fuzz_u8(&in);
	if (how & 0x40)
		fake_clock_advance(fuzz_u8(&in) * (GRACE_NS / 64));
	breaks = fuzz_u8(&in) % 16;
	if (breaks == 15)
		deadline_ns = clock_now_ns() + GRACE_NS * 3;
	if (breaks > 12)
		breaks = 0;
	if (!index_try(ix, op))
		run(op, deadline_ns);
	if (xport_broken(lane)) {
		if (!relink(op, lane_how))
			return false;
		run(op, UINT64_MAX);
	}
	index_abandon(ix, op, FARKV_ETIMEDOUT);
	check_result(op);
	return true;
}

/* Some calls of a scan from anywhere. */
static void list_keys(void)
{
	static struct index_scan *s;
	uint64_t cursor = fuzz_u64(&in);
	volatile uint8_t sum = 0;

	if (!s)
		s = index_scan_new();
	FUZZ_CHECK(s);
	requests_max = SCAN_REQUESTS_MAX;
	for (unsigned i = 0; i < SCAN_CALLS_MAX; i++) {
		const struct farkv_scan_item *items;
		uint64_t before = cursor;
		size_t n, max = FARKV_SCAN_MIN + fuzz_u8(&in);
		int err;

		requests = 0;
		err = index_scan(ix, s, &cursor, max, UINT64_MAX);
		items = index_scan_items(s, &n);
		FUZZ_CHECK(n <= max);
		FUZZ_CHECK(err && err != FARKV_ECORRUPT ? n == 0 && cursor == before :
							  !cursor || cursor > before);
		for (size_t k = 0; k < n; k++)
			for (size_t at = 0; at < items[k].key_len; at++)
				sum = (uint8_t)(sum + ((const uint8_t *)items[k].key)[at]);
		if (!cursor || xport_broken(lane))
			break;
	}
	requests_max = REQUESTS_MAX;
}

/* The client may write to or return the blocks that it holds now. */
static void check_blocks(void)
{
	struct block_ref refs[64];
	enum return_kind state;
	size_t n;

	while ((n = alloc_drain(alloc, UINT64_MAX / 2, refs, 64, &state)) > 0)
		for (size_t i = 0; i < n; i++)
			FUZZ_CHECK(region_block_ok(&sb, refs[i].off,
						   refs[i].cls));
}

/* Superblocks from outside; the index is never opened on a bad one. */
static void check_superblock(void)
{
	struct superblock s = sb;
	size_t n;
	const uint8_t *p = fuzz_bytes(&in, sizeof(s), &n);
	uint64_t at = fuzz_u8(&in) % sizeof(s);

	if (at + n > sizeof(s))
		n = sizeof(s) - at;
	memcpy((uint8_t *)&s + at, p, n);
	if (fuzz_u8(&in) & 1)
		superblock_seal(&s);
	err_clear();
	if (superblock_verify(&s)) {
		FUZZ_CHECK(fuzz_detail_ok());
		return;
	}
	FUZZ_CHECK(s.max_key > 0 && s.grace_ns > 0 &&
		   s.meta_bytes < s.region_bytes);
	FUZZ_CHECK(region_page_ok(&s, s.meta_bytes / PAGE_BYTES));
	FUZZ_CHECK(class_for(block_room(s.max_key, s.max_value)) < CLASS_COUNT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct index_op op;
	uint8_t how;
	bool open;

	if (!base)
		region_make();
	in = fuzz_begin(data, size);
	how = fuzz_u8(&in);
	if (how == 0xFF)
		check_superblock();
	fake_clock_reset();
	region_reset();
	requests = 0;
	requests_max = REQUESTS_MAX;
	breaks = 0;
	alloc = alloc_new(GRACE_NS);
	FUZZ_CHECK(alloc);
	index_op_init(&op);
	if (how & 0x20)
		scribble();
	open = index_make(how) == 0;
	for (unsigned i = 0; open && i < OPERATIONS_MAX && fuzz_left(&in); i++) {
		for (uint8_t n = fuzz_u8(&in) % 4; n; n--)
			scribble();
		if (how & 0x40)
			index_drop_cache(ix);
		open = operate(&op, how);
		if (open && how & 0x80 && i == 0)
			list_keys(); /* the rest of the input scribbles meanwhile */
	}
	if (open) {
		index_op_fini(ix, &op);
		index_close(ix);
		xport_close(lane);
	}
	check_blocks();
	alloc_free(alloc);
	return 0;
}
