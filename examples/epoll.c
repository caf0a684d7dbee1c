/* Prints the value of each key that standard input names, one a line, in whatever
   order they come: one thread sleeps on the input and on the store together. */
#include <farkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define MANY 32

static int fail(const char *what, int err)
{
	fprintf(stderr, "%s: %s: %s\n", what, farkv_strerror(err),
		farkv_errdetail());
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
				printf("%s: %s\n", key,
				       farkv_strerror(done[i].result));
			free(key);
		}
	if (n < 0)
		fail("farkv_poll", n);
}

/* The key stays where it is until its value has come: the tag is its address. */
static void ask(struct farkv *kv, const char *line, size_t len)
{
	char *key = strndup(line, len);
	struct farkv_request r = {.tag = (uintptr_t)key,
				  .kind = FARKV_REQUEST_GET,
				  .key = key,
				  .key_len = len};
	int n;

	/* Full: there is room when completions have been taken. */
	while ((n = farkv_submit(kv, &r, 1)) == FARKV_EAGAIN)
		print_what_has_come(kv);
	if (n < 0)
		fail("farkv_submit", n);
}

/* Ask for the keys of all whole lines of what can be read; 0 at the end. */
static int read_keys(struct farkv *kv)
{
	static char buf[4096];
	static size_t held;
	char *line = buf, *end;
	ssize_t n = read(0, buf + held, sizeof(buf) - held);

	if (n <= 0)
		return 0;
	held += (size_t)n;
	for (; (end = memchr(line, '\n', held)); line = end + 1) {
		ask(kv, line, (size_t)(end - line));
		held -= (size_t)(end - line) + 1;
	}
	memmove(buf, line, held);
	return 1;
}

int main(void)
{
	struct epoll_event in = {.events = EPOLLIN, .data.fd = 0}, store = in, ev;
	int epoll = epoll_create1(0), open = 1, fd, err;
	struct farkv *kv;

	err = farkv_open(NULL, NULL, &kv);
	if (err)
		return fail("farkv_open", err);
	fd = store.data.fd = farkv_event_fd(kv);
	if (fd < 0)
		return fail("farkv_event_fd", fd);
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &store) ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &in)) {
		perror("standard input must be a pipe or a terminal");
		return 1;
	}
	while (open || farkv_in_flight(kv) > 0) {
		if (epoll_wait(epoll, &ev, 1, -1) < 1)
			continue;
		if (ev.data.fd == fd) {
			print_what_has_come(kv);
		} else if (!read_keys(kv)) {
			open = 0;
			epoll_ctl(epoll, EPOLL_CTL_DEL, 0, NULL);
		}
	}
	farkv_close(kv);
	return 0;
}
