/* SPDX-License-Identifier: BSD-3-Clause */
/** handle_rig.h - a handle of a fake server, so that every moment can be chosen. */
#ifndef TESTS_RIG_HANDLE_RIG_H
#define TESTS_RIG_HANDLE_RIG_H

#include <farkv.h>

#include "client/handle.h"
#include "fake_server.h"

/*
 * Deadlines of two kinds: a call that must succeed has the time of a busy machine, and
 * one that must time out has little, but says what it lacks first.
 */
#define LONG_MS (FAKE_WAIT_S * 1000u)

extern struct fake_server srv;
extern struct farkv *kv;

/** A server and a handle. */
void setup(void);
/** Blocks in limbo stay there; no READ is so slow that it must be done again. */
void setup_long_grace(void);
void teardown(void);

/** A handle of srv, with long deadlines. */
struct farkv *open_handle(void);
void set_timeout_ms(unsigned ms);

/** Close kv, and let it take its time to say goodbye. */
void close_at_leisure(void);
/** Until the session is over, which the next call is told, or sees to. */
void wait_broken(void);

/**
 * Return when srv has counted all that the control thread has sent so far. Ends no
 * operation.
 */
void heard_by_server(void);

int put(const char *key, const char *value);
int get(const char *key, char out[64]);
int del(const char *key);
/** put() as a request, and its result. */
int put_as_request(const char *key, const char *value);
/** put() by farkv_mput(). */
int put_as_batch(const char *key, const char *value);

/** Wait until every GRANT_REQ is answered, and take what came from the mail. */
void no_grant_out(void);

void assert_value(const char *key, const char *value);
/** The last failure's detail contains `says`. */
void assert_detail(const char *says);

#endif
