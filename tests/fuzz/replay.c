/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay FILE|FOLDER...: run the target that this is linked with on each file, for
 * compilers without libFuzzer. Ends by a signal if there is a finding: the last
 * line on stderr then names the file.
 */
#include "config.h"

#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

/* An input takes milliseconds. */
#define SECONDS_MAX 60

static const char *volatile running;

/* Sanitizers exit without coming here; abort() and a hang do come here. */
static void on_signal(int sig)
{
	static const char text[] = "replay: the input that did it: ";

	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	(void)!write(STDERR_FILENO, running, strlen(running));
	(void)!write(STDERR_FILENO, "\n", 1);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void replay_file(const char *path)
{
	FILE *f = fopen(path, "re");
	struct stat st;
	uint8_t *data;
	size_t n;

	if (!f || fstat(fileno(f), &st)) {
		fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
		exit(2);
	}
	/*
	 * Exactly as large as the input, so that a read of the byte after it is detected.
	 */
	data = malloc((size_t)st.st_size + !st.st_size);
	FUZZ_CHECK(data);
	n = fread(data, 1, (size_t)st.st_size, f);
	fclose(f);
	FUZZ_CHECK(n == (size_t)st.st_size);
	running = path;
	alarm(SECONDS_MAX);
	LLVMFuzzerTestOneInput(data, n);
	alarm(0);
	/* 0 is what a descriptor is if nobody has set it. */
	FUZZ_CHECK(fcntl(STDIN_FILENO, F_GETFD) >= 0);
	free(data);
}

/* Returns the number of files. */
static unsigned replay_folder(const char *path)
{
	struct dirent **e;
	int n = scandir(path, &e, NULL, alphasort);
	unsigned files = 0;

	if (n < 0) {
		fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
		exit(2);
	}
	for (int i = 0; i < n; i++) {
		char file[4096];

		if (e[i]->d_name[0] != '.') {
			snprintf(file, sizeof(file), "%s/%s", path,
				 e[i]->d_name);
			replay_file(file);
			files++;
		}
		free(e[i]);
	}
	free(e);
	return files;
}

int main(int argc, char **argv)
{
	unsigned files = 0;

	signal(SIGABRT, on_signal);
	signal(SIGSEGV, on_signal);
	signal(SIGBUS, on_signal);
	signal(SIGALRM, on_signal);
	for (int i = 1; i < argc; i++) {
		struct stat st;

		if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode)) {
			files += replay_folder(argv[i]);
		} else {
			replay_file(argv[i]);
			files++;
		}
	}
	if (files == 0) {
		fprintf(stderr, "usage: %s FILE|FOLDER...\n", argv[0]);
		return 2;
	}
	printf("%u inputs\n", files);
	return 0;
}
