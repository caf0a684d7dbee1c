/*
 * Prints the values of the keys on standard input, one per line, in the order of their
 * completion. One thread sleeps on the input and on the store together.
 */
#include <farkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define MANY 32

static char buf[4096]; /* input not yet submitted */
static size_t held;    /* its bytes */

static int fail(const char *what, int err)
{
	fprintf(stderr, "%s: %s: %s\n", what, farkv_strerror(err),
		farkv_errdetail());
	exit(1);
}

static void give_up(const char *why)
{
	fprintf(stderr, "epoll: %s\n", why);
	exit(1);
}

static void print_what_has_come(struct farkv *kv)
{
	struct farkv_completion done[MANY];
	int n;

	while ((n = farkv_poll(kv, done, MANY)) > 0)
		for (int i = 0; i < n; i++) {
			char *key = (char *)(uintptr_t)done[i].tag;

			if (done[i].result == FARKV_OK)
				printf("%s: %.*s\n", key,
				       (int)done[i].value.len,
				       (const char *)done[i].value.data);
			else
				printf("%s: %s\n", key, done[i].detail);
			free(key);
		}
	if (n < 0)
		fail("farkv_poll", n);
}

/*
 * Submit a request with the key's address as tag; the key stays valid until then. 0 if the
 * queue is full.
 */
static int ask(struct farkv *kv, const char *line, size_t len)
{
	char *key = strndup(line, len);
	struct farkv_request r = {.tag = (uintptr_t)key,
				  .kind = FARKV_REQUEST_GET,
				  .key = key,
				  .key_len = len};
	int n;

	if (!key)
		give_up("no memory");
	n = farkv_submit(kv, &r, 1);
	if (n == FARKV_EAGAIN) {
		free(key);
		return 0;
	}
	if (n < 0)
		fail("farkv_submit", n);
	return 1;
}

/*
 * Submit the keys of all complete lines. 0 if the queue is full before that; taking
 * completions makes space.
 */
static int ask_all(struct farkv *kv)
{
	char *line = buf, *end;
	int room = 1;

	while ((end = memchr(line, '\n', held)) &&
	       (room = ask(kv, line, (size_t)(end - line)))) {
		held -= (size_t)(end - line) + 1;
		line = end + 1;
	}
	memmove(buf, line, held);
	return room;
}

/* Read more input; 0 at its end. Only part of a line is held then. */
static int read_more(void)
{
	ssize_t n;

	if (held == sizeof(buf))
		give_up("a line is too long");
	n = read(0, buf + held, sizeof(buf) - held);
	if (n < 0) {
		perror("standard input");
		exit(1);
	}
	held += (size_t)n;
	if (n == 0 && held > 0)
		buf[held++] = '\n'; /* the last line may lack it */
	return n > 0;
}

static void watch(int epoll, int op, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	if (epoll_ctl(epoll, op, fd, &ev)) {
		perror("standard input must be a pipe or a terminal");
		exit(1);
	}
}

int main(void)
{
	int epoll = epoll_create1(0), open = 1, reading = 1, fd, err;
	struct farkv *kv;

	err = farkv_open(NULL, NULL, &kv);
	if (err)
		return fail("farkv_open", err);
	fd = farkv_event_fd(kv);
	if (fd < 0)
		return fail("farkv_event_fd", fd);
	watch(epoll, EPOLL_CTL_ADD, fd);
	watch(epoll, EPOLL_CTL_ADD, 0);
	while (open || farkv_in_flight(kv) > 0) {
		struct epoll_event ev;
		int room;

		if (epoll_wait(epoll, &ev, 1, -1) < 1)
			continue;
		if (ev.data.fd == fd)
			print_what_has_come(kv);
		else
			open = read_more();
		/* With a full queue wait for the store only. */
		room = ask_all(kv);
		if ((open && room) != reading) {
			reading = open && room;
			watch(epoll, reading ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, 0);
		}
	}
	farkv_close(kv);
	return 0;
}
