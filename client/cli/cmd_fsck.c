/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "common/base/util.h"

#include "output.h"

/* A check reads all values. */
#define PATIENCE_MS 600000u

enum kind { PLAIN, FIGURE, BYTES, PROBLEM };

/* In the order of struct farkv_fsck; JSON has all fields. */
static const struct {
	const char *name;
	const char *text; /* title in the table; NULL: not in it */
	size_t offset;
	enum kind kind;
} rows[] = {
#define ROW(f, text, kind) {#f, text, offsetof(struct farkv_fsck, f), kind}
	ROW(duration_ns, NULL, PLAIN),
	ROW(subtables, "subtables", FIGURE),
	ROW(items, "items", FIGURE),
	ROW(expired, "  of which expired, not freed yet", FIGURE),
	ROW(dead_slots, "slots of deleted keys", FIGURE),
	ROW(meta_bytes, "superblock and directory", BYTES),
	ROW(index_bytes, "index", BYTES),
	ROW(out_bytes, "blocks with clients or published", BYTES),
	ROW(live_bytes, "  of which with an item", BYTES),
	ROW(dead_bytes, "  of which of deleted keys", BYTES),
	ROW(deferred_bytes, "blocks waiting out the grace period", BYTES),
	ROW(exhausted_bytes, "blocks exhausted", BYTES),
	ROW(free_bytes, "blocks free", BYTES),
	ROW(slack_bytes, "unused ends of segments", BYTES),
	ROW(retired_bytes, "pages waiting for a barrier", BYTES),
	ROW(unused_bytes, "pages unused", BYTES),
	ROW(region_bytes, "region", BYTES),
	ROW(blocks_held, "blocks in clients' hands", FIGURE),
	ROW(blocks_leaked, NULL, PLAIN),
	ROW(bytes_leaked, NULL, PLAIN),
	ROW(bad_directory, "impossible entries of the directory", PROBLEM),
	ROW(bad_empty, "empty slots of another generation", PROBLEM),
	ROW(bad_words, "slots that name no block in use", PROBLEM),
	ROW(damaged, "slots with a damaged block", PROBLEM),
	ROW(shared, "slots that name a block with another content", PROBLEM),
	ROW(misplaced, "keys in a slot where no lookup finds them", PROBLEM),
	ROW(behind_empty, "keys after an empty slot of their window", PROBLEM),
	ROW(duplicates, "keys with two slots", PROBLEM),
	ROW(bad_sums, "sums that differ (see the server's log)",
	    PROBLEM),
	ROW(first_page, NULL, PLAIN),
	ROW(first_slot, NULL, PLAIN),
	ROW(undecided, NULL, PLAIN),
	ROW(silent_session, NULL, PLAIN),
	ROW(silent_pid, NULL, PLAIN),
#undef ROW
};

static uint64_t value_of(const struct farkv_fsck *f, size_t row)
{
	return output_field(f, rows[row].offset);
}

static void print_json(const struct farkv_fsck *f)
{
	json_t *o = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		output_count(o, rows[i].name, value_of(f, i));
	output_print(o);
}

static void print_table(const struct farkv_fsck *f)
{
	bool sound = !f->undecided;
	char size[24];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t v = value_of(f, i);

		if (rows[i].kind == FIGURE)
			printf("%-38s%" PRIu64 "\n", rows[i].text, v);
		else if (rows[i].kind == BYTES)
			printf("%-38s%" PRIu64 " (%s)\n", rows[i].text, v,
			       util_format_size(v, size, sizeof(size)));
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		sound = sound && (rows[i].kind != PROBLEM || !value_of(f, i));
	if (f->blocks_leaked)
		printf("leaked: %" PRIu64 " blocks, %" PRIu64
		       " bytes (given back)\n",
		       f->blocks_leaked, f->bytes_leaked);
	if (sound)
		puts("nothing is wrong");
}

/* Print a line on stderr for each kind of problem; false if there are none. */
static bool report_problems(const struct cli *cli, const struct farkv_fsck *f)
{
	bool any = false;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].kind != PROBLEM || value_of(f, i) == 0)
			continue;
		(void)cli_error(cli, CLI_NO, "%s: %" PRIu64, rows[i].text,
				value_of(f, i));
		any = true;
	}
	if (f->first_page)
		(void)cli_error(cli, CLI_NO,
				"the first of them: slot %" PRIu64
				" of the subtable in page %" PRIu64,
				f->first_slot, f->first_page);
	return any;
}

static int report_undecided(const struct cli *cli, const struct farkv_fsck *f)
{
	char who[96];
	const char *where = f->undecided == FARKV_FSCK_SILENT ?
				    " (of another machine or pid namespace)" :
				    " (in another pid namespace)";

	snprintf(who, sizeof(who), "session %" PRIu64 "%s", f->silent_session,
		 f->silent_pid ? "" : where);
	if (f->silent_pid)
		snprintf(who + strlen(who), sizeof(who) - strlen(who),
			 " (pid %" PRIu64 ")", f->silent_pid);
	switch (f->undecided) {
	case FARKV_FSCK_SILENT:
		return cli_error(cli, CLI_FAILED,
				 "held or leaked: cannot tell, %s does not "
				 "answer",
				 who);
	case FARKV_FSCK_GHOST:
		return cli_error(cli, CLI_FAILED,
				 "held or leaked: cannot tell, %s ended without "
				 "goodbye and its process still runs",
				 who);
	default:
		return cli_error(cli, CLI_FAILED,
				 "held or leaked: cannot tell, clients die all "
				 "the time");
	}
}

int cmd_fsck(struct cli *cli, int argc, char **argv)
{
	struct farkv_fsck f = {.size = sizeof(f)};
	int code, err;

	(void)argc;
	(void)argv;
	if (cli->file)
		return snapshot_fsck(cli);
	cli->patience_ms = PATIENCE_MS;
	code = cli_connect(cli);
	if (code)
		return code;
	err = farkv_fsck(cli->kv, &f);
	if (err)
		return cli_fail(cli, err, NULL, 0);
	if (cli->json)
		print_json(&f);
	else if (!cli->quiet)
		print_table(&f);
	fflush(stdout);
	if (report_problems(cli, &f))
		return CLI_NO;
	return f.undecided ? report_undecided(cli, &f) : CLI_OK;
}
