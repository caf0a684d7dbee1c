/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * atomic.h - the memory orderings that farkv uses, by name.
 *
 * Code outside this file uses no bare fence and no volatile. The words are plain integers
 * because the region format fixes their layout in shared memory.
 */
#ifndef COMMON_BASE_ATOMIC_H
#define COMMON_BASE_ATOMIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "util.h"

/** For a counter or flag that orders no other access. */
#define atom_load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define atom_store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)

/**
 * Read a word that refers to other memory (slot word -> block, directory entry ->
 * subtable). Pairs with atom_store_publish() or atom_cas_u64().
 */
#define atom_load_follow(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)

/** Make all earlier writes visible to a thread that reads the word by atom_load_follow(). */
#define atom_store_publish(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

/** Count an event; orders nothing. Returns the previous value. */
#define atom_count(p, n) __atomic_fetch_add((p), (n), __ATOMIC_RELAXED)

/** Set and clear bits of a word that several threads change; fully ordered. */
#define atom_set_bits(p, bits) \
	((void)__atomic_fetch_or((p), (bits), __ATOMIC_SEQ_CST))
#define atom_clear_bits(p, bits) \
	((void)__atomic_fetch_and((p), ~(bits), __ATOMIC_SEQ_CST))

/** Exchange with full ordering (mailboxes). */
#define atom_exchange(p, v) __atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST)

/**
 * The protocol's compare-and-swap. Returns the previous word, which was replaced if and
 * only if it equals `expect`. Sequentially consistent, like an RDMA compare-and-swap for
 * its own lane; no later atom_load_follow() executes before it.
 */
static inline uint64_t atom_cas_u64(uint64_t *p, uint64_t expect, uint64_t swap)
{
	__atomic_compare_exchange_n(p, &expect, swap, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
#if !defined(__x86_64__) && !defined(__aarch64__)
	/* On POWER, for example, an acquire load may overtake the swap's store. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
	return expect;
}

/** Order the copy of a block before the clock read that decides on the copy's age (I4). */
static inline void atom_fence_copy_done(void)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}

/**
 * Keep the compiler from moving memory accesses; membarrier(2) in the control thread orders them
 * for the CPU. Also used after a copy of memory that others write, so that the compiler does not
 * load checked bytes again.
 */
static inline void atom_compiler_barrier(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ATOM_WATCHED 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define ATOM_WATCHED 1
#endif
#ifdef ATOM_WATCHED
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
#define ATOM_UNWATCHED_BEGIN() AnnotateIgnoreReadsBegin(__FILE__, __LINE__)
#define ATOM_UNWATCHED_END() AnnotateIgnoreReadsEnd(__FILE__, __LINE__)
#else
#define ATOM_WATCHED 0 /* 1: built with ThreadSanitizer */
#endif
#ifndef ATOM_UNWATCHED_BEGIN
#define ATOM_UNWATCHED_BEGIN() ((void)0)
#define ATOM_UNWATCHED_END() ((void)0)
#endif

/**
 * Copy a block that another thread may overwrite: it is reused T after it was unlinked
 * (I4). ThreadSanitizer cannot see that order, so it ignores the copy. A reader that was
 * too slow finds out from the slot, the clock, the incarnation and the checksum.
 */
static inline void atom_copy_block(void *dst, const void *src, size_t len)
{
	ATOM_UNWATCHED_BEGIN();
	memcpy(dst, src, len);
	ATOM_UNWATCHED_END();
}

#if defined(__SSE2__)
static inline void atom_copy_16(uint8_t *dst, const uint8_t *src)
{
	__m128i words = _mm_loadu_si128((const __m128i *)(const void *)src);

	__asm__("" : "+x"(words)); /* one 16-byte load and store */
	_mm_storeu_si128((__m128i *)(void *)dst, words);
}
#endif

/**
 * atom_copy_block() for bytes that are read again at once; `len` is a multiple of 8. Each
 * byte is stored once, 16 at a time, so that a later load can be forwarded from one store.
 * memcpy(3) may use overlapping stores, which prevents forwarding.
 */
static inline void atom_copy_small(void *dst, const void *src, size_t len)
{
	uint8_t *to = (uint8_t *)dst;
	const uint8_t *from = (const uint8_t *)src;

	ATOM_UNWATCHED_BEGIN();
#if !defined(__SSE2__)
	memcpy(to, from, len);
#else
	size_t at = 0;

	for (; at + 64 <= len; at += 64) {
		atom_copy_16(to + at, from + at);
		atom_copy_16(to + at + 16, from + at + 16);
		atom_copy_16(to + at + 32, from + at + 32);
		atom_copy_16(to + at + 48, from + at + 48);
	}
	for (; at + 16 <= len; at += 16)
		atom_copy_16(to + at, from + at);
	if (at < len)
		memcpy(to + at, from + at, 8);
#endif
	ATOM_UNWATCHED_END();
}

static inline uint64_t atom_word_at(const uint8_t *p)
{
	uint64_t x;

	memcpy(&x, p, sizeof(x));
	return x;
}

/**
 * 0 if the bytes of a block equal `own`; the answer may be out of date. Each byte is loaded
 * once, as memcmp(3) does not guarantee.
 */
IN_LINE uint64_t atom_block_differs(const void *own, const void *block, size_t len)
{
	const uint8_t *a = (const uint8_t *)own, *b = (const uint8_t *)block;
	uint64_t differ = 0;

	ATOM_UNWATCHED_BEGIN();
	if (__builtin_expect(len < sizeof(differ), 0)) {
		for (size_t i = 0; i < len; i++)
			differ |= (uint64_t)(a[i] ^ b[i]);
	} else {
		size_t at = len - sizeof(differ);

		differ = atom_word_at(a) ^ atom_word_at(b);
		differ |= atom_word_at(a + at) ^ atom_word_at(b + at);
		for (; at > sizeof(differ); at -= sizeof(differ))
			differ |= atom_word_at(a + at - sizeof(differ)) ^
				  atom_word_at(b + at - sizeof(differ));
	}
	ATOM_UNWATCHED_END();
	return differ;
}

IN_LINE bool atom_same_block(const void *own, const void *block, size_t len)
{
	return atom_block_differs(own, block, len) == 0;
}

/**
 * Copy past the caches, to memory that this CPU does not read soon. Non-temporal stores are weakly
 * ordered, so an SFENCE follows them (Intel SDM vol. 1, 10.4.6.2, AMD APM vol. 2, 7.4.1): on return
 * other threads see the bytes before any later atom_cas_u64() or atom_store_publish().
 */
static inline void atom_copy_past_cache(void *dst, const void *src, size_t len)
{
#if defined(__SSE2__)
	uint8_t *to = (uint8_t *)dst;
	const uint8_t *from = (const uint8_t *)src;
	size_t head = -(uintptr_t)to % 64;

	if (len > head + 64) {
		memcpy(to, from, head);
		to += head;
		from += head;
		len -= head;
		for (; len >= 64; to += 64, from += 64, len -= 64)
			for (unsigned i = 0; i < 64; i += 16)
				_mm_stream_si128(
					(__m128i *)(void *)(to + i),
					_mm_loadu_si128((const __m128i *)
							(const void *)(from + i)));
		_mm_sfence();
	}
	memcpy(to, from, len);
#else
	memcpy(dst, src, len);
#endif
}

/** Free CPU resources for the other hardware thread while spinning. */
static inline void atom_spin_hint(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield");
#endif
}

#endif
