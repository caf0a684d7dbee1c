/*
 * Records the latency of its calls, prints percentiles, and writes the file that is its argument
 * for the textfile collector of node_exporter. A program that stays does this every few seconds.
 */
#include <farkv.h>
#include <stdio.h>

/* Under another name first: the collector never reads half of it. */
static int write_metrics(const char *path)
{
	static char text[FARKV_METRICS_MAX];
	size_t len = farkv_metrics(text, sizeof(text));
	char partial[4096];
	FILE *f;
	int bad;

	snprintf(partial, sizeof(partial), "%s.new", path);
	f = fopen(partial, "w");
	if (!f)
		return -1;
	bad = fwrite(text, 1, len, f) != len;
	if (fclose(f) || bad)
		return -1;
	return rename(partial, path);
}

int main(int argc, char **argv)
{
	struct farkv_latency l = {.size = sizeof(l)};
	struct farkv_options o;
	struct farkv_value v;
	struct farkv *kv;

	farkv_options_init(&o);
	o.flags = FARKV_OPEN_LATENCY;
	if (farkv_open(NULL, &o, &kv)) {
		fprintf(stderr, "%s\n", farkv_errdetail());
		return 1;
	}
	for (int i = 0; i < 1000; i++)
		if (farkv_put(kv, "key", 3, "value", 5) || farkv_get(kv, "key", 3, &v)) {
			fprintf(stderr, "%s\n", farkv_errdetail());
			return 1;
		}
	farkv_close(kv);
	if (farkv_latency(NULL, FARKV_LATENCY_GET, &l) == 0)
		printf("%llu gets: 50 %% in %llu ns, 99 %% in %llu ns\n",
		       (unsigned long long)l.count,
		       (unsigned long long)farkv_latency_percentile(&l, 50),
		       (unsigned long long)farkv_latency_percentile(&l, 99));
	if (argc == 2 && write_metrics(argv[1])) {
		perror(argv[1]);
		return 1;
	}
	return 0;
}
