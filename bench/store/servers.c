/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "servers.h"

#include <stdio.h>
#include <string.h>

/* Gets and sets of a server so far; false if it does not answer. */
static bool count(struct farkv *kv, uint64_t *count_out)
{
	struct farkv_stats st = {.size = sizeof(st)};

	if (farkv_stats(kv, &st))
		return false;
	*count_out = st.gets + st.sets;
	return true;
}

void servers_opened(struct servers *s, struct farkv *kv)
{
	struct farkv_server one = {.size = sizeof(one)};

	if (s->sessions++ > 0)
		return;
	s->n = 0;
	while (s->n < DB_SERVERS_MAX && !farkv_server(kv, s->n, &one) && one.epoch) {
		memset(&s->server[s->n], 0, sizeof(s->server[s->n]));
		snprintf(s->server[s->n].name, sizeof(s->server[s->n].name), "%s", one.name);
		s->server[s->n].known = count(one.handle, &s->server[s->n].before);
		s->n++;
	}
}

void servers_closing(struct servers *s, struct farkv *kv, const uint32_t *errors)
{
	struct farkv_server one = {.size = sizeof(one)};

	for (unsigned i = 0; i < s->n; i++)
		s->server[i].errors += errors[i];
	if (--s->sessions > 0)
		return;
	for (unsigned i = 0; i < s->n; i++)
		s->server[i].known = s->server[i].known && !farkv_server(kv, i, &one) &&
				     count(one.handle, &s->server[i].after) &&
				     s->server[i].after >= s->server[i].before;
}

unsigned servers_find(const struct servers *s, const char *detail)
{
	static const char head[] = "server ";
	const char *name = detail + sizeof(head) - 1;
	unsigned i = 0;

	if (strncmp(detail, head, sizeof(head) - 1) != 0)
		return s->n;
	while (i < s->n && (strncmp(name, s->server[i].name, strlen(s->server[i].name)) != 0 ||
			    name[strlen(s->server[i].name)] != ':'))
		i++;
	return i;
}

unsigned servers_tell(const struct servers *s, struct db_served out[DB_SERVERS_MAX])
{
	for (unsigned i = 0; i < s->n; i++) {
		memcpy(out[i].name, s->server[i].name, sizeof(out[i].name));
		out[i].known = s->server[i].known;
		out[i].ops = s->server[i].known ? s->server[i].after - s->server[i].before : 0;
		out[i].errors = s->server[i].errors;
	}
	return s->n;
}
