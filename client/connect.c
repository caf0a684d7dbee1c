/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "connect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/util.h"
#include "common/proto/auth.h"
#include "common/proto/keyfile.h"

/* Pause between attempts while the server's backlog is full. */
#define BACKLOG_PAUSE_NS (2 * NS_PER_MS)
/* Longest pause before another attempt after this client was displaced. */
#define DISPLACED_PAUSE_NS (8 * NS_PER_MS)

/* One packet with its descriptors. */
struct packet {
	uint8_t buf[MSG_MAX_BYTES];
	size_t len;
	struct channel_fds fds;
};

/* A handshake in progress. */
struct handshake {
	const struct connect_params *p;
	const char *where; /* name for messages */
	struct channel *ch;
	bool peer_may_kill;
	struct packet pk;
	struct msg m; /* the packet's */
	/* what was sent, and the key used */
	uint8_t hello[MSG_HEADER_BYTES + 64 + MSG_TEXT_MAX];
	size_t hello_len;
	struct keyfile *keys;
	const struct key *key; /* NULL: not requested */
	uint8_t server_nonce[MSG_NONCE_BYTES], client_nonce[MSG_NONCE_BYTES];
	bool behind; /* the server's map of the cluster is outdated */
};

/* ---- reaching the socket --------------------------------------------------- */

static int dial_error(const char *path, int errnum)
{
	char word[SOCKPATH_MAX + 16];
	struct stat st;

	switch (errnum) {
	case ECONNREFUSED:
		if (stat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
			return err_set(FARKV_EUNREACHABLE,
				       "%s is not a socket; give the path of "
				       "kvserver's socket",
				       path);
		/* fall through */
	case ENOENT:
	case ENOTDIR:
		return err_set(FARKV_EUNREACHABLE,
			       "no server at %s (%s): is kvserver running? "
			       "start it with: kvserver --socket %s",
			       path, strerror(errnum),
			       util_shell_word(path, word, sizeof(word)));
	case EACCES:
	case EPERM:
		return err_set_errno(FARKV_EPERM, errnum,
				     "may not connect to %s; see kvserver "
				     "--socket-mode",
				     path);
	case EPROTOTYPE:
		return err_set(FARKV_EPROTOCOL,
			       "%s is not a farkv socket: another program "
			       "listens there",
			       path);
	default:
		return err_set_errno(FARKV_ESYS, errnum,
				     "cannot connect to %s", path);
	}
}

static int dial_timeout(const char *path)
{
	return err_set(FARKV_ETIMEDOUT,
		       "the server at %s did not answer in time; is it stopped "
		       "or overloaded?",
		       path);
}

static int dial(const char *path, uint64_t deadline_ns, int *fd_out)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	size_t len = strlen(path);
	int err, fd;

	if (len >= sizeof(sa.sun_path))
		return err_set(FARKV_EURI, "the socket's path is too long");
	memcpy(sa.sun_path, path, len + 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set_errno(FARKV_ESYS, errno, "cannot make a socket");
	while (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		if (errno == EINTR)
			continue;
		/* connect(2) on a Unix socket returns EAGAIN while the backlog is full. */
		if (errno != EAGAIN) {
			err = dial_error(path, errno);
			goto err_close;
		}
		if (clock_now_ns() >= deadline_ns) {
			err = dial_timeout(path);
			goto err_close;
		}
		clock_sleep_ns(BACKLOG_PAUSE_NS);
	}
	*fd_out = fd;
	return 0;

err_close:
	close(fd);
	return err;
}

static bool peer_may_kill(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return false;
	return cred.uid == 0 || cred.uid == geteuid();
}

static int unix_open(const struct connect_params *p, struct handshake *h)
{
	int fd = -1, err = dial(p->uri->path, p->deadline_ns, &fd);

	if (err)
		return err;
	h->peer_may_kill = peer_may_kill(fd);
	h->ch = channel_unix(fd);
	return h->ch ? 0 : err_set(FARKV_ENOMEM, "no memory for a channel");
}

static int verbs_open(const struct connect_params *p, struct handshake *h)
{
	struct verbs_dial d = {.host = p->uri->host,
			       .port = p->uri->port,
			       .tuning = {.ack_timeout = p->uri->ack_timeout,
					  .tos = p->uri->tos},
			       .deadline_ns = p->deadline_ns};
	struct verbs_ctrl *link;
	int err;

	if (!xport_verbs)
		return err_set(FARKV_ENOTSUP, XPORT_VERBS_NONE);
	err = xport_verbs->ctrl_open(&d, &link);
	if (err)
		return err;
	h->ch = channel_verbs(link);
	return h->ch ? 0 : err_set(FARKV_ENOMEM, "no memory for a channel");
}

/* ---- packets --------------------------------------------------------------- */

/* Time to sleep, in ms; 0 at the deadline. */
static int ms_left(const struct connect_params *p)
{
	uint64_t now = clock_now_ns();

	if (now >= p->deadline_ns)
		return 0;
	return (int)UTIL_MIN((p->deadline_ns - now) / NS_PER_MS + 1, 1000u);
}

static void packet_close_fds(struct packet *pk)
{
	for (unsigned i = 0; i < pk->fds.n; i++)
		close(pk->fds.fd[i]);
	pk->fds.n = 0;
}

static int receive_error(const struct handshake *h)
{
	/* An earlier session's server, or a cluster's, is a kvserver and may answer next time. */
	int err = h->p->replaces || h->p->map ? FARKV_EDISCONNECTED : FARKV_EPROTOCOL;

	if (h->ch->errnum)
		return err_set_errno(err, h->ch->errnum,
				     "%s: the connection broke before the "
				     "server's answer",
				     h->where);
	if (!h->p->uri->path[0])
		return err_set(FARKV_EDISCONNECTED, "%s: %s", h->where,
			       h->ch->reason);
	return err_set(err, "%s: closed without an answer; is that a kvserver?", h->where);
}

static int packet_decode(struct handshake *h)
{
	char why[300];
	int err;

	if (h->pk.fds.cut && h->pk.fds.n < CHANNEL_FDS_MAX)
		return err_set(FARKV_ESYS,
			       "%s: no descriptors left for what the server "
			       "sent; close some, or raise ulimit -n",
			       h->where);
	if (h->pk.fds.cut || h->pk.len > sizeof(h->pk.buf))
		return err_set(FARKV_EPROTOCOL,
			       "%s: the answer is larger than any farkv "
			       "message; is that a kvserver?",
			       h->where);
	err = msg_decode(h->pk.buf, h->pk.len, &h->m);
	if (!err)
		return 0;
	strncpy(why, err_detail(), sizeof(why) - 1);
	why[sizeof(why) - 1] = '\0';
	return err_set(FARKV_EPROTOCOL,
		       "%s does not speak this version of the farkv protocol: "
		       "%s",
		       h->where, why);
}

/* Receive the next message into h->m. */
static int packet_receive(struct handshake *h)
{
	for (;;) {
		ssize_t n = channel_receive(h->ch, h->pk.buf, sizeof(h->pk.buf),
					    &h->pk.fds);
		int ms;

		if (n > 0) {
			h->pk.len = (size_t)n;
			return packet_decode(h);
		}
		if (n == 0)
			return receive_error(h);
		ms = ms_left(h->p);
		if (ms == 0)
			return dial_timeout(h->where);
		channel_wait_message(h->ch, ms);
	}
}

static int packet_send(struct handshake *h, const void *buf, size_t len)
{
	for (;;) {
		int ms, rc = channel_send(h->ch, buf, len);

		/* The server's last message contains the reason. */
		if (rc == 0 || rc == EPIPE || rc == ECONNRESET)
			return 0;
		if (rc != EAGAIN)
			return err_set_errno(FARKV_EPROTOCOL, rc,
					     "%s: the server hung up at once",
					     h->where);
		ms = ms_left(h->p);
		if (ms == 0)
			return dial_timeout(h->where);
		channel_wait_room(h->ch, ms);
	}
}

/* ---- HELLO and AUTH ---------------------------------------------------------- */

static int hello_send(struct handshake *h)
{
	const struct connect_params *p = h->p;
	struct msg m = {.type = MSG_HELLO, .req = 1};
	int err;

	m.hello.role = p->readonly ? MSG_ROLE_RO : MSG_ROLE_RW;
	m.hello.pid = (uint32_t)getpid();
	m.hello.replaces = p->replaces;
	memcpy(m.hello.replaces_region, p->replaces_region,
	       sizeof(m.hello.replaces_region));
	m.hello.map = p->map;
	m.hello.server = p->server;
	m.hello.name = (const uint8_t *)p->name;
	if (p->name)
		m.hello.name_len = (uint16_t)strnlen(p->name, MSG_TEXT_MAX);
	err = msg_encode(&m, NULL, h->hello, sizeof(h->hello), &h->hello_len);
	return err ? err : packet_send(h, h->hello, h->hello_len);
}

static int key_find(struct handshake *h)
{
	const struct uri *u = h->p->uri;
	int err;

	if (!u->keys[0])
		return err_set(FARKV_EPERM,
			       "the server at %s asks for a key: give its file by "
			       "--keys, $FARKV_KEYS, or as %s://...?keys=FILE "
			       "(kvcli keygen makes keys, the server's --keys "
			       "takes them)",
			       h->where, u->path[0] ? "shm" : "kv");
	err = keyfile_load(u->keys, &h->keys);
	if (err)
		return err;
	if (!u->key[0])
		return keyfile_first(h->keys, &h->key);
	h->key = keyfile_find(h->keys, u->key, strlen(u->key));
	if (h->key)
		return 0;
	return err_set(FARKV_EINVAL, "%s holds no key of the name '%s'", u->keys,
		       u->key);
}

static int auth_send(struct handshake *h)
{
	struct msg m = {.type = MSG_AUTH, .req = 1};
	struct auth_client in = {
		.server_nonce = h->server_nonce,
		.client_nonce = h->client_nonce,
		.hello = h->hello + MSG_HEADER_BYTES,
		.hello_len = (uint16_t)(h->hello_len - MSG_HEADER_BYTES),
		.role = h->p->readonly ? MSG_ROLE_RO : MSG_ROLE_RW};
	uint8_t buf[256];
	size_t len;
	int err;

	memcpy(h->server_nonce, h->m.challenge.nonce, sizeof(h->server_nonce));
	err = key_find(h);
	if (!err)
		err = auth_nonce(h->client_nonce);
	if (err)
		return err;
	in.name = h->key->name;
	in.name_len = h->key->name_len;
	auth_client_tag(h->key, &in, m.auth.tag);
	memcpy(m.auth.nonce, h->client_nonce, sizeof(h->client_nonce));
	m.auth.name = (const uint8_t *)h->key->name;
	m.auth.name_len = h->key->name_len;
	err = msg_encode(&m, NULL, buf, sizeof(buf), &len);
	return err ? err : packet_send(h, buf, len);
}

/* ---- the answer ------------------------------------------------------------- */

/* Copy the server's text as one printable line. */
static void text_copy(const struct msg *m, char *buf, size_t cap)
{
	size_t n = UTIL_MIN((size_t)m->refuse.text_len, cap - 1);

	for (size_t i = 0; i < n; i++) {
		uint8_t c = m->refuse.text[i];

		buf[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
	}
	buf[n] = '\0';
}

static const char *reason_text(unsigned reason)
{
	switch (reason) {
	case MSG_REASON_PROTOCOL:
		return "it does not understand this client";
	case MSG_REASON_PERMISSION:
		return "not permitted";
	case MSG_REASON_FULL:
		return "it has all the sessions it takes";
	case MSG_REASON_SHUTDOWN:
		return "the server is leaving";
	case MSG_REASON_DISPLACED:
		return "others came first";
	case MSG_REASON_CLUSTER:
		return "it is another server of the cluster, or in none";
	default:
		return "no reason given";
	}
}

static int refused(const struct handshake *h)
{
	char text[MSG_TEXT_MAX + 1];
	unsigned reason = h->m.refuse.reason;

	if (reason == MSG_REASON_AUTH)
		return err_set(FARKV_EPERM,
			       "the server at %s does not accept the key '%s': "
			       "its name or its bytes are not in the server's "
			       "--keys",
			       h->where, h->key ? h->key->name : "");
	text_copy(&h->m, text, sizeof(text));
	return err_set(reason == MSG_REASON_PERMISSION ? FARKV_EPERM :
							 FARKV_EREFUSED,
		       "the server at %s refused the session: %s", h->where,
		       text[0] ? text : reason_text(reason));
}

static int areas_check(const struct handshake *h)
{
	const struct msg *m = &h->m;
	const struct msg_area *a = m->welcome.areas;

	if (m->welcome.n_areas >= 2 && m->welcome.n_areas <= CONNECT_AREAS &&
	    a[0].off == 0 && a[0].bytes == m->welcome.meta_bytes &&
	    a[1].off == m->welcome.meta_bytes &&
	    m->welcome.region_bytes > m->welcome.meta_bytes &&
	    a[1].bytes == m->welcome.region_bytes - m->welcome.meta_bytes &&
	    (m->welcome.n_areas == 2 || (a[2].off == m->welcome.region_bytes &&
					 a[2].bytes && a[2].bytes <= a[2].off)))
		return 0;
	return err_set(FARKV_EPROTOCOL,
		       "the server at %s announced areas that do not make up "
		       "its region",
		       h->where);
}

/* Check the server's proof that it knows the key. */
static int tag_check(const struct handshake *h)
{
	const struct msg *m = &h->m;
	struct auth_server in = {.client_nonce = h->client_nonce,
				 .server_nonce = h->server_nonce,
				 .region_id = m->welcome.region_id,
				 .session = m->welcome.session,
				 .role = m->welcome.role};
	uint8_t tag[AUTH_TAG_BYTES];

	/* A client that gives a key requires the server to prove that it knows the key. */
	if (!h->key && h->p->uri->keys[0])
		return err_set(FARKV_EPERM,
			       "the server at %s did not ask for the key that "
			       "was given (%s): it may be another's; if it is to "
			       "ask for none (%s), leave out the key, and unset "
			       "FARKV_KEYS",
			       h->where, h->p->uri->keys,
			       h->p->uri->path[0] ?
				       "kvserver without --keys-on-socket" :
				       "kvserver --no-auth");
	if (!h->key)
		return 0;
	auth_server_tag(h->key, &in, tag);
	if (auth_equal(tag, m->welcome.tag))
		return 0;
	return err_set(FARKV_EPERM,
		       "the server at %s could not prove that it knows the key "
		       "'%s'",
		       h->where, h->key->name);
}

/* The server has a map that HELLO did not name. */
static int map_take(struct handshake *h)
{
	const struct connect_params *p = h->p;
	struct clustermap *map;
	char why[200];

	if (clustermap_parse("map", (const char *)h->m.map.text, h->m.map.text_len, &map)) {
		snprintf(why, sizeof(why), "%s", err_detail());
		return err_set(FARKV_EPROTOCOL, "the server at %s sent no map of a cluster: %s",
			       h->where, why);
	}
	if (p->map_out) {
		*p->map_out = map;
		return CONNECT_MAP;
	}
	h->behind = map->epoch < p->map_epoch;
	err_set(FARKV_EREFUSED,
		p->map ? "the cluster of %s has another map, of epoch %llu: open the store again" :
			 "the server at %s belongs to a cluster, whose map has epoch %llu: open "
			 "the store again",
		h->where, (unsigned long long)map->epoch);
	free(map);
	return FARKV_EREFUSED;
}

static int welcome_check(struct handshake *h)
{
	const struct msg *m = &h->m;
	unsigned fds;
	int err;

	if (m->type == MSG_REFUSE || m->type == MSG_SHUTDOWN)
		return refused(h);
	if (m->type == MSG_MAP)
		return map_take(h);
	if (m->type != MSG_WELCOME || m->welcome.session == 0)
		return err_set(FARKV_EPROTOCOL,
			       "the server at %s answered HELLO with %s",
			       h->where, msg_type_name(m->type));
	err = areas_check(h);
	if (err)
		return err;
	/* One of each area, and the tether's. */
	fds = h->p->uri->path[0] ? m->welcome.n_areas + 1 : 0;
	if (h->pk.fds.n != fds)
		return err_set(FARKV_EPROTOCOL,
			       "the server at %s sent %u descriptors instead of "
			       "%u",
			       h->where, h->pk.fds.n, fds);
	return tag_check(h);
}

static void result_fill(const struct handshake *h, struct connect_result *out)
{
	const struct connect_params *p = h->p;
	const struct msg *m = &h->m;
	bool verbs = !p->uri->path[0];
	unsigned n = m->welcome.n_areas;

	*out = (struct connect_result){
		.channel = h->ch,
		.by_verbs = verbs,
		.meta_fd = verbs ? -1 : h->pk.fds.fd[0],
		.data_fd = verbs ? -1 : h->pk.fds.fd[1],
		.heat_fd = verbs || n < 3 ? -1 : h->pk.fds.fd[2],
		.tether_fd = verbs ? -1 : h->pk.fds.fd[n],
		.session = m->welcome.session,
		.prefix = m->welcome.prefix,
		.readonly = p->readonly || m->welcome.role == MSG_ROLE_RO,
		.swept = m->welcome.swept,
		.peer_may_kill = h->peer_may_kill,
		.outlives = (m->welcome.flags & MSG_WELCOME_OUTLIVES) != 0,
		.read8_atomic =
			(m->welcome.flags & MSG_WELCOME_READ8_ATOMIC) != 0,
		.region_bytes = m->welcome.region_bytes,
		.meta_bytes = m->welcome.meta_bytes,
		.heat_bytes = n < 3 ? 0 : m->welcome.areas[2].bytes,
		.grace_ns = m->welcome.grace_ns,
	};
	memcpy(out->region_id, m->welcome.region_id, sizeof(out->region_id));
	memcpy(out->token, m->welcome.token, sizeof(out->token));
	for (unsigned i = 0; i < n; i++)
		out->areas[i] = (struct verbs_area){
			.off = m->welcome.areas[i].off,
			.bytes = m->welcome.areas[i].bytes,
			.raddr = m->welcome.areas[i].raddr,
			.rkey = m->welcome.areas[i].rkey};
	if (m->welcome.address_len)
		memcpy(out->writers, m->welcome.address,
		       m->welcome.address_len);
}

static int shake_hands(struct handshake *h)
{
	int err = hello_send(h);

	if (!err)
		err = packet_receive(h);
	if (!err && h->m.type == MSG_CHALLENGE) {
		packet_close_fds(&h->pk);
		err = auth_send(h);
		if (!err)
			err = packet_receive(h);
	}
	return err ? err : welcome_check(h);
}

static int attempt(struct handshake *h)
{
	const struct connect_params *p = h->p;
	int err = p->uri->path[0] ? unix_open(p, h) : verbs_open(p, h);

	if (err)
		return err;
	err = shake_hands(h);
	keyfile_free(h->keys);
	if (err) {
		packet_close_fds(&h->pk);
		channel_close(h->ch);
	}
	return err;
}

/*
 * True if this client was displaced, or the server does not have the newest map yet, and there is
 * time for another attempt.
 */
static bool may_come_again(const struct handshake *h)
{
	bool displaced = h->ch && h->m.type == MSG_REFUSE &&
			 h->m.refuse.reason == MSG_REASON_DISPLACED;

	return (displaced || h->behind) && ms_left(h->p) > 0;
}

static int hands(struct handshake *h, const struct connect_params *p,
		 struct connect_result *out)
{
	bool displaced = false;
	int err;

	for (;;) {
		memset(h, 0, sizeof(*h));
		h->p = p;
		h->where = p->uri->shown;
		err = attempt(h);
		if (!err || !may_come_again(h))
			break;
		displaced |= !h->behind;
		/* Spread the attempts, because other displaced clients try again, too. */
		clock_sleep_ns(clock_now_ns() % DISPLACED_PAUSE_NS);
	}
	if (!err)
		result_fill(h, out);
	if (err != FARKV_ETIMEDOUT || !displaced)
		return err;
	return err_set(FARKV_EREFUSED,
		       "the server at %s sent this client away again and again: "
		       "others came first (see kvserver --max-sessions), or "
		       "this machine is too busy to say HELLO in time",
		       h->where);
}

int connect_open(const struct connect_params *p, struct connect_result *out)
{
	/* On the heap: it holds the longest message, and the caller's stack may be small. */
	struct handshake *h = malloc(sizeof(*h));
	int err;

	if (!h)
		return err_set(FARKV_ENOMEM, "no memory to connect to %s",
			       p->uri->shown);
	err = hands(h, p, out);
	free(h);
	return err;
}
