/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * fuzz.h - what the fuzz targets share.
 *
 * Each file NAME.c of this folder is one target, its inputs lie in corpus/NAME. A
 * target is run by libFuzzer (make fuzz), or on files by replay.c (make check). It
 * reports a finding by abort(), a sanitizer, or by not coming to an end.
 *
 * Targets keep no state from one input to the next, and see no clock but their
 * own (fake_clock.c), so that an input does the same wherever it is run.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(cond)                                                   \
	do {                                                               \
		if (!(cond)) {                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__,   \
				__LINE__, #cond);                          \
			abort();                                           \
		}                                                          \
	} while (0)

/* ---- an input that is read piece by piece; zeros come after its end ------- */

struct fuzz_in {
	const uint8_t *at, *end;
};

static inline struct fuzz_in fuzz_begin(const uint8_t *data, size_t size)
{
	return (struct fuzz_in){.at = data, .end = data + size};
}

static inline size_t fuzz_left(const struct fuzz_in *in)
{
	return (size_t)(in->end - in->at);
}

static inline uint64_t fuzz_le(struct fuzz_in *in, size_t bytes)
{
	uint64_t v = 0;

	for (size_t i = 0; i < bytes && in->at < in->end; i++)
		v |= (uint64_t)*in->at++ << 8 * i;
	return v;
}

static inline uint8_t fuzz_u8(struct fuzz_in *in)
{
	return (uint8_t)fuzz_le(in, 1);
}

static inline uint16_t fuzz_u16(struct fuzz_in *in)
{
	return (uint16_t)fuzz_le(in, 2);
}

static inline uint32_t fuzz_u32(struct fuzz_in *in)
{
	return (uint32_t)fuzz_le(in, 4);
}

static inline uint64_t fuzz_u64(struct fuzz_in *in)
{
	return fuzz_le(in, 8);
}

/** Up to `max` bytes in place: a byte of length comes before them. */
static inline const uint8_t *fuzz_bytes(struct fuzz_in *in, size_t max,
					size_t *len_out)
{
	size_t n = fuzz_u8(in);
	const uint8_t *p;

	if (n > max)
		n = max;
	if (n > fuzz_left(in))
		n = fuzz_left(in);
	p = in->at;
	in->at += n;
	*len_out = n;
	return p;
}

/* ---- inputs that are files ------------------------------------------------- */

/**
 * A file with this content, by a path that fopen(3) takes; the same one each time.
 * Its mode is 0600.
 */
const char *fuzz_file(const void *data, size_t size);

/** The content in memory of its own size, terminated; free() it. */
char *fuzz_text(const void *data, size_t size);

/** True if the detail of the last error is one line that a terminal can show. */
bool fuzz_detail_ok(void);

#endif
