/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "region.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/atomic.h"
#include "common/base/err.h"
#include "common/base/proc.h"
#include "common/base/util.h"
#include "memlimit.h"
#include "prefault.h"
#include "region_file.h"
#include "reserve.h"
#include "step.h"

/*
 * Versions begin with the session's number. A client may remember a version of a store that is
 * gone, so another store begins with other numbers. This mask keeps versions below 2^53,
 * which every JSON reader represents exactly, for a million sessions.
 */
#define FIRST_ID_MASK 0xFFFFFu

/*
 * Directory arrays double, and each has its own place: 2^(d+1) entries in all. A region
 * full of subtables needs 2^d >= their number, times 2 for skew.
 */
static uint64_t meta_size(uint64_t pages, uint32_t sessions)
{
	uint64_t entries = 1;

	while (entries < pages * 2)
		entries *= 2;
	return util_align_up(REGION_DIR_OFF + entries * 2 * 8 +
				     region_tables_bytes(pages, sessions),
			     META_ALIGN);
}

static int meta_map(struct region *r)
{
	void *p = mmap(NULL, r->sb.meta_bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_NORESERVE, r->meta_fd, 0);

	if (p == MAP_FAILED)
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot map the region's metadata");
	r->meta = p;
	return 0;
}

static int meta_file(struct region *r, const struct region_file *f)
{
	r->meta_fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
	if (r->meta_fd < 0 || (!f->found && (ftruncate(r->meta_fd, 0) ||
					     ftruncate(r->meta_fd, (off_t)r->sb.meta_bytes))))
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot create the region's metadata");
	/* Clients cannot truncate it. A later server must map it for writing. */
	if (f->stored && !f->found &&
	    fcntl(r->meta_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return err_set_errno(FARKV_ESYS, errno, "cannot seal the region's metadata");
	return meta_map(r);
}

static int sealed_meta(struct region *r)
{
	int err;

	r->meta_fd = memfd_create("farkv-meta", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (r->meta_fd < 0 || ftruncate(r->meta_fd, (off_t)r->sb.meta_bytes) ||
	    fchmod(r->meta_fd, 0600))
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot create the region's metadata");
	err = meta_map(r);
	if (err)
		return err;
	/* Our mapping stays writable; no other writable one can be made from here on. */
	if (fcntl(r->meta_fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE |
			  F_SEAL_SEAL))
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot seal the region's metadata");
	return 0;
}

/* Pages of it take memory when they are first written; all of them at once if a device pins it. */
static int heat_create(struct region *r, bool pinned)
{
	uint64_t bytes = r->sb.heat_bytes;

	if (!bytes)
		return 0;
	r->heat_fd = memfd_create("farkv-heat", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (r->heat_fd < 0 || ftruncate(r->heat_fd, (off_t)bytes) || fchmod(r->heat_fd, 0600) ||
	    fcntl(r->heat_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return err_set_errno(FARKV_ESYS, errno, "cannot create the region's heat area");
	if (pinned && fallocate(r->heat_fd, 0, 0, (off_t)bytes))
		return err_set_errno(FARKV_ENOMEM, errno,
				     "no memory for the region's heat area (%" PRIu64 " bytes)",
				     bytes);
	r->heat = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		       r->heat_fd, 0);
	if (r->heat == MAP_FAILED) {
		r->heat = NULL;
		return err_set_errno(FARKV_ESYS, errno, "cannot map the region's heat area");
	}
	return 0;
}

static int dir_error(void)
{
	return err_set_errno(FARKV_ENOMEM, errno,
			     "no memory for the region's metadata");
}

bool region_dir_reserve(const struct region *r, uint32_t depth)
{
	uint64_t bytes = UINT64_C(8) << depth;

	return fallocate(r->meta_fd, 0, (off_t)region_dir_off(depth), (off_t)bytes) == 0;
}

static int reopen_readonly(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int index_depth(const struct region_config *cfg, uint64_t pages,
		       uint32_t *depth_out)
{
	uint32_t depth = 0;

	while ((UINT64_C(1) << depth) * SUBTABLE_SLOTS < cfg->index_slots)
		if (++depth > 40)
			break;
	if ((UINT64_C(2) << depth) > pages)
		return err_set(FARKV_EINVAL,
			       "index-slots: %" PRIu64
			       " slots need more than half of the memory; "
			       "give more memory or fewer slots",
			       cfg->index_slots);
	*depth_out = depth;
	return 0;
}

int region_check(const struct region_config *cfg)
{
	uint32_t depth;

	return index_depth(cfg, cfg->memory / PAGE_BYTES, &depth);
}

static uint32_t deepest(const struct superblock *sb)
{
	uint32_t depth = 0;

	while (region_dir_off(depth + 2) <= sb->session_table_off && depth < DIR_DEPTH_MAX)
		depth++;
	return depth;
}

static int index_create(struct region *r)
{
	uint64_t *array = region_dir(r);
	uint64_t *d = (uint64_t *)(void *)(r->meta + REGION_D_OFF);

	r->subtables = UINT64_C(1) << r->depth;
	for (uint64_t i = 0; i < r->subtables; i++) {
		uint32_t gen = region_next_gen(r);
		uint64_t page = heap_take_index(r->heap);
		uint64_t *slot;

		if (!page)
			return FARKV_ENOMEM;
		slot = region_at(r, page * PAGE_BYTES);
		for (unsigned s = 0; s < SUBTABLE_SLOTS; s++)
			slot[s] = slot_empty(gen);
		array[i] = entry_pack(page, gen, r->depth);
	}
	*d = dirword_pack(region_dir_off(r->depth), r->depth);
	return 0;
}

uint32_t region_next_gen(struct region *r)
{
	r->last_gen = (r->last_gen + 1) & SLOT_GEN_MASK;
	if (r->last_gen == 0)
		r->last_gen = 1;
	region_state(r)->last_gen = r->last_gen;
	return r->last_gen;
}

void region_dir_double(struct region *r)
{
	const uint64_t *from = region_dir(r);
	uint64_t *d = (uint64_t *)(void *)(r->meta + REGION_D_OFF);
	uint64_t n = UINT64_C(1) << r->depth, *to;

	r->depth++;
	to = region_dir(r);
	for (uint64_t i = 0; i < n; i++)
		to[2 * i] = to[2 * i + 1] = from[i];
	step_reached(STEP_DOUBLE);
	atom_store_publish(d, dirword_pack(region_dir_off(r->depth), r->depth));
	step_reached(STEP_DOUBLED);
}

void region_redo_set(struct region *r, const struct region_redo *redo)
{
	struct region_redo *at = &region_state(r)->redo;

	at->hash = redo->hash;
	at->fresh[0] = redo->fresh[0];
	at->fresh[1] = redo->fresh[1];
	atom_store_publish(&at->old, redo->old);
	atom_compiler_barrier();
}

void region_redo_clear(struct region *r)
{
	atom_store_publish(&region_state(r)->redo.old, 0);
	atom_compiler_barrier();
}

bool region_walk_next(const struct region *r, struct region_walk *w,
		      uint64_t *entry_out, uint64_t *hash_out)
{
	uint64_t entry, range;

	if (w->over)
		return false;
	entry = region_entry(r, w->hash);
	*entry_out = entry;
	*hash_out = w->hash;
	range = entry_depth(entry) ? UINT64_C(1) << (64 - entry_depth(entry)) : 0;
	w->hash += range;
	w->over = w->hash == 0; /* after the last */
	return true;
}

/*
 * A byte for each slot of an index that takes an eighth of the region: subtables lie side by side
 * at its end. In a larger index some slots share a byte, so that a use of one key counts for two.
 */
static uint64_t heat_size(uint64_t region_bytes)
{
	uint64_t bytes = PAGE_BYTES;

	while (bytes * SLOT_BYTES * 8 < region_bytes)
		bytes *= 2;
	return bytes;
}

static int superblock_create(struct region *r, const struct region_config *cfg,
			     uint64_t pages)
{
	struct superblock *sb = &r->sb;

	sb->session_count = cfg->sessions;
	sb->meta_bytes = meta_size(pages, cfg->sessions);
	sb->region_bytes = sb->meta_bytes + pages * PAGE_BYTES;
	if (cfg->cache) {
		sb->flags = REGION_CACHE;
		sb->heat_bytes = heat_size(sb->region_bytes);
	}
	sb->max_value = cfg->max_value;
	sb->max_key = cfg->max_key;
	sb->grace_ns = cfg->grace_ns;
	sb->created_s = (uint64_t)time(NULL);
	if (getrandom(sb->region_id, sizeof(sb->region_id), 0) < 0 ||
	    getrandom(&sb->hash_seed, sizeof(sb->hash_seed), 0) < 0)
		return err_set_errno(FARKV_ESYS, errno, "no random numbers");
	superblock_seal(sb);
	r->max_depth = deepest(sb);
	return superblock_verify(sb);
}

static int data_create(struct region *r, const struct region_config *cfg, uint64_t bytes)
{
	struct pages p = {.fd = -1};
	bool named = cfg->file && (cfg->file->found || !cfg->file->stored);
	int err = named ? region_file_data(cfg->file, bytes, &p.fd) :
			  pages_create(bytes, cfg->pages, &p);

	if (!err && named)
		err = pages_of_file(p.fd, bytes, &p);
	if (err)
		return err;
	if (cfg->file)
		cfg->file->data_fd = p.fd;
	r->data_fd = p.fd;
	r->data = p.map;
	r->reserve = reserve_new(p.fd, !p.there);
	if (!r->reserve)
		return err_set(FARKV_ENOMEM, "no memory for the region");
	memcpy(r->pages_note, p.note, sizeof(r->pages_note));
	static_assert(sizeof(r->pages_note) == sizeof(p.note), "it fits");
	return 0;
}

/* Not inherited by children, nor in core dumps, which would allocate every hole. */
static void keep_to_itself(void *map, uint64_t bytes)
{
	(void)madvise(map, bytes, MADV_DONTFORK);
	(void)madvise(map, bytes, MADV_DONTDUMP);
}

static void on_spread(void *arg, uint64_t low, uint64_t high)
{
	prefault_used(arg, low * PAGE_BYTES, high * PAGE_BYTES);
}

static uint64_t back(void *arg, uint64_t at, uint64_t n, uint64_t more)
{
	return reserve_bytes(arg, at * PAGE_BYTES, n * PAGE_BYTES,
			     more * PAGE_BYTES) / PAGE_BYTES;
}

/* A device pins all of the region, so this memory must be available. */
static int pinned_fits(const struct region *r)
{
	char a[24], b[24];
	uint64_t bytes = r->sb.region_bytes + r->sb.heat_bytes;
	struct room room;

	memlimit_read("", &room);
	if (bytes <= room.left)
		return 0;
	return err_set(FARKV_ENOMEM,
		       "memory: RDMA pins all of it, %s with the directory, and %s "
		       "are left of %s; give less with --memory",
		       util_format_size(bytes, a, sizeof(a)),
		       util_format_size(room.left, b, sizeof(b)), room.what);
}

static int pinned_take(const struct region *r)
{
	uint64_t bytes = r->sb.region_bytes - r->sb.meta_bytes;

	if (fallocate(r->meta_fd, 0, 0, (off_t)r->sb.meta_bytes))
		return dir_error();
	/* Most of them are there already, so the limits say nothing. */
	if (r->found)
		return fallocate(r->data_fd, 0, 0, (off_t)bytes) ? dir_error() : 0;
	return reserve_bytes(r->reserve, 0, bytes, 0) ? 0 : FARKV_ENOMEM;
}

static int contents_create(struct region *r)
{
	uint64_t tables = r->sb.session_table_off;

	if (fallocate(r->meta_fd, 0, 0, REGION_DIR_OFF) ||
	    fallocate(r->meta_fd, 0, (off_t)tables, (off_t)(r->sb.meta_bytes - tables)) ||
	    !region_dir_reserve(r, r->depth))
		return dir_error();
	memcpy(r->meta, &r->sb, sizeof(r->sb));
	region_state(r)->last_id = (uint32_t)r->sb.region_id[0] & FIRST_ID_MASK;
	heap_set_map(r->heap, region_page_map(r));
	heap_set_back(r->heap, back, r->reserve);
	if (index_create(r))
		return FARKV_ENOMEM;
	reserve_log(r->reserve);
	return 0;
}

void region_reseed(struct region *r, uint64_t seed)
{
	r->sb.hash_seed = seed;
	superblock_seal(&r->sb);
	memcpy(r->meta, &r->sb, sizeof(r->sb));
}

/* ---- a region that was found ------------------------------------------------------- */

static int superblock_found(struct region *r, const struct region_file *f)
{
	if (pread(f->fd, &r->sb, sizeof(r->sb), 0) != (ssize_t)sizeof(r->sb))
		return err_set_errno(FARKV_ESYS, errno, "memory-file: cannot read %s",
				     f->path);
	return superblock_verify(&r->sb);
}

static int contents_found(struct region *r)
{
	uint64_t d = *(const uint64_t *)(const void *)(r->meta + REGION_D_OFF);

	r->depth = dirword_depth(d);
	r->last_gen = region_state(r)->last_gen;
	if (r->depth > r->max_depth || d != dirword_pack(region_dir_off(r->depth), r->depth))
		return err_set(FARKV_EFORMAT,
			       "region: directory word 0x%016" PRIx64 " is impossible, the "
			       "region is damaged", d);
	heap_set_map(r->heap, region_page_map(r));
	heap_set_back(r->heap, back, r->reserve);
	reserve_log(r->reserve);
	return 0;
}

int region_redo(struct region *r)
{
	struct region_redo redo = region_state(r)->redo;
	uint32_t depth = entry_depth(redo.old);
	bool split = redo.fresh[1] != 0;
	uint64_t first, n;

	if (!redo.old)
		return 0;
	if (depth > r->depth || (split && depth >= r->max_depth))
		return err_set(FARKV_EFORMAT,
			       "region: the interrupted publication of entry 0x%016" PRIx64
			       " is impossible, the region is damaged", redo.old);
	if (split && depth == r->depth) {
		if (!region_dir_reserve(r, r->depth + 1))
			return dir_error();
		region_dir_double(r);
	}
	n = UINT64_C(1) << (r->depth - depth);
	first = hash_dir_index(redo.hash, r->depth) & ~(n - 1);
	for (uint64_t i = 0; i < n; i++) {
		atom_store_publish(&region_dir(r)[first + i],
				   redo.fresh[split && i >= n / 2]);
		step_reached(STEP_PUBLISHED);
	}
	region_redo_clear(r);
	return 0;
}

/* ---- create ------------------------------------------------------------------------- */

static int areas_create(struct region *r, const struct region_config *cfg)
{
	uint64_t bytes = r->sb.region_bytes - r->sb.meta_bytes;
	int err = cfg->file ? meta_file(r, cfg->file) : sealed_meta(r);

	if (!err)
		err = data_create(r, cfg, bytes);
	if (!err)
		err = heat_create(r, cfg->pinned);
	if (!err && cfg->file)
		err = region_file_sessions(cfg->file, &r->sessions_fd);
	if (err)
		return err;
	r->outlives = cfg->file != NULL;
	keep_to_itself(r->meta, r->sb.meta_bytes);
	keep_to_itself(r->data, bytes);
	if (r->heat)
		keep_to_itself(r->heat, r->sb.heat_bytes);
	r->meta_ro_fd = reopen_readonly(r->meta_fd);
	r->data_ro_fd = reopen_readonly(r->data_fd);
	if (r->meta_ro_fd < 0 || r->data_ro_fd < 0)
		return err_set_errno(FARKV_ESYS, errno,
				     "cannot reopen the region read-only");
	r->heap = heap_new(r->sb.meta_bytes / PAGE_BYTES, bytes / PAGE_BYTES);
	return r->heap ? 0 : err_set(FARKV_ENOMEM, "no memory for the map of pages");
}

/* Which process to wait for, and to whom --replace is addressed. */
static void sign(struct region *r)
{
	region_state(r)->pid = (uint32_t)getpid();
	region_state(r)->start_time = proc_start_time(getpid());
}

static int region_new(struct region *r, const struct region_config *cfg)
{
	uint64_t pages = cfg->memory / PAGE_BYTES;
	int err = index_depth(cfg, pages, &r->depth);

	if (!err)
		err = superblock_create(r, cfg, pages);
	if (!err && cfg->pinned)
		err = pinned_fits(r);
	if (!err)
		err = areas_create(r, cfg);
	if (!err && cfg->pinned)
		err = pinned_take(r);
	if (!err)
		err = contents_create(r);
	if (err)
		return err;
	sign(r);
	step_reached(STEP_CREATED);
	return cfg->file && !cfg->unfinished ? region_file_finish(cfg->file) : 0;
}

static int region_found(struct region *r, const struct region_config *cfg)
{
	int err = superblock_found(r, cfg->file);

	r->found = true;
	r->max_depth = deepest(&r->sb);
	if (!err)
		err = areas_create(r, cfg);
	if (!err && cfg->pinned)
		err = pinned_take(r);
	if (!err)
		err = contents_found(r);
	if (!err)
		sign(r);
	return err;
}

int region_create(const struct region_config *cfg, struct region *r_out)
{
	struct region r = {.meta_fd = -1, .data_fd = -1, .meta_ro_fd = -1,
			   .data_ro_fd = -1, .heat_fd = -1, .sessions_fd = -1};
	int err = cfg->file && cfg->file->found ? region_found(&r, cfg) :
						  region_new(&r, cfg);

	if (err) {
		region_destroy(&r);
		return err;
	}
	if (cfg->pages == PAGES_AHEAD)
		r.prefault = prefault_new(r.data, r.sb.region_bytes - r.sb.meta_bytes);
	if (r.prefault)
		heap_watch(r.heap, on_spread, r.prefault);
	*r_out = r;
	return 0;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void region_destroy(struct region *r)
{
	prefault_free(r->prefault);
	heap_free(r->heap);
	reserve_free(r->reserve);
	if (r->meta)
		munmap(r->meta, r->sb.meta_bytes);
	if (r->data)
		munmap(r->data, r->sb.region_bytes - r->sb.meta_bytes);
	close_fd(r->meta_fd);
	close_fd(r->data_fd);
	close_fd(r->meta_ro_fd);
	close_fd(r->data_ro_fd);
	close_fd(r->sessions_fd);
	if (r->heat)
		munmap(r->heat, r->sb.heat_bytes);
	close_fd(r->heat_fd);
}
