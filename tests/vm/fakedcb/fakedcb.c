// SPDX-License-Identifier: GPL-2.0
/*
 * fakedcb: dcbnl_ops for the netdevs of igb's PFs, with the behaviour of mlx5_core: a test double, for tests in a virtual
 * machine only. README.md lists the behaviour.
 */
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/rtnetlink.h>
#include <net/dcbnl.h>

#define PORTS 4
#define CELL  144

static unsigned int pfc_writes;
module_param(pfc_writes, uint, 0444);
static bool ignore;
module_param(ignore, bool, 0644);

struct port {
	struct net_device *dev;
	struct ieee_ets ets;
	struct ieee_pfc pfc;
	struct ieee_maxrate rate;
	struct dcbnl_buffer buffer;
	u8 dcbx, dscps;
};
static struct port ports[PORTS];

/* All callbacks run under the RTNL, which protects ports. */
static struct port *port_of(struct net_device *dev)
{
	int i;

	for (i = 0; i < PORTS; i++)
		if (ports[i].dev == dev)
			return &ports[i];
	return NULL;
}

static bool by_host(struct net_device *dev)
{
	return port_of(dev)->dcbx & DCB_CAP_DCBX_HOST;
}

static int get_ets(struct net_device *dev, struct ieee_ets *ets)
{
	*ets = port_of(dev)->ets;
	return 0;
}

static int set_ets(struct net_device *dev, struct ieee_ets *ets)
{
	int i, sum = 0, shares = 0;

	if (!by_host(dev))
		return -EPERM;
	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		if (ets->prio_tc[i] >= IEEE_8021QAZ_MAX_TCS)
			return -EINVAL;
		if (ets->tc_tsa[i] == IEEE_8021QAZ_TSA_ETS) {
			sum += ets->tc_tx_bw[i];
			shares++;
		}
	}
	if (shares && sum != 100)
		return -EINVAL;
	memcpy(port_of(dev)->ets.tc_tx_bw, ets->tc_tx_bw, sizeof(ets->tc_tx_bw));
	memcpy(port_of(dev)->ets.tc_rx_bw, ets->tc_rx_bw, sizeof(ets->tc_rx_bw));
	memcpy(port_of(dev)->ets.tc_tsa, ets->tc_tsa, sizeof(ets->tc_tsa));
	memcpy(port_of(dev)->ets.prio_tc, ets->prio_tc, sizeof(ets->prio_tc));
	return 0;
}

static int get_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	*pfc = port_of(dev)->pfc;
	return 0;
}

static int set_pfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	if (!by_host(dev))
		return -EPERM;
	if (pfc->delay >= 1000)
		return -EINVAL;
	port_of(dev)->pfc.pfc_en = pfc->pfc_en;
	/* As in mlx5_core, 0 keeps the cable length. */
	if (pfc->delay)
		port_of(dev)->pfc.delay = pfc->delay;
	pfc_writes++;
	if (netif_carrier_ok(dev)) {
		netif_carrier_off(dev);
		netif_carrier_on(dev);
	}
	return 0;
}

static int get_maxrate(struct net_device *dev, struct ieee_maxrate *rate)
{
	*rate = port_of(dev)->rate;
	return 0;
}

static int set_maxrate(struct net_device *dev, struct ieee_maxrate *rate)
{
	port_of(dev)->rate = *rate;
	return 0;
}

static void forget_app(struct net_device *dev, u16 dscp)
{
	struct dcb_app old = {.selector = IEEE_8021QAZ_APP_SEL_DSCP, .protocol = dscp};

	for (old.priority = 0; old.priority < IEEE_8021QAZ_MAX_TCS; old.priority++)
		if (dcb_ieee_delapp(dev, &old) == 0)
			port_of(dev)->dscps--;
}

static int set_app(struct net_device *dev, struct dcb_app *app)
{
	int ret;

	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP || app->protocol > 63 || !by_host(dev))
		return app->selector == IEEE_8021QAZ_APP_SEL_DSCP && app->protocol <= 63 ? -EPERM
											 : -EINVAL;
	forget_app(dev, app->protocol);
	ret = dcb_ieee_setapp(dev, app);
	if (ret == 0)
		port_of(dev)->dscps++;
	return ret;
}

static int del_app(struct net_device *dev, struct dcb_app *app)
{
	int ret = by_host(dev) ? dcb_ieee_delapp(dev, app) : -EPERM;

	if (ret == 0)
		port_of(dev)->dscps--;
	return ret;
}

static u8 get_dcbx(struct net_device *dev)
{
	return port_of(dev)->dcbx;
}

/* Returns 0: accepted, 1: refused. As in mlx5_core, mode 0 returns DCBX to the firmware and
 * keeps the DCBX version flags; any other mode must contain DCB_CAP_DCBX_HOST. */
static u8 set_dcbx(struct net_device *dev, u8 mode)
{
	if (mode && !(mode & DCB_CAP_DCBX_HOST))
		return 1;
	port_of(dev)->dcbx = mode ? mode : port_of(dev)->dcbx & ~DCB_CAP_DCBX_HOST;
	return 0;
}

static int get_buffer(struct net_device *dev, struct dcbnl_buffer *b)
{
	*b = port_of(dev)->buffer;
	return 0;
}

static int set_buffer(struct net_device *dev, struct dcbnl_buffer *b)
{
	u32 total = 0;
	int i;

	if (!by_host(dev))
		return -EPERM;
	for (i = 0; i < DCBX_MAX_BUFFERS; i++)
		total += b->buffer_size[i];
	if (total > port_of(dev)->buffer.total_size)
		return -ENOSPC;
	if (ignore)
		return 0;
	total = port_of(dev)->buffer.total_size;
	port_of(dev)->buffer = *b;
	port_of(dev)->buffer.total_size = total;
	for (i = 0; i < DCBX_MAX_BUFFERS; i++)
		port_of(dev)->buffer.buffer_size[i] -= b->buffer_size[i] % CELL;
	return 0;
}

static const struct dcbnl_rtnl_ops ops = {
	.ieee_getets = get_ets,
	.ieee_setets = set_ets,
	.ieee_getpfc = get_pfc,
	.ieee_setpfc = set_pfc,
	.ieee_getmaxrate = get_maxrate,
	.ieee_setmaxrate = set_maxrate,
	.ieee_setapp = set_app,
	.ieee_delapp = del_app,
	.getdcbx = get_dcbx,
	.setdcbx = set_dcbx,
	.dcbnl_getbuffer = get_buffer,
	.dcbnl_setbuffer = set_buffer,
};

/* Gives a port the firmware's settings at power-on. */
static void add(struct net_device *dev)
{
	struct port *p = port_of(NULL);
	int i;

	if (!p || dev->dcbnl_ops)
		return;
	memset(p, 0, sizeof(*p));
	p->dev = dev;
	p->dcbx = DCB_CAP_DCBX_VER_IEEE | DCB_CAP_DCBX_VER_CEE;
	p->ets.ets_cap = p->pfc.pfc_cap = IEEE_8021QAZ_MAX_TCS;
	p->pfc.delay = 7;
	p->buffer.total_size = 524032;
	p->buffer.buffer_size[0] = 1819 * CELL;
	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		p->ets.prio_tc[i] = i;
		p->ets.tc_tsa[i] = IEEE_8021QAZ_TSA_VENDOR;
	}
	dev->dcbnl_ops = &ops;
}

static void drop(struct port *p)
{
	u16 dscp;

	for (dscp = 0; dscp < 64; dscp++)
		forget_app(p->dev, dscp);
	p->dev->dcbnl_ops = NULL;
	p->dev = NULL;
}

static int event(struct notifier_block *nb, unsigned long what, void *data)
{
	struct net_device *dev = netdev_notifier_info_to_dev(data);

	if (what == NETDEV_UNREGISTER && dev->dcbnl_ops == &ops &&
	    dev->reg_state == NETREG_UNREGISTERING)
		drop(port_of(dev));
	return NOTIFY_OK;
}
static struct notifier_block watch = {.notifier_call = event};

static int __init start(void)
{
	struct net_device *dev;

	rtnl_lock();
	for_each_netdev(&init_net, dev) if (dev->dev.parent && dev->dev.parent->driver &&
					    !strcmp(dev->dev.parent->driver->name, "igb")) add(dev);
	rtnl_unlock();
	return register_netdevice_notifier(&watch);
}

static void __exit stop(void)
{
	int i;

	unregister_netdevice_notifier(&watch);
	rtnl_lock();
	for (i = 0; i < PORTS; i++)
		if (ports[i].dev)
			drop(&ports[i]);
	rtnl_unlock();
}
module_init(start);
module_exit(stop);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("test double of mlx5_core's Data Center Bridging");
