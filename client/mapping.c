/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"

#include "channel.h"

/* A file's identity: regions with equal ids in different files are different. */
struct file_id {
	dev_t dev;
	ino_t ino;
};

struct region_files {
	struct file_id meta, data;
	struct file_id heat; /* zeros without a heat area */
};

struct mapping {
	struct mapping *next;
	uint8_t *base;
	uint64_t users;
	bool readonly;
	bool inherited; /* by fork(): nothing is mapped in this process */
	struct region_files files;
	struct superblock sb;
};

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping *cache;

/* ---- descriptors ---------------------------------------------------------- */

/* True for memfd_create(2) files, which their maker can always seal. */
static bool fd_is_memfd(int fd)
{
	char link[64], path[sizeof("/memfd:")] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (readlink(link, path, sizeof(path) - 1) < 0)
		return true; /* unknown: require the seal */
	return strcmp(path, "/memfd:") == 0;
}

static int fd_check_seal(int fd, const char *what, bool peer_may_kill)
{
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals >= 0 && (seals & F_SEAL_SHRINK))
		return 0;
	if ((seals >= 0 && !(seals & F_SEAL_SEAL)) || fd_is_memfd(fd))
		return err_set(FARKV_EFORMAT,
			       "region: the server's %s descriptor is not "
			       "sealed against shrinking; refused",
			       what);
	if (!peer_may_kill)
		return err_set(FARKV_EFORMAT,
			       "region: the server's %s file cannot be sealed "
			       "and the server runs as another user; refused",
			       what);
	return 0;
}

static int fd_check(int fd, uint64_t bytes, const char *what,
		    bool peer_may_kill, struct file_id *id_out)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set_errno(FARKV_ESYS, errno,
				     "region: cannot examine the server's %s "
				     "descriptor",
				     what);
	if (!S_ISREG(st.st_mode))
		return err_set(FARKV_EFORMAT,
			       "region: the server's %s descriptor is not "
			       "memory or a file",
			       what);
	if (st.st_size < 0 || (uint64_t)st.st_size < bytes)
		return err_set(FARKV_EFORMAT,
			       "region: the server's %s descriptor has %lld "
			       "bytes, its area claims %llu",
			       what, (long long)st.st_size,
			       (unsigned long long)bytes);
	*id_out = (struct file_id){.dev = st.st_dev, .ino = st.st_ino};
	return fd_check_seal(fd, what, peer_may_kill);
}

static int spec_check(const struct mapping_spec *s)
{
	uint64_t limit = (UINT64_C(1) << SLOT_PTR_BITS) * PTR_UNIT;

	if (s->meta_bytes == 0 || s->meta_bytes % META_ALIGN ||
	    s->meta_bytes >= s->region_bytes || s->region_bytes > limit ||
	    s->region_bytes % PAGE_BYTES || s->heat_bytes > s->region_bytes ||
	    s->heat_bytes % HEAT_ALIGN)
		return err_set(FARKV_EFORMAT,
			       "region: impossible sizes: region %llu bytes, "
			       "meta area %llu, heat area %llu",
			       (unsigned long long)s->region_bytes,
			       (unsigned long long)s->meta_bytes,
			       (unsigned long long)s->heat_bytes);
	return 0;
}

/* ---- mapping -------------------------------------------------------------- */

/*
 * One range of addresses with its base at a multiple of META_ALIGN. The meta area's length is
 * a multiple, too, so the data area can have huge pages.
 */
static int space_reserve(uint64_t bytes, uint8_t **base_out)
{
	uint64_t room = bytes + META_ALIGN;
	uint8_t *p, *base;

	p = mmap(NULL, room, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return err_set_errno(FARKV_ENOMEM, errno,
				     "no %llu bytes of address space for the "
				     "region",
				     (unsigned long long)room);
	base = (uint8_t *)(uintptr_t)util_align_up((uintptr_t)p, META_ALIGN);
	if (base > p)
		munmap(p, (size_t)(base - p));
	if (base + bytes < p + room)
		munmap(base + bytes, (size_t)(p + room - (base + bytes)));
	*base_out = base;
	return 0;
}

static int area_map(uint8_t *at, uint64_t bytes, int prot, int fd,
		    const char *what)
{
	int errnum;

	if (mmap(at, bytes, prot, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED)
		return 0;
	errnum = errno;
	return err_set_errno(errnum == EACCES || errnum == EPERM ? FARKV_EPERM :
			     errnum == ENOMEM ? FARKV_ENOMEM :
						FARKV_ESYS,
			     errnum, "region: cannot map the %s area", what);
}

/* Verify the copy: the mapping may change during the check. */
static int superblock_take(const struct mapping_spec *s, const uint8_t *base,
			   struct superblock *sb_out)
{
	struct superblock sb;
	int err;

	memcpy(&sb, base, sizeof(sb));
	err = superblock_verify(&sb);
	if (err)
		return err;
	if (memcmp(sb.region_id, s->region_id, sizeof(sb.region_id)) != 0)
		return err_set(FARKV_EFORMAT,
			       "region: its id is not the one that the server "
			       "announced");
	if (sb.region_bytes != s->region_bytes ||
	    sb.meta_bytes != s->meta_bytes || sb.grace_ns != s->grace_ns ||
	    sb.heat_bytes != s->heat_bytes)
		return err_set(FARKV_EFORMAT,
			       "region: its sizes or grace period are not those "
			       "that the server announced");
	*sb_out = sb;
	return 0;
}

static int region_map(const struct mapping_spec *s, struct mapping *m)
{
	uint64_t all = s->region_bytes + s->heat_bytes;
	int data_prot = s->readonly ? PROT_READ : PROT_READ | PROT_WRITE;
	uint8_t *base = NULL;
	int err;

	err = space_reserve(all, &base);
	if (err)
		return err;
	err = area_map(base, s->meta_bytes, PROT_READ, s->meta_fd, "meta");
	if (err)
		goto err_unmap;
	err = area_map(base + s->meta_bytes, s->region_bytes - s->meta_bytes,
		       data_prot, s->data_fd, "data");
	if (!err && s->heat_bytes)
		err = area_map(base + s->region_bytes, s->heat_bytes, PROT_READ | PROT_WRITE,
			       s->heat_fd, "heat");
	if (err)
		goto err_unmap;
	/*
	 * A child that continued to write would be a session unknown to the server (I6). A core
	 * dump that read the region would allocate all of it.
	 */
	if (madvise(base, all, MADV_DONTFORK) < 0 ||
	    madvise(base, all, MADV_DONTDUMP) < 0) {
		err = err_set_errno(FARKV_ESYS, errno,
				    "region: cannot keep it out of children "
				    "and core dumps");
		goto err_unmap;
	}
	err = superblock_take(s, base, &m->sb);
	if (err)
		goto err_unmap;
	/*
	 * On the tmpfs file of kvserver --hugepages the process that first touches a page decides
	 * by its advice whether it is huge. A failure only costs speed.
	 */
	if (!fd_is_memfd(s->data_fd))
		(void)madvise(base + s->meta_bytes,
			      s->region_bytes - s->meta_bytes, MADV_HUGEPAGE);
	m->base = base;
	return 0;

err_unmap:
	munmap(base, all);
	return err;
}

/* ---- tether --------------------------------------------------------------- */

static int tether_map(int fd, void **tether_out)
{
	int errnum;
	void *p;

	/* Writable, because the server counts only writable mappings. */
	p = mmap(NULL, CHANNEL_TETHER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
		 fd, 0);
	if (p != MAP_FAILED &&
	    madvise(p, CHANNEL_TETHER_BYTES, MADV_DONTFORK) == 0 &&
	    madvise(p, CHANNEL_TETHER_BYTES, MADV_DONTDUMP) == 0) {
		*tether_out = p;
		return 0;
	}
	errnum = errno;
	if (p != MAP_FAILED)
		munmap(p, CHANNEL_TETHER_BYTES);
	return err_set_errno(errnum == ENOMEM ? FARKV_ENOMEM : FARKV_ESYS,
			     errnum, "cannot map the session's file");
}

int mapping_tether(int fd, bool peer_may_kill, void **tether_out)
{
	struct file_id id;
	int err = fd_check(fd, CHANNEL_TETHER_BYTES, "session", peer_may_kill, &id);

	if (err)
		return err;
	/* No fork() may come in between: see mapping_fork_prepare(). */
	pthread_mutex_lock(&cache_lock);
	err = tether_map(fd, tether_out);
	pthread_mutex_unlock(&cache_lock);
	return err;
}

/* ---- cache ---------------------------------------------------------------- */

static bool same_file(struct file_id a, struct file_id b)
{
	return a.dev == b.dev && a.ino == b.ino;
}

/* A server that adopts a region uses its predecessor's files, but a heat area of its own. */
static struct mapping *cache_find(const struct mapping_spec *s, const struct region_files *f)
{
	struct mapping *m = cache;

	while (m && (m->readonly != s->readonly || !same_file(m->files.meta, f->meta) ||
		     !same_file(m->files.data, f->data) ||
		     !same_file(m->files.heat, f->heat) ||
		     m->sb.region_bytes != s->region_bytes ||
		     m->sb.meta_bytes != s->meta_bytes ||
		     m->sb.heat_bytes != s->heat_bytes ||
		     m->sb.grace_ns != s->grace_ns ||
		     memcmp(m->sb.region_id, s->region_id,
			    sizeof(s->region_id)) != 0))
		m = m->next;
	return m;
}

static int cache_add(const struct mapping_spec *s, const struct region_files *f,
		     struct mapping **map_out)
{
	struct mapping *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return err_set(FARKV_ENOMEM, "no memory for a mapping");
	err = region_map(s, m);
	if (err) {
		free(m);
		return err;
	}
	m->users = 1;
	m->readonly = s->readonly;
	m->files = *f;
	m->next = cache;
	cache = m;
	*map_out = m;
	return 0;
}

int mapping_get(const struct mapping_spec *spec, struct mapping **map_out)
{
	struct region_files f = {0};
	struct mapping *m;
	int err;

	err = spec_check(spec);
	if (!err)
		err = fd_check(spec->meta_fd, spec->meta_bytes, "meta",
			       spec->peer_may_kill, &f.meta);
	if (!err)
		err = fd_check(spec->data_fd,
			       spec->region_bytes - spec->meta_bytes, "data",
			       spec->peer_may_kill, &f.data);
	if (!err && spec->heat_bytes)
		err = fd_check(spec->heat_fd, spec->heat_bytes, "heat", spec->peer_may_kill,
			       &f.heat);
	if (err)
		return err;

	pthread_mutex_lock(&cache_lock);
	m = cache_find(spec, &f);
	if (m) {
		m->users++;
		*map_out = m;
	} else {
		err = cache_add(spec, &f, map_out);
	}
	pthread_mutex_unlock(&cache_lock);
	return err;
}

struct mapping *mapping_hold(struct mapping *map)
{
	pthread_mutex_lock(&cache_lock);
	map->users++;
	pthread_mutex_unlock(&cache_lock);
	return map;
}

void mapping_put(struct mapping *map)
{
	bool last;

	if (!map)
		return;
	pthread_mutex_lock(&cache_lock);
	last = --map->users == 0;
	if (last && !map->inherited) {
		struct mapping **at = &cache;

		while (*at != map)
			at = &(*at)->next;
		*at = map->next;
		munmap(map->base, map->sb.region_bytes + map->sb.heat_bytes);
	}
	pthread_mutex_unlock(&cache_lock);
	if (last)
		free(map);
}

uint8_t *mapping_base(const struct mapping *map)
{
	return map->base;
}

const struct superblock *mapping_superblock(const struct mapping *map)
{
	return &map->sb;
}

/* ---- fork ----------------------------------------------------------------- */

void mapping_fork_prepare(void)
{
	pthread_mutex_lock(&cache_lock);
}

void mapping_fork_parent(void)
{
	pthread_mutex_unlock(&cache_lock);
}

void mapping_fork_child(void)
{
	/* The child has no pages there; the addresses may be reused. */
	for (struct mapping *m = cache; m; m = m->next)
		m->inherited = true;
	cache = NULL;
	pthread_mutex_unlock(&cache_lock);
}
