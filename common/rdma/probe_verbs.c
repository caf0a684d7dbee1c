/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "probe_verbs.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farkv.h>

struct rdma_device *rdma_probe_add(struct rdma_host *h, const char *name)
{
	struct rdma_device *d;

	d = realloc(h->devices, (h->n_devices + 1) * sizeof(*d));
	if (!d)
		return NULL;
	h->devices = d;
	d += h->n_devices++;
	memset(d, 0, sizeof(*d));
	snprintf(d->name, sizeof(d->name), "%s", name);
	return d;
}

#ifndef HAVE_VERBS

int rdma_verbs_list(struct rdma_host *h, int *list_error_out)
{
	h->built = false;
	*list_error_out = 0;
	return 0;
}

int rdma_verbs_cm_error(void)
{
	return ENOSYS;
}

#else

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

static void gid_fill(struct rdma_gid *g, const struct ibv_gid_entry *e)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	g->index = e->gid_index;
	memcpy(g->raw, e->gid.raw, sizeof(g->raw));
	switch (e->gid_type) {
	case IBV_GID_TYPE_ROCE_V2:
		g->type = RDMA_GID_ROCE_V2;
		break;
	case IBV_GID_TYPE_ROCE_V1:
		g->type = RDMA_GID_ROCE_V1;
		break;
	default:
		g->type = RDMA_GID_IB;
		break;
	}
	if (memcmp(g->raw, mapped, sizeof(mapped)) == 0)
		inet_ntop(AF_INET, g->raw + 12, g->address, sizeof(g->address));
	else
		inet_ntop(AF_INET6, g->raw, g->address, sizeof(g->address));
	if (e->ndev_ifindex)
		if_indextoname(e->ndev_ifindex, g->netdev);
}

static int port_gids(struct rdma_port *p, const struct ibv_gid_entry *e,
		     size_t n)
{
	p->gids = calloc(n ? n : 1, sizeof(*p->gids));
	if (!p->gids)
		return FARKV_ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (e[i].port_num == p->number)
			gid_fill(&p->gids[p->n_gids++], &e[i]);
	return 0;
}

static enum rdma_link link_of(const struct rdma_device *d,
			      const struct ibv_port_attr *a)
{
	switch (a->link_layer) {
	case IBV_LINK_LAYER_ETHERNET:
		return RDMA_LINK_ETHERNET;
	case IBV_LINK_LAYER_INFINIBAND:
		return RDMA_LINK_INFINIBAND;
	default: /* old drivers do not say */
		return d->iwarp ? RDMA_LINK_ETHERNET : RDMA_LINK_INFINIBAND;
	}
}

static void port_fill(const struct rdma_device *d, struct rdma_port *p,
		      const struct ibv_port_attr *a)
{
	snprintf(p->state_text, sizeof(p->state_text), "%s",
		 ibv_port_state_str(a->state));
	p->active = a->state == IBV_PORT_ACTIVE;
	p->link = link_of(d, a);
	/* The enumerators 1, 2, ... mean 256, 512, ... */
	p->active_mtu = a->active_mtu ? 128u << a->active_mtu : 0;
	p->max_mtu = a->max_mtu ? 128u << a->max_mtu : 0;
	p->max_msg_size = a->max_msg_sz;
	p->lid = p->link == RDMA_LINK_INFINIBAND ? a->lid : 0;
}

/* All GIDs of all ports; *n_out 0 if there are none. NULL if out of memory. */
static struct ibv_gid_entry *gid_table(struct ibv_context *ctx, size_t cap,
				       size_t *n_out)
{
	struct ibv_gid_entry *e = calloc(cap ? cap : 1, sizeof(*e));
	ssize_t n = e && cap ? ibv_query_gid_table(ctx, e, cap, 0) : 0;

	*n_out = n > 0 ? (size_t)n : 0;
	return e;
}

static int ports_fill(struct rdma_device *d, struct ibv_context *ctx, size_t n)
{
	struct ibv_gid_entry *e;
	size_t cap = 0, n_gids;
	int err = 0;

	d->ports = calloc(n ? n : 1, sizeof(*d->ports));
	if (!d->ports)
		return FARKV_ENOMEM;
	for (d->n_ports = 0; d->n_ports < n; d->n_ports++) {
		struct rdma_port *p = &d->ports[d->n_ports];
		struct ibv_port_attr a;

		p->number = (unsigned)d->n_ports + 1;
		p->chosen = -1;
		if (ibv_query_port(ctx, (uint8_t)p->number, &a)) {
			snprintf(p->state_text, sizeof(p->state_text),
				 "unknown");
			continue;
		}
		port_fill(d, p, &a);
		if (a.gid_tbl_len > 0)
			cap += (size_t)a.gid_tbl_len;
	}
	e = gid_table(ctx, cap, &n_gids);
	if (!e)
		return FARKV_ENOMEM;
	for (size_t i = 0; i < n && !err; i++)
		err = port_gids(&d->ports[i], e, n_gids);
	free(e);
	return err;
}

static void limits_fill(struct rdma_device *d,
			const struct ibv_device_attr_ex *ax)
{
	const struct ibv_device_attr *a = &ax->orig_attr;

	/* The library's text for devices without firmware. */
	if (strcmp(a->fw_ver, "0.0.0") != 0)
		snprintf(d->firmware, sizeof(d->firmware), "%.*s",
			 (int)sizeof(d->firmware) - 1, a->fw_ver);
	d->atomics = a->atomic_cap == IBV_ATOMIC_NONE  ? RDMA_ATOMICS_NONE
		     : a->atomic_cap == IBV_ATOMIC_HCA ? RDMA_ATOMICS_HCA
						       : RDMA_ATOMICS_GLOBAL;
	d->max_qp_rd_atom = a->max_qp_rd_atom;
	d->max_qp_init_rd_atom = a->max_qp_init_rd_atom;
	d->max_qp = a->max_qp;
	d->max_srq = a->max_srq;
	d->max_mr_size = a->max_mr_size;
	d->odp = ax->odp_caps.general_caps & IBV_ODP_SUPPORT;
}

/* Software devices have no driver in sysfs; their vendor ids identify them. */
static void software_fill(struct rdma_device *d,
			  const struct ibv_device_attr *a)
{
	const char *driver = a->vendor_id == 0xffffff   ? "rdma_rxe"
			     : a->vendor_id == 0x626d74 ? "siw"
							: NULL;

	if (!driver)
		return;
	d->software = true;
	snprintf(d->driver, sizeof(d->driver), "%s", driver);
}

static int device_open(struct rdma_device *d, struct ibv_device *dev)
{
	struct ibv_device_attr_ex ax;
	struct ibv_context *ctx;
	int err;

	errno = 0;
	ctx = ibv_open_device(dev);
	if (!ctx) {
		d->state = RDMA_NO_ACCESS;
		d->open_error = errno ? errno : EIO;
		return 0;
	}
	err = ibv_query_device_ex(ctx, NULL, &ax);
	if (err) {
		d->state = RDMA_NO_ACCESS;
		d->open_error = abs(err);
		err = 0;
	} else {
		d->opened = true;
		limits_fill(d, &ax);
		software_fill(d, &ax.orig_attr);
		err = ports_fill(d, ctx, ax.orig_attr.phys_port_cnt);
	}
	ibv_close_device(ctx);
	return err;
}

static int device_add(struct rdma_host *h, struct ibv_device *dev)
{
	struct rdma_device *d = rdma_probe_add(h, ibv_get_device_name(dev));

	if (!d)
		return FARKV_ENOMEM;
	snprintf(d->node, sizeof(d->node), "%s", dev->dev_name);
	d->guid = be64toh(ibv_get_device_guid(dev));
	d->iwarp = dev->transport_type == IBV_TRANSPORT_IWARP;
	return device_open(d, dev);
}

static enum rdma_fork fork_state(void)
{
	switch (ibv_is_fork_initialized()) {
	case IBV_FORK_UNNEEDED:
		return RDMA_FORK_UNNEEDED;
	case IBV_FORK_ENABLED:
		return RDMA_FORK_ON;
	default:
		return RDMA_FORK_NEEDED;
	}
}

int rdma_verbs_list(struct rdma_host *h, int *list_error_out)
{
	struct ibv_device **list;
	int n = 0, err = 0;

	h->built = true;
	errno = 0;
	list = ibv_get_device_list(&n);
	*list_error_out = list ? 0 : errno ? errno : EIO;
	if (!list)
		return 0;
	for (int i = 0; i < n && !err; i++)
		err = device_add(h, list[i]);
	ibv_free_device_list(list);
	if (n)
		h->fork = fork_state();
	return err;
}

int rdma_verbs_cm_error(void)
{
	struct rdma_event_channel *ch;

	errno = 0;
	ch = rdma_create_event_channel();
	if (!ch)
		return errno ? errno : EIO;
	rdma_destroy_event_channel(ch);
	return 0;
}

#endif
