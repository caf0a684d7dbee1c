/* Counts with four threads: each opens a handle at its first call, which ends with it. */
#include <farkv.h>
#include <pthread.h>
#include <stdio.h>

static pthread_key_t handles;

static void close_handle(void *kv)
{
	farkv_close(kv);
}

static struct farkv *my_handle(void)
{
	struct farkv *kv = pthread_getspecific(handles);

	if (!kv && farkv_open(NULL, NULL, &kv) == 0)
		pthread_setspecific(handles, kv);
	return kv;
}

static void *count(void *unused)
{
	struct farkv_incr_options o = {.size = sizeof(o), .delta = 1, .initial = 1,
				       .flags = FARKV_INCR_CREATE};

	for (int i = 0; i < 1000; i++)
		if (!my_handle() || farkv_incr(my_handle(), "counter", 7, &o, NULL))
			fprintf(stderr, "%s\n", farkv_errdetail());
	return unused;
}

int main(void)
{
	pthread_t threads[4];

	pthread_key_create(&handles, close_handle);
	for (int i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, count, NULL))
			return 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
