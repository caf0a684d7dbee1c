/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * saver.h - a child process of the server that saves and restores its store, as an ordinary client
 * of it: the server's loop never waits for a disk.
 *
 * start.h starts it. Parent and child talk by packets, one order at a time, each of which is
 * answered. The child ends when the parent does, and removes an unfinished file.
 */
#ifndef SERVER_SAVER_SAVER_H
#define SERVER_SAVER_SAVER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** Begins with this; the rest is random, so that no other client is taken for the saver. */
#define SAVER_NAME "kvserver-saver-"

struct saver {
	pid_t pid;
	int fd;        /* packets; readable when there is an answer, or the child has ended */
	char name[40]; /* that the child gives to the server in HELLO */
};

/** Has the child give up what it does. */
#define SAVER_INTERRUPT SIGUSR2

enum saver_kind {
	SAVER_OPEN,    /* connect; the other orders do so, too */
	SAVER_RESTORE, /* the file `restore` */
	SAVER_SAVE,    /* to the file `save`; the previous one stays as FILE.1 */
};

/** An order. */
struct saver_message {
	uint32_t kind;
	char uri[1024], key[256]; /* of SAVER_OPEN; key may be empty */
};

struct saver_answer {
	uint32_t kind; /* enum saver_kind */
	int32_t err;   /* FARKV_OK, or why it failed */
	uint64_t records, bytes, ns;
	uint64_t at_ms;    /* when, since 1970 */
	char detail[512];  /* the line of an error; of a restore what else there is to say */
};

/** Tell the child the server's address and the name of its key (or NULL), and have it connect. */
bool saver_open(const struct saver *s, const char *uri, const char *key);

/** Give an order; does not wait. False: the child has ended. */
bool saver_order(const struct saver *s, enum saver_kind kind);

/** The next answer, without waiting. 1, 0: none is there, -1: the child has ended. */
int saver_answer(const struct saver *s, struct saver_answer *out);

/** Have the child give up what it does; the answer says FARKV_EABORTED. */
void saver_interrupt(const struct saver *s);

/** End the child and wait for its end. */
void saver_stop(struct saver *s);

#endif
