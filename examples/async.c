/* Sums the lengths of the values of the keys on the command line. */
#include <farkv.h>
#include <stdio.h>
#include <string.h>

#define MANY 32

static int fail(const char *what, int err)
{
	fprintf(stderr, "%s: %s: %s\n", what, farkv_strerror(err),
		farkv_errdetail());
	return 1;
}

int main(int argc, char **argv)
{
	struct farkv_completion done[MANY];
	struct farkv *kv;
	size_t bytes = 0;
	int next = 1, n, err;

	err = farkv_open(NULL, NULL, &kv);
	if (err)
		return fail("farkv_open", err);
	while (next < argc || farkv_in_flight(kv) > 0) {
		/* Submit as many as the queue takes. The keys must stay valid. */
		for (; next < argc; next++) {
			struct farkv_request r = {.tag = (uint64_t)next,
						  .kind = FARKV_REQUEST_GET,
						  .key = argv[next],
						  .key_len = strlen(argv[next])};

			n = farkv_submit(kv, &r, 1);
			if (n == FARKV_EAGAIN)
				break;
			if (n < 0)
				return fail("farkv_submit", n);
		}
		n = farkv_wait(kv, done, MANY, 1000);
		if (n < 0)
			return fail("farkv_wait", n);
		for (int i = 0; i < n; i++) {
			if (done[i].result == FARKV_OK)
				bytes += done[i].value.len;
			else
				fprintf(stderr, "%s: %s\n", argv[done[i].tag],
					done[i].detail);
		}
	}
	printf("%zu bytes\n", bytes);
	farkv_close(kv);
	return 0;
}
