/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "glob.h"

#include "common/base/util.h"

/*
 * Match one byte with the class after '['. Returns what follows the class. As Redis does, a class
 * without its ']' ends with the pattern.
 */
static const char *class_match(const char *p, const char *end, unsigned char byte, bool *hit)
{
	bool inverted = p < end && *p == '^';
	bool found = false;

	p += inverted;
	for (; p < end && *p != ']'; p++) {
		unsigned char low, high;

		if (*p == '\\' && p + 1 < end)
			p++;
		low = high = (unsigned char)*p;
		if (p + 2 < end && p[1] == '-') {
			high = (unsigned char)p[2];
			p += 2;
		}
		found |= byte >= UTIL_MIN(low, high) && byte <= UTIL_MAX(low, high);
	}
	*hit = found != inverted;
	return p < end ? p + 1 : end;
}

/* Match one byte with what is at `p`, which is no '*'. Returns what follows, or NULL. */
static const char *byte_match(const char *p, const char *end, char byte)
{
	bool hit = true;

	switch (*p) {
	case '?':
		return p + 1;
	case '[':
		p = class_match(p + 1, end, (unsigned char)byte, &hit);
		return hit ? p : NULL;
	case '\\':
		p += p + 1 < end;
		break;
	default:
		break;
	}
	return *p == byte ? p + 1 : NULL;
}

/* Of all stars only the last one is tried again with one byte more. */
bool glob_match(struct slice pattern, struct slice text)
{
	const char *p = pattern.p, *p_end = p + pattern.len;
	const char *t = text.p, *t_end = t + text.len;
	const char *star = NULL, *star_text = NULL, *next;

	while (t < t_end) {
		if (p < p_end && *p == '*') {
			star = ++p;
			star_text = t;
		} else if (p < p_end && (next = byte_match(p, p_end, *t))) {
			p = next;
			t++;
		} else if (star) {
			p = star;
			t = ++star_text;
		} else {
			return false;
		}
	}
	while (p < p_end && *p == '*')
		p++;
	return p == p_end;
}
