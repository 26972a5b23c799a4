/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/definition.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/paths.h"
#include "spec/annotations.h"

enum { CONFIG_MAX = 1 << 20, PLACE_BYTES = 256, SHOWN = 100 };

#define REMEDY                                                                                     \
	"only a definition of a trusted namespace may have it (annotation " ANNOTATION_TRUSTED     \
	"=true on the Namespace)"

bool definition_trusted(const char *ns, const char *annotation, const char *own_ns)
{
	if (annotation)
		return strcmp(annotation, "true") == 0;
	/* own_ns is "default" if no setting names unirail's namespace. Without the annotation
	 * "default" is not trusted. */
	if (!own_ns || !*own_ns || strcmp(own_ns, "default") == 0)
		own_ns = "kube-system";
	return strcmp(ns, "kube-system") == 0 || strcmp(ns, own_ns) == 0;
}

/* --- plugins --- */

static bool is_one_of(const char *const *list, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i], word) == 0)
			return true;
	return false;
}

static bool has_prefix(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool is_nodes(const char *type)
{
	return has_prefix(type, "multus") || has_prefix(type, "unirail") ||
	       strcmp(type, "ifacer") == 0;
}

/* `types` lists known plugins that are not IPAM plugins, in addition to those of is_nodes(). */
bool definition_is_interface_plugin(const char *type)
{
	static const char *const types[] = {
		"macvlan",	"ipvlan",   "vlan",	"host-device", "sriov",	      "ib-sriov",
		"ib-sriov-cni", "ipoib",    "loopback", "sbr",	       "coordinator", "rdma",
		"tuning",	"bridge",   "ptp",	"dummy",       "tap",	      "bandwidth",
		"vrf",		"firewall", "portmap",	"flannel",
	};

	return is_nodes(type) || is_one_of(types, ARRAY_LEN(types), type);
}

/* --- keys that name resources of the node --- */

static const struct host_key {
	const char *key;
	bool is_log;
	const char *defaults[2]; /* allowed values: the defaults of the plugin */
} host_keys[] = {
	/* multus, unirail-cni */
	{"binDir", false, {0}},
	{"cniDir", false, {0}},
	{"multusCniDir", false, {0}},
	{"confDir", false, {0}},
	{"cniConfigDir", false, {0}},
	{"chrootDir", false, {0}},
	{"socketDir", false, {0}},
	{"daemonSocketDir", false, {0}},
	{"kubeconfig", false, {0}},
	{"readinessindicatorfile", false, {0}},
	{"multusConfigFile", false, {0}},
	{"clusterNetwork", false, {0}},
	/* every plugin with state on disk */
	{"dataDir", false, {PATH_HOST_LOCAL, PATH_TUNING}},
	{"state_dir", false, {0}},
	/* spiderpool */
	{"server_state_dir", false, {0}},
	{"pool_dir", false, {0}},
	{"hostlocal_dir", false, {0}},
	{"node_name", false, {0}},
	{"ipam_unix_socket_path", false, {PATH_AGENT_SOCKET, "/run/spidernet/spiderpool.sock"}},
	/* whereabouts, ovs, host-local, dhcp, flannel */
	{"configuration_path", false, {PATH_WHEREABOUTS, NULL}},
	{"resolvConf", false, {"/etc/resolv.conf", NULL}},
	{"daemonSocketPath", false, {0}},
	{"socket_file", false, {0}},
	{"server_socket", false, {0}},
	{"subnetFile", false, {0}},
	/* key of the device-info specification: a path that the plugin writes */
	{"CNIDeviceInfoFile", false, {0}},
	{"logFile", true, {0}},
	{"log_file", true, {0}},
	{"log_file_path", true, {0}},
	{"logging_file", true, {0}},
};

static const struct host_key *host_key(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(host_keys); i++)
		if (strcasecmp(host_keys[i].key, key) == 0)
			return &host_keys[i];
	return NULL;
}

static bool is_default(const struct host_key *k, const struct json *v)
{
	const char *text = json_string(v);

	if (json_kind(v) == JSON_NULL || (text && !*text))
		return true;
	for (size_t i = 0; text && i < ARRAY_LEN(k->defaults) && k->defaults[i]; i++)
		if (strcmp(k->defaults[i], text) == 0)
			return true;
	return false;
}

/* --- checking a configuration recursively --- */

enum mode { IS_PLUGIN, IS_IPAM, IS_OTHER };

struct walk {
	const struct definition_rules *rules;
	char place[PLACE_BYTES]; /* "plugins[0].ipam" */
	struct err *e;
};

static size_t enter(struct walk *w, const char *key)
{
	size_t n = strlen(w->place);

	snprintf(w->place + n, sizeof(w->place) - n, "%s%.60s", n ? "." : "", key);
	return n;
}

static size_t enter_at(struct walk *w, size_t i)
{
	size_t n = strlen(w->place);

	snprintf(w->place + n, sizeof(w->place) - n, "[%zu]", i);
	return n;
}

static void leave(struct walk *w, size_t n)
{
	w->place[n] = '\0';
}

#define REFUSE(w, ...) err_kind((w)->e, ERR_CONF, -EPERM, __VA_ARGS__)

static bool name_ok(const char *s)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.-";

	return strspn(s, letters) == strlen(s) && !strchr("_.-", *s);
}

static int check_installed(const struct walk *w, const char *type)
{
	int r;

	if (!w->rules->installed)
		return 0;
	r = w->rules->installed(w->rules->arg, type, w->e);
	return r < 0 ? err_wrap(w->e, r, "%s is '%.*s'", w->place, SHOWN, type) : 0;
}

/* Checks the type of a plugin. outer: type of the enclosing plugin; NULL: none. */
static int check_type(const struct walk *w, const char *type, const char *outer, enum mode mode)
{
	if (!*type)
		return 0; /* not reported, because the parser reports a missing type */
	if (mode != IS_OTHER && !name_ok(type))
		return REFUSE(w,
			      "%s is '%.*s', expected a plugin's name: letters, digits, '_', '.', "
			      "'-', the first a letter or digit",
			      w->place, SHOWN, type);
	if (is_nodes(type))
		return REFUSE(w, "%s is '%.*s', which acts on the node itself: " REMEDY, w->place,
			      SHOWN, type);
	if (mode == IS_IPAM && definition_is_interface_plugin(type))
		return REFUSE(w,
			      "%s is '%.*s', which is not an IPAM plugin, expected one such as "
			      "'spiderpool'",
			      w->place, SHOWN, type);
	if (mode != IS_OTHER && outer && strcmp(outer, type) == 0)
		return REFUSE(
			w,
			"%s is '%.*s', the type of the calling plugin: a plugin must not call "
			"itself",
			w->place, SHOWN, type);
	return mode == IS_OTHER ? 0 : check_installed(w, type);
}

static int check_text(const struct walk *w, const char *text)
{
	if (*text != '/' && !has_prefix(text, "unix:") && !has_prefix(text, "file:"))
		return 0;
	return REFUSE(w, "%s is '%.*s', a path of the node: " REMEDY, w->place, SHOWN, text);
}

static bool is_ascii(const char *key)
{
	for (; *key; key++)
		if ((unsigned char)*key >= 0x80)
			return false;
	return true;
}

static int check_value(struct walk *w, const struct json *v, const char *outer, enum mode mode);

static int check_host_key(const struct walk *w, const struct host_key *k, const struct json *v)
{
	if (is_default(k, v) || (k->is_log && w->rules->logs_pass))
		return 0;
	return REFUSE(w, "%s is given, which names %s of the node: " REMEDY, w->place,
		      k->is_log ? "a file" : "a resource");
}

static enum mode mode_of(const char *key)
{
	static const char *const plugins[] = {"plugins", "delegates", "delegate"};

	for (size_t i = 0; i < ARRAY_LEN(plugins); i++)
		if (strcasecmp(key, plugins[i]) == 0)
			return IS_PLUGIN;
	return strcasecmp(key, "ipam") == 0 ? IS_IPAM : IS_OTHER;
}

static int check_member(struct walk *w, const char *key, const struct json *v, const char *outer,
			const char *type, enum mode mode)
{
	const struct host_key *k = host_key(key);

	if (!is_ascii(key))
		return REFUSE(w, "%s is not a key of a plugin: expected ASCII", w->place);
	if (strcasecmp(key, "type") == 0 && json_string(v)) {
		int r = check_type(w, json_string(v), outer, mode);

		return r < 0 || mode != IS_OTHER ? r : check_text(w, json_string(v));
	}
	if (k)
		return check_host_key(w, k, v);
	if (strcasecmp(key, "kernelpath") == 0 && json_string(v))
		return 0;
	return check_value(w, v, type, mode_of(key));
}

static int check_object(struct walk *w, const struct json *v, const char *outer, enum mode mode)
{
	const char *type = json_string(json_get_go(v, "type")), *key;
	struct json_walk list = json_walk_start(v);
	const struct json *member;
	int r = 0;

	if (mode != IS_PLUGIN || !type)
		type = outer;
	while (r >= 0 && (member = json_walk_next(&list, &key))) {
		size_t n = enter(w, key);

		r = check_member(w, key, member, outer, type, mode);
		leave(w, n);
	}
	return r;
}

static int check_array(struct walk *w, const struct json *v, const char *outer, enum mode mode)
{
	struct json_walk list = json_walk_start(v);
	const struct json *item;
	int r = 0;

	for (size_t i = 0; r >= 0 && (item = json_walk_next(&list, NULL)); i++) {
		size_t n = enter_at(w, i);

		r = check_value(w, item, outer, mode);
		leave(w, n);
	}
	return r;
}

static int check_value(struct walk *w, const struct json *v, const char *outer, enum mode mode)
{
	switch (json_kind(v)) {
	case JSON_STRING: return check_text(w, json_string(v));
	case JSON_ARRAY: return check_array(w, v, outer, mode);
	case JSON_OBJECT: return check_object(w, v, outer, mode);
	default: return 0;
	}
}

int definition_check(const struct json *config, const struct definition_rules *r, struct err *e)
{
	struct walk w = {.rules = r, .e = e};

	return check_value(&w, config, NULL, IS_PLUGIN);
}

/* --- log files --- */

static bool is_log(const char *key)
{
	const struct host_key *k = host_key(key);

	return k && k->is_log;
}

/* Writes v without the names of log files; returns the number of omitted members. */
static size_t put_without_logs(const struct json *v, struct json_out *o)
{
	struct json_walk w = json_walk_start(v);
	bool is_array = json_kind(v) == JSON_ARRAY;
	const struct json *member;
	const char *key;
	size_t n = 0;

	if (!is_array && json_kind(v) != JSON_OBJECT) {
		jo_val(o, v, false);
		return 0;
	}
	is_array ? jo_arr(o) : jo_obj(o);
	while ((member = json_walk_next(&w, &key))) {
		if (!is_array && is_log(key)) {
			n++;
			continue;
		}
		if (!is_array)
			jo_key(o, key);
		n += put_without_logs(member, o);
	}
	is_array ? jo_end_arr(o) : jo_end_obj(o);
	return n;
}

int definition_drop_logs(const struct json *config, struct json_doc **ret, struct err *e)
{
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, 2 * CONFIG_MAX);
	jo_init(&o, &b, 0);
	if (put_without_logs(config, &o) == 0) {
		*ret = NULL;
		return 0;
	}
	if (b.over)
		return err_kind(e, ERR_CONF, -EFBIG, "the configuration is longer than 2 MiB");
	return json_parse(ret, buf_span(&b), 2 * CONFIG_MAX, e);
}
