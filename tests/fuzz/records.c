/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of records for kvcli load and dump, in all formats (the first byte says
 * which). What is read is written and read again, and is the same then.
 */
#include "config.h"

#include "fuzz.h"

#include <farkv.h>

#include "client/cli/records.h"
#include "common/base/err.h"

/* As a store may answer; the real ones are larger. Where a record does not say how
 * long it is, less than the longest key is never too much. */
#define MAX_VALUE 500u

struct seen {
	struct writer again; /* of the records that were read; none if its `out` is NULL */
	uint64_t sum;
	unsigned n;
};

static uint64_t fnv(uint64_t sum, const uint8_t *p, size_t n)
{
	while (n--)
		sum = (sum ^ *p++) * UINT64_C(0x100000001B3);
	return sum * 3;
}

static void see(struct seen *s, enum record_format format,
		const struct record *rec)
{
	const uint8_t *value = rec->buf + rec->key_len;

	FUZZ_CHECK(rec->key_len > 0 && rec->key_len <= FARKV_KEY_MAX);
	FUZZ_CHECK(rec->value_len <= MAX_VALUE ||
		   (format != RECORD_CDB && rec->value_len <= FARKV_KEY_MAX));
	FUZZ_CHECK(rec->key_len + rec->value_len <= rec->cap);
	s->n++;
	s->sum = fnv(fnv(s->sum, rec->buf, rec->key_len), value,
		     rec->value_len);
	if (s->again.out)
		FUZZ_CHECK(writer_put(&s->again,
				      &(struct farkv_put_item){.key = rec->buf,
							       .key_len = rec->key_len,
							       .value = value,
							       .value_len = rec->value_len}));
}

/* Returns the first error. */
static int read_all(const void *data, size_t size, enum record_format format,
		    bool keys_only, struct seen *s)
{
	struct reader r;
	struct record rec = {0};
	uint64_t offset = 0;
	bool got = true;
	int err;

	FUZZ_CHECK(reader_open(&r, fuzz_file(data, size), format, keys_only) ==
		   0);
	r.max_value = MAX_VALUE;
	err_clear();
	while (!(err = reader_next(&r, &rec, &got)) && got) {
		FUZZ_CHECK(r.offset > offset && r.offset <= size);
		offset = r.offset;
		see(s, format, &rec);
		record_trim(&rec, 1000);
	}
	if (err)
		FUZZ_CHECK(fuzz_detail_ok());
	else
		FUZZ_CHECK(r.offset == size);
	record_trim(&rec, 0);
	reader_close(&r);
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum record_format format;
	struct seen first = {0}, second = {0};
	char *text = NULL;
	size_t len = 0;

	if (size < 1)
		return 0;
	format = (enum record_format)(data[0] % 3);
	if (data[0] & 0x80) {
		(void)read_all(data + 1, size - 1, format, true, &first);
		return 0;
	}
	first.again = (struct writer){.out = open_memstream(&text, &len), .format = format};
	FUZZ_CHECK(first.again.out);
	(void)read_all(data + 1, size - 1, format, false, &first);
	writer_end(&first.again);
	FUZZ_CHECK(fclose(first.again.out) == 0);
	FUZZ_CHECK(read_all(text, len, format, false, &second) == 0);
	FUZZ_CHECK(first.n == second.n && first.sum == second.sum);
	free(text);
	return 0;
}
