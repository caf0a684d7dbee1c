/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * scribbler.h - a client that may write, and breaks the rules: noise,
 * plausible wrong words, flags, blocks forged with right checksums. Made
 * from a seed. It uses no library but the formats.
 */
#ifndef TESTS_LAB_SCRIBBLER_H
#define TESTS_LAB_SCRIBBLER_H

#include <stdint.h>

struct scribbler;

/** What a round does. */
enum scribble {
	SCRIBBLE_NOISE,  /* random bytes anywhere */
	SCRIBBLE_WORDS,  /* random words in slots */
	SCRIBBLE_NEAR,   /* slots' words with one field changed */
	SCRIBBLE_FLAGS,  /* frozen, dead, blind: set or cleared everywhere */
	SCRIBBLE_COPIES, /* one word in all slots */
	SCRIBBLE_HEADS,  /* lengths and incarnations in blocks, back and forth */
	SCRIBBLE_FORGED, /* right blocks of victims' keys in wrong places */
	SCRIBBLE_RIVAL,  /* victims' slots changed as fast as it can */
	SCRIBBLE_THAW,   /* ... of all subtables: frozen is cleared */
	SCRIBBLE_FULL,   /* windows without a free slot, and a hint about each */
	SCRIBBLE_WIPE,   /* a subtable EMPTY */
	SCRIBBLE_KINDS
};

/**
 * A session at the socket `path`, with the region mapped. Ends the process if that
 * cannot be had.
 */
struct scribbler *scribbler_open(const char *path, uint64_t seed);
/** Ends without BYE. */
void scribbler_close(struct scribbler *s);

/** A key whose window and blocks are of interest: number `i` of the victims. */
void scribbler_victim(uint64_t i, uint8_t key_out[8]);
#define SCRIBBLER_VICTIMS 300u

/** One round, some milliseconds at most. */
void scribbler_round(struct scribbler *s, enum scribble kind);

/**
 * Have a subtable rebuilt, and change its slots all the while, for about that time: none
 * of them stays frozen.
 */
void scribbler_siege(struct scribbler *s, uint64_t ns);

/** Answer the server's requests, or do not, by the seed. */
void scribbler_answer(struct scribbler *s);

#endif
