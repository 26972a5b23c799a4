/* SPDX-License-Identifier: Apache-2.0 */
/* Defaults of a SpiderMultusConfig: of its fields (spec/multusconfig.h) and of its labels. */
#include <string.h>

#include "base/alloc.h"
#include "controller/admission/internal.h"
#include "ipam/pool/selector.h"
#include "spec/annotations.h"
#include "spec/multusconfig.h"

/* Copies the annotation to the label with the same key. If the annotation is absent or not valid as
 * a label's value, a label with the annotation's old value is removed; any other label stays. */
static void mirror(struct admit *a, struct json_tree *object, const char *key)
{
	const struct json *old = admit_annotation(a->request->old, key);
	struct json_tree *meta = json_tree_member_object(object, "metadata");
	const char *value =
		json_tree_text(json_tree_member(json_tree_member(meta, "annotations"), key));
	struct json_tree *labels = json_tree_member(meta, "labels");

	if (value && *value && selector_is_label_value(value)) {
		json_tree_put_text(json_tree_member_object(meta, "labels"), key, value);
		return;
	}
	if (json_tree_text(json_tree_member(labels, key)) && json_string(old) &&
	    strcmp(json_tree_text(json_tree_member(labels, key)), json_string(old)) == 0)
		json_tree_drop(labels, key);
}

/* Converts a pkey given as a number to a string: 0x8001 in YAML arrives as 32769. */
static void take_pkey(struct admit *a, struct json_tree *block)
{
	auto_free char *text = NULL;
	int64_t n;

	if (json_tree_int(json_tree_member(block, "pkey"), &n) < 0 || n < 0)
		return;
	text = xasprintf("0x%04llx", (unsigned long long)n);
	admit_warn(a, "spec.ibsriov.pkey: the number %lld is read as '%s': write it as a string",
		   (long long)n, text);
	json_tree_put_text(block, "pkey", text);
}

static void on_warning(void *arg, const char *text)
{
	admit_warn(arg, "%s", text);
}

void admit_default_network(struct admit *a, struct json_tree *object)
{
	struct json_tree *spec = json_tree_member_object(object, "spec");
	const struct multus_completion c = {json_get(a->request->object, "spec"),
					    json_get(a->request->old, "spec"), on_warning, a};

	if (!spec)
		return;
	if (strcmp(json_tree_text(json_tree_member(spec, "cniType")) ?: "", "ib-sriov") == 0)
		take_pkey(a, json_tree_member(spec, "ibsriov"));
	multus_complete(spec, &c);
	mirror(a, object, ANNOTATION_INJECT_RDMA);
	mirror(a, object, ANNOTATION_INJECT_NETWORK);
}
