#include <farkv.h>
#include <stdio.h>
int main(void)
{
	struct farkv *kv;
	struct farkv_value v;
	if (farkv_open(NULL, NULL, &kv) || farkv_put(kv, "hello", 5, "world", 5) ||
	    farkv_get(kv, "hello", 5, &v))
		return fprintf(stderr, "%s\n", farkv_errdetail()), 1;
	printf("%.*s\n", (int)v.len, (const char *)v.data);
	farkv_close(kv);
}
