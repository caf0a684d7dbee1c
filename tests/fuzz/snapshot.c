/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Snapshot files. The first byte says whether the sums are made right first, so that the content
 * comes to be read. What is read to its end is written again, and is the same file then.
 */
#include "config.h"

#include "fuzz.h"

#include <fcntl.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/region/hash.h"
#include "common/snapshot/snapshot.h"

static uint64_t le64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void put64(uint8_t *p, uint64_t v)
{
	memcpy(p, &v, sizeof(v));
}

/* Make the sums right, as far as the file has a form. */
static void seal(uint8_t *p, size_t size)
{
	XXH3_state_t *sum = XXH3_createState();
	size_t at = SNAPSHOT_HEADER_BYTES;

	XXH3_64bits_reset(sum);
	if (size >= at) {
		put64(p + 24, hash_image(p, 24));
		XXH3_64bits_update(sum, p, at);
	}
	while (size >= at + SNAPSHOT_FRAME_BYTES && memcmp(p + at, "CHNK", 4) == 0) {
		uint64_t len = le64(p + at + 16);
		size_t left = size - at - SNAPSHOT_FRAME_BYTES;

		if (len <= left)
			put64(p + at + 24, hash_image(p + at + SNAPSHOT_FRAME_BYTES, (size_t)len));
		put64(p + at + 32, hash_image(p + at, 32));
		XXH3_64bits_update(sum, p + at, SNAPSHOT_FRAME_BYTES);
		at += SNAPSHOT_FRAME_BYTES + (size_t)(len <= left ? len : left);
	}
	if (size >= at + SNAPSHOT_TRAILER_BYTES) {
		XXH3_64bits_update(sum, p + at, SNAPSHOT_TRAILER_BYTES - 8);
		put64(p + at + SNAPSHOT_TRAILER_BYTES - 8, XXH3_64bits_digest(sum));
	}
	XXH3_freeState(sum);
}

/* Read it all, and write what is read to `fd`. */
static int copy(const char *path, int to, uint64_t *chunks_out)
{
	int from = open(path, O_RDONLY | O_CLOEXEC), err;
	struct snapshot_reader r = {.fd = from, .name = "file"};
	struct snapshot_record rec;
	struct snapshot_writer w = {.fd = to, .name = "copy"};
	bool got = true;

	FUZZ_CHECK(from >= 0);
	err = snapshot_read_begin(&r);
	if (!err)
		FUZZ_CHECK(snapshot_write_begin(&w, r.moment_ms) == 0);
	while (!err && got) {
		err = snapshot_read_chunk(&r, &got);
		while (!err && snapshot_next(&r, &rec)) {
			FUZZ_CHECK(rec.key_len > 0 && rec.key_len <= FARKV_KEY_MAX);
			FUZZ_CHECK(snapshot_write(&w, &rec) == 0);
		}
	}
	if (!err) {
		w.totals.took_ms = r.totals.took_ms;
		FUZZ_CHECK(snapshot_write_end(&w) == 0);
		FUZZ_CHECK(w.totals.records == r.totals.records);
	}
	*chunks_out = r.totals.chunks;
	snapshot_write_free(&w);
	snapshot_read_free(&r);
	close(from);
	return err;
}

/* A writer fills chunks; a file of one chunk or none has a single form. */
static void compare(int fd, const uint8_t *p, size_t size)
{
	uint8_t *again = malloc(size + 1);

	FUZZ_CHECK(pread(fd, again, size + 1, 0) == (ssize_t)size);
	FUZZ_CHECK(memcmp(again, p, size) == 0);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t chunks = 0;
	uint8_t *p;
	FILE *to;
	int err;

	if (size < 1)
		return 0;
	p = (uint8_t *)fuzz_text(data + 1, size - 1);
	if (data[0] & 1)
		seal(p, size - 1);
	to = tmpfile();
	FUZZ_CHECK(to);
	err_clear();
	err = copy(fuzz_file(p, size - 1), fileno(to), &chunks);
	if (err)
		FUZZ_CHECK(err == FARKV_EFORMAT && fuzz_detail_ok());
	else if (chunks <= 1)
		compare(fileno(to), p, size - 1);
	fclose(to);
	free(p);
	return 0;
}
