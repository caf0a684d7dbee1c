/* SPDX-License-Identifier: BSD-3-Clause */
/** netdev.h - the network interface that a software RDMA device could use. */
#ifndef COMMON_RDMA_NETDEV_H
#define COMMON_RDMA_NETDEV_H

#include <stdbool.h>
#include <stddef.h>

/**
 * The name of the Ethernet interface that most likely reaches other machines: up,
 * preferably with an IPv4 address, preferably a card's. False, with buf unchanged, if none
 * is up.
 */
bool rdma_netdev_for_rxe(char *buf, size_t cap);

#endif
