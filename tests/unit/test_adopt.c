/* SPDX-License-Identifier: BSD-3-Clause */
/* A region in files: which ones a server adopts, what its books are then, and what it refuses. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/region/block.h"
#include "common/region/hash.h"
#include "server/index/adopt.h"
#include "server/memory/region.h"
#include "server/memory/region_file.h"
#include "server/memory/slab_marks.h"
#include "tests/rig/cases.h"

#define MEMORY (8u << 20)
#define PAGES (MEMORY / PAGE_BYTES)
#define GRACE 1000u
#define ITEMS 300u

static char dir[64], path[80], data[96];
static struct region_file file;
static struct region r;
static struct slab *slab;

static int open_file(void)
{
	return region_file_open(path, false, &file);
}

static int open_region(void)
{
	struct region_config cfg = {.memory = MEMORY,
				    .index_slots = 2 * SUBTABLE_SLOTS,
				    .max_value = 1u << 20,
				    .max_key = 100,
				    .grace_ns = GRACE,
				    .sessions = 10,
				    .file = &file};
	int err = region_create(&cfg, &r);

	if (err) {
		region_file_close(&file);
		return err;
	}
	slab = slab_new(r.heap, r.sb.meta_bytes / PAGE_BYTES, PAGES, GRACE);
	ck_assert_ptr_nonnull(slab);
	return 0;
}

static void close_all(void)
{
	slab_free(slab);
	slab = NULL;
	region_destroy(&r);
	region_file_close(&file);
}

/* As another kvserver does. */
static int adopt(bool verify)
{
	int err = open_file();

	if (!err)
		err = open_region();
	if (err)
		return err;
	ck_assert(r.found);
	err = adopt_region(&r, slab, verify);
	if (err)
		close_all();
	return err;
}

#define REFUSED(want, text)                                                           \
	do {                                                                          \
		int refused = adopt(false);                                           \
                                                                                      \
		ck_assert_int_eq(refused, want);                                      \
		ck_assert_msg(strstr(err_detail(), text) != NULL, "%s", err_detail()); \
		ck_assert_ptr_null(strchr(err_detail(), '\n'));                       \
	} while (0)

/* ---- a region with items ----------------------------------------------------------------- */

static uint64_t *slot_for(uint64_t hash)
{
	uint64_t entry = region_entry(&r, hash);
	uint64_t *slots = region_slots(&r, entry) + hash_home_line(hash) * LINE_SLOTS;

	while (*slots != slot_empty(entry_gen(entry)))
		slots++;
	return slots;
}

/* An item as a client stores it. */
static void put(uint32_t i)
{
	static const uint32_t sizes[] = {10, 100, 700, 5000, 40000};
	static uint8_t value[40000];
	char key[256];
	size_t len = (size_t)snprintf(key, sizeof(key), "key %u", i);
	uint32_t bytes = sizes[i % (i < 40 ? 5 : 3)];
	uint64_t hash = hash_key(r.sb.hash_seed, key, len);
	struct block_ref ref;
	struct block_pair kv = {.key = key,
				.key_len = (uint16_t)len,
				.key_hash = hash,
				.value = value,
				.value_len = bytes};

	ck_assert_uint_eq(slab_grant(slab, (uint8_t)class_for(block_room(len, bytes)), 1,
				     clock_now_ns(), &ref), 1);
	block_encode(region_at(&r, ref.off), ref, i + 1, &kv);
	*slot_for(hash) = slot_pack(ref, hash_fp(hash), 0);
}

static void setup(void)
{
	strcpy(dir, "/tmp/farkv-adopt-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/mem", dir);
	snprintf(data, sizeof(data), "%s.data", path);
	ck_assert_int_eq(open_file(), 0);
	ck_assert(!file.found);
	ck_assert_int_eq(open_region(), 0);
	ck_assert(!r.found);
	for (uint32_t i = 0; i < ITEMS; i++)
		put(i);
	close_all();
}

static void teardown(void)
{
	char cmd[100];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	ck_assert_int_eq(system(cmd), 0);
}

/* Change 8 bytes of the meta area, as no server does. */
static uint64_t poke(uint64_t off, uint64_t xor)
{
	int fd = open(path, O_RDWR);
	uint64_t word;

	ck_assert_int_eq(pread(fd, &word, sizeof(word), (off_t)off), sizeof(word));
	word ^= xor;
	ck_assert_int_eq(pwrite(fd, &word, sizeof(word), (off_t)off), sizeof(word));
	close(fd);
	return word;
}

/* ---- adopted ---------------------------------------------------------------------------- */

/* The pages and blocks that the words name. */
static uint64_t words_marked(void)
{
	struct region_walk w = {0};
	uint64_t entry, hash, n = 0;

	while (region_walk_next(&r, &w, &entry, &hash))
		for (unsigned s = 0; s < SUBTABLE_SLOTS; s++) {
			uint64_t word = region_slots(&r, entry)[s];

			if (!slot_is_null(word))
				n += slab_mark(slab, slot_block(word)) == SLAB_SEEN_FIRST;
		}
	return n;
}

TEST_GROUP(.setup = setup, .teardown = teardown);

TEST_LOOP(books_equal_a_recount, 0, 2)
{
	struct block_ref refs[512];
	struct slab_list list = {.refs = refs, .cap = 512};
	uint64_t cursor = 0;
	struct slab_counts n;

	ck_assert_int_eq(adopt(_i), 0);
	ck_assert_msg(slab_audit(slab), "%s", err_detail());
	ck_assert_msg(heap_audit(r.heap), "%s", err_detail());
	ck_assert_uint_eq(r.subtables, 2);
	ck_assert_uint_eq(heap_retired(r.heap), 0);
	n = slab_count(slab);
	ck_assert_uint_eq(n.free + n.deferred + n.exhausted, 0);
	ck_assert_uint_eq(heap_used(r.heap), n.pages + r.subtables);
	ck_assert_uint_eq(words_marked(), ITEMS);
	/* A sweep gives back all others, and a barrier frees them. */
	for (bool more = true; more; list.n = 0) {
		more = slab_unmarked(slab, &cursor, 1, &list);
		for (size_t i = 0; i < list.n; i++)
			ck_assert(slab_condemn(slab, list.refs[i]));
	}
	ck_assert(slab_barrier_begin(slab));
	slab_barrier_passed(slab);
	ck_assert_uint_eq(slab_count(slab).out, ITEMS);
	ck_assert_msg(slab_audit(slab), "%s", err_detail());
	close_all();
}

TEST(region_keeps_id_and_sizes)
{
	uint64_t id[2];

	ck_assert_int_eq(adopt(false), 0);
	memcpy(id, r.sb.region_id, sizeof(id));
	close_all();
	ck_assert_int_eq(open_file(), 0);
	ck_assert_int_eq(region_create(&(struct region_config){.memory = 2 * MEMORY,
							       .grace_ns = 5,
							       .file = &file}, &r), 0);
	ck_assert_mem_eq(r.sb.region_id, id, sizeof(id));
	ck_assert_uint_eq(r.sb.grace_ns, GRACE);
	ck_assert_uint_eq(heap_total(r.heap), PAGES);
	close_all();
}

TEST(segment_half_entered_or_half_freed_is_free)
{
	uint64_t free_page = 0;

	ck_assert_int_eq(adopt(false), 0);
	while (region_page_map(&r)[free_page])
		free_page++;
	region_page_map(&r)[free_page] = page_pack(PAGE_IS_LATER, 0, 40);
	close_all();
	ck_assert_int_eq(adopt(false), 0);
	ck_assert_uint_eq(region_page_map(&r)[free_page], 0);
	ck_assert_msg(heap_audit(r.heap), "%s", err_detail());
	close_all();
}

TEST(subtable_without_an_entry_waits_for_a_barrier)
{
	ck_assert_int_eq(adopt(false), 0);
	ck_assert_uint_ne(heap_take_index(r.heap), 0);
	close_all();
	ck_assert_int_eq(adopt(false), 0);
	ck_assert_uint_eq(heap_retired(r.heap), 1);
	ck_assert(heap_barrier_begin(r.heap));
	heap_barrier_passed(r.heap);
	ck_assert_msg(heap_audit(r.heap), "%s", err_detail());
	close_all();
}

TEST(publication_that_was_interrupted_is_finished)
{
	struct region_redo redo = {0};
	uint64_t old, page, *slots;

	ck_assert_int_eq(adopt(false), 0);
	old = region_dir(&r)[1];
	for (unsigned half = 0; half < 2; half++) {
		page = heap_take_index(r.heap);
		redo.fresh[half] = entry_pack(page, region_next_gen(&r), 2);
		slots = region_slots(&r, redo.fresh[half]);
		for (unsigned s = 0; s < SUBTABLE_SLOTS; s++)
			slots[s] = slot_empty(entry_gen(redo.fresh[half]));
	}
	redo.old = old;
	redo.hash = UINT64_C(1) << 63;
	region_redo_set(&r, &redo);
	close_all();
	/* Once more if the server that finishes it ends before it is done. */
	for (int again = 0; again < 2; again++) {
		ck_assert_int_eq(adopt(false), 0);
		ck_assert_uint_eq(r.depth, 2);
		ck_assert_uint_eq(r.subtables, 3);
		ck_assert_uint_eq(region_dir(&r)[0], region_dir(&r)[1]);
		ck_assert_uint_eq(region_dir(&r)[2], redo.fresh[0]);
		ck_assert_uint_eq(region_dir(&r)[3], redo.fresh[1]);
		ck_assert_uint_eq(region_state(&r)->redo.old, 0);
		ck_assert_uint_eq(heap_retired(r.heap), 1);
		region_redo_set(&r, &redo);
		region_dir(&r)[3] = old;
		close_all();
	}
}

/* ---- refused ----------------------------------------------------------------------------- */

static void make_file(const char *name, const char *text, size_t len)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	ck_assert_int_eq(write(fd, text, len), (ssize_t)len);
	close(fd);
}

TEST(foreign_file_is_refused_and_left)
{
	static const char zeros[8192], text[] = "dear diary";
	struct stat st;

	make_file(path, text, sizeof(text));
	REFUSED(FARKV_EFORMAT, "not a farkv region");
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_size, sizeof(text));
	make_file(path, zeros, sizeof(zeros));
	REFUSED(FARKV_EFORMAT, "not a farkv region");
	make_file(path, "", 0);
	REFUSED(FARKV_EFORMAT, "not a farkv region");
	unlink(path);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	REFUSED(FARKV_ESYS, "cannot open");
	rmdir(path);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	REFUSED(FARKV_EINVAL, "not a regular file");
	unlink(path);
	unlink(data);
	ck_assert_int_eq(mkfifo(data, 0600), 0);
	ck_assert_int_eq(open_file(), 0);
	ck_assert_int_eq(open_region(), FARKV_EINVAL);
	ck_assert_msg(strstr(err_detail(), "not a regular file") != NULL, "%s", err_detail());
}

TEST(link_to_a_file_that_is_not_there_is_refused_and_left)
{
	char there[140];
	struct stat st;

	ck_assert_int_eq(unlink(path), 0);
	snprintf(there, sizeof(there), "%s.elsewhere", path);
	ck_assert_int_eq(symlink(there, path), 0);
	REFUSED(FARKV_EINVAL, "a symbolic link to a file that is not there");
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert(S_ISLNK(st.st_mode));
	ck_assert_int_eq(access(there, F_OK), -1);
}

TEST(file_of_another_user_is_refused)
{
	char sessions[100];

	if (geteuid() != 0) {
		puts("SKIP: only root can give files to another user");
		return;
	}
	snprintf(sessions, sizeof(sessions), "%s.sessions", path);
	for (unsigned i = 0; i < 3; i++) {
		const char *name = (const char *[]){path, data, sessions}[i];

		ck_assert_int_eq(chown(name, 1, (gid_t)-1), 0);
		REFUSED(FARKV_EPERM, "belongs to another user (uid 1)");
		ck_assert_int_eq(chown(name, 0, (gid_t)-1), 0);
	}
	ck_assert_int_eq(adopt(false), 0);
	close_all();
}

TEST(other_version_is_refused)
{
	poke(8, 1);
	REFUSED(FARKV_EFORMAT, "region format 2");
}

TEST(superblock_with_any_bit_flipped_is_refused)
{
	for (unsigned bit = 0; bit < sizeof(struct superblock) * 8; bit++) {
		poke(bit / 64 * 8, UINT64_C(1) << bit % 64);
		ck_assert_int_eq(adopt(false), FARKV_EFORMAT);
		poke(bit / 64 * 8, UINT64_C(1) << bit % 64);
	}
	ck_assert_int_eq(adopt(false), 0);
	close_all();
}

TEST(file_that_was_cut_is_refused)
{
	ck_assert_int_eq(truncate(data, MEMORY - 1), 0);
	REFUSED(FARKV_EFORMAT, "it was cut, or belongs to another");
	unlink(data);
	REFUSED(FARKV_ESYS, "cannot open");
	for (off_t bytes = 0; bytes < 5000; bytes += 7) {
		ck_assert_int_eq(truncate(path, bytes), 0);
		ck_assert_int_eq(adopt(false), FARKV_EFORMAT);
	}
}

TEST(data_of_another_region_is_refused)
{
	ck_assert_int_eq(truncate(data, 0), 0);
	ck_assert_int_eq(truncate(data, MEMORY), 0);
	REFUSED(FARKV_EFORMAT, "an EMPTY slot of another subtable");
}

TEST(file_in_use_is_refused)
{
	struct region_file other;
	char pid[24];

	ck_assert_int_eq(adopt(false), 0);
	ck_assert_int_eq(region_file_open(path, false, &other), FARKV_EREFUSED);
	snprintf(pid, sizeof(pid), "(pid %d)", (int)getpid());
	ck_assert_msg(strstr(err_detail(), pid) != NULL, "%s", err_detail());
	/* The number is another process's here: it gets no signal. */
	region_state(&r)->start_time++;
	ck_assert_int_eq(region_file_open(path, true, &other), FARKV_EREFUSED);
	ck_assert_msg(strstr(err_detail(), "--replace cannot end") != NULL, "%s", err_detail());
	ck_assert_int_eq(region_file_open(path, false, &other), FARKV_EREFUSED);
	ck_assert_msg(strstr(err_detail(), "in use by another kvserver") != NULL, "%s", err_detail());
	close_all();
	/* One that is just being made, too. */
	unlink(path);
	ck_assert_int_eq(open_file(), 0);
	ck_assert(!file.found);
	for (int replace = 0; replace < 2; replace++) {
		ck_assert_int_eq(region_file_open(path, replace, &other), FARKV_EREFUSED);
		ck_assert_msg(strstr(err_detail(), "is just making") != NULL, "%s", err_detail());
	}
	region_file_close(&file);
}

/* Somebody has removed PATH, and the server or its clients still map PATH.data. */
TEST(data_in_use_is_left_alone)
{
	struct region_file other;
	struct region second;
	struct region_config cfg = {.memory = MEMORY, .index_slots = SUBTABLE_SLOTS,
				    .max_value = 1u << 20, .max_key = 100, .grace_ns = GRACE,
				    .sessions = 10, .file = &other};
	struct stat st;

	ck_assert_int_eq(adopt(false), 0);
	unlink(path);
	ck_assert_int_eq(region_file_open(path, false, &other), 0);
	ck_assert_int_eq(region_create(&cfg, &second), FARKV_EREFUSED);
	ck_assert_msg(strstr(err_detail(), "is in use, by") != NULL, "%s", err_detail());
	region_file_close(&other);
	ck_assert_int_eq(stat(data, &st), 0);
	ck_assert_int_ge(st.st_size, MEMORY);
	ck_assert_uint_eq(words_marked(), ITEMS);
	close_all();
	/* A server that does not come so far as to make its data leaves the file, too. */
	ck_assert_int_eq(region_file_open(path, false, &other), 0);
	cfg.index_slots = UINT64_MAX;
	ck_assert_int_ne(region_create(&cfg, &second), 0);
	region_file_close(&other);
	ck_assert_int_eq(stat(data, &st), 0);
	ck_assert_int_ge(st.st_size, MEMORY);
	/* Another one may have it. */
	ck_assert_int_eq(open_file(), 0);
	ck_assert_int_eq(open_region(), 0);
	close_all();
}

TEST(directory_that_is_damaged_is_refused)
{
	poke(REGION_D_OFF, UINT64_C(1) << 50);
	REFUSED(FARKV_EFORMAT, "directory word");
	poke(REGION_D_OFF, UINT64_C(1) << 50);
	for (unsigned bit = 0; bit < 64; bit++) {
		if (bit >= 49 && bit < 57)
			continue; /* not used */
		poke(REGION_DIR_OFF + 8, UINT64_C(1) << bit);
		ck_assert_int_eq(adopt(false), FARKV_EFORMAT);
		poke(REGION_DIR_OFF + 8, UINT64_C(1) << bit);
	}
}

TEST(page_map_with_any_bit_flipped_is_refused)
{
	struct superblock sb;
	uint32_t map[PAGES];
	int fd = open(path, O_RDWR);

	ck_assert_int_eq(pread(fd, &sb, sizeof(sb), 0), sizeof(sb));
	ck_assert_int_eq(pread(fd, map, sizeof(map), (off_t)sb.page_map_off), sizeof(map));
	for (uint32_t i = 0; i < PAGES; i++)
		for (unsigned bit = 0; map[i] && bit < 32; bit++) {
			uint32_t flipped = map[i] ^ UINT32_C(1) << bit;
			off_t at = (off_t)(sb.page_map_off + i * sizeof(*map));

			ck_assert_int_eq(pwrite(fd, &flipped, 4, at), 4);
			ck_assert_int_eq(adopt(false), FARKV_EFORMAT);
			/* Trying may have cleared entries that lead nowhere. */
			ck_assert_int_eq(pwrite(fd, map, sizeof(map), (off_t)sb.page_map_off),
					 sizeof(map));
		}
	close(fd);
	ck_assert_int_eq(adopt(true), 0);
	close_all();
}

TEST(verify_finds_a_damaged_block)
{
	uint64_t hash, *slot;
	uint8_t *block;

	ck_assert_int_eq(adopt(true), 0);
	hash = hash_key(r.sb.hash_seed, "key 7", 5);
	slot = region_slots(&r, region_entry(&r, hash)) + hash_home_line(hash) * LINE_SLOTS;
	while (slot_fp(*slot) != hash_fp(hash))
		slot++;
	block = region_at(&r, slot_off(*slot));
	block[class_bytes(slot_class(*slot)) / 2] ^= 1;
	close_all();
	ck_assert_int_eq(adopt(false), 0);
	close_all();
	ck_assert_int_eq(adopt(true), FARKV_EFORMAT);
	ck_assert_msg(strstr(err_detail(), "does not verify") != NULL, "%s", err_detail());
}

TEST_SUITE("adopt")
