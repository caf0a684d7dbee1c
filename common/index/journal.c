/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "journal.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/base/util.h"

/*
 * Hash tables, each twice as large as the previous one. A block is added to the last table until
 * that is half full; a look-up searches all. No table is ever copied, so every addition takes
 * equally long.
 */
#define FIRST_BITS 12
#define TABLES_MAX 11
static_assert((UINT32_C(1) << (FIRST_BITS - 1 + TABLES_MAX)) -
		      (UINT32_C(1) << (FIRST_BITS - 1)) == JOURNAL_MAX,
	      "half-full tables hold JOURNAL_MAX blocks");

/* A table word is the block's offset, with its class in the low bits. */
#define CLASS_BITS 8
static_assert(CLASS_COUNT <= 1u << CLASS_BITS, "a class fits");

static uint64_t word_pack(struct block_ref ref)
{
	return ref.off << CLASS_BITS | ref.cls;
}

static uint64_t word_off(uint64_t word)
{
	return word >> CLASS_BITS;
}

struct table {
	uint64_t *word; /* open addressing; 0: free */
	uint32_t n;
	unsigned bits;
};

struct journal {
	pthread_mutex_t lock; /* guards what follows */
	bool on, all;
	uint64_t number;
	unsigned n_tables;
	struct table table[TABLES_MAX];
};

struct journal *journal_new(void)
{
	struct journal *j = calloc(1, sizeof(*j));

	if (j)
		pthread_mutex_init(&j->lock, NULL);
	return j;
}

static void forget(struct journal *j)
{
	for (unsigned i = 0; i < j->n_tables; i++)
		free(j->table[i].word);
	j->n_tables = 0;
	j->all = false;
}

void journal_free(struct journal *j)
{
	if (!j)
		return;
	forget(j);
	pthread_mutex_destroy(&j->lock);
	free(j);
}

void journal_begin(struct journal *j, uint64_t number)
{
	pthread_mutex_lock(&j->lock);
	forget(j);
	j->number = number;
	j->on = true;
	pthread_mutex_unlock(&j->lock);
}

void journal_end(struct journal *j)
{
	pthread_mutex_lock(&j->lock);
	forget(j);
	j->on = false;
	pthread_mutex_unlock(&j->lock);
}

/* Fibonacci hashing (Knuth, vol. 3, 6.4): offsets come in long regular sequences. */
static uint64_t home(const struct table *t, uint64_t off)
{
	return off / PTR_UNIT * UINT64_C(0x9E3779B97F4A7C15) >>
	       (64 - t->bits);
}

static bool table_has(const struct table *t, uint64_t off)
{
	uint64_t mask = (UINT64_C(1) << t->bits) - 1;

	for (uint64_t i = home(t, off); t->word[i]; i = (i + 1) & mask)
		if (word_off(t->word[i]) == off)
			return true;
	return false;
}

/* A block that was reused with another class has a second entry. */
static void table_add(struct table *t, uint64_t word)
{
	uint64_t mask = (UINT64_C(1) << t->bits) - 1;
	uint64_t i = home(t, word_off(word));

	while (t->word[i] && t->word[i] != word)
		i = (i + 1) & mask;
	t->n += t->word[i] != word;
	t->word[i] = word;
}

/* The table for the next block; NULL if the journal is full. */
static struct table *table_open(struct journal *j)
{
	struct table *t = &j->table[j->n_tables];
	unsigned bits = FIRST_BITS + j->n_tables;

	if (j->n_tables && t[-1].n < UINT32_C(1) << (t[-1].bits - 1))
		return t - 1;
	if (j->n_tables == TABLES_MAX)
		return NULL;
	t->word = calloc((size_t)1 << bits, sizeof(*t->word));
	if (!t->word)
		return NULL;
	t->n = 0;
	t->bits = bits;
	j->n_tables++;
	return t;
}

static void add(struct journal *j, struct block_ref ref)
{
	struct table *t = j->all ? NULL : table_open(j);

	if (t) {
		table_add(t, word_pack(ref));
		return;
	}
	forget(j);
	j->all = true;
}

bool journal_add(struct journal *j, struct block_ref ref)
{
	bool on;

	pthread_mutex_lock(&j->lock);
	on = j->on;
	if (on)
		add(j, ref);
	pthread_mutex_unlock(&j->lock);
	return on;
}

static bool has(const struct journal *j, uint64_t off)
{
	if (j->all)
		return true;
	for (unsigned i = j->n_tables; i-- > 0;)
		if (table_has(&j->table[i], off))
			return true;
	return false;
}

size_t journal_filter(struct journal *j, uint64_t number,
		      struct block_ref *refs, size_t n)
{
	size_t kept = 0;

	pthread_mutex_lock(&j->lock);
	if (!j->on || j->number != number)
		n = 0;
	for (size_t i = 0; i < n; i++)
		if (has(j, refs[i].off))
			refs[kept++] = refs[i];
	pthread_mutex_unlock(&j->lock);
	return kept;
}

bool journal_sweep(struct journal *j, uint64_t *number_out)
{
	bool on;

	pthread_mutex_lock(&j->lock);
	on = j->on;
	if (on)
		*number_out = j->number;
	pthread_mutex_unlock(&j->lock);
	return on;
}

bool journal_overflowed(struct journal *j)
{
	bool over;

	pthread_mutex_lock(&j->lock);
	over = j->on && j->all;
	pthread_mutex_unlock(&j->lock);
	return over;
}

/* The cursor counts the slots of all tables in order. */
size_t journal_next(struct journal *j, uint64_t number, uint64_t *cursor,
		    struct block_ref *refs, size_t cap)
{
	uint64_t at = 0;
	size_t n = 0;

	pthread_mutex_lock(&j->lock);
	for (unsigned i = 0; j->on && j->number == number && i < j->n_tables;
	     i++) {
		const struct table *t = &j->table[i];
		uint64_t end = at + (UINT64_C(1) << t->bits);

		for (; n < cap && *cursor < end; (*cursor)++) {
			uint64_t w = t->word[*cursor - at];

			if (w)
				refs[n++] = (struct block_ref){
					.off = word_off(w),
					.cls = (uint8_t)(w & ((1u << CLASS_BITS) - 1))};
		}
		at = end;
	}
	pthread_mutex_unlock(&j->lock);
	return n;
}
