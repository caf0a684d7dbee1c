/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "numa.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>

#ifdef HAVE_NUMA
#include <numa.h>
#endif

#include <farkv.h>

#include "common/base/err.h"
#include "common/base/util.h"

int numa_node_parse(const char *text)
{
	uint64_t n;

	if (util_parse_u64(text, &n) && n < INT_MAX)
		return (int)n;
	err_set(FARKV_EINVAL, "numa-node: '%s' is not the number of a node", text);
	return -1;
}

#ifdef HAVE_NUMA
int numa_place(int node)
{
	if (numa_available() < 0)
		return err_set(FARKV_EINVAL, "numa-node: this kernel has no NUMA");
	if (node > numa_max_node() || !numa_bitmask_isbitset(numa_all_nodes_ptr, (unsigned)node))
		return err_set(FARKV_EINVAL,
			       "numa-node: there is no node %d with memory for this process; the "
			       "last one is %d; see numactl --hardware",
			       node, numa_max_node());
	if (numa_run_on_node(node))
		return err_set_errno(FARKV_ESYS, errno, "numa-node: cannot run on node %d", node);
	numa_set_preferred(node);
	return 0;
}
#else
int numa_place(int node)
{
	return err_set(FARKV_EINVAL,
		       "numa-node: %d: this kvserver was built without libnuma; install "
		       "libnuma-dev and build it again, or use numactl",
		       node);
}
#endif
