/* SPDX-License-Identifier: Apache-2.0 */
#include "device/resource/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "device/plugin/plugin.h"
#include "device/resource/selector.h"
#include "wire/json/suggest.h"

enum { MESSAGES_MAX = 256, MESSAGE_TEXT_MAX = 2048, PLACE_MAX = 96 };

/* --- messages --- */

static bool is_reported(const struct resource_messages *l, const char *text)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].text, text) == 0)
			return true;
	return false;
}

void resource_report(struct resource_messages *l, enum resource_level level, const char *resource,
		     const char *fmt, ...)
{
	auto_buf struct buf b;
	va_list ap;

	buf_init(&b, MESSAGE_TEXT_MAX);
	if (!l || l->n > MESSAGES_MAX)
		return;
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	if (l->n == MESSAGES_MAX) {
		buf_reset(&b);
		buf_printf(&b, "more than %d messages about the resources, the others are left out",
			   MESSAGES_MAX);
		level = MESSAGE_WARNING;
		resource = NULL;
	}
	if (is_reported(l, b.p ? b.p : ""))
		return;
	VEC_PUSH(l->v, l->n) =
		(struct resource_message){level, resource ? xstrdup(resource) : NULL, buf_take(&b)};
}

void resource_messages_done(struct resource_messages *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].resource);
		free(l->v[i].text);
	}
	free(l->v);
	*l = (struct resource_messages){0};
}

/* --- selectors --- */

#define LIST(label, key)                                                                           \
	{                                                                                          \
		.name = (label), .type = J_STRS,                                                   \
		.offset = offsetof(struct selector, lists) + (key) * sizeof(struct json_strs)      \
	}
#define FLAG(key, field) JSON_FIELD(key, J_BOOL, struct selector, field)
#define COMMON		 LIST("vendors", SELECT_VENDORS), LIST("drivers", SELECT_DRIVERS)

static const struct json_field shared_fields[] = {
	COMMON,
	LIST("deviceIDs", SELECT_DEVICES),
	LIST("ifNames", SELECT_IF_NAMES),
	LIST("linkTypes", SELECT_LINK_TYPES),
	{0},
};

static const struct json_field net_fields[] = {
	COMMON,
	LIST("devices", SELECT_DEVICES),
	LIST("pciAddresses", SELECT_PCI_ADDRESSES),
	LIST("acpiIndexes", SELECT_ACPI_INDEXES),
	LIST("pfNames", SELECT_PF_NAMES),
	LIST("rootDevices", SELECT_ROOT_DEVICES),
	LIST("linkTypes", SELECT_LINK_TYPES),
	LIST("ddpProfiles", SELECT_DDP_PROFILES),
	LIST("pKeys", SELECT_PKEYS),
	FLAG("isRdma", is_rdma),
	FLAG("needVhostNet", need_vhost_net),
	JSON_FIELD("vdpaType", J_STR, struct selector, vdpa_type),
	{0},
};

static const struct json_field accelerator_fields[] = {
	COMMON,
	LIST("devices", SELECT_DEVICES),
	LIST("pciAddresses", SELECT_PCI_ADDRESSES),
	{0},
};

static const struct json_field aux_fields[] = {
	COMMON,
	LIST("devices", SELECT_DEVICES),
	LIST("auxTypes", SELECT_AUX_TYPES),
	LIST("pfNames", SELECT_PF_NAMES),
	LIST("rootDevices", SELECT_ROOT_DEVICES),
	LIST("linkTypes", SELECT_LINK_TYPES),
	FLAG("isRdma", is_rdma),
	FLAG("needVhostNet", need_vhost_net),
	{0},
};

static const struct json_table shared_selector = {.fields = shared_fields, .flags = JSON_GO};
static const struct json_table sriov_selectors[] = {
	[NODE_NET] = {.fields = net_fields, .flags = JSON_GO},
	[NODE_ACCELERATOR] = {.fields = accelerator_fields, .flags = JSON_GO},
	[NODE_AUX] = {.fields = aux_fields, .flags = JSON_GO},
};

const char *select_key_name(enum select_key key, enum resource_form form)
{
	static const char *const names[] = {
		[SELECT_VENDORS] = "vendors",
		[SELECT_DEVICES] = "devices",
		[SELECT_DRIVERS] = "drivers",
		[SELECT_PCI_ADDRESSES] = "pciAddresses",
		[SELECT_ACPI_INDEXES] = "acpiIndexes",
		[SELECT_IF_NAMES] = "ifNames",
		[SELECT_PF_NAMES] = "pfNames",
		[SELECT_ROOT_DEVICES] = "rootDevices",
		[SELECT_LINK_TYPES] = "linkTypes",
		[SELECT_DDP_PROFILES] = "ddpProfiles",
		[SELECT_PKEYS] = "pKeys",
		[SELECT_AUX_TYPES] = "auxTypes",
	};

	return form == RESOURCE_SHARED && key == SELECT_DEVICES ? "deviceIDs" : names[key];
}

/* --- entries --- */

/* An entry as written in the document; defaults and conditions are applied later. */
struct entry {
	const char *name, *prefix, *device_type;
	const struct json *selectors, *additional;
	struct json_strs devices, nodes;
	int64_t hca_max;
	bool exclude_topology, spread, per_device, has_nodes;
};

#define MEMBER(key, kind, field) JSON_FIELD(key, kind, struct entry, field)

static const struct json_field shared_entry_fields[] = {
	MEMBER("resourceName", J_STR, name),
	MEMBER("resourcePrefix", J_STR, prefix),
	MEMBER("rdmaHcaMax", J_INT, hca_max),
	MEMBER("selectors", J_VAL, selectors),
	MEMBER("devices", J_STRS, devices),
	MEMBER("spread", J_BOOL, spread),
	MEMBER("perDevice", J_BOOL, per_device),
	JSON_FIELD("deviceNodes", J_STRS, struct entry, nodes,
		   .has = offsetof(struct entry, has_nodes)),
	{0},
};

static const struct json_field sriov_entry_fields[] = {
	MEMBER("resourceName", J_STR, name),
	MEMBER("resourcePrefix", J_STR, prefix),
	MEMBER("deviceType", J_STR, device_type),
	MEMBER("excludeTopology", J_BOOL, exclude_topology),
	MEMBER("selectors", J_VAL, selectors),
	MEMBER("additionalInfo", J_VAL, additional),
	{0},
};

static const struct json_table entries[] = {
	[RESOURCE_SHARED] = {.fields = shared_entry_fields, .flags = JSON_GO},
	[RESOURCE_SRIOV] = {.fields = sriov_entry_fields, .flags = JSON_GO},
};

static const char *const list_keys[] = {"configList", "resourceList"};

/* The state of reading one entry. */
struct reading {
	struct json_doc *doc;
	const char *file;
	char place[PLACE_MAX]; /* "configList[2]" */
	enum resource_form form;
	const struct resource_defaults *defaults;
	struct resource_config *config;
	struct resource_messages *messages;
};

/*
 * The originals ignore unknown keys, so a mistyped selector selects everything. unirail ignores
 * them with a warning.
 */
static void report_unknown(const struct reading *x, const struct json *object,
			   const struct json_table *t, const char *place)
{
	struct json_walk w = json_walk_start(object);
	const struct json *v;
	const char *key, *near;

	if (json_kind(object) != JSON_OBJECT)
		return;
	while ((v = json_walk_next(&w, &key))) {
		const struct json_field *f = t->fields;

		while (f->name && strcasecmp(f->name, key) != 0)
			f++;
		/* The SR-IOV operator writes "SelectorObj": null. */
		if (f->name || json_kind(v) == JSON_NULL)
			continue;
		near = json_suggest(t, key);
		resource_report(x->messages, MESSAGE_WARNING, NULL,
				"%s: %s%s%.64s: unknown key, ignored%s%s%s", x->file, place,
				*place ? "." : "", key, near ? "; did you mean '" : "",
				near ? near : "", near ? "'?" : "");
	}
}

/* Reports the error in `e` as a message; the caller omits the resource. */
static int refuse(const struct reading *x, const struct resource_conf *c, const struct err *e)
{
	resource_report(x->messages, MESSAGE_ERROR, *c->full ? c->full : NULL, "%s: %s", x->file,
			e->text);
	return -EINVAL;
}

static int fail(struct err *e, const struct reading *x, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int fail(struct err *e, const struct reading *x, const char *fmt, ...)
{
	auto_buf struct buf b;
	va_list ap;

	buf_init(&b, ERR_TEXT_MAX);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	return err_kind(e, ERR_CONF, -EINVAL, "%s: %s", x->place, b.p);
}

static bool has_conditions(const struct selector *s)
{
	for (size_t i = 0; i < SELECT_LISTS; i++)
		if (s->lists[i].n)
			return true;
	return false;
}

static int check_vdpa(const struct reading *x, struct selector *s, struct err *e)
{
	if (s->vdpa_type && !*s->vdpa_type)
		s->vdpa_type = NULL;
	if (!s->vdpa_type)
		return 0;
	if (strcmp(s->vdpa_type, "virtio") != 0 && strcmp(s->vdpa_type, "vhost") != 0)
		return fail(e, x, "selectors.vdpaType is \"%s\", expected virtio or vhost",
			    s->vdpa_type);
	return s->is_rdma ? fail(e, x, "selectors: isRdma and vdpaType exclude each other") : 0;
}

static int check_aux(const struct reading *x, const struct selector *s, struct err *e)
{
	const struct json_strs *l = &s->lists[SELECT_AUX_TYPES];

	if (!l->n)
		return fail(e, x, "selectors.auxTypes: missing or empty, expected [\"sf\"]");
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i], "sf") != 0)
			return fail(e, x, "selectors.auxTypes is \"%s\", expected \"sf\"", l->v[i]);
	return 0;
}

/* Warns about items with an invalid range, which select nothing. The original prints this once for each device. */
static void check_ranges(const struct reading *x, const struct selector *s, enum select_key key,
			 const struct resource_conf *c)
{
	const struct json_strs *l = &s->lists[key];
	bool named, in;

	for (size_t i = 0; i < l->n; i++)
		if (select_range(l->v[i], "", -1, &named, &in) < 0)
			resource_report(x->messages, MESSAGE_WARNING, c->full,
					"%s: %s: Failed to parse %.200s PF %s selector, it selects "
					"nothing: expected NAME, or NAME#N,FROM-TO",
					x->file, x->place, l->v[i],
					key == SELECT_PF_NAMES ? "name" : "address");
}

static int read_selector(struct reading *x, const struct json *v, struct resource_conf *c,
			 struct err *e)
{
	const struct json_table *t = x->form == RESOURCE_SHARED ? &shared_selector
								: &sriov_selectors[c->class];
	struct selector *s = &VEC_PUSH(c->selectors, c->n_selectors);
	char place[PLACE_MAX + 16];
	int r;

	snprintf(place, sizeof(place), "%s.selectors", x->place);
	if (json_kind(v) != JSON_OBJECT)
		return json_wants(v, place, "an object", e);
	report_unknown(x, v, t, place);
	r = json_read(x->doc, v, t, s, place, e);
	if (r == 0)
		r = check_vdpa(x, s, e);
	if (r == 0 && c->class == NODE_AUX)
		r = check_aux(x, s, e);
	if (r == 0) {
		check_ranges(x, s, SELECT_PF_NAMES, c);
		check_ranges(x, s, SELECT_ROOT_DEVICES, c);
	}
	return r;
}

static int read_selectors(struct reading *x, const struct entry *n, struct resource_conf *c,
			  struct err *e)
{
	struct json_walk w;
	const struct json *v;
	int r = 0;

	if (json_kind(n->selectors) != JSON_ARRAY || x->form == RESOURCE_SHARED)
		return read_selector(x, n->selectors, c, e);
	w = json_walk_start(n->selectors);
	while (r == 0 && (v = json_walk_next(&w, NULL)))
		r = read_selector(x, v, c, e);
	return r == 0 && !c->n_selectors
		       ? fail(e, x, "selectors: empty, expected at least one object")
		       : r;
}

/* --- names --- */

static bool is_word(const char *s, const char *also)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
	size_t n = 0;

	while (s[n] && (strchr(letters, s[n]) || strchr(also, s[n])))
		n++;
	return n && !s[n];
}

static bool is_taken(const struct resource_config *c, const char *full)
{
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->v[i].full, full) == 0)
			return true;
	return false;
}

static const char *default_prefix(const struct reading *x)
{
	const struct resource_defaults *d = x->defaults;

	if (x->form == RESOURCE_SHARED)
		return RESOURCE_SHARED_PREFIX;
	return d && d->sriov_prefix ? d->sriov_prefix : RESOURCE_SRIOV_PREFIX;
}

static int read_name(const struct reading *x, const struct entry *n, struct resource_conf *c,
		     struct err *e)
{
	size_t len;

	c->name = n->name ? n->name : "";
	c->prefix = n->prefix && *n->prefix ? n->prefix : default_prefix(x);
	if (!is_word(c->name, x->form == RESOURCE_SRIOV ? "-" : ""))
		return fail(e, x, "error: resource name \"%.200s\" contains invalid characters",
			    c->name);
	len = strlen(c->prefix) + 1 + strlen(c->name);
	if (len < sizeof(c->full))
		snprintf(c->full, sizeof(c->full), "%s/%s", c->prefix, c->name);
	if (len >= sizeof(c->full))
		return fail(e, x,
			    "resourcePrefix and resourceName have %zu bytes, expected at most %d",
			    len, RESOURCE_NAME_MAX - 1);
	if (is_taken(x->config, c->full))
		return fail(e, x, "error: resource name \"%s\" already exists", c->full);
	return plugin_resource_check(c->full, e) < 0 ? err_wrap(e, -EINVAL, "%s", x->place) : 0;
}

/* --- other keys of an entry --- */

static int read_nodes(const struct reading *x, const struct entry *n, struct resource_conf *c,
		      struct err *e)
{
	c->nodes = n->has_nodes ? 0 : RESOURCE_NODES_ALL;
	for (size_t i = 0; i < n->nodes.n; i++) {
		unsigned int bit = strcmp(n->nodes.v[i], "rdma_cm") == 0 ? RESOURCE_NODE_RDMA_CM
									 : 0;

		for (int k = 0; k < NODE_CHAR_KINDS; k++)
			if (strcmp(n->nodes.v[i], node_char_kind_name((enum node_char_kind)k)) == 0)
				bit = 1U << k;
		if (!bit)
			return fail(
				e, x,
				"deviceNodes is \"%.64s\", expected ucm, issm, umad, uverbs or rdma_cm",
				n->nodes.v[i]);
		c->nodes |= bit;
	}
	if (!(c->nodes & 1U << NODE_UVERBS))
		return fail(e, x, "deviceNodes: without uverbs a container has no RDMA");
	return 0;
}

static int read_shared(struct reading *x, const struct entry *n, struct resource_conf *c,
		       struct err *e)
{
	struct selector *s;
	int r;

	c->class = NODE_NET;
	c->hca_max = n->hca_max;
	c->spread = n->spread;
	c->per_device = n->per_device;
	if (c->hca_max < 0)
		return fail(e, x, "error: Invalid value for rdmaHcaMax < 0: %lld",
			    (long long)c->hca_max);
	if (c->hca_max > RESOURCE_HCA_MAX) {
		resource_report(x->messages, MESSAGE_WARNING, c->full,
				"%s: %s.rdmaHcaMax is %lld: at most %d devices are advertised",
				x->file, x->place, (long long)c->hca_max, RESOURCE_HCA_MAX);
		c->hca_max = RESOURCE_HCA_MAX;
	}
	if (c->spread && c->per_device)
		return fail(e, x, "spread and perDevice exclude each other");
	r = read_nodes(x, n, c, e);
	if (r < 0)
		return r;
	if (!n->devices.n) {
		r = n->selectors ? read_selectors(x, n, c, e) : 0;
		if (r < 0 || (c->n_selectors && has_conditions(c->selectors)))
			return r;
		return fail(
			e, x,
			"error: configuration missmatch. neither \"selectors\" nor \"devices\" fields "
			"exits, it is recommended to use the new “selectors” field");
	}
	s = &VEC_PUSH(c->selectors, c->n_selectors);
	if (n->selectors) {
		r = read_selectors(x, n, c, e);
		if (r < 0)
			return r;
		if (has_conditions(&c->selectors[1]))
			return fail(e, x,
				    "configuration mismatch. Cannot specify both \"selectors\" and "
				    "\"devices\" fields");
		c->n_selectors = 1;
		s = c->selectors;
	}
	s->lists[SELECT_IF_NAMES] = n->devices;
	return 0;
}

static int check_additional(const struct reading *x, const struct json *v, struct err *e)
{
	struct json_walk w = json_walk_start(v);
	const struct json *device, *value;

	if (v && json_kind(v) != JSON_OBJECT)
		return fail(e, x, "additionalInfo is %s, expected an object", json_kind_name(v));
	while ((device = json_walk_next(&w, NULL))) {
		struct json_walk k = json_walk_start(device);

		if (json_kind(device) != JSON_OBJECT && json_kind(device) != JSON_NULL)
			return fail(e, x, "additionalInfo holds %s, expected objects of strings",
				    json_kind_name(device));
		while ((value = json_walk_next(&k, NULL)))
			if (json_kind(value) != JSON_STRING && json_kind(value) != JSON_NULL)
				return fail(e, x,
					    "additionalInfo holds %s, expected objects of strings",
					    json_kind_name(value));
	}
	return 0;
}

static int read_sriov(struct reading *x, const struct entry *n, struct resource_conf *c,
		      struct err *e)
{
	static const char *const types[] = {
		[NODE_NET] = "netDevice",
		[NODE_ACCELERATOR] = "accelerator",
		[NODE_AUX] = "auxNetDevice",
	};
	const char *type = n->device_type && *n->device_type ? n->device_type : types[NODE_NET];
	size_t i = 0;
	int r;

	while (i < ARRAY_LEN(types) && strcmp(types[i], type) != 0)
		i++;
	if (i == ARRAY_LEN(types))
		return fail(
			e, x,
			"unsupported deviceType:  \"%.64s\": expected netDevice, accelerator or "
			"auxNetDevice",
			type);
	c->class = (enum node_class)i;
	c->exclude_topology = n->exclude_topology;
	c->additional = n->additional;
	c->nodes = RESOURCE_NODES_ALL;
	if (!n->selectors)
		return fail(e, x, "selectors: missing, expected an object or an array of objects");
	r = check_additional(x, n->additional, e);
	return r < 0 ? r : read_selectors(x, n, c, e);
}

static void conf_done(struct resource_conf *c)
{
	free(c->selectors);
	free(c->origin);
}

static void read_entry(struct reading *x, const struct json *v)
{
	struct resource_conf c = {.form = x->form};
	struct entry n = {0};
	struct err e = ERR_INIT;
	int r;

	if (json_kind(v) != JSON_OBJECT) {
		json_wants(v, x->place, "an object", &e);
		refuse(x, &c, &e);
		return;
	}
	report_unknown(x, v, &entries[x->form], x->place);
	r = json_read(x->doc, v, &entries[x->form], &n, x->place, &e);
	if (r == 0)
		r = read_name(x, &n, &c, &e);
	if (r == 0)
		r = x->form == RESOURCE_SHARED ? read_shared(x, &n, &c, &e)
					       : read_sriov(x, &n, &c, &e);
	if (r < 0) {
		refuse(x, &c, &e);
		conf_done(&c);
		return;
	}
	c.origin = xasprintf("%s: %s", x->file, x->place);
	VEC_PUSH(x->config->v, x->config->n) = c;
}

static void read_list(struct reading *x, const struct json *list)
{
	struct json_walk w = json_walk_start(list);
	const struct json *v;
	struct err e = ERR_INIT;

	if (json_kind(list) != JSON_ARRAY) {
		json_wants(list, list_keys[x->form], "an array", &e);
		resource_report(x->messages, MESSAGE_ERROR, NULL, "%s: %s", x->file, e.text);
		return;
	}
	if (!json_len(list))
		resource_report(x->messages, MESSAGE_ERROR, NULL,
				"%s: %s: no resources configuration found", x->file,
				list_keys[x->form]);
	for (size_t i = 0; (v = json_walk_next(&w, NULL)); i++) {
		if (x->config->n == RESOURCE_CONF_MAX) {
			resource_report(x->messages, MESSAGE_ERROR, NULL,
					"%s: %s: more than %d resources, the others are left out",
					x->file, list_keys[x->form], RESOURCE_CONF_MAX);
			return;
		}
		snprintf(x->place, sizeof(x->place), "%s[%zu]", list_keys[x->form], i);
		read_entry(x, v);
	}
}

/* --- a document --- */

struct top {
	const struct json *shared, *sriov, *interval;
};

static const struct json_field top_fields[] = {
	JSON_FIELD("configList", J_VAL, struct top, shared),
	JSON_FIELD("resourceList", J_VAL, struct top, sriov),
	JSON_FIELD("periodicUpdateInterval", J_VAL, struct top, interval),
	{0},
};
static const struct json_table top_table = {.fields = top_fields, .flags = JSON_GO};

static void read_interval(struct reading *x, const struct json *v)
{
	int64_t s;

	if (json_kind(v) == JSON_NULL)
		return;
	if (json_int(v, &s) < 0 || s > INT32_MAX) {
		struct err e = ERR_INIT;

		json_wants(v, "periodicUpdateInterval", "seconds", &e);
		resource_report(x->messages, MESSAGE_ERROR, NULL, "%s: %s", x->file, e.text);
		return;
	}
	if (s < 0) {
		resource_report(
			x->messages, MESSAGE_ERROR, NULL,
			"%s: invalid \"periodicUpdateInterval\" configuration \"%lld\": expected "
			"seconds, 0 for no rescan",
			x->file, (long long)s);
		return;
	}
	/* of several documents the shortest interval applies; 0 (no rescan) applies only if no
	 * document has another value */
	if (x->config->update_s <= 0 || (s > 0 && s < x->config->update_s))
		x->config->update_s = s;
}

static int read_document(struct reading *x, struct err *e)
{
	const struct json *root = json_root(x->doc);
	struct top t = {0};
	int r;

	if (json_kind(root) != JSON_OBJECT)
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s is %s, expected an object with configList or resourceList",
				x->file, json_kind_name(root));
	report_unknown(x, root, &top_table, "");
	r = json_read(x->doc, root, &top_table, &t, "", e);
	if (r < 0)
		return err_wrap(e, r, "%s", x->file);
	if (!t.shared && !t.sriov)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"%s: neither configList (RDMA shared device plugin) nor resourceList "
			"(SR-IOV network device plugin): no resources configuration found",
			x->file);
	read_interval(x, t.interval);
	x->form = RESOURCE_SHARED;
	if (t.shared)
		read_list(x, t.shared);
	x->form = RESOURCE_SRIOV;
	if (t.sriov)
		read_list(x, t.sriov);
	return 0;
}

int resource_config_add(struct resource_config *c, struct span text, const char *name,
			const struct resource_defaults *d, struct resource_messages *messages,
			struct err *e)
{
	struct reading x = {.file = name, .defaults = d, .config = c, .messages = messages};
	int r = json_parse_values(&x.doc, text, RESOURCE_TEXT_MAX, RESOURCE_VALUES_MAX, e);

	if (r < 0)
		return err_wrap(e, r, "%s", name);
	r = read_document(&x, e);
	if (r < 0) {
		json_free(x.doc);
		return r;
	}
	VEC_PUSH(c->docs, c->n_docs) = x.doc;
	return 0;
}

void resource_config_done(struct resource_config *c)
{
	for (size_t i = 0; i < c->n; i++)
		conf_done(&c->v[i]);
	for (size_t i = 0; i < c->n_docs; i++)
		json_free(c->docs[i]);
	free(c->v);
	free(c->docs);
	*c = (struct resource_config)RESOURCE_CONFIG_INIT;
}
