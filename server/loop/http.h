/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * http.h - short answers by HTTP, inside the control loop: one request per connection.
 *
 * A connection has HTTP_HEAD_MAX bytes and HTTP_PATIENCE_S seconds for all of it, however it uses
 * them. With HTTP_CONNECTIONS_MAX of them the oldest is closed for a new one: slow clients cost
 * only themselves. Event loop only.
 */
#ifndef SERVER_LOOP_HTTP_H
#define SERVER_LOOP_HTTP_H

#include <stdbool.h>
#include <stddef.h>

struct evbuffer;
struct event_base;
struct http;

#define HTTP_HEAD_MAX 8192u
#define HTTP_PATIENCE_S 10
#define HTTP_CONNECTIONS_MAX 32u
#define HTTP_PATH_MAX 64u

/** A TCP socket that listens; `text` is its address as a URL has it, such as 127.0.0.1:9151. */
struct http_listen {
	int fd;
	char text[80];
};

/**
 * Check, or open, PORT (at 127.0.0.1), HOST:PORT or [IPV6]:PORT; port 0 takes any. FARKV_EINVAL,
 * FARKV_EREFUSED if it is in use, FARKV_ESYS; each with a detail that begins with "metrics: ".
 */
int http_listen_check(const char *address);
int http_listen_open(const char *address, struct http_listen *l_out);

struct http_request {
	bool head; /* HEAD: the answer has no body */
	char path[HTTP_PATH_MAX]; /* without a query */
};

/**
 * Read the first line of a request of `len` bytes. 0, or the status of the answer: 400 if it is
 * no HTTP/1, 404 if the path is too long, 405 for other methods than GET and HEAD.
 */
unsigned http_parse(const char *line, size_t len, struct http_request *out);

/**
 * Answer a path: write the body, and return the status; 0: not yet, ask again at http_retry().
 * The body is UTF-8 text.
 */
typedef unsigned http_answer(void *arg, const char *path, struct evbuffer *body);

/** Answer at a socket, which stays the caller's. NULL: out of memory. */
struct http *http_new(struct event_base *base, const struct http_listen *l, http_answer *answer,
		      void *arg);
/** Ask again for the requests that wait. True if some still do. */
bool http_retry(struct http *h);
/** Close all connections; NULL is allowed. */
void http_free(struct http *h);

#endif
