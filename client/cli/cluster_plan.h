/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * cluster_plan.h - kvcli's commands for a cluster whose map is in ZooKeeper: change the map, and
 * wait until the servers have made the moves. `url` is zk://HOST:PORT[,HOST:PORT]/PATH. Each
 * returns an exit code.
 */
#ifndef CLIENT_CLI_CLUSTER_PLAN_H
#define CLIENT_CLI_CLUSTER_PLAN_H

#include "cli.h"

/** How long ZooKeeper may take to answer. */
#define ZOOKEEPER_MS 10000

/** Add a server, NAME=ADDRESS, and give it its share. */
int cluster_add(struct cli *cli, const char *pair, const char *url);
/** Take all partitions from a server. */
int cluster_drain(struct cli *cli, const char *name, const char *url);
/** Give each server the same number of partitions. */
int cluster_rebalance(struct cli *cli, const char *url);
/** Print the map at a URL or in a file, without contacting a server. */
int cluster_show(struct cli *cli, const char *from);

#endif
