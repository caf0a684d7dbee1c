/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * probe.h - which RDMA devices this machine has, what is missing, and the remedy.
 * Leaf: libc only, no verbs types; builds without verbs too and reports that.
 *
 * Changes nothing on the machine. A missing feature is no error: every device is listed
 * with the reason why it can or cannot be used.
 */
#ifndef COMMON_RDMA_PROBE_H
#define COMMON_RDMA_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Why RDMA cannot be used, ordered: of several devices the one with the largest number is
 * nearest to working.
 */
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

/** How much memory this process may pin for a device. */
struct rdma_memlock {
	uint64_t limit; /* RLIMIT_MEMLOCK in bytes, UINT64_MAX: unlimited */
	bool ipc_lock;  /* effective CAP_IPC_LOCK: the limit does not apply */
};

/**
 * Probe everything. Returns 0 and fills *out, to be freed by rdma_probe_free(), or
 * FARKV_ENOMEM. Opens and closes each device: takes milliseconds, not for a data path. Any
 * thread.
 */
int rdma_probe(struct rdma_host *out);
/** Free what rdma_probe() allocated. A zeroed struct is allowed. */
void rdma_probe_free(struct rdma_host *h);

/**
 * One line, without newline, with what a user must do before RDMA works here: "no RDMA
 * device; as root: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0". Returns the
 * state it is about; RDMA_READY with "" in buf. Cost and threads as rdma_probe().
 */
int rdma_probe_hint(char *buf, size_t cap);

/** Never fails: unknown counts as not permitted. */
void rdma_memlock_get(struct rdma_memlock *out);
/** True if `bytes` may be pinned. */
bool rdma_memlock_allows(const struct rdma_memlock *m, uint64_t bytes);
/** The remedy for a limit that is too low. */
extern const char rdma_memlock_remedy[];

/**
 * Choose the GID of a RoCE port for connections: version 2 over IPv4, then routable IPv6,
 * then link-local; then the lowest index. Returns its position or -1; `why` gets the reason
 * in either case.
 */
int rdma_gid_choose(const struct rdma_gid *gids, size_t n, char *why,
		    size_t cap);

const char *rdma_link_str(enum rdma_link link);
const char *rdma_gid_type_str(enum rdma_gid_type type);
const char *rdma_atomics_str(enum rdma_atomics atomics);

#endif
