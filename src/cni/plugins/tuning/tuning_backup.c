/* SPDX-License-Identifier: Apache-2.0 */
/* What an interface was before, in a file for DEL; the original's bytes, both ways. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/plugins/tuning/tuning.h"

enum { BACKUP_MAX = 64 << 10, BACKUP_MODE = 0600, BACKUP_DIR_MODE = 0700 };

struct raw {
	const char *mac;
	int64_t mtu, txqlen;
	bool promisc, allmulti, has_promisc, has_allmulti, has_txqlen;
};

static const struct json_field fields[] = {
	{.name = "mac", .type = J_STR, .offset = offsetof(struct raw, mac)},
	{.name = "promisc",
	 .type = J_BOOL,
	 .offset = offsetof(struct raw, promisc),
	 .has = offsetof(struct raw, has_promisc)},
	{.name = "mtu", .type = J_INT, .offset = offsetof(struct raw, mtu), .max = INT32_MAX},
	{.name = "allmulti",
	 .type = J_BOOL,
	 .offset = offsetof(struct raw, allmulti),
	 .has = offsetof(struct raw, has_allmulti)},
	{.name = "txQLen",
	 .type = J_INT,
	 .offset = offsetof(struct raw, txqlen),
	 .has = offsetof(struct raw, has_txqlen),
	 .max = INT32_MAX},
	{0},
};
static const struct json_table table = {fields, JSON_GO, sizeof(struct raw)};

void tuning_backup_print(const struct tuning_attrs *a, struct buf *b)
{
	char mac[MAC_TEXT_MAX];
	struct json_out o;

	jo_init(&o, b, 1);
	jo_obj(&o);
	if (a->mac.len)
		jo_kstr(&o, "mac", mac_str(&a->mac, mac));
	if (a->has_promisc)
		jo_kbool(&o, "promisc", a->promisc);
	if (a->mtu)
		jo_kint(&o, "mtu", a->mtu);
	if (a->has_allmulti)
		jo_kbool(&o, "allmulti", a->allmulti);
	if (a->has_txqlen)
		jo_kint(&o, "txQLen", a->txqlen);
	jo_end_obj(&o);
}

int tuning_backup_parse(struct span text, struct tuning_attrs *ret, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	struct tuning_attrs a = {0};
	struct raw raw = {0};
	int r = json_parse(&d, text, BACKUP_MAX, e);

	if (r >= 0)
		r = json_read(d, json_root(d), &table, &raw, "backup", e);
	if (r >= 0 && raw.mac && *raw.mac)
		r = mac_parse(span_of(raw.mac), &a.mac) < 0
			    ? err_set(e, -EINVAL, "backup.mac is '%s', wants a MAC address",
				      raw.mac)
			    : 0;
	if (r < 0)
		return -EINVAL;
	a.mtu = (uint32_t)raw.mtu;
	a.has_promisc = raw.has_promisc;
	a.promisc = raw.promisc;
	a.has_allmulti = raw.has_allmulti;
	a.allmulti = raw.allmulti;
	a.has_txqlen = raw.has_txqlen;
	a.txqlen = (uint32_t)raw.txqlen;
	*ret = a;
	return 0;
}

char *tuning_backup_path(const struct meta_call *m, const char *dir)
{
	return xasprintf("%s/%s_%s.json", dir, m->call->container_id, m->ifname);
}

int tuning_backup_load(const struct root *root, const char *path, struct tuning_attrs *ret,
		       struct err *e)
{
	auto_buf struct buf text;
	int r;

	buf_init(&text, BACKUP_MAX);
	r = file_read(root, path, BACKUP_MAX, &text, e);
	if (r < 0)
		return r;
	r = tuning_backup_parse(buf_span(&text), ret, e);
	return r < 0 ? err_wrap(e, r, "read '%s'", path) : 0;
}

static int make_dir(const struct root *root, const char *path, struct err *e)
{
	auto_free char *dir = xstrdup(path);

	*strrchr(dir, '/') = '\0';
	return dir_make(root, *dir ? dir : "/", BACKUP_DIR_MODE, e);
}

int tuning_backup_save(const struct root *root, const char *path, const struct tuning_attrs *a,
		       struct err *e)
{
	auto_buf struct buf text;
	int r = make_dir(root, path, e);

	buf_init(&text, BACKUP_MAX);
	tuning_backup_print(a, &text);
	if (r >= 0)
		r = file_replace(root, path, buf_span(&text), BACKUP_MODE, e);
	if (r >= 0)
		return 0;
	err_default_kind(e, ERR_IO);
	return err_wrap(e, r, "keep what the interface was before (conf.dataDir)");
}
