/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Property files of kvbench, and what it makes of them for a load and for a run. An
 * input is a file; each line that begins with -p is also tried as an argument.
 */
#include "config.h"

#include "fuzz.h"

#include "bench/gen/params.h"
#include "bench/base/props.h"
#include "common/base/err.h"

static void check_params(struct props *p, bool load)
{
	struct params v, before;

	memset(&v, 0x5A, sizeof(v));
	before = v;
	err_clear();
	if (params_read(p, load, &v)) {
		FUZZ_CHECK(fuzz_detail_ok());
		FUZZ_CHECK(memcmp(&v, &before, sizeof(v)) == 0);
		return;
	}
	/* Other files are not an input's to name. */
	if (v.trace_file[0])
		return;
	FUZZ_CHECK(v.record_count > 0 && v.insert_count > 0);
	FUZZ_CHECK(v.insert_start + v.insert_count <= v.record_count);
	FUZZ_CHECK(v.n_percentiles <= PERCENTILES_MAX);
	FUZZ_CHECK(v.dist >= DIST_UNIFORM && v.dist <= DIST_ZIPFIAN_EXACT);
	FUZZ_CHECK(params_dist_name(&v) && params_load_count(&v));
	params_warn(p, &v);
	if (v.field_len_dist == FIELD_LENGTH_HISTOGRAM)
		return;
	FUZZ_CHECK(params_read_files(p, &v) == 0);
	FUZZ_CHECK(v.value_max <= UINT64_C(64) << 20);
}

static void try_arguments(struct props *p, const char *text)
{
	while ((text = strstr(text, "-p "))) {
		size_t n = strcspn(text += 3, "\n");
		char *arg = strndup(text, n);

		FUZZ_CHECK(arg);
		err_clear();
		if (props_set_arg(p, arg))
			FUZZ_CHECK(fuzz_detail_ok());
		free(arg);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct props p = {0};
	char *text = fuzz_text(data, size);

	err_clear();
	if (props_load(&p, fuzz_file(data, size)))
		FUZZ_CHECK(fuzz_detail_ok());
	try_arguments(&p, text);
	for (size_t i = 0; i < p.n; i++)
		FUZZ_CHECK(p.v[i].key[0] && p.v[i].value && p.v[i].where &&
			   props_find(&p, p.v[i].key) == &p.v[i]);
	check_params(&p, true);
	check_params(&p, false);
	props_free(&p);
	free(text);
	return 0;
}
