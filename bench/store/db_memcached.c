/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcached's text protocol (doc/protocol.txt of its sources) over a Unix socket or TCP. A
 * batch of reads is one "get" of many keys, a batch of writes is many "set" in one send.
 * Spoken directly, because the client library cannot send sets together and still tell
 * which of them failed.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"

#include "address.h"
#include "db.h"

/* Least bytes of one read(2). */
#define READ_BYTES 65536u
/* The longest answer line: VALUE, a key, numbers. */
#define LINE_MAX_BYTES 512u

struct memcached_params {
	const char *uri;
	uint64_t timeout_ms;
};

struct memcached_store {
	struct db_store base;
	struct memcached_params params;
	struct address address;
};

struct buffer {
	char *at;
	size_t len, cap;
};

struct memcached_db {
	struct db base;
	int fd;
	bool broken; /* the connection is out of step with the protocol */
	struct buffer out, in;
	size_t next; /* position in `in` of the first byte not consumed */
	char error[LINE_MAX_BYTES + 64];
};

#define FIELD(f) offsetof(struct memcached_params, f)

static const struct prop_spec memcached_props[] = {
	{"memcached.uri", PROP_STR, FIELD(uri), "127.0.0.1", 0, 0, NULL},
	{"memcached.timeout_ms", PROP_U64, FIELD(timeout_ms), "5000", 1,
	 3600000, NULL},
};

/* A blank or newline in a key would end it, and the rest would be taken as a command. */
static int check_keys(const struct db_setup *setup)
{
	for (const char *at = setup->key_prefix; *at; at++)
		if ((unsigned char)*at <= ' ' || *at == 0x7f)
			return err_set(FARKV_EINVAL,
				       "keyprefix: memcached's keys have no "
				       "blanks and no control characters");
	return 0;
}

static int mc_init(const struct db_setup *setup, struct db_store **store_out)
{
	struct memcached_store *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return err_set(FARKV_ENOMEM,
			       "no memory for the memcached binding");
	err = props_read(setup->props, memcached_props,
			 ARRAY_SIZE(memcached_props), &s->params);
	if (!err)
		err = address_parse("memcached.uri", s->params.uri, 11211,
				    &s->address);
	if (!err)
		err = check_keys(setup);
	if (err) {
		free(s);
		return err;
	}
	s->base.ops = &db_memcached_ops;
	*store_out = &s->base;
	return 0;
}

static void mc_fini(struct db_store *store)
{
	free(store);
}

static int mc_open(struct db_store *store, struct db **db_out)
{
	struct memcached_store *s = (struct memcached_store *)store;
	struct memcached_db *d = calloc(1, sizeof(*d));
	char why[256];
	int err;

	if (!d)
		return err_set(FARKV_ENOMEM,
			       "no memory for a memcached session");
	err = address_connect(&s->address, s->params.timeout_ms, &d->fd);
	if (err) {
		free(d);
		snprintf(why, sizeof(why), "%s", err_detail());
		return err_set(err, "memcached: %s", why);
	}
	d->base.ops = &db_memcached_ops;
	*db_out = &d->base;
	return 0;
}

static void mc_close(struct db *db)
{
	struct memcached_db *d = (struct memcached_db *)db;

	close(d->fd);
	free(d->in.at);
	free(d->out.at);
	free(d);
}

/* ---- bytes ------------------------------------------------------------------- */

static bool reserve(struct buffer *b, size_t more)
{
	size_t cap = b->cap ? b->cap : READ_BYTES;
	char *at;

	if (b->cap - b->len >= more)
		return true;
	while (cap - b->len < more)
		cap *= 2;
	at = realloc(b->at, cap);
	if (!at)
		return false;
	b->at = at;
	b->cap = cap;
	return true;
}

static enum db_status broken(struct memcached_db *d, const char *why)
{
	if (!d->broken)
		snprintf(d->error, sizeof(d->error), "%s", why);
	d->broken = true;
	return DB_SERVICE_UNAVAILABLE;
}

static enum db_status broken_errno(struct memcached_db *d)
{
	return broken(d, errno == EAGAIN ? "memcached did not answer in time"
					 : strerror(errno));
}

static bool append(struct memcached_db *d, const char *data, size_t len)
{
	if (!reserve(&d->out, len))
		return false;
	memcpy(d->out.at + d->out.len, data, len);
	d->out.len += len;
	return true;
}

/* Begin a request; releases the previous answer. */
static void begin(struct memcached_db *d)
{
	d->out.len = 0;
	d->in.len = d->next = 0;
}

static enum db_status send_out(struct memcached_db *d)
{
	size_t done = 0;

	if (d->broken)
		return DB_SERVICE_UNAVAILABLE;
	while (done < d->out.len) {
		ssize_t n = send(d->fd, d->out.at + done, d->out.len - done,
				 MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return broken_errno(d);
		done += (size_t)n;
	}
	return DB_OK;
}

/* Receive at least one more byte. */
static enum db_status receive(struct memcached_db *d)
{
	ssize_t n;

	if (d->broken)
		return DB_SERVICE_UNAVAILABLE;
	if (!reserve(&d->in, READ_BYTES))
		return broken(d, "no memory for an answer");
	do
		n = recv(d->fd, d->in.at + d->in.len, d->in.cap - d->in.len, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return broken_errno(d);
	if (n == 0)
		return broken(d, "memcached closed the connection");
	d->in.len += (size_t)n;
	return DB_OK;
}

/* The next line, with a NUL in place of its \r\n; NULL: broken. */
static char *take_line(struct memcached_db *d)
{
	for (;;) {
		size_t have = d->in.len - d->next;
		char *from = have ? d->in.at + d->next : NULL;
		char *end = have ? memchr(from, '\n', have) : NULL;

		if (end && end > from && end[-1] == '\r') {
			end[-1] = '\0';
			d->next = (size_t)(end + 1 - d->in.at);
			return from;
		}
		if (end || have > LINE_MAX_BYTES) {
			broken(d, "not memcached's protocol");
			return NULL;
		}
		if (receive(d) != DB_OK)
			return NULL;
	}
}

/* Consume a value's bytes and their \r\n; its offset in d->in, or SIZE_MAX: broken. */
static size_t take_value(struct memcached_db *d, size_t len)
{
	size_t at = d->next;

	while (d->in.len - at < len + 2)
		if (receive(d) != DB_OK)
			return SIZE_MAX;
	if (memcmp(d->in.at + at + len, "\r\n", 2) != 0) {
		broken(d, "not memcached's protocol");
		return SIZE_MAX;
	}
	d->next = at + len + 2;
	return at;
}

/* ---- requests ---------------------------------------------------------------- */

/* DB_NOT_FOUND, or the failure in the answer line. */
static enum db_status status_of(struct memcached_db *d, const char *line,
				const char *good)
{
	if (!line)
		return DB_SERVICE_UNAVAILABLE;
	if (!strcmp(line, good))
		return DB_OK;
	if (!strcmp(line, "NOT_FOUND"))
		return DB_NOT_FOUND;
	snprintf(d->error, sizeof(d->error), "%s", line);
	if (!strncmp(line, "SERVER_ERROR out of memory", 26))
		return DB_NO_SPACE;
	return !strncmp(line, "CLIENT_ERROR", 12) ||
			       !strncmp(line, "SERVER_ERROR object too large", 29)
		       ? DB_BAD_REQUEST
		       : DB_ERROR;
}

/* Times above this are taken for a date: doc/protocol.txt, "Expiration times". */
#define TTL_MAX_S (60 * 60 * 24 * 30)

/* Whole seconds, rounded up, as memcached wants them; 0: never. */
static uint64_t exptime(uint64_t ttl_ms)
{
	uint64_t s = ttl_ms / 1000 + (ttl_ms % 1000 != 0);

	return s > TTL_MAX_S ? s + (uint64_t)time(NULL) : s;
}

static bool put_set(struct memcached_db *d, const struct db_item *it,
		    uint64_t ttl_ms)
{
	char numbers[64];
	int n = snprintf(numbers, sizeof(numbers), " 0 %llu %zu\r\n",
			 (unsigned long long)exptime(ttl_ms), it->value.len);

	return append(d, "set ", 4) && append(d, it->key, it->key_len) &&
	       append(d, numbers, (size_t)n) &&
	       append(d, it->value.data, it->value.len) && append(d, "\r\n", 2);
}

static void mc_write_many(struct db *db, struct db_item *items, size_t n)
{
	struct memcached_db *d = (struct memcached_db *)db;
	enum db_status sent = DB_OK;

	begin(d);
	for (size_t i = 0; i < n && sent == DB_OK; i++)
		if (!put_set(d, &items[i], 0))
			sent = broken(d, "no memory for a request");
	if (sent == DB_OK)
		sent = send_out(d);
	for (size_t i = 0; i < n; i++)
		items[i].status = sent == DB_OK ? status_of(d, take_line(d),
							    "STORED")
						: sent;
}

static enum db_status mc_update_ttl(struct db *db, const char *key,
				    size_t key_len, struct db_value value,
				    uint64_t ttl_ms)
{
	struct memcached_db *d = (struct memcached_db *)db;
	struct db_item item = {.key = key, .key_len = key_len, .value = value};
	enum db_status sent;

	begin(d);
	if (!put_set(d, &item, ttl_ms))
		return broken(d, "no memory for a request");
	sent = send_out(d);
	return sent == DB_OK ? status_of(d, take_line(d), "STORED") : sent;
}

/* "mg KEY" without flags asks for presence alone: HD, or EN. */
static void mc_exists(struct db *db, struct db_item *items, size_t n)
{
	struct memcached_db *d = (struct memcached_db *)db;
	enum db_status sent = DB_OK;

	begin(d);
	for (size_t i = 0; i < n && sent == DB_OK; i++)
		if (!append(d, "mg ", 3) ||
		    !append(d, items[i].key, items[i].key_len) ||
		    !append(d, "\r\n", 2))
			sent = broken(d, "no memory for a request");
	if (sent == DB_OK)
		sent = send_out(d);
	for (size_t i = 0; i < n; i++) {
		char *line = sent == DB_OK ? take_line(d) : NULL;

		items[i].status = line && !strcmp(line, "EN")
					  ? DB_NOT_FOUND
					  : status_of(d, line, "HD");
	}
}

static enum db_status mc_remove(struct db *db, const char *key, size_t key_len)
{
	struct memcached_db *d = (struct memcached_db *)db;
	enum db_status sent;

	begin(d);
	if (!append(d, "delete ", 7) || !append(d, key, key_len) ||
	    !append(d, "\r\n", 2))
		return broken(d, "no memory for a request");
	sent = send_out(d);
	return sent == DB_OK ? status_of(d, take_line(d), "DELETED") : sent;
}

static enum db_status send_get(struct memcached_db *d,
			       const struct db_item *items, size_t n)
{
	bool good = append(d, "get", 3);

	for (size_t i = 0; i < n && good; i++)
		good = append(d, " ", 1) &&
		       append(d, items[i].key, items[i].key_len);
	if (!good || !append(d, "\r\n", 2))
		return broken(d, "no memory for a request");
	return send_out(d);
}

/* Cut "VALUE key flags bytes" into key and length. */
static bool parse_value(char *line, const char **key_out, uint64_t *len_out)
{
	char *space, *last;

	if (strncmp(line, "VALUE ", 6) != 0)
		return false;
	*key_out = line + 6;
	space = strchr(line + 6, ' ');
	last = space ? strchr(space + 1, ' ') : NULL;
	if (!last)
		return false;
	*space = '\0';
	return util_parse_u64(last + 1, len_out) && *len_out < SIZE_MAX / 4;
}

/*
 * Answers come in the order of the keys, without the missing ones. at[i] is the offset of
 * item i's value, as the buffer may still move.
 */
static enum db_status take_values(struct memcached_db *d, struct db_item *items,
				  size_t n, size_t *at)
{
	size_t i = 0;

	for (;;) {
		char *line = take_line(d);
		const char *key;
		uint64_t len;
		size_t key_len;

		if (!line || !strcmp(line, "END"))
			return line ? DB_OK : DB_SERVICE_UNAVAILABLE;
		if (!parse_value(line, &key, &len)) {
			snprintf(d->error, sizeof(d->error), "%s", line);
			return DB_ERROR;
		}
		key_len = strlen(key);
		while (i < n && (items[i].key_len != key_len ||
				 memcmp(items[i].key, key, key_len) != 0))
			i++;
		if (i == n)
			return broken(d, "memcached sent what was not asked for");
		at[i] = take_value(d, (size_t)len);
		if (at[i] == SIZE_MAX)
			return DB_SERVICE_UNAVAILABLE;
		items[i].value.len = (size_t)len;
		items[i++].status = DB_OK;
	}
}

static void mc_read_many(struct db *db, struct db_item *items, size_t n)
{
	struct memcached_db *d = (struct memcached_db *)db;
	size_t at[DB_BATCH_MAX];
	enum db_status status;

	begin(d);
	for (size_t i = 0; i < n; i++)
		items[i].status = DB_NOT_FOUND;
	status = send_get(d, items, n);
	if (status == DB_OK)
		status = take_values(d, items, n, at);
	for (size_t i = 0; i < n; i++) {
		if (status != DB_OK)
			items[i].status = status;
		else if (items[i].status == DB_OK)
			items[i].value.data = d->in.at + at[i];
	}
}

static enum db_status mc_read(struct db *db, const char *key, size_t key_len,
			      struct db_value *value_out)
{
	struct db_item item = {.key = key, .key_len = key_len};

	mc_read_many(db, &item, 1);
	*value_out = item.value;
	return item.status;
}

static const char *mc_error(struct db *db)
{
	return ((struct memcached_db *)db)->error;
}

const struct db_ops db_memcached_ops = {
	.name = "memcached",
	.props = memcached_props,
	.n_props = ARRAY_SIZE(memcached_props),
	.summary = "memcached, over a Unix socket or TCP",
	.init = mc_init,
	.fini = mc_fini,
	.open = mc_open,
	.close = mc_close,
	.read = mc_read,
	.update = db_write_one,
	.insert = db_write_one,
	.remove = mc_remove,
	.update_ttl = mc_update_ttl,
	.exists = mc_exists,
	.read_many = mc_read_many,
	.write_many = mc_write_many,
	.error = mc_error,
};
