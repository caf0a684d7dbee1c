/* A cache of sessions: each lives for 30 minutes after its last use. session ID [USER] */
#include <farkv.h>
#include <stdio.h>
#include <string.h>

#define LIFE_MS (30 * 60 * 1000)

static int log_in(struct farkv *kv, const char *id, const char *user)
{
	struct farkv_write_options life = {.size = sizeof(life), .ttl_ms = LIFE_MS};
	struct farkv_request r = {.kind = FARKV_REQUEST_ADD, .key = id, .key_len = strlen(id),
				  .value = user, .value_len = strlen(user), .options = &life};

	return farkv_write(kv, &r, NULL); /* FARKV_EEXISTS: somebody has this session */
}

int main(int argc, char **argv)
{
	struct farkv *kv;
	struct farkv_value v;
	int err = argc < 2 ? FARKV_EINVAL : farkv_open(NULL, NULL, &kv);

	if (!err && argc > 2)
		err = log_in(kv, argv[1], argv[2]);
	if (!err) /* each use prolongs it */
		err = farkv_get_touch(kv, argv[1], strlen(argv[1]), LIFE_MS, &v);
	if (err)
		return fprintf(stderr, "%s\n", farkv_strerror(err)), 1;
	printf("%.*s, %llu s left\n", (int)v.len, (const char *)v.data, (unsigned long long)v.ttl_ms / 1000);
	farkv_close(kv);
	return 0;
}
