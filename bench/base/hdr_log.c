/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "hdr_log.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/base/err.h"

/* The 0x10 in both: encoding V2 with counts of variable length. */
#define COOKIE UINT32_C(0x1c849313)
#define COOKIE_COMPRESSED UINT32_C(0x1c849314)
#define DIGITS 3
#define HEADER 40

static unsigned char *put_32(unsigned char *at, uint32_t v)
{
	v = htobe32(v);
	memcpy(at, &v, sizeof(v));
	return at + sizeof(v);
}

static unsigned char *put_64(unsigned char *at, uint64_t v)
{
	v = htobe64(v);
	memcpy(at, &v, sizeof(v));
	return at + sizeof(v);
}

/* ZigZag LEB128: seven bits per byte, lowest first; a ninth byte holds eight. */
static unsigned char *put_count(unsigned char *at, int64_t v)
{
	uint64_t z = (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0);
	int i;

	for (i = 0; i < 8 && z > 0x7f; i++) {
		*at++ = (unsigned char)(z | 0x80);
		z >>= 7;
	}
	*at++ = (unsigned char)z;
	return at;
}

/* Counters up to the last non-zero one; a run of zeros is one negative number. */
static unsigned char *put_counts(unsigned char *at, const struct hist *h,
				 unsigned *last_out)
{
	int64_t zeros = 0;

	*last_out = 0;
	for (unsigned i = 0; i < HIST_COUNTERS; i++) {
		uint64_t n = atomic_load_explicit(&h->count[i],
						  memory_order_relaxed);

		if (!n) {
			zeros++;
			continue;
		}
		if (zeros)
			at = put_count(at, zeros > 1 ? -zeros : 0);
		zeros = 0;
		at = put_count(at, (int64_t)n);
		*last_out = i;
	}
	return at;
}

size_t hdr_encode(const struct hist *h, unsigned char *buf)
{
	static const double ratio = 1.0;
	unsigned char *end, *at = buf;
	uint64_t bits, highest;
	unsigned last;

	end = put_counts(buf + HEADER, h, &last);
	/* The range must include the last counter and at least two values. */
	highest = hist_highest(hist_value(last));
	memcpy(&bits, &ratio, sizeof(bits));
	at = put_32(at, COOKIE);
	at = put_32(at, (uint32_t)(end - buf - HEADER));
	at = put_32(at, 0); /* no counter is shifted */
	at = put_32(at, DIGITS);
	at = put_64(at, 1); /* one counter per ns at the lower end */
	at = put_64(at, highest < 2 ? 2 : highest);
	put_64(at, bits);
	return (size_t)(end - buf);
}

static void base64(const unsigned char *in, size_t len, char *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < len; i += 3) {
		uint32_t v = (uint32_t)in[i] << 16;

		v |= i + 1 < len ? (uint32_t)in[i + 1] << 8 : 0;
		v |= i + 2 < len ? (uint32_t)in[i + 2] : 0;
		*out++ = digits[v >> 18];
		*out++ = digits[v >> 12 & 63];
		*out++ = i + 1 < len ? digits[v >> 6 & 63] : '=';
		*out++ = i + 2 < len ? digits[v & 63] : '=';
	}
	*out = '\0';
}

char *hdr_text(const struct hist *h)
{
	unsigned char *raw = malloc(HDR_RAW_MAX), *packed = NULL;
	char *text = NULL;
	uLongf packed_len;
	size_t len;

	if (!raw)
		return NULL;
	len = hdr_encode(h, raw);
	packed_len = compressBound(len);
	packed = malloc(8 + packed_len);
	if (!packed ||
	    compress(packed + 8, &packed_len, raw, len) != Z_OK)
		goto out;
	put_32(put_32(packed, COOKIE_COMPRESSED), (uint32_t)packed_len);
	len = 8 + packed_len;
	text = malloc((len + 2) / 3 * 4 + 1);
	if (text)
		base64(packed, len, text);
out:
	free(packed);
	free(raw);
	return text;
}

int hdr_log_open(const char *path, const char *name, double start_s,
		 FILE **out)
{
	FILE *f = fopen(path, "we");

	if (!f)
		return err_set_errno(FARKV_ESYS, errno,
				     "hdrhistogram.output.path: cannot open %s",
				     path);
	fprintf(f,
		"#[Logging for: %s]\n"
		"#[Histogram log format version 1.3]\n"
		"#[StartTime: %.3f (seconds since epoch)]\n"
		"#[BaseTime: %.3f (seconds since epoch)]\n"
		"\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\","
		"\"Interval_Compressed_Histogram\"\n",
		name, start_s, start_s);
	*out = f;
	return 0;
}

int hdr_log_add(FILE *f, const struct hist *h, double from_s, double len_s)
{
	struct hist_summary s;
	char *text = hdr_text(h);

	if (!text)
		return err_set(FARKV_ENOMEM, "no memory for a .hdr line");
	hist_summarize(h, &s);
	fprintf(f, "%.3f,%.3f,%.6f,%s\n", from_s, len_s, (double)s.max / 1e6,
		text);
	free(text);
	return 0;
}

int hdr_log_close(FILE *f, const char *path)
{
	bool bad = f && ferror(f);

	if (f && fclose(f))
		bad = true;
	return bad ? err_set_errno(FARKV_ESYS, errno, "cannot write %s", path)
		   : 0;
}
