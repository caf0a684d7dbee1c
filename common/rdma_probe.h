/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * rdma_probe.h - what this machine offers for RDMA, and what to do about what
 * it lacks. Leaf: libc only, no verbs types; builds without verbs too and says so.
 *
 * Nothing is changed on the machine, and nothing that is missing is an error:
 * every device is listed with the reason why it can or cannot be used.
 */
#ifndef COMMON_RDMA_PROBE_H
#define COMMON_RDMA_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Why RDMA cannot be used, from the farthest away to the nearest: of several
 * devices the one with the largest number is worth the user's time.
 */
enum rdma_state {
	RDMA_READY = 0,
	RDMA_NOT_BUILT,   /* built without libibverbs */
	RDMA_NO_DEVICE,
	RDMA_NO_PROVIDER, /* the kernel has a device, libibverbs no driver for it */
	RDMA_NO_ATOMICS,  /* it lacks these or something else that farkv needs */
	RDMA_NO_ACCESS,   /* its node in /dev cannot be opened */
	RDMA_PORT_DOWN,
	RDMA_NO_GID,      /* RoCE without a version 2 address */
	RDMA_NO_CM,       /* all is well but the connection manager */
	RDMA_MEMLOCK_LOW, /* only rdma_probe_hint() */
};

enum rdma_link { RDMA_LINK_UNKNOWN, RDMA_LINK_INFINIBAND, RDMA_LINK_ETHERNET };
enum rdma_gid_type { RDMA_GID_IB, RDMA_GID_ROCE_V1, RDMA_GID_ROCE_V2 };
enum rdma_atomics { RDMA_ATOMICS_NONE, RDMA_ATOMICS_HCA, RDMA_ATOMICS_GLOBAL };
enum rdma_fork { RDMA_FORK_UNKNOWN, RDMA_FORK_NEEDED, RDMA_FORK_ON,
		 RDMA_FORK_UNNEEDED };
enum rdma_answer { RDMA_UNKNOWN, RDMA_NO, RDMA_YES };

#define RDMA_NAME_MAX 64

/** One entry of a port's GID table that is in use. */
struct rdma_gid {
	unsigned index;
	enum rdma_gid_type type;
	uint8_t raw[16];            /* network byte order */
	char address[48];           /* "10.0.0.1" if IPv4-mapped, else IPv6 */
	char netdev[RDMA_NAME_MAX]; /* "" if not known */
};

struct rdma_port {
	unsigned number;     /* from 1 */
	enum rdma_state state;
	char state_text[32]; /* the library's word: "active", "down" */
	bool active;
	enum rdma_link link;
	char netdev[RDMA_NAME_MAX];   /* "" if not known */
	unsigned active_mtu, max_mtu; /* bytes of payload in a packet */
	uint32_t max_msg_size;        /* bytes */
	uint16_t lid;                 /* InfiniBand only, else 0 */
	struct rdma_gid *gids;
	size_t n_gids;
	int chosen;   /* position in gids[] for connections, -1: none */
	char why[160]; /* the reason for that choice */
};

struct rdma_device {
	char name[RDMA_NAME_MAX];   /* "mlx5_0" */
	char node[RDMA_NAME_MAX];   /* "uverbs0", "" if not known */
	char driver[RDMA_NAME_MAX]; /* of the kernel, "" if not known */
	char firmware[64];          /* "" if it has none */
	uint64_t guid;              /* host byte order, 0 if not known */
	bool software;  /* no card: aligned 8-byte READs may tear */
	bool iwarp;     /* RDMA over TCP: no GIDs to choose from */
	enum rdma_state state; /* that of the best port, or what precludes all */
	char problem[256];     /* "" if usable */
	char remedy[256];      /* "" if none is known */
	int open_error;        /* errno of opening it, as the library has it */
	/* From here on 0 unless the device could be opened. */
	bool opened;
	enum rdma_atomics atomics;
	int max_qp_rd_atom, max_qp_init_rd_atom; /* READs and CAS in flight */
	int max_qp, max_srq;
	uint64_t max_mr_size; /* bytes */
	bool odp;             /* registration without pinning */
	struct rdma_port *ports;
	size_t n_ports;
};

struct rdma_host {
	bool built; /* with libibverbs */
	struct rdma_device *devices;
	size_t n_devices;
	enum rdma_state state; /* RDMA_READY if any device is usable */
	char problem[320], remedy[400]; /* of the state; "" if ready */
	enum rdma_fork fork; /* may a process fork with registered memory? */
	int cm_error; /* errno of asking the connection manager, 0 if it answers
		       * or there is no device to ask about */
	bool dev_folder;   /* there is a /dev/infiniband */
	int cm_node_error; /* errno of using /dev/infiniband/rdma_cm, or 0 */
	/* Kernel modules, loaded or built in. */
	bool ib_uverbs, rdma_ucm, rdma_rxe, siw;
	enum rdma_answer has_rxe; /* does the kernel come with rdma_rxe? */
	char kernel[RDMA_NAME_MAX]; /* release */
};

/** How much memory this process may pin for the card. */
struct rdma_memlock {
	uint64_t limit; /* RLIMIT_MEMLOCK in bytes, UINT64_MAX: unlimited */
	bool ipc_lock;  /* CAP_IPC_LOCK where it counts: the limit does not hold */
};

/**
 * Look at everything. Returns 0 and fills *out, to be released by
 * rdma_probe_free(), or FARKV_ENOMEM. Opens each device and closes it again:
 * milliseconds, not for a data path. Any thread.
 */
int rdma_probe(struct rdma_host *out);
/** Release what rdma_probe() allocated. A zeroed struct is fine. */
void rdma_probe_free(struct rdma_host *h);

/**
 * The one line that tells a user what to do before RDMA works here, without an
 * end of line: "no RDMA device; as root: modprobe rdma_rxe; rdma link add rxe0
 * type rxe netdev eth0". Returns the enum rdma_state it is about; RDMA_READY
 * leaves "" in buf. Cost and threads as rdma_probe().
 */
int rdma_probe_hint(char *buf, size_t cap);

/** Never fails: what cannot be found out counts as not permitted. */
void rdma_memlock_get(struct rdma_memlock *out);
/** May `bytes` be pinned? */
bool rdma_memlock_allows(const struct rdma_memlock *m, uint64_t bytes);
/** What to do about a limit that is too low. */
extern const char rdma_memlock_remedy[];

/**
 * Which of a RoCE port's GIDs a connection should use: version 2 over IPv4, then
 * a routable IPv6 address, then a link-local one; the lowest index of equals.
 * Returns its position or -1; `why` gets the reason in words in either case.
 */
int rdma_gid_choose(const struct rdma_gid *gids, size_t n, char *why,
		    size_t cap);

const char *rdma_link_str(enum rdma_link link);
const char *rdma_gid_type_str(enum rdma_gid_type type);
const char *rdma_atomics_str(enum rdma_atomics atomics);

#endif
