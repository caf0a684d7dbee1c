/* SPDX-License-Identifier: BSD-3-Clause */
/* kvcli devices: list this machine's RDMA devices. Contacts no server. */
#include "config.h"

#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "common/base/util.h"
#include "common/rdma/probe.h"

#include "output.h"

/* ---- for people ------------------------------------------------------------- */

static const char *or_dash(const char *text)
{
	return text[0] ? text : "-";
}

static void row_print(const struct rdma_device *d, const struct rdma_port *p)
{
	char port[16] = "-", mtu[16] = "-", gid[16] = "-";
	const struct rdma_gid *g =
		p && p->chosen >= 0 ? &p->gids[p->chosen] : NULL;
	bool usable = p ? p->state == RDMA_READY && d->state == RDMA_READY
			: false;

	if (p)
		snprintf(port, sizeof(port), "%u", p->number);
	if (p && p->active_mtu)
		snprintf(mtu, sizeof(mtu), "%u", p->active_mtu);
	if (g)
		snprintf(gid, sizeof(gid), "%u", g->index);
	printf("%-12s %4s  %-6s  %-8s %-10s %-15s %4s  %3s  %s\n", d->name,
	       port, usable ? "yes" : "no", p ? or_dash(p->state_text) : "-",
	       p ? rdma_link_str(p->link) : "-", p ? or_dash(p->netdev) : "-",
	       mtu, gid, g ? g->address : "-");
}

static void gids_print(const struct rdma_port *p)
{
	for (size_t i = 0; i < p->n_gids; i++) {
		const struct rdma_gid *g = &p->gids[i];

		printf("    GID %-3u %-8s %-40s %s%s\n", g->index,
		       rdma_gid_type_str(g->type), g->address, g->netdev,
		       p->chosen == (int)i ? "  <- chosen" : "");
	}
	printf("    choice: %s\n", p->why);
}

static void port_print(const struct rdma_port *p)
{
	char size[24];

	printf("  port %u: MTU %u of %u, messages up to %s", p->number,
	       p->active_mtu, p->max_mtu,
	       util_format_size(p->max_msg_size, size, sizeof(size)));
	if (p->link == RDMA_LINK_INFINIBAND)
		printf(", LID %u", p->lid);
	putchar('\n');
	gids_print(p);
}

static void limits_print(const struct rdma_device *d)
{
	char size[24];

	printf("  atomics: %s; READs and CAS in flight: %d out, %d in; QPs: %d; "
	       "SRQs: %d\n",
	       d->atomics == RDMA_ATOMICS_HCA
		       ? "among the operations of this device"
	       : d->atomics == RDMA_ATOMICS_GLOBAL ? "with CPUs too"
						   : "none",
	       d->max_qp_init_rd_atom, d->max_qp_rd_atom, d->max_qp,
	       d->max_srq);
	printf("  largest registration: %s; on-demand paging: %s\n",
	       d->max_mr_size == UINT64_MAX
		       ? "unlimited"
		       : util_format_size(d->max_mr_size, size, sizeof(size)),
	       d->odp ? "yes" : "no");
}

static void guid_text(uint64_t guid, char *buf, size_t cap)
{
	snprintf(buf, cap, "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48),
		 (unsigned)(guid >> 32) & 0xffff,
		 (unsigned)(guid >> 16) & 0xffff, (unsigned)guid & 0xffff);
}

static void device_print(const struct rdma_device *d)
{
	char guid[24];

	guid_text(d->guid, guid, sizeof(guid));
	printf("\n%s: %s, driver %s, firmware %s, node GUID %s\n", d->name,
	       d->software ? "software device" : "card", or_dash(d->driver),
	       or_dash(d->firmware), guid);
	if (d->problem[0])
		printf("  cannot be used: %s%s%s\n", d->problem,
		       d->remedy[0] ? "; " : "", d->remedy);
	if (!d->opened)
		return;
	limits_print(d);
	if (d->software)
		puts("  in software READs of 8 aligned bytes may tear; farkv "
		     "reads such words twice");
	for (size_t i = 0; d->ports && i < d->n_ports; i++)
		port_print(&d->ports[i]);
}

static void host_print(const struct rdma_host *h)
{
	if (!h->n_devices)
		return;
	puts("DEVICE       PORT  USABLE  STATE    LINK       INTERFACE         "
	     "MTU  GID  ADDRESS");
	for (size_t i = 0; i < h->n_devices; i++) {
		const struct rdma_device *d = &h->devices[i];

		for (size_t k = 0; k < d->n_ports; k++)
			row_print(d, &d->ports[k]);
		if (!d->n_ports)
			row_print(d, NULL);
	}
	for (size_t i = 0; i < h->n_devices; i++)
		device_print(&h->devices[i]);
}

/* ---- JSON ------------------------------------------------------------------- */

static void set_text(json_t *o, const char *name, const char *text)
{
	if (text[0])
		output_bytes(o, name, text, strlen(text));
	else
		json_object_set_new(o, name, json_null());
}

static void set_number(json_t *o, const char *name, uint64_t v)
{
	json_object_set_new(o, name,
			    v > INT64_MAX ? json_null()
					  : json_integer((json_int_t)v));
}

static json_t *port_json(const struct rdma_device *d, const struct rdma_port *p)
{
	json_t *o = json_object(), *gids = json_array();

	set_number(o, "port", p->number);
	json_object_set_new(o, "usable",
			    json_boolean(p->state == RDMA_READY &&
					 d->state == RDMA_READY));
	set_text(o, "state", p->state_text);
	json_object_set_new(o, "active", json_boolean(p->active));
	set_text(o, "link_layer", rdma_link_str(p->link));
	set_text(o, "interface", p->netdev);
	set_number(o, "active_mtu", p->active_mtu);
	set_number(o, "max_mtu", p->max_mtu);
	set_number(o, "max_msg_size", p->max_msg_size);
	if (p->link == RDMA_LINK_INFINIBAND)
		set_number(o, "lid", p->lid);
	json_object_set_new(o, "gid_chosen",
			    p->chosen < 0
				    ? json_null()
				    : json_integer(p->gids[p->chosen].index));
	set_text(o, "gid_why", p->why);
	for (size_t i = 0; i < p->n_gids; i++) {
		json_t *g = json_object();

		set_number(g, "index", p->gids[i].index);
		set_text(g, "type", rdma_gid_type_str(p->gids[i].type));
		set_text(g, "address", p->gids[i].address);
		set_text(g, "interface", p->gids[i].netdev);
		json_array_append_new(gids, g);
	}
	json_object_set_new(o, "gids", gids);
	return o;
}

static void limits_json(json_t *o, const struct rdma_device *d)
{
	set_text(o, "atomics", rdma_atomics_str(d->atomics));
	set_number(o, "max_qp_rd_atom", (uint64_t)d->max_qp_rd_atom);
	set_number(o, "max_qp_init_rd_atom", (uint64_t)d->max_qp_init_rd_atom);
	set_number(o, "max_qp", (uint64_t)d->max_qp);
	set_number(o, "max_srq", (uint64_t)d->max_srq);
	set_number(o, "max_mr_size", d->max_mr_size);
	json_object_set_new(o, "odp", json_boolean(d->odp));
}

static json_t *device_json(const struct rdma_device *d)
{
	json_t *o = json_object(), *ports = json_array();
	char guid[24];

	guid_text(d->guid, guid, sizeof(guid));
	set_text(o, "name", d->name);
	json_object_set_new(o, "usable", json_boolean(d->state == RDMA_READY));
	set_text(o, "problem", d->problem);
	set_text(o, "remedy", d->remedy);
	json_object_set_new(o, "software", json_boolean(d->software));
	set_text(o, "driver", d->driver);
	set_text(o, "firmware", d->firmware);
	set_text(o, "node_guid", guid);
	set_text(o, "node", d->node);
	if (d->opened)
		limits_json(o, d);
	for (size_t i = 0; d->ports && i < d->n_ports; i++)
		json_array_append_new(ports, port_json(d, &d->ports[i]));
	json_object_set_new(o, "ports", ports);
	return o;
}

static void host_json(const struct rdma_host *h)
{
	json_t *o = json_object(), *devices = json_array();
	struct rdma_memlock m;

	rdma_memlock_get(&m);
	json_object_set_new(o, "usable", json_boolean(h->state == RDMA_READY));
	set_text(o, "problem", h->problem);
	set_text(o, "remedy", h->remedy);
	json_object_set_new(o, "built_with_rdma", json_boolean(h->built));
	set_number(o, "memlock_limit", m.limit);
	json_object_set_new(o, "cap_ipc_lock", json_boolean(m.ipc_lock));
	for (size_t i = 0; i < h->n_devices; i++)
		json_array_append_new(devices, device_json(&h->devices[i]));
	json_object_set_new(o, "devices", devices);
	output_print(o);
}

/* ---- the command ------------------------------------------------------------ */

static void names_print(const struct rdma_host *h)
{
	if (h->state != RDMA_READY)
		return;
	for (size_t i = 0; i < h->n_devices; i++)
		if (h->devices[i].state == RDMA_READY)
			puts(h->devices[i].name);
}

int cmd_devices(struct cli *cli, int argc, char **argv)
{
	struct rdma_host h;
	int code = CLI_OK;

	(void)argc;
	(void)argv;
	if (rdma_probe(&h))
		return cli_error(cli, CLI_FAILED,
				 "this process is out of memory");
	if (cli->json)
		host_json(&h);
	else if (cli->quiet)
		names_print(&h);
	else
		host_print(&h);
	if (h.state != RDMA_READY) {
		code = CLI_NO;
		if (!cli->json && !cli->quiet)
			cli_error(cli, code, "%s; %s", h.problem, h.remedy);
	}
	rdma_probe_free(&h);
	return code;
}
