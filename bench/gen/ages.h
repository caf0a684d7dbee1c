/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * ages.h - which versions of a record may still be read, for the check of contents.
 *
 * A write takes the next version of its record. If no other write of the record is open when
 * it begins, it replaces all lower versions: after its success a read that begins returns this
 * version or a higher one. Writes that overlap may take effect in any order, so they raise
 * nothing. A write whose outcome is unknown stays open for ever, as it may take effect later.
 *
 * Any thread or process of the phase; two atomic operations per write, one load per read.
 */
#ifndef BENCH_GEN_AGES_H
#define BENCH_GEN_AGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Zeroed initially. */
struct value_age {
	_Atomic uint64_t writes; /* begun * AGES_ONE + open */
	_Atomic uint64_t least;  /* the lowest version that a read may return */
};

#define AGES_ONE (UINT64_C(1) << 24)
/** Most records that are tracked, the first ones: 64 MiB. */
#define AGES_MAX (UINT64_C(1) << 22)

/** Of records 0..n-1. Others are not tracked: their writes have version 1. */
struct value_ages {
	struct value_age *v;
	uint64_t n;
};

/** A write in progress. */
struct value_write {
	struct value_age *age; /* NULL: not tracked */
	uint64_t version;
	bool alone;            /* no other was open when it began */
};

static inline struct value_write ages_begin(const struct value_ages *a,
					    uint64_t number)
{
	struct value_write w = {.version = 1};
	uint64_t before;

	if (number >= a->n)
		return w;
	w.age = &a->v[number];
	before = atomic_fetch_add(&w.age->writes, AGES_ONE + 1);
	w.version = before / AGES_ONE + 1;
	w.alone = before % AGES_ONE == 0;
	return w;
}

/** `done`: it took effect; otherwise it certainly did not. Not called if that is unknown. */
static inline void ages_end(const struct value_write *w, bool done)
{
	if (!w->age)
		return;
	if (done && w->alone)
		atomic_store(&w->age->least, w->version);
	atomic_fetch_sub(&w->age->writes, 1);
}

/** The lowest version that a read that begins now may return. */
static inline uint64_t ages_least(const struct value_ages *a, uint64_t number)
{
	return number < a->n ? atomic_load(&a->v[number].least) : 0;
}

#endif
