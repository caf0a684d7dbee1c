/* SPDX-License-Identifier: BSD-3-Clause */
/* top: the store on one screen, updated at each interval. */
#include "config.h"

#include "cli.h"

#ifndef HAVE_NCURSES

int cmd_top(struct cli *cli, int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return cli_error(cli, CLI_FAILED, "this kvcli was built without ncurses; take --stat");
}

#else

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <ncurses.h>

#include "common/base/util.h"

#include "live.h"

/* Samples, of which the median is shown. */
#define PROBES 9u

/* Rates per second since the previous view. */
struct rates {
	double gets, hit_percent, sets, expired, evicted, cpu_percent;
};

struct row {
	struct farkv_client client;
	char server[64]; /* its name; "" if the store has one */
	struct rates rates;
};

/* The servers' figures at one time. */
struct view {
	uint64_t at_ns;
	struct farkv_stats stats;
	struct rates rates;
	struct row *rows; /* the busiest first */
	size_t n_rows, room;
	struct farkv_class classes[64];
	size_t n_classes;
	double exists_us, ping_us;
};

struct top {
	struct cli *cli;
	struct view view[2];
	unsigned now; /* index of the shown view; the other one is filled next */
	char where[64];
	char trouble[200]; /* why the view was not updated; "" if it was */
};

/* ---- what is shown --------------------------------------------------------------------- */

static int compare_times(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static double median_us(uint64_t ns[PROBES])
{
	const size_t middle = PROBES / 2;

	qsort(ns, PROBES, sizeof(ns[0]), compare_times);
	return (double)ns[middle] / 1e3;
}

/* Unlike a get, an exists does not change the statistics. */
static int probe(struct farkv *kv, struct view *v)
{
	static const char key[] = "kvcli top";
	uint64_t exists[PROBES], ping[PROBES];

	for (unsigned i = 0; i < PROBES; i++) {
		uint64_t start = clock_now_ns();
		int err = farkv_exists(kv, key, sizeof(key));

		if (err && err != FARKV_ENOTFOUND)
			return err;
		exists[i] = clock_now_ns() - start;
		err = farkv_ping(kv, &ping[i]);
		if (err)
			return err;
	}
	v->exists_us = median_us(exists);
	v->ping_us = median_us(ping);
	return 0;
}

static struct row *add_row(struct view *v)
{
	if (v->n_rows == v->room) {
		size_t room = v->room * 2 + 64;
		struct row *rows = realloc(v->rows, room * sizeof(*rows));

		if (!rows)
			return NULL;
		v->rows = rows;
		v->room = room;
	}
	return &v->rows[v->n_rows++];
}

static int read_rows(const struct farkv_server *s, struct view *v)
{
	struct farkv_client c = {.size = sizeof(c)};
	int err;

	while ((err = farkv_client_next(s->handle, &c)) == 0) {
		struct row *r = add_row(v);

		if (!r)
			return FARKV_ENOMEM;
		*r = (struct row){.client = c};
		snprintf(r->server, sizeof(r->server), "%s", s->epoch ? s->name : "");
	}
	return err == FARKV_ENOTFOUND ? 0 : err;
}

static int read_view(struct farkv *kv, struct view *v)
{
	struct farkv_server s = {.size = sizeof(s)};
	struct farkv_class c = {.size = sizeof(c)};
	int err;

	v->stats.size = sizeof(v->stats);
	v->n_rows = v->n_classes = 0;
	err = farkv_stats(kv, &v->stats);
	v->at_ns = clock_now_ns();
	if (!err)
		err = probe(kv, v);
	for (size_t i = 0; !err && farkv_server(kv, i, &s) == 0; i++)
		err = read_rows(&s, v);
	while (!err && v->n_classes < ARRAY_SIZE(v->classes) &&
	       (err = farkv_class_next(kv, &c)) == 0)
		v->classes[v->n_classes++] = c;
	return err == FARKV_ENOTFOUND ? 0 : err;
}

static double percent(double part, double all)
{
	return all > 0 ? 100 * part / all : 0;
}

static void set_rates(struct row *r, const struct farkv_client *before, double seconds)
{
	const struct farkv_client *now = &r->client;
	double hits = live_rate(before->hits, now->hits, seconds);

	r->rates.gets = hits + live_rate(before->misses, now->misses, seconds);
	r->rates.hit_percent = percent(hits, r->rates.gets);
	r->rates.sets = live_rate(before->sets, now->sets, seconds);
}

static struct rates store_rates(const struct farkv_stats *a, const struct farkv_stats *b,
				double seconds)
{
	struct rates r = {.gets = live_rate(a->gets, b->gets, seconds),
			  .sets = live_rate(a->sets, b->sets, seconds),
			  .expired = live_rate(a->expired, b->expired, seconds),
			  .evicted = live_rate(a->evictions, b->evictions, seconds),
			  .cpu_percent = live_rate(a->cpu_ns, b->cpu_ns, seconds) / 1e7};

	r.hit_percent = percent(live_rate(a->hits, b->hits, seconds), r.gets);
	return r;
}

static int busiest_first(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	double dx = x->rates.gets + x->rates.sets, dy = y->rates.gets + y->rates.sets;

	return dx > dy ? -1 : dx < dy;
}

static bool is_before(const struct row *a, const struct row *b)
{
	int order = strcmp(a->server, b->server);

	return order < 0 || (order == 0 && a->client.session < b->client.session);
}

static int in_order(const void *a, const void *b)
{
	return is_before(a, b) ? -1 : is_before(b, a);
}

static void sort_rows(struct view *v, int (*order)(const void *a, const void *b))
{
	if (v->n_rows > 1) /* and there are any */
		qsort(v->rows, v->n_rows, sizeof(v->rows[0]), order);
}

/* Sessions begin and end: the rates of a new one count from 0. */
static void compare(struct view *now, struct view *before)
{
	static const struct farkv_client none;
	double seconds = live_seconds(before->at_ns, now->at_ns);
	size_t k = 0;

	now->rates = store_rates(&before->stats, &now->stats, seconds);
	sort_rows(now, in_order);
	sort_rows(before, in_order);
	for (size_t i = 0; i < now->n_rows; i++) {
		struct row *r = &now->rows[i];
		bool same;

		while (k < before->n_rows && is_before(&before->rows[k], r))
			k++;
		same = k < before->n_rows && !is_before(r, &before->rows[k]);
		set_rates(r, same ? &before->rows[k].client : &none, seconds);
	}
	sort_rows(now, busiest_first);
}

/* ---- the screen ------------------------------------------------------------------------ */

/* Print one line of the screen, from its first column; nothing below the last line. */
static void __attribute__((format(printf, 3, 4)))
draw(int *y, int attributes, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (*y >= LINES)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	attron(attributes);
	mvaddnstr((*y)++, 0, text, COLS);
	attroff(attributes);
}

static void draw_store(const struct view *v, int *y)
{
	const struct farkv_stats *s = &v->stats;
	const struct rates *r = &v->rates;
	uint64_t up = s->uptime_ms / 1000;
	char used[24], heap[24];

	draw(y, 0,
	     "up %" PRIu64 ":%02" PRIu64 ":%02" PRIu64 ", %" PRIu64 " keys, %s of %s in use, %" PRIu64
	     " sessions, server CPU %.1f %%",
	     up / 3600, up / 60 % 60, up % 60, s->items,
	     util_format_size(s->used_bytes, used, sizeof(used)),
	     util_format_size(s->heap_bytes, heap, sizeof(heap)), s->sessions, r->cpu_percent);
	draw(y, 0,
	     "index %.0f %% full, %" PRIu64 " splits, %" PRIu64 " compactions, the longest %.1f ms; "
	     "%" PRIu64 " barriers, waiting for %" PRIu64 " sessions",
	     (double)s->index_load_permille / 10, s->splits, s->compactions,
	     (double)s->migration_ns_max / 1e6, s->barriers, s->barrier_waits);
	++*y;
	draw(y, A_BOLD, "%12s %7s %12s %10s %10s %10s %10s", "GETS/S", "HITS %", "SETS/S",
	     "EXPIRED/S", "EVICTED/S", "EXISTS us", "PING us");
	draw(y, 0, "%12.0f %7.1f %12.0f %10.0f %10.0f %10.1f %10.1f", r->gets, r->hit_percent,
	     r->sets, r->expired, r->evicted, v->exists_us, v->ping_us);
}

static int largest_first(const void *a, const void *b)
{
	const struct farkv_class *x = a, *y = b;
	uint64_t nx = x->out * x->block_bytes, ny = y->out * y->block_bytes;

	return nx > ny ? -1 : nx < ny;
}

/* Print as many sizes of blocks as fit into half of the remaining lines. */
static void draw_classes(struct view *v, int *y)
{
	int until = *y + UTIL_MAX((LINES - *y) / 2, 2);
	char block[24], out[24], free[24];

	++*y;
	draw(y, A_BOLD, "%12s %12s %12s %12s %12s", "BLOCK", "OUT", "BYTES", "FREE", "BYTES");
	qsort(v->classes, v->n_classes, sizeof(v->classes[0]), largest_first);
	for (size_t i = 0; i < v->n_classes && *y < until; i++) {
		const struct farkv_class *c = &v->classes[i];

		draw(y, 0, "%12s %12" PRIu64 " %12s %12" PRIu64 " %12s",
		     util_format_size(c->block_bytes, block, sizeof(block)), c->out,
		     util_format_size(c->out * c->block_bytes, out, sizeof(out)), c->free,
		     util_format_size(c->free * c->block_bytes, free, sizeof(free)));
	}
}

static void draw_rows(const struct view *v, int *y)
{
	char id[96], name[sizeof(v->rows->client.name)];

	++*y;
	draw(y, A_BOLD, "%12s %-4s %12s %7s %12s  %s", "ID", "KIND", "GETS/S", "HITS %", "SETS/S",
	     "NAME");
	for (size_t i = 0; i < v->n_rows && *y < LINES - 1; i++) {
		const struct row *r = &v->rows[i];
		const struct farkv_client *c = &r->client;

		snprintf(id, sizeof(id), "%s%s%" PRIu64, r->server, r->server[0] ? "/" : "",
			 c->session);
		snprintf(name, sizeof(name), "%s", c->name);
		draw(y, 0, "%12s %-4s %12.0f %7.1f %12.0f  %s (%s%s)", id,
		     c->flags & FARKV_CLIENT_RDMA ? "rdma" : "shm", r->rates.gets, r->rates.hit_percent,
		     r->rates.sets, util_one_line(name), c->peer,
		     c->flags & FARKV_CLIENT_SELF ? ", this one" : "");
	}
}

static void draw_all(struct top *t)
{
	struct view *v = &t->view[t->now];
	time_t now = time(NULL);
	char clock[16] = "";
	struct tm tm;
	int y = 0;

	if (localtime_r(&now, &tm))
		strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	erase();
	draw(&y, A_REVERSE, "kvcli top %s  %s  q: end, space: now%*s", t->where, clock, COLS, "");
	draw_store(v, &y);
	draw_classes(v, &y);
	draw_rows(v, &y);
	if (t->trouble[0]) {
		y = LINES - 1;
		draw(&y, A_REVERSE, "no answer: %s%*s", t->trouble, COLS, "");
	}
	refresh();
}

/* ---- the command ----------------------------------------------------------------------- */

/* After a failure the last view remains, with the reason. */
static int update(struct top *t)
{
	struct view *next = &t->view[!t->now];
	int err = read_view(t->cli->kv, next);
	const char *detail = farkv_errdetail();

	t->trouble[0] = '\0';
	if (err) {
		snprintf(t->trouble, sizeof(t->trouble), "%s", detail[0] ? detail : farkv_strerror(err));
		return err;
	}
	compare(next, &t->view[t->now]);
	t->now = !t->now;
	return 0;
}

/* Run until a key is pressed, or a signal arrives. */
static void show(struct top *t, int interval_ms)
{
	uint64_t drawn = 0;
	int key = ' ';

	timeout(interval_ms);
	while (key != 'q' && key != 'Q' && live_goes_on(t->cli, drawn)) {
		if (key == ERR || key == ' ')
			(void)update(t);
		draw_all(t); /* at once after another key, or a new size */
		drawn++;
		key = getch();
	}
}

static int top(struct cli *cli, struct top *t)
{
	SCREEN *screen;
	int err;

	err = update(t); /* twice: rates are of two views */
	clock_sleep_ns(100 * NS_PER_MS);
	if (!err)
		err = update(t);
	if (err)
		return cli_fail(cli, err, NULL, 0);
	setlocale(LC_CTYPE, "");
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return cli_error(cli, CLI_FAILED, "ncurses does not know this terminal: set TERM");
	cli_catch_signals();
	cbreak();
	noecho();
	curs_set(0);
	show(t, (int)(live_interval_ns(cli, 1000) / NS_PER_MS));
	endwin();
	delscreen(screen);
	return CLI_OK;
}

int cmd_top(struct cli *cli, int argc, char **argv)
{
	struct top *t;
	int code = CLI_OK;

	(void)argc;
	(void)argv;
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return cli_error(cli, CLI_USAGE, "it needs a terminal; take --stat");
	code = cli_connect(cli);
	if (code)
		return code;
	t = calloc(1, sizeof(*t));
	if (!t)
		return cli_fail(cli, FARKV_ENOMEM, NULL, 0);
	t->cli = cli;
	cli_address(cli->conn, t->where, sizeof(t->where));
	code = top(cli, t);
	free(t->view[0].rows);
	free(t->view[1].rows);
	free(t);
	return code;
}

#endif
