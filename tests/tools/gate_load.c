/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Load for a server of memcached's text protocol at a Unix socket, as redis-benchmark makes it for
 * Redis: each connection sends a pipeline of requests and waits for all its answers.
 *
 *	gate_load SOCKET get|set CONNECTIONS DEPTH SECONDS
 *
 * prints requests a second, and the 50th and 99th percentile of a pipeline's time in microseconds.
 * Keys are drawn from 10,000, values have 100 bytes. Exit status 1: a wrong answer.
 */
#include "config.h"

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/clock.h"

#define KEYS 10000
#define VALUE 100
#define MOST 1024
#define MADE 64       /* different pipelines */
#define US_MAX 1000000 /* longer times count as this */

struct line {
	int fd;
	unsigned due; /* newlines of answers that are still to come */
	uint64_t sent_ns;
};

struct load {
	struct line line[MOST];
	struct pollfd poll[MOST];
	unsigned lines, depth, newlines; /* connections, requests, newlines of an answer */
	char *batch[MADE];
	size_t batch_len[MADE];
	uint64_t done, next;
	uint32_t *hist; /* of pipelines, by microseconds */
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int dial(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)))
		die(path);
	return fd;
}

static size_t request(char *to, unsigned key, int set)
{
	static const char value[VALUE + 1] = {[0 ... VALUE - 1] = 'v'};

	return (size_t)(set ? sprintf(to, "set key:%06u 0 0 %d\r\n%s\r\n", key, VALUE, value) :
			      sprintf(to, "get key:%06u\r\n", key));
}

static void make(struct load *l, int set)
{
	for (unsigned i = 0; i < MADE; i++) {
		char *at = l->batch[i] = malloc(l->depth * (VALUE + 64u));

		if (!at)
			die("malloc");
		for (unsigned r = 0; r < l->depth; r++)
			at += request(at, (unsigned)random() % KEYS, set);
		l->batch_len[i] = (size_t)(at - l->batch[i]);
	}
}

static void send_batch(struct load *l, struct line *c)
{
	unsigned i = l->next++ % MADE;

	for (size_t done = 0; done < l->batch_len[i];) {
		ssize_t n = send(c->fd, l->batch[i] + done, l->batch_len[i] - done, MSG_NOSIGNAL);

		if (n <= 0)
			die("send");
		done += (size_t)n;
	}
	c->due = l->depth * l->newlines;
	c->sent_ns = clock_now_ns();
}

/* False: the answers are not what they have to be. */
static int take(struct load *l, struct line *c)
{
	static char in[1 << 16];
	ssize_t n = recv(c->fd, in, sizeof(in), 0);
	uint64_t us;

	if (n <= 0 || memmem(in, (size_t)n, "ERROR", 5))
		return 0;
	for (const char *p = in, *end = in + n; (p = memchr(p, '\n', (size_t)(end - p))); p++)
		if (!c->due--)
			return 0;
	if (c->due)
		return 1;
	us = (clock_now_ns() - c->sent_ns) / 1000;
	l->hist[us < US_MAX ? us : US_MAX]++;
	l->done += l->depth;
	send_batch(l, c);
	return 1;
}

static unsigned percentile(const struct load *l, double share)
{
	uint64_t all = l->done / l->depth, below = 0;

	for (unsigned us = 0; us < US_MAX; us++)
		if ((below += l->hist[us]) >= (uint64_t)((double)all * share))
			return us;
	return US_MAX;
}

/* Every key gets a value. */
static void fill(const char *path)
{
	char text[VALUE + 64], answer[8];
	int fd = dial(path);

	for (unsigned k = 0; k < KEYS; k++) {
		size_t len = request(text, k, 1);

		if (send(fd, text, len, MSG_NOSIGNAL) != (ssize_t)len ||
		    recv(fd, answer, sizeof(answer), MSG_WAITALL) != sizeof(answer) ||
		    memcmp(answer, "STORED\r\n", sizeof(answer)) != 0)
			die("fill");
	}
	close(fd);
}

int main(int argc, char **argv)
{
	static struct load l;
	uint64_t begin, end, now;

	if (argc != 6 || (l.lines = (unsigned)atoi(argv[3])) - 1 >= MOST ||
	    !(l.depth = (unsigned)atoi(argv[4]))) {
		fprintf(stderr, "usage: gate_load SOCKET get|set CONNECTIONS DEPTH SECONDS\n");
		return 2;
	}
	l.newlines = argv[2][0] == 's' ? 1 : 3; /* STORED; VALUE, bytes, END */
	l.hist = calloc(US_MAX + 1, sizeof(*l.hist));
	if (!l.hist)
		die("calloc");
	fill(argv[1]);
	make(&l, argv[2][0] == 's');
	for (unsigned i = 0; i < l.lines; i++) {
		l.line[i].fd = dial(argv[1]);
		l.poll[i] = (struct pollfd){l.line[i].fd, POLLIN, 0};
	}
	begin = now = clock_now_ns();
	end = begin + (uint64_t)(atof(argv[5]) * 1e9);
	for (unsigned i = 0; i < l.lines; i++)
		send_batch(&l, &l.line[i]);
	for (; now < end; now = clock_now_ns()) {
		if (poll(l.poll, l.lines, -1) < 0)
			die("poll");
		for (unsigned i = 0; i < l.lines; i++)
			if (l.poll[i].revents && !take(&l, &l.line[i])) {
				fprintf(stderr, "gate_load: a wrong answer\n");
				return 1;
			}
	}
	printf("%.0f %u %u\n", (double)l.done * 1e9 / (double)(now - begin),
	       percentile(&l, 0.50), percentile(&l, 0.99));
	return 0;
}
