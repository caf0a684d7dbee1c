/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "clustermap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/textfile.h"
#include "common/base/util.h"

#define FORMAT "farkv cluster 1"
static_assert(CLUSTERMAP_SERVERS_MAX <= UINT8_MAX + 1u, "an index fits a byte");

/* ---- servers --------------------------------------------------------------------------- */

struct word {
	const char *p;
	size_t len;
};

static bool name_ok(struct word w)
{
	if (w.len == 0 || w.len > CLUSTERMAP_NAME_MAX)
		return false;
	for (size_t i = 0; i < w.len; i++) {
		char c = w.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
		    !(c >= '0' && c <= '9') && !memchr("._-", c, 3))
			return false;
	}
	return true;
}

static bool begins(struct word w, const char *with)
{
	size_t n = strlen(with);

	return w.len > n && memcmp(w.p, with, n) == 0;
}

/* NULL, or what is wrong. The client resolves the address; here it must be fit for any of them. */
static const char *address_wrong(struct word w)
{
	if (w.len == 0 || w.len > CLUSTERMAP_ADDRESS_MAX)
		return "an address has 1 to 200 bytes";
	for (size_t i = 0; i < w.len; i++)
		if (w.p[i] <= ' ' || w.p[i] > '~' || w.p[i] == ',')
			return "an address is printable ASCII without blanks and commas";
	if (!begins(w, "shm:///") && !begins(w, "kv://") && w.p[0] != '/')
		return "an address is shm:///PATH, kv://HOST:PORT or a path from / on";
	if (memmem(w.p, w.len, "key=", 4) || memmem(w.p, w.len, "keys=", 5))
		return "a map has no keys: clients give theirs when they open the store";
	return NULL;
}

static const char *add_server(struct clustermap *m, struct word name, struct word address)
{
	struct clustermap_server *s = &m->server[m->n_servers];
	const char *wrong;

	if (m->n_servers == CLUSTERMAP_SERVERS_MAX)
		return "a cluster has at most 64 servers";
	if (!name_ok(name))
		return "a server's name is 1 to 31 of A-Z a-z 0-9 . _ -";
	wrong = address_wrong(address);
	if (wrong)
		return wrong;
	memcpy(s->name, name.p, name.len);
	memcpy(s->address, address.p, address.len);
	for (uint32_t i = 0; i < m->n_servers; i++) {
		if (strcmp(m->server[i].name, s->name) == 0)
			return "another server has this name";
		if (strcmp(m->server[i].address, s->address) == 0)
			return "another server has this address";
	}
	m->n_servers++;
	return NULL;
}

uint32_t clustermap_find(const struct clustermap *m, const char *name)
{
	uint32_t i = 0;

	while (i < m->n_servers && strcmp(m->server[i].name, name) != 0)
		i++;
	return i;
}

/* ---- the text -------------------------------------------------------------------------- */

struct text {
	char *buf;
	size_t len;
};

/* Cut at CLUSTERMAP_TEXT_MAX; `len` counts on. */
static void __attribute__((format(printf, 2, 3))) add(struct text *t, const char *fmt, ...)
{
	size_t at = UTIL_MIN(t->len, (size_t)CLUSTERMAP_TEXT_MAX);
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->buf + at, CLUSTERMAP_TEXT_MAX + 1 - at, fmt, ap);
	va_end(ap);
	t->len += n > 0 ? (size_t)n : 0;
}

static size_t print(const struct clustermap *m, char *buf)
{
	struct text t = {.buf = buf};

	add(&t, FORMAT "\nepoch %" PRIu64 "\nseed %016" PRIx64 "\n", m->epoch, m->seed);
	if (m->lease_ms)
		add(&t, "lease %" PRIu32 "\n", m->lease_ms);
	for (uint32_t i = 0; i < m->n_servers; i++) {
		add(&t, "server %s %s", m->server[i].name, m->server[i].address);
		if (m->server[i].lost)
			add(&t, " %" PRIu64, m->server[i].lost);
		add(&t, "\n");
	}
	for (uint32_t first = 0, next; first < CLUSTERMAP_PARTITIONS; first = next) {
		for (next = first + 1; next < CLUSTERMAP_PARTITIONS; next++)
			if (m->owner[next] != m->owner[first])
				break;
		add(&t, "partitions %" PRIu32 "-%" PRIu32 " %s\n", first, next - 1,
		    m->server[m->owner[first]].name);
	}
	return t.len;
}

size_t clustermap_print(const struct clustermap *m, char *buf)
{
	return print(m, buf); /* complete() has seen that it fits */
}

/* Compute id and counts of a map that is filled in. NULL, or what is wrong. */
static const char *complete(struct clustermap *m)
{
	char buf[CLUSTERMAP_TEXT_MAX + 1];
	size_t len = print(m, buf);

	if (len > CLUSTERMAP_TEXT_MAX)
		return "the map is too long: more than 16000 bytes of text";
	m->id = XXH3_64bits(buf, len);
	m->id += m->id == 0;
	for (uint32_t i = 0; i < m->n_servers; i++)
		m->server[i].partitions = 0;
	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++)
		m->server[m->owner[i]].partitions++;
	return NULL;
}

/* ---- parsing --------------------------------------------------------------------------- */

/* Lines come in this order. */
enum part { PART_FORMAT, PART_EPOCH, PART_SEED, PART_SERVERS, PART_PARTITIONS };

struct parser {
	struct clustermap *m;
	enum part part; /* what the next line may be, or the part that it may go on */
	uint32_t next;  /* the first partition without an owner */
	struct word word[5];
	unsigned n; /* words of the line; 5: more than 4 */
};

static void split(struct parser *p, const char *at, const char *end)
{
	p->n = 0;
	while (p->n < ARRAY_SIZE(p->word)) {
		struct word *w = &p->word[p->n];

		while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
			at++;
		if (at == end || *at == '#')
			return;
		w->p = at;
		while (at < end && *at != ' ' && *at != '\t' && *at != '\r')
			at++;
		w->len = (size_t)(at - w->p);
		p->n++;
	}
}

static bool is(struct word w, const char *text)
{
	return w.len == strlen(text) && memcmp(w.p, text, w.len) == 0;
}

/* Digits of `base` alone, as few as 1 and as many as `most`, which cannot overflow. */
static bool number(struct word w, unsigned base, size_t most, uint64_t *out)
{
	uint64_t v = 0;

	if (w.len == 0 || w.len > most)
		return false;
	for (size_t i = 0; i < w.len; i++) {
		const char *digits = "0123456789abcdef", *d = memchr(digits, w.p[i], base);

		if (!d)
			return false;
		v = v * base + (uint64_t)(d - digits);
	}
	*out = v;
	return true;
}

static const char *epoch_line(struct parser *p)
{
	if (p->n != 2 || !is(p->word[0], "epoch") ||
	    !number(p->word[1], 10, 18, &p->m->epoch) || p->m->epoch == 0)
		return "the second line is: epoch NUMBER, from 1 on";
	return NULL;
}

static const char *seed_line(struct parser *p)
{
	if (p->n != 2 || !is(p->word[0], "seed") || p->word[1].len != 16 ||
	    !number(p->word[1], 16, 16, &p->m->seed))
		return "the third line is: seed and 16 hexadecimal digits, a to f in small letters";
	return NULL;
}

static const char *lease_line(struct parser *p)
{
	uint64_t ms;

	if (p->n != 2 || p->m->lease_ms || p->m->n_servers || !number(p->word[1], 10, 9, &ms) ||
	    ms < CLUSTERMAP_LEASE_MIN || ms > CLUSTERMAP_LEASE_MAX)
		return "after the seed there may be: lease MS, of 100 to 60000 ms";
	p->m->lease_ms = (uint32_t)ms;
	return NULL;
}

static const char *server_line(struct parser *p)
{
	uint64_t lost = 0;
	const char *wrong;

	if (p->n != 3 && (p->n != 4 || !number(p->word[3], 10, 18, &lost)))
		return "a server's line is: server NAME ADDRESS [EPOCH]";
	wrong = add_server(p->m, p->word[1], p->word[2]);
	if (!wrong)
		p->m->server[p->m->n_servers - 1].lost = lost;
	return wrong;
}

static const char *partitions_line(struct parser *p)
{
	struct word range = p->n == 3 ? p->word[1] : (struct word){"", 0};
	const char *dash = memchr(range.p, '-', range.len);
	struct word from = {range.p, dash ? (size_t)(dash - range.p) : 0};
	struct word to = {dash ? dash + 1 : range.p, dash ? range.len - from.len - 1 : 0};
	char name[CLUSTERMAP_NAME_MAX + 1] = "";
	uint64_t first, last;
	uint32_t owner;

	if (!number(from, 10, 4, &first) || !number(to, 10, 4, &last) || !name_ok(p->word[2]))
		return "a line of partitions is: partitions FIRST-LAST NAME";
	if (first != p->next || last < first || last >= CLUSTERMAP_PARTITIONS)
		return "the partitions are 0 to 4095, each once and in ascending order";
	memcpy(name, p->word[2].p, p->word[2].len);
	owner = clustermap_find(p->m, name);
	if (owner == p->m->n_servers)
		return "no server of this map has that name";
	memset(p->m->owner + first, (int)owner, last - first + 1);
	p->next = (uint32_t)last + 1;
	return NULL;
}

static const char *list_line(struct parser *p)
{
	if (p->part == PART_SERVERS && is(p->word[0], "lease"))
		return lease_line(p);
	if (p->part == PART_SERVERS && is(p->word[0], "server"))
		return server_line(p);
	if (is(p->word[0], "partitions") && p->m->n_servers > 0) {
		p->part = PART_PARTITIONS;
		return partitions_line(p);
	}
	return p->part == PART_SERVERS ? "after the seed come lines: server NAME ADDRESS" :
					 "after the servers come lines: partitions FIRST-LAST NAME";
}

/* NULL, or what is wrong with a line that has words. */
static const char *line_wrong(struct parser *p)
{
	const char *wrong;

	switch (p->part) {
	case PART_FORMAT:
		wrong = p->n == 3 && is(p->word[0], "farkv") && is(p->word[1], "cluster") &&
					is(p->word[2], "1") ?
				NULL :
				"the first line is: " FORMAT;
		break;
	case PART_EPOCH:
		wrong = epoch_line(p);
		break;
	case PART_SEED:
		wrong = seed_line(p);
		break;
	default:
		return list_line(p);
	}
	p->part++;
	return wrong;
}

static int lines_parse(struct parser *p, const char *where, const char *at, const char *end)
{
	unsigned line = 0;
	const char *wrong = NULL;

	while (at < end && !wrong) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));

		stop = stop ? stop : end;
		line++;
		split(p, at, stop);
		if (p->n)
			wrong = line_wrong(p);
		at = stop + (stop < end);
	}
	if (!wrong && p->next < CLUSTERMAP_PARTITIONS)
		wrong = "the map ends before partition 4095 has a server";
	if (!wrong)
		wrong = complete(p->m);
	return wrong ? err_set(FARKV_EINVAL, "%s:%u: %s", where, line, wrong) : 0;
}

static struct clustermap *new_map(void)
{
	struct clustermap *m = calloc(1, sizeof(*m));

	if (!m)
		(void)err_set(FARKV_ENOMEM, "no memory for a cluster's map");
	return m;
}

int clustermap_parse(const char *where, const char *text, size_t len, struct clustermap **out)
{
	struct parser p = {.m = new_map()};
	int err;

	if (!p.m)
		return FARKV_ENOMEM;
	err = lines_parse(&p, where, text, text + len);
	if (err) {
		free(p.m);
		return err;
	}
	*out = p.m;
	return 0;
}

/* ---- files ----------------------------------------------------------------------------- */

/* Read all of it; a map is never longer than the buffer. */
static int read_all(const char *path, int fd, char *buf, size_t *len_out)
{
	struct stat st;
	size_t len = 0;
	ssize_t n;

	if (fstat(fd, &st))
		return err_set_errno(FARKV_ESYS, errno, "cannot read the map %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(FARKV_EINVAL, "the map %s is not a regular file", path);
	while (len <= CLUSTERMAP_TEXT_MAX) {
		n = read(fd, buf + len, CLUSTERMAP_TEXT_MAX + 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set_errno(FARKV_ESYS, errno, "cannot read the map %s", path);
		if (n == 0) {
			*len_out = len;
			return textfile_check(path, buf, UTIL_MIN(len, (size_t)TEXTFILE_HEAD), NULL);
		}
		len += (size_t)n;
	}
	return err_set(FARKV_EINVAL, "the map %s is longer than %u bytes", path,
		       CLUSTERMAP_TEXT_MAX);
}

int clustermap_load(const char *path, struct clustermap **out)
{
	char buf[CLUSTERMAP_TEXT_MAX + 1];
	/* O_NONBLOCK: do not wait for the other end of a pipe. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	size_t len = 0, mark;
	int err;

	if (fd < 0)
		return err_set_errno(errno == EACCES || errno == EPERM ? FARKV_EPERM : FARKV_EINVAL,
				     errno, "cannot open the map %s", path);
	err = read_all(path, fd, buf, &len);
	close(fd);
	if (err)
		return err;
	mark = textfile_mark(buf, len);
	return clustermap_parse(path, buf + mark, len - mark, out);
}

/* ---- a new map ------------------------------------------------------------------------- */

static int random_seed(uint64_t *seed_out)
{
	ssize_t n;

	do
		n = getrandom(seed_out, sizeof(*seed_out), 0);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*seed_out) ?
		       0 :
		       err_set_errno(FARKV_ESYS, errno, "the system gives no random numbers");
}

/* Add the servers, and divide the partitions among them. NULL, or what is wrong with the next one. */
static const char *fill(struct clustermap *m, const char *servers)
{
	for (const char *at = servers; *at;) {
		size_t len = strcspn(at, ",");
		const char *eq = memchr(at, '=', len), *wrong;

		if (!eq)
			return "write NAME=ADDRESS,NAME=ADDRESS,...";
		wrong = add_server(m, (struct word){at, (size_t)(eq - at)},
				   (struct word){eq + 1, len - (size_t)(eq + 1 - at)});
		if (wrong)
			return wrong;
		at += len + (at[len] == ',');
	}
	if (m->n_servers == 0)
		return "write NAME=ADDRESS,NAME=ADDRESS,...";
	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++)
		m->owner[i] = (uint8_t)(i * m->n_servers / CLUSTERMAP_PARTITIONS);
	return NULL;
}

int clustermap_make(const char *servers, struct clustermap **out)
{
	struct clustermap *m = new_map();
	const char *wrong;
	int err;

	if (!m)
		return FARKV_ENOMEM;
	m->epoch = 1;
	err = random_seed(&m->seed);
	wrong = err ? NULL : fill(m, servers);
	if (wrong)
		err = err_set(FARKV_EINVAL, "server %u: %s", m->n_servers + 1, wrong);
	else if (!err && (wrong = complete(m)))
		err = err_set(FARKV_EINVAL, "%s: shorten names or addresses", wrong);
	if (err) {
		free(m);
		return err;
	}
	*out = m;
	return 0;
}

void clustermap_set_lease(struct clustermap *m, uint32_t lease_ms)
{
	m->lease_ms = lease_ms;
	(void)complete(m); /* a map of clustermap_make() has room for the line, or is refused when parsed */
}

/* ---- the next map ---------------------------------------------------------------------- */

static bool has(uint64_t set, uint32_t server)
{
	return set >> server & 1;
}

/* Divide the partitions of `gone` into runs, one for each of `living`. */
static void divide(struct clustermap *m, uint64_t gone, uint64_t living)
{
	uint32_t n = (uint32_t)__builtin_popcountll(living), all = 0, at = 0, to = 0;

	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++)
		all += has(gone, m->owner[i]);
	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++) {
		uint32_t run;

		if (!has(gone, m->owner[i]))
			continue;
		run = at++ * n / all;
		for (to = 0; run || !has(living, to); to++)
			run -= has(living, to);
		m->owner[i] = (uint8_t)to;
	}
}

int clustermap_take_over(const struct clustermap *m, uint64_t gone, uint64_t living,
			 struct clustermap **out)
{
	struct clustermap *next;
	const char *wrong;

	if (!living)
		return err_set(FARKV_EINVAL, "no server of the cluster lives");
	next = new_map();
	if (!next)
		return FARKV_ENOMEM;
	*next = *m;
	next->epoch++;
	for (uint32_t i = 0; i < m->n_servers; i++)
		if (has(gone, i))
			next->server[i].lost = next->epoch;
	divide(next, gone, living);
	wrong = complete(next);
	if (wrong) {
		free(next);
		return err_set(FARKV_EINVAL, "%s", wrong);
	}
	*out = next;
	return 0;
}
