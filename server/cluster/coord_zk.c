/* SPDX-License-Identifier: BSD-3-Clause */
/* The coordinator in ZooKeeper, by the single-threaded libzookeeper_st. */
#include "config.h"

#include "coord.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "common/proto/clustermap.h"

#define SCHEME "zk://"
#define URL_MAX 512u
#define PATH_MAX_BYTES (2 * URL_MAX)
#define READ_PAUSE_NS (100 * NS_PER_MS) /* of coord_read() */
#define NO_CLUSTER "there is no cluster at %s: make it by kvcli cluster init"

/* "HOSTS" and "/PATH" of a URL, in one buffer. */
struct place {
	char hosts[URL_MAX];
	char path[URL_MAX];
};

static int place_of(const char *url, struct place *out)
{
	const char *hosts = url + strlen(SCHEME), *path;

	if (strncmp(url, SCHEME, strlen(SCHEME)) != 0 || strlen(url) >= URL_MAX)
		return err_set(FARKV_EINVAL, "'%s' is no zk://HOST:PORT[,HOST:PORT]/PATH", url);
	path = strchr(hosts, '/');
	if (!path || path == hosts || !path[1] || path[strlen(path) - 1] == '/' || strstr(path, "//"))
		return err_set(FARKV_EINVAL,
			       "'%s' is no zk://HOST:PORT[,HOST:PORT]/PATH: the path names the cluster, "
			       "such as /farkv/prod", url);
	for (const char *p = hosts; *p; p++)
		if (*p <= ' ' || *p > '~')
			return err_set(FARKV_EINVAL, "'%s' has blanks or other characters than ASCII", url);
	snprintf(out->hosts, sizeof(out->hosts), "%.*s", (int)(path - hosts), hosts);
	snprintf(out->path, sizeof(out->path), "%s", path);
	return 0;
}

#ifdef HAVE_ZOOKEEPER

#include <zookeeper/zookeeper.h>

struct coord {
	struct coord_config cfg;
	struct place place;
	char node[PATH_MAX_BYTES], members_path[URL_MAX + 16], map_path[URL_MAX + 16];
	zhandle_t *zh;
	uint64_t retry_ns; /* no new handle before this */
	bool running;      /* a round */
	bool registered;
	bool failed; /* the round that runs */
	struct coord_view view;
	char map[CLUSTERMAP_TEXT_MAX];
	char last_error[2 * URL_MAX];
};

int coord_check(const char *url)
{
	struct place p;

	return place_of(url, &p);
}

/* ---- the connection ------------------------------------------------------------------------ */

static void on_log(const char *line)
{
	log_debug("zookeeper: %s", line);
}

/* Required, but states are asked for. */
static void on_watch(zhandle_t *zh, int type, int state, const char *path, void *ctx)
{
	(void)zh;
	(void)type;
	(void)state;
	(void)path;
	(void)ctx;
}

static void connect_again(struct coord *c)
{
	c->zh = zookeeper_init2(c->place.hosts, on_watch, (int)c->cfg.session_ms, NULL, c, 0, on_log);
	c->retry_ns = clock_now_ns() + NS_PER_SEC;
	if (!c->zh)
		snprintf(c->last_error, sizeof(c->last_error), "cannot connect to %s: %.100s", c->place.hosts,
			 strerror(errno));
}

/* The session is over, and so is the registration. */
static void drop(struct coord *c)
{
	zhandle_t *zh = c->zh;

	c->zh = NULL;
	c->registered = false;
	if (zh)
		zookeeper_close(zh); /* ends a round by its callbacks */
	c->running = false;
}

int coord_open(const struct coord_config *cfg, struct coord **out)
{
	struct coord *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return err_set(FARKV_ENOMEM, "no memory for the connection to ZooKeeper");
	c->cfg = *cfg;
	err = place_of(cfg->url, &c->place);
	if (err) {
		free(c);
		return err;
	}
	snprintf(c->map_path, sizeof(c->map_path), "%s/map", c->place.path);
	snprintf(c->members_path, sizeof(c->members_path), "%s/members", c->place.path);
	snprintf(c->node, sizeof(c->node), "%s/%s", c->members_path, cfg->name);
	zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);
	connect_again(c);
	*out = c;
	return 0;
}

void coord_close(struct coord *c, bool leave)
{
	/* Reachable until the process ends: a closed session would end the registration at once. */
	static struct coord *left;

	if (!c)
		return;
	if (!leave) {
		left = c;
		log_debug("the registration of %s ends by itself", left->cfg.name);
		return;
	}
	drop(c);
	free(c);
}

void coord_wants(struct coord *c, struct pollfd *p, int *ms_out)
{
	struct timeval tv = {0};
	int fd = -1, events = 0, rc;

	*p = (struct pollfd){.fd = -1};
	*ms_out = 100;
	if (!c->zh)
		return;
	rc = zookeeper_interest(c->zh, &fd, &events, &tv);
	if (rc != ZOK)
		snprintf(c->last_error, sizeof(c->last_error), "%s", zerror(rc));
	if (fd < 0)
		return;
	p->fd = fd;
	p->events = (short)((events & ZOOKEEPER_READ ? POLLIN : 0) |
			    (events & ZOOKEEPER_WRITE ? POLLOUT : 0));
	*ms_out = (int)UTIL_MIN((uint64_t)tv.tv_sec * 1000 + (uint64_t)tv.tv_usec / 1000,
				(uint64_t)1000);
}

void coord_process(struct coord *c, short revents)
{
	int events = 0, rc, state;

	if (!c->zh) {
		if (clock_now_ns() >= c->retry_ns)
			connect_again(c);
		return;
	}
	if (revents & (POLLIN | POLLERR | POLLHUP))
		events |= ZOOKEEPER_READ;
	if (revents & POLLOUT)
		events |= ZOOKEEPER_WRITE;
	rc = zookeeper_process(c->zh, events);
	if (rc != ZOK && rc != ZNOTHING)
		snprintf(c->last_error, sizeof(c->last_error), "%s", zerror(rc));
	state = zoo_state(c->zh);
	if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE) {
		log_warn("cluster: ZooKeeper has ended the session of %s", c->cfg.name);
		drop(c);
	}
}

const char *coord_last_error(const struct coord *c)
{
	return c->last_error;
}

uint32_t coord_session_ms(const struct coord *c)
{
	return c->zh ? (uint32_t)zoo_recv_timeout(c->zh) : 0;
}

/* ---- rounds -------------------------------------------------------------------------------- */

static struct coord *of(const void *data)
{
	struct coord *c;

	memcpy(&c, &data, sizeof(c));
	return c;
}

static void note_no_cluster(struct coord *c)
{
	snprintf(c->last_error, sizeof(c->last_error), NO_CLUSTER, c->place.path);
}

static void on_members(int rc, const struct String_vector *names, const void *data)
{
	struct coord *c = of(data);
	const char *members[CLUSTERMAP_SERVERS_MAX * 2];

	c->running = false;
	if (rc != ZOK || c->failed)
		return;
	c->last_error[0] = '\0';
	c->view.registered = c->registered;
	c->view.map = c->map;
	c->view.members = members;
	c->view.n_members = UTIL_MIN((size_t)names->count, ARRAY_SIZE(members));
	for (size_t i = 0; i < c->view.n_members; i++)
		members[i] = names->data[i];
	c->cfg.viewed(c->cfg.arg, &c->view);
}

static void on_map(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
	struct coord *c = of(data);

	if (rc != ZOK || len < 0 || (size_t)len > sizeof(c->map)) {
		c->failed = true;
		if (rc == ZNONODE)
			note_no_cluster(c);
		return;
	}
	memcpy(c->map, value, (size_t)len);
	c->view.map_len = (size_t)len;
	c->view.map_version = stat->version;
}

static void on_renewed(int rc, const struct Stat *stat, const void *data)
{
	struct coord *c = of(data);

	(void)stat;
	c->registered = rc == ZOK;
	c->failed = rc != ZOK;
}

/* The registration may be one of this session, whose making was not answered. */
static void on_owner(int rc, const struct Stat *stat, const void *data)
{
	struct coord *c = of(data);

	if (rc == ZOK && c->zh && stat->ephemeralOwner == zoo_client_id(c->zh)->client_id)
		c->registered = true;
	else if (rc == ZOK)
		snprintf(c->last_error, sizeof(c->last_error),
			 "%s is registered already: waiting for the end of that registration", c->cfg.name);
}

static void on_created(int rc, const char *value, const void *data)
{
	struct coord *c = of(data);

	(void)value;
	c->registered = rc == ZOK;
	c->failed = rc != ZOK;
	if (rc == ZNONODE)
		note_no_cluster(c);
	if (rc == ZNODEEXISTS && c->zh)
		(void)zoo_aexists(c->zh, c->node, 0, on_owner, c);
}

bool coord_round(struct coord *c)
{
	int rc;

	if (c->running || !c->zh || zoo_state(c->zh) != ZOO_CONNECTED_STATE)
		return false;
	c->failed = false;
	c->view = (struct coord_view){.as_of_ns = clock_now_ns()};
	rc = c->registered ? zoo_aset(c->zh, c->node, "", 0, -1, on_renewed, c) :
			     zoo_acreate(c->zh, c->node, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL,
					 on_created, c);
	if (rc == ZOK)
		rc = zoo_aget(c->zh, c->map_path, 0, on_map, c);
	if (rc == ZOK)
		rc = zoo_aget_children(c->zh, c->members_path, 0, on_members, c);
	c->running = rc == ZOK;
	return c->running;
}

static void on_replaced(int rc, const struct Stat *stat, const void *data)
{
	(void)stat;
	(void)data;
	if (rc != ZOK && rc != ZBADVERSION)
		log_warn("cluster: the map could not be replaced: %s", zerror(rc));
}

void coord_replace_map(struct coord *c, const char *text, size_t len, int32_t version)
{
	if (c->zh)
		(void)zoo_aset(c->zh, c->map_path, text, (int)len, version, on_replaced, c);
}

/* ---- a new cluster ------------------------------------------------------------------------- */

struct making {
	int waits; /* answers */
	int map_rc, worst;
};

static void on_made(int rc, const char *value, const void *data)
{
	struct making *m;

	(void)value;
	memcpy(&m, &data, sizeof(m));
	m->waits--;
	m->map_rc = rc; /* the map's answer is the last */
	if (rc != ZOK && rc != ZNODEEXISTS)
		m->worst = rc;
}

static void create(struct coord *c, struct making *m, const char *path, const char *text, size_t len)
{
	if (zoo_acreate(c->zh, path, text, (int)len, &ZOO_OPEN_ACL_UNSAFE, 0, on_made, m) == ZOK)
		m->waits++;
}

/* All folders, then the members' one, then the map: it is there only if the others are. */
static void create_all(struct coord *c, struct making *m, const char *text, size_t len)
{
	char path[URL_MAX];

	for (const char *at = c->place.path; (at = strchr(at + 1, '/'));) {
		snprintf(path, sizeof(path), "%.*s", (int)(at - c->place.path), c->place.path);
		create(c, m, path, "", 0);
	}
	create(c, m, c->place.path, "", 0);
	create(c, m, c->members_path, "", 0);
	create(c, m, c->map_path, text, len);
}

/* ---- one program's questions --------------------------------------------------------------- */

/* Go on for a moment. */
static void step(struct coord *c)
{
	struct pollfd p;
	int wait;

	coord_wants(c, &p, &wait);
	(void)poll(&p, 1, UTIL_MIN(wait, 100));
	coord_process(c, p.revents);
}

static int silent(const struct coord *c)
{
	return err_set(FARKV_ETIMEDOUT, "ZooKeeper at %s does not answer%s%s", c->place.hosts,
		       c->last_error[0] ? ": " : "", c->last_error);
}

static int refused(const struct coord *c, int rc)
{
	if (rc == ZNONODE)
		return err_set(FARKV_ENOTFOUND, NO_CLUSTER, c->place.path);
	return err_set(FARKV_ESYS, "ZooKeeper at %s: %s", c->place.hosts, zerror(rc));
}

static int await_connection(struct coord *c, uint64_t end)
{
	while (!c->zh || zoo_state(c->zh) != ZOO_CONNECTED_STATE) {
		if (clock_now_ns() >= end)
			return silent(c);
		step(c);
	}
	return 0;
}

/* coord_open(), and wait until it is connected. */
static int open_now(const char *url, uint64_t end, struct coord **out)
{
	struct coord_config cfg = {.url = url, .name = "-", .session_ms = 5000};
	struct coord *c;
	int err = coord_open(&cfg, &c);

	if (err)
		return err;
	err = await_connection(c, end);
	if (err)
		coord_close(c, true);
	else
		*out = c;
	return err;
}

/* Wait until no answer is missing. */
static int await_answers(struct coord *c, const int *waits, uint64_t end)
{
	while (*waits > 0) {
		if (clock_now_ns() >= end)
			return silent(c);
		step(c);
	}
	return 0;
}

int coord_make(const char *url, const char *text, size_t len, int ms)
{
	uint64_t end = clock_now_ns() + (uint64_t)ms * NS_PER_MS;
	struct making m = {0};
	struct coord *c;
	int err = open_now(url, end, &c);

	if (err)
		return err;
	create_all(c, &m, text, len);
	err = await_answers(c, &m.waits, end);
	if (m.worst)
		err = refused(c, m.worst);
	else if (!err && m.map_rc == ZNODEEXISTS)
		err = err_set(FARKV_EEXISTS, "%s is there already", url);
	coord_close(c, true);
	return err;
}

/* What one look has found: copies. */
struct look {
	int waits, worst;
	struct coord_view view;
	char map[CLUSTERMAP_TEXT_MAX];
	char name[CLUSTERMAP_SERVERS_MAX * 2][CLUSTERMAP_NAME_MAX + 1];
	const char *members[CLUSTERMAP_SERVERS_MAX * 2];
};

static struct look *look_of(const void *data)
{
	struct look *l;

	memcpy(&l, &data, sizeof(l));
	return l;
}

static void on_look_map(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
	struct look *l = look_of(data);

	l->waits--;
	if (rc == ZOK && (len < 0 || (size_t)len > sizeof(l->map)))
		rc = ZBADARGUMENTS;
	if (rc != ZOK) {
		l->worst = rc;
		return;
	}
	memcpy(l->map, value, (size_t)len);
	l->view.map = l->map;
	l->view.map_len = (size_t)len;
	l->view.map_version = stat->version;
}

static void on_look_members(int rc, const struct String_vector *names, const void *data)
{
	struct look *l = look_of(data);
	size_t n = 0;

	l->waits--;
	if (rc != ZOK) {
		l->worst = rc;
		return;
	}
	for (int i = 0; i < names->count && n < ARRAY_SIZE(l->members); i++) {
		if (strlen(names->data[i]) > CLUSTERMAP_NAME_MAX)
			continue;
		strcpy(l->name[n], names->data[i]);
		l->members[n] = l->name[n];
		n++;
	}
	l->view.members = l->members;
	l->view.n_members = n;
}

static int look(struct coord *c, struct look *l, int ms)
{
	uint64_t end = clock_now_ns() + (uint64_t)ms * NS_PER_MS;
	int err = await_connection(c, end);

	if (err)
		return err;
	memset(l, 0, sizeof(*l));
	l->view.as_of_ns = clock_now_ns();
	if (zoo_aget(c->zh, c->map_path, 0, on_look_map, l) == ZOK)
		l->waits++;
	if (l->waits && zoo_aget_children(c->zh, c->members_path, 0, on_look_members, l) == ZOK)
		l->waits++;
	else
		l->worst = ZCONNECTIONLOSS;
	err = await_answers(c, &l->waits, end);
	return err ? err : l->worst ? refused(c, l->worst) : 0;
}

int coord_read(const char *url, int ms, bool (*read)(void *arg, const struct coord_view *v), void *arg)
{
	struct look *l = malloc(sizeof(*l));
	struct coord *c = NULL;
	bool again = true;
	int err;

	if (!l)
		return err_set(FARKV_ENOMEM, "no memory for a cluster's map");
	err = open_now(url, clock_now_ns() + (uint64_t)ms * NS_PER_MS, &c);
	while (!err && again) {
		uint64_t next = clock_now_ns() + READ_PAUSE_NS;

		err = look(c, l, ms);
		again = !err && read(arg, &l->view);
		while (again && clock_now_ns() < next)
			step(c);
	}
	coord_close(c, true); /* before `l`, which answers may still name */
	free(l);
	return err;
}

struct setting {
	int waits, rc;
};

static void on_set(int rc, const struct Stat *stat, const void *data)
{
	struct setting *s;

	(void)stat;
	memcpy(&s, &data, sizeof(s));
	s->waits--;
	s->rc = rc;
}

/* One try. *again_out: the map is another by now. */
static int try_change(struct coord *c, const struct look *l, const char *text, size_t len,
		      bool *again_out)
{
	struct setting s = {.waits = 1};
	int rc = zoo_aset(c->zh, c->map_path, text, (int)len, l->view.map_version, on_set, &s);
	int err;

	if (rc != ZOK)
		return refused(c, rc);
	err = await_answers(c, &s.waits, clock_now_ns() + 10 * NS_PER_SEC);
	if (err)
		drop(c); /* ends the answer that names `s` */
	else if (s.rc == ZBADVERSION)
		*again_out = true;
	else if (s.rc != ZOK)
		err = refused(c, s.rc);
	return err;
}

int coord_change(const char *url, int ms,
		 int (*change)(void *arg, const struct coord_view *v, char *text_out, size_t *len_out),
		 void *arg)
{
	struct look *l = malloc(sizeof(*l));
	char text[CLUSTERMAP_TEXT_MAX + 1];
	struct coord *c = NULL;
	bool again = true;
	size_t len = 0;
	int err;

	if (!l)
		return err_set(FARKV_ENOMEM, "no memory for a cluster's map");
	err = open_now(url, clock_now_ns() + (uint64_t)ms * NS_PER_MS, &c);
	while (!err && again) {
		again = false;
		err = look(c, l, ms);
		if (!err)
			err = change(arg, &l->view, text, &len);
		if (!err)
			err = try_change(c, l, text, len, &again);
	}
	coord_close(c, true);
	free(l);
	return err;
}

#else

static int none(const char *url)
{
	struct place p;
	int err = place_of(url, &p);

	return err ? err :
		     err_set(FARKV_ENOTSUP, "this farkv was built without ZooKeeper (libzookeeper-st-dev)");
}

int coord_check(const char *url)
{
	return none(url);
}

int coord_open(const struct coord_config *cfg, struct coord **out)
{
	(void)out;
	return none(cfg->url);
}

void coord_close(struct coord *c, bool leave)
{
	(void)c;
	(void)leave;
}

void coord_wants(struct coord *c, struct pollfd *p, int *ms_out)
{
	(void)c;
	*p = (struct pollfd){.fd = -1};
	*ms_out = 1000;
}

void coord_process(struct coord *c, short revents)
{
	(void)c;
	(void)revents;
}

bool coord_round(struct coord *c)
{
	(void)c;
	return false;
}

void coord_replace_map(struct coord *c, const char *text, size_t len, int32_t version)
{
	(void)c;
	(void)text;
	(void)len;
	(void)version;
}

const char *coord_last_error(const struct coord *c)
{
	(void)c;
	return "";
}

uint32_t coord_session_ms(const struct coord *c)
{
	(void)c;
	return 0;
}

int coord_make(const char *url, const char *text, size_t len, int ms)
{
	(void)text;
	(void)len;
	(void)ms;
	return none(url);
}

int coord_read(const char *url, int ms, bool (*read)(void *arg, const struct coord_view *v), void *arg)
{
	(void)ms;
	(void)read;
	(void)arg;
	return none(url);
}

int coord_change(const char *url, int ms,
		 int (*change)(void *arg, const struct coord_view *v, char *text_out, size_t *len_out),
		 void *arg)
{
	(void)ms;
	(void)change;
	(void)arg;
	return none(url);
}

#endif
