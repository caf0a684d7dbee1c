/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Key files: each key that is found has a name, a role and can be looked up; no message
 * contains a part of the file.
 */
#include "config.h"

#include "fuzz.h"

#include "common/base/err.h"
#include "common/proto/keyfile.h"

/* Long words of the file that are not in every message. */
static void check_secrecy(const uint8_t *data, size_t size)
{
	const char *detail = err_detail();
	char word[13];

	for (size_t i = 0; i + 12 <= size; i++) {
		memcpy(word, data + i, 12);
		word[12] = '\0';
		if (strlen(word) == 12 && !strpbrk(word, " \t/.,;:"))
			FUZZ_CHECK(!strstr(detail, word));
	}
}

/* Every word that could be a name is looked up. */
static void look_up(const struct keyfile *kf, const uint8_t *data, size_t size)
{
	for (size_t i = 0, n; i < size; i += n + 1) {
		const struct key *k;

		for (n = 0; i + n < size && data[i + n] > ' '; n++)
			;
		k = keyfile_find(kf, (const char *)data + i, n);
		if (!k)
			continue;
		FUZZ_CHECK(keyfile_name_ok(k->name, k->name_len));
		FUZZ_CHECK(k->name_len == n && !memcmp(k->name, data + i, n));
		FUZZ_CHECK(k->name[n] == '\0');
		FUZZ_CHECK(k->role == KEY_RW || k->role == KEY_RO);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct keyfile *kf = NULL;
	const struct key *first = NULL;

	err_clear();
	if (keyfile_load(fuzz_file(data, size), &kf)) {
		FUZZ_CHECK(!kf && fuzz_detail_ok());
		check_secrecy(data, size);
		return 0;
	}
	look_up(kf, data, size);
	if (keyfile_first(kf, &first) == 0)
		FUZZ_CHECK(keyfile_find(kf, first->name, first->name_len) ==
			   first);
	keyfile_free(kf);
	return 0;
}
