/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <regex.h>
#include <search.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/paths.h"
#include "cni/plugins/tuning/tuning.h"
#include "cni/protocol/quote.h"
#include "kern/sys/sysctl.h"

/* Reads the configuration of tuning: the netconf, args.cni, runtimeConfig.mac and MAC of
 * CNI_ARGS. */

/* Keys of the netconf and of args.cni, which takes precedence. */
struct raw {
	const char *mac;
	const struct json *sysctl, *args;
	const char *data_dir;
	int64_t mtu, txqlen;
	bool promisc, allmulti;
	bool has_mac, has_mtu, has_promisc, has_allmulti, has_txqlen;
};

static const struct json_field fields[] = {
	JSON_FIELD(
		"mac", J_STR, struct raw, mac, .has = offsetof(struct raw, has_mac),
		JSON_DOC(
			NULL,
			"MAC; the first given of args.cni.mac, runtimeConfig.mac, CNI_ARGS MAC and mac is used")),
	JSON_FIELD("sysctl", J_VAL, struct raw, sysctl,
		   JSON_DOC(NULL,
			    "object of sysctls below net, by name; IFNAME stands for the "
			    "interface; if /etc/cni/tuning/allowlist.conf exists, each sysctl "
			    "must match a line of that file")),
	JSON_FIELD("promisc", J_BOOL, struct raw, promisc, .has = offsetof(struct raw, has_promisc),
		   JSON_DOC(NULL, "promiscuous mode")),
	JSON_FIELD("mtu", J_INT, struct raw, mtu, .has = offsetof(struct raw, has_mtu), .min = 0,
		   .max = INT32_MAX, JSON_DOC(NULL, "MTU; 0: unchanged")),
	JSON_FIELD("allmulti", J_BOOL, struct raw, allmulti,
		   .has = offsetof(struct raw, has_allmulti), JSON_DOC(NULL, "all-multicast mode")),
	JSON_FIELD("txQLen", J_INT, struct raw, txqlen, .has = offsetof(struct raw, has_txqlen),
		   .min = 0, .max = INT32_MAX, JSON_DOC(NULL, "length of the transmit queue")),
	{0},
};
const struct json_table tuning_table = {fields, JSON_GO, sizeof(struct raw)};

static const struct json_field top_fields[] = {
	JSON_FIELD("dataDir", J_STR, struct raw, data_dir,
		   JSON_DOC(PATH_TUNING,
			    "directory of the records from which DEL restores the interface")),
	JSON_FIELD("args", J_VAL, struct raw, args,
		   JSON_DOC(NULL, "cni: an object with mac, sysctl, promisc, mtu, allmulti and "
				  "txQLen, which take precedence")),
	{0},
};
const struct json_table tuning_top_table = {top_fields, JSON_GO, sizeof(struct raw)};

const char *tuning_data_dir(const struct chained_call *m)
{
	struct err reason = ERR_INIT;
	struct raw raw = {0};

	if (json_read(m->doc, m->conf, &tuning_top_table, &raw, "conf", &reason) < 0)
		log_warn("conf.dataDir is invalid, using the default", LOG_S("error", reason.text));
	return str_if_set(raw.data_dir) ? raw.data_dir : PATH_TUNING;
}

/* --- sysctls --- */

char *tuning_sysctl_path(const char *key, const char *ifname, struct err *e)
{
	const char *at = *ifname ? strstr(key, "IFNAME") : NULL;
	struct span rest, part;
	auto_buf struct buf b, text;

	buf_init(&b, strlen(key) + strlen(ifname) + 1);
	/* Dots of the key become slashes, but not the dots of an interface's name, which replaces
	 * IFNAME. */
	for (const char *p = key; *p; p++) {
		if (p == at) {
			buf_str(&b, ifname);
			p += strlen("IFNAME") - 1;
		} else {
			buf_char(&b, *p == '.' ? '/' : *p);
		}
	}
	rest = buf_span(&b);
	buf_init(&text, b.len + 2);
	while (span_cut(&rest, '/', &part)) {
		if (part.n && text.len)
			buf_char(&text, '/');
		buf_add(&text, part.p, part.n);
	}
	if (span_has_prefix(buf_span(&text), "net/"))
		return buf_take(&text);
	buf_reset(&text);
	text.max = ERR_TEXT_MAX / 2;
	cni_quote(&text, b.p);
	err_kind(e, ERR_CONF, -EINVAL, "invalid net sysctl key: %s (expected one below net)",
		 text.p);
	return NULL;
}

struct place_of_path {
	const char *path; /* the same as sysctls[at].path */
	size_t at;
};

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct place_of_path *)a)->path,
		      ((const struct place_of_path *)b)->path);
}

static struct tuning_sysctl *find_path(struct tuning_conf *c, const char *path)
{
	const struct place_of_path want = {.path = path};
	struct place_of_path *const *found = tfind(&want, &c->paths, by_path);

	return found ? &c->sysctls[(*found)->at] : NULL;
}

static void put_sysctl(struct tuning_conf *c, const char *key, const char *value, char *path,
		       const char *object)
{
	struct place_of_path *p = xcalloc(1, sizeof(*p));

	*p = (struct place_of_path){path, c->n_sysctls};
	VEC_PUSH(c->sysctls, c->n_sysctls) = (struct tuning_sysctl){key, value, path, object};
	xtsearch(p, &c->paths, by_path);
}

static int two_values(const char *place, const char *a, const char *b, struct err *e)
{
	if (strcmp(a, b) == 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"duplicated sysctl keys are not allowed: %s has '%s' twice", place,
				a);
	return err_kind(
		e, ERR_CONF, -EINVAL,
		"duplicated sysctl keys are not allowed: %s has '%s' and '%s', which are one "
		"sysctl, with different values",
		place, a, b);
}

/* Adds a sysctl of the object `place`. If an object that was read earlier has the same sysctl,
 * the new value replaces the earlier one. Within one object, it is an error to repeat a key, or
 * to give one sysctl two different values under two keys. */
static int add_sysctl(const struct chained_call *m, struct tuning_conf *c, const char *place,
		      const char *key, const char *value, struct err *e)
{
	auto_free char *path = tuning_sysctl_path(key, m->ifname, e);
	struct tuning_sysctl *same;

	if (!path)
		return -EINVAL;
	same = find_path(c, path);
	if (!same) {
		put_sysctl(c, key, value, take(path), place);
		return 0;
	}
	if (strcmp(same->object, place) == 0) {
		if (strcmp(same->key, key) == 0 || !sysctl_same_value(same->value, value))
			return two_values(place, same->key, key, e);
		return 0;
	}
	same->key = key;
	same->value = value;
	same->object = place;
	return 0;
}

static int add_sysctls(const struct chained_call *m, struct tuning_conf *c, const struct json *v,
		       const char *place, struct err *e)
{
	struct json_walk w = json_walk_start(v);
	const struct json *value;
	const char *key;
	int r = 0;

	if (json_kind(v) == JSON_NULL)
		return 0;
	if (json_kind(v) != JSON_OBJECT)
		return err_kind(e, ERR_CONF, -EINVAL, "%s is %s, expected an object", place,
				json_kind_name(v));
	while (r >= 0 && (value = json_walk_next(&w, &key))) {
		if (!json_string(value))
			return err_kind(e, ERR_CONF, -EINVAL,
					"%s.%s is %s, expected a string such as \"1\"", place, key,
					json_kind_name(value));
		r = add_sysctl(m, c, place, key, json_string(value), e);
	}
	return r;
}

/* --- attributes of the link --- */

static void take_attrs(const struct raw *raw, struct tuning_attrs *want)
{
	if (raw->has_mtu)
		want->mtu = (uint32_t)raw->mtu;
	/* A new interface is not promiscuous, so only true is a request. */
	if (raw->has_promisc)
		want->promisc = want->has_promisc = raw->promisc;
	if (raw->has_allmulti) {
		want->has_allmulti = true;
		want->allmulti = raw->allmulti;
	}
	if (raw->has_txqlen) {
		want->has_txqlen = true;
		want->txqlen = (uint32_t)raw->txqlen;
	}
}

static int read_mac(struct tuning_conf *c, struct err *e)
{
	if (!str_if_set(c->mac_text)) {
		c->mac_text = NULL;
		return 0;
	}
	if (mac_parse(span_of(c->mac_text), &c->want.mac) == 0)
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL,
			"invalid args %s for MAC addr: address %s: invalid MAC address",
			c->mac_text, c->mac_text);
}

/* runtimeConfig.mac overrides MAC of CNI_ARGS, and that overrides the netconf's mac. */
static int take_mac(const struct chained_call *m, struct tuning_conf *c, struct err *e)
{
	const struct json *runtime = chained_runtime(m, "mac");
	struct cni_args args = {0};
	int r = cni_args_parse(m->call->args_text, &args, &c->keep, e);

	if (r < 0)
		return r;
	if (str_if_set(args.mac))
		c->mac_text = args.mac;
	if (json_kind(runtime) == JSON_NULL)
		return 0;
	if (!json_string(runtime))
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.runtimeConfig.mac is %s, expected a string",
				json_kind_name(runtime));
	if (*json_string(runtime))
		c->mac_text = json_string(runtime);
	return 0;
}

static int read_args(const struct chained_call *m, const struct json *v, struct tuning_conf *c,
		     struct err *e)
{
	struct raw raw = {0};
	int r;

	if (json_kind(v) == JSON_NULL)
		return 0;
	if (json_kind(v) != JSON_OBJECT)
		return err_kind(e, ERR_CONF, -EINVAL, "conf.args.cni is %s, expected an object",
				json_kind_name(v));
	r = json_read(m->doc, v, &tuning_table, &raw, "conf.args.cni", e);
	if (r < 0)
		return r;
	if (raw.has_mac)
		c->mac_text = raw.mac;
	take_attrs(&raw, &c->want);
	return add_sysctls(m, c, raw.sysctl, "conf.args.cni.sysctl", e);
}

static int read_all(const struct chained_call *m, struct tuning_conf *c, struct err *e)
{
	struct raw raw = {0};
	int r = json_read(m->doc, m->conf, &tuning_top_table, &raw, "conf", e);

	if (r >= 0)
		r = json_read(m->doc, m->conf, &tuning_table, &raw, "conf", e);
	if (r < 0)
		return r;
	c->data_dir = str_if_set(raw.data_dir) ? raw.data_dir : PATH_TUNING;
	if (*c->data_dir != '/')
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.dataDir is '%s', expected an absolute path", c->data_dir);
	c->mac_text = raw.mac;
	take_attrs(&raw, &c->want);
	r = add_sysctls(m, c, raw.sysctl, "conf.sysctl", e);
	if (r >= 0)
		r = take_mac(m, c, e);
	if (r >= 0)
		r = read_args(m, json_get_go(raw.args, "cni"), c, e);
	return r < 0 ? r : read_mac(c, e);
}

int tuning_conf_read(const struct chained_call *m, struct tuning_conf *ret, struct err *e)
{
	int r;

	*ret = (struct tuning_conf){0};
	buf_init(&ret->keep, 1 << 16);
	r = read_all(m, ret, e);
	if (r < 0)
		tuning_conf_done(ret);
	return r < 0 ? r : 0;
}

void tuning_conf_done(struct tuning_conf *c)
{
	for (size_t i = 0; i < c->n_sysctls; i++)
		free(c->sysctls[i].path);
	free(c->sysctls);
	tdestroy(c->paths, free);
	buf_done(&c->keep);
	*c = (struct tuning_conf){0};
}

/* --- the host's allowlist of sysctls --- */

enum { ALLOWLIST_MAX = 1 << 20, PATTERN_MAX = 64 << 10 };

static int compile(const char *line, regex_t *ret, struct err *e)
{
	auto_buf struct buf posix;
	char reason[128];
	int r;

	buf_init(&posix, PATTERN_MAX);
	r = tuning_pattern(line, &posix, e);
	if (r < 0)
		return r;
	if (posix.over)
		return err_kind(e, ERR_CONF, -E2BIG, "the pattern is too long");
	r = regcomp(ret, posix.p, REG_EXTENDED | REG_NOSUB);
	if (r == 0)
		return 0;
	regerror(r, ret, reason, sizeof(reason));
	return err_kind(e, ERR_CONF, -EINVAL, "%s", reason);
}

static int mark_line(const struct tuning_conf *c, const char *line, bool *allowed, struct err *e)
{
	regex_t re;
	int r = compile(line, &re, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < c->n_sysctls; i++)
		if (regexec(&re, c->sysctls[i].key, 0, NULL, 0) == 0)
			allowed[i] = true;
	regfree(&re);
	return 0;
}

int tuning_allow(const struct tuning_conf *c, const char *name, struct span text, struct err *e)
{
	auto_free bool *allowed = xcalloc(c->n_sysctls, sizeof(*allowed));
	auto_buf struct buf list;
	struct span line;
	int at = 0;

	buf_init(&list, ERR_TEXT_MAX / 2);
	while (span_cut(&text, '\n', &line)) {
		auto_free char *pattern = span_dup(span_trim(line));
		int r;

		at++;
		if (!*pattern)
			continue;
		r = mark_line(c, pattern, allowed, e);
		if (r < 0)
			return err_wrap(e, r, "%s:%d: '%s'", name, at, pattern);
		buf_printf(&list, "%s%s", list.len ? " " : "", pattern);
	}
	for (size_t i = 0; i < c->n_sysctls; i++)
		if (!allowed[i])
			return err_kind(e, ERR_CONF, -EPERM,
					"Sysctl %s is not allowed. Only the following sysctls are "
					"allowed: [%s] (%s)",
					c->sysctls[i].key, list.p, name);
	return 0;
}

int tuning_allowed(const struct root *root, const struct tuning_conf *c, struct err *e)
{
	auto_buf struct buf text;
	int r;

	buf_init(&text, ALLOWLIST_MAX);
	r = file_read(root, TUNING_ALLOWLIST, ALLOWLIST_MAX, &text, e);
	if (r == -ENOENT) {
		err_clear(e);
		return 0;
	}
	if (r < 0) {
		err_default_kind(e, ERR_UNAVAILABLE);
		return err_wrap(e, r, "read the allowlist of sysctls");
	}
	return tuning_allow(c, TUNING_ALLOWLIST, buf_span(&text), e);
}
