/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "layout.h"

#include <inttypes.h>

#include "common/base/err.h"
#include "hash.h"

static uint64_t superblock_checksum(const struct superblock *sb)
{
	return hash_image(sb, offsetof(struct superblock, checksum));
}

static uint64_t data_pages(const struct superblock *sb)
{
	return (sb->region_bytes - sb->meta_bytes) / PAGE_BYTES;
}

void superblock_seal(struct superblock *sb)
{
	sb->magic = REGION_MAGIC;
	sb->version = REGION_VERSION;
	sb->header_bytes = sizeof(*sb);
	sb->page_bytes = PAGE_BYTES;
	sb->subtable_lines = SUBTABLE_LINES;
	sb->window_lines = WINDOW_LINES;
	sb->ptr_unit = PTR_UNIT;
	sb->class_count = CLASS_COUNT;
	sb->page_map_off = sb->meta_bytes - region_tables_bytes(data_pages(sb), 0);
	sb->session_table_off =
		sb->meta_bytes - region_tables_bytes(data_pages(sb), sb->session_count);
	sb->checksum = superblock_checksum(sb);
}

/* True if directory arrays, session table and page map fit into the meta area, in this order. */
static bool tables_fit(const struct superblock *sb)
{
	uint64_t sessions = sb->session_count * sizeof(struct session_entry);
	uint64_t map = data_pages(sb) * sizeof(uint32_t);

	return sb->session_table_off % LINE_BYTES == 0 && sb->page_map_off % LINE_BYTES == 0 &&
	       sb->session_table_off > REGION_DIR_OFF &&
	       sb->session_table_off <= sb->page_map_off &&
	       sb->page_map_off <= sb->meta_bytes &&
	       sessions <= sb->page_map_off - sb->session_table_off &&
	       map <= sb->meta_bytes - sb->page_map_off;
}

static int flags_verify(const struct superblock *sb)
{
	bool cache = (sb->flags & REGION_CACHE) != 0;

	if (sb->flags & ~REGION_CACHE)
		return err_set(FARKV_EFORMAT,
			       "region: flags 0x%" PRIx32
			       " have bits that this program does not know; use the "
			       "same release on both sides",
			       sb->flags);
	if (cache ? sb->heat_bytes < HEAT_ALIGN || (sb->heat_bytes & (sb->heat_bytes - 1)) :
		    sb->heat_bytes != 0)
		return err_set(FARKV_EFORMAT,
			       "region: a heat area of %" PRIu64 " bytes with flags 0x%" PRIx32
			       " is impossible",
			       sb->heat_bytes, sb->flags);
	return 0;
}

static int geometry_verify(const struct superblock *sb)
{
	const struct {
		const char *name;
		uint32_t have, want;
	} fixed[] = {
		{"page size", sb->page_bytes, PAGE_BYTES},
		{"subtable lines", sb->subtable_lines, SUBTABLE_LINES},
		{"window lines", sb->window_lines, WINDOW_LINES},
		{"pointer unit", sb->ptr_unit, PTR_UNIT},
		{"class count", sb->class_count, CLASS_COUNT},
	};

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		if (fixed[i].have != fixed[i].want)
			return err_set(FARKV_EFORMAT,
				       "region: %s is %" PRIu32
				       ", this version needs %" PRIu32,
				       fixed[i].name, fixed[i].have,
				       fixed[i].want);
	if (sb->meta_bytes == 0 || sb->meta_bytes % META_ALIGN ||
	    sb->region_bytes % PAGE_BYTES ||
	    sb->region_bytes <= sb->meta_bytes ||
	    sb->region_bytes / PTR_UNIT > SLOT_PTR_MASK)
		return err_set(FARKV_EFORMAT,
			       "region: impossible sizes (%" PRIu64
			       " bytes, of which %" PRIu64 " metadata)",
			       sb->region_bytes, sb->meta_bytes);
	if (!tables_fit(sb))
		return err_set(FARKV_EFORMAT,
			       "region: the tables at %" PRIu64 " and %" PRIu64
			       " do not fit into %" PRIu64 " bytes of metadata",
			       sb->session_table_off, sb->page_map_off, sb->meta_bytes);
	if (sb->max_key == 0 || sb->max_key > FARKV_KEY_MAX)
		return err_set(FARKV_EFORMAT,
			       "region: longest key %" PRIu32
			       " is not within 1..%u",
			       sb->max_key, FARKV_KEY_MAX);
	if (class_for(block_room(sb->max_key, sb->max_value)) >= CLASS_COUNT)
		return err_set(FARKV_EFORMAT,
			       "region: longest value %" PRIu64
			       " has no size class",
			       sb->max_value);
	if (sb->grace_ns == 0)
		return err_set(FARKV_EFORMAT, "region: grace period is 0");
	return 0;
}

int superblock_verify(const struct superblock *sb)
{
	int err;

	if (sb->magic != REGION_MAGIC)
		return err_set(FARKV_EFORMAT,
			       "region: magic is 0x%016" PRIx64
			       ", this is not a farkv region",
			       sb->magic);
	if (sb->version != REGION_VERSION)
		return err_set(FARKV_EFORMAT,
			       "region format %" PRIu32
			       "; this program reads %u: use the same release of farkv "
			       "on both sides",
			       sb->version, REGION_VERSION);
	if (sb->header_bytes != sizeof(*sb))
		return err_set(FARKV_EFORMAT,
			       "region: superblock of %" PRIu32
			       " bytes, expected %zu",
			       sb->header_bytes, sizeof(*sb));
	if (sb->checksum != superblock_checksum(sb))
		return err_set(FARKV_EFORMAT,
			       "region: superblock checksum is wrong, the "
			       "region is damaged");
	err = flags_verify(sb);
	return err ? err : geometry_verify(sb);
}
