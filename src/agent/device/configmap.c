/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/device/configmap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "device/resource/source.h"
#include "kube/informer.h"
#include "kube/kinds.h"

enum {
	NAME_BYTES = 253,
	DIR_MODE = 0755,
	FILE_MODE = 0644,
	DOCUMENTS_MAX = 64, /* limit, because each document is written and synced */
	RETRY_MS = 30 * 1000,
};

struct document {
	char *key, *text;
};

/* The documents of a ConfigMap that this node reads. */
struct documents {
	struct document *v;
	size_t n;
};

struct configmap {
	struct device_configmaps *all;
	char *ns, *name, *dir;
	struct kube_informer *informer;
	/* documents of a valid version that could not be written; n is 0: there are none */
	struct documents unwritten;
	struct loop_alarm retry;
	bool exists;
	struct log_once reported; /* last reported error since the last valid version */
};

struct device_configmaps {
	struct device_configmaps_conf conf;
	struct configmap v[DEVICE_CONFIGMAPS_MAX];
	size_t n;
};

/* --- documents of a ConfigMap --- */

static void document_done(struct document *d)
{
	free(d->key);
	free(d->text);
}

static void documents_done(struct documents *d)
{
	for (size_t i = 0; i < d->n; i++)
		document_done(&d->v[i]);
	free(d->v);
	*d = (struct documents){0};
}
#define auto_documents __attribute__((cleanup(documents_done)))

static bool has_key(const struct documents *d, const char *key)
{
	for (size_t i = 0; i < d->n; i++)
		if (!strcmp(d->v[i].key, key))
			return true;
	return false;
}

/* Returns whether a key may be a file name here: it has no '/', which could lead out of the
 * directory (the API server refuses such keys), and does not begin with '.'. */
static bool is_file_name(const char *key)
{
	return *key && *key != '.' && !strchr(key, '/');
}

static void read_documents(const struct json *object, struct documents *ret)
{
	struct json_walk w = json_walk_start(json_get(object, "data"));
	const struct json *v;
	const char *key;

	while ((v = json_walk_next(&w, &key)))
		if (json_string(v) && is_file_name(key))
			VEC_PUSH(ret->v, ret->n) =
				(struct document){xstrdup(key), xstrdup(json_string(v))};
}

static bool is_json(const char *key)
{
	size_t n = strlen(key);

	return n > 5 && !strcmp(key + n - 5, ".json");
}

/* Retains the documents that this node reads: its own key, else config.json, else each *.json. */
static void choose(struct documents *d, const char *node)
{
	const char *only = has_key(d, node)	       ? node
			   : has_key(d, "config.json") ? "config.json"
						       : NULL;
	size_t n_left = 0;

	for (size_t i = 0; i < d->n; i++)
		if (only ? !strcmp(d->v[i].key, only) : is_json(d->v[i].key))
			d->v[n_left++] = d->v[i];
		else
			document_done(&d->v[i]);
	d->n = n_left;
}

/* --- reports of errors --- */

static void report(struct configmap *c, const char *text)
{
	const struct device_configmaps_conf *conf = &c->all->conf;
	auto_free char *line = NULL;

	if (!log_once(&c->reported, text))
		return;
	line = xasprintf("%s; %s", text,
			 file_exists(conf->root, c->dir)
				 ? "the ConfigMap's last valid version "
				   "stays in force"
				 : "no valid version of the ConfigMap is in "
				   "force");
	log_error(line);
	if (conf->event)
		conf->event(conf->arg, true, line);
}

static void report_mended(struct configmap *c)
{
	const struct device_configmaps_conf *conf = &c->all->conf;
	auto_free char *line = NULL;

	if (!log_once_clear(&c->reported))
		return;
	line = xasprintf("ConfigMap '%s/%s' is valid and in force", c->ns, c->name);
	if (conf->event)
		conf->event(conf->arg, false, line);
}

/* --- the directory of a ConfigMap --- */

static int remove_others(const struct root *root, const char *dir, const struct documents *d,
			 bool *changed, struct err *e)
{
	char **names = NULL;
	size_t n = 0;
	int r = dir_list(root, dir, &names, &n, e);

	for (size_t i = 0; r >= 0 && i < n; i++) {
		auto_free char *path = xasprintf("%s/%s", dir, names[i]);

		if (has_key(d, names[i]))
			continue;
		r = file_remove(root, path, e);
		*changed = true;
	}
	str_list_free(names, n);
	return r;
}

static int write_document(const struct root *root, const char *dir, const struct document *d,
			  bool *changed, struct err *e)
{
	auto_free char *path = xasprintf("%s/%s", dir, d->key);
	auto_buf struct buf existing;

	buf_init(&existing, RESOURCE_TEXT_MAX);
	if (file_read(root, path, RESOURCE_TEXT_MAX, &existing, NULL) >= 0 &&
	    span_eq(buf_span(&existing), d->text))
		return 0;
	*changed = true;
	return file_replace(root, path, span_of(d->text), FILE_MODE, e);
}

static int write_dir(const struct root *root, const char *dir, const struct documents *d,
		     bool *changed, struct err *e)
{
	int r = dir_make(root, dir, DIR_MODE, e);

	for (size_t i = 0; r >= 0 && i < d->n; i++)
		r = write_document(root, dir, &d->v[i], changed, e);
	return r < 0 ? r : remove_others(root, dir, d, changed, e);
}

/* Checks that each document is a valid configuration. Errors in single resources are reported
 * when the directory is read. */
static int check(const struct configmap *c, const struct documents *d, struct err *e)
{
	const struct resource_defaults none = {0};
	auto_resource_messages struct resource_messages messages = {0};
	auto_resource_config struct resource_config config = RESOURCE_CONFIG_INIT;
	int r = 0;

	if (d->n > DOCUMENTS_MAX)
		return err_kind(e, ERR_CONF, -E2BIG,
				"ConfigMap '%s/%s' has %zu keys '*.json', expected %d at most: put "
				"several resources into one key",
				c->ns, c->name, d->n, DOCUMENTS_MAX);
	for (size_t i = 0; r >= 0 && i < d->n; i++) {
		auto_free char *name =
			xasprintf("ConfigMap '%s/%s' key '%s'", c->ns, c->name, d->v[i].key);

		r = strlen(d->v[i].text) > RESOURCE_TEXT_MAX
			    ? err_kind(e, ERR_CONF, -EFBIG, "%s has more than %d bytes", name,
				       RESOURCE_TEXT_MAX)
			    : resource_config_add(&config, span_of(d->v[i].text), name, &none,
						  &messages, e);
	}
	return r;
}

static void on_retry(void *arg);

/* Retries a write that failed, for example because the disk is full: the API server does not
 * send the object again. */
static void retry_later(struct configmap *c, struct documents *d)
{
	const struct device_configmaps_conf *conf = &c->all->conf;

	c->unwritten = *d;
	*d = (struct documents){0};
	if (conf->kube)
		loop_alarm_set(&c->retry, RETRY_MS);
}

static void drop_unwritten(struct configmap *c)
{
	loop_alarm_cancel(&c->retry);
	documents_done(&c->unwritten);
}

static bool take_documents(struct configmap *c, struct documents *d)
{
	const struct device_configmaps_conf *conf = &c->all->conf;
	struct err e = ERR_INIT;
	bool changed = false;

	drop_unwritten(c);
	if (!d->n) {
		auto_free char *text =
			xasprintf("ConfigMap '%s/%s' has no key for this node: expected '%s', "
				  "'config.json' or '*.json'",
				  c->ns, c->name, conf->node);

		report(c, text);
		return false;
	}
	if (check(c, d, &e) < 0) {
		report(c, e.text);
		return false;
	}
	if (write_dir(conf->root, c->dir, d, &changed, &e) < 0) {
		report(c, e.text);
		retry_later(c, d);
		return changed;
	}
	report_mended(c);
	if (changed)
		log_info("resource configuration read", LOG_S("configmap", c->name),
			 LOG_S("namespace", c->ns), LOG_S("key", d->v[0].key));
	return changed;
}

static void take_none(struct configmap *c)
{
	auto_free char *text = xasprintf("ConfigMap '%s/%s' does not exist", c->ns, c->name);

	drop_unwritten(c);
	report(c, text);
}

bool device_configmaps_retry(struct device_configmaps *m, size_t i)
{
	struct configmap *c = &m->v[i];
	auto_documents struct documents d = c->unwritten;

	c->unwritten = (struct documents){0};
	return d.n && take_documents(c, &d);
}

static void on_retry(void *arg)
{
	struct configmap *c = arg;

	if (device_configmaps_retry(c->all, (size_t)(c - c->all->v)))
		c->all->conf.changed(c->all->conf.arg);
}

bool device_configmaps_take(struct device_configmaps *m, size_t i, const struct json *object)
{
	auto_documents struct documents d = {0};

	if (!object) {
		take_none(&m->v[i]);
		return false;
	}
	read_documents(object, &d);
	choose(&d, m->conf.node);
	return take_documents(&m->v[i], &d);
}

/* --- the informer of a ConfigMap --- */

static int decode(void *value, const struct json *object, struct err *e)
{
	(void)e;
	read_documents(object, value);
	return 0;
}

static void drop(void *value)
{
	documents_done(value);
}

static void on_changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct configmap *c = arg;
	struct documents *d = is ? is->value : NULL;

	(void)was;
	c->exists = d != NULL;
	if (!d) {
		take_none(c);
		return;
	}
	choose(d, c->all->conf.node);
	if (take_documents(c, d))
		c->all->conf.changed(c->all->conf.arg);
	documents_done(d); /* the directory contains the last valid version */
}

static void on_synced(void *arg)
{
	struct configmap *c = arg;

	if (!c->exists)
		take_none(c);
}

static void on_sync_error(void *arg, const struct err *reason)
{
	struct configmap *c = arg;
	auto_free char *text = NULL;

	if (!reason)
		return;
	if (reason->code == -EPERM)
		text = xasprintf("the agent may not read ConfigMap '%s/%s': bind the ClusterRole "
				 "unirail-agent-devices in that namespace, and add the "
				 "ConfigMap's name to the resourceNames of the role (%s)",
				 c->ns, c->name, reason->text);
	else
		text = xasprintf("cannot read ConfigMap '%s/%s': %s", c->ns, c->name, reason->text);
	report(c, text);
}

/* --- the setting device-configmap --- */

static bool is_name(struct span s)
{
	if (!s.n || s.n > NAME_BYTES || *s.p == '.' || *s.p == '-')
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!(s.p[i] >= 'a' && s.p[i] <= 'z') && !(s.p[i] >= '0' && s.p[i] <= '9') &&
		    s.p[i] != '-' && s.p[i] != '.')
			return false;
	return true;
}

static int add(struct device_configmaps *m, struct span word, struct err *e)
{
	struct configmap *c = &m->v[m->n];
	struct span ns = {0}, name = span_trim(word);

	if (memchr(name.p, '/', name.n))
		span_cut(&name, '/', &ns);
	else
		ns = span_of(m->conf.ns);
	if (!is_name(ns) || !is_name(name))
		return err_kind(e, ERR_CONF, -EINVAL,
				"device-configmap: '%.*s' is invalid, expected "
				"[NAMESPACE/]NAME[,...]",
				(int)(word.n < NAME_BYTES ? word.n : NAME_BYTES), word.p);
	if (m->n == DEVICE_CONFIGMAPS_MAX)
		return err_kind(e, ERR_CONF, -E2BIG, "device-configmap: more than %d ConfigMaps",
				DEVICE_CONFIGMAPS_MAX);
	c->all = m;
	if (m->conf.kube)
		c->retry = LOOP_ALARM(kube_loop(m->conf.kube), on_retry, c);
	c->ns = span_dup(ns);
	c->name = span_dup(name);
	c->dir = xasprintf("%s/configmaps/%s/%s", m->conf.state_dir, c->ns, c->name);
	m->n++;
	for (size_t i = 0; i + 1 < m->n; i++)
		if (!strcmp(m->v[i].dir, c->dir))
			return err_kind(e, ERR_CONF, -EINVAL,
					"device-configmap: ConfigMap '%s/%s' is named twice, name "
					"it once",
					c->ns, c->name);
	return 0;
}

static void watch(struct configmap *c)
{
	auto_free char *field = xasprintf("metadata.name=%s", c->name);

	c->informer = kube_informer_new(
		c->all->conf.kube,
		&(struct kube_informer_conf){.kind = &kube_configmaps,
					     .select = {.ns = c->ns, .fields = field},
					     .size = sizeof(struct documents),
					     .decode = decode,
					     .drop = drop,
					     .changed = on_changed,
					     .synced = on_synced,
					     .sync_error = on_sync_error,
					     .arg = c});
}

int device_configmaps_new(struct device_configmaps **ret, const struct device_configmaps_conf *conf,
			  struct err *e)
{
	struct span rest = span_of(conf->names ? conf->names : ""), word;
	struct device_configmaps *m;
	int r = 0;

	*ret = NULL;
	if (!rest.n)
		return 0;
	m = xcalloc(1, sizeof(*m));
	m->conf = *conf;
	while (r >= 0 && span_cut(&rest, ',', &word))
		r = add(m, word, e);
	if (r < 0) {
		device_configmaps_free(m);
		return r;
	}
	for (size_t i = 0; conf->kube && i < m->n; i++)
		watch(&m->v[i]);
	*ret = m;
	return 0;
}

void device_configmaps_free(struct device_configmaps *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n; i++) {
		kube_informer_free(m->v[i].informer);
		drop_unwritten(&m->v[i]);
		free(m->v[i].ns);
		free(m->v[i].name);
		free(m->v[i].dir);
	}
	free(m);
}

size_t device_configmaps_count(const struct device_configmaps *m)
{
	return m ? m->n : 0;
}

const char *device_configmaps_dir(const struct device_configmaps *m, size_t i)
{
	return m->v[i].dir;
}
