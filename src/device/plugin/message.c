/* SPDX-License-Identifier: Apache-2.0 */
#include "device/plugin/message.h"

#include <errno.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "deviceplugin.pb.h"
#include "pluginregistration.pb.h"

/* --- decoding --- */

static void ids_done(struct message_ids *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct message_ids){0};
}

void message_request_done(struct message_request *r)
{
	for (size_t i = 0; i < r->n; i++) {
		ids_done(&r->v[i].ids);
		ids_done(&r->v[i].must);
	}
	free(r->v);
	*r = (struct message_request){0};
}

/* Rejects a string with a NUL, which would truncate it. */
static char *take_text(pb_istream_t *s)
{
	size_t n = s->bytes_left;
	char *text = xmalloc(n + 1);

	if (!pb_read(s, (pb_byte_t *)text, n) || memchr(text, '\0', n)) {
		free(text);
		return NULL;
	}
	text[n] = '\0';
	return text;
}

static bool take_string(pb_istream_t *s, const pb_field_t *field, void **arg)
{
	char **ret = *arg, *text = take_text(s);

	(void)field;
	if (!text)
		return false;
	free(*ret);
	*ret = text;
	return true;
}

static bool take_id(pb_istream_t *s, const pb_field_t *field, void **arg)
{
	struct message_ids *l = *arg;
	char *text;

	(void)field;
	if (!s->bytes_left || s->bytes_left > DEVICE_PLUGIN_ID_MAX ||
	    l->n >= DEVICE_PLUGIN_DEVICES_MAX)
		return false;
	text = take_text(s);
	if (!text)
		return false;
	VEC_PUSH(l->v, l->n) = text;
	return true;
}

static bool take_allocate(pb_istream_t *s, const pb_field_t *field, void **arg)
{
	struct message_request *r = *arg;

	(void)field;
	if (r->n >= DEVICE_PLUGIN_CONTAINERS_MAX)
		return false;
	struct message_container *c = &VEC_PUSH(r->v, r->n);
	v1beta1_ContainerAllocateRequest m = {.devices_ids = {{.decode = take_id}, &c->ids}};

	return pb_decode(s, v1beta1_ContainerAllocateRequest_fields, &m);
}

static bool take_preferred(pb_istream_t *s, const pb_field_t *field, void **arg)
{
	struct message_request *r = *arg;

	(void)field;
	if (r->n >= DEVICE_PLUGIN_CONTAINERS_MAX)
		return false;
	struct message_container *c = &VEC_PUSH(r->v, r->n);
	v1beta1_ContainerPreferredAllocationRequest m = {
		.available_deviceIDs = {{.decode = take_id}, &c->ids},
		.must_include_deviceIDs = {{.decode = take_id}, &c->must},
	};

	if (!pb_decode(s, v1beta1_ContainerPreferredAllocationRequest_fields, &m))
		return false;
	c->size = m.allocation_size;
	return true;
}

static int decode(struct span bytes, const pb_msgdesc_t *fields, void *m, struct message_request *r,
		  const char *what, struct err *e)
{
	pb_istream_t s = pb_istream_from_buffer((const pb_byte_t *)bytes.p, bytes.n);

	if (pb_decode(&s, fields, m))
		return 0;
	if (r)
		message_request_done(r);
	return err_kind(
		e, ERR_DECODE, -EBADMSG,
		"decode %s: %zu bytes are not a valid message, or exceed a limit (%d bytes for an id)",
		what, bytes.n, DEVICE_PLUGIN_ID_MAX);
}

int message_allocate_decode(struct span b, struct message_request *ret, struct err *e)
{
	struct message_request q = {0};
	v1beta1_AllocateRequest m = {.container_requests = {{.decode = take_allocate}, &q}};
	int r = decode(b, v1beta1_AllocateRequest_fields, &m, &q, "an AllocateRequest", e);

	if (!r)
		*ret = q;
	return r;
}

int message_preferred_decode(struct span b, struct message_request *ret, struct err *e)
{
	struct message_request q = {0};
	v1beta1_PreferredAllocationRequest m = {
		.container_requests = {{.decode = take_preferred}, &q}};
	int r = decode(b, v1beta1_PreferredAllocationRequest_fields, &m, &q,
		       "a PreferredAllocationRequest", e);

	if (!r)
		*ret = q;
	return r;
}

int message_prestart_decode(struct span b, struct message_request *ret, struct err *e)
{
	struct message_request q = {0};
	struct message_container *c = &VEC_PUSH(q.v, q.n);
	v1beta1_PreStartContainerRequest m = {.devices_ids = {{.decode = take_id}, &c->ids}};
	int r = decode(b, v1beta1_PreStartContainerRequest_fields, &m, &q,
		       "a PreStartContainerRequest", e);

	if (!r)
		*ret = q;
	return r;
}

int message_status_decode(struct span b, bool *registered, char **error, struct err *e)
{
	auto_free char *text = xstrdup("");
	pluginregistration_RegistrationStatus m = {.error = {{.decode = take_string}, &text}};
	int r = decode(b, pluginregistration_RegistrationStatus_fields, &m, NULL,
		       "a RegistrationStatus", e);

	if (r)
		return r;
	*registered = m.plugin_registered;
	*error = take(text);
	return 0;
}

/* --- encoding --- */

static bool put_bytes(pb_ostream_t *s, const pb_byte_t *p, size_t n)
{
	buf_add(s->state, p, n);
	return true;
}

static void encode(const pb_msgdesc_t *fields, const void *m, struct buf *b)
{
	pb_ostream_t s = {put_bytes, b, SIZE_MAX, 0};

	if (!pb_encode(&s, fields, m))
		b->over = true; /* cannot occur, because no callback refuses */
}

static bool put_string(pb_ostream_t *s, const pb_field_t *field, void *const *arg)
{
	const char *text = *arg;

	/* proto3 does not encode an empty string */
	return !text || !*text ||
	       (pb_encode_tag_for_field(s, field) &&
		pb_encode_string(s, (const pb_byte_t *)text, strlen(text)));
}

#define STRING(text)                                                                               \
	{                                                                                          \
		{.encode = put_string}, (void *)(uintptr_t)(text)                                  \
	}
#define LIST(fn, of)                                                                               \
	{                                                                                          \
		{.encode = (fn)}, (void *)(uintptr_t)(of)                                          \
	}

static bool put_message(pb_ostream_t *s, const pb_field_t *field, const pb_msgdesc_t *fields,
			const void *m)
{
	return pb_encode_tag_for_field(s, field) && pb_encode_submessage(s, fields, m);
}

void message_options_encode(bool prestart, bool preferred, struct buf *b)
{
	const v1beta1_DevicePluginOptions m = {
		.pre_start_required = prestart,
		.get_preferred_allocation_available = preferred,
	};

	encode(v1beta1_DevicePluginOptions_fields, &m, b);
}

void message_register_encode(const char *endpoint, const char *resource, bool prestart,
			     bool preferred, struct buf *b)
{
	const v1beta1_RegisterRequest m = {
		.version = STRING(DEVICE_PLUGIN_VERSION),
		.endpoint = STRING(endpoint),
		.resource_name = STRING(resource),
		.has_options = prestart || preferred,
		.options = {prestart, preferred},
	};

	encode(v1beta1_RegisterRequest_fields, &m, b);
}

static bool put_versions(pb_ostream_t *s, const pb_field_t *field, void *const *arg)
{
	/* the original plugin announces these two versions; the kubelet requires v1beta1 to be one
	 * of them */
	void *first = (void *)(uintptr_t) "v1alpha1";
	void *second = (void *)(uintptr_t)DEVICE_PLUGIN_VERSION;

	(void)arg;
	return put_string(s, field, &first) && put_string(s, field, &second);
}

void message_info_encode(const char *resource, const char *endpoint, struct buf *b)
{
	const pluginregistration_PluginInfo m = {
		.type = STRING("DevicePlugin"),
		.name = STRING(resource),
		.endpoint = STRING(endpoint),
		.supported_versions = LIST(put_versions, NULL),
	};

	encode(pluginregistration_PluginInfo_fields, &m, b);
}

static bool put_numa(pb_ostream_t *s, const pb_field_t *field, void *const *arg)
{
	const struct device_plugin_device *d = *arg;

	for (size_t i = 0; i < d->n_numa; i++) {
		const v1beta1_NUMANode m = {.ID = d->numa[i]};

		/* NUMA node 0 is encoded as an empty message */
		if (!put_message(s, field, v1beta1_NUMANode_fields, &m))
			return false;
	}
	return true;
}

static bool put_devices(pb_ostream_t *s, const pb_field_t *field, void *const *arg)
{
	const struct device_plugin_list *l = *arg;

	for (size_t i = 0; i < l->n; i++) {
		const struct device_plugin_device *d = &l->v[i];
		const v1beta1_Device m = {
			.ID = STRING(d->id),
			.health = STRING(d->healthy ? "Healthy" : "Unhealthy"),
			.has_topology = d->n_numa > 0,
			.topology.nodes = LIST(put_numa, d),
		};

		if (!put_message(s, field, v1beta1_Device_fields, &m))
			return false;
	}
	return true;
}

void message_list_encode(const struct device_plugin_list *l, struct buf *b)
{
	const v1beta1_ListAndWatchResponse m = {.devices = LIST(put_devices, l)};

	encode(v1beta1_ListAndWatchResponse_fields, &m, b);
}

static bool put_envs(pb_ostream_t *s, const pb_field_t *field, void *const *arg)
{
	const struct device_plugin_allocation *a = *arg;

	for (size_t i = 0; i < a->n_envs; i++) {
		const v1beta1_Pair m = {STRING(a->envs[i].key), STRING(a->envs[i].value)};

		if (!put_message(s, field, v1beta1_Pair_fields, &m))
			return false;
	}
	return true;
}

static bool put_nodes(pb_ostream_t *s, const pb_field_t *field, void *const *arg)
{
	const struct device_plugin_allocation *a = *arg;

	for (size_t i = 0; i < a->n_devices; i++) {
		const v1beta1_DeviceSpec m = {STRING(a->devices[i].container_path),
					      STRING(a->devices[i].host_path),
					      STRING(a->devices[i].permissions)};

		if (!put_message(s, field, v1beta1_DeviceSpec_fields, &m))
			return false;
	}
	return true;
}

static bool put_cdi(pb_ostream_t *s, const pb_field_t *field, void *const *arg)
{
	const struct device_plugin_allocation *a = *arg;

	for (size_t i = 0; i < a->n_cdi; i++) {
		const v1beta1_CDIDevice m = {STRING(a->cdi[i])};

		if (!put_message(s, field, v1beta1_CDIDevice_fields, &m))
			return false;
	}
	return true;
}

struct allocations {
	const struct device_plugin_allocation *v;
	size_t n;
};

static bool put_allocations(pb_ostream_t *s, const pb_field_t *field, void *const *arg)
{
	const struct allocations *l = *arg;

	for (size_t i = 0; i < l->n; i++) {
		const struct device_plugin_allocation *a = &l->v[i];
		const v1beta1_ContainerAllocateResponse m = {
			.envs = LIST(put_envs, a),
			.devices = LIST(put_nodes, a),
			.cdi_devices = LIST(put_cdi, a),
		};

		if (!put_message(s, field, v1beta1_ContainerAllocateResponse_fields, &m))
			return false;
	}
	return true;
}

void message_allocation_encode(const struct device_plugin_allocation *v, size_t n, struct buf *b)
{
	const struct allocations l = {v, n};
	const v1beta1_AllocateResponse m = {.container_responses = LIST(put_allocations, &l)};

	encode(v1beta1_AllocateResponse_fields, &m, b);
}

static bool put_ids(pb_ostream_t *s, const pb_field_t *field, void *const *arg)
{
	const struct message_ids *l = *arg;

	for (size_t i = 0; i < l->n; i++) {
		void *id = l->v[i];

		if (!put_string(s, field, &id))
			return false;
	}
	return true;
}

struct choices {
	const struct message_ids *v;
	size_t n;
};

static bool put_choices(pb_ostream_t *s, const pb_field_t *field, void *const *arg)
{
	const struct choices *l = *arg;

	for (size_t i = 0; i < l->n; i++) {
		const v1beta1_ContainerPreferredAllocationResponse m = {
			.deviceIDs = LIST(put_ids, &l->v[i])};

		if (!put_message(s, field, v1beta1_ContainerPreferredAllocationResponse_fields, &m))
			return false;
	}
	return true;
}

void message_preferred_encode(const struct message_ids *v, size_t n, struct buf *b)
{
	const struct choices l = {v, n};
	const v1beta1_PreferredAllocationResponse m = {.container_responses =
							       LIST(put_choices, &l)};

	encode(v1beta1_PreferredAllocationResponse_fields, &m, b);
}

/* --- the devices of a resource, and the response to Allocate --- */

void device_plugin_list_add(struct device_plugin_list *l, const char *id, bool healthy,
			    int64_t numa)
{
	VEC_PUSH(l->v, l->n) = (struct device_plugin_device){.id = xstrdup(id), .healthy = healthy};
	if (numa >= 0)
		device_plugin_list_add_numa(l, numa);
}

void device_plugin_list_add_numa(struct device_plugin_list *l, int64_t numa)
{
	struct device_plugin_device *d = &l->v[l->n - 1];

	VEC_PUSH(d->numa, d->n_numa) = numa;
}

void device_plugin_list_done(struct device_plugin_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].id);
		free(l->v[i].numa);
	}
	free(l->v);
	*l = (struct device_plugin_list){0};
}

void device_plugin_env(struct device_plugin_allocation *a, const char *key, const char *value)
{
	for (size_t i = 0; i < a->n_envs; i++)
		if (!strcmp(a->envs[i].key, key)) {
			free(a->envs[i].value);
			a->envs[i].value = xstrdup(value);
			return;
		}
	VEC_PUSH(a->envs, a->n_envs) = (struct device_plugin_env){xstrdup(key), xstrdup(value)};
}

void device_plugin_node(struct device_plugin_allocation *a, const char *container_path,
			const char *host_path, const char *permissions)
{
	struct device_plugin_node *d;

	for (size_t i = 0; i < a->n_devices; i++)
		if (!strcmp(a->devices[i].container_path, container_path))
			return;
	d = &VEC_PUSH(a->devices, a->n_devices);
	d->container_path = xstrdup(container_path);
	d->host_path = xstrdup(host_path);
	str_copy(d->permissions, sizeof(d->permissions), permissions);
}

void device_plugin_cdi(struct device_plugin_allocation *a, const char *name)
{
	VEC_PUSH(a->cdi, a->n_cdi) = xstrdup(name);
}

void device_plugin_allocation_done(struct device_plugin_allocation *a)
{
	for (size_t i = 0; i < a->n_envs; i++) {
		free(a->envs[i].key);
		free(a->envs[i].value);
	}
	free(a->envs);
	for (size_t i = 0; i < a->n_devices; i++) {
		free(a->devices[i].container_path);
		free(a->devices[i].host_path);
	}
	free(a->devices);
	for (size_t i = 0; i < a->n_cdi; i++)
		free(a->cdi[i]);
	free(a->cdi);
	*a = (struct device_plugin_allocation){0};
}
