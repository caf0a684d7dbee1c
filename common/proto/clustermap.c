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

#include "clustermap_priv.h"

#define FORMAT "farkv cluster 1"
static_assert(CLUSTERMAP_SERVERS_MAX <= CLUSTERMAP_NONE, "an index fits a byte");

/* ---- servers --------------------------------------------------------------------------- */

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

/*
 * NULL, or what is wrong with an address. The client resolves it; here it must have the form of
 * one.
 */
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

const char *clustermap_add_server(struct clustermap *m, struct word name, struct word address)
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
	*s = (struct clustermap_server){.follower = CLUSTERMAP_NONE};
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

uint64_t clustermap_set_of(const struct clustermap *m, const char *const *names, size_t n)
{
	uint64_t set = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t at = clustermap_find(m, names[i]);

		if (at < m->n_servers)
			set |= UINT64_C(1) << at;
	}
	return set;
}

/* ---- the text -------------------------------------------------------------------------- */

struct text {
	char *buf;
	size_t len;
};

/* Add to the text, cut at CLUSTERMAP_TEXT_MAX; `len` grows by the uncut length. */
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

static void add_servers(struct text *t, const struct clustermap *m)
{
	for (uint32_t i = 0; i < m->n_servers; i++) {
		const struct clustermap_server *s = &m->server[i];

		add(t, "server %s %s", s->name, s->address);
		if (s->emptied || s->drained)
			add(t, " %" PRIu64, s->emptied);
		add(t, "%s\n", s->drained ? " drained" : "");
	}
	for (uint32_t i = 0; i < m->n_servers; i++)
		if (m->server[i].follower != CLUSTERMAP_NONE)
			add(t, "follower %s %s\n", m->server[i].name,
			    m->server[m->server[i].follower].name);
}

static void add_partitions(struct text *t, const struct clustermap *m)
{
	for (uint32_t first = 0, next; first < CLUSTERMAP_PARTITIONS; first = next) {
		for (next = first + 1; next < CLUSTERMAP_PARTITIONS; next++)
			if (m->owner[next] != m->owner[first])
				break;
		add(t, "partitions %" PRIu32 "-%" PRIu32 " %s\n", first, next - 1,
		    m->server[m->owner[first]].name);
	}
}

static void add_moves(struct text *t, const struct clustermap *m)
{
	for (uint32_t first = 0, next; first < CLUSTERMAP_PARTITIONS; first = next) {
		for (next = first + 1; next < CLUSTERMAP_PARTITIONS; next++)
			if (m->to[next] != m->to[first] || m->fenced[next] != m->fenced[first])
				break;
		if (m->to[first] != CLUSTERMAP_NONE)
			add(t, "move %" PRIu32 "-%" PRIu32 " %s%s\n", first, next - 1,
			    m->server[m->to[first]].name, m->fenced[first] ? " fenced" : "");
	}
}

static size_t print(const struct clustermap *m, char *buf)
{
	struct text t = {.buf = buf};

	add(&t, FORMAT "\nepoch %" PRIu64 "\nseed %016" PRIx64 "\n", m->epoch, m->seed);
	if (m->lease_ms)
		add(&t, "lease %" PRIu32 "\n", m->lease_ms);
	if (m->replicas)
		add(&t, "replicas %" PRIu32 "\n", m->replicas);
	add_servers(&t, m);
	add_partitions(&t, m);
	add_moves(&t, m);
	return t.len;
}

size_t clustermap_print(const struct clustermap *m, char *buf)
{
	return print(m, buf); /* clustermap_complete() has checked that it fits */
}

const char *clustermap_complete(struct clustermap *m)
{
	char buf[CLUSTERMAP_TEXT_MAX + 1];
	size_t len = print(m, buf);

	if (len > CLUSTERMAP_TEXT_MAX)
		return "the map is too long: more than 16000 bytes of text";
	m->id = XXH3_64bits(buf, len);
	m->id += m->id == 0;
	m->n_moves = m->n_fenced = 0;
	for (uint32_t i = 0; i < m->n_servers; i++)
		m->server[i].partitions = 0;
	for (uint32_t i = 0; i < CLUSTERMAP_PARTITIONS; i++) {
		m->server[m->owner[i]].partitions++;
		m->n_moves += m->to[i] != CLUSTERMAP_NONE;
		m->n_fenced += m->fenced[i];
	}
	return NULL;
}

/* ---- parsing --------------------------------------------------------------------------- */

/* The parts of the text, in their order. */
enum part {
	PART_FORMAT,
	PART_EPOCH,
	PART_SEED,
	PART_SERVERS,
	PART_FOLLOWERS,
	PART_PARTITIONS,
	PART_MOVES,
};

struct parser {
	struct clustermap *m;
	enum part part; /* the next line begins or continues this part */
	uint32_t next;  /* the first partition without an owner */
	uint32_t moved; /* the first partition that a move may name */
	struct word word[6];
	unsigned n; /* words of the line; 6: more than 5 */
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

/* Parse 1 to `most` digits of `base`; `most` is small enough that the value cannot overflow. */
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

	if (p->n != 2 || p->m->lease_ms || p->m->replicas || p->m->n_servers || !number(p->word[1], 10, 9, &ms) ||
	    ms < CLUSTERMAP_LEASE_MIN || ms > CLUSTERMAP_LEASE_MAX)
		return "after the seed there may be: lease MS, of 100 to 60000 ms";
	p->m->lease_ms = (uint32_t)ms;
	return NULL;
}

static const char *replicas_line(struct parser *p)
{
	uint64_t n;

	if (p->n != 2 || !p->m->lease_ms || p->m->replicas || p->m->n_servers ||
	    !number(p->word[1], 10, 1, &n) || n != 1)
		return "after the lease there may be: replicas 1";
	p->m->replicas = 1;
	return NULL;
}

static const char *server_line(struct parser *p)
{
	bool drained = p->n == 5 && is(p->word[4], "drained");
	struct clustermap_server *s;
	uint64_t emptied = 0;
	const char *wrong;

	if ((p->n != 3 && p->n != 4 && !drained) ||
	    (p->n > 3 && !number(p->word[3], 10, 18, &emptied)))
		return "a server's line is: server NAME ADDRESS [EPOCH [drained]]";
	wrong = clustermap_add_server(p->m, p->word[1], p->word[2]);
	if (wrong)
		return wrong;
	s = &p->m->server[p->m->n_servers - 1];
	s->emptied = emptied;
	s->drained = drained;
	return NULL;
}

/* The index of the server of that name, or n_servers. */
static uint32_t find(const struct clustermap *m, struct word w)
{
	char name[CLUSTERMAP_NAME_MAX + 1] = "";

	if (!name_ok(w))
		return m->n_servers;
	memcpy(name, w.p, w.len);
	return clustermap_find(m, name);
}

static const char *follower_line(struct parser *p)
{
	struct clustermap *m = p->m;
	uint32_t server = p->n == 3 ? find(m, p->word[1]) : m->n_servers;
	uint32_t follower = p->n == 3 ? find(m, p->word[2]) : m->n_servers;

	if (p->n != 3 || !m->lease_ms)
		return "with a lease there may be lines: follower NAME NAME";
	if (server == m->n_servers || follower == m->n_servers)
		return "no server of this map has that name";
	if (server == follower)
		return "a server cannot follow itself";
	if (m->server[server].follower != CLUSTERMAP_NONE)
		return "a server has one follower at most";
	m->server[server].follower = (uint8_t)follower;
	return NULL;
}

struct range {
	uint32_t first, last;
};

/* Parse FIRST-LAST, each below 10000; the caller checks that they are partitions. */
static bool range_of(struct word w, struct range *out)
{
	const char *dash = memchr(w.p, '-', w.len);
	struct word from = {w.p, dash ? (size_t)(dash - w.p) : 0};
	struct word to = {dash ? dash + 1 : w.p, dash ? w.len - from.len - 1 : 0};
	uint64_t first, last;

	if (!number(from, 10, 4, &first) || !number(to, 10, 4, &last))
		return false;
	*out = (struct range){(uint32_t)first, (uint32_t)last};
	return true;
}

static const char *partitions_line(struct parser *p)
{
	struct range r;
	uint32_t owner;

	if (p->n != 3 || !range_of(p->word[1], &r) || !name_ok(p->word[2]))
		return "a line of partitions is: partitions FIRST-LAST NAME";
	if (r.first != p->next || r.last < r.first || r.last >= CLUSTERMAP_PARTITIONS)
		return "the partitions are 0 to 4095, each once and in ascending order";
	owner = find(p->m, p->word[2]);
	if (owner == p->m->n_servers)
		return "no server of this map has that name";
	memset(p->m->owner + r.first, (int)owner, r.last - r.first + 1);
	p->next = r.last + 1;
	return NULL;
}

static const char *move_line(struct parser *p)
{
	bool fenced = p->n == 4 && is(p->word[3], "fenced");
	struct range r;
	uint32_t to;

	if (!p->m->lease_ms)
		return "only a map with a lease has moves";
	if ((p->n != 3 && !fenced) || !range_of(p->word[1], &r) || !name_ok(p->word[2]))
		return "a move is: move FIRST-LAST NAME [fenced]";
	if (r.first < p->moved || r.last < r.first || r.last >= CLUSTERMAP_PARTITIONS)
		return "the partitions of moves are of 0 to 4095, in ascending order";
	to = find(p->m, p->word[2]);
	if (to == p->m->n_servers)
		return "no server of this map has that name";
	for (uint32_t i = r.first; i <= r.last; i++) {
		if (p->m->owner[i] == to)
			return "that server has one of these partitions already";
		p->m->to[i] = (uint8_t)to;
		p->m->fenced[i] = fenced;
	}
	p->moved = r.last + 1;
	return NULL;
}

/* The lines after the seed, and the parts that each may belong to or follow. */
static const struct list_line {
	const char *word;
	enum part first, part; /* allowed from `first` to `part`, which then is the parser's */
	const char *(*parse)(struct parser *p);
} list_lines[] = {
	{"lease", PART_SERVERS, PART_SERVERS, lease_line},
	{"replicas", PART_SERVERS, PART_SERVERS, replicas_line},
	{"server", PART_SERVERS, PART_SERVERS, server_line},
	{"follower", PART_SERVERS, PART_FOLLOWERS, follower_line},
	{"partitions", PART_SERVERS, PART_PARTITIONS, partitions_line},
	{"move", PART_PARTITIONS, PART_MOVES, move_line},
};

static const char *list_line(struct parser *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(list_lines); i++) {
		const struct list_line *l = &list_lines[i];

		if (!is(p->word[0], l->word) || p->part < l->first || p->part > l->part)
			continue;
		if ((l->part > PART_SERVERS && p->m->n_servers == 0) ||
		    (l->part == PART_MOVES && p->next < CLUSTERMAP_PARTITIONS))
			break;
		p->part = l->part;
		return l->parse(p);
	}
	if (p->m->n_servers == 0)
		return "after the seed come lines: server NAME ADDRESS";
	return p->next < CLUSTERMAP_PARTITIONS ?
		       "after the servers come lines: partitions FIRST-LAST NAME" :
		       "after the partitions come lines: move FIRST-LAST NAME [fenced]";
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
		wrong = clustermap_complete(p->m);
	return wrong ? err_set(FARKV_EINVAL, "%s:%u: %s", where, line, wrong) : 0;
}

struct clustermap *clustermap_new(void)
{
	struct clustermap *m = calloc(1, sizeof(*m));

	if (m)
		memset(m->to, CLUSTERMAP_NONE, sizeof(m->to));
	else
		(void)err_set(FARKV_ENOMEM, "no memory for a cluster's map");
	return m;
}

int clustermap_parse(const char *where, const char *text, size_t len, struct clustermap **out)
{
	struct parser p = {.m = clustermap_new()};
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

/* Read the whole file, which fits the buffer unless it is no map. */
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

/*
 * Add the servers, and divide the partitions among them. NULL, or what is wrong with the next
 * server.
 */
static const char *fill(struct clustermap *m, const char *servers)
{
	for (const char *at = servers; *at;) {
		size_t len = strcspn(at, ",");
		const char *eq = memchr(at, '=', len), *wrong;

		if (!eq)
			return "write NAME=ADDRESS,NAME=ADDRESS,...";
		wrong = clustermap_add_server(m, (struct word){at, (size_t)(eq - at)},
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
	struct clustermap *m = clustermap_new();
	const char *wrong;
	int err;

	if (!m)
		return FARKV_ENOMEM;
	m->epoch = 1;
	err = random_seed(&m->seed);
	wrong = err ? NULL : fill(m, servers);
	if (wrong)
		err = err_set(FARKV_EINVAL, "server %u: %s", m->n_servers + 1, wrong);
	else if (!err && (wrong = clustermap_complete(m)))
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
	(void)clustermap_complete(m); /* a map of clustermap_make() has room for the line, or is refused when parsed */
}

void clustermap_set_replicas(struct clustermap *m, uint32_t replicas)
{
	m->replicas = replicas;
	(void)clustermap_complete(m); /* as there */
}
