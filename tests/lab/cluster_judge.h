/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * cluster_judge.h - is a history of a cluster right? (doc/cluster.md, What is promised)
 *
 * Strictly: each key is linearizable, however often it moves. A key of a server that was lost, and
 * whose follower took over, has after that moment a value that it had before it, or none, and is
 * linearizable before and after. A write of unknown outcome whose value was read happened before
 * its response: nothing of a call over shared memory is under way after its end.
 */
#ifndef TESTS_LAB_CLUSTER_JUDGE_H
#define TESTS_LAB_CLUSTER_JUDGE_H

#include <stdbool.h>
#include <stdio.h>

#include "history.h"

/**
 * What a cluster's history is judged by, to be called first. A key that moves gets another version
 * with the same value: a cas that found another version counts as not done, and versions are
 * dropped.
 */
void cluster_judge_prepare(struct history *h);

/** Moments at which the follower may have taken over: cluster_judge_loss(). */
#define CLUSTER_JUDGE_GAPS 4u

/**
 * No key of a lost server is answered between the end of its last lease and the newer map. The
 * middles of the longest times without a result for a key of which lost() is true, the longest
 * first; 0: there are no more.
 */
void cluster_judge_loss(const struct history *h, bool (*lost)(void *arg, uint32_t key), void *arg,
			uint64_t at_out[CLUSTER_JUDGE_GAPS]);

/** Strictly linearizable? If not, the reason is printed to `out`. */
bool cluster_judge_strict(const struct history *h, FILE *out);

/**
 * The same of keys that were lost at one of the times `at`. *rolled_back_out: how many of them are
 * linearizable only if the loss is allowed for.
 */
bool cluster_judge_lost(const struct history *h, const uint64_t at[CLUSTER_JUDGE_GAPS],
			size_t *rolled_back_out, FILE *out);

#endif
