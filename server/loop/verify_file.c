/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "verify_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"
#include "server/index/adopt.h"
#include "server/memory/region.h"
#include "server/memory/region_file.h"
#include "server/memory/slab.h"

static uint64_t keys(const struct region *r)
{
	struct region_walk w = {0};
	uint64_t entry, hash, n = 0;

	while (region_walk_next(r, &w, &entry, &hash)) {
		const uint64_t *slots = region_slots(r, entry);

		for (unsigned i = 0; i < SUBTABLE_SLOTS; i++)
			n += !slot_is_null(slots[i]) && !(slots[i] & SLOT_DEAD);
	}
	return n;
}

static int verify(struct region *r, const char *path)
{
	struct slab *slab = slab_new(r->heap, r->sb.meta_bytes / PAGE_BYTES, heap_total(r->heap),
				     r->sb.grace_ns);
	char size[16];
	int err = slab ? adopt_region(r, slab, true) :
			 err_set(FARKV_ENOMEM, "no memory for the books of the region");

	if (!err)
		printf("%s: %" PRIu64 " keys in %s, nothing is wrong\n", path, keys(r),
		       util_format_size(r->sb.region_bytes - r->sb.meta_bytes, size, sizeof(size)));
	slab_free(slab);
	return err;
}

int verify_file(const struct server_config *cfg)
{
	struct region_config rc = serve_region(cfg);
	struct region_file file;
	struct region region;
	int err;

	/* Otherwise one would be made. */
	if (access(cfg->verify_file, F_OK)) {
		err_set_errno(FARKV_ESYS, errno, "verify-file: cannot read %s", cfg->verify_file);
		return EXIT_RUN;
	}
	if (region_file_open(cfg->verify_file, false, &file))
		return EXIT_RUN;
	rc.file = &file;
	rc.pages = PAGES_NEVER;
	err = region_create(&rc, &region);
	if (!err) {
		err = verify(&region, cfg->verify_file);
		region_destroy(&region);
	}
	region_file_close(&file);
	return err ? EXIT_RUN : 0;
}
