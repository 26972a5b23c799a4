/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/cleanup.h"
#include "base/columns.h"
#include "cli/verify/verify.h"
#include "wire/json/json.h"

/* Three digits: what a measurement of seconds is worth. */
static const char *scaled(double v, const char *const *units, size_t n, double step, char *ret)
{
	size_t i = 0;

	while (i + 1 < n && v >= step) {
		v /= step;
		i++;
	}
	snprintf(ret, VERIFY_NUMBER_MAX, "%.*f %s", v < 9.995 ? 2 : v < 99.95 ? 1 : 0, v, units[i]);
	return ret;
}

const char *verify_rate_str(uint64_t bytes_per_s, char ret[static VERIFY_NUMBER_MAX])
{
	static const char *const units[] = {"b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"};

	return scaled((double)bytes_per_s * 8, units, ARRAY_LEN(units), 1000, ret);
}

const char *verify_time_str(uint64_t ns, char ret[static VERIFY_NUMBER_MAX])
{
	static const char *const units[] = {"us", "ms", "s"};

	return scaled((double)ns / 1000, units, ARRAY_LEN(units), 1000, ret);
}

const char *verify_size_str(uint64_t bytes, char ret[static VERIFY_NUMBER_MAX])
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};

	if (bytes < 1024)
		snprintf(ret, VERIFY_NUMBER_MAX, "%u bytes", (unsigned int)bytes);
	else
		scaled((double)bytes / 1024, units, ARRAY_LEN(units), 1024, ret);
	return ret;
}

/* "172.16.1.10 (net1, mlx5_0 port 1, GID 3)" */
static void put_end(const struct ipnet *net, const char *ifname, const char *device, uint32_t port,
		    int gid, FILE *f)
{
	char text[IP_TEXT_MAX];

	if (net->ip.family)
		fprintf(f, "%s (%s, ", ip_str(&net->ip, text), ifname);
	fprintf(f, "%s port %u", device, port);
	if (gid >= 0)
		fprintf(f, ", GID %d", gid);
	if (net->ip.family)
		fputc(')', f);
}

void verify_show_one(const struct verify_result *r, FILE *f)
{
	char a[VERIFY_NUMBER_MAX], b[VERIFY_NUMBER_MAX], c[VERIFY_NUMBER_MAX];

	put_end(&r->net, r->ifname, r->device, r->port, r->gid_index, f);
	fputs(" and ", f);
	put_end(&r->peer_net, r->peer_ifname, r->peer_device, r->peer_port, r->peer_gid_index, f);
	fprintf(f, "\n%s, RDMA MTU %u\n", r->ethernet ? "RoCE" : "InfiniBand", r->mtu);
	fprintf(f, "  data       %s by RDMA %s, every byte right\n", verify_size_str(r->checked, a),
		verify_op_name(r->op));
	fprintf(f, "  latency    %s (least %s, 99 of 100 within %s)\n",
		verify_time_str(r->lat_p50_ns, a), verify_time_str(r->lat_min_ns, b),
		verify_time_str(r->lat_p99_ns, c));
	fprintf(f, "  bandwidth  %s (RDMA %s, messages of %s, %s in all)\n",
		verify_rate_str(r->rate, a), verify_op_name(r->op), verify_size_str(r->size, b),
		verify_size_str(r->bytes, c));
}

static void add_row(struct columns *c, const struct verify_result *r)
{
	char text[VERIFY_NUMBER_MAX], ip[IP_TEXT_MAX];
	bool ok = !r->err.code;

	columns_add(c, r->ifname);
	columns_add(c, r->net.ip.family ? ip_str(&r->net.ip, ip) : NULL);
	columns_add(c, r->device);
	columns_add(c, r->peer_net.ip.family ? ip_str(&r->peer_net.ip, ip) : NULL);
	columns_add(c, r->peer_device);
	if (r->mtu)
		columns_addf(c, "%u", r->mtu);
	else
		columns_add(c, NULL);
	columns_add(c, ok ? "right" : NULL);
	columns_add(c, ok ? verify_time_str(r->lat_p50_ns, text) : NULL);
	columns_add(c, ok ? verify_rate_str(r->rate, text) : NULL);
}

void verify_show_table(const struct verify_result *v, size_t n, FILE *f)
{
	static const char *const head[] = {"INTERFACE",	 "ADDRESS",	"DEVICE",
					   "PEER",	 "PEER DEVICE", "MTU",
					   "DATA CHECK", "LATENCY",	"BANDWIDTH"};
	auto_columns struct columns c;
	size_t bad = 0;

	columns_init(&c, ARRAY_LEN(head), "");
	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		columns_add(&c, head[i]);
	for (size_t i = 0; i < n; i++)
		add_row(&c, &v[i]);
	columns_print(&c, f);
	for (size_t i = 0; i < n; i++) {
		char ip[IP_TEXT_MAX];

		if (!v[i].err.code)
			continue;
		fprintf(f, "%s %s: %s\n", v[i].ifname, ip_str(&v[i].net.ip, ip), v[i].err.text);
		bad++;
	}
	if (bad)
		fprintf(f, "%zu of %zu rails failed\n", bad, n);
}

static void json_end(struct json_out *o, const char *key, const struct ipnet *net,
		     const char *ifname, const char *device, uint32_t port, int gid)
{
	char text[IP_TEXT_MAX];

	jo_key(o, key);
	jo_obj(o);
	jo_kstr(o, "address", net->ip.family ? ip_str(&net->ip, text) : NULL);
	jo_kstr(o, "interface", ifname);
	jo_kstr(o, "device", device);
	jo_kint(o, "port", port);
	jo_kint(o, "gidIndex", gid);
	jo_end_obj(o);
}

static void json_numbers(struct json_out *o, const struct verify_result *r)
{
	jo_kstr(o, "link", r->ethernet ? "Ethernet" : "InfiniBand");
	jo_kint(o, "mtu", r->mtu);
	jo_kstr(o, "operation", verify_op_name(r->op));
	jo_kint(o, "messageBytes", r->size);
	jo_kint(o, "checkedBytes", (int64_t)r->checked);
	jo_key(o, "latencyNs");
	jo_obj(o);
	jo_kint(o, "min", (int64_t)r->lat_min_ns);
	jo_kint(o, "average", (int64_t)r->lat_avg_ns);
	jo_kint(o, "median", (int64_t)r->lat_p50_ns);
	jo_kint(o, "p99", (int64_t)r->lat_p99_ns);
	jo_end_obj(o);
	jo_kint(o, "bytes", (int64_t)r->bytes);
	jo_kint(o, "bytesPerSecond", (int64_t)r->rate);
}

void verify_show_json(const struct verify_result *v, size_t n, struct buf *b)
{
	struct json_out o;
	bool ok = true;

	for (size_t i = 0; i < n; i++)
		ok = ok && !v[i].err.code;
	jo_init(&o, b, 4);
	jo_obj(&o);
	jo_kbool(&o, "ok", ok);
	jo_key(&o, "rails");
	jo_arr(&o);
	for (size_t i = 0; i < n; i++) {
		const struct verify_result *r = &v[i];

		jo_obj(&o);
		jo_kbool(&o, "ok", !r->err.code);
		jo_kstr(&o, "error", r->err.code ? r->err.text : NULL);
		json_end(&o, "here", &r->net, r->ifname, r->device, r->port, r->gid_index);
		json_end(&o, "peer", &r->peer_net, r->peer_ifname, r->peer_device, r->peer_port,
			 r->peer_gid_index);
		json_numbers(&o, r);
		jo_end_obj(&o);
	}
	jo_end_arr(&o);
	jo_end_obj(&o);
	buf_char(b, '\n');
}
