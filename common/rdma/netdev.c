/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "netdev.h"

#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

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
static int rank(const struct ifaddrs *list, const struct ifaddrs *i)
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

bool rdma_netdev_for_rxe(char *buf, size_t cap)
{
	const struct ifaddrs *best = NULL;
	struct ifaddrs *list;
	int most = 0;

	if (getifaddrs(&list))
		return false;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next)
		if (rank(list, i) > most) {
			most = rank(list, i);
			best = i;
		}
	if (best)
		snprintf(buf, cap, "%s", best->ifa_name);
	freeifaddrs(list);
	return best;
}
