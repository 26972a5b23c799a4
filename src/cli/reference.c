/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/reference.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/conf.h"
#include "base/alloc.h"
#include "cni/protocol/cni.h"
#include "controller/conf.h"
#include "server/prometheus.h"

/* --- netconf keys --- */

static const char *type_name(const struct json_field *f)
{
	switch (f->type) {
	case J_STR: return "STRING";
	case J_BOOL: return "BOOL";
	case J_INT: return "NUMBER";
	case J_STRS: return "STRINGS";
	case J_IP: return "ADDRESS";
	case J_NET: return "SUBNET";
	case J_MAC: return "MAC";
	case J_OBJ: return "OBJECT";
	case J_OBJS: return "OBJECTS";
	case J_VAL: break;
	}
	return "VALUE";
}

static void key_row(const char *prefix, const struct json_field *f, const struct reference_style *s,
		    struct buf *b)
{
	auto_free char *name = xasprintf("%s%s", prefix, f->name);
	char range[64] = "";
	auto_free char *help = NULL;

	if (f->type == J_INT && f->max && f->max < INT32_MAX)
		snprintf(range, sizeof(range), ", %" PRId64 " to %" PRId64, f->min, f->max);
	help = xasprintf("%s%s%s%s%s%s", f->help, range, f->fallback ? " (" : "",
			 f->fallback ? f->fallback : "", f->fallback ? ")" : "",
			 f->own ? " [unirail]" : "");
	s->row(b, name, type_name(f), help);
}

/*
 * Returns whether one of the tables before `end` has the key: several tables of a plugin may have
 * the same key.
 */
static bool is_listed(const struct json_table *const *t, const struct json_table *const *end,
		      const char *name)
{
	for (; t < end; t++)
		for (const struct json_field *f = (*t)->fields; f->name; f++)
			if (strcmp(f->name, name) == 0)
				return true;
	return false;
}

static void tables(const struct json_table *const *list, const char *prefix,
		   const struct reference_style *s, struct buf *b)
{
	for (const struct json_table *const *t = list; *t; t++)
		for (const struct json_field *f = (*t)->fields; f->name; f++) {
			auto_free char *below = xasprintf("%s%s.", prefix, f->name);

			if (!f->help || is_listed(list, t, f->name))
				continue;
			key_row(prefix, f, s, b);
			if (f->sub)
				tables(JSON_TABLES(f->sub), below, s, b);
		}
}

static const struct cni_plugin *const none[] = {NULL};
const struct cni_plugin *const *reference_plugins = none;

static const struct cni_plugin *plugin_of(const struct applet *a)
{
	for (const struct cni_plugin *const *p = reference_plugins; *p; p++)
		if (strcmp((*p)->name, a->name) == 0)
			return *p;
	return NULL;
}

void reference_keys(const struct applet *a, const struct reference_style *s, struct buf *b)
{
	const struct cni_plugin *p = plugin_of(a);

	if (!p)
		return;
	s->section(b, "keys of the netconf");
	if (p->keys)
		tables(p->keys, "", s, b);
	if (p->ipam_keys)
		tables(p->ipam_keys, "ipam.", s, b);
	s->paragraph(b, "Defaults are in parentheses. [unirail] marks a key that the original "
			"plugin of this name does not have. 'unirail help netconf' has the keys of "
			"every netconf.");
}

static void netconf(const struct reference_style *s, struct buf *b)
{
	s->paragraph(b,
		     "A network configuration (netconf) is a JSON object. A key matches exactly or "
		     "else regardless of case; the last of duplicate keys applies; null counts as "
		     "absent; unknown keys are ignored. A value of a wrong type is an error that "
		     "names the key.");
	s->section(b, "keys of every netconf");
	tables(cni_keys, "", s, b);
	s->row(b, "capabilities", "OBJECT",
	       "keys of runtimeConfig that the runtime sets for this plugin");
	s->section(b, "plugins");
	for (const struct applet *a = applets; a->name; a++)
		if (plugin_of(a))
			s->row(b, a->name, "", a->help);
	s->paragraph(b, "'unirail help PLUGIN' lists the keys of one plugin.");
}

/* --- settings --- */

void reference_settings(const struct settings *t, const struct reference_style *s, struct buf *b)
{
	struct settings_key k;

	for (size_t i = 0; settings_key(t, i, &k); i++) {
		auto_free char *help = xasprintf("%s%s%s%s", k.help,
						 *k.env ? "; environment: " : "", k.env,
						 k.live ? "" : "; needs a restart");

		s->row(b, k.name, k.arg, help);
	}
}

static void daemon_settings(const struct settings *t, const char *extra,
			    const struct reference_style *s, struct buf *b)
{
	auto_free char *title = xasprintf("settings of %s", t->prog);
	auto_free char *text = xasprintf(
		"Each setting is an option (--NAME), usually an environment variable, and a key "
		"of section [%s] of the settings file; the first of these that is given applies. "
		"Defaults are in parentheses.%s",
		t->section, extra);

	s->section(b, title);
	s->paragraph(b, text);
	reference_settings(t, s, b);
}

static void ipam_settings(const struct reference_style *s, struct buf *b)
{
	s->section(b, "settings of unirail ipam serve");
	s->paragraph(
		b,
		"Each setting is an option (--NAME) and usually an environment variable; the first "
		"of these that is given applies. Defaults are in parentheses.");
	reference_settings(&ipam_serve_settings, s, b);
}

static int settings(const char *part, const struct reference_style *s, struct buf *b, struct err *e)
{
	bool known = !part;

	if (!part || strcmp(part, "agent") == 0) {
		daemon_settings(&agent_settings,
				" Section [coordinator] has the coordinator's keys: 'unirail help "
				"coordinator'. configs/agent.conf is a complete file.",
				s, b);
		known = true;
	}
	if (!part || strcmp(part, "controller") == 0) {
		daemon_settings(&controller_settings,
				" configs/controller.conf is a complete file.", s, b);
		known = true;
	}
	if (!part || strcmp(part, "ipam") == 0) {
		ipam_settings(s, b);
		known = true;
	}
	return known ? 0
		     : err_set(e, -ENOENT,
			       "unknown program '%s': expected agent, controller or ipam", part);
}

/* --- metrics --- */

static int by_name(const void *a, const void *b)
{
	return strcmp((*(const struct metric *const *)a)->name,
		      (*(const struct metric *const *)b)->name);
}

static void program_metrics(const char *program, const struct reference_style *s, struct buf *b)
{
	auto_free char *title = xasprintf("metrics of unirail %s", program);
	auto_free char *dir = xasprintf("src/%s/", program);
	auto_free const struct metric **list = NULL;
	size_t n = 0;

	s->section(b, title);
	for (const struct metric *m = metrics_first(); m < metrics_end(); m++)
		if (strncmp(m->file, dir, strlen(dir)) == 0)
			VEC_PUSH(list, n) = m;
	if (n)
		qsort(list, n, sizeof(const struct metric *), by_name);
	for (size_t i = 0; i < n; i++)
		s->row(b, list[i]->name, list[i]->type, list[i]->help);
}

static void all_metrics(const struct reference_style *s, struct buf *b)
{
	s->paragraph(
		b,
		"The daemon serves its metrics at /metrics on its metrics-port in the Prometheus "
		"text format. Metrics whose names begin with spiderpool_ have the same meaning in "
		"Spiderpool's daemons.");
	program_metrics("agent", s, b);
	program_metrics("controller", s, b);
}

/* --- topics --- */

const struct reference_topic reference_topics[] = {
	{"netconf", "keys of every netconf; the page of a plugin has the plugin's own keys"},
	{"settings", "settings of agent, controller and ipam serve"},
	{"metrics", "metrics of agent and controller"},
	{0},
};

const struct reference_topic *reference_find(const char *name)
{
	for (const struct reference_topic *t = reference_topics; t->name; t++)
		if (strcmp(t->name, name) == 0)
			return t;
	return NULL;
}

int reference_write(const struct reference_topic *t, const char *part,
		    const struct reference_style *s, struct buf *b, struct err *e)
{
	if (strcmp(t->name, "settings") == 0)
		return settings(part, s, b, e);
	if (part)
		return err_set(e, -ENOENT, "topic '%s' has no part '%s'", t->name, part);
	if (strcmp(t->name, "netconf") == 0)
		netconf(s, b);
	else
		all_metrics(s, b);
	return 0;
}
