/* SPDX-License-Identifier: BSD-3-Clause */
/** attack.h - endless attacks of a malicious writer on a server's time and memory. */
#ifndef TESTS_LAB_ATTACK_H
#define TESTS_LAB_ATTACK_H

#include <stdint.h>

enum attack {
	ATTACK_IN_USE, /* RETURN of 1024 blocks that slots name, with keys of 65,000 bytes,
			  again and again */
	ATTACK_KEYS,   /* RETURN of blocks with such keys that no slot names, and GRANT_REQ
			  of the same */
	ATTACK_PINGS,  /* PINGs without waiting for the answers, which are read */
};
#define ATTACKS 3u

/** Its name, and back; ATTACKS if there is none of that name. */
const char *attack_name(enum attack a);
enum attack attack_named(const char *name);

/**
 * Attack the server at `uri`, which serves; connect again whenever the session is ended.
 * `began` is called once, when the attack has begun. Each session that was ended counts in
 * *ended. Never returns; ends the process if it cannot begin.
 */
void attack_run(const char *uri, enum attack a, unsigned me, void (*began)(void),
		uint64_t *ended) __attribute__((noreturn));

#endif
