/* SPDX-License-Identifier: BSD-3-Clause */
/** rdma_netdev.h - which network interface a software RDMA device could use. */
#ifndef COMMON_RDMA_NETDEV_H
#define COMMON_RDMA_NETDEV_H

#include <stdbool.h>
#include <stddef.h>

/**
 * The name of the Ethernet interface that is up and most likely leads to other
 * machines: one with an IPv4 address before one without, one of a card before a
 * virtual one. Returns false and leaves buf alone if none is up.
 */
bool rdma_netdev_for_rxe(char *buf, size_t cap);

#endif
