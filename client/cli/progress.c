/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/util.h"

#define INTERVAL_NS (100 * NS_PER_MS)
#define BAR 30

/* All transfers share one terminal; true if it shows a progress line. */
static bool on_terminal;

void progress_begin(struct progress *p, bool quiet, uint64_t total)
{
	*p = (struct progress){.shown = !quiet && util_takes_escapes(STDERR_FILENO),
			       .total = total,
			       .start_ns = clock_now_ns()};
	p->next_ns = p->start_ns + INTERVAL_NS;
}

static void show_bar(double part)
{
	char bar[BAR + 1];

	for (int i = 0; i < BAR; i++)
		bar[i] = i < (int)(part * BAR) ? '#' : '.';
	bar[BAR] = '\0';
	fprintf(stderr, "[%s] %3.0f%%  ", bar, part * 100.0);
}

void progress_show_text(struct progress *p, double part, const char *text)
{
	uint64_t now;

	if (!p->shown)
		return;
	now = clock_now_ns();
	if (now < p->next_ns)
		return;
	p->next_ns = now + INTERVAL_NS;
	progress_wipe();
	on_terminal = true;
	if (part >= 0)
		show_bar(part);
	fputs(text, stderr);
	fflush(stderr);
}

void progress_show_part(struct progress *p, double part, uint64_t bytes, uint64_t records)
{
	char text[64], size[24];

	snprintf(text, sizeof(text), "%" PRIu64 " records, %s", records,
		 util_format_size(bytes, size, sizeof(size)));
	progress_show_text(p, part, text);
}

void progress_show(struct progress *p, uint64_t bytes, uint64_t records)
{
	double part = p->total ? (double)UTIL_MIN(bytes, p->total) / (double)p->total : -1;

	progress_show_part(p, part, bytes, records);
}

void progress_wipe(void)
{
	if (on_terminal)
		fputs("\r\033[K", stderr);
	on_terminal = false;
}

uint64_t progress_end(struct progress *p)
{
	progress_wipe();
	return UTIL_MAX(clock_now_ns() - p->start_ns, UINT64_C(1));
}
