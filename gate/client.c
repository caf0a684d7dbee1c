/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "client.h"

#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/clock.h"
#include "common/base/util.h"

void clients_enter(struct client *c)
{
	struct gate *g = c->gate;

	c->id = atom_count(&g->next_id, 1) + 1;
	pthread_mutex_lock(&g->lock);
	c->next = g->first;
	c->from = &g->first;
	if (c->next)
		c->next->from = &c->next;
	g->first = c;
	pthread_mutex_unlock(&g->lock);
}

void clients_leave(struct client *c)
{
	pthread_mutex_lock(&c->gate->lock);
	*c->from = c->next;
	if (c->next)
		c->next->from = c->from;
	pthread_mutex_unlock(&c->gate->lock);
}

/* Under the lock. */
static void set_text(char *field, struct slice text)
{
	size_t n = UTIL_MIN(text.len, (size_t)CLIENT_NAME_MAX);

	if (n)
		memcpy(field, text.p, n);
	field[n] = '\0';
}

void client_set_text(struct client *c, char *field, struct slice text)
{
	pthread_mutex_lock(&c->gate->lock);
	set_text(field, text);
	pthread_mutex_unlock(&c->gate->lock);
}

static void list_one(const struct client *c, struct buf *out)
{
	uint64_t now = clock_now_ns();

	buf_printf(out,
		   "id=%" PRIu64 " addr=%s laddr=%s fd=%d name=%s age=%" PRIu64 " idle=%" PRIu64
		   " flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf=0 obl=0 oll=0 omem=0 events=r"
		   " cmd=%s user=%s redir=-1 resp=%u lib-name=%s lib-ver=%s\n",
		   c->id, c->addr, c->local, c->fd, c->name, (now - c->since_ns) / NS_PER_SEC,
		   (now - atom_load_relaxed(&c->active_ns)) / NS_PER_SEC,
		   atom_load_relaxed(&c->command), c->user, c->resp, c->lib_name, c->lib_version);
}

void clients_list(struct gate *g, const struct client *only, struct buf *out)
{
	pthread_mutex_lock(&g->lock);
	for (const struct client *c = g->first; c; c = c->next)
		if (!only || only == c)
			list_one(c, out);
	pthread_mutex_unlock(&g->lock);
}

static bool slice_fits(struct slice want, const char *text)
{
	return !want.p || slice_same(want, text);
}

uint64_t clients_kill(struct client *self, const struct clients_filter *f, bool *self_out)
{
	uint64_t n = 0;

	*self_out = false;
	pthread_mutex_lock(&self->gate->lock);
	for (struct client *c = self->gate->first; c; c = c->next) {
		if ((f->id && c->id != f->id) || c == f->not || !slice_fits(f->addr, c->addr) ||
		    !slice_fits(f->local, c->local) || !slice_fits(f->user, c->user))
			continue;
		n++;
		if (c == self)
			*self_out = true;
		else
			shutdown(c->fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&self->gate->lock);
	return n;
}

/* The key with that name, or any without one, if the password is right; else NULL. */
static const struct key *find_key(const struct keyfile *keys, struct slice user,
				  struct slice password)
{
	const struct key *k;

	if (user.len) {
		k = keyfile_find(keys, user.p, user.len);
		return k && keyfile_secret_is(k, password.p, password.len) ? k : NULL;
	}
	for (size_t i = 0; (k = keyfile_at(keys, i)); i++)
		if (keyfile_secret_is(k, password.p, password.len))
			break;
	return k;
}

bool client_login(struct client *c, struct slice user, struct slice password)
{
	const struct key *k;

	pthread_mutex_lock(&c->gate->lock);
	k = find_key(c->gate->clients, user, password);
	if (k) {
		set_text(c->user, (struct slice){k->name, k->name_len});
		c->read_only = k->role == KEY_RO;
		c->authenticated = true;
	}
	pthread_mutex_unlock(&c->gate->lock);
	return k != NULL;
}

/* True if the client has logged in with a key of `old` that is not in `now`. */
static bool lost_key(const struct client *c, const struct keyfile *old, const struct keyfile *now)
{
	const struct key *k = keyfile_find(old, c->user, strlen(c->user)), *same;

	same = k ? keyfile_find(now, c->user, strlen(c->user)) : NULL;
	return k && !(same && keyfile_same_key(k, same));
}

int clients_reload_keys(struct gate *g, uint64_t *closed_out)
{
	struct keyfile *old = NULL;
	uint64_t n = 0;
	int err;

	pthread_mutex_lock(&g->lock);
	err = keyfile_reload(g->clients, &old);
	for (struct client *c = g->first; !err && c; c = c->next)
		if (lost_key(c, old, g->clients)) {
			shutdown(c->fd, SHUT_RDWR);
			n++;
		}
	pthread_mutex_unlock(&g->lock);
	keyfile_free(old);
	if (!err)
		*closed_out = n;
	return err;
}
