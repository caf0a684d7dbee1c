/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "conn.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "mc.h"
#include "resp.h"
#include "resp_reply.h"
#include "waits.h"

/* Replies of this many bytes are sent, even in the middle of a batch. */
#define SEND_BYTES ((size_t)64 << 10)

struct conn {
	struct client c;
	struct conn_home *home;
	struct conn *next, **from;
	struct event readable, writable;
	struct event closed, timeout; /* in WAIT: the client has gone; its time is up */
	struct wait wait;
	struct buf in;  /* of an incomplete request */
	struct buf out; /* what the socket did not take */
	size_t sent;    /* of `out` */
};

/* True if the followers have everything. */
static bool end_wait(struct conn *conn)
{
	struct client *c = &conn->c;

	if (!c->waiting)
		return false;
	c->waiting = false;
	atom_count(&c->gate->blocked, (uint64_t)-1);
	event_del(&conn->closed);
	event_del(&conn->timeout);
	return waits_end(c->gate->waits, &conn->wait);
}

static void conn_close(struct conn *conn)
{
	struct client *c = &conn->c;

	(void)end_wait(conn);
	event_del(&conn->readable);
	event_del(&conn->writable);
	clients_leave(c);
	*conn->from = conn->next;
	if (conn->next)
		conn->next->from = conn->from;
	close(c->fd);
	atom_count(&c->gate->connected, (uint64_t)-1);
	buf_free(&conn->in);
	buf_free(&conn->out);
	args_free(&c->parser.args);
	args_free(&c->mc.args);
	free(conn);
}

/* ---- output -------------------------------------------------------------------------- */

/* Send; *done_out is how much the socket took. False: the connection is broken. */
static bool put(struct conn *conn, const char *data, size_t len, size_t *done_out)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = send(conn->c.fd, data + done, len - done, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
			return false;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	if (done) {
		GATE_COUNT(conn->c.counts, bytes_out, done);
		atom_store_relaxed(&conn->c.active_ns, clock_now_ns());
	}
	*done_out = done;
	return true;
}

/* Send what the socket did not take before. False: the connection is broken. */
static bool put_rest(struct conn *conn)
{
	size_t done;

	if (!conn->out.len)
		return true;
	if (!put(conn, conn->out.p + conn->sent, conn->out.len - conn->sent, &done))
		return false;
	conn->sent += done;
	if (conn->sent == conn->out.len) {
		buf_free(&conn->out);
		conn->sent = 0;
		event_del(&conn->writable);
	}
	return true;
}

/* Keep for later what the socket does not take now. False: too much, or no memory. */
static bool keep_rest(struct conn *conn, const char *data, size_t len)
{
	uint64_t most = conn->c.gate->cfg.max_output;

	if (conn->sent) {
		buf_drop(&conn->out, conn->sent);
		conn->sent = 0;
	}
	if (conn->out.len + len > most) {
		log_debug("%s: closed: it does not read its answers, of which %zu bytes wait",
			  conn->c.addr, conn->out.len + len);
		return false;
	}
	buf_add(&conn->out, data, len);
	return !conn->out.failed && event_add(&conn->writable, NULL) == 0;
}

/* Send the thread's replies, which are this connection's. False: close it. */
static bool send_replies(struct conn *conn)
{
	struct buf *out = conn->c.out;
	size_t len = out->len, done = 0;
	bool ok = !out->failed && put_rest(conn);

	out->len = 0;
	out->failed = false;
	if (ok && len && !conn->out.len)
		ok = put(conn, out->p, len, &done);
	if (ok && done < len)
		ok = keep_rest(conn, out->p + done, len - done);
	if (out->cap > 4 * SEND_BYTES)
		buf_free(out);
	return ok;
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct conn *conn = arg;

	(void)fd;
	(void)what;
	if (!put_rest(conn) || (conn->c.closing && !conn->out.len))
		conn_close(conn);
}

/* ---- input --------------------------------------------------------------------------- */

/* On a shared address: arrays and capital letters are Redis's, all else is memcached's. */
static enum client_speaks guess(char first)
{
	return first == '*' || (first >= 'A' && first <= 'Z') ? SPEAKS_RESP : SPEAKS_MEMCACHED;
}

/* Execute all complete requests. *done_out is their bytes. False: close the connection. */
static bool execute(struct conn *conn, char *data, size_t len, size_t *done_out)
{
	struct client *c = &conn->c;
	size_t done = 0;

	if (c->speaks == SPEAKS_UNKNOWN)
		c->speaks = guess(data[0]);
	while (done < len && !c->closing && !c->waiting) {
		size_t n = c->speaks == SPEAKS_RESP ? resp_step(c, data + done, len - done) :
						      mc_step(c, data + done, len - done);

		if (!n)
			break;
		done += n;
		if (c->out->len >= SEND_BYTES && !send_replies(conn))
			return false;
	}
	if (done)
		atom_store_relaxed(&c->active_ns, clock_now_ns());
	*done_out = done;
	return send_replies(conn);
}

static bool begin_wait(struct conn *conn)
{
	struct client *c = &conn->c;
	struct timeval at = {.tv_sec = (time_t)UTIL_MIN(c->wait_ms / 1000, (uint64_t)INT32_MAX),
			     .tv_usec = (suseconds_t)(c->wait_ms % 1000 * 1000)};

	atom_count(&c->gate->blocked, 1);
	waits_ask(c->gate->waits, &conn->wait, c->kv);
	event_del(&conn->readable);
	return event_add(&conn->closed, NULL) == 0 &&
	       (!c->wait_ms || event_add(&conn->timeout, &at) == 0);
}

/* Where to read to; *room_out bytes. NULL: out of memory. */
static char *read_place(struct conn *conn, size_t *room_out)
{
	char *to = conn->home->in;

	*room_out = CONN_READ_BYTES;
	if (conn->in.len) {
		to = buf_room(&conn->in, UTIL_MIN(CONN_READ_BYTES, conn->in.len));
		*room_out = conn->in.cap - conn->in.len;
	}
	return to;
}

/* Execute what is there now; keep the beginning of the next request. */
static bool take(struct conn *conn, char *data, size_t len)
{
	bool own = conn->in.len != 0;
	size_t done;

	if (own) {
		conn->in.len += len;
		data = conn->in.p;
		len = conn->in.len;
	}
	if (!execute(conn, data, len, &done) || (conn->c.closing && !conn->out.len))
		return false;
	if (conn->c.closing) {
		event_del(&conn->readable);
		return true;
	}
	if (!own)
		buf_add(&conn->in, data + done, len - done);
	else if (done == len)
		buf_free(&conn->in);
	else
		buf_drop(&conn->in, done);
	return !conn->in.failed && (!conn->c.waiting || begin_wait(conn));
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct conn *conn = arg;
	size_t room;
	char *to = read_place(conn, &room);
	ssize_t n = -1;

	(void)what;
	errno = ENOMEM;
	if (to)
		n = recv(fd, to, room, 0);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return;
	if (n > 0)
		GATE_COUNT(conn->c.counts, bytes_in, (size_t)n);
	if (n <= 0 || !take(conn, to, (size_t)n))
		conn_close(conn);
}

/* ---- WAIT ------------------------------------------------------------------------------ */

/* Answer WAIT, then the requests that came after it. */
static void go_on(struct conn *conn)
{
	reply_int(&conn->c, end_wait(conn));
	if (event_add(&conn->readable, NULL) || !take(conn, conn->home->in, 0))
		conn_close(conn);
}

static void on_timeout(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	go_on(arg);
}

static void on_closed(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	conn_close(arg);
}

void conn_wake(struct conn_home *h)
{
	struct conn *next;

	for (struct conn *conn = h->first; conn; conn = next) {
		next = conn->next;
		if (conn->c.waiting && waits_done(h->gate->waits, &conn->wait))
			go_on(conn);
	}
}

/* ---- begin and end ------------------------------------------------------------------- */

/* "1.2.3.4:5", "[::1]:5", or the path of a socket with ":0", as Redis writes it. */
static void address(const struct sockaddr_storage *at, socklen_t len, char *text, size_t cap)
{
	const struct sockaddr_un *un = (const struct sockaddr_un *)at;
	char host[64], port[16];

	if (at->ss_family == AF_UNIX) {
		bool named = len > offsetof(struct sockaddr_un, sun_path) && un->sun_path[0];

		snprintf(text, cap, "%s:0", named ? un->sun_path : "unix");
		return;
	}
	if (getnameinfo((const struct sockaddr *)at, len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV)) {
		snprintf(text, cap, "?:0");
		return;
	}
	snprintf(text, cap, at->ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

static void set_addresses(struct client *c)
{
	struct sockaddr_storage at = {0};
	socklen_t len = sizeof(at);

	if (getpeername(c->fd, (struct sockaddr *)&at, &len) == 0)
		address(&at, len, c->addr, sizeof(c->addr));
	memset(&at, 0, sizeof(at));
	len = sizeof(at);
	if (getsockname(c->fd, (struct sockaddr *)&at, &len) == 0)
		address(&at, len, c->local, sizeof(c->local));
}

bool conn_open(struct conn_home *h, int fd, enum client_speaks speaks)
{
	struct conn *conn = calloc(1, sizeof(*conn));
	struct client *c;

	if (!conn) {
		close(fd);
		atom_count(&h->gate->connected, (uint64_t)-1);
		return false;
	}
	c = &conn->c;
	c->gate = h->gate;
	c->counts = h->counts;
	c->kv = h->kv;
	c->flush = h->flush;
	c->out = &h->out;
	c->scratch = &h->scratch;
	c->fd = fd;
	c->speaks = speaks;
	c->authenticated = !h->gate->clients;
	strcpy(c->user, "default");
	c->command = "NULL";
	c->resp = 2;
	c->since_ns = c->active_ns = clock_now_ns();
	set_addresses(c);
	conn->home = h;
	conn->next = h->first;
	conn->from = &h->first;
	if (conn->next)
		conn->next->from = &conn->next;
	h->first = conn;
	event_assign(&conn->readable, h->base, fd, EV_READ | EV_PERSIST, on_readable, conn);
	event_assign(&conn->writable, h->base, fd, EV_WRITE | EV_PERSIST, on_writable, conn);
	event_assign(&conn->closed, h->base, fd, EV_CLOSED, on_closed, conn);
	event_assign(&conn->timeout, h->base, -1, 0, on_timeout, conn);
	conn->wait.wake = h->wake;
	conn->wait.arg = h;
	waits_enter(h->gate->waits, &conn->wait);
	clients_enter(c);
	if (event_add(&conn->readable, NULL) == 0)
		return true;
	conn_close(conn);
	return false;
}

void conn_close_all(struct conn_home *h)
{
	while (h->first)
		conn_close(h->first);
}

void conn_close_idle(struct conn_home *h, uint64_t seconds)
{
	uint64_t now = clock_now_ns();
	struct conn *next;

	for (struct conn *conn = h->first; conn; conn = next) {
		next = conn->next;
		if (!conn->c.waiting && now - conn->c.active_ns >= seconds * NS_PER_SEC) {
			log_debug("%s: closed after %llu idle seconds", conn->c.addr,
				  (unsigned long long)seconds);
			conn_close(conn);
		}
	}
}
