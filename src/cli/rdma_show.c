/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/rdma_show.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"

/* Names of capabilities, spelled as iproute2 does: scripts search for them. */
static const char *const dev_caps[] = {
	[0] = "RESIZE_MAX_WR",
	[1] = "BAD_PKEY_CNTR",
	[2] = "BAD_QKEY_CNTR",
	[3] = "RAW_MULTI",
	[4] = "AUTO_PATH_MIG",
	[5] = "CHANGE_PHY_PORT",
	[6] = "UD_AV_PORT_ENFORCE_PORT_ENFORCE",
	[7] = "CURR_QP_STATE_MOD",
	[8] = "SHUTDOWN_PORT",
	[9] = "INIT_TYPE",
	[10] = "PORT_ACTIVE_EVENT",
	[11] = "SYS_IMAGE_GUID",
	[12] = "RC_RNR_NAK_GEN",
	[13] = "SRQ_RESIZE",
	[14] = "N_NOTIFY_CQ",
	[15] = "LOCAL_DMA_LKEY",
	[17] = "MEM_WINDOW",
	[18] = "UD_IP_CSUM",
	[19] = "UD_TSO",
	[20] = "XRC",
	[21] = "MEM_MGT_EXTENSIONS",
	[22] = "BLOCK_MULTICAST_LOOPBACK",
	[23] = "MEM_WINDOW_TYPE_2A",
	[24] = "MEM_WINDOW_TYPE_2B",
	[25] = "RC_IP_CSUM",
	[26] = "RAW_IP_CSUM",
	[27] = "CROSS_CHANNEL",
	[29] = "MANAGED_FLOW_STEERING",
	[30] = "SIGNATURE_HANDOVER", /* original text */
	[31] = "ON_DEMAND_PAGING",
	[32] = "SG_GAPS_REG",
	[33] = "VIRTUAL_FUNCTION",
	[34] = "RAW_SCATTER_FCS",
	[35] = "RDMA_NETDEV_OPA_VNIC",
	[36] = "PCI_WRITE_END_PADDING",
};

static const char *const port_caps[] = {
	[0] = "RESERVED",
	[1] = "SM",
	[2] = "NOTICE",
	[3] = "TRAP",
	[4] = "OPT_IPD",
	[5] = "AUTO_MIGR",
	[6] = "SL_MAP",
	[7] = "MKEY_NVRAM",
	[8] = "PKEY_NVRAM",
	[9] = "LED_INFO",
	[10] = "SM_DISABLED",
	[11] = "SYS_IMAGE_GUID",
	[12] = "PKEY_SW_EXT_PORT_TRAP",
	[13] = "CABLE_INFO",
	[14] = "EXTENDED_SPEEDS",
	[15] = "CAP_MASK2",
	[16] = "CM",
	[17] = "SNMP_TUNNEL",
	[18] = "REINIT",
	[19] = "DEVICE_MGMT",
	[20] = "VENDOR_CLASS",
	[21] = "DR_NOTICE",
	[22] = "CAP_MASK_NOTICE",
	[23] = "BOOT_MGMT",
	[24] = "LINK_LATENCY",
	[25] = "CLIENT_REG",
	[26] = "OTHER_LOCAL_CHANGES",
	[27] = "LINK_SPPED_WIDTH",
	[28] = "VENDOR_SPECIFIC_MADS",
	[29] = "MULT_PKER_TRAP",
	[30] = "MULT_FDB",
	[31] = "HIERARCHY_INFO",
	[32] = "SET_NODE_DESC",
	[33] = "EXT_INFO",
	[34] = "VIRT",
	[35] = "SWITCH_POR_STATE_TABLE",
	[36] = "LINK_WIDTH_2X",
	[37] = "LINK_SPEED_HDR",
};

static const char *const node_types[] = {"unknown", "ca",    "switch",	  "router",
					 "rnic",    "usnic", "usnic_udp", "unspecified"};
static const char *const states[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
static const char *const phys_states[] = {"NOP",
					  "SLEEP",
					  "POLLING",
					  "DISABLED",
					  "ARMED",
					  "LINK_UP",
					  "LINK_ERROR_RECOVER",
					  "PHY_TEST",
					  "UNKNOWN",
					  "OPA_OFFLINE",
					  "UNKNOWN",
					  "OPA_TEST"};

static const char *const qp_types[] = {
	[0] = "SMI",
	[1] = "GSI",
	[2] = "RC",
	[3] = "UC",
	[4] = "UD",
	[5] = "RAW_IPV6",
	[6] = "RAW_ETHERTYPE",
	[7] = "UNKNOWN",
	[8] = "RAW_PACKET",
	[9] = "XRC_INI",
	[10] = "XRC_TGT",
	[255] = "DRIVER",
};

static const char *name_of(const char *const *names, size_t n, size_t i, const char *other)
{
	return i < n && names[i] ? names[i] : other;
}

void rdma_out_begin(struct rdma_out *o, const struct rdma_format *f, struct buf *b)
{
	*o = (struct rdma_out){.f = *f, .b = b};
	if (!f->json)
		return;
	jo_init(&o->json, b, f->pretty ? 4 : 0);
	jo_arr(&o->json);
}

void rdma_out_end(struct rdma_out *o)
{
	if (!o->f.json)
		return;
	jo_end_arr(&o->json);
	buf_char(o->b, '\n');
}

static void begin(struct rdma_out *o)
{
	if (o->f.json)
		jo_obj(&o->json);
}

static void end(struct rdma_out *o)
{
	if (o->f.json)
		jo_end_obj(&o->json);
	else
		buf_char(o->b, '\n');
}

static void put_str(struct rdma_out *o, const char *key, const char *v)
{
	if (o->f.json)
		jo_kstr(&o->json, key, v);
	else
		buf_printf(o->b, "%s %s ", key, v);
}

static void put_uint(struct rdma_out *o, const char *key, uint64_t v)
{
	if (!o->f.json) {
		buf_printf(o->b, "%s %" PRIu64 " ", key, v);
		return;
	}
	jo_kuint(&o->json, key, v);
}

static void put_on_off(struct rdma_out *o, const char *key, bool on)
{
	if (o->f.json)
		jo_kbool(&o->json, key, on);
	else
		buf_printf(o->b, "%s %s ", key, on ? "on" : "off");
}

/* Prints a GUID or a subnet prefix. */
static void put_guid(struct rdma_out *o, const char *key, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%04x:%04x:%04x:%04x", (unsigned int)(v >> 48),
		 (unsigned int)(v >> 32 & 0xffff), (unsigned int)(v >> 16 & 0xffff),
		 (unsigned int)(v & 0xffff));
	put_str(o, key, text);
}

static void put_caps(struct rdma_out *o, uint64_t caps, const char *const *names, size_t n)
{
	if (o->f.json) {
		jo_key(&o->json, "caps");
		jo_arr(&o->json);
	} else {
		buf_str(o->b, "\n    caps: <");
	}
	for (size_t i = 0; caps; i++, caps >>= 1) {
		const char *name = name_of(names, n, i, "UNKNOWN");

		if (!(caps & 1))
			continue;
		if (o->f.json)
			jo_str(&o->json, name);
		else
			buf_printf(o->b, "%s%s", name, caps >> 1 ? ", " : "");
	}
	if (o->f.json)
		jo_end_arr(&o->json);
	else
		buf_char(o->b, '>');
}

void rdma_out_dev(struct rdma_out *o, const struct rdma_view_dev *d)
{
	begin(o);
	if (o->f.json) {
		put_uint(o, "ifindex", d->index);
		put_str(o, "ifname", d->name);
	} else {
		buf_printf(o->b, "%u: %s: ", d->index, d->name);
	}
	if (d->has & RDMA_VIEW_NODE_TYPE)
		put_str(o, "node_type",
			name_of(node_types, ARRAY_LEN(node_types), d->node_type, "unknown"));
	if (d->has & RDMA_VIEW_FW)
		put_str(o, "fw", d->fw);
	if (d->has & RDMA_VIEW_NODE_GUID)
		put_guid(o, "node_guid", d->node_guid);
	if (d->has & RDMA_VIEW_SYS_IMAGE_GUID)
		put_guid(o, "sys_image_guid", d->sys_image_guid);
	if (o->f.details && d->has & RDMA_VIEW_MODERATION && d->moderation <= 1)
		put_on_off(o, "adaptive-moderation", d->moderation);
	if (o->f.details && d->has & RDMA_VIEW_CAPS)
		put_caps(o, d->caps, dev_caps, ARRAY_LEN(dev_caps));
	end(o);
}

static void put_port(struct rdma_out *o, const char *device, uint32_t port)
{
	if (o->f.json) {
		put_str(o, "ifname", device);
		put_uint(o, "port", port);
	} else {
		buf_printf(o->b, "link %s/%u ", device, port);
	}
}

void rdma_out_link(struct rdma_out *o, const struct rdma_view_link *l)
{
	begin(o);
	if (o->f.json)
		put_uint(o, "ifindex", l->index);
	put_port(o, l->name, l->port);
	if (l->has & RDMA_VIEW_PREFIX)
		put_guid(o, "subnet_prefix", l->prefix);
	if (l->has & RDMA_VIEW_LID)
		put_uint(o, "lid", l->lid);
	if (l->has & RDMA_VIEW_SM_LID)
		put_uint(o, "sm_lid", l->sm_lid);
	if (l->has & RDMA_VIEW_LMC)
		put_uint(o, "lmc", l->lmc);
	if (l->has & RDMA_VIEW_STATE)
		put_str(o, "state", name_of(states, ARRAY_LEN(states), l->state, "UNKNOWN"));
	if (l->has & RDMA_VIEW_PHYS_STATE)
		put_str(o, "physical_state",
			name_of(phys_states, ARRAY_LEN(phys_states), l->phys_state, "UNKNOWN"));
	if (l->netdev[0])
		put_str(o, "netdev", l->netdev);
	if (l->netdev[0] && (o->f.json || o->f.details))
		put_uint(o, "netdev_index", l->netdev_index);
	if (o->f.details && l->has & RDMA_VIEW_CAPS)
		put_caps(o, l->caps, port_caps, ARRAY_LEN(port_caps));
	end(o);
}

void rdma_out_system(struct rdma_out *o, const struct rdma_view_system *s)
{
	begin(o);
	if (s->netns[0])
		put_str(o, "netns", s->netns);
	/* the last word of the line has no space after it */
	if (o->f.json)
		put_on_off(o, "copy-on-fork", s->copy_on_fork);
	else
		buf_printf(o->b, "copy-on-fork %s", s->copy_on_fork ? "on" : "off");
	end(o);
}

static void put_counters(struct rdma_out *o, const struct rdma_count *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (o->f.pretty && !o->f.json)
			buf_str(o->b, "\n    ");
		put_uint(o, list[i].name, list[i].value);
	}
}

void rdma_out_counters(struct rdma_out *o, const char *device, uint32_t port,
		       const struct rdma_count *list, size_t n)
{
	begin(o);
	put_port(o, device, port);
	put_counters(o, list, n);
	end(o);
}

const char *rdma_qp_type(int type)
{
	return name_of(qp_types, ARRAY_LEN(qp_types), (size_t)type, "UNKNOWN");
}

static void put_qps(struct rdma_out *o, const struct rdma_stat *s)
{
	if (o->f.json) {
		jo_key(&o->json, "lqpn");
		jo_arr(&o->json);
	} else {
		buf_str(o->b, "\n    LQPN: <");
	}
	for (size_t i = 0; i < s->n_qps; i++)
		if (o->f.json)
			jo_uint(&o->json, s->qps[i]);
		else
			buf_printf(o->b, "%s%" PRIu32, i ? "," : "", s->qps[i]);
	if (o->f.json)
		jo_end_arr(&o->json);
	else
		buf_char(o->b, '>');
}

/* In text output, puts the name of a kernel module (s->owner) in brackets. */
static void put_creator(struct rdma_out *o, const struct rdma_stat *s, const char *comm)
{
	if (s->pid)
		put_uint(o, "pid", s->pid);
	if (s->owner[0] && !o->f.json)
		buf_printf(o->b, "comm [%s] ", s->owner);
	else if (s->owner[0] || comm)
		put_str(o, "comm", s->owner[0] ? s->owner : comm);
}

void rdma_out_qp_counters(struct rdma_out *o, const struct rdma_view_dev *d,
			  const struct rdma_stat *s, const char *comm)
{
	begin(o);
	if (o->f.json)
		put_uint(o, "ifindex", d->index);
	put_port(o, d->name, s->port);
	put_uint(o, "cntn", s->id);
	if (s->qp_type >= 0)
		put_str(o, "qp-type", rdma_qp_type(s->qp_type));
	put_creator(o, s, comm);
	put_counters(o, s->counts, s->n_counts);
	put_qps(o, s);
	end(o);
}

void rdma_out_qp_mode(struct rdma_out *o, const struct rdma_view_dev *d, uint32_t port,
		      uint32_t mode)
{
	static const char *const modes[] = {
		[0] = "qp auto off",
		[RDMA_STAT_BY_TYPE] = "qp auto type on",
		[RDMA_STAT_BY_PID] = "qp auto pid on",
		[RDMA_STAT_BY_TYPE | RDMA_STAT_BY_PID] = "qp auto type,pid on",
	};

	begin(o);
	if (o->f.json)
		put_uint(o, "ifindex", d->index);
	put_port(o, d->name, port);
	put_str(o, "mode", name_of(modes, ARRAY_LEN(modes), mode, "qp auto on"));
	end(o);
}

void rdma_out_mr_counters(struct rdma_out *o, const struct rdma_view_dev *d,
			  const struct rdma_stat *s)
{
	begin(o);
	if (o->f.json) {
		put_uint(o, "ifindex", d->index);
		put_str(o, "ifname", d->name);
	} else {
		buf_printf(o->b, "dev %s ", d->name);
	}
	put_uint(o, "mrn", s->id);
	put_counters(o, s->counts, s->n_counts);
	end(o);
}
