/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "sysfs.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *rdma_probe_root = "";

/* NULL if it does not fit. */
__attribute__((format(printf, 3, 0))) static const char *
path_of(char *buf, size_t cap, const char *fmt, va_list ap)
{
	size_t n = strlen(rdma_probe_root);
	int more;

	if (n >= cap)
		return NULL;
	memcpy(buf, rdma_probe_root, n);
	more = vsnprintf(buf + n, cap - n, fmt, ap);
	return more >= 0 && (size_t)more < cap - n ? buf : NULL;
}

bool sysfs_exists(const char *fmt, ...)
{
	char path[512];
	struct stat st;
	va_list ap;
	bool yes;

	va_start(ap, fmt);
	yes = path_of(path, sizeof(path), fmt, ap) && lstat(path, &st) == 0;
	va_end(ap);
	return yes;
}

static void copy(char *buf, size_t cap, const char *text)
{
	size_t n = strnlen(text, cap - 1);

	memcpy(buf, text, n);
	buf[n] = '\0';
}

bool sysfs_line(char *buf, size_t cap, const char *fmt, ...)
{
	char path[512], line[256] = "";
	va_list ap;
	FILE *f;

	va_start(ap, fmt);
	f = path_of(path, sizeof(path), fmt, ap) ? fopen(path, "re") : NULL;
	va_end(ap);
	if (!f)
		return false;
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	fclose(f);
	line[strcspn(line, "\n")] = '\0';
	if (line[0])
		copy(buf, cap, line);
	return line[0];
}

bool sysfs_link(char *buf, size_t cap, const char *fmt, ...)
{
	char path[512], target[512];
	const char *slash;
	ssize_t n = -1;
	va_list ap;

	va_start(ap, fmt);
	if (path_of(path, sizeof(path), fmt, ap))
		n = readlink(path, target, sizeof(target) - 1);
	va_end(ap);
	if (n <= 0)
		return false;
	target[n] = '\0';
	slash = strrchr(target, '/');
	copy(buf, cap, slash ? slash + 1 : target);
	return true;
}

int sysfs_each(const char *folder, int (*fn)(void *arg, const char *name),
	       void *arg)
{
	char path[512];
	struct dirent *e;
	int err = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s%s", rdma_probe_root, folder);
	dir = opendir(path);
	if (!dir)
		return 0;
	while (!err && (e = readdir(dir)))
		if (e->d_name[0] != '.')
			err = fn(arg, e->d_name);
	closedir(dir);
	return err;
}

bool sysfs_module(const char *kernel, const char *list, const char *module,
		  bool *known_out)
{
	char path[512], file[80], line[4096];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "%s/lib/modules/%s/%s", rdma_probe_root,
		 kernel, list);
	snprintf(file, sizeof(file), "/%s.ko", module);
	f = fopen(path, "re");
	if (!f)
		return false;
	*known_out = true;
	while (!found && fgets(line, sizeof(line), f)) {
		/* After the colon are the module's dependencies. */
		line[strcspn(line, ":\n")] = '\0';
		found = strstr(line, file);
	}
	fclose(f);
	return found;
}
