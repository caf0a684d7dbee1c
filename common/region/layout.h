/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * layout.h - the region format: every word and structure in a region.
 *
 *   0            512 576   640     4096                               meta_bytes
 *   | superblock | D | CLOCK | state | directory arrays | sessions | page map | data: pages |
 *   |<---------------------------- meta area ------------------------------>| of 32 KiB   |
 *
 * Only the server writes the meta area; clients map it read-only. The data area is an
 * array of pages. A page is a subtable of the index or part of a segment, a run of
 * pages cut into blocks of one class.
 *
 * All integers are little-endian, all offsets are bytes from the start of the region,
 * there are no pointers. Comments say who writes what and when. Nothing here knows
 * a transport.
 */
#ifndef COMMON_REGION_LAYOUT_H
#define COMMON_REGION_LAYOUT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the region format is little-endian; byte swapping is not written yet"
#endif

/* ---- sizes that are part of the format ---------------------------------- */

#define REGION_MAGIC UINT64_C(0x314E474552564B46) /* "FKVREGN1" in memory */
#define REGION_VERSION 3u

#define PAGE_BYTES 32768u /* one subtable; the unit of the server's heap */
#define HEAT_ALIGN 4096u /* the heat area's length is a multiple */
#define META_ALIGN (2u << 20) /* the data area starts at a huge page */

#define SLOT_BYTES 8u
#define LINE_SLOTS 8u
#define LINE_BYTES 64u
#define SUBTABLE_LINES (PAGE_BYTES / LINE_BYTES) /* 512 */
#define SUBTABLE_SLOTS (SUBTABLE_LINES * LINE_SLOTS) /* 4096 */
/*
 * A key's window is 8 lines (512 bytes, one READ). Simulated load at which a subtable first
 * refuses a key, mean of 300: 4 lines 0.64, 6 lines 0.71, 8 lines 0.74; a hit touches 1.1
 * lines for each.
 */
#define WINDOW_LINES 8u
#define WINDOW_SLOTS (WINDOW_LINES * LINE_SLOTS) /* 64 */
#define WINDOW_BYTES (WINDOW_LINES * LINE_BYTES) /* 512 */
/* Home lines; the others are the tail, so that windows do not wrap. */
#define HOME_LINES (SUBTABLE_LINES - (WINDOW_LINES - 1)) /* 505 */

/* ---- slot word ----------------------------------------------------------
 *
 *   63..56  55    54      53     52..41  40..34  33..0
 *   fp      dead  frozen  blind  inc     class   ptr
 *
 * ptr    offset of the block in units of 32 bytes; 0 marks an EMPTY word
 * class  size class of the block: how many bytes a reader fetches
 * fp     fingerprint, from the low 8 bits of the key's hash, never 0. It is a whole
 *        byte: a READ torn by the CAS that claims a slot shows the key's fingerprint
 *        or 0, never another key's
 * inc    incarnation of the block: +1 at each reuse, so that a word names one
 *        content of one block
 * blind  the word was written by an operation that did not depend on the value
 *        it replaced (put, replace, delete); only such words may be absorbed
 * frozen the subtable is being migrated; the word will not change again
 * dead   the key has no value; the block is its tombstone
 *
 * EMPTY: ptr = 0, fp = 0 and bits 34..52 hold the low 19 bits of the generation of
 * the subtable; a slot is EMPTY only if it equals that word, except for frozen.
 *
 * Worked examples (tests/unit/test_layout.c has the same):
 *   ptr 0x200000 (byte 0x4000000), class 3, fp 0x55, inc 5, blind
 *     = 0x55200A0C00200000
 *   EMPTY of generation 1 = 1 << 34 = 0x0000000400000000
 *
 * Transitions, each by one CAS: EMPTY -> LIVE(k) <-> DEAD(k); any -> the same
 * with frozen set, by the server only. A slot's key never changes (I1).
 */
#define SLOT_PTR_BITS 34
#define SLOT_CLASS_BITS 7
#define SLOT_FP_BITS 8
#define SLOT_INC_BITS 12
#define SLOT_CLASS_SHIFT 34
#define SLOT_INC_SHIFT 41
#define SLOT_BLIND (UINT64_C(1) << 53)
#define SLOT_FROZEN (UINT64_C(1) << 54)
#define SLOT_DEAD (UINT64_C(1) << 55)
#define SLOT_FP_SHIFT 56
#define SLOT_PTR_MASK ((UINT64_C(1) << SLOT_PTR_BITS) - 1)
#define SLOT_CLASS_MASK ((1u << SLOT_CLASS_BITS) - 1)
#define SLOT_FP_MASK ((1u << SLOT_FP_BITS) - 1)
#define SLOT_INC_MASK ((1u << SLOT_INC_BITS) - 1)
#define SLOT_GEN_BITS 19 /* class and inc */
/** The part of a LIVE word that names a block: place, class and incarnation. */
#define SLOT_BLOCK_MASK (SLOT_BLIND - 1)
#define SLOT_GEN_MASK ((1u << SLOT_GEN_BITS) - 1)

#define PTR_UNIT 32u /* blocks start at multiples of this */
#define INC_COUNT (1u << SLOT_INC_BITS) /* a block whose inc would reach this is exhausted */

/** A block as it is granted, returned and referred to. */
struct block_ref {
	uint64_t off; /* bytes from the region start, multiple of PTR_UNIT */
	uint16_t inc; /* incarnation of its next content */
	uint8_t cls;  /* size class */
};

/** How a block goes back to the server. */
enum return_kind {
	RETURN_FREE,  /* may be granted again at once */
	RETURN_DEFERRED, /* unlinked less than T ago: wait T first */
	RETURN_EXHAUSTED,  /* its inc ran out: a barrier first */
};

/** Compose a LIVE word. `flags` is 0 or SLOT_BLIND. */
static inline uint64_t slot_pack(struct block_ref b, uint32_t fp, uint64_t flags)
{
	return (b.off / PTR_UNIT) | (uint64_t)b.cls << SLOT_CLASS_SHIFT |
	       (uint64_t)(fp & SLOT_FP_MASK) << SLOT_FP_SHIFT |
	       (uint64_t)(b.inc & SLOT_INC_MASK) << SLOT_INC_SHIFT | flags;
}

/** The EMPTY word of a subtable's generation. */
static inline uint64_t slot_empty(uint32_t gen)
{
	return (uint64_t)(gen & SLOT_GEN_MASK) << SLOT_CLASS_SHIFT;
}

static inline uint64_t slot_off(uint64_t w)
{
	return (w & SLOT_PTR_MASK) * PTR_UNIT;
}
static inline uint8_t slot_class(uint64_t w)
{
	return (uint8_t)(w >> SLOT_CLASS_SHIFT & SLOT_CLASS_MASK);
}
static inline uint32_t slot_fp(uint64_t w)
{
	return (uint32_t)(w >> SLOT_FP_SHIFT) & SLOT_FP_MASK;
}
static inline uint16_t slot_inc(uint64_t w)
{
	return (uint16_t)(w >> SLOT_INC_SHIFT & SLOT_INC_MASK);
}
static inline struct block_ref slot_block(uint64_t w)
{
	return (struct block_ref){.off = slot_off(w),
				  .inc = slot_inc(w),
				  .cls = slot_class(w)};
}
/** True for EMPTY words of any generation. */
static inline bool slot_is_null(uint64_t w)
{
	return (w & SLOT_PTR_MASK) == 0;
}

/* ---- directory ----------------------------------------------------------
 *
 * Extendible hashing. The directory is an array of 2^depth entries, indexed by
 * the top `depth` bits of the key's hash. 2^(depth - local depth) neighbouring
 * entries share a subtable. Storing a key's entry publishes a migration; D changes
 * only when the directory doubles.
 *
 * Entry:  63 valid | 62..57 local depth | 48..30 generation | 29..0 page
 * D:      63 valid | 53..48 depth | 47..0 offset of the array
 *
 * Writer: the server, by aligned 8-byte stores. Readers may hold copies of any
 * age (I5): an old one refers to a subtable whose words are FROZEN.
 *
 * Worked examples: page 64, generation 1, local depth 9
 *     = 1 << 63 | 9 << 57 | 1 << 30 | 64 = 0x9200000040000040
 *   array at 0x1000, depth 9 = 0x8009000000001000
 */
#define ENTRY_PAGE_BITS 30
#define ENTRY_GEN_SHIFT 30
#define ENTRY_DEPTH_SHIFT 57
#define ENTRY_VALID (UINT64_C(1) << 63)
#define DIR_DEPTH_SHIFT 48
#define DIR_VALID (UINT64_C(1) << 63)
#define DIR_DEPTH_MAX 40u

static inline uint64_t entry_pack(uint64_t page, uint32_t gen, uint32_t depth)
{
	return ENTRY_VALID | (uint64_t)(depth & 63) << ENTRY_DEPTH_SHIFT |
	       (uint64_t)(gen & SLOT_GEN_MASK) << ENTRY_GEN_SHIFT |
	       (page & ((UINT64_C(1) << ENTRY_PAGE_BITS) - 1));
}
static inline uint64_t entry_page(uint64_t e)
{
	return e & ((UINT64_C(1) << ENTRY_PAGE_BITS) - 1);
}
static inline uint32_t entry_gen(uint64_t e)
{
	return (uint32_t)(e >> ENTRY_GEN_SHIFT) & SLOT_GEN_MASK;
}
static inline uint32_t entry_depth(uint64_t e)
{
	return (uint32_t)(e >> ENTRY_DEPTH_SHIFT) & 63;
}
static inline uint64_t dirword_pack(uint64_t array_off, uint32_t depth)
{
	return DIR_VALID | (uint64_t)(depth & 63) << DIR_DEPTH_SHIFT |
	       (array_off & ((UINT64_C(1) << DIR_DEPTH_SHIFT) - 1));
}
static inline uint64_t dirword_off(uint64_t d)
{
	return d & ((UINT64_C(1) << DIR_DEPTH_SHIFT) - 1);
}
static inline uint32_t dirword_depth(uint64_t d)
{
	return (uint32_t)(d >> DIR_DEPTH_SHIFT) & 63;
}

/* ---- where a key lives: three independent parts of its 64-bit hash -------- */

/** Index into a directory of 2^depth entries: the top bits. */
static inline uint64_t hash_dir_index(uint64_t hash, uint32_t depth)
{
	return hash >> 1 >> (63 - depth); /* 64 is no valid shift */
}
/** Home line within the subtable, 0..HOME_LINES-1: bits 8..29, scaled. */
static inline uint32_t hash_home_line(uint64_t hash)
{
	return (uint32_t)(((hash >> SLOT_FP_BITS & 0x3FFFFF) * HOME_LINES) >> 22);
}
/** Fingerprint: the low 8 bits, or 255 if they are 0. */
static inline uint32_t hash_fp(uint64_t hash)
{
	uint32_t fp = (uint32_t)hash & SLOT_FP_MASK;

	return fp ? fp : SLOT_FP_MASK;
}

/* ---- size classes --------------------------------------------------------
 *
 * 64, 96, then four per doubling: 128, 160, 192, 224, 256, 320, ... From 64 KiB on
 * CLASS_EXTRA bytes more, so that header and key fit beside a value of 2^n bytes:
 * 66 KiB, 82 KiB, ... 1 GiB + 2 KiB. All are multiples of PTR_UNIT.
 */
#define CLASS_COUNT 95u /* class 94 is 1 GiB + 2 KiB */
#define CLASS_LARGE 38u /* the first one with CLASS_EXTRA: 64 KiB + 2 KiB */
#define CLASS_EXTRA 2048u

/** Bytes of a block of class `cls` < CLASS_COUNT, as a constant. */
#define CLASS_BYTES(cls)                                                             \
	((cls) < 2u ? 64u + 32u * (cls)                                              \
		    : ((uint64_t)(4u + ((cls) + 2u) % 4) << ((cls) + 18u) / 4) +     \
			      ((cls) < CLASS_LARGE ? 0u : CLASS_EXTRA))

/** Bytes of a block of class `cls` < CLASS_COUNT. */
static inline uint64_t class_bytes(uint32_t cls)
{
	return CLASS_BYTES(cls);
}

/** Row of farkv_stats.sizes: row n has blocks of 2^(n+6) bytes up to less than twice as many. */
static inline unsigned class_octave(uint32_t cls)
{
	return 57 - (unsigned)__builtin_clzll(class_bytes(cls));
}

/** The smallest class of at least `bytes`; CLASS_COUNT if none is large enough. */
static inline uint32_t class_for(uint64_t bytes)
{
	const uint64_t small = CLASS_BYTES(CLASS_LARGE - 1);
	uint32_t log2;

	if (bytes <= 128)
		return bytes <= 64 ? 0 : bytes <= 96 ? 1 : 2;
	if (bytes > class_bytes(CLASS_COUNT - 1))
		return CLASS_COUNT;
	if (bytes > small)
		bytes = bytes - CLASS_EXTRA > small ? bytes - CLASS_EXTRA : small + 1;
	/* Four classes per doubling, from 2^log2 < bytes on. */
	log2 = 63 - (uint32_t)__builtin_clzll(bytes - 1);
	return 3 + 4 * (log2 - 7) + (uint32_t)((bytes - 1) >> (log2 - 2) & 3);
}

#define BLOCK_HEADER_BYTES 24u
#define BLOCK_USER_BYTES 4u
#define BLOCK_SUM_BYTES 8u

/**
 * Bytes of a block with these lengths; see block.h. A user word counts as BLOCK_USER_BYTES
 * more of the value.
 */
static inline uint64_t block_room(uint64_t key_len, uint64_t value_len)
{
	return ((BLOCK_HEADER_BYTES + key_len + value_len + 7) & ~UINT64_C(7)) +
	       BLOCK_SUM_BYTES;
}

/* ---- page map ------------------------------------------------------------
 *
 * A u32 for each page of the data area, in the order of the pages:
 *
 *   31..30  29..7            6..0
 *   kind    pages (kind 2)   class (kinds 2 and 3)
 *
 * Writer: the server, before a block of the page is granted or an entry that names it
 * is stored; cleared after the barrier that frees the page. Clients need not
 * read it: with the slots it shows another server what each page contains.
 *
 * Worked examples: a subtable = 0x40000000; the first page of a segment of 33 pages,
 * class 38 = 2 << 30 | 33 << 7 | 38 = 0x800010A6; its other pages = 0xC0000026
 */
enum page_kind {
	PAGE_IS_FREE,
	PAGE_IS_SUBTABLE,
	PAGE_IS_SEGMENT, /* the first page of a segment */
	PAGE_IS_LATER,   /* a later page of a segment */
};
#define PAGE_KIND_SHIFT 30
#define PAGE_COUNT_SHIFT SLOT_CLASS_BITS
#define PAGE_COUNT_MASK ((1u << (PAGE_KIND_SHIFT - PAGE_COUNT_SHIFT)) - 1)

/** `pages` and `cls` are 0 where the kind has none. */
static inline uint32_t page_pack(enum page_kind kind, uint32_t pages, uint8_t cls)
{
	return (uint32_t)kind << PAGE_KIND_SHIFT |
	       (pages & PAGE_COUNT_MASK) << PAGE_COUNT_SHIFT | (cls & SLOT_CLASS_MASK);
}
static inline enum page_kind page_kind(uint32_t p)
{
	return (enum page_kind)(p >> PAGE_KIND_SHIFT);
}
static inline uint32_t page_count(uint32_t p)
{
	return p >> PAGE_COUNT_SHIFT & PAGE_COUNT_MASK;
}
static inline uint8_t page_class(uint32_t p)
{
	return p & SLOT_CLASS_MASK;
}

/* ---- session table -------------------------------------------------------
 *
 * superblock.session_count entries. Writer: the server, before it sends WELCOME;
 * cleared once the session can access nothing any more and holds no block.
 */
struct session_entry {
	uint32_t prefix;     /* first version prefix; 0: the entry is unused */
	uint32_t pid;        /* of the client's process; 0: on another host, or unknown */
	uint64_t start_time; /* field 22 of its /proc/PID/stat, clock ticks; 0: unknown */
};
static_assert(sizeof(struct session_entry) == 16, "session entry: size");

/* ---- superblock -----------------------------------------------------------
 *
 * Written once by the server before the region is published; constant.
 * `checksum` is hash_image() over the bytes before it.
 * D lies at REGION_D_OFF, CLOCK at REGION_CLOCK_OFF and the server's state at
 * REGION_STATE_OFF, each on a line of its own.
 */
struct superblock {
	uint64_t magic;          /* REGION_MAGIC */
	uint32_t version;        /* REGION_VERSION */
	uint32_t header_bytes;   /* sizeof(struct superblock) */
	uint64_t region_id[2];   /* random, unique to this region */
	uint64_t hash_seed;      /* seed of hash_key() */
	uint64_t region_bytes;   /* meta and data */
	uint64_t meta_bytes;     /* multiple of META_ALIGN */
	uint64_t max_value;      /* longest value, bytes */
	uint64_t grace_ns;       /* T of invariant I4 */
	uint64_t created_s;      /* wall clock, seconds since 1970 */
	uint32_t page_bytes;     /* PAGE_BYTES */
	uint32_t subtable_lines; /* SUBTABLE_LINES */
	uint32_t window_lines;   /* WINDOW_LINES */
	uint32_t ptr_unit;       /* PTR_UNIT */
	uint32_t class_count;    /* CLASS_COUNT */
	uint32_t max_key;        /* longest key, bytes, 1..65535 */
	uint32_t flags;          /* REGION_CACHE */
	uint32_t session_count;  /* entries of the session table */
	uint64_t page_map_off;   /* a u32 for each page of the data area */
	uint64_t session_table_off; /* the directory arrays end here */
	uint64_t heat_bytes;     /* of the heat area, 2^n >= HEAT_ALIGN; 0: there is none */
	uint64_t checksum;
};
static_assert(sizeof(struct superblock) == 144, "superblock: size");
static_assert(offsetof(struct superblock, hash_seed) == 32, "superblock");
static_assert(offsetof(struct superblock, page_bytes) == 80, "superblock");
static_assert(offsetof(struct superblock, page_map_off) == 112, "superblock");
static_assert(offsetof(struct superblock, checksum) == 136, "superblock");

/* superblock.flags. A program refuses regions with a flag that it does not know. */
#define REGION_CACHE 1u   /* there is a heat area */
#define REGION_ORDERED 2u /* reserved */

#define REGION_D_OFF 512u     /* offset of D */
#define REGION_CLOCK_OFF 576u /* offset of CLOCK */
#define REGION_STATE_OFF 640u /* offset of struct region_state */
#define REGION_DIR_OFF 4096u  /* directory arrays: from here to session_table_off */

/* ---- state of the server ---------------------------------------------------
 *
 * What a later server needs and cannot conclude from page map and slots. Writer: the
 * server. Clients need not read it.
 *
 * `redo` is the publication in progress: storing its entries again is harmless. It
 * is set before the first of them is stored, `old` last, and cleared, `old` first, after
 * the last one.
 */
struct region_redo {
	uint64_t old;      /* entry of the subtable that is replaced; 0: none is */
	uint64_t hash;     /* first of its range */
	uint64_t fresh[2]; /* entries of the new ones; [1] is 0 after a compaction */
};

enum region_writers {
	REGION_WRITERS_CPUS, /* shared-memory clients write, and readers may read by RDMA */
	REGION_WRITERS_CARD  /* an RDMA device alone swaps slots, for clients and the server */
};

struct region_state {
	uint32_t last_id;    /* last session number or version prefix; set before it is sent */
	uint32_t last_gen;   /* last generation of a subtable */
	uint64_t start_time; /* of the server's process, as in the session table */
	uint32_t pid;        /* of the latest server; 0: none yet */
	uint32_t writers;    /* enum region_writers; changed when no other kind is left */
	uint32_t reserved[2]; /* 0 */
	struct region_redo redo;
};
static_assert(sizeof(struct region_state) == 64, "region state: one line");

/*
 * CLOCK, a u64: region time, milliseconds since the region was created. Writer: the server. It is 0
 * until a session uses expiry, never decreases, and does not advance while the server is stopped.
 * Two successive values differ by at most REGION_CLOCK_STEP_MS, and at least as much real time lies
 * between them as they differ.
 */
#define REGION_CLOCK_STEP_MS 100u
#define REGION_CLOCK_TICK_MS 10u /* a running server writes CLOCK this often */


/** Bytes at the end of the meta area for the tables of `pages` pages and `sessions`. */
static inline uint64_t region_tables_bytes(uint64_t pages, uint32_t sessions)
{
	return ((pages * sizeof(uint32_t) + 63) & ~UINT64_C(63)) +
	       ((sessions * sizeof(struct session_entry) + 63) & ~UINT64_C(63));
}

/** Byte of the heat area for the slot at offset `off`; heat_bytes is not 0. */
static inline uint64_t heat_at(uint64_t off, uint64_t heat_bytes)
{
	return off / SLOT_BYTES & (heat_bytes - 1);
}

/**
 * Fill in the constants, the places of the tables and the checksum; the caller has set the
 * rest.
 */
void superblock_seal(struct superblock *sb);

/**
 * Check a superblock from outside: magic, version, sizes, checksum, flags, possible geometry.
 * 0, or FARKV_EFORMAT with a detail that names the first wrong field.
 */
int superblock_verify(const struct superblock *sb);

/** True if [off, off + len) is a block-aligned range inside the data area. */
static inline bool region_block_ok(const struct superblock *sb, uint64_t off,
				   uint32_t cls)
{
	return cls < CLASS_COUNT && off >= sb->meta_bytes &&
	       off % PTR_UNIT == 0 && off < sb->region_bytes &&
	       class_bytes(cls) <= sb->region_bytes - off;
}

/** True if `page`, counted from the region start, is a page of the data area. */
static inline bool region_page_ok(const struct superblock *sb, uint64_t page)
{
	uint64_t first = sb->meta_bytes / PAGE_BYTES;

	return page - first < sb->region_bytes / PAGE_BYTES - first;
}

#endif
