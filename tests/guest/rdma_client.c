/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A handle that does what it is told line by line, for the tests with two machines:
 *
 *   rdma_client URI OP_TIMEOUT_MS [CACHE_ENTRIES [CACHE_BYTES]]
 *
 *   get KEY          0 MS VALUE
 *   put KEY VALUE    0 MS
 *   submit KEY       0 MS              a get, which is not polled
 *   wait MS          0 MS VALUE        ... and taken
 *   soak SECONDS     0 MS OPERATIONS ERRORS WRONG LONGEST_MS FIRST_ERROR
 *
 * Each line gets one line in answer: FARKV_*, milliseconds, and the rest as above or
 * the error's detail. Soak puts and gets in turn and checks what it gets; its own
 * result is that of its last operation.
 */
#include <farkv.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SOAK_KEYS 64
#define SOAK_BYTES_MAX 3000

struct soak_key {
	unsigned stored, maybe; /* value's number; that of a put nobody knows of */
};

static struct farkv *kv;
static struct soak_key soak_keys[SOAK_KEYS];
static unsigned soak_number;

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void answer(int err, double began, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void answer(int err, double began, const char *fmt, ...)
{
	va_list ap;

	printf("%d %.0f ", err, now_ms() - began);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

static void do_get(const char *key)
{
	double began = now_ms();
	struct farkv_value v;
	int err = farkv_get(kv, key, strlen(key), &v);

	if (err)
		answer(err, began, "%s", farkv_errdetail());
	else
		answer(err, began, "%.*s", (int)v.len, (const char *)v.data);
}

static void do_put(const char *key, const char *value)
{
	double began = now_ms();
	int err = farkv_put(kv, key, strlen(key), value, strlen(value));

	answer(err, began, "%s", err ? farkv_errdetail() : "");
}

static void do_submit(const char *key)
{
	static char kept[256];
	struct farkv_request r = {.kind = FARKV_REQUEST_GET, .key = kept};
	double began = now_ms();
	int n;

	r.key_len = (size_t)snprintf(kept, sizeof(kept), "%s", key);
	n = farkv_submit(kv, &r, 1);
	answer(n == 1 ? 0 : n, began, "%s", n == 1 ? "" : farkv_errdetail());
}

static void do_wait(uint32_t ms)
{
	struct farkv_completion c = {.result = FARKV_ETIMEDOUT};
	double began = now_ms();
	int n = farkv_wait(kv, &c, 1, ms);

	if (n < 0 || c.result)
		answer(n < 0 ? n : c.result, began, "%s", farkv_errdetail());
	else
		answer(0, began, "%.*s", (int)c.value.len, (const char *)c.value.data);
}

/* ---- soak ------------------------------------------------------------------- */

/* The value of that number: its length and all its bytes follow from it. */
static size_t soak_value(unsigned number, char *buf)
{
	size_t len = number % SOAK_BYTES_MAX + 1;

	for (size_t i = 0; i < len; i++)
		buf[i] = (char)(number + i * 7 + i / 256);
	return len;
}

static int soak_put(unsigned k)
{
	char key[16], value[SOAK_BYTES_MAX];
	size_t len = soak_value(++soak_number, value);
	int key_len = snprintf(key, sizeof(key), "soak%u", k);
	int err = farkv_put(kv, key, (size_t)key_len, value, len);

	if (!err)
		soak_keys[k] = (struct soak_key){.stored = soak_number};
	else if (err == FARKV_EMAYBE)
		soak_keys[k].maybe = soak_number;
	return err;
}

static bool soak_is(const struct farkv_value *v, unsigned number)
{
	char value[SOAK_BYTES_MAX];

	return number && v->len == soak_value(number, value) &&
	       memcmp(v->data, value, v->len) == 0;
}

static int soak_get(unsigned k, unsigned *wrong)
{
	struct soak_key *s = &soak_keys[k];
	struct farkv_value v;
	char key[16];
	int key_len = snprintf(key, sizeof(key), "soak%u", k);
	int err = farkv_get(kv, key, (size_t)key_len, &v);

	if (err == FARKV_ENOTFOUND) {
		*wrong += s->stored != 0;
		return 0;
	}
	if (err)
		return err;
	if (soak_is(&v, s->maybe))
		s->stored = s->maybe;
	else if (!soak_is(&v, s->stored))
		++*wrong;
	s->maybe = 0;
	return 0;
}

static void do_soak(double seconds)
{
	static const struct timespec pause = {.tv_nsec = 50000000};
	unsigned operations = 0, errors = 0, wrong = 0;
	double began = now_ms(), longest = 0;
	int err = 0, first = 0;

	while (now_ms() - began < seconds * 1e3) {
		double op_began = now_ms();
		unsigned k = operations / 2 % SOAK_KEYS;

		err = operations % 2 ? soak_get(k, &wrong) : soak_put(k);
		operations++;
		if (err) {
			errors++;
			fprintf(stderr, "soak: %d after %.0f ms: %s\n", err,
				now_ms() - op_began, farkv_errdetail());
			first = first ? first : err;
		}
		if (now_ms() - op_began > longest)
			longest = now_ms() - op_began;
		if (err)
			nanosleep(&pause, NULL);
	}
	answer(err, began, "%u %u %u %.0f %d", operations, errors, wrong,
	       longest, first);
}

static void obey(char *line)
{
	char *word = strtok(line, " \n"), *key = strtok(NULL, " \n");
	char *value = strtok(NULL, " \n");

	if (word && key && strcmp(word, "get") == 0)
		do_get(key);
	else if (word && value && strcmp(word, "put") == 0)
		do_put(key, value);
	else if (word && key && strcmp(word, "submit") == 0)
		do_submit(key);
	else if (word && key && strcmp(word, "wait") == 0)
		do_wait((uint32_t)strtoul(key, NULL, 10));
	else if (word && key && strcmp(word, "soak") == 0)
		do_soak(strtod(key, NULL));
	else
		answer(FARKV_EINVAL, now_ms(), "not understood");
}

int main(int argc, char **argv)
{
	struct farkv_options o;
	char line[4096];
	int err;

	if (argc < 3 || argc > 5) {
		fprintf(stderr, "usage: rdma_client URI OP_TIMEOUT_MS "
				"[CACHE_ENTRIES [CACHE_BYTES]]\n");
		return 64;
	}
	farkv_options_init(&o);
	o.op_timeout_ms = (uint32_t)strtoul(argv[2], NULL, 10);
	o.connect_timeout_ms = 30000;
	if (argc > 3)
		o.cache_entries = (uint32_t)strtoul(argv[3], NULL, 10);
	if (argc > 4)
		o.cache_bytes = strtoul(argv[4], NULL, 10);
	err = farkv_open(argv[1], &o, &kv);
	answer(err, now_ms(), "%s", err ? farkv_errdetail() : "");
	if (err)
		return 1;
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	farkv_close(kv);
	return 0;
}
