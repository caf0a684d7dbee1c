/* SPDX-License-Identifier: BSD-3-Clause */
/** probe_host.h - struct rdma_host: what rdma_probe() finds. No functions, no verbs types. */
#ifndef COMMON_RDMA_PROBE_HOST_H
#define COMMON_RDMA_PROBE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Why RDMA cannot be used, ordered: the device with the largest number needs the least to work. */
enum rdma_state {
	RDMA_READY = 0,
	RDMA_NOT_BUILT,   /* built without libibverbs */
	RDMA_NO_DEVICE,
	RDMA_NO_PROVIDER, /* the kernel has a device, libibverbs no driver for it */
	RDMA_NO_ATOMICS,  /* it lacks compare-and-swap or another needed feature */
	RDMA_NO_ACCESS,   /* its node in /dev cannot be opened */
	RDMA_PORT_DOWN,
	RDMA_NO_GID,      /* RoCE without a version 2 address */
	RDMA_NO_CM,       /* only the connection manager fails */
	RDMA_MEMLOCK_LOW, /* rdma_probe_hint() only */
};

enum rdma_link { RDMA_LINK_UNKNOWN, RDMA_LINK_INFINIBAND, RDMA_LINK_ETHERNET };
enum rdma_gid_type { RDMA_GID_IB, RDMA_GID_ROCE_V1, RDMA_GID_ROCE_V2 };
enum rdma_atomics { RDMA_ATOMICS_NONE, RDMA_ATOMICS_HCA, RDMA_ATOMICS_GLOBAL };
enum rdma_fork { RDMA_FORK_UNKNOWN, RDMA_FORK_NEEDED, RDMA_FORK_ON,
		 RDMA_FORK_UNNEEDED };
enum rdma_answer { RDMA_UNKNOWN, RDMA_NO, RDMA_YES };

#define RDMA_NAME_MAX 64

/** A used entry of a port's GID table. */
struct rdma_gid {
	unsigned index;
	enum rdma_gid_type type;
	uint8_t raw[16];            /* network byte order */
	char address[48];           /* "10.0.0.1" if IPv4-mapped, else IPv6 */
	char netdev[RDMA_NAME_MAX]; /* "" if unknown */
};

struct rdma_port {
	unsigned number;     /* from 1 */
	enum rdma_state state;
	char state_text[32]; /* libibverbs' word: "active", "down" */
	bool active;
	enum rdma_link link;
	char netdev[RDMA_NAME_MAX];   /* "" if unknown */
	unsigned active_mtu, max_mtu; /* payload bytes of a packet */
	uint32_t max_msg_size;        /* bytes */
	uint16_t lid;                 /* InfiniBand only, else 0 */
	struct rdma_gid *gids;
	size_t n_gids;
	int chosen;   /* position in gids[] for connections; -1: none */
	char why[160]; /* reason for that choice */
};

struct rdma_device {
	char name[RDMA_NAME_MAX];   /* "mlx5_0" */
	char node[RDMA_NAME_MAX];   /* "uverbs0"; "" if unknown */
	char driver[RDMA_NAME_MAX]; /* in the kernel; "" if unknown */
	char firmware[64];          /* "" if it has none */
	uint64_t guid;              /* host byte order; 0 if unknown */
	bool software;  /* emulated: aligned 8-byte READs may tear */
	bool iwarp;     /* RDMA over TCP: no choice of GID */
	enum rdma_state state; /* of the best port, or of the device */
	char problem[256];     /* "" if usable */
	char remedy[256];      /* "" if none is known */
	int open_error;        /* errno that libibverbs reports for opening it */
	/* The following are 0 if the device could not be opened. */
	bool opened;
	enum rdma_atomics atomics;
	int max_qp_rd_atom, max_qp_init_rd_atom; /* READs and CAS in flight */
	int max_qp, max_srq;
	uint64_t max_mr_size; /* bytes */
	bool odp;             /* on-demand paging: registration without pinning */
	struct rdma_port *ports;
	size_t n_ports;
};

struct rdma_host {
	bool built; /* with libibverbs */
	struct rdma_device *devices;
	size_t n_devices;
	enum rdma_state state; /* RDMA_READY if any device is usable */
	char problem[320], remedy[400]; /* of the state; "" if ready */
	enum rdma_fork fork; /* may a process with registered memory fork? */
	int cm_error; /* errno of opening the connection manager; 0 if it answers or
			 there is no device */
	bool dev_folder;   /* there is a /dev/infiniband */
	int cm_node_error; /* errno of using /dev/infiniband/rdma_cm, or 0 */
	/* Kernel modules, loaded or built in. */
	bool ib_uverbs, rdma_ucm, rdma_rxe, siw;
	enum rdma_answer has_rxe; /* does the kernel come with rdma_rxe? */
	char kernel[RDMA_NAME_MAX]; /* release */
};

#endif
