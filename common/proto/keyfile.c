/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "keyfile.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "common/base/err.h"
#include "common/base/textfile.h"
#include "common/base/util.h"

#define HEX_CHARS (2 * KEY_BYTES)
#define BASE64_CHARS 44u
static_assert(sodium_base64_ENCODED_LEN(KEY_BYTES,
					sodium_base64_VARIANT_ORIGINAL) ==
		      BASE64_CHARS + 1,
	      "the length of a key in base64");
static_assert(KEYFILE_LINE_MAX >= KEY_NAME_MAX + 4 + BASE64_CHARS + 1,
	      "the longest line fits");

struct keyfile {
	char *path;                 /* for messages */
	struct key *keys;           /* by sodium_malloc(), in the file's order */
	const struct key **by_name; /* sorted */
	size_t n;
};

static const char *const role_names[] = {[KEY_RW] = "rw", [KEY_RO] = "ro"};

bool keyfile_name_ok(const void *name, size_t len)
{
	const uint8_t *p = name;

	if (len == 0 || len > KEY_NAME_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!(p[i] >= 'a' && p[i] <= 'z') &&
		    !(p[i] >= 'A' && p[i] <= 'Z') &&
		    !(p[i] >= '0' && p[i] <= '9') && !memchr("._-", p[i], 3))
			return false;
	return true;
}

int keyfile_crypto_start(void)
{
	return sodium_init() < 0
		       ? err_set(FARKV_ESYS,
				 "the system has no random numbers to give: "
				 "libsodium does not start")
		       : 0;
}

/* ---- the file ------------------------------------------------------------ */

static int open_error(const char *path, int errnum)
{
	switch (errnum) {
	case EACCES:
	case EPERM:
		return err_set_errno(FARKV_EPERM, errnum,
				     "cannot open the key file %s", path);
	case ENOENT:
	case ENOTDIR:
	case ELOOP:
	case ENAMETOOLONG:
	case ENXIO: /* a socket */
		return err_set_errno(FARKV_EINVAL, errnum,
				     "cannot open the key file %s", path);
	default:
		return err_set_errno(FARKV_ESYS, errnum,
				     "cannot open the key file %s", path);
	}
}

static int file_check(const char *path, const struct stat *st)
{
	char word[300];

	if (!S_ISREG(st->st_mode))
		return err_set(FARKV_EINVAL,
			       "the key file %s is not a regular file", path);
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return err_set(FARKV_EPERM,
			       "the key file %s belongs to user %u: it must be "
			       "yours (user %u) or root's; chown %u %s",
			       path, (unsigned)st->st_uid, (unsigned)geteuid(),
			       (unsigned)geteuid(),
			       util_shell_word(path, word, sizeof(word)));
	if (st->st_mode & (S_IRWXG | S_IRWXO))
		return err_set(FARKV_EPERM,
			       "the key file %s is open to others (mode %04o); "
			       "chmod 600 %s",
			       path, (unsigned)(st->st_mode & 07777),
			       util_shell_word(path, word, sizeof(word)));
	if (st->st_size > (off_t)KEYFILE_BYTES_MAX)
		return err_set(FARKV_EINVAL,
			       "the key file %s is larger than 1 MiB", path);
	return 0;
}

static int file_open(const char *path, int *fd_out, size_t *size_out)
{
	struct stat st;
	/* O_NONBLOCK: do not wait for the other end of a pipe. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int err;

	if (fd < 0)
		return open_error(path, errno);
	if (fstat(fd, &st))
		err = err_set_errno(FARKV_ESYS, errno,
				    "cannot look at the key file %s", path);
	else
		err = file_check(path, &st);
	if (err) {
		close(fd);
		return err;
	}
	*fd_out = fd;
	*size_out = (size_t)st.st_size;
	return 0;
}

/* Read the whole file; one that fills the buffer has grown. */
static int file_read(const char *path, int fd, char *text, size_t cap,
		     size_t *len_out)
{
	size_t len = 0;

	while (len < cap) {
		ssize_t n = read(fd, text + len, cap - len);

		if (n == 0) {
			*len_out = len;
			return 0;
		}
		if (n < 0 && errno != EINTR)
			return err_set_errno(FARKV_ESYS, errno,
					     "cannot read the key file %s",
					     path);
		if (n > 0)
			len += (size_t)n;
	}
	/* A truncated line might pass for a whole one. */
	return err_set(FARKV_ESYS,
		       "the key file %s grew while it was read; try again",
		       path);
}

/*
 * Read the whole file into memory of sodium_malloc(), which the caller frees, with space
 * for one more byte.
 */
static int file_slurp(const char *path, char **text_out, size_t *len_out)
{
	size_t size = 0;
	char *text;
	int fd = -1, err;

	err = file_open(path, &fd, &size);
	if (err)
		return err;
	text = sodium_malloc(size + 1);
	err = text ? file_read(path, fd, text, size + 1, len_out)
		   : err_set(FARKV_ENOMEM, "no memory for the key file %s",
			     path);
	close(fd);
	if (err) {
		sodium_free(text);
		return err;
	}
	*text_out = text;
	return 0;
}

/* ---- a line -------------------------------------------------------------- */

struct word {
	const char *p;
	size_t len;
};

/* Split a line into up to `max` words; returns how many. */
static unsigned words_split(const char *p, const char *end, struct word *words,
			    unsigned max)
{
	static const char blanks[] = {' ', '\t', '\r'};
	unsigned n = 0;

	while (n < max) {
		while (p < end && memchr(blanks, *p, sizeof(blanks)))
			p++;
		if (p == end || *p == '#')
			break;
		words[n].p = p;
		while (p < end && !memchr(blanks, *p, sizeof(blanks)))
			p++;
		words[n].len = (size_t)(p - words[n].p);
		n++;
	}
	return n;
}

static bool secret_parse(const struct word *w, uint8_t *secret)
{
	size_t len = 0;
	int err = -1;

	if (w->len == HEX_CHARS)
		err = sodium_hex2bin(secret, KEY_BYTES, w->p, w->len, NULL,
				     &len, NULL);
	else if (w->len == BASE64_CHARS)
		err = sodium_base642bin(secret, KEY_BYTES, w->p, w->len, NULL,
					&len, NULL,
					sodium_base64_VARIANT_ORIGINAL);
	return err == 0 && len == KEY_BYTES;
}

/* NULL, or what is wrong; the text never quotes the words. */
static const char *key_parse(const struct word *words, unsigned n,
			     struct key *key)
{
	if (n != 3)
		return n < 3 ? "a line has three words, NAME ROLE KEY; this "
			       "one has fewer"
			     : "a line has three words, NAME ROLE KEY; this "
			       "one has more";
	if (!keyfile_name_ok(words[0].p, words[0].len))
		return "the name (first word) is not 1 to 63 of A-Z a-z 0-9 . "
		       "_ -";
	if (words[1].len == 2 && memcmp(words[1].p, "rw", 2) == 0)
		key->role = KEY_RW;
	else if (words[1].len == 2 && memcmp(words[1].p, "ro", 2) == 0)
		key->role = KEY_RO;
	else
		return "the role (second word) is neither rw nor ro";
	if (!secret_parse(&words[2], key->secret))
		return "the key (third word) is neither 64 hexadecimal digits "
		       "nor 32 bytes in base64; kvcli keygen makes one";
	memset(key->name, 0, sizeof(key->name));
	memcpy(key->name, words[0].p, words[0].len);
	key->name_len = (uint8_t)words[0].len;
	return NULL;
}

/* The newline, or the end of the text; the next line begins one byte after it. */
static const char *line_end(const char *p, const char *end)
{
	const char *newline = memchr(p, '\n', (size_t)(end - p));

	return newline ? newline : end;
}

/* Number of lines that have a word: an upper bound of the number of keys. */
static size_t lines_count(const char *p, const char *end)
{
	struct word w;
	size_t n = 0;

	for (; p < end; p = line_end(p, end) + 1)
		n += words_split(p, line_end(p, end), &w, 1);
	return n;
}

static int lines_parse(struct keyfile *kf, const char *p, const char *end)
{
	unsigned line = 0;

	for (; p < end; p = line_end(p, end) + 1) {
		struct word words[4];
		unsigned n = words_split(p, line_end(p, end), words, 4);
		const char *wrong;

		line++;
		if (n == 0)
			continue;
		wrong = key_parse(words, n, &kf->keys[kf->n]);
		if (wrong)
			return err_set(FARKV_EINVAL, "%s:%u: %s", kf->path,
				       line, wrong);
		kf->n++;
	}
	return 0;
}

/* ---- names --------------------------------------------------------------- */

static int name_compare(const char *a, size_t a_len, const char *b,
			size_t b_len)
{
	int d = memcmp(a, b, a_len < b_len ? a_len : b_len);

	return d ? d : (a_len > b_len) - (a_len < b_len);
}

/* By name; equal names by their order in the file. */
static int key_compare(const void *a, const void *b)
{
	const struct key *x = *(const struct key *const *)a;
	const struct key *y = *(const struct key *const *)b;
	int d = name_compare(x->name, x->name_len, y->name, y->name_len);

	return d ? d : (x > y) - (x < y);
}

/* The number of the line that holds the key. */
static unsigned line_of(const struct keyfile *kf, const struct key *key,
			const char *p, const char *end)
{
	size_t left = (size_t)(key - kf->keys) + 1;
	unsigned line = 0;
	struct word w;

	for (; p < end && left; p = line_end(p, end) + 1) {
		line++;
		left -= words_split(p, line_end(p, end), &w, 1);
	}
	return line;
}

/* Sort pointers, not keys: qsort() may copy elements to memory that nobody wipes. */
static int names_sort(struct keyfile *kf, const char *text, const char *end)
{
	const struct key *twice = NULL, *once = NULL;

	for (size_t i = 0; i < kf->n; i++)
		kf->by_name[i] = &kf->keys[i];
	qsort(kf->by_name, kf->n, sizeof(kf->by_name[0]), key_compare);
	for (size_t i = 1; i < kf->n; i++) {
		const struct key *a = kf->by_name[i - 1], *b = kf->by_name[i];

		/* Report the first duplicate in the file. */
		if (name_compare(a->name, a->name_len, b->name, b->name_len) ==
			    0 &&
		    (!twice || b < twice)) {
			once = a;
			twice = b;
		}
	}
	if (!twice)
		return 0;
	return err_set(FARKV_EINVAL, "%s:%u: the same name as in line %u",
		       kf->path, line_of(kf, twice, text, end),
		       line_of(kf, once, text, end));
}

const struct key *keyfile_find(const struct keyfile *kf, const char *name,
			       size_t len)
{
	size_t low = 0, high = kf->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct key *key = kf->by_name[mid];
		int d = name_compare(name, len, key->name, key->name_len);

		if (d == 0)
			return key;
		if (d < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

const struct key *keyfile_at(const struct keyfile *kf, size_t i)
{
	return i < kf->n ? kf->by_name[i] : NULL;
}

bool keyfile_same_key(const struct key *a, const struct key *b)
{
	return keyfile_compare(a, b) == 0 && a->role == b->role &&
	       sodium_memcmp(a->secret, b->secret, KEY_BYTES) == 0;
}

bool keyfile_secret_is(const struct key *k, const char *text, size_t len)
{
	struct word w = {text, len};
	uint8_t secret[KEY_BYTES];
	bool same = secret_parse(&w, secret) &&
		    sodium_memcmp(secret, k->secret, KEY_BYTES) == 0;

	sodium_memzero(secret, sizeof(secret));
	return same;
}

int keyfile_compare(const struct key *a, const struct key *b)
{
	return name_compare(a->name, a->name_len, b->name, b->name_len);
}

int keyfile_first(const struct keyfile *kf, const struct key **out)
{
	if (kf->n != 1)
		return err_set(FARKV_EINVAL,
			       "the key file %s holds %zu keys: give the name "
			       "of the one to use",
			       kf->path, kf->n);
	*out = &kf->keys[0];
	return 0;
}

/* ---- load and free ---------------------------------------------------------------- */

static int keyfile_new(const char *path, size_t n, struct keyfile **out)
{
	struct keyfile *kf = calloc(1, sizeof(*kf));

	if (!kf)
		goto err_nomem;
	kf->path = strdup(path);
	kf->by_name = calloc(n, sizeof(kf->by_name[0]));
	kf->keys = sodium_allocarray(n, sizeof(kf->keys[0]));
	if (!kf->path || !kf->by_name || !kf->keys)
		goto err_nomem;
	*out = kf;
	return 0;

err_nomem:
	keyfile_free(kf);
	return err_set(FARKV_ENOMEM, "no memory for the key file %s", path);
}

/* After an error, too, the caller frees *kf, unless it is NULL. */
static int text_parse(const char *path, const char *text, const char *end,
		      struct keyfile **kf)
{
	size_t n = lines_count(text, end);
	int err;

	if (n == 0)
		return err_set(FARKV_EINVAL,
			       "the key file %s has no key in it; kvcli keygen "
			       "NAME makes one",
			       path);
	err = keyfile_new(path, n, kf);
	if (!err)
		err = lines_parse(*kf, text, end);
	return err ? err : names_sort(*kf, text, end);
}

int keyfile_load(const char *path, struct keyfile **out)
{
	struct keyfile *kf = NULL;
	char *text = NULL;
	size_t len = 0;
	int err = keyfile_crypto_start();

	if (err)
		return err;
	err = file_slurp(path, &text, &len);
	if (err)
		return err;
	err = textfile_check(path, text, len, NULL);
	if (!err)
		err = text_parse(path, text + textfile_mark(text, len),
				 text + len, &kf);
	sodium_free(text); /* wipes first */
	if (err) {
		keyfile_free(kf);
		return err;
	}
	*out = kf;
	return 0;
}

int keyfile_reload(struct keyfile *kf, struct keyfile **old_out)
{
	struct keyfile *fresh = NULL, old = *kf;
	int err = keyfile_load(kf->path, &fresh);

	if (err)
		return err;
	*kf = *fresh;
	*fresh = old;
	*old_out = fresh;
	return 0;
}

void keyfile_free(struct keyfile *kf)
{
	if (!kf)
		return;
	sodium_free(kf->keys); /* wipes first; NULL is allowed */
	free(kf->by_name);
	free(kf->path);
	free(kf);
}

/* ---- a new key ----------------------------------------------------------- */

int keyfile_make_line(const char *name, enum key_role role, char *line,
		      size_t cap)
{
	uint8_t secret[KEY_BYTES];
	char text[BASE64_CHARS + 1];
	int err;

	if (!keyfile_name_ok(name, strlen(name)))
		return err_set(FARKV_EINVAL,
			       "a key's name is 1 to 63 of A-Z a-z 0-9 . _ -");
	if (cap < KEYFILE_LINE_MAX)
		return err_set(FARKV_EINVAL,
			       "a buffer of %zu bytes is too "
			       "small for a key's line",
			       cap);
	err = keyfile_crypto_start();
	if (err)
		return err;
	randombytes_buf(secret, sizeof(secret));
	sodium_bin2base64(text, sizeof(text), secret, sizeof(secret),
			  sodium_base64_VARIANT_ORIGINAL);
	snprintf(line, cap, "%s %s %s", name, role_names[role], text);
	sodium_memzero(secret, sizeof(secret));
	sodium_memzero(text, sizeof(text));
	return 0;
}
