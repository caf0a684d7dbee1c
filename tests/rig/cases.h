/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * cases.h - a program of libcheck whose cases register themselves, in the order of the file:
 *
 *     TEST(key__that_was_deleted__is_not_found)
 *     {
 *     }
 *
 *     TEST_GROUP(.setup = setup, .teardown = teardown);
 *
 *     TEST_EACH(size__of_any_unit__is_read, sizes)
 *     {
 *             use(sizes[_i]);
 *     }
 *
 *     TEST_SUITE("sizes")
 */
#ifndef TESTS_RIG_CASES_H
#define TESTS_RIG_CASES_H

#include "test_main.h"

/** What the cases below it have in common, up to the next group. */
struct test_group {
	const char *name;	/* default: that of the suite */
	void (*setup)(void);	/* before each case, in its process */
	void (*teardown)(void);
	void (*begin)(void);	/* before the first case, in the process of main() */
	void (*end)(void);
	double timeout_s;	/* against hangs; default: 60 */
	bool (*skip)(void);	/* true: leaves the group out */
};

/** A case (`add` is set), or the start of a group. */
struct test_item {
	struct test_item *next;
	int line;
	void (*add)(TCase *to);
	struct test_group group;
};

/* Sorted by line: compilers differ in the order in which they call constructors. */
static struct test_item *test_items;

static inline void test_register(struct test_item *item)
{
	struct test_item **at = &test_items;

	while (*at && (*at)->line < item->line)
		at = &(*at)->next;
	item->next = *at;
	*at = item;
}

#define TEST_JOIN_(a, b) a##b
#define TEST_ID_(name, line) TEST_JOIN_(name, line)
#define TEST_ITEM_(...)                                                        \
	__attribute__((constructor)) static void TEST_ID_(register_, __LINE__)(void) \
	{                                                                      \
		static struct test_item item;                                  \
                                                                               \
		item = (struct test_item){.line = __LINE__, __VA_ARGS__};      \
		test_register(&item);                                          \
	}
#define TEST_CASE_(test, begin, end)                                           \
	static void test##_body(int _i);                                       \
	START_TEST(test)                                                       \
	{                                                                      \
		test##_body(_i);                                               \
	}                                                                      \
	END_TEST                                                               \
	static void test##_add(TCase *to)                                      \
	{                                                                      \
		tcase_add_loop_test(to, test, begin, end);                     \
	}                                                                      \
	TEST_ITEM_(.add = test##_add)                                          \
	static void test##_body(int _i CK_ATTRIBUTE_UNUSED)

/** Begins a case; its body follows. */
#define TEST(name) TEST_CASE_(name, 0, 1)
/** Begins a case that runs for each _i of [from, to), which main() computes. */
#define TEST_LOOP(name, from, to) TEST_CASE_(name, (int)(from), (int)(to))
/** The same for each index of an array. */
#define TEST_EACH(name, array) TEST_LOOP(name, 0, sizeof(array) / sizeof((array)[0]))
/** Begins a group, with members of struct test_group. */
#define TEST_GROUP(...) TEST_ITEM_(.group = {__VA_ARGS__}) struct test_item

static inline TCase *test_group_new(const struct test_group *g, const char *name)
{
	TCase *group = tcase_create(g->name ? g->name : name);

	tcase_add_checked_fixture(group, g->setup, g->teardown);
	tcase_add_unchecked_fixture(group, g->begin, g->end);
	if (g->timeout_s > 0)
		tcase_set_timeout(group, g->timeout_s);
	return group;
}

static inline Suite *test_suite(const char *name)
{
	Suite *s = suite_create(name);
	TCase *group = test_group_new(&(struct test_group){0}, name);
	bool skip = false;

	suite_add_tcase(s, group);
	for (struct test_item *i = test_items; i; i = i->next) {
		if (!i->add) {
			group = test_group_new(&i->group, name);
			suite_add_tcase(s, group);
			skip = i->group.skip && i->group.skip();
		} else if (!skip) {
			i->add(group);
		}
	}
	return s;
}

/** main(): does what follows the name, as real_server_require(), and runs the cases. */
#define TEST_SUITE(name, ...)                                                  \
	int main(void)                                                         \
	{                                                                      \
		__VA_ARGS__;                                                   \
		TEST_RUN(test_suite(name));                                    \
	}

#endif
