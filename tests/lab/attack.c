/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "attack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/atomic.h"
#include "common/region/block.h"
#include "common/base/err.h"
#include "common/region/hash.h"
#include "line.h"

#define LONG_KEY 65000u
#define BLOCKS 64u
#define OPEN_TRIES 200u

static const char *const names[ATTACKS] = {"in-use", "keys", "pings"};

static const char *where;
static struct line *line;
static unsigned me_too;
static struct block_ref refs[MSG_REFS_MAX];

const char *attack_name(enum attack a)
{
	return names[a];
}

enum attack attack_named(const char *name)
{
	unsigned i = 0;

	while (i < ATTACKS && strcmp(name, names[i]) != 0)
		i++;
	return (enum attack)i;
}

static void fail(const char *what)
{
	fprintf(stderr, "attack: %s: %s\n", what, err_detail());
	_exit(1);
}

/* The server may have closed others' connections to make room. */
static void come(void)
{
	for (unsigned i = 0; i < OPEN_TRIES; i++) {
		line = line_open(where, false);
		if (line)
			return;
		usleep(50000);
	}
	fail("no session");
}

/* ---- blocks with long keys ------------------------------------------------------------ */

/* Make a slot of the key's window name the block. */
static bool publish(struct block_ref ref, uint64_t hash)
{
	uint64_t d, entry, off, slots[WINDOW_SLOTS], word;

	if (!line_read(line, REGION_D_OFF, &d, sizeof(d)))
		return false;
	off = dirword_off(d);
	if (dirword_depth(d))
		off += (hash >> (64 - dirword_depth(d))) * sizeof(entry);
	if (!line_read(line, off, &entry, sizeof(entry)))
		return false;
	off = entry_page(entry) * PAGE_BYTES +
	      hash_home_line(hash) * LINE_SLOTS * sizeof(*slots);
	if (!line_read(line, off, slots, sizeof(slots)))
		return false;
	word = slot_pack(ref, hash_fp(hash), 0);
	for (unsigned i = 0; i < WINDOW_SLOTS; i++)
		if (slot_is_null(slots[i]))
			return line_write(line, off + i * sizeof(word), &word,
					  sizeof(word));
	return false;
}

/* Write an intact block with a key that nobody else has. */
static uint64_t fill(struct block_ref ref, unsigned i)
{
	static uint8_t key[LONG_KEY], image[LINE_BYTES_MAX];
	uint32_t len = (uint32_t)block_room(LONG_KEY, 0);
	uint64_t hash;

	snprintf((char *)key, sizeof(key), "attacker %u, key %u", me_too, i);
	hash = hash_key(line_superblock(line)->hash_seed, key, LONG_KEY);
	block_encode(image, ref, 1,
		     &(struct block_pair){.key = key, .key_hash = hash,
					  .key_len = LONG_KEY,
					  .value = "", .value_len = 0});
	if (!line_write(line, ref.off, image, len))
		fail("a block cannot be written");
	return hash;
}

static void prepare(bool in_use)
{
	uint8_t cls = class_for(block_room(LONG_KEY, 0));

	if (line_grant(line, cls, BLOCKS, refs) != BLOCKS)
		fail("no blocks");
	for (unsigned i = 0; i < BLOCKS; i++) {
		uint64_t hash = fill(refs[i], i);

		if (in_use && !publish(refs[i], hash))
			fail("no slot");
	}
	for (unsigned i = BLOCKS; i < MSG_REFS_MAX; i++)
		refs[i] = refs[i - BLOCKS];
}

/* ---- until the session is ended --------------------------------------------------------- */

static void return_in_use(void)
{
	struct msg m = {.type = MSG_RETURN, .blocks = {.n = MSG_REFS_MAX}};
	struct msg answer;

	/* The end shows when a message is received. */
	while (line_say(line, &m, refs) && !line_over(line))
		(void)line_hear(line, &answer, 0);
}

/* Granted blocks contain their earlier content. */
static void return_long_keys(void)
{
	uint8_t cls = class_for(block_room(LONG_KEY, 0));
	struct msg m = {.type = MSG_RETURN, .blocks = {.n = BLOCKS}};

	while (m.blocks.n && line_say(line, &m, refs))
		m.blocks.n = line_grant(line, cls, BLOCKS, refs);
}

static void ping(void)
{
	struct msg m = {.type = MSG_PING}, answer;

	while (line_try(line, &m, NULL) <= EAGAIN && !line_over(line))
		while (line_hear(line, &answer, 0))
			;
}

void attack_run(const char *uri, enum attack a, unsigned me, void (*began)(void),
		uint64_t *ended)
{
	static void (*const attacks[ATTACKS])(void) = {
		return_in_use, return_long_keys, ping};

	where = uri;
	me_too = me;
	come();
	if (a != ATTACK_PINGS)
		prepare(a == ATTACK_IN_USE);
	began();
	for (;;) {
		attacks[a]();
		atom_count(ended, 1);
		line_close(line);
		come();
		if (a == ATTACK_KEYS) /* the others are the dead one's */
			prepare(false);
	}
}
