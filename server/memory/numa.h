/* SPDX-License-Identifier: BSD-3-Clause */
/** numa.h - keep the server, and the memory that it makes, on one node of a NUMA machine. */
#ifndef SERVER_MEMORY_NUMA_H
#define SERVER_MEMORY_NUMA_H

/** The node of this number, or -1 with FARKV_EINVAL and a detail: not a number. */
int numa_node_parse(const char *text);

/**
 * Run on the CPUs of a node and take memory from it first, for this thread and all that come from
 * it: before the region is made. Memory that the node does not have comes from others. FARKV_EINVAL
 * (no such node, or built without libnuma), FARKV_ESYS, each with a detail.
 */
int numa_place(int node);

#endif
