/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/nri/message.h"

#include <errno.h>
#include <pb_decode.h>
#include <pb_encode.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "nri.pb.h"
#include "spec/annotations.h"

struct nri_create {
	nri_CreateContainerRequest m;
	struct nri_container container;
	char *pod;
};

static int decode(const pb_msgdesc_t *fields, void *m, struct span message, const char *what,
		  struct err *e)
{
	pb_istream_t s = pb_istream_from_buffer((const pb_byte_t *)message.p, message.n);

	if (pb_decode(&s, fields, m))
		return 0;
	return err_set(e, -EINVAL, "decode NRI's %s: %zu bytes are not a valid message", what,
		       message.n);
}

/* Computes the size first, because pb_encode() needs a buffer of that size. */
static void encode(struct buf *b, const pb_msgdesc_t *fields, const void *m)
{
	size_t size = 0;
	auto_free pb_byte_t *text = NULL;
	pb_ostream_t s;

	if (!pb_get_encoded_size(&size, fields, m))
		return;
	text = xmalloc(size);
	s = pb_ostream_from_buffer(text, size);
	if (pb_encode(&s, fields, m))
		buf_add(b, text, s.bytes_written);
}

static const char *annotation(const nri_PodSandbox *p, const char *key)
{
	for (pb_size_t i = 0; p && i < p->annotations_count; i++)
		if (strcmp(str_or_empty(p->annotations[i].key), key) == 0)
			return str_or_empty(p->annotations[i].value);
	return NULL;
}

static void take_devices(struct nri_container *c, const nri_LinuxContainer *l)
{
	const char **v;

	if (!l || !l->devices_count)
		return;
	v = xcalloc(l->devices_count, sizeof(*v));
	for (pb_size_t i = 0; i < l->devices_count; i++)
		v[i] = str_or_empty(l->devices[i].path);
	c->devices = v;
	c->n_devices = l->devices_count;
}

static void take_rlimits(struct nri_container *c, const nri_Container *m)
{
	struct nri_rlimit *v;

	if (!m->rlimits_count)
		return;
	v = xcalloc(m->rlimits_count, sizeof(*v));
	for (pb_size_t i = 0; i < m->rlimits_count; i++)
		v[i] = (struct nri_rlimit){str_or_empty(m->rlimits[i].type), m->rlimits[i].hard,
					   m->rlimits[i].soft};
	c->rlimits = v;
	c->n_rlimits = m->rlimits_count;
}

int nri_create_decode(struct nri_create **ret, struct span message, struct err *e)
{
	auto_nri_create struct nri_create *c = xcalloc(1, sizeof(*c));
	const nri_Container *m;
	int r = decode(nri_CreateContainerRequest_fields, &c->m, message, "CreateContainer", e);

	if (r < 0)
		return r;
	m = c->m.container;
	if (m) {
		c->container.env = (const char *const *)m->env;
		c->container.n_env = m->env_count;
		take_devices(&c->container, m->platform);
		take_rlimits(&c->container, m);
	}
	c->container.nccl_net = annotation(c->m.pod, ANNOTATION_NCCL_NET);
	c->pod = xasprintf("%s/%s", c->m.pod ? str_or_empty(c->m.pod->namespace) : "",
			   c->m.pod ? str_or_empty(c->m.pod->name) : "");
	*ret = take(c);
	return 0;
}

static void nri_create_free(struct nri_create *c)
{
	if (!c)
		return;
	free((void *)c->container.devices);
	free((void *)c->container.rlimits);
	free(c->pod);
	pb_release(nri_CreateContainerRequest_fields, &c->m);
	free(c);
}

void nri_create_cleanup(struct nri_create **c)
{
	nri_create_free(*c);
}

const struct nri_container *nri_create_container(const struct nri_create *c)
{
	return &c->container;
}

const char *nri_create_pod_uid(const struct nri_create *c)
{
	return c->m.pod ? str_or_empty(c->m.pod->uid) : "";
}

const char *nri_create_pod(const struct nri_create *c)
{
	return c->pod;
}

const char *nri_create_name(const struct nri_create *c)
{
	return c->m.container ? str_or_empty(c->m.container->name) : "";
}

void nri_put_adjustment(struct buf *b, const struct nri_adjustment *a)
{
	auto_free nri_KeyValue *env = xcalloc(a->n_env + 1, sizeof(*env));
	char type[] = NRI_MEMLOCK;
	nri_POSIXRlimit memlock = {.type = type, .hard = a->memlock, .soft = a->memlock};
	nri_ContainerAdjustment adjust = {
		.env = env,
		.env_count = (pb_size_t)a->n_env,
		.rlimits = &memlock,
		.rlimits_count = a->memlock > 0,
	};
	nri_CreateContainerResponse m = {.adjust = &adjust};

	for (size_t i = 0; i < a->n_env; i++)
		env[i] = (nri_KeyValue){a->env[i].name, a->env[i].value};
	encode(b, nri_CreateContainerResponse_fields, &m);
}

void nri_put_registration(struct buf *b, const char *name, const char *index)
{
	auto_free char *own_name = xstrdup(name), *own_index = xstrdup(index);
	nri_RegisterPluginRequest m = {.plugin_name = own_name, .plugin_idx = own_index};

	encode(b, nri_RegisterPluginRequest_fields, &m);
}

void nri_put_events(struct buf *b, uint32_t mask)
{
	nri_ConfigureResponse m = {.events = (int32_t)mask};

	encode(b, nri_ConfigureResponse_fields, &m);
}

int nri_configure_decode(struct span message, struct nri_runtime *ret, struct err *e)
{
	nri_ConfigureRequest m = nri_ConfigureRequest_init_zero;
	int r = decode(nri_ConfigureRequest_fields, &m, message, "Configure", e);

	if (r < 0)
		return r;
	str_copy(ret->name, sizeof(ret->name), str_or_empty(m.runtime_name));
	str_copy(ret->version, sizeof(ret->version), str_or_empty(m.runtime_version));
	pb_release(nri_ConfigureRequest_fields, &m);
	return 0;
}

int nri_synchronize_decode(struct span message, bool *more, struct err *e)
{
	nri_SynchronizeRequest m = nri_SynchronizeRequest_init_zero;
	int r = decode(nri_SynchronizeRequest_fields, &m, message, "Synchronize", e);

	if (r == 0)
		*more = m.more;
	return r;
}

void nri_put_synchronized(struct buf *b, bool more)
{
	nri_SynchronizeResponse m = {.more = more};

	encode(b, nri_SynchronizeResponse_fields, &m);
}
