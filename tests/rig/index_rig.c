/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "index_rig.h"

#include <stdio.h>
#include <string.h>

#include "common/region/hash.h"

struct fake_region region;
struct fake_client me, other;
struct rival rival;
uint64_t fake_now;

void setup(bool fault)
{
	static const struct xport_fault_config cfg = {.hide_direct = true,
						      .hook = rival_hook};

	fake_region_init(&region, 1, 64, GRACE);
	fake_client_open(&me, &region, fault ? &cfg : NULL, 1);
	fake_client_open(&other, &region, NULL, 2);
	memset(&rival, 0, sizeof(rival));
	rival.opcode = -1;
}

void teardown(void)
{
	fake_client_close(&me);
	fake_client_close(&other);
	fake_region_fini(&region);
}

/* ---- operations and their effects ---------------------------------------------- */

int run(struct fake_client *c, enum index_kind kind, struct index_key k,
	const char *value, uint64_t expected)
{
	return fake_client_run(c, kind, k, value, expected);
}

void check_value(struct fake_client *c, struct index_key k, const char *want)
{
	ck_assert_int_eq(run(c, INDEX_GET, k, NULL, 0), 0);
	ck_assert_uint_eq(c->op.view.value_len, strlen(want));
	ck_assert_mem_eq(c->op.view.value, want, strlen(want));
}

struct index_key key_of(const char *s)
{
	return fake_region_key(&region, s);
}

uint64_t *slots_of(struct index_key k)
{
	return fake_region_window(&region, k);
}

/*
 * Found by trying suffixes, about a quarter of a million. Other keys found on the way are
 * stored for later calls.
 */
struct index_key key_at(const char *s, uint32_t fp)
{
	static struct found {
		const char *s;
		unsigned long next;
		char name[SLOT_FP_MASK + 1][32];
	} *table[128];
	struct found **f = table;

	while (*f && strcmp((*f)->s, s) != 0)
		ck_assert(++f < table + 128);
	if (!*f) {
		*f = calloc(1, sizeof(**f));
		(*f)->s = strdup(s);
	}
	while (!(*f)->name[fp][0]) {
		char name[32];
		struct index_key k;

		snprintf(name, sizeof(name), "%s#%lx", s, (*f)->next++);
		k = key_of(name);
		if (hash_home_line(k.hash) || hash_dir_index(k.hash, 1))
			continue;
		if (!(*f)->name[hash_fp(k.hash)][0])
			strcpy((*f)->name[hash_fp(k.hash)], name);
		if (!(*f)->name[ANY_FP][0])
			strcpy((*f)->name[ANY_FP], name);
	}
	return key_of((*f)->name[fp]);
}

void check_no_duplicates(struct index_key k)
{
	unsigned seen = 0;
	uint32_t depth = dirword_depth(*fake_region_d(&region));
	uint64_t last = 0;

	for (uint64_t e = 0; e < UINT64_C(1) << depth; e++) {
		uint64_t entry = *fake_region_entry(&region, e);
		uint64_t *s = fake_region_slots(&region, entry);

		if (entry_page(entry) == entry_page(last))
			continue;
		last = entry;
		for (unsigned i = 0; i < SUBTABLE_SLOTS; i++) {
			const uint8_t *b = region.base + slot_off(s[i]);
			struct block_view v;

			if (slot_is_null(s[i]) || (s[i] & SLOT_FROZEN))
				continue;
			if (block_verify(b, slot_block(s[i]), k.data, k.len,
					 &v) == BLOCK_MINE)
				seen++;
		}
	}
	ck_assert_uint_le(seen, 1);
}

/* ---- time and rivals --------------------------------------------------------- */

uint64_t fake_clock(void *arg)
{
	(void)arg;
	return fake_now;
}

int rival_hook(void *arg, const struct xport_chain *c, unsigned i, bool after)
{
	(void)arg;
	if (rival.opcode != c->wr[i].opcode || after || !rival.act)
		return 0;
	if (rival.skip) {
		rival.skip--;
		return 0;
	}
	rival.acted++;
	rival.opcode = -1;
	rival.act();
	return 0;
}

void rival_op(void)
{
	rival.result = run(&other, rival.kind, rival.key, rival.value, 0);
}

void rival_cas(void)
{
	uint64_t version;

	ck_assert_int_eq(run(&other, INDEX_GET, rival.key, NULL, 0), 0);
	version = other.op.version;
	rival.result = run(&other, INDEX_CAS, rival.key, rival.value, version);
}

void rival_sets(int opcode, void (*act)(void), enum index_kind kind,
		struct index_key k, const char *value)
{
	rival.opcode = opcode;
	rival.act = act;
	rival.skip = 0;
	rival.acted = 0;
	rival.kind = kind;
	rival.key = k;
	rival.value = value;
	rival.result = 1234;
}
