/* SPDX-License-Identifier: BSD-3-Clause */
/* The probe without libibverbs: sysfs, limits, interfaces, and the verdicts. */
#include "config.h"

#include "probe.h"

#include <errno.h>
#include <grp.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <farkv.h>

#include "common/base/util.h"

#include "probe_verbs.h"
#include "sysfs.h"

#define CAP_IPC_LOCK_BIT 14

const char rdma_memlock_remedy[] =
	"ulimit -l unlimited; in a service LimitMEMLOCK=infinity; in a "
	"container --ulimit memlock=-1";

const char *rdma_link_str(enum rdma_link link)
{
	static const char *const text[] = {"unknown", "InfiniBand",
					   "Ethernet"};

	return text[link];
}

const char *rdma_gid_type_str(enum rdma_gid_type type)
{
	static const char *const text[] = {"IB", "RoCE v1", "RoCE v2"};

	return text[type];
}

const char *rdma_atomics_str(enum rdma_atomics atomics)
{
	static const char *const text[] = {"none", "device", "global"};

	return text[atomics];
}

/* ---- the kernel ------------------------------------------------------------------- */

static void kernel_fill(struct rdma_host *h)
{
	char node[512];
	struct utsname u;
	bool known = false;

	snprintf(node, sizeof(node), "%s/dev/infiniband/rdma_cm",
		 rdma_probe_root);
	h->cm_node_error = access(node, R_OK | W_OK) ? errno : 0;
	h->dev_folder = sysfs_exists("/dev/infiniband");
	if (uname(&u) == 0)
		snprintf(h->kernel, sizeof(h->kernel), "%.63s", u.release);
	h->ib_uverbs = sysfs_exists("/sys/module/ib_uverbs") ||
		       sysfs_exists("/sys/class/infiniband_verbs");
	h->rdma_ucm = sysfs_exists("/sys/module/rdma_ucm") ||
		      sysfs_exists("/sys/class/misc/rdma_cm");
	h->rdma_rxe = sysfs_exists("/sys/module/rdma_rxe");
	h->siw = sysfs_exists("/sys/module/siw");
	if (h->rdma_rxe ||
	    sysfs_module(h->kernel, "modules.dep", "rdma_rxe", &known) ||
	    sysfs_module(h->kernel, "modules.builtin", "rdma_rxe", &known))
		h->has_rxe = RDMA_YES;
	else
		h->has_rxe = known ? RDMA_NO : RDMA_UNKNOWN;
}

/* ---- limits of the process -------------------------------------------------------- */

/* The kernel checks the capability in the initial user namespace. */
static bool in_first_user_namespace(void)
{
	unsigned long from = 1, to = 1, n = 0;
	FILE *f = fopen("/proc/self/uid_map", "re");
	bool got;

	if (!f) /* a kernel without user namespaces */
		return true;
	got = fscanf(f, "%lu %lu %lu", &from, &to, &n) == 3;
	fclose(f);
	return got && from == 0 && to == 0 && n == UINT32_MAX;
}

static bool has_ipc_lock(void)
{
	unsigned long long caps = 0;
	char line[256];
	FILE *f = fopen("/proc/self/status", "re");

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "CapEff: %llx", &caps) == 1)
			break;
	fclose(f);
	return caps >> CAP_IPC_LOCK_BIT & 1;
}

void rdma_memlock_get(struct rdma_memlock *out)
{
	struct rlimit r = {0};

	if (getrlimit(RLIMIT_MEMLOCK, &r))
		r.rlim_cur = 0;
	out->limit = r.rlim_cur == RLIM_INFINITY ? UINT64_MAX : r.rlim_cur;
	out->ipc_lock = has_ipc_lock() && in_first_user_namespace();
}

bool rdma_memlock_allows(const struct rdma_memlock *m, uint64_t bytes)
{
	return m->ipc_lock || m->limit == UINT64_MAX || m->limit >= bytes;
}

/* ---- the choice of a GID ---------------------------------------------------------- */

/* 0: unusable; larger is better. */
static int gid_rank(const struct rdma_gid *g)
{
	struct in6_addr a;

	if (g->type != RDMA_GID_ROCE_V2)
		return 0;
	memcpy(&a, g->raw, sizeof(a));
	if (IN6_IS_ADDR_V4MAPPED(&a)) /* 169.254.0.0/16 is link-local too */
		return g->raw[12] == 169 && g->raw[13] == 254 ? 2 : 4;
	if (IN6_IS_ADDR_UNSPECIFIED(&a))
		return 0;
	return IN6_IS_ADDR_LINKLOCAL(&a) ? 1 : 3;
}

int rdma_gid_choose(const struct rdma_gid *gids, size_t n, char *why,
		    size_t cap)
{
	static const char *const reason[] = {
		"",
		"RoCE v2 over a link-local IPv6 address, as there is no other: "
		"good for neighbours on the same link only",
		"RoCE v2 over a link-local IPv4 address, as there is no "
		"routable one: good for neighbours on the same link only",
		"RoCE v2 over IPv6, as the interface has no IPv4 address",
		"RoCE v2 over IPv4",
	};
	int best = -1, rank = 0;

	for (size_t i = 0; i < n; i++)
		if (gid_rank(&gids[i]) > rank) {
			rank = gid_rank(&gids[i]);
			best = (int)i;
		}
	if (best >= 0)
		snprintf(why, cap, "%s", reason[rank]);
	else if (n)
		snprintf(why, cap,
			 "none of its %zu addresses is RoCE version 2", n);
	else
		snprintf(why, cap, "the port has no address");
	return best;
}

/* ---- devices ---------------------------------------------------------------------- */

static int netdev_of_card(void *arg, const char *name)
{
	struct rdma_port *p = arg;

	/* Without a port number, dev_port 0 belongs to port 1. */
	if (!p->netdev[0])
		snprintf(p->netdev, sizeof(p->netdev), "%.63s", name);
	return 0;
}

static void port_netdev(const struct rdma_device *d, struct rdma_port *p)
{
	char folder[160];

	for (size_t i = 0; i < p->n_gids && !p->netdev[0]; i++)
		memcpy(p->netdev, p->gids[i].netdev, sizeof(p->netdev));
	if (p->netdev[0] ||
	    sysfs_line(p->netdev, sizeof(p->netdev),
		       "/sys/class/infiniband/%s/ports/%u/gid_attrs/ndevs/0",
		       d->name, p->number) ||
	    sysfs_line(p->netdev, sizeof(p->netdev),
		       "/sys/class/infiniband/%s/parent", d->name))
		return;
	if (d->n_ports == 1) {
		snprintf(folder, sizeof(folder),
			 "/sys/class/infiniband/%s/device/net", d->name);
		sysfs_each(folder, netdev_of_card, p);
	}
}

static void port_judge(const struct rdma_device *d, struct rdma_port *p)
{
	p->state = RDMA_READY;
	if (p->link == RDMA_LINK_ETHERNET && !d->iwarp)
		p->chosen = rdma_gid_choose(p->gids, p->n_gids, p->why,
					    sizeof(p->why));
	else
		snprintf(p->why, sizeof(p->why), "%s needs no choice of GID",
			 d->iwarp ? "iWARP" : "InfiniBand");
	if (!p->active)
		p->state = RDMA_PORT_DOWN;
	else if (p->link == RDMA_LINK_ETHERNET && !d->iwarp && p->chosen < 0)
		p->state = RDMA_NO_GID;
}

__attribute__((format(printf, 4, 5))) static void
verdict(struct rdma_device *d, enum rdma_state state, const char *remedy,
	const char *fmt, ...)
{
	va_list ap;

	d->state = state;
	va_start(ap, fmt);
	vsnprintf(d->problem, sizeof(d->problem), fmt, ap);
	va_end(ap);
	snprintf(d->remedy, sizeof(d->remedy), "%s", remedy);
}

struct text {
	char *buf;
	size_t cap;
};

/*
 * Explain why a node in /dev/infiniband cannot be opened, and the remedy. libibverbs reports ENOENT
 * for every failure; the file shows more.
 */
static void node_judge(const char *node, int errnum, struct text problem, struct text remedy)
{
	char path[512];
	const struct group *g;
	struct stat st;

	snprintf(path, sizeof(path), "%s/dev/infiniband/%s", rdma_probe_root,
		 node);
	if (stat(path, &st)) {
		snprintf(problem.buf, problem.cap, "there is no /dev/infiniband/%s", node);
		snprintf(remedy.buf, remedy.cap,
			 "in a container give it --device /dev/infiniband; "
			 "elsewhere as root: modprobe -a ib_uverbs rdma_ucm");
		return;
	}
	if (access(path, R_OK | W_OK) == 0) {
		snprintf(problem.buf, problem.cap, "/dev/infiniband/%s: %s", node,
			 strerror(errnum));
		snprintf(remedy.buf, remedy.cap, "look at dmesg");
		return;
	}
	snprintf(problem.buf, problem.cap, "/dev/infiniband/%s (mode %04o): %s", node,
		 (unsigned)st.st_mode & 07777, strerror(errno));
	g = getgrgid(st.st_gid);
	if (st.st_gid && (st.st_mode & 060) == 060 && g)
		snprintf(remedy.buf, remedy.cap, "join the group %.64s",
			 g->gr_name);
	else
		snprintf(remedy.buf, remedy.cap,
			 "as root: chmod 0666 /dev/infiniband/%s (for good by a "
			 "udev rule)", node);
}

static void access_judge(struct rdma_device *d)
{
	if (d->node[0])
		node_judge(d->node, d->open_error,
			   (struct text){d->problem, sizeof(d->problem)},
			   (struct text){d->remedy, sizeof(d->remedy)});
	else
		verdict(d, RDMA_NO_ACCESS, "look at dmesg", "%s",
			strerror(d->open_error));
}

static void down_judge(struct rdma_device *d, const struct rdma_port *p)
{
	char remedy[256];

	if (p->link != RDMA_LINK_ETHERNET)
		snprintf(remedy, sizeof(remedy),
			 "look at the cable and the subnet manager (opensm)");
	else
		snprintf(remedy, sizeof(remedy), "as root: ip link set %s up",
			 p->netdev[0] ? p->netdev : "INTERFACE");
	verdict(d, RDMA_PORT_DOWN, remedy, "port %u is %s", p->number,
		p->state_text);
}

static void ports_judge(struct rdma_device *d)
{
	const struct rdma_port *best = NULL;

	for (size_t i = 0; i < d->n_ports; i++) {
		struct rdma_port *p = &d->ports[i];

		port_netdev(d, p);
		port_judge(d, p);
		if (!best || p->state == RDMA_READY ||
		    (best->state != RDMA_READY && p->state > best->state))
			best = p;
	}
	if (!best) {
		verdict(d, RDMA_PORT_DOWN, "", "it has no ports");
	} else if (best->state == RDMA_PORT_DOWN) {
		down_judge(d, best);
	} else if (best->state == RDMA_NO_GID) {
		verdict(d, RDMA_NO_GID,
			best->n_gids ? "set the card to RoCE version 2"
				     : "give its interface an IP address",
			"port %u: %s", best->number, best->why);
	}
}

static void device_judge(struct rdma_device *d)
{
	if (!sysfs_exists("/sys/class/infiniband/%s/device", d->name))
		d->software = true;
	if (!d->driver[0])
		sysfs_link(d->driver, sizeof(d->driver),
			  "/sys/class/infiniband/%s/device/driver", d->name);
	if (d->state == RDMA_NO_ACCESS)
		access_judge(d);
	if (!d->opened)
		return;
	ports_judge(d);
	if (d->atomics == RDMA_ATOMICS_NONE)
		verdict(d, RDMA_NO_ATOMICS, "use another device",
			"it has no compare-and-swap");
	else if (d->max_qp_rd_atom <= 0 || d->max_qp_init_rd_atom <= 0)
		verdict(d, RDMA_NO_ATOMICS, "use another device",
			"it allows no READ in flight");
	else if (d->max_srq <= 0)
		verdict(d, RDMA_NO_ATOMICS, "use another device",
			"it has no shared receive queues");
}

static int node_of(void *arg, const char *node)
{
	struct rdma_device *d = arg;
	char name[RDMA_NAME_MAX];

	if (sysfs_line(name, sizeof(name), "/sys/class/infiniband_verbs/%s/ibdev",
		       node) &&
	    strcmp(name, d->name) == 0)
		snprintf(d->node, sizeof(d->node), "%.63s", node);
	return 0;
}

static int device_from_sysfs(void *arg, const char *name)
{
	struct rdma_host *h = arg;
	struct rdma_device *d;
	unsigned a, b, c, e;
	char text[64];

	for (size_t i = 0; i < h->n_devices; i++)
		if (strcmp(h->devices[i].name, name) == 0)
			return 0;
	d = rdma_probe_add(h, name);
	if (!d)
		return FARKV_ENOMEM;
	sysfs_each("/sys/class/infiniband_verbs", node_of, d);
	if (sysfs_line(text, sizeof(text),
		       "/sys/class/infiniband/%s/node_guid", name) &&
	    sscanf(text, "%4x:%4x:%4x:%4x", &a, &b, &c, &e) == 4)
		d->guid = (uint64_t)a << 48 | (uint64_t)b << 32 |
			  (uint64_t)c << 16 | e;
	sysfs_line(d->firmware, sizeof(d->firmware),
		   "/sys/class/infiniband/%s/fw_ver", name);
	if (!h->built) {
		verdict(d, RDMA_NOT_BUILT, "", "this build has no RDMA");
	} else if (!d->node[0] || !sysfs_exists("/dev/infiniband/%s", d->node)) {
		/* libibverbs skips a device without a node. */
		d->open_error = ENOENT;
		d->state = RDMA_NO_ACCESS;
	} else {
		verdict(d, RDMA_NO_PROVIDER,
			"install the package ibverbs-providers or rdma-core",
			"libibverbs has no driver for it");
	}
	return 0;
}

/* ---- an interface for a software device ------------------------------------------- */

/* rdma_rxe accepts every Ethernet interface except these. */
static bool is_dummy(const char *name)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq r = {.ifr_data = (char *)&info};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool dummy;

	if (fd < 0)
		return false;
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	dummy = ioctl(fd, SIOCETHTOOL, &r) == 0 &&
		strcmp(info.driver, "dummy") == 0;
	close(fd);
	return dummy;
}

static bool has_ipv4(const struct ifaddrs *list, const char *name)
{
	for (; list; list = list->ifa_next)
		if (list->ifa_addr && list->ifa_addr->sa_family == AF_INET &&
		    strcmp(list->ifa_name, name) == 0)
			return true;
	return false;
}

/* 0: unusable; larger is better. */
static int netdev_rank(const struct ifaddrs *list, const struct ifaddrs *i)
{
	const struct sockaddr_ll *ll = (const struct sockaddr_ll *)i->ifa_addr;
	char path[64];

	if (!ll || ll->sll_family != AF_PACKET ||
	    ll->sll_hatype != ARPHRD_ETHER || !(i->ifa_flags & IFF_UP) ||
	    !(i->ifa_flags & IFF_RUNNING) || is_dummy(i->ifa_name))
		return 0;
	snprintf(path, sizeof(path), "/sys/class/net/%.32s/device",
		 i->ifa_name);
	return 1 + (access(path, F_OK) == 0) + 2 * has_ipv4(list, i->ifa_name);
}

/*
 * The name of the Ethernet interface that most likely reaches other machines: up,
 * preferably with an IPv4 address, preferably a card's. False, with buf unchanged, if none
 * is up.
 */
static bool netdev_for_rxe(char *buf, size_t cap)
{
	const struct ifaddrs *best = NULL;
	struct ifaddrs *list;
	int most = 0;

	if (getifaddrs(&list))
		return false;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next)
		if (netdev_rank(list, i) > most) {
			most = netdev_rank(list, i);
			best = i;
		}
	if (best)
		snprintf(buf, cap, "%s", best->ifa_name);
	freeifaddrs(list);
	return best;
}

/* ---- the machine ------------------------------------------------------------------ */

static void no_device_remedy(struct rdma_host *h)
{
	char netdev[RDMA_NAME_MAX] = "INTERFACE", note[160] = "";
	bool up = netdev_for_rxe(netdev, sizeof(netdev));

	if (h->has_rxe == RDMA_NO)
		snprintf(note, sizeof(note),
			 " (kernel %s comes without rdma_rxe: it takes one of "
			 "a distribution)", h->kernel);
	else if (!up)
		snprintf(note, sizeof(note),
			 " (no Ethernet interface is up here)");
	snprintf(h->remedy, sizeof(h->remedy),
		 "for a software device, as root: "
		 "modprobe rdma_rxe; rdma link add rxe0 type rxe netdev %s%s",
		 netdev, note);
}

static void cm_judge(struct rdma_host *h)
{
	h->cm_error = rdma_verbs_cm_error();
	if (!h->cm_error)
		return;
	h->state = RDMA_NO_CM;
	node_judge("rdma_cm", h->cm_error,
			   (struct text){h->problem, sizeof(h->problem)},
			   (struct text){h->remedy, sizeof(h->remedy)});
}

static void host_judge(struct rdma_host *h, int list_error)
{
	const struct rdma_device *best = NULL;

	for (size_t i = 0; i < h->n_devices; i++) {
		const struct rdma_device *d = &h->devices[i];

		device_judge(&h->devices[i]);
		if (!best || d->state == RDMA_READY ||
		    (best->state != RDMA_READY && d->state > best->state))
			best = d;
	}
	if (!h->built) {
		h->state = RDMA_NOT_BUILT;
		snprintf(h->problem, sizeof(h->problem),
			 "this build has no RDMA");
		snprintf(h->remedy, sizeof(h->remedy),
			 "install libibverbs and librdmacm with their headers, "
			 "and build with --with-verbs=yes");
	} else if (!best) {
		h->state = RDMA_NO_DEVICE;
		snprintf(h->problem, sizeof(h->problem), "no RDMA device%s%s",
			 list_error && list_error != ENOSYS ? ": " : "",
			 list_error && list_error != ENOSYS
				 ? strerror(list_error) : "");
		no_device_remedy(h);
	} else if (best->state != RDMA_READY) {
		h->state = best->state;
		snprintf(h->problem, sizeof(h->problem), "%.63s: %.250s",
			 best->name, best->problem);
		snprintf(h->remedy, sizeof(h->remedy), "%s", best->remedy);
	} else {
		cm_judge(h);
	}
}

int rdma_probe(struct rdma_host *out)
{
	struct rdma_host h = {0};
	int list_error, err;

	err = rdma_verbs_list(&h, &list_error);
	if (!err)
		err = sysfs_each("/sys/class/infiniband", device_from_sysfs, &h);
	if (err) {
		rdma_probe_free(&h);
		return err;
	}
	kernel_fill(&h);
	host_judge(&h, list_error);
	*out = h;
	return 0;
}

void rdma_probe_free(struct rdma_host *h)
{
	for (size_t i = 0; i < h->n_devices; i++) {
		for (size_t k = 0; k < h->devices[i].n_ports; k++)
			free(h->devices[i].ports[k].gids);
		free(h->devices[i].ports);
	}
	free(h->devices);
	memset(h, 0, sizeof(*h));
}

int rdma_probe_hint(char *buf, size_t cap)
{
	/* The common default limit; no store fits in it. */
	const uint64_t usual = UINT64_C(8) << 20;
	struct rdma_memlock m;
	struct rdma_host h;
	char size[24];
	int state;

	if (cap)
		buf[0] = '\0';
	if (rdma_probe(&h)) {
		snprintf(buf, cap, "no memory to look at the RDMA devices");
		return RDMA_NO_DEVICE;
	}
	state = (int)h.state;
	rdma_memlock_get(&m);
	if (state != RDMA_READY) {
		snprintf(buf, cap, "%s%s%s", h.problem, h.remedy[0] ? "; " : "",
			 h.remedy);
	} else if (!rdma_memlock_allows(&m, usual + 1)) {
		state = RDMA_MEMLOCK_LOW;
		snprintf(buf, cap,
			 "this process may lock only %s of memory; %s",
			 util_format_size(m.limit, size, sizeof(size)),
			 rdma_memlock_remedy);
	}
	rdma_probe_free(&h);
	return state;
}
