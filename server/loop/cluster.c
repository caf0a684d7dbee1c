/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "cluster.h"

#include <stdio.h>

#include "common/base/log.h"
#include "common/proto/clustermap.h"
#include "common/proto/msg.h"

#include "core.h"
#include "session.h"

static void send_map(struct session *s, const struct clustermap *map)
{
	char text[CLUSTERMAP_TEXT_MAX + 1], peer[80];
	struct msg m = {.type = MSG_MAP, .req = s->hello.req};

	m.map.text = (const uint8_t *)text;
	m.map.text_len = (uint16_t)clustermap_print(map, text);
	log_debug("%s gets the cluster's map", session_peer(s, peer));
	s->begun = true; /* as for a refusal: the server waits for nothing */
	(void)session_send(s, &m, NULL, NULL, 0);
	session_end(s);
}

bool cluster_admits(struct session *s)
{
	const struct control_config *cfg = &s->control->cfg;
	const struct session_hello *h = &s->hello;
	char text[160];

	if ((!cfg->map && !h->map) || s->copies)
		return true;
	if (!cfg->map) {
		session_refuse(s, MSG_REASON_CLUSTER,
			       "this server is in no cluster: start it with --cluster-map");
		return false;
	}
	if (h->map != cfg->map->id) {
		send_map(s, cfg->map);
		return false;
	}
	if (h->server == cfg->server) {
		s->map_epoch = cfg->map->epoch;
		return true;
	}
	snprintf(text, sizeof(text), "this is server %s, not %s: see kvserver --node-name and the map",
		 cfg->map->server[cfg->server].name,
		 h->server < cfg->map->n_servers ? cfg->map->server[h->server].name : "another");
	session_refuse(s, MSG_REASON_CLUSTER, text);
	return false;
}
