/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "textfile.h"

#include <string.h>

#include <farkv.h>

#include "err.h"
#include "util.h"

#define UTF16 "UTF-16 text", "convert it first: iconv -f UTF-16 -t UTF-8"

/* Magic numbers of the formats' specifications and of file(1). */
static const struct kind {
	const char *mark;
	size_t len;
	const char *name;
	const char *remedy; /* ends in a command; the file's name follows it */
} kinds[] = {
	{"\x1f\x8b\x08", 3, "a gzip file", "decompress it first: zcat"},
	{"\xfd" "7zXZ\0", 6, "an xz file", "decompress it first: xzcat"},
	{"\x28\xb5\x2f\xfd", 4, "a zstd file", "decompress it first: zstdcat"},
	{"BZh91AY&SY", 10, "a bzip2 file", "decompress it first: bzcat"},
	{"\x04\x22\x4d\x18", 4, "an lz4 file", "decompress it first: lz4cat"},
	{"PK\3\4", 4, "a zip file", "unpack it first: unzip -p"},
	{"\xff\xfe", 2, UTF16},
	{"\xfe\xff", 2, UTF16},
};

static const char utf8_mark[] = "\xef\xbb\xbf";

static int refuse(const struct kind *k, const char *path, const char *reader)
{
	char file[300];

	return err_set(FARKV_EINVAL, "%s: this is %s; %s %s%s%s",
		       path ? path : "stdin", k->name, k->remedy,
		       path ? util_shell_word(path, file, sizeof(file)) :
			      "FILE",
		       reader ? " | " : "", reader ? reader : "");
}

static const struct kind *kind_of(const void *head, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (len >= kinds[i].len &&
		    memcmp(head, kinds[i].mark, kinds[i].len) == 0)
			return &kinds[i];
	return NULL;
}

int textfile_check(const char *path, const void *head, size_t len,
		   const char *reader)
{
	const struct kind *k = kind_of(head, len);

	return k ? refuse(k, path, reader) : 0;
}

bool textfile_foreign(const void *head, size_t len)
{
	return kind_of(head, len) || textfile_mark(head, len);
}

bool textfile_undecided(const void *head, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (len < kinds[i].len && memcmp(head, kinds[i].mark, len) == 0)
			return true;
	return len < 3 && memcmp(head, utf8_mark, len) == 0;
}

size_t textfile_mark(const void *head, size_t len)
{
	return len >= 3 && memcmp(head, utf8_mark, 3) == 0 ? 3 : 0;
}
