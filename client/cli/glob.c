/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "glob.h"

#include <stdint.h>

/*
 * Match one byte against the set at `p`, after its bracket. Returns the pattern after the set;
 * NULL if it is not closed.
 */
static const char *set_match(const char *p, uint8_t c, bool *match_out)
{
	bool others = *p == '!' || *p == '^', match = false;
	const char *first;

	p += others;
	first = p;
	for (; *p && (*p != ']' || p == first); p++) {
		uint8_t from, to;

		if (*p == '\\' && p[1])
			p++;
		from = to = (uint8_t)*p;
		if (p[1] == '-' && p[2] && p[2] != ']') {
			p += 2;
			if (*p == '\\' && p[1])
				p++;
			to = (uint8_t)*p;
		}
		match |= c >= from && c <= to;
	}
	*match_out = match != others;
	return *p ? p + 1 : NULL;
}

/* Match one byte against the beginning of `p`. Returns the pattern after that, or NULL. */
static const char *byte_match(const char *p, uint8_t c)
{
	const char *after;
	bool match;

	if (*p == '?')
		return p + 1;
	after = *p == '[' ? set_match(p + 1, c, &match) : NULL;
	if (after)
		return match ? after : NULL;
	if (*p == '\\' && p[1])
		p++;
	return (uint8_t)*p == c && *p ? p + 1 : NULL;
}

bool glob_match(const char *pattern, const void *key, size_t len)
{
	const uint8_t *s = key, *end = s + len, *star_s = s;
	const char *p = pattern, *star = NULL;

	while (s < end) {
		const char *next = *p == '*' ? NULL : byte_match(p, *s);

		if (*p == '*') {
			star = ++p;
			star_s = s;
		} else if (next) {
			p = next;
			s++;
		} else if (star) {
			p = star; /* the last star matches one more byte */
			s = ++star_s;
		} else {
			return false;
		}
	}
	while (*p == '*')
		p++;
	return !*p;
}
