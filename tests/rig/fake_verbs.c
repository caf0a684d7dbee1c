/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cards that this machine lacks, for kvcli devices and kvcli doctor: linked into a
 * program, these take the place of the functions of libibverbs and librdmacm that
 * the probe calls. The file $FAKE_VERBS says what there is:
 *
 *   device NAME NODE GUID ib|iwarp|nosrq none|hca|global OUT IN VENDOR ERRNO
 *   port active|down eth|ib MTU MAX-MTU LID        of the last device
 *   gid PORT INDEX ib|v1|v2 ADDRESS                of the last device
 *   fork needed|on|unneeded
 *   cm ERRNO      of rdma_create_event_channel
 *   list ERRNO    of ibv_get_device_list
 *
 * $FAKE_ROOT stands before /sys, /dev and /lib. With $FAKE_HINT the program prints
 * what rdma_probe_hint() returns and ends.
 */
#include "config.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rdma/probe.h"
#include "common/rdma/sysfs.h"

#undef ibv_get_device_list
#undef ibv_query_port

#define DEVICES 8
#define PORTS 4
#define GIDS 16

static struct fake_device {
	struct ibv_device device; /* first: pointers are cast */
	struct ibv_device_attr attr;
	struct ibv_port_attr port[PORTS];
	struct ibv_gid_entry gid[GIDS];
	uint64_t guid;
	int n_gids, open_error;
} fake[DEVICES];

static int n_fakes, cm_error, list_error, opened;
static enum ibv_fork_status fork_status = IBV_FORK_UNNEEDED;

static void need(int yes, const char *line)
{
	if (yes)
		return;
	fprintf(stderr, "fake_verbs: cannot read: %s", line);
	exit(99);
}

static void read_device(const char *line)
{
	struct fake_device *d = &fake[n_fakes++];
	char transport[16], atomics[16];
	unsigned long long guid = 0;

	need(n_fakes <= DEVICES &&
	     sscanf(line, "device %63s %63s %llx %15s %15s %d %d %x %d",
		    d->device.name, d->device.dev_name, &guid, transport,
		    atomics, &d->attr.max_qp_init_rd_atom,
		    &d->attr.max_qp_rd_atom, &d->attr.vendor_id,
		    &d->open_error) == 9, line);
	d->guid = guid;
	d->device.transport_type = strcmp(transport, "iwarp") == 0
					   ? IBV_TRANSPORT_IWARP
					   : IBV_TRANSPORT_IB;
	d->attr.atomic_cap = strcmp(atomics, "none") == 0  ? IBV_ATOMIC_NONE
			     : strcmp(atomics, "hca") == 0 ? IBV_ATOMIC_HCA
							   : IBV_ATOMIC_GLOB;
	d->attr.max_mr_size = UINT64_C(1) << 32;
	d->attr.max_qp = 1000;
	d->attr.max_srq = strcmp(transport, "nosrq") == 0 ? 0 : 500;
	strcpy(d->attr.fw_ver, "20.31.1014");
}

static enum ibv_mtu mtu_of(unsigned bytes)
{
	return (enum ibv_mtu)(__builtin_ctz(bytes) - 7);
}

static void read_port(const char *line)
{
	struct fake_device *d = &fake[n_fakes - 1];
	struct ibv_port_attr *p = &d->port[d->attr.phys_port_cnt++];
	char state[16], link[16];
	unsigned active, most, lid;

	need(sscanf(line, "port %15s %15s %u %u %u", state, link, &active,
		    &most, &lid) == 5, line);
	p->state = strcmp(state, "active") == 0 ? IBV_PORT_ACTIVE
						: IBV_PORT_DOWN;
	p->link_layer = strcmp(link, "eth") == 0 ? IBV_LINK_LAYER_ETHERNET
						 : IBV_LINK_LAYER_INFINIBAND;
	p->active_mtu = mtu_of(active);
	p->max_mtu = mtu_of(most);
	p->lid = (uint16_t)lid;
	p->gid_tbl_len = GIDS;
	p->max_msg_sz = 1u << 30;
}

static void read_gid(const char *line)
{
	struct fake_device *d = &fake[n_fakes - 1];
	struct ibv_gid_entry *g = &d->gid[d->n_gids++];
	char type[8], address[64];

	need(d->n_gids <= GIDS &&
	     sscanf(line, "gid %u %u %7s %63s", &g->port_num, &g->gid_index,
		    type, address) == 4 &&
	     inet_pton(AF_INET6, address, g->gid.raw) == 1, line);
	g->gid_type = strcmp(type, "ib") == 0   ? IBV_GID_TYPE_IB
		      : strcmp(type, "v1") == 0 ? IBV_GID_TYPE_ROCE_V1
						: IBV_GID_TYPE_ROCE_V2;
}

static void read_fork(const char *line)
{
	fork_status = strstr(line, "unneeded") ? IBV_FORK_UNNEEDED
		      : strstr(line, "on")     ? IBV_FORK_ENABLED
					       : IBV_FORK_DISABLED;
}

static void read_line(const char *line)
{
	if (strncmp(line, "device ", 7) == 0)
		read_device(line);
	else if (strncmp(line, "port ", 5) == 0)
		read_port(line);
	else if (strncmp(line, "gid ", 4) == 0)
		read_gid(line);
	else if (strncmp(line, "fork ", 5) == 0)
		read_fork(line);
	else if (sscanf(line, "cm %d", &cm_error) != 1)
		need(sscanf(line, "list %d", &list_error) == 1, line);
}

__attribute__((constructor)) static void setup(void)
{
	const char *root = getenv("FAKE_ROOT"), *path = getenv("FAKE_VERBS");
	char line[256], hint[400];
	FILE *f = path ? fopen(path, "r") : NULL;
	int state;

	rdma_probe_root = root ? root : "";
	while (f && fgets(line, sizeof(line), f))
		read_line(line);
	if (f)
		fclose(f);
	if (!getenv("FAKE_HINT"))
		return;
	memset(hint, 'x', sizeof(hint));
	state = rdma_probe_hint(hint, sizeof(hint));
	printf("%d %s\n", state, hint);
	exit(0);
}

/* Everything opened must be closed; otherwise the program ends with another status. */
__attribute__((destructor)) static void all_closed(void)
{
	if (opened)
		abort();
}

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list;

	if (list_error) {
		errno = list_error;
		return NULL;
	}
	list = calloc(DEVICES + 1, sizeof(*list));
	for (int i = 0; list && i < n_fakes; i++)
		list[i] = &fake[i].device;
	*n = n_fakes;
	opened++;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	opened--;
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

__be64 ibv_get_device_guid(struct ibv_device *d)
{
	return htobe64(((struct fake_device *)d)->guid);
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct ibv_context *ctx;

	if (((struct fake_device *)d)->open_error) {
		errno = ((struct fake_device *)d)->open_error;
		return NULL;
	}
	ctx = calloc(1, sizeof(*ctx));
	ctx->device = d;
	opened++;
	return ctx;
}

int ibv_close_device(struct ibv_context *ctx)
{
	opened--;
	free(ctx);
	return 0;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *a)
{
	*a = ((struct fake_device *)ctx->device)->attr;
	return 0;
}

int ibv_query_port(struct ibv_context *ctx, uint8_t port,
		   struct _compat_ibv_port_attr *a)
{
	const struct fake_device *d = (struct fake_device *)ctx->device;

	memcpy(a, &d->port[port - 1], sizeof(d->port[0]));
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *e,
			     size_t most, uint32_t flags, size_t entry_size)
{
	const struct fake_device *d = (struct fake_device *)ctx->device;

	if (flags || entry_size != sizeof(*e) || most < (size_t)d->n_gids)
		return -EINVAL;
	memcpy(e, d->gid, (size_t)d->n_gids * sizeof(*e));
	return d->n_gids;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return fork_status;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	errno = cm_error;
	if (cm_error)
		return NULL;
	opened++;
	return calloc(1, sizeof(struct rdma_event_channel));
}

void rdma_destroy_event_channel(struct rdma_event_channel *ch)
{
	opened--;
	free(ch);
}
