/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "client/uri.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/err.h"
#include "tests/rig/cases.h"

#define LONG100                                                                \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"                   \
	"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static const struct {
	const char *text;
	const char *path;
} good[] = {
	{"shm:///run/farkv/kvserver.sock", "/run/farkv/kvserver.sock"},
	{"SHM:///a", "/a"},
	{"shm:///with%20space%2Fslash%25", "/with space/slash%"},
	{"shm:///%3f%23%C3%A4", "/?#\xC3\xA4"},
	{"shm:///\xC3\xA4", "/\xC3\xA4"},
	{"shm:///a b", "/a b"},
	{"/run/x.sock", "/run/x.sock"},
	{"./x.sock", "./x.sock"},
	{"dir/x.sock", "dir/x.sock"},
	{"/a%20b?c#d", "/a%20b?c#d"},
	{"./like:this", "./like:this"},
	{"/a://b", "/a://b"},
	{"1x:/y", "1x:/y"},
	{"/" LONG100 "123456", "/" LONG100 "123456"}, /* 107 bytes */
};

TEST_EACH(uri_well_formed_is_parsed, good)
{
	struct uri u;

	memset(&u, 0xA5, sizeof(u));
	ck_assert_int_eq(uri_resolve(good[_i].text, &u), 0);
	ck_assert_str_eq(u.path, good[_i].path);
}

static const struct {
	const char *text, *path, *keys, *key;
} keyed[] = {
	{"shm:///a?keys=/etc/k", "/a", "/etc/k", ""},
	{"shm:///a%3F?keys=my%20keys%26%3f%23&key=b.c", "/a?", "my keys&?#", "b.c"},
	{"shm:///a?key=me", "/a", "", "me"},
	{"shm:///a?", "/a", "", ""},
};

TEST_EACH(uri_resolve_socket_with_a_key, keyed)
{
	struct uri u;

	memset(&u, 0xA5, sizeof(u));
	ck_assert_int_eq(uri_resolve(keyed[_i].text, &u), 0);
	ck_assert_str_eq(u.path, keyed[_i].path);
	ck_assert_str_eq(u.shown, keyed[_i].path);
	ck_assert_str_eq(u.keys, keyed[_i].keys);
	ck_assert_str_eq(u.key, keyed[_i].key);
	ck_assert_str_eq(u.host, "");
}

static const struct {
	const char *text;
	int err;
	const char *says; /* in the detail */
} bad[] = {
	{"", FARKV_EURI, "empty"},
	{"kvserver.sock", FARKV_EURI, "./name"},
	{"shm:", FARKV_EURI, "character 5: '//'"},
	{"shm:/a", FARKV_EURI, "'//' must follow"},
	{"shm://", FARKV_EURI, "character 7: the path is missing"},
	{"shm://host/a", FARKV_EURI, "absolute"},
	{"shm://a", FARKV_EURI, "absolute"},
	{"shm:///", FARKV_EURI, "directory"},
	{"shm:///a/", FARKV_EURI, "directory"},
	{"/", FARKV_EURI, "directory"},
	{"shm:///a%", FARKV_EURI, "character 9: '%'"},
	{"shm:///a%2", FARKV_EURI, "hexadecimal"},
	{"shm:///a%g1", FARKV_EURI, "hexadecimal"},
	{"shm:///a%1g", FARKV_EURI, "hexadecimal"},
	{"shm:///a%00b", FARKV_EURI, "control"},
	{"shm:///a%0ab", FARKV_EURI, "character 9: control"},
	{"shm:///a\nb", FARKV_EURI, "address 'shm:///a?b'"},
	{"/a\x7f", FARKV_EURI, "control"},
	{"/a\tb", FARKV_EURI, "control"},
	{"shm:///a?x=1", FARKV_EURI, "%3F"},
	{"shm:///a#x", FARKV_EURI, "%23"},
	{"shm:///a?keys=", FARKV_EURI, "character 15: a name must follow '='"},
	{"shm:///a?keys=k&key=", FARKV_EURI, "a name must follow"},
	{"shm:///a?keys=k?x", FARKV_EURI, "%3F"},
	{"shm:///a?keys=k&tos=1", FARKV_EURI, "character 17: what may follow"},
	{"shm:///?keys=k", FARKV_EURI, "directory"},
	{"shm://?keys=k", FARKV_EURI, "absolute"},
	{"kv://host?keys=", FARKV_EURI, "a name must follow"},
	{"kv://[fe80::1%]", FARKV_EURI, "interface"},
	{"kv://[fe80::1%25e%g]", FARKV_EURI, "hexadecimal"},
	{"http://host/", FARKV_EURI, "unknown scheme"},
	{"shmx:///a", FARKV_EURI, "unknown scheme"},
	{"like:this", FARKV_EURI, "unknown scheme"},
	{"/" LONG100 "1234567", FARKV_EURI, "107 bytes"},
	{"shm:///" LONG100 "123456%37", FARKV_EURI, "107 bytes"},
	{"kv:host:1", FARKV_EURI, "'//' must follow"},
	{"kv://", FARKV_EURI, "host name is missing"},
	{"kv://:1", FARKV_EURI, "host name is missing"},
	{"kv://host:", FARKV_EURI, "port"},
	{"kv://host:0", FARKV_EURI, "port"},
	{"kv://host:65536", FARKV_EURI, "port"},
	{"kv://host:99999999999999999999", FARKV_EURI, "port"},
	{"kv://host:1x", FARKV_EURI, "port"},
	{"kv://[::1", FARKV_EURI, "']'"},
	{"kv://host:1/x", FARKV_EURI, "options after"},
	{"kv://host#x", FARKV_EURI, "options after"},
	{"kv://host?keys", FARKV_EURI, "keys=FILE"},
	{"kv://host?nokeys=1", FARKV_EURI, "keys=FILE"},
	{"kv://host?ack-timeout=32", FARKV_EURI, "1 to 31"},
	{"kv://host?ack-timeout=", FARKV_EURI, "1 to 31"},
	{"kv://host?ack-timeout=0", FARKV_EURI, "1 to 31"},
	{"kv://host?tos=256", FARKV_EURI, "0 to 255"},
	{"kv://host?tos=x", FARKV_EURI, "character 15: tos"},
	{"kv://host?keys=%0", FARKV_EURI, "hexadecimal"},
	{"kv://host?key=" LONG100, FARKV_EURI, "too long"},
};

TEST_EACH(uri_malformed_is_refused, bad)
{
	struct uri u, poison;

	memset(&u, 0xA5, sizeof(u));
	poison = u;
	err_clear();
	ck_assert_int_eq(uri_resolve(bad[_i].text, &u), bad[_i].err);
	ck_assert_msg(strstr(err_detail(), bad[_i].says) != NULL,
		      "'%s' lacks '%s'", err_detail(), bad[_i].says);
	ck_assert_ptr_eq(strchr(err_detail(), '\n'), NULL);
	if (bad[_i].err == FARKV_EURI)
		ck_assert_ptr_nonnull(strstr(err_detail(), "shm:///"));
	ck_assert_mem_eq(&u, &poison, sizeof(u));
}

static const struct {
	const char *text, *host, *port, *keys, *key, *shown;
	uint8_t ack_timeout, tos;
} kv[] = {
	{"kv://host", "host", "7670", "", "", "kv://host:7670", 14, 0},
	{"kv://host/", "host", "7670", "", "", "kv://host:7670", 14, 0},
	{"kv://host?", "host", "7670", "", "", "kv://host:7670", 14, 0},
	{"KV://[::1]:65535", "::1", "65535", "", "", "kv://[::1]:65535", 14, 0},
	{"kv://10.0.0.1:0070?keys=/etc/my%20keys&key=a.b&ack-timeout=31&tos=255",
	 "10.0.0.1", "70", "/etc/my keys", "a.b", "kv://10.0.0.1:70", 31, 255},
	{"kv://[fe80::1%25eth0]/?tos=0&ack-timeout=1", "fe80::1%eth0", "7670", "",
	 "", "kv://[fe80::1%25eth0]:7670", 1, 0},
	{"kv://[fe80::1%eth0]:1", "fe80::1%eth0", "1", "", "",
	 "kv://[fe80::1%25eth0]:1", 14, 0},
	{"kv://[fe80::1%ee0]", "fe80::1%ee0", "7670", "", "",
	 "kv://[fe80::1%25ee0]:7670", 14, 0},
	{"kv://[fe80::1%2525g]", "fe80::1%25g", "7670", "", "",
	 "kv://[fe80::1%2525g]:7670", 14, 0},
	{"kv://[fe80::1%25]", "fe80::1%25", "7670", "", "",
	 "kv://[fe80::1%2525]:7670", 14, 0},
};

TEST_EACH(uri_of_rdma_has_host_and_port, kv)
{
	struct uri u;

	memset(&u, 0xA5, sizeof(u));
	ck_assert_int_eq(uri_resolve(kv[_i].text, &u), 0);
	ck_assert_str_eq(u.path, "");
	ck_assert_str_eq(u.host, kv[_i].host);
	ck_assert_str_eq(u.port, kv[_i].port);
	ck_assert_str_eq(u.keys, kv[_i].keys);
	ck_assert_str_eq(u.key, kv[_i].key);
	ck_assert_str_eq(u.shown, kv[_i].shown);
	ck_assert_uint_eq(u.ack_timeout, kv[_i].ack_timeout);
	ck_assert_uint_eq(u.tos, kv[_i].tos);
}

TEST(uri_of_long_garbage_is_refused)
{
	char text[5000];
	struct uri u;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	ck_assert_int_eq(uri_resolve(text, &u), FARKV_EURI);
	ck_assert_uint_lt(strlen(err_detail()), 400);
	ck_assert_ptr_nonnull(strstr(err_detail(), "xxx..."));
}

TEST(uri_missing_is_the_default)
{
	char dir[] = "/tmp/farkv-XXXXXX", path[64];
	struct uri u;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	setenv("XDG_RUNTIME_DIR", dir, 1);
	setenv("FARKV_URI", "shm:///from/environment", 1);
	ck_assert_int_eq(uri_resolve(NULL, &u), 0);
	ck_assert_str_eq(u.path, "/from/environment");
	ck_assert_int_eq(uri_resolve("/explicit", &u), 0);
	ck_assert_str_eq(u.path, "/explicit");
	setenv("FARKV_URI", "nonsense", 1);
	ck_assert_int_eq(uri_resolve(NULL, &u), FARKV_EURI);

	/* Empty counts as unset; the default exists. */
	setenv("FARKV_URI", "", 1);
	snprintf(path, sizeof(path), "%s/farkv", dir);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/farkv/kvserver.sock", dir);
	fclose(fopen(path, "w"));
	ck_assert_int_eq(uri_resolve(NULL, &u), 0);
	ck_assert_str_eq(u.path, path);
	unlink(path);
	snprintf(path, sizeof(path), "%s/farkv", dir);
	rmdir(path);
	rmdir(dir);
}

static const struct {
	const char *text;
	const char *shown[4]; /* what each address is */
} lists[] = {
	{"shm:///a", {"/a"}},
	{"/a,b", {"/a,b"}},
	{"./a,shm:///b", {"./a,shm:///b"}}, /* a path, which has no lists */
	{"shm:///a,b", {"/a,b"}},
	{"shm:///a,shm:///b", {"/a", "/b"}},
	{"SHM:///a,Shm:///b", {"/a", "/b"}},
	{"shm:///a%2Cshm:///b", {"/a,shm:///b"}},
	{"kv://h", {"kv://h:7670"}},
	{"kv://h,i:9,[::1]:8", {"kv://h:7670", "kv://i:9", "kv://[::1]:8"}},
	{"kv://h,i/?tos=8", {"kv://h:7670", "kv://i:7670"}},
	{"kv://h?keys=/a,b,kv://i", {"kv://h:7670", "kv://i:7670"}},
	{"kv://h,shm:///a?key=x,kv://i,j", {"kv://h:7670", "/a", "kv://i:7670", "kv://j:7670"}},
};

TEST_EACH(uri_list_of_servers_is_split, lists)
{
	struct uri *list;
	size_t n;

	ck_assert_msg(uri_resolve_list(lists[_i].text, &list, &n) == 0, "%s", err_detail());
	for (size_t i = 0; i < n; i++) {
		ck_assert_ptr_nonnull(lists[_i].shown[i]);
		ck_assert_str_eq(list[i].shown, lists[_i].shown[i]);
	}
	ck_assert(n == 4 || !lists[_i].shown[n]);
	free(list);
}

/* What follows the hosts is for each of them. */
TEST(uri_list_of_hosts_shares_what_follows)
{
	struct uri *list;
	size_t n;

	ck_assert_int_eq(uri_resolve_list("kv://h,i:9?keys=/k,y&key=a&tos=8", &list, &n), 0);
	ck_assert_uint_eq(n, 2);
	for (size_t i = 0; i < n; i++) {
		ck_assert_str_eq(list[i].keys, "/k,y");
		ck_assert_str_eq(list[i].key, "a");
		ck_assert_uint_eq(list[i].tos, 8);
	}
	ck_assert_str_eq(list[0].host, "h");
	ck_assert_str_eq(list[1].port, "9");
	free(list);
}

TEST(uri_list_with_a_malformed_address_is_refused)
{
	static const char *const texts[] = {"", "shm:///a,shm:", "shm:///a,kv://", "kv://a,,b",
					    "kv://a,", "kv://,a", "kv://a,b:0", "kv://a,b?tos=x",
					    "a,b"};
	struct uri *list = NULL;
	char many[URI_LIST_MAX * 8] = "kv://a";
	size_t n;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		ck_assert_int_eq(uri_resolve_list(texts[i], &list, &n), FARKV_EURI);
	for (unsigned i = 0; i < URI_LIST_MAX; i++)
		strcat(many, ",a");
	ck_assert_int_eq(uri_resolve_list(many, &list, &n), FARKV_EURI);
	ck_assert_ptr_null(list);
}

TEST_SUITE("uri")
