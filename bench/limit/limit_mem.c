/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The limit of shared memory: the indispensable steps of a GET and a PUT, in the region's
 * formats.
 *
 * GET: hash the key; load the line of the index that the hash names; load the block that
 * the slot names; sum it, compare the key, copy the value out. PUT: write a new block with
 * its sums while the line is loaded; find the slot up to the comparison of the key; swap
 * the slot. Batches do each step for all of their keys before the next, and prefetch for
 * it.
 *
 * Left out is what makes it a store: a directory that can grow, other writers, frozen and
 * dead slots, freed blocks, errors.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "common/base/atomic.h"
#include "common/base/err.h"
#include "common/base/hugepage.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "common/region/block.h"
#include "common/region/fetch.h"
#include "common/region/hash.h"
#include "common/region/layout.h"

#include "limit_side.h"

#define HASH_SEED UINT64_C(0x9E3779B97F4A7C15)
#define GENERATION 1u
/* Load of a subtable: with windows of 8 lines the first of 512 refuses a key at 59 %. */
#define LOAD_PERCENT 55u
/*
 * Blocks between free and reuse: 100 ms of grace period at 2.6 million PUTs a second. As in
 * kvserver, they have left the cache when they are reused.
 */
#define RESTING_MAX (UINT64_C(1) << 18)
/* ... but at most this many bytes; large blocks take longer to write. */
#define RESTING_BYTES (UINT64_C(512) << 20)
/* How many PUTs ahead blocks are prefetched. */
#define AHEAD 2u

struct mem_side {
	struct limit_side base;
	uint8_t *map; /* the region; offset 0 is never a block */
	size_t map_bytes;
	uint32_t depth; /* 2^depth subtables from offset PAGE_BYTES */
	uint32_t cls;
	uint64_t version;
	struct block_ref *rest; /* ring of freed blocks; its size is a power of two */
	uint64_t resting;
	uint64_t next;          /* the oldest in the ring */
	uint64_t fresh;         /* end of the last block in use */
	uint64_t end;           /* of the region */
};

/* ---- memory ----------------------------------------------------------------- */

static void *map_pages(size_t bytes, unsigned kind)
{
	int fd = memfd_create("kvbench-limit", MFD_CLOEXEC | kind);
	void *map = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
		map = hugepage_map(fd, bytes);
	if (fd >= 0)
		close(fd);
	return map;
}

/*
 * Memory like the server's: small pages, or huge ones, reserved or transparent. Offsets
 * must be page offsets, so the start must be aligned to a huge page.
 */
static void *map_region(size_t bytes, bool huge)
{
	void *map = huge ? map_pages(bytes, MFD_HUGETLB) : MAP_FAILED;

	if (map != MAP_FAILED)
		return map;
	map = map_pages(bytes, 0);
	if (huge && map != MAP_FAILED && !hugepage_collapse(map, bytes))
		log_warn("limit: not all of its memory is in huge pages: %s",
			 strerror(errno));
	return map;
}

static uint32_t depth_for(uint64_t records)
{
	uint32_t depth = 0;

	while (((uint64_t)SUBTABLE_SLOTS << depth) * LOAD_PERCENT / 100 <
	       records)
		depth++;
	return depth;
}

static void index_clear(struct mem_side *m)
{
	uint64_t *slots = (uint64_t *)(void *)(m->map + PAGE_BYTES);

	for (uint64_t i = 0; i < (uint64_t)SUBTABLE_SLOTS << m->depth; i++)
		slots[i] = slot_empty(GENERATION);
}

static uint64_t resting_for(uint64_t block_bytes)
{
	uint64_t n = RESTING_MAX;

	while (n > LIMIT_BATCH * AHEAD && n * block_bytes > RESTING_BYTES)
		n /= 2;
	return n;
}

static int mem_open(const struct limit_plan *plan,
		    struct limit_side **side_out)
{
	struct mem_side *m = calloc(1, sizeof(*m));
	uint64_t index, blocks;

	if (!m)
		goto err_none;
	m->base = (struct limit_side){&limit_mem_ops, plan};
	m->cls = class_for(block_room(plan->key_len, plan->value_len));
	m->resting = resting_for(class_bytes(m->cls));
	blocks = plan->records + m->resting;
	m->depth = depth_for(plan->records);
	index = (uint64_t)PAGE_BYTES << m->depth;
	m->fresh = PAGE_BYTES + index;
	m->end = m->fresh + blocks * class_bytes(m->cls);
	m->map_bytes = (size_t)util_align_up(m->end, HUGEPAGE_BYTES);
	m->rest = calloc(m->resting, sizeof(*m->rest));
	if (!m->rest)
		goto err_side;
	m->map = map_region(m->map_bytes, plan->huge_pages);
	if (m->map == MAP_FAILED)
		goto err_rest;
	index_clear(m);
	for (uint64_t i = 0; i < m->resting; i++) {
		m->rest[i] = (struct block_ref){.off = m->fresh,
						.cls = (uint8_t)m->cls};
		m->fresh += class_bytes(m->cls);
	}
	/* The first blocks of the ring must have been written too. */
	memset(m->map + m->rest[0].off, 0, m->resting * class_bytes(m->cls));
	*side_out = &m->base;
	return 0;
err_rest:
	free(m->rest);
err_side:
	free(m);
err_none:
	return err_set_errno(FARKV_ENOMEM, errno,
			     "no memory for the limit's %llu records",
			     (unsigned long long)plan->records);
}

static void mem_close(struct limit_side *s)
{
	struct mem_side *m = (struct mem_side *)s;

	munmap(m->map, m->map_bytes);
	free(m->rest);
	free(m);
}

/* ---- index ------------------------------------------------------------------ */

static inline uint64_t *home_of(const struct mem_side *m, uint64_t hash)
{
	uint64_t off = PAGE_BYTES * (1 + hash_dir_index(hash, m->depth)) +
		       LINE_BYTES * hash_home_line(hash);

	return (uint64_t *)(void *)(m->map + off);
}

/* A bit for each slot of the line with fingerprint `fp`. */
static inline unsigned line_matches(const uint64_t *line, uint32_t fp)
{
#if defined(__SSE2__)
	const __m128i *v = (const __m128i *)(const void *)line;
	__m128i want = _mm_set1_epi32((int)fp);
	unsigned bits = 0;

	for (int i = 0; i < 2; i++) {
		__m128i a = _mm_srli_epi64(_mm_load_si128(v + 2 * i), 56);
		__m128i b = _mm_srli_epi64(_mm_load_si128(v + 2 * i + 1), 56);
		__m128 lows = _mm_shuffle_ps(_mm_castsi128_ps(a),
					     _mm_castsi128_ps(b), 0x88);
		__m128i same = _mm_cmpeq_epi32(_mm_castps_si128(lows), want);

		bits |= (unsigned)_mm_movemask_ps(_mm_castsi128_ps(same))
			<< 4 * i;
	}
	return bits;
#else
	unsigned bits = 0;

	for (unsigned i = 0; i < LINE_SLOTS; i++)
		bits |= (unsigned)(slot_fp(line[i]) == fp) << i;
	return bits;
#endif
}

static inline uint8_t *block_of(const struct mem_side *m, uint64_t word)
{
	return m->map + slot_off(word);
}

static inline bool block_has_key(const uint8_t *b, const char *key, size_t len)
{
	struct block_header h;

	memcpy(&h, b, sizeof(h));
	return h.key_len == len && memcmp(b + sizeof(h), key, len) == 0;
}

/* The key's slot; otherwise a free slot for it, or NULL if its window is full. */
static inline uint64_t *find(const struct mem_side *m, uint64_t hash,
			     const char *key, size_t len)
{
	uint64_t *line = home_of(m, hash);
	uint32_t fp = hash_fp(hash);

	for (unsigned l = 0; l < WINDOW_LINES; l++, line += LINE_SLOTS) {
		for (unsigned bits = line_matches(line, fp); bits;
		     bits &= bits - 1) {
			uint64_t *slot = &line[__builtin_ctz(bits)];

			if (block_has_key(block_of(m, *slot), key, len))
				return slot;
		}
		/* Slots are used from the front and never freed. */
		for (unsigned i = 0; slot_is_null(line[LINE_SLOTS - 1]) &&
				     i < LINE_SLOTS; i++)
			if (slot_is_null(line[i]))
				return &line[i];
	}
	return NULL;
}

/* ---- GET -------------------------------------------------------------------- */

/* Check sum and key, copy the value: false if the block does not fit word and key. */
static inline bool take(const struct mem_side *m, uint64_t word,
			const char *key, size_t len, void *into)
{
	const uint8_t *b = block_of(m, word);
	struct block_header h;
	uint64_t sum;
	size_t end;

	memcpy(&h, b, sizeof(h));
	end = sizeof(h) + h.key_len + h.value_len;
	if (h.key_len != len || memcmp(b + sizeof(h), key, len) != 0 ||
	    h.value_len != m->base.plan->value_len)
		return false;
	memcpy(&sum, b + block_room(len, h.value_len) - BLOCK_SUM_BYTES,
	       sizeof(sum));
	if (sum != (hash_image(b, end) ^ block_binding(slot_block(word))))
		return false;
	memcpy(into, b + sizeof(h) + len, h.value_len);
	return true;
}

/* The hardware prefetches this many lines by itself. */
#define FEW_LINES (4 * LINE_BYTES)

static inline uint64_t ahead_of(uint32_t cls)
{
	return fetch_ahead(class_bytes(cls));
}

static inline size_t get_hashed(const struct mem_side *m, uint64_t hash,
				const char *key, size_t len, void *into)
{
	const uint64_t *line = home_of(m, hash);
	uint32_t fp = hash_fp(hash);

	for (unsigned l = 0; l < WINDOW_LINES; l++, line += LINE_SLOTS) {
		for (unsigned bits = line_matches(line, fp); bits;
		     bits &= bits - 1) {
			uint64_t w = line[__builtin_ctz(bits)];

			if (class_bytes(m->cls) > FEW_LINES)
				fetch_lines(block_of(m, w), ahead_of(m->cls));
			if (take(m, w, key, len, into))
				return 1;
		}
		if (slot_is_null(line[LINE_SLOTS - 1]))
			break;
	}
	return 0;
}

static size_t mem_get(struct limit_side *s, const struct limit_keys *k,
		      size_t first, size_t n)
{
	const struct mem_side *m = (const struct mem_side *)s;
	size_t good = 0;

	for (size_t i = first; i < first + n; i++)
		good += get_hashed(m,
				   hash_key(HASH_SEED, limit_key(k, i),
					    k->len[i]),
				   limit_key(k, i), k->len[i], s->plan->into);
	return good;
}

/* A batch of keys, and what its first stages have found. */
struct staged {
	const struct limit_keys *keys;
	size_t first, n;
	uint64_t hash[LIMIT_BATCH], word[LIMIT_BATCH];
};

/* First steps of a batch: find the most likely words and prefetch `bytes` of their blocks. */
static inline void stage(const struct mem_side *m, struct staged *b, uint64_t bytes)
{
	for (size_t i = 0; i < b->n; i++) {
		b->hash[i] = hash_key(HASH_SEED, limit_key(b->keys, b->first + i),
				      b->keys->len[b->first + i]);
		fetch_line(home_of(m, b->hash[i]));
	}
	for (size_t i = 0; i < b->n; i++) {
		const uint64_t *line = home_of(m, b->hash[i]);
		unsigned bits = line_matches(line, hash_fp(b->hash[i]));

		b->word[i] = bits ? line[__builtin_ctz(bits)] : 0;
		fetch_lines(block_of(m, b->word[i]), bytes);
	}
}

static size_t mem_mget(struct limit_side *s, const struct limit_keys *k,
		       size_t first, size_t n)
{
	const struct mem_side *m = (const struct mem_side *)s;
	size_t good = 0;
	struct staged b;

	b.keys = k;
	b.first = first;
	b.n = n;
	stage(m, &b, ahead_of(m->cls));
	for (size_t i = 0; i < n; i++) {
		const char *key = limit_key(k, first + i);
		size_t len = k->len[first + i];
		char *into = s->plan->into + i * s->plan->into_stride;

		if (b.word[i] && take(m, b.word[i], key, len, into))
			good++;
		else
			good += get_hashed(m, b.hash[i], key, len, into);
	}
	return good;
}

/* ---- PUT -------------------------------------------------------------------- */

static inline void write_block(struct mem_side *m, struct block_ref ref,
			       uint64_t hash, const char *key, size_t len)
{
	const struct limit_plan *plan = m->base.plan;
	uint8_t *b = m->map + ref.off;
	size_t end = sizeof(struct block_header) + len + plan->value_len;
	uint64_t sum, binding = block_binding(ref);
	struct block_header h = {
		.version = ++m->version,
		.value_len = (uint32_t)plan->value_len,
		.key_len = (uint16_t)len,
		.inc_flags = ref.inc,
	};

	if (plan->value_len >= BLOCK_PAST_CACHE) {
		struct block_pair pair = {.key = key,
					  .key_hash = hash,
					  .key_len = (uint16_t)len,
					  .value = plan->value,
					  .value_len = (uint32_t)plan->value_len};

		block_encode_past_cache(b, ref, h.version, &pair);
		return;
	}
	h.head_sum = block_head_sum(&h, binding, hash);
	memcpy(b, &h, sizeof(h));
	memcpy(b + sizeof(h), key, len);
	memcpy(b + sizeof(h) + len, plan->value, plan->value_len);
	memset(b + end, 0, -end & 7);
	sum = hash_image(b, end) ^ binding;
	memcpy(b + ((end + 7) & ~(size_t)7), &sum, sizeof(sum));
}

static inline void fetch_rest(const struct mem_side *m, uint64_t which)
{
	fetch_lines_to_write(m->map + m->rest[which & (m->resting - 1)].off, ahead_of(m->cls));
}

static size_t put_hashed(struct mem_side *m, uint64_t hash, const char *key,
			 size_t len)
{
	struct block_ref *rest = &m->rest[m->next & (m->resting - 1)];
	struct block_ref ref = *rest;
	uint64_t *slot, old, word;

	write_block(m, ref, hash, key, len);
	slot = find(m, hash, key, len);
	if (!slot)
		return 0;
	old = *slot;
	word = slot_pack(ref, hash_fp(hash), SLOT_BLIND);
	if (atom_cas_u64(slot, old, word) != old)
		return 0;
	m->next++;
	if (!slot_is_null(old)) {
		*rest = slot_block(old);
		rest->inc = (rest->inc + 1) & SLOT_INC_MASK;
	} else {
		*rest = (struct block_ref){.off = m->fresh,
					   .cls = (uint8_t)m->cls};
		m->fresh += class_bytes(m->cls);
	}
	return 1;
}

static size_t mem_put(struct limit_side *s, const struct limit_keys *k,
		      size_t first, size_t n)
{
	struct mem_side *m = (struct mem_side *)s;
	size_t good = 0;

	for (size_t i = first; i < first + n; i++) {
		uint64_t hash = hash_key(HASH_SEED, limit_key(k, i), k->len[i]);

		fetch_line(home_of(m, hash));
		fetch_rest(m, m->next + AHEAD);
		good += put_hashed(m, hash, limit_key(k, i), k->len[i]);
	}
	return good;
}

static size_t mem_mput(struct limit_side *s, const struct limit_keys *k,
		       size_t first, size_t n)
{
	struct mem_side *m = (struct mem_side *)s;
	size_t good = 0;
	struct staged b;

	b.keys = k;
	b.first = first;
	b.n = n;
	stage(m, &b, sizeof(struct block_header));
	for (size_t i = 0; i < n; i++)
		fetch_rest(m, m->next + i);
	for (size_t i = 0; i < n; i++)
		good += put_hashed(m, b.hash[i], limit_key(k, first + i),
				   k->len[first + i]);
	return good;
}

const struct limit_side_ops limit_mem_ops = {
	.name = "limit",
	.open = mem_open,
	.close = mem_close,
	.test = {mem_get, mem_put, mem_mget, mem_mput, mem_mget, mem_mput},
};
