/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's way from connect(2) to a mapped region, with what the input says at the
 * other end of a real socket: packets, descriptors of all kinds, superblocks, and a
 * proof of the key that is right when the input wants it to be.
 *
 * A thread plays the server: it sends what the input has planned and hangs up, so
 * that nobody waits.
 */
#include "config.h"

#include "fuzz.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <farkv.h>

#include "client/connect.h"
#include "client/mapping.h"
#include "common/proto/auth.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "seal.h"

#define REGION_BYTES (META_ALIGN + 4 * PAGE_BYTES)
#define PACKETS_MAX 3u
#define FDS_MAX 20u
#define KINDS 9u /* of descriptors */

struct plan {
	uint8_t bytes[MSG_MAX_BYTES + 16];
	size_t len;
	int fds[FDS_MAX];
	unsigned n_fds;
	bool listen_first; /* for HELLO or AUTH */
	bool prove;        /* put the proof of the key into a WELCOME */
	bool proved;       /* done */
};

static struct plan plans[PACKETS_MAX];
static unsigned n_plans;
static struct superblock sb;
static int kinds[KINDS];
static int listen_fd;
static struct uri uri;
static struct keyfile *keys;
static const struct key *key;
static const char *keys_path;
static struct fuzz_in in;
static sem_t served; /* the server has finished the plan */
static unsigned visits; /* of the client, with this input */

/* ---- the server ------------------------------------------------------------------- */

static void send_plan(int fd, const struct plan *p)
{
	union {
		struct cmsghdr align;
		uint8_t space[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} room;
	struct iovec iov = {.iov_base = (void *)(uintptr_t)p->bytes,
			    .iov_len = p->len};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};

	if (p->n_fds) {
		struct cmsghdr *c;

		memset(&room, 0, sizeof(room));
		mh.msg_control = &room;
		mh.msg_controllen = CMSG_SPACE(p->n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(p->n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), p->fds, p->n_fds * sizeof(int));
	}
	(void)!sendmsg(fd, &mh, MSG_NOSIGNAL);
}

/* As a server that has the key, if this is a WELCOME and the client said AUTH. */
static void prove(struct plan *p, const struct msg *auth, const uint8_t *nonce)
{
	struct msg m;
	struct auth_server a = {.client_nonce = auth->auth.nonce,
				.server_nonce = nonce};
	uint8_t copy[MSG_MAX_BYTES];
	size_t len;

	memcpy(copy, p->bytes, p->len < sizeof(copy) ? p->len : sizeof(copy));
	if (p->len > sizeof(copy) || msg_decode(copy, p->len, &m) ||
	    m.type != MSG_WELCOME)
		return;
	a.region_id = m.welcome.region_id;
	a.session = m.welcome.session;
	a.role = m.welcome.role;
	auth_server_tag(key, &a, m.welcome.tag);
	FUZZ_CHECK(msg_encode(&m, NULL, p->bytes, sizeof(p->bytes), &len) == 0);
	p->proved = true;
}

static void serve(int fd)
{
	static const uint8_t none[MSG_NONCE_BYTES];
	uint8_t buf[MSG_MAX_BYTES], nonce[MSG_NONCE_BYTES];
	struct msg m, challenge;

	memcpy(nonce, none, sizeof(nonce));
	for (unsigned i = 0; i < n_plans; i++) {
		struct plan *p = &plans[i];
		ssize_t n = p->listen_first ? recv(fd, buf, sizeof(buf), 0) : 0;

		/* The client sends only messages that decode. */
		if (n > 0) {
			FUZZ_CHECK(msg_decode(buf, (size_t)n, &m) == 0);
			FUZZ_CHECK(m.type == MSG_HELLO || m.type == MSG_AUTH);
			if (p->prove && m.type == MSG_AUTH)
				prove(p, &m, nonce);
		}
		if (msg_decode(p->bytes, p->len, &challenge) == 0 &&
		    challenge.type == MSG_CHALLENGE)
			memcpy(nonce, challenge.challenge.nonce, sizeof(nonce));
		send_plan(fd, p);
	}
	close(fd);
}

static void *server_main(void *arg)
{
	(void)arg;
	for (;;) {
		int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			return NULL;
		/* A displaced client connects again, and finds no server. */
		if (visits++) {
			close(fd);
			continue;
		}
		serve(fd);
		sem_post(&served);
	}
}

/* ---- plans ------------------------------------------------------------------------ */

static void plan_welcome(struct plan *p)
{
	uint8_t how = fuzz_u8(&in);
	struct msg m = {.type = MSG_WELCOME, .req = 1};

	m.welcome.session = how & 1 ? fuzz_u8(&in) : 5;
	m.welcome.role = how >> 1 & 1;
	memcpy(m.welcome.region_id, sb.region_id, sizeof(sb.region_id));
	m.welcome.region_bytes = how & 4 ? fuzz_u64(&in) : sb.region_bytes;
	m.welcome.meta_bytes = how & 8 ? fuzz_u64(&in) : sb.meta_bytes;
	m.welcome.grace_ns = sb.grace_ns;
	m.welcome.n_areas = how & 16 ? 1 + fuzz_u8(&in) % 4 : sb.heat_bytes ? 3 : 2;
	m.welcome.areas[0].bytes = m.welcome.meta_bytes;
	m.welcome.areas[1].off = m.welcome.meta_bytes;
	m.welcome.areas[1].bytes =
		m.welcome.region_bytes - m.welcome.meta_bytes;
	m.welcome.areas[2].off = m.welcome.region_bytes;
	m.welcome.areas[2].bytes = sb.heat_bytes ? sb.heat_bytes : HEAT_ALIGN;
	if (how & 32) {
		uint8_t which = fuzz_u8(&in);

		m.welcome.areas[which % 3].bytes = fuzz_u64(&in);
		if (which & 128)
			m.welcome.areas[which / 3 % 3].off = fuzz_u64(&in);
	}
	if (how & 64) {
		m.welcome.address = (const uint8_t *)"198.51.100.1:4791";
		m.welcome.address_len = 17;
	}
	FUZZ_CHECK(msg_encode(&m, NULL, p->bytes, sizeof(p->bytes), &p->len) ==
		   0);
}

static void plan_text(struct plan *p, uint8_t type)
{
	struct msg m = {.type = type, .req = 1};
	size_t n;

	m.refuse.reason = 1 + fuzz_u8(&in) % MSG_REASON_LAST;
	m.refuse.text = fuzz_bytes(&in, MSG_TEXT_MAX, &n);
	m.refuse.text_len = m.refuse.reason == MSG_REASON_AUTH ? 0 : (uint16_t)n;
	FUZZ_CHECK(msg_encode(&m, NULL, p->bytes, sizeof(p->bytes), &p->len) ==
		   0);
}

static void plan_anything(struct plan *p)
{
	uint8_t type = fuzz_u8(&in);
	size_t n;
	const uint8_t *body = fuzz_bytes(&in, 255, &n);

	if (type) {
		p->len = seal_body(p->bytes, MSG_MAX_BYTES, type, 1, body, n);
	} else {
		memcpy(p->bytes, body, n);
		p->len = n;
	}
	if (n == 255)
		p->len = sizeof(p->bytes); /* longer than any message */
}

static void plan_one(struct plan *p)
{
	uint8_t how = fuzz_u8(&in), fds = fuzz_u8(&in);

	p->listen_first = !(how & 0x80);
	p->prove = !(how & 0x40);
	p->proved = false;
	switch (how & 7) {
	case 0:
	case 1:
		plan_welcome(p);
		break;
	case 2:
	case 3: {
		struct msg m = {.type = MSG_CHALLENGE, .req = 1};

		m.challenge.nonce[0] = how;
		FUZZ_CHECK(msg_encode(&m, NULL, p->bytes, sizeof(p->bytes),
				      &p->len) == 0);
		break;
	}
	case 4:
		plan_text(p, how & 8 ? MSG_REFUSE : MSG_SHUTDOWN);
		break;
	default:
		plan_anything(p);
		break;
	}
	/* As a server does; or others, in any number. */
	p->n_fds = 0;
	if (fds == 0 && (how & 7) < 2) {
		p->fds[p->n_fds++] = kinds[0];
		p->fds[p->n_fds++] = kinds[1];
		if (sb.heat_bytes)
			p->fds[p->n_fds++] = kinds[3];
		p->fds[p->n_fds++] = kinds[0];
	}
	for (fds %= FDS_MAX + 1; p->n_fds < fds;)
		p->fds[p->n_fds++] = kinds[fuzz_u8(&in) % KINDS];
}

static void plan_superblock(uint8_t how)
{
	size_t n;
	const uint8_t *p;

	sb = (struct superblock){.meta_bytes = META_ALIGN,
				 .region_bytes = REGION_BYTES,
				 .region_id = {1, 2},
				 .hash_seed = 42,
				 .max_value = 1 << 14,
				 .max_key = 100,
				 .grace_ns = NS_PER_MS};
	if (how & 16) {
		sb.flags = REGION_CACHE;
		sb.heat_bytes = HEAT_ALIGN;
	}
	superblock_seal(&sb);
	if (how & 1) {
		uint64_t at = fuzz_u8(&in) % sizeof(sb);

		p = fuzz_bytes(&in, 16, &n);
		if (n > sizeof(sb) - at)
			n = sizeof(sb) - at;
		memcpy((uint8_t *)&sb + at, p, n);
		if (how & 2)
			superblock_seal(&sb);
	}
	FUZZ_CHECK(pwrite(kinds[0], &sb, sizeof(sb), 0) == sizeof(sb));
}

/* ---- life ----------------------------------------------------------------------------- */

static int memory(uint64_t bytes, int seals)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	FUZZ_CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
	FUZZ_CHECK(!seals || fcntl(fd, F_ADD_SEALS, seals) == 0);
	return fd;
}

/* A socket whose file is removed when the program ends. */
static char folder[64];

static void folder_remove(void)
{
	unlink(uri.path);
	rmdir(folder);
}

static void kinds_make(void)
{
	char path[64];

	kinds[0] = memory(META_ALIGN, F_SEAL_SHRINK);
	kinds[1] = memory(4 * PAGE_BYTES, F_SEAL_SHRINK);
	kinds[2] = memory(META_ALIGN, 0);
	kinds[3] = memory(4096, F_SEAL_SHRINK);
	kinds[4] = open("/dev/null", O_RDWR | O_CLOEXEC);
	kinds[5] = eventfd(0, EFD_CLOEXEC);
	kinds[6] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", kinds[1]);
	kinds[7] = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "%.60s/f", folder);
	kinds[8] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	for (unsigned i = 0; i < KINDS; i++)
		FUZZ_CHECK(kinds[i] >= 0);
	FUZZ_CHECK(ftruncate(kinds[8], META_ALIGN) == 0 && unlink(path) == 0);
}

static void start(void)
{
	static const char text[] =
		"me rw AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	const char *tmp = getenv("TMPDIR");
	pthread_t thread;

	sem_init(&served, 0, 0);
	snprintf(folder, sizeof(folder), "%.40s/farkv-XXXXXX",
		 tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	FUZZ_CHECK(mkdtemp(folder));
	kinds_make();
	keys_path = fuzz_file(text, sizeof(text) - 1);
	FUZZ_CHECK(keyfile_load(keys_path, &keys) == 0 &&
		   keyfile_first(keys, &key) == 0);
	snprintf(uri.path, sizeof(uri.path), "%.80s/s", folder);
	snprintf(uri.shown, sizeof(uri.shown), "%.80s", uri.path);
	atexit(folder_remove);
	memcpy(sa.sun_path, uri.path, sizeof(sa.sun_path));
	listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	FUZZ_CHECK(bind(listen_fd, (struct sockaddr *)&sa, sizeof(sa)) == 0);
	FUZZ_CHECK(listen(listen_fd, 1) == 0);
	FUZZ_CHECK(pthread_create(&thread, NULL, server_main, NULL) == 0);
	pthread_detach(thread);
}

static bool challenges(const struct plan *p)
{
	struct msg m;

	return msg_decode(p->bytes, p->len, &m) == 0 &&
	       m.type == MSG_CHALLENGE;
}

/*
 * The key by its name, the only key, a missing key, no file. If the server requires no
 * key the client mostly has none: otherwise no open would succeed.
 */
static void choose_key(uint8_t how)
{
	static const char *const names[] = {"", "me", "", "other"};
	bool asked = n_plans > 0 && challenges(&plans[0]);
	bool given = how >> 6 != 2 && (asked || (how & 0x20));

	snprintf(uri.keys, sizeof(uri.keys), "%s", given ? keys_path : "");
	snprintf(uri.key, sizeof(uri.key), "%s", names[how >> 6]);
}

/* The file cannot be truncated, except by a process that may end this one anyway. */
static bool lasts(int fd, bool peer_may_kill)
{
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals >= 0 && (seals & F_SEAL_SHRINK))
		return true;
	return peer_may_kill && (seals < 0 || (seals & F_SEAL_SEAL));
}

static void map(const struct connect_result *r, bool peer_may_kill)
{
	struct mapping_spec spec = {.region_bytes = r->region_bytes,
				    .meta_bytes = r->meta_bytes,
				    .grace_ns = r->grace_ns,
				    .meta_fd = r->meta_fd,
				    .data_fd = r->data_fd,
				    .heat_fd = r->heat_fd,
				    .heat_bytes = r->heat_bytes,
				    .readonly = r->readonly,
				    .peer_may_kill = peer_may_kill};
	struct mapping *m = NULL;
	volatile uint8_t sum = 0;
	const struct superblock *s;

	memcpy(spec.region_id, r->region_id, sizeof(spec.region_id));
	err_clear();
	if (mapping_get(&spec, &m)) {
		FUZZ_CHECK(!m && fuzz_detail_ok());
		return;
	}
	FUZZ_CHECK(lasts(r->meta_fd, peer_may_kill) &&
		   lasts(r->data_fd, peer_may_kill));
	FUZZ_CHECK(!r->heat_bytes || lasts(r->heat_fd, peer_may_kill));
	s = mapping_superblock(m);
	FUZZ_CHECK(s->heat_bytes == r->heat_bytes);
	for (uint64_t at = 0; at < s->region_bytes; at += 4096)
		sum = (uint8_t)(sum + mapping_base(m)[at]);
	/* A client marks any byte of it. */
	if (s->heat_bytes) {
		mapping_base(m)[s->region_bytes] = 1;
		mapping_base(m)[s->region_bytes + s->heat_bytes - 1] = 1;
	}
	mapping_put(m);
}

/* Descriptors do not pile up. */
static void check_fds(void)
{
	int fd = dup(0);

	FUZZ_CHECK(fd < 0 || fd < 64);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct connect_params p = {.uri = &uri, .name = "fuzz"};
	struct connect_result r;
	uint8_t how;

	if (!keys)
		start();
	in = fuzz_begin(data, size);
	how = fuzz_u8(&in);
	plan_superblock(how);
	p.readonly = how & 4;
	for (n_plans = 0; n_plans < PACKETS_MAX && fuzz_left(&in); n_plans++)
		plan_one(&plans[n_plans]);
	choose_key(how);
	visits = 0;
	p.deadline_ns = clock_now_ns() + 10 * NS_PER_SEC;
	err_clear();
	if (connect_open(&p, &r)) {
		FUZZ_CHECK(fuzz_detail_ok());
		sem_wait(&served);
		check_fds();
		return 0;
	}
	FUZZ_CHECK(r.meta_fd > 2 && r.data_fd > 2 && r.meta_fd != r.data_fd);
	FUZZ_CHECK(r.session && memchr(r.writers, 0, sizeof(r.writers)));
	map(&r, how & 8);
	(void)mapping_tether(r.tether_fd, r.peer_may_kill, &r.channel->tether);
	close(r.tether_fd);
	FUZZ_CHECK(r.heat_bytes ? r.heat_fd > 2 : r.heat_fd == -1);
	if (r.heat_bytes)
		close(r.heat_fd);
	close(r.meta_fd);
	close(r.data_fd);
	channel_close(r.channel);
	/* A server that requires a key has shown that it has the key, too. */
	sem_wait(&served);
	FUZZ_CHECK(!challenges(&plans[0]) || plans[1].proved);
	/* A client that has a key was asked for it. */
	FUZZ_CHECK(!uri.keys[0] || challenges(&plans[0]));
	check_fds();
	return 0;
}
