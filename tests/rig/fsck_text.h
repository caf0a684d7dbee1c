/* SPDX-License-Identifier: BSD-3-Clause */
/** fsck_text.h - the findings of a check, as one number and as text. */
#ifndef TESTS_RIG_FSCK_TEXT_H
#define TESTS_RIG_FSCK_TEXT_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include <farkv.h>

/** Number of problems. Leaks and undecided blocks do not count. */
static inline uint64_t fsck_problems(const struct farkv_fsck *f)
{
	return f->bad_directory + f->bad_empty + f->bad_words + f->damaged +
	       f->shared + f->misplaced + f->behind_empty + f->duplicates +
	       f->bad_sums;
}

#define FSCK_TEXT_CAP 320
/** The problems of each kind. Returns `buf`. */
static inline const char *fsck_text(const struct farkv_fsck *f,
				    char buf[FSCK_TEXT_CAP])
{
	snprintf(buf, FSCK_TEXT_CAP,
		 "directory %" PRIu64 ", empty %" PRIu64 ", words %" PRIu64
		 ", damaged %" PRIu64 ", shared %" PRIu64
		 ", misplaced %" PRIu64 ", after empty %" PRIu64
		 ", duplicates %" PRIu64 ", sums %" PRIu64,
		 f->bad_directory, f->bad_empty, f->bad_words, f->damaged,
		 f->shared, f->misplaced, f->behind_empty, f->duplicates,
		 f->bad_sums);
	return buf;
}

#endif
