/* SPDX-License-Identifier: BSD-3-Clause */
/* hiredis on kvgate, for strangers.sh: strangers PORT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

static redisContext *c;

static void ends(redisReply *r, int type, const char *text)
{
	if (!r || r->type != type || (text && strcmp(r->str, text) != 0)) {
		fprintf(stderr, "answered type %d, '%s': %s\n", r ? r->type : 0,
			r && r->str ? r->str : "", c->errstr);
		exit(1);
	}
	freeReplyObject(r);
}

int main(int argc, char **argv)
{
	redisReply *r;

	(void)argc;
	c = redisConnect("127.0.0.1", atoi(argv[1]));
	if (!c || c->err)
		return 1;
	ends(redisCommand(c, "SET %s %b", "hiredis", "a\0b", (size_t)3), REDIS_REPLY_STATUS, "OK");
	r = redisCommand(c, "GET hiredis");
	if (!r || r->type != REDIS_REPLY_STRING || r->len != 3 || memcmp(r->str, "a\0b", 3) != 0)
		return 1;
	freeReplyObject(r);
	for (int i = 0; i < 1000; i++)
		redisAppendCommand(c, "INCR hiredis:n");
	for (long long i = 1; i <= 1000; i++) {
		if (redisGetReply(c, (void **)&r) != REDIS_OK || r->integer != i)
			return 1;
		freeReplyObject(r);
	}
	ends(redisCommand(c, "GET none"), REDIS_REPLY_NIL, NULL);
	ends(redisCommand(c, "LPUSH l 1"), REDIS_REPLY_ERROR, NULL);
	redisFree(c);
	return 0;
}
