/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * stats.h - the figures of STATS. A walk over the index counts items, in slices, at most once
 * a second; a request waits for it or gets the last count.
 */
#ifndef SERVER_LOOP_STATS_H
#define SERVER_LOOP_STATS_H

#include <stdbool.h>

struct control;
struct loop_module;
struct msg;
struct session;

extern const struct loop_module stats_module;

/** The figures of STATS, with the last count of items. */
void stats_figures(struct control *c, struct msg *m);

/** Count the items, unless that was done within a second. False: it goes on in the background. */
bool stats_count(struct control *c);

/** Handle STATS_REQ; false: the session is gone. */
bool stats_on_request(struct session *s, const struct msg *m);

/** Handle CLASS_REQ: the figures of the next size of blocks that has any. False: as above. */
bool stats_on_class(struct session *s, const struct msg *m);

/** Handle PAUSE_REQ: the next of the longest pauses. False: as above. */
bool stats_on_pause(struct session *s, const struct msg *m);

#endif
