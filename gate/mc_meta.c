/* SPDX-License-Identifier: BSD-3-Clause */
/* memcached's meta commands. The flags of the answer stand in the order of the request's. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <sodium.h>

#include "mc_cmds.h"

#define OPAQUE_MAX 32
/* The flags that there are. memcached takes all of them and ignores those that a command has no
 * use for. */
#define FLAGS "bcfhklqstuvxCDEFIJMNORT"

/* A request's flags. */
struct meta {
	struct slice key;
	char key_bytes[MC_KEY_MAX];
	uint32_t lower, upper; /* which letters are there */
	struct slice token[26]; /* of the capital ones */
	size_t first;           /* word of the first flag */
	/* what the capital ones say, if they are there */
	struct mc_time ttl, create_ttl;
	uint64_t cas, user, initial, delta;
};

static bool has(const struct meta *m, char flag)
{
	if (flag >= 'a' && flag <= 'z')
		return m->lower >> (flag - 'a') & 1;
	return m->upper >> (flag - 'A') & 1;
}

static struct slice token(const struct meta *m, char flag)
{
	return m->token[flag - 'A'];
}

/* Note one flag. `refused` are those that the command would need what the store does not have for.
 * NULL, or what is wrong. */
static const char *take(struct meta *m, struct slice word, const char *refused)
{
	char flag = word.p[0];
	bool lower = flag >= 'a' && flag <= 'z';

	if (flag == 'P' || flag == 'L') /* for proxies */
		return NULL;
	if (flag && strchr(refused, flag))
		return "CLIENT_ERROR kvgate keeps no access times, stale marks or win tokens, and "
		       "chooses versions itself: flag refused";
	if (!flag || !strchr(FLAGS, flag) || has(m, flag))
		return "CLIENT_ERROR invalid or duplicate flag";
	if (lower) {
		m->lower |= 1u << (flag - 'a');
		return NULL;
	}
	m->upper |= 1u << (flag - 'A');
	m->token[flag - 'A'] = (struct slice){word.p + 1, word.len - 1};
	return NULL;
}

static bool number(const struct meta *m, char flag, uint64_t *out)
{
	return !has(m, flag) || slice_u64(token(m, flag), out);
}

/* What the flags with numbers say. */
static const char *read_tokens(struct meta *m)
{
	m->delta = 1;
	if (!number(m, 'C', &m->cas) || !number(m, 'F', &m->user) || !number(m, 'J', &m->initial) ||
	    !number(m, 'D', &m->delta) || m->user > UINT32_MAX ||
	    (has(m, 'T') && !mc_time_read(token(m, 'T'), &m->ttl)) ||
	    (has(m, 'N') && !mc_time_read(token(m, 'N'), &m->create_ttl)))
		return "CLIENT_ERROR bad token in command line format";
	/* Version 0 is no value's, but means "any" in store_item. */
	if (has(m, 'C') && !m->cas)
		m->cas = UINT64_MAX;
	if (has(m, 'O') && token(m, 'O').len > OPAQUE_MAX)
		return "CLIENT_ERROR opaque token too long";
	return NULL;
}

static const char *decode_key(struct meta *m)
{
	size_t len;

	if (sodium_base642bin((unsigned char *)m->key_bytes, sizeof(m->key_bytes), m->key.p,
			      m->key.len, NULL, &len, NULL, sodium_base64_VARIANT_ORIGINAL))
		return "CLIENT_ERROR error decoding key";
	m->key = (struct slice){m->key_bytes, len};
	return NULL;
}

/* Read a request whose flags begin at word `first`. False: an error was answered. */
static bool parse(struct client *c, const struct args *a, size_t first, const char *refused,
		  struct meta *m)
{
	const char *wrong = NULL;

	memset(m, 0, offsetof(struct meta, ttl));
	m->ttl = m->create_ttl = (struct mc_time){0};
	m->cas = m->user = m->initial = 0;
	m->first = first;
	m->key = a->v[1];
	for (size_t i = first; i < a->n && !wrong; i++)
		wrong = take(m, a->v[i], refused);
	if (!wrong)
		wrong = read_tokens(m);
	if (!wrong && has(m, 'b'))
		wrong = decode_key(m);
	if (!wrong && !mc_key_fits(c, m->key))
		wrong = "CLIENT_ERROR bad command line format";
	if (wrong)
		mc_error(c, wrong);
	return !wrong;
}

/* ---- answers ------------------------------------------------------------------------- */

/* What an answer can tell of a value. */
struct told {
	const char *flags; /* these alone */
	uint64_t version, ttl_ms;
	uint32_t user;
	size_t len;
};

static void ttl_flag(struct buf *out, uint64_t ttl_ms)
{
	buf_add(out, " t", 2);
	if (ttl_ms)
		buf_u64(out, (ttl_ms + 999) / 1000);
	else
		buf_add(out, "-1", 2);
}

/* `t` is NULL if there is nothing to tell. */
static void flag(struct client *c, const struct args *a, size_t i, const struct told *t)
{
	struct buf *out = c->out;

	switch (a->v[i].p[0]) {
	case 'O':
		buf_add(out, " ", 1);
		buf_add(out, a->v[i].p, a->v[i].len);
		return;
	case 'k':
		buf_add(out, " k", 2);
		buf_add(out, a->v[1].p, a->v[1].len);
		return;
	case 'b':
		buf_add(out, " b", 2);
		return;
	default:
		break;
	}
	if (!t || !strchr(t->flags, a->v[i].p[0]))
		return;
	switch (a->v[i].p[0]) {
	case 'c':
		buf_add(out, " c", 2);
		buf_u64(out, t->version);
		break;
	case 'f':
		buf_add(out, " f", 2);
		buf_u64(out, t->user);
		break;
	case 's':
		buf_add(out, " s", 2);
		buf_u64(out, t->len);
		break;
	case 't':
		ttl_flag(out, t->ttl_ms);
		break;
	default:
		break;
	}
}

/* The first line of an answer. */
static void answer(struct client *c, const struct args *a, const struct meta *m, const char *code,
		   const struct told *t)
{
	buf_text(c->out, code);
	for (size_t i = m->first; i < a->n; i++)
		flag(c, a, i, t);
	buf_add(c->out, "\r\n", 2);
}

/* An answer with a value, if the request asks for it. */
static void answer_value(struct client *c, const struct args *a, const struct meta *m,
			 const void *data, const struct told *t)
{
	char code[32] = "HD";

	if (has(m, 'v'))
		snprintf(code, sizeof(code), "VA %zu", t->len);
	answer(c, a, m, code, t);
	if (has(m, 'v')) {
		buf_add(c->out, data, t->len);
		buf_add(c->out, "\r\n", 2);
	}
}

/* The answer to an error; `miss` is the code where nothing was found. */
static void answer_error(struct client *c, const struct args *a, const struct meta *m, int err,
			 const char *miss)
{
	struct told none = {.flags = "c"};

	if (err == FARKV_ENOTFOUND)
		answer(c, a, m, miss, NULL);
	else if (err == FARKV_EVERSION)
		answer(c, a, m, "EX", &none);
	else if (err == FARKV_EEXISTS)
		answer(c, a, m, "NS", &none);
	else if (err == FARKV_EINVAL)
		mc_error(c, "CLIENT_ERROR cannot increment or decrement non-numeric value");
	else
		mc_store_error(c, err);
}

/* ---- commands ------------------------------------------------------------------------ */

void mc_mg(struct client *c, const struct args *a)
{
	struct farkv_value v;
	struct told t;
	struct meta m;
	int err;

	if (!parse(c, a, 2, "hlENR", &m))
		return;
	if (has(&m, 'T') && c->read_only) {
		mc_error(c, "CLIENT_ERROR a key of the role ro may not write");
		return;
	}
	err = mc_fetch(c, m.key, has(&m, 'T') ? &m.ttl : NULL, &v);
	if (err == FARKV_ENOTFOUND && has(&m, 'q'))
		return;
	if (err) {
		answer_error(c, a, &m, err, "EN");
		return;
	}
	t = (struct told){"cfst", v.version, v.ttl_ms, v.user, v.len};
	answer_value(c, a, &m, v.data, &t);
}

static bool store_mode(const struct meta *m, enum mc_mode *mode)
{
	static const char letters[] = "SERAP";
	char letter = has(m, 'M') && token(m, 'M').len ? token(m, 'M').p[0] : 'S';
	const char *at = strchr(letters, letter & ~0x20);

	if (!at || !(letter & ~0x20))
		return false;
	*mode = (enum mc_mode)(at - letters);
	if (has(m, 'C') && (*mode == MC_SET || *mode == MC_REPLACE))
		*mode = MC_CAS;
	return true;
}

void mc_ms(struct client *c, const struct args *a)
{
	struct store_item item;
	struct told t = {.flags = "cs"};
	enum mc_mode mode;
	struct meta m;
	int err;

	if (!c->mc.body_due) {
		mc_bad_format(c);
		return;
	}
	if (!parse(c, a, 3, "EIN", &m))
		return;
	if (!store_mode(&m, &mode)) {
		mc_error(c, "CLIENT_ERROR invalid mode for ms M token");
		return;
	}
	if (!mc_body_ok(c, m.key, mode))
		return;
	item = (struct store_item){m.key,	   c->mc.data.p,
				   c->mc.data.len, m.ttl.over ? 1 : m.ttl.ttl_ms,
				   (uint32_t)m.user, m.cas};
	err = mc_write(c, mode, &item, m.ttl.over, &t.version);
	if (err) {
		answer_error(c, a, &m, err, mode == MC_CAS ? "NF" : "NS");
	} else if (!has(&m, 'q')) {
		t.len = item.len;
		answer(c, a, &m, "HD", &t);
	}
}

struct emptying {
	uint64_t expected; /* or 0 */
	int err;
};

static bool empty_decide(struct edit *e, void *arg)
{
	struct emptying *x = arg;

	x->err = !e->found ? FARKV_ENOTFOUND :
		 x->expected && x->expected != e->old.version ? FARKV_EVERSION : 0;
	e->data = "";
	e->user = 0;
	return !x->err;
}

/* Leave an empty value without flags in the place of the value, which keeps its time. */
static int empty(struct client *c, const struct meta *m)
{
	struct emptying x = {.expected = m->cas};
	struct edit e;
	int err = store_edit(c, m->key, empty_decide, &x, &e);

	return err ? err : x.err;
}

void mc_md(struct client *c, const struct args *a)
{
	struct meta m;
	int err;

	if (!parse(c, a, 2, "EI", &m))
		return;
	if (has(&m, 'x'))
		err = empty(c, &m);
	else if (has(&m, 'C'))
		err = farkv_delete_cas(c->kv, m.key.p, m.key.len, m.cas);
	else
		err = farkv_delete(c->kv, m.key.p, m.key.len);
	GATE_COUNT(c->counts, deletes, 1);
	if (has(&m, 'q') && (!err || err == FARKV_ENOTFOUND))
		return;
	if (err)
		answer_error(c, a, &m, err, "NF");
	else
		answer(c, a, &m, "HD", NULL);
}

static bool count_mode(const struct meta *m, bool *down)
{
	char letter = has(m, 'M') && token(m, 'M').len ? token(m, 'M').p[0] : '+';

	*down = letter == 'D' || letter == 'd' || letter == '-';
	return *down || letter == 'I' || letter == 'i' || letter == '+';
}

void mc_ma(struct client *c, const struct args *a)
{
	struct mc_count n = {0};
	struct told t = {.flags = "ct"};
	struct meta m;
	char text[24];
	int err;

	if (!parse(c, a, 2, "E", &m))
		return;
	if (!count_mode(&m, &n.down)) {
		mc_error(c, "CLIENT_ERROR invalid mode for ma M token");
		return;
	}
	n.delta = m.delta;
	n.create = has(&m, 'N');
	n.initial = m.initial;
	n.retime = has(&m, 'T');
	n.ttl_ms = m.ttl.over ? 1 : m.ttl.ttl_ms;
	/* T is for each success, N for a new number alone. */
	n.create_ttl_ms = n.retime	    ? n.ttl_ms :
			  m.create_ttl.over ? 1 :
					      m.create_ttl.ttl_ms;
	n.expected = m.cas;
	err = mc_count(c, m.key, &n);
	if (err) {
		answer_error(c, a, &m, err, "NF");
		return;
	}
	if (has(&m, 'q'))
		return;
	t.len = (size_t)snprintf(text, sizeof(text), "%" PRIu64, n.value);
	t.version = n.version;
	t.ttl_ms = n.ttl_now_ms;
	answer_value(c, a, &m, text, &t);
}

void mc_mn(struct client *c, const struct args *a)
{
	(void)a;
	buf_text(c->out, "MN\r\n");
}

void mc_me(struct client *c, const struct args *a)
{
	struct farkv_value v;
	struct meta m;
	int err;

	if (!parse(c, a, 2, "", &m))
		return;
	err = farkv_get(c->kv, m.key.p, m.key.len, &v);
	if (err == FARKV_ENOTFOUND) {
		buf_text(c->out, "EN\r\n");
		return;
	}
	if (err) {
		mc_store_error(c, err);
		return;
	}
	buf_text(c->out, "ME ");
	buf_add(c->out, a->v[1].p, a->v[1].len);
	buf_printf(c->out, " exp=%" PRId64 " cas=%" PRIu64 " size=%zu\r\n",
		   v.ttl_ms ? (int64_t)((v.ttl_ms + 999) / 1000) : -1, v.version, v.len);
}
