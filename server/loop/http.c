/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "http.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "common/base/err.h"
#include "common/base/util.h"

#define BACKLOG 64
#define HOST_MAX 256u
/* What a client may send after its request before its connection is closed. */
#define REST_MAX 65536u
/* Connections accepted before the existing ones are served. */
#define ACCEPT_BURST 8

enum stage { READING, WAITING, WRITING, CLOSING };

struct http_conn {
	TAILQ_ENTRY(http_conn) link;
	struct http *http;
	struct bufferevent *bev;
	struct event *deadline;
	enum stage stage;
	bool eof;    /* the client sends no more */
	size_t rest; /* bytes that came after the request */
	struct http_request request;
};

TAILQ_HEAD(http_conns, http_conn);

struct http {
	struct event_base *base;
	struct event *accept;
	http_answer *answer;
	void *arg;
	struct http_conns conns; /* the oldest first */
	uint32_t n;
};

/* ---- the socket ----------------------------------------------------------------------- */

/* Split into host and port. */
static int split(const char *text, char host[HOST_MAX], const char **port_out)
{
	const char *colon = strrchr(text, ':');
	const char *port = colon ? colon + 1 : text, *from = text;
	size_t len = colon ? (size_t)(colon - text) : 0;
	uint64_t number;
	bool ok = util_parse_u64(port, &number) && number <= 65535 && len < HOST_MAX;

	if (len > 1 && text[0] == '[' && text[len - 1] == ']') {
		from++;
		len -= 2;
	} else if (memchr(text, ':', len)) {
		ok = false;
	}
	if (!ok)
		return err_set(FARKV_EINVAL,
			       "metrics: '%s' is no address: give PORT, HOST:PORT or [IPV6]:PORT",
			       text);
	snprintf(host, HOST_MAX, "%.*s", (int)len, from);
	if (!len)
		strcpy(host, "127.0.0.1");
	*port_out = port;
	return 0;
}

int http_listen_check(const char *address)
{
	char host[HOST_MAX];
	const char *port;

	return split(address, host, &port);
}

/* A socket of this address, or -1 with errno. */
static int listen_at(const struct addrinfo *a)
{
	static const int yes = 1;
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int errnum;

	if (fd < 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	errnum = errno;
	close(fd);
	errno = errnum;
	return -1;
}

/* The address that it has, with the port that the kernel chose. */
static void name_of(struct http_listen *l)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	char host[HOST_MAX] = "?", port[8] = "?";

	if (getsockname(l->fd, (struct sockaddr *)&a, &len) == 0)
		(void)getnameinfo((struct sockaddr *)&a, len, host, sizeof(host), port,
				  sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(l->text, sizeof(l->text), strchr(host, ':') ? "[%.64s]:%s" : "%.64s:%s", host,
		 port);
}

int http_listen_open(const char *address, struct http_listen *l_out)
{
	struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *a;
	struct http_listen l;
	char host[HOST_MAX];
	const char *port;
	int err = split(address, host, &port);

	if (err)
		return err;
	err = getaddrinfo(host, port, &hints, &a);
	if (err)
		return err_set(FARKV_EINVAL, "metrics: cannot find the address of '%s': %s", host,
			       gai_strerror(err));
	l.fd = listen_at(a);
	freeaddrinfo(a);
	if (l.fd < 0 && errno == EADDRINUSE)
		return err_set(FARKV_EREFUSED,
			       "metrics: %s: address already in use; stop the program that listens "
			       "there or choose another port", address);
	if (l.fd < 0)
		return err_set_errno(FARKV_ESYS, errno, "metrics: cannot listen at %s", address);
	name_of(&l);
	*l_out = l;
	return 0;
}

/* ---- requests -------------------------------------------------------------------------- */

unsigned http_parse(const char *line, size_t len, struct http_request *out)
{
	const char *end = memchr(line, '\n', len), *space = memchr(line, ' ', len);
	const char *path, *path_end;
	size_t path_len;

	end = end ? end : line + len;
	if (end > line && end[-1] == '\r')
		end--;
	if (!space || space >= end || space == line)
		return 400;
	path = space + 1;
	path_end = memchr(path, ' ', (size_t)(end - path));
	if (!path_end || path_end == path || end - path_end != 9 ||
	    memcmp(path_end, " HTTP/1.", 8) != 0)
		return 400;
	out->head = space - line == 4 && memcmp(line, "HEAD", 4) == 0;
	if (!out->head && (space - line != 3 || memcmp(line, "GET", 3) != 0))
		return 405;
	path_len = (size_t)(path_end - path);
	for (size_t i = 0; i < path_len; i++)
		if (path[i] == '?')
			path_len = i;
	if (path_len >= HTTP_PATH_MAX)
		return 404;
	memcpy(out->path, path, path_len);
	out->path[path_len] = '\0';
	return 0;
}

static void conn_free(struct http_conn *conn)
{
	struct http *h = conn->http;

	TAILQ_REMOVE(&h->conns, conn, link);
	h->n--;
	if (conn->deadline)
		event_free(conn->deadline);
	bufferevent_free(conn->bev);
	free(conn);
}

static const char *reason(unsigned status)
{
	switch (status) {
	case 200: return "OK";
	case 400: return "Bad Request";
	case 404: return "Not Found";
	case 405: return "Method Not Allowed";
	case 431: return "Request Header Fields Too Large";
	case 503: return "Service Unavailable";
	default: return "Error";
	}
}

/* Takes the body's bytes; without a body it is the reason. */
static void reply(struct http_conn *conn, unsigned status, struct evbuffer *body)
{
	struct evbuffer *out = bufferevent_get_output(conn->bev);

	if (!evbuffer_get_length(body))
		evbuffer_add_printf(body, "%s\n", reason(status));
	conn->stage = WRITING;
	evbuffer_add_printf(out,
			    "HTTP/1.1 %u %s\r\n"
			    "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
			    "Content-Length: %zu\r\n"
			    "%sConnection: close\r\n\r\n",
			    status, reason(status), evbuffer_get_length(body),
			    status == 405 ? "Allow: GET, HEAD\r\n" : "");
	if (!conn->request.head)
		evbuffer_add_buffer(out, body);
}

/* False: the answer comes later. */
static bool answer(struct http_conn *conn)
{
	struct evbuffer *body = evbuffer_new();
	unsigned status;

	if (!body) {
		conn_free(conn);
		return true;
	}
	status = conn->http->answer(conn->http->arg, conn->request.path, body);
	if (status)
		reply(conn, status, body);
	else
		conn->stage = WAITING;
	evbuffer_free(body);
	return status != 0;
}

static void refuse(struct http_conn *conn, unsigned status)
{
	struct evbuffer *body = evbuffer_new();

	if (!body) {
		conn_free(conn);
		return;
	}
	reply(conn, status, body);
	evbuffer_free(body);
}

/* The length of a whole request, or 0. */
static size_t request_length(struct evbuffer *in)
{
	struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);

	if (end.pos >= 0)
		return (size_t)end.pos + 4;
	end = evbuffer_search(in, "\n\n", 2, NULL);
	return end.pos >= 0 ? (size_t)end.pos + 2 : 0;
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct http_conn *conn = arg;
	struct evbuffer *in = bufferevent_get_input(bev);
	size_t have = evbuffer_get_length(in), len;
	char line[HTTP_HEAD_MAX];
	unsigned status;

	if (conn->stage != READING) {
		conn->rest += have;
		evbuffer_drain(in, have);
		if (conn->rest > REST_MAX)
			conn_free(conn);
		return;
	}
	len = request_length(in);
	if (len > HTTP_HEAD_MAX || (!len && have >= HTTP_HEAD_MAX)) {
		evbuffer_drain(in, have);
		refuse(conn, 431);
		return;
	}
	if (!len)
		return;
	evbuffer_remove(in, line, len);
	evbuffer_drain(in, have - len);
	status = http_parse(line, len, &conn->request);
	if (status)
		refuse(conn, status);
	else
		(void)answer(conn);
}

/* All is written. A close now would drop the answer if the client has sent more than was read. */
static void on_written(struct bufferevent *bev, void *arg)
{
	struct http_conn *conn = arg;

	if (conn->stage != WRITING)
		return;
	conn->stage = CLOSING;
	if (conn->eof)
		conn_free(conn);
	else
		shutdown(bufferevent_getfd(bev), SHUT_WR);
}

static void on_end(struct bufferevent *bev, short what, void *arg)
{
	struct http_conn *conn = arg;

	(void)bev;
	conn->eof = true;
	/* A client may shut its side down and still read. */
	if (!(what & BEV_EVENT_EOF) || conn->stage == READING || conn->stage == CLOSING)
		conn_free(conn);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	conn_free(arg);
}

static void conn_new(struct http *h, int fd)
{
	static const struct timeval patience = {.tv_sec = HTTP_PATIENCE_S};
	struct http_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		goto err_close;
	conn->bev = bufferevent_socket_new(h->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!conn->bev)
		goto err_free;
	conn->http = h;
	TAILQ_INSERT_TAIL(&h->conns, conn, link);
	h->n++;
	conn->deadline = evtimer_new(h->base, on_deadline, conn);
	bufferevent_setcb(conn->bev, on_read, on_written, on_end, conn);
	bufferevent_setwatermark(conn->bev, EV_READ, 0, HTTP_HEAD_MAX);
	if (!conn->deadline || event_add(conn->deadline, &patience) ||
	    bufferevent_enable(conn->bev, EV_READ | EV_WRITE))
		conn_free(conn);
	return;

err_free:
	free(conn);
err_close:
	close(fd);
}

static int accept_next(int at)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	return accept4(at, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void on_accept(evutil_socket_t at, short what, void *arg)
{
	struct http *h = arg;

	(void)what;
	for (int i = 0; i < ACCEPT_BURST; i++) {
		int fd = accept_next(at);

		/* Out of descriptors: those of an old connection serve the new one. */
		if (fd < 0 && (errno == EMFILE || errno == ENFILE) && h->n)
			conn_free(TAILQ_FIRST(&h->conns));
		if (fd < 0)
			return;
		if (h->n == HTTP_CONNECTIONS_MAX)
			conn_free(TAILQ_FIRST(&h->conns));
		conn_new(h, fd);
	}
}

/* ---- life ------------------------------------------------------------------------------- */

struct http *http_new(struct event_base *base, const struct http_listen *l, http_answer *answer_fn,
		      void *arg)
{
	struct http *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	*h = (struct http){.base = base, .answer = answer_fn, .arg = arg};
	TAILQ_INIT(&h->conns);
	h->accept = event_new(base, l->fd, EV_READ | EV_PERSIST, on_accept, h);
	if (h->accept && event_add(h->accept, NULL) == 0)
		return h;
	http_free(h);
	return NULL;
}

bool http_retry(struct http *h)
{
	struct http_conn *conn, *next;
	bool wait = false;

	for (conn = TAILQ_FIRST(&h->conns); conn; conn = next) {
		next = TAILQ_NEXT(conn, link);
		if (conn->stage == WAITING)
			wait = !answer(conn) || wait;
	}
	return wait;
}

void http_free(struct http *h)
{
	if (!h)
		return;
	while (!TAILQ_EMPTY(&h->conns))
		conn_free(TAILQ_FIRST(&h->conns));
	if (h->accept)
		event_free(h->accept);
	free(h);
}
