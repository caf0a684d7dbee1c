/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words that no correct client writes, found by the CAS of a correct one: the winner of a
 * word owns the block that it names, so the word has to name one.
 */
#include "config.h"

#include <string.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/region/hash.h"
#include "tests/rig/cases.h"
#include "tests/rig/fake_client.h"

#define GRACE NS_PER_MS

static struct fake_region region;
static struct fake_client client;
static struct index_key key;
static uint64_t *slot;     /* the key's */
static uint64_t rogue;     /* the word that is written there */
static bool armed;
static unsigned cas_seen;

/* Between the read of the slot and the CAS, once or always. */
static int hook(void *arg, const struct xport_chain *c, unsigned i, bool after)
{
	const bool *always = arg;

	if (!armed || c->wr[i].opcode != XPORT_CAS || after)
		return 0;
	if (cas_seen++ == 0 || *always)
		*slot = rogue;
	return 0;
}

static int run(enum index_kind kind, const char *value, uint64_t expected)
{
	return fake_client_run(&client, kind, key, value, expected);
}

static void setup(bool *always)
{
	struct xport_fault_config cfg = {.hide_direct = true,
					 .hook = hook,
					 .arg = always};

	fake_region_init(&region, 0, 64, GRACE);
	fake_client_open(&client, &region, &cfg, 1);
	key = fake_region_key(&region, "key");
	slot = fake_region_window(&region, key);
	armed = false;
	ck_assert_int_eq(run(INDEX_PUT, "old", 0), 0);
	ck_assert_uint_eq(slot_fp(*slot), hash_fp(key.hash));
}

static void teardown(void)
{
	fake_client_close(&client);
	fake_region_fini(&region);
}

/* Every block that the client holds after T lies in the region. */
static void check_stock(void)
{
	struct block_ref refs[64];
	enum return_kind state;
	size_t n;

	while ((n = alloc_drain(client.alloc, UINT64_MAX, refs, 64, &state)) > 0)
		for (size_t i = 0; i < n; i++)
			ck_assert_msg(region_block_ok(&region.sb, refs[i].off,
						      refs[i].cls),
				      "a block at 0x%llx of class %u was taken "
				      "over",
				      (unsigned long long)refs[i].off,
				      refs[i].cls);
}

/* Words that name no block, without the flags of the key's own slot. */
static uint64_t bad_word(int i)
{
	uint64_t fp = hash_fp(key.hash);
	struct block_ref inside = {.off = region.sb.meta_bytes + PAGE_BYTES,
				   .cls = 1};
	struct block_ref out = inside;

	switch (i % 6) {
	case 0: /* no such class */
		return slot_pack(inside, fp, 0) |
		       (uint64_t)SLOT_CLASS_MASK << SLOT_CLASS_SHIFT;
	case 1: /* after the end */
		out.off = region.sb.region_bytes;
		return slot_pack(out, fp, 0);
	case 2: /* the largest offset of a word */
		return slot_pack(inside, fp, 0) | SLOT_PTR_MASK;
	case 3: /* across the end */
		out.off = region.sb.region_bytes - 64;
		return slot_pack(out, fp, 0);
	case 4: /* the superblock */
		out.off = 64;
		return slot_pack(out, fp, 0);
	default: /* another key's */
		return slot_pack(inside, fp ^ 1, 0);
	}
}

static const struct {
	enum index_kind kind;
	uint64_t flags;
} attempts[] = {
	{INDEX_PUT, 0},           {INDEX_PUT, SLOT_DEAD},
	{INDEX_ADD, SLOT_DEAD},   {INDEX_REPLACE, 0},
	{INDEX_REPLACE, SLOT_BLIND}, {INDEX_DELETE, 0},
};
#define ATTEMPTS 6

TEST_LOOP(write_that_loses_to_a_bad_word_takes_no_block, 0, 2 * 6 * ATTEMPTS)
{
	bool always = _i >= 6 * ATTEMPTS;
	int n = _i % (6 * ATTEMPTS), err;
	enum index_kind kind = attempts[n / 6].kind;

	setup(&always);
	if (kind == INDEX_ADD)
		ck_assert_int_eq(run(INDEX_DELETE, NULL, 0), 0);
	rogue = bad_word(n) | attempts[n / 6].flags;
	cas_seen = 0;
	armed = true;
	err = run(kind, kind == INDEX_DELETE ? NULL : "new", 0);
	ck_assert_uint_ge(cas_seen, 1);
	/*
	 * The slot says that the key is deleted, or damaged; or the write takes nothing
	 * from the slot (a delete in place).
	 */
	if (err != FARKV_ECORRUPT && err != FARKV_ETIMEDOUT)
		ck_assert_msg(err == FARKV_ENOTFOUND || err == 0, "%d", err);
	check_stock();
	teardown();
}

TEST_SUITE("rogue")
