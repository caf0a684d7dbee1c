/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lane compared with a model: chains of READs, WRITEs and compare-and-swaps in two
 * areas, with segments and fences, some longer than one piece, more than the send queue
 * holds, and posts that the device refuses.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <farkv.h>

#include "common/base/clock.h"
#include "common/base/util.h"
#include "tests/rig/cases.h"
#include "tests/rig/played_device.h"
#include "tests/rig/wr.h"

#define CHAINS 40u
#define EACH 6u
#define BORDER 3000u /* where the second area begins */
#define SLOT 2624u   /* of each request's own memory */
#define BYTES (CHAINS * EACH * (size_t)SLOT)
#define LEN_MAX 2600u

static const struct verbs_area areas[] = {
	{.bytes = BORDER, .raddr = 0x100000, .rkey = 1},
	{.off = BORDER, .bytes = DEVICE_REGION - BORDER, .raddr = 0x900000,
	 .rkey = 2}};

static struct verbs_lane *verbs;
static struct xport_lane *lane;
static struct xport_chain chains[CHAINS];
static unsigned n_chains;
static uint8_t *mem, *part; /* the data of requests, one slot each */

/* The expected state in the end. */
static struct {
	uint8_t region[DEVICE_REGION];
	uint8_t *mem, *part;
	uint64_t found[CHAINS][EACH];
	unsigned fences; /* pieces that wait for earlier ones */
} model;

static uint32_t seed;

static uint32_t draw(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed % below;
}

static void setup(void)
{
	verbs = device_lane(areas, ARRAY_SIZE(areas));
	lane = verbs_lane_base(verbs);
	mem = xport_mem_alloc(lane, BYTES);
	part = xport_mem_alloc(lane, BYTES);
	model.mem = malloc(BYTES);
	model.part = malloc(BYTES);
	ck_assert(mem && part && model.mem && model.part);
}

static void teardown(void)
{
	xport_mem_free(lane, mem, BYTES);
	xport_mem_free(lane, part, BYTES);
	free(model.mem);
	free(model.part);
	xport_close(lane);
}

/* ---- the model -------------------------------------------------------------------- */

static void model_begin(void)
{
	for (size_t i = 0; i < BYTES; i += 4) {
		uint32_t x = draw(UINT32_MAX), y = ~x;

		memcpy(mem + i, &x, 4);
		memcpy(part + i, &y, 4);
	}
	memcpy(model.mem, mem, BYTES);
	memcpy(model.part, part, BYTES);
	memcpy(model.region, region, DEVICE_REGION);
	model.fences = 0;
}

static void model_swap(const struct xport_wr *wr, uint64_t *found_out)
{
	uint8_t *at = model.region + wr->off;

	memcpy(found_out, at, 8);
	if (*found_out == wr->expect)
		memcpy(at, &wr->swap, 8);
}

/* A READ or WRITE of the memory at `slot`. */
static void model_move(const struct xport_wr *wr, size_t slot)
{
	uint32_t head = wr->seg_len ? wr->seg_at : wr->len;
	uint8_t *at = model.region + wr->off, *own = model.mem + slot;
	uint8_t *rest = at + head + wr->seg_len;
	uint32_t tail = wr->len - head - wr->seg_len;

	if (wr->opcode == XPORT_READ) {
		memcpy(own, at, head);
		memcpy(model.part + slot, at + head, wr->seg_len);
		memcpy(own + head, rest, tail);
	} else {
		memcpy(at, own, head);
		memcpy(at + head, model.part + slot, wr->seg_len);
		memcpy(rest, own + head, tail);
	}
}

/* ---- requests --------------------------------------------------------------------- */

static void draw_part(struct xport_wr *wr, size_t slot)
{
	if (wr->len <= 40 || draw(3))
		return;
	wr->seg = part + slot;
	wr->seg_at = draw(wr->len - 30);
	wr->seg_len = 1 + draw(wr->len - wr->seg_at - 8);
}

static struct xport_wr draw_swap(uint64_t off)
{
	uint64_t word;

	off = (off + 7) & ~UINT64_C(7);
	memcpy(&word, model.region + off, sizeof(word));
	return cas_wr(off, word + draw(2), (uint64_t)draw(UINT32_MAX) << 32 | draw(99));
}

static struct xport_wr draw_move(uint64_t off, uint64_t room, size_t slot)
{
	uint32_t len = 1 + draw(draw(4) ? 300 : LEN_MAX);
	struct xport_wr wr;

	len = len < room ? len : (uint32_t)room;
	wr = draw(2) ? read_wr(off, mem + slot, len) :
		       write_wr(off, mem + slot, len);
	draw_part(&wr, slot);
	return wr;
}

static void draw_request(unsigned chain, unsigned k)
{
	const struct verbs_area *a = &areas[draw(2)];
	uint64_t at = draw((uint32_t)a->bytes - 16);
	size_t slot = (chain * EACH + k) * (size_t)SLOT;
	struct xport_wr *wr = &chains[chain].wr[k];

	*wr = draw(3) ? draw_move(a->off + at, a->bytes - at, slot) :
			draw_swap(a->off + at);
	if (draw(4) == 0) {
		wr->flags = XPORT_FENCE;
		model.fences += (wr->len + DEVICE_PIECE - 1) / DEVICE_PIECE;
	}
	if (wr->opcode == XPORT_CAS)
		model_swap(wr, &model.found[chain][k]);
	else
		model_move(wr, slot);
}

static void draw_chains(void)
{
	n_chains = 1 + draw(CHAINS);
	memset(chains, 0, sizeof(chains));
	for (unsigned i = 0; i < n_chains; i++) {
		chains[i].n = (uint8_t)(1 + draw(EACH));
		for (unsigned k = 0; k < chains[i].n; k++)
			draw_request(i, k);
	}
}

/*
 * Posts some chains at a time, while the device is slow now and then. A device that will
 * refuse a post first takes what its queue holds, and then a part of the rest.
 */
static void post_all(bool refusing)
{
	for (unsigned at = 0; at < n_chains;) {
		unsigned end = at + 1 + draw(n_chains - at);

		for (unsigned i = at; i < end; i++)
			chains[i].next = i + 1 < end ? &chains[i + 1] : NULL;
		device.hold = refusing || draw(2);
		ck_assert_int_eq(xport_post(lane, &chains[at]), 0);
		if (draw(2))
			xport_poll(lane);
		at = end;
	}
	device.hold = false;
	if (refusing)
		device.refuse = draw(draw(2) ? 60 : 4);
	for (unsigned i = 0; !chains[n_chains - 1].done && i < 10000; i++)
		xport_poll(lane);
}

/* ---- checks ----------------------------------------------------------------------- */

static bool wants_inline(const struct ibv_send_wr *wr, const struct ibv_sge *sge)
{
	uint64_t bytes = 0;

	for (int i = 0; i < wr->num_sge; i++)
		bytes += sge[i].length;
	return wr->opcode == IBV_WR_RDMA_WRITE && bytes <= device_conn.max_inline &&
	       !(wr->send_flags & IBV_SEND_FENCE);
}

/* Only the last request of a doorbell reports, and each has only its own flags. */
static void check_posted(void)
{
	unsigned fences = 0;

	for (unsigned i = 0; i < device.n; i++) {
		const struct ibv_send_wr *wr = &device.wr[i];

		ck_assert_uint_eq(wr->wr_id, i);
		ck_assert_int_eq(!(wr->send_flags & IBV_SEND_SIGNALED), !!wr->next);
		ck_assert_int_eq(!(wr->send_flags & IBV_SEND_INLINE),
				 !wants_inline(wr, device.sge[i]));
		ck_assert_uint_eq(wr->imm_data, 0);
		fences += (wr->send_flags & IBV_SEND_FENCE) != 0;
	}
	ck_assert_uint_eq(fences, model.fences);
}

static void check_done(void)
{
	check_posted();
	for (unsigned i = 0; i < n_chains; i++) {
		const struct xport_chain *c = &chains[i];

		ck_assert(c->done && c->status == 0 && c->n_done == c->n);
		for (unsigned k = 0; k < c->n; k++)
			if (c->wr[k].opcode == XPORT_CAS)
				ck_assert_uint_eq(c->wr[k].found,
						  model.found[i][k]);
	}
	ck_assert_mem_eq(region, model.region, DEVICE_REGION);
	ck_assert(memcmp(mem, model.mem, BYTES) == 0);
	ck_assert(memcmp(part, model.part, BYTES) == 0);
}

/* Number of leading requests whose every piece the device has done. */
static unsigned requests_executed(void)
{
	unsigned pieces = 0, whole = 0;

	for (unsigned i = 0; i < n_chains; i++)
		for (unsigned k = 0; k < chains[i].n; k++) {
			uint32_t len = chains[i].wr[k].len;

			pieces += (len + DEVICE_PIECE - 1) / DEVICE_PIECE;
			whole += pieces <= device.executed;
		}
	return whole;
}

/* Requests that happened are reported as done, and no others. */
static void check_refused(void)
{
	unsigned certain = 0;
	bool over = false;

	ck_assert_int_eq(xport_broken(lane), FARKV_EDISCONNECTED);
	for (unsigned i = 0; i < n_chains; i++) {
		const struct xport_chain *c = &chains[i];

		ck_assert(c->done && (c->status != 0) == (c->n_done < c->n));
		ck_assert(!over || c->n_done == 0);
		over |= c->status != 0;
		certain += c->n_done;
	}
	ck_assert(over);
	ck_assert_uint_eq(certain, requests_executed());
}

/* ---- cases ------------------------------------------------------------------------ */

TEST_LOOP(requests_do_what_the_model_does, 0, 4)
{
	for (unsigned round = 0; round < 60; round++) {
		setup();
		seed = (round + 60 * (uint32_t)_i + 1) * 2654435761u | 1;
		model_begin();
		draw_chains();
		post_all(false);
		check_done();
		teardown();
	}
}

TEST(refused_post_ends_the_lane)
{
	unsigned refused = 0;

	for (unsigned round = 0; round < 60; round++) {
		setup();
		seed = (round + 1000) * 2654435761u | 1;
		model_begin();
		draw_chains();
		post_all(true);
		if (xport_broken(lane)) {
			check_refused();
			refused++;
		} else {
			check_done();
		}
		teardown();
	}
	ck_assert_uint_gt(refused, 10);
}

/* More chains in one post than the queue holds: each that waited reports until when. */
TEST(chain_that_waits_for_room_reports_when_it_began)
{
	uint64_t posted, now;
	unsigned waited = 0;

	setup();
	n_chains = CHAINS;
	for (unsigned i = 0; i < n_chains; i++) {
		chains[i] = (struct xport_chain){.n = EACH};
		for (unsigned k = 0; k < EACH; k++)
			chains[i].wr[k] = read_wr(0, mem + (i * EACH + k) * SLOT, 8);
		chains[i].next = i + 1 < n_chains ? &chains[i + 1] : NULL;
	}
	device.hold = true;
	ck_assert_int_eq(xport_post(lane, &chains[0]), 0);
	posted = clock_now_ns();
	ck_assert_uint_lt(device.n, CHAINS * EACH);
	device.hold = false;
	for (unsigned i = 0; !chains[n_chains - 1].done && i < 10000; i++)
		xport_poll(lane);
	now = clock_now_ns();
	for (unsigned i = 0; i < n_chains; i++) {
		ck_assert(chains[i].done && !chains[i].status);
		if (!chains[i].begun_ns) {
			ck_assert_uint_eq(waited, 0);
			continue;
		}
		waited++;
		ck_assert_uint_ge(chains[i].begun_ns, posted);
		ck_assert_uint_le(chains[i].begun_ns, now);
	}
	ck_assert_uint_gt(waited, 0);
	ck_assert_uint_lt(waited, n_chains);
	/* With room it does not read the clock. */
	chains[0].next = NULL;
	ck_assert_int_eq(xport_post(lane, &chains[0]), 0);
	xport_poll(lane);
	ck_assert(chains[0].done);
	ck_assert_uint_eq(chains[0].begun_ns, 0);
	teardown();
}

/* A request that is not inside one area fails its whole post. */
TEST(request_across_two_areas_is_refused)
{
	struct xport_chain c = {.n = 2};

	setup();
	c.wr[0] = read_wr(0, mem, 64);
	for (unsigned over = 1; over <= 64; over++) {
		c.wr[1] = read_wr(BORDER - 64 + over, mem + 64, 64);
		ck_assert_int_eq(xport_post(lane, &c), over < 64 ? FARKV_EINVAL : 0);
		ck_assert_uint_eq(device.n, over < 64 ? 0 : 2);
	}
	xport_poll(lane);
	ck_assert(c.done && c.status == 0);
	ck_assert_mem_eq(mem + 64, region + BORDER, 64);
	teardown();
}

/* Nothing of such a post is sent, not even the requests before it. */
static void refuse(struct xport_wr wr, int err)
{
	struct xport_chain c = {.n = 2};

	c.wr[0] = read_wr(0, mem, 64);
	c.wr[1] = wr;
	ck_assert_int_eq(xport_post(lane, &c), err);
	ck_assert_uint_eq(device.n, 0);
}

TEST(malformed_request_is_refused)
{
	struct xport_wr parted;

	setup();
	refuse(read_wr(64, mem + 64, 0), FARKV_EINVAL);
	refuse(read_wr(DEVICE_REGION, mem + 64, 1), FARKV_EINVAL);
	refuse(read_wr(64, mem + 63, 64), FARKV_EINVAL);
	refuse(cas_wr(68, 1, 2), FARKV_EINVAL);
	parted = read_wr(64, mem + 64, 64);
	parted.seg = part;
	parted.seg_len = 60;
	refuse(parted, FARKV_EINVAL); /* fewer than 8 bytes after it */
	lane->caps |= XPORT_READONLY;
	refuse(write_wr(64, mem + 64, 64), FARKV_EPERM);
	refuse(cas_wr(64, 1, 2), FARKV_EPERM);
	teardown();
}

/* Areas have their own bounds, which must lie within the region. */
TEST(area_outside_of_the_region_is_refused)
{
	static const struct verbs_area wrong[] = {
		{.bytes = DEVICE_REGION + 1},
		{.off = DEVICE_REGION - 64, .bytes = 65},
		{.off = DEVICE_REGION + 1},
		{.off = UINT64_MAX, .bytes = 2}};
	struct verbs_lane *none = NULL;

	for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct verbs_lane_params p = {.areas = &wrong[i], .n_areas = 1,
					      .region_bytes = DEVICE_REGION};

		ck_assert_int_eq(verbs_lane_new(NULL, NULL, &p, &none),
				 FARKV_EINVAL);
		ck_assert_ptr_null(none);
	}
}

TEST_SUITE("a lane and its model")
