/* SPDX-License-Identifier: BSD-3-Clause */
/* kvcli doctor: whether RDMA works on this machine, and the remedy if not. */
#include "config.h"

#include "cli.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <jansson.h>

#include "common/base/hugepage.h"
#include "common/base/util.h"
#include "common/rdma/probe.h"

#include "output.h"

enum level { OK, WARN, FAIL };
static const char *const level_text[] = {"ok", "warn", "FAIL"};

struct check {
	enum level level;
	char detail[768], todo[512];
};

struct patient {
	struct cli *cli;
	const struct rdma_host *host;
	struct rdma_memlock memlock;
};

/* ---- findings --------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void
found(struct check *c, enum level level, const char *fmt, ...)
{
	va_list ap;

	c->level = level;
	va_start(ap, fmt);
	vsnprintf(c->detail, sizeof(c->detail), fmt, ap);
	va_end(ap);
}

/* Append an item to the list in the detail. */
__attribute__((format(printf, 2, 3))) static void add(struct check *c,
						      const char *fmt, ...)
{
	size_t n = strlen(c->detail);
	va_list ap;

	if (n)
		n += (size_t)snprintf(c->detail + n, sizeof(c->detail) - n,
				      ", ");
	if (n >= sizeof(c->detail))
		return;
	va_start(ap, fmt);
	vsnprintf(c->detail + n, sizeof(c->detail) - n, fmt, ap);
	va_end(ap);
}

__attribute__((format(printf, 2, 3))) static void todo(struct check *c,
						       const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->todo, sizeof(c->todo), fmt, ap);
	va_end(ap);
}

/* If there is no opened device, say so and return true. */
static bool without_device(const struct rdma_host *h, struct check *c)
{
	for (size_t i = 0; i < h->n_devices; i++)
		if (h->devices[i].opened)
			return false;
	found(c, WARN, "not looked at, as no device can be opened");
	return true;
}

/* Iterate over the ports of opened devices. */
struct place {
	const struct rdma_device *device;
	const struct rdma_port *port;
	size_t i, k;
};

static bool next_port(const struct rdma_host *h, struct place *p)
{
	while (p->i < h->n_devices) {
		p->device = &h->devices[p->i];
		if (p->k < p->device->n_ports) {
			p->port = &p->device->ports[p->k++];
			return true;
		}
		p->i++;
		p->k = 0;
	}
	return false;
}

/* ---- checks ----------------------------------------------------------------- */

static void check_build(const struct patient *p, struct check *c)
{
	if (p->host->built)
		found(c, OK, "farkv %s with libibverbs and librdmacm",
		      PACKAGE_VERSION);
	else {
		found(c, FAIL, "%s", p->host->problem);
		todo(c, "%s", p->host->remedy);
	}
}

static void check_modules(const struct patient *p, struct check *c)
{
	const struct rdma_host *h = p->host;
	const struct {
		const char *name;
		bool loaded;
	} m[] = {{"ib_uverbs", h->ib_uverbs},
		 {"rdma_ucm", h->rdma_ucm},
		 {"rdma_rxe", h->rdma_rxe},
		 {"siw", h->siw}};

	for (size_t i = 0; i < ARRAY_SIZE(m); i++)
		if (m[i].loaded)
			add(c, "%s", m[i].name);
	if (h->ib_uverbs && h->rdma_ucm)
		return;
	c->level = h->ib_uverbs ? WARN : FAIL;
	if (!h->ib_uverbs && !h->rdma_ucm)
		found(c, FAIL, "neither ib_uverbs nor rdma_ucm is loaded");
	else
		add(c, "but not %s", h->ib_uverbs ? "rdma_ucm" : "ib_uverbs");
	if (h->has_rxe == RDMA_NO)
		add(c, "and kernel %s comes without rdma_rxe", h->kernel);
	todo(c, "as root, outside of a container: modprobe -a ib_uverbs "
		"rdma_ucm");
}

static void check_nodes(const struct patient *p, struct check *c)
{
	const struct rdma_host *h = p->host;

	if (!h->dev_folder && !h->n_devices) {
		found(c, FAIL, "there is no /dev/infiniband");
		todo(c, "it comes with the first device; in a container give "
			"it --device /dev/infiniband");
		return;
	}
	for (size_t i = 0; i < h->n_devices; i++) {
		const struct rdma_device *d = &h->devices[i];

		if (d->state == RDMA_NO_ACCESS) {
			c->level = FAIL;
			add(c, "%s", d->problem);
			todo(c, "%s", d->remedy);
		} else if (d->opened) {
			add(c, "%s opens", d->node);
		}
	}
	if (h->state == RDMA_NO_CM) {
		c->level = FAIL;
		add(c, "%s", h->problem);
		todo(c, "%s", h->remedy);
	} else if (h->state == RDMA_READY || !h->cm_node_error) {
		add(c, "rdma_cm opens");
	} else {
		c->level = FAIL;
		add(c, "/dev/infiniband/rdma_cm: %s",
		    strerror(h->cm_node_error));
		if (!c->todo[0])
			todo(c, "as root: modprobe rdma_ucm; chmod 0666 "
				"/dev/infiniband/rdma_cm");
	}
}

static void check_devices(const struct patient *p, struct check *c)
{
	const struct rdma_host *h = p->host;

	for (size_t i = 0; i < h->n_devices; i++) {
		const struct rdma_device *d = &h->devices[i];

		add(c, "%s (%s%s%s) %s%s", d->name,
		    d->software ? "software" : "card", d->driver[0] ? " " : "",
		    d->driver,
		    d->state == RDMA_READY ? "can be used" : "cannot be used: ",
		    d->problem);
	}
	if (h->state == RDMA_READY || h->state == RDMA_NO_CM)
		return;
	c->level = FAIL;
	if (!h->n_devices)
		found(c, FAIL, "%s", h->problem);
	todo(c, "%s", h->remedy);
}

static void check_ports(const struct patient *p, struct check *c)
{
	struct place at = {0};
	const char *netdev = "";
	size_t active = 0;

	if (without_device(p->host, c))
		return;
	while (next_port(p->host, &at)) {
		add(c, "%s/%u %s (%s%s%s)", at.device->name, at.port->number,
		    at.port->state_text, rdma_link_str(at.port->link),
		    at.port->netdev[0] ? " " : "", at.port->netdev);
		active += at.port->active;
		if (!at.port->active && at.port->link == RDMA_LINK_ETHERNET &&
		    !netdev[0])
			netdev = at.port->netdev;
	}
	if (active)
		return;
	c->level = FAIL;
	if (netdev[0])
		todo(c, "as root: ip link set %s up; look at the cable",
		     netdev);
	else
		todo(c, "look at the cable and the subnet manager");
}

static void check_gids(const struct patient *p, struct check *c)
{
	const struct rdma_port *local = NULL;
	struct place at = {0};
	bool any = false;

	if (without_device(p->host, c))
		return;
	while (next_port(p->host, &at)) {
		const struct rdma_port *port = at.port;

		if (!port->active)
			continue;
		if (port->chosen >= 0) {
			const struct rdma_gid *g = &port->gids[port->chosen];

			add(c, "%s/%u uses GID %u, %s (%s)", at.device->name,
			    port->number, g->index, g->address, port->why);
			if (strstr(port->why, "link-local"))
				local = port;
		} else {
			add(c, "%s/%u: %s", at.device->name, port->number,
			    port->why);
		}
		any = any || port->state == RDMA_READY;
	}
	if (!c->detail[0])
		found(c, WARN, "not looked at, as no port is active");
	else if (!any) {
		c->level = FAIL;
		todo(c, "%s", p->host->remedy);
	} else if (local) {
		c->level = WARN;
		todo(c, "give %s an address: ip address add ADDRESS/LENGTH "
			"dev %s", local->netdev, local->netdev);
	}
}

static void check_atomics(const struct patient *p, struct check *c)
{
	bool any = false;

	if (without_device(p->host, c))
		return;
	for (size_t i = 0; i < p->host->n_devices; i++) {
		const struct rdma_device *d = &p->host->devices[i];

		if (!d->opened)
			continue;
		add(c, "%s: %s, %d READs and CAS out, %d in%s", d->name,
		    d->atomics == RDMA_ATOMICS_NONE ? "no compare-and-swap"
		    : d->atomics == RDMA_ATOMICS_HCA
			    ? "compare-and-swap within the device"
			    : "compare-and-swap also with CPUs",
		    d->max_qp_init_rd_atom, d->max_qp_rd_atom,
		    d->software ? ", 8-byte READs may tear" : "");
		any = any || (d->atomics != RDMA_ATOMICS_NONE &&
			      d->max_qp_rd_atom > 0 &&
			      d->max_qp_init_rd_atom > 0);
	}
	if (any)
		return;
	c->level = FAIL;
	todo(c, "use a device with atomics: most InfiniBand and RoCE cards, or "
		"rdma_rxe");
}

/* A server registers its memory for writers and for readers; the kernel counts both. */
#define REGISTRATIONS 2

static void check_memlock(const struct patient *p, struct check *c)
{
	uint64_t memory = p->cli->memory;
	char limit[24], need[24];

	util_format_size(p->memlock.limit, limit, sizeof(limit));
	util_format_size(memory, need, sizeof(need));
	if (p->memlock.ipc_lock)
		found(c, OK, "CAP_IPC_LOCK: no limit on locked memory");
	else if (p->memlock.limit == UINT64_MAX)
		found(c, OK, "no limit on locked memory");
	else if (rdma_memlock_allows(&p->memlock, REGISTRATIONS * memory))
		found(c, OK, "%s may be locked, enough for kvserver -m %s",
		      limit, need);
	else {
		found(c, FAIL,
		      "only %s may be locked, and kvserver with %s (--memory) "
		      "locks its memory for writers and again for readers",
		      limit, need);
		todo(c, "%s", rdma_memlock_remedy);
	}
}

static void check_region(const struct patient *p, struct check *c)
{
	uint64_t memory = p->cli->memory, largest = 0;
	char need[24], most[24];

	if (without_device(p->host, c))
		return;
	for (size_t i = 0; i < p->host->n_devices; i++)
		largest = UTIL_MAX(largest, p->host->devices[i].max_mr_size);
	util_format_size(memory, need, sizeof(need));
	util_format_size(largest, most, sizeof(most));
	if (largest == UINT64_MAX)
		found(c, OK, "a device registers %s in one piece", need);
	else if (largest >= memory)
		found(c, OK, "a device registers %s in one piece (%s at most)",
		      need, most);
	else {
		found(c, FAIL, "no device registers %s in one piece, but %s",
		      need, most);
		todo(c, "serve less memory: kvserver --memory");
	}
}

/* True if the kernel makes huge pages on request. */
static bool makes_hugepages(void)
{
	int fd = memfd_create("farkv-doctor", MFD_CLOEXEC);
	void *map = MAP_FAILED;
	bool can = false;

	if (fd >= 0 && ftruncate(fd, (off_t)HUGEPAGE_BYTES) == 0)
		map = hugepage_map(fd, HUGEPAGE_BYTES);
	if (map != MAP_FAILED) {
		can = hugepage_collapse(map, HUGEPAGE_BYTES);
		munmap(map, HUGEPAGE_BYTES);
	}
	if (fd >= 0)
		close(fd);
	return can;
}

static void check_hugepages(const struct patient *p, struct check *c)
{
	const char *path = "/sys/kernel/mm/hugepages/hugepages-2048kB/"
			   "free_hugepages";
	uint64_t want = (p->cli->memory + HUGEPAGE_BYTES - 1) / HUGEPAGE_BYTES;
	unsigned long long n = 0;
	FILE *f = fopen(path, "re");
	char size[24];
	bool known;

	util_format_size(p->cli->memory, size, sizeof(size));
	known = f && fscanf(f, "%llu", &n) == 1;
	if (f)
		fclose(f);
	if (known && n >= want) {
		found(c, OK, "%llu free pages of 2 MiB, for kvserver "
			     "--hugepages", n);
		return;
	}
	if (makes_hugepages()) {
		found(c, OK, "the kernel makes pages of 2 MiB; by RDMA for "
			     "kvserver --hugepages; %llu are set aside", n);
		return;
	}
	if (known)
		found(c, WARN,
		      "%llu free pages of 2 MiB, %" PRIu64 " would hold %s; "
		      "plain pages work, but a card finds addresses slower",
		      n, want, size);
	else
		found(c, WARN, "this kernel has no pages of 2 MiB");
	if (known)
		todo(c, "as root: sysctl vm.nr_hugepages=%" PRIu64
			", then kvserver --hugepages", want);
}

static void check_mtu(const struct patient *p, struct check *c)
{
	const struct rdma_port *small = NULL;
	struct place at = {0};

	if (without_device(p->host, c))
		return;
	while (next_port(p->host, &at)) {
		if (!at.port->active)
			continue;
		add(c, "%s/%u %u of %u bytes", at.device->name,
		    at.port->number, at.port->active_mtu, at.port->max_mtu);
		if (at.port->active_mtu < 1024)
			small = at.port;
	}
	if (!c->detail[0])
		found(c, WARN, "not looked at, as no port is active");
	if (!small)
		return;
	c->level = WARN;
	todo(c, "use an MTU of 1500 or more on %s and all the way: ip link set "
		"%s mtu 4200", small->netdev[0] ? small->netdev : "INTERFACE",
	     small->netdev[0] ? small->netdev : "INTERFACE");
}

static void check_fork(const struct patient *p, struct check *c)
{
	switch (p->host->fork) {
	case RDMA_FORK_UNNEEDED:
		found(c, OK, "the kernel copies registered pages for children");
		break;
	case RDMA_FORK_ON:
		found(c, OK, "RDMAV_FORK_SAFE or IBV_FORK_SAFE is set");
		break;
	case RDMA_FORK_NEEDED:
		found(c, WARN, "with this kernel a program that forks after it "
			       "opened a store can lose what is written to "
			       "registered memory");
		todo(c, "set RDMAV_FORK_SAFE=1 for programs that fork");
		break;
	default:
		found(c, WARN, "not looked at, as there is no device");
		break;
	}
}

/* The shared-memory transport, which needs none of the above. */
static void check_store(const struct patient *p, struct check *c)
{
	struct cli *cli = p->cli;
	int err = cli_open(cli);
	char where[64];

	if (!err) {
		cli_address(cli->conn, where, sizeof(where));
		found(c, OK, "the store at %s answers", where[0] ? where : "the default address");
		return;
	}
	found(c, WARN, "%s", farkv_errdetail()[0] ? farkv_errdetail()
						  : farkv_strerror(err));
}

static const struct {
	const char *name;
	void (*run)(const struct patient *p, struct check *c);
} checks[] = {
	{"build", check_build},
	{"kernel modules", check_modules},
	{"device nodes", check_nodes},
	{"devices", check_devices},
	{"ports", check_ports},
	{"gid", check_gids},
	{"atomics", check_atomics},
	{"memlock", check_memlock},
	{"registration", check_region},
	{"huge pages", check_hugepages},
	{"mtu", check_mtu},
	{"fork", check_fork},
	{"store", check_store},
};

/* ---- the command ------------------------------------------------------------ */

static void check_json(json_t *list, const char *name, const struct check *c)
{
	json_t *o = json_object();

	json_object_set_new(o, "check", json_string(name));
	json_object_set_new(o, "level", json_string(level_text[c->level]));
	output_bytes(o, "detail", c->detail, strlen(c->detail));
	output_bytes(o, "todo", c->todo, strlen(c->todo));
	json_array_append_new(list, o);
}

int cmd_doctor(struct cli *cli, int argc, char **argv)
{
	struct rdma_host h;
	struct patient p = {.cli = cli, .host = &h};
	json_t *o = json_object(), *list = json_array();
	enum level worst = OK;

	(void)argc;
	(void)argv;
	if (rdma_probe(&h))
		return cli_error(cli, CLI_FAILED,
				 "this process is out of memory");
	rdma_memlock_get(&p.memlock);
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		struct check c = {0};

		checks[i].run(&p, &c);
		worst = UTIL_MAX(worst, c.level);
		if (cli->json)
			check_json(list, checks[i].name, &c);
		else if (!cli->quiet || c.level != OK)
			printf("%-4s  %s: %s%s%s\n", level_text[c.level],
			       checks[i].name, c.detail, c.todo[0] ? "; " : "",
			       c.todo);
	}
	rdma_probe_free(&h);
	json_object_set_new(o, "usable", json_boolean(worst != FAIL));
	json_object_set_new(o, "checks", list);
	if (cli->json)
		output_print(o);
	else
		json_decref(o);
	return worst == FAIL ? CLI_NO : CLI_OK;
}
