/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "stress.h"

static uint64_t mix(uint64_t x)
{
	return scale_random(&x);
}

size_t stress_key(uint32_t round, uint32_t key, uint8_t *out)
{
	uint64_t word = scale_key((uint64_t)round << 32 | key);
	size_t len = word % 5 ? 8 : 8 + word / 5 % (STRESS_KEY_MAX - 8);

	memcpy(out, &word, 8);
	memset(out + 8, (int)len, len - 8);
	return len;
}

static size_t value_len(uint64_t id)
{
	uint64_t r = mix(id);

	switch (r % 16) {
	case 0:
		return 1000 + r / 16 % (STRESS_VALUE_MAX - 1000);
	case 1:
	case 2:
		return 200 + r / 16 % 800;
	case 3:
	case 4:
	case 5:
	case 6:
		return 16 + r / 16 % 180;
	default:
		return 8;
	}
}

static uint64_t word_at(uint64_t id, size_t i)
{
	return i ? (id ^ i << 48) * UINT64_C(0x9E3779B97F4A7C15) : id;
}

size_t stress_value(uint64_t id, uint8_t *out)
{
	size_t len = value_len(id);

	for (size_t at = 0; at < len; at += 8) {
		uint64_t word = word_at(id, at / 8);

		memcpy(out + at, &word, len - at < 8 ? len - at : 8);
	}
	return len;
}

uint64_t stress_value_id(const void *data, size_t len, bool *whole_out)
{
	const uint8_t *p = data;
	uint64_t id = 0, word;

	*whole_out = false;
	if (len >= 8)
		memcpy(&id, p, 8);
	if (len < 8 || len != value_len(id)) {
		fprintf(stderr, "stress: a value of %zu bytes says that it is "
			"%" PRIx64 ", which has %zu\n", len, id,
			value_len(id));
		return id;
	}
	for (size_t at = 8; at < len; at += 8) {
		word = word_at(id, at / 8);
		if (memcmp(p + at, &word, len - at < 8 ? len - at : 8) != 0) {
			fprintf(stderr, "stress: value %" PRIx64 " of %zu bytes "
				"is torn at byte %zu\n", id, len, at);
			return id;
		}
	}
	*whole_out = true;
	return id;
}
