/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "saver.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static bool give(const struct saver *s, const struct saver_message *o)
{
	return send(s->fd, o, sizeof(*o), MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(*o);
}

bool saver_open(const struct saver *s, const char *uri, const char *key)
{
	struct saver_message o = {.kind = SAVER_OPEN};

	snprintf(o.uri, sizeof(o.uri), "%s", uri);
	snprintf(o.key, sizeof(o.key), "%s", key ? key : "");
	return give(s, &o);
}

bool saver_order(const struct saver *s, enum saver_kind kind)
{
	struct saver_message o = {.kind = kind};

	return give(s, &o);
}

int saver_answer(const struct saver *s, struct saver_answer *out)
{
	ssize_t n = recv(s->fd, out, sizeof(*out), MSG_DONTWAIT);

	if (n == (ssize_t)sizeof(*out))
		return 1;
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

void saver_interrupt(const struct saver *s)
{
	(void)kill(s->pid, SAVER_INTERRUPT);
}

void saver_stop(struct saver *s)
{
	saver_interrupt(s);
	close(s->fd);
	while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
		;
	s->pid = -1;
	s->fd = -1;
}
