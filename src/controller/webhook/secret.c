/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/webhook/secret.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "kube/time.h"
#include "spec/annotations.h"
#include "wire/json/json.h"
#include "wire/tls/base64.h"

#define MANAGER "unirail-controller"

enum { BODY_MAX = 256 << 10 };

void secret_text_free(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

void secret_explain_missing(struct err *e, const char *kind, const char *ns, const char *name)
{
	err_clear(e);
	err_kind(e, ERR_CONF, -EACCES,
		 "%s '%s/%s' does not exist and the controller's account may not create it: "
		 "kubectl apply -f deploy/controller.yaml",
		 kind, ns, name);
}

/* --- reading a Secret --- */

bool secret_is_managed(const struct json *object)
{
	const struct json *labels = kube_meta(object, "labels");
	const char *by = json_string(json_get(labels, LABEL_MANAGED_BY));
	/* Helm sets the label app.kubernetes.io/managed-by of all objects that it installs to
	 * "Helm", so the manifests add a label of unirail's own. */
	const char *chart = json_string(json_get(labels, LABEL_CHART_MANAGED_BY));

	return (by && !strcmp(by, MANAGER)) || (chart && !strcmp(chart, MANAGER));
}

int64_t secret_since(const struct json *object, const char *since_name)
{
	const struct json *annotations = kube_meta(object, "annotations");
	const char *since = json_string(json_get(annotations, since_name));
	int64_t ms;

	return since && kube_time_parse(since, &ms) == 0 ? ms / 1000 : 0;
}

char *secret_text(const struct json *object, const char *key)
{
	const char *text = json_string(json_get(json_get(object, "data"), key));
	char *ret = NULL;

	/* Treats an empty item as missing: a manifest creates it empty. */
	if (!text || !*text || base64_decode(span_of(text), &ret) < 0)
		return NULL;
	return ret;
}

/* --- writing a Secret --- */

static void put_item(struct json_out *o, const struct secret_item *i)
{
	char *coded;

	if (i->remove) {
		jo_key(o, i->key);
		jo_null(o);
		return;
	}
	if (!i->text)
		return;
	coded = base64_encode(span_of(i->text));
	jo_kstr(o, i->key, coded);
	secret_text_free(coded);
}

static void put_metadata(struct json_out *o, const struct secret_write *w)
{
	char since[KUBE_TIME_MAX];

	jo_key(o, "metadata");
	jo_obj(o);
	jo_kstr(o, "name", w->name);
	if (w->version)
		jo_kstr(o, "resourceVersion", w->version);
	/* a patch leaves the label: Helm has set it to "Helm" in Secrets that it installed */
	if (!w->version) {
		jo_key(o, "labels");
		jo_obj(o);
		jo_kstr(o, LABEL_MANAGED_BY, MANAGER);
		jo_end_obj(o);
	}
	if (w->since_name) {
		kube_time_text(w->since * 1000, since);
		jo_key(o, "annotations");
		jo_obj(o);
		jo_kstr(o, w->since_name, since);
		jo_end_obj(o);
	}
	jo_end_obj(o);
}

static void put_secret(struct json_out *o, const struct secret_write *w)
{
	jo_obj(o);
	jo_kstr(o, "apiVersion", "v1");
	jo_kstr(o, "kind", "Secret");
	if (w->type && !w->version)
		jo_kstr(o, "type", w->type);
	put_metadata(o, w);
	jo_key(o, "data");
	jo_obj(o);
	for (size_t i = 0; i < w->n_items; i++)
		put_item(o, &w->items[i]);
	jo_end_obj(o);
	jo_end_obj(o);
}

struct kube_call *secret_write(struct kube *k, const struct secret_write *w, kube_done_fn fn,
			       void *arg)
{
	struct kube_request r = {.verb = w->version ? KUBE_MERGE_PATCH : KUBE_CREATE,
				 .on = {&kube_secrets, w->ns, w->name, NULL}};
	struct kube_call *call;
	struct json_out o;
	struct buf b;

	buf_init(&b, BODY_MAX);
	jo_init(&o, &b, 0);
	put_secret(&o, w);
	r.body = buf_span(&b);
	call = kube_send(k, &r, fn, arg);
	explicit_bzero(b.p, b.len);
	buf_done(&b);
	return call;
}
