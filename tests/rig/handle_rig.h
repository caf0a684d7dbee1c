/* SPDX-License-Identifier: BSD-3-Clause */
/** handle_rig.h - a handle of a fake server, so that the test chooses every moment. */
#ifndef TESTS_RIG_HANDLE_RIG_H
#define TESTS_RIG_HANDLE_RIG_H

#include <farkv.h>

#include "client/handle.h"
#include "fake_server.h"

/*
 * Two deadlines: a long one for calls that must succeed on a busy machine, and a short
 * one for calls that must time out, which request what they lack first.
 */
#define LONG_MS (FAKE_WAIT_S * 1000u)

extern struct fake_server srv;
extern struct farkv *kv;

/** A server and a handle. */
void setup(void);
/** Deferred blocks stay deferred; no READ is slow enough to be repeated. */
void setup_long_grace(void);
void teardown(void);

/** A handle of srv, with long deadlines. */
struct farkv *open_handle(void);
void set_timeout_ms(unsigned ms);

/** Close kv, with time for its BYE. */
void close_at_leisure(void);
/** Wait until the session is over, which the next call reports or causes. */
void wait_broken(void);

/**
 * Return when srv has counted everything that the control thread sent so far. Ends no
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

/** Wait until every GRANT_REQ is answered, and take the grants from the inbox. */
void no_grant_out(void);

void assert_value(const char *key, const char *value);
/** The last failure's detail contains `says`. */
void assert_detail(const char *says);

/** The next key whose window starts at the first line, into key[16]. */
void crowded_key(char *key);

#endif
