/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/nri/adjust.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"

/* lowest value of rdma-memlock: the default limit of kernels before Linux 5.16 */
enum { MEMLOCK_MIN = 65536 };

#define VERBS "/dev/infiniband/uverbs"

int nri_memlock_parse(const char *s, uint64_t *ret, struct err *e)
{
	if (strcmp(s, "unlimited") == 0 || strcmp(s, "no") == 0)
		*ret = *s == 'u' ? NRI_UNLIMITED : 0;
	else if (num_u64(span_of(s), MEMLOCK_MIN, INT64_MAX, ret) < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"rdma-memlock is '%.32s', expected unlimited, no, or a number of "
				"bytes of at least %d",
				s, MEMLOCK_MIN);
	return 0;
}

bool nri_has_rdma(const struct nri_container *c)
{
	for (size_t i = 0; i < c->n_devices; i++)
		if (strncmp(c->devices[i], VERBS, strlen(VERBS)) == 0 &&
		    isdigit((unsigned char)c->devices[i][strlen(VERBS)]))
			return true;
	return false;
}

void nri_adjustment_done(struct nri_adjustment *a)
{
	for (size_t i = 0; i < a->n_env; i++) {
		free(a->env[i].name);
		free(a->env[i].value);
	}
	free(a->env);
	*a = (struct nri_adjustment){0};
}

static bool has_memlock(const struct nri_container *c, uint64_t wanted)
{
	for (size_t i = 0; i < c->n_rlimits; i++)
		if (strcmp(c->rlimits[i].type, NRI_MEMLOCK) == 0)
			return c->rlimits[i].hard >= wanted && c->rlimits[i].soft >= wanted;
	return false;
}

static bool has_variable(const struct nri_container *c, struct span name)
{
	for (size_t i = 0; i < c->n_env; i++)
		if (strncmp(c->env[i], name.p, name.n) == 0 && c->env[i][name.n] == '=')
			return true;
	return false;
}

static void put(struct nri_adjustment *a, const struct nri_container *c, struct span name,
		struct span value)
{
	struct nri_variable *v;

	if (has_variable(c, name))
		return;
	v = &VEC_PUSH(a->env, a->n_env);
	v->name = span_dup(name);
	v->value = span_dup(value);
}

/* Adds the variables of rails.env: NCCL_IB_HCA, NCCL_IB_GID_INDEX and UNIRAIL_*. */
static void put_rails(struct nri_adjustment *a, const struct nri_container *c,
		      const struct rails_list *rails)
{
	auto_buf struct buf text;
	struct span rest, line;

	buf_init(&text, RAILS_TEXT_MAX);
	rails_print_env(rails, &text);
	rest = buf_span(&text);
	while (span_cut(&rest, '\n', &line)) {
		struct span name;

		if (span_cut(&line, '=', &name) && line.p)
			put(a, c, name, line);
	}
}

/* Returns "mlx5_0:1,mlx5_1:1", with each device once. */
static char *device_list(const struct rails_list *rails)
{
	struct buf b;

	buf_init(&b, RAILS_TEXT_MAX);
	for (size_t i = 0; i < rails->n; i++) {
		const struct cni_rdma *d = &rails->v[i].rdma;

		if (!rails_is_repeated(rails, i))
			buf_printf(&b, "%s%s:%u", b.len ? "," : "", d->device, d->port);
	}
	return buf_take(&b);
}

static void put_index(struct nri_adjustment *a, const struct nri_container *c,
		      const struct rails_list *rails)
{
	static const char *const names[] = {"UCX_IB_GID_INDEX", "NVSHMEM_IB_GID_INDEX"};
	auto_free char *index = xasprintf("%d", rails->v[0].rdma.gid_index);

	for (size_t i = 1; i < rails->n; i++)
		a->mixed_gid |= rails->v[i].rdma.gid_index != rails->v[0].rdma.gid_index;
	if (a->mixed_gid)
		return;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		put(a, c, span_of(names[i]), span_of(index));
}

static void put_environment(struct nri_adjustment *a, const struct nri_container *c,
			    const struct rails_list *rails, const struct nri_policy *p)
{
	auto_free char *devices = device_list(rails), *exact = xasprintf("=%s", p->primary);

	put_rails(a, c, rails);
	put_index(a, c, rails);
	put(a, c, span_of("UCX_NET_DEVICES"), span_of(devices));
	/* NVSHMEM reads NVSHMEM_HCA_LIST only if NVSHMEM_ENABLE_NIC_PE_MAPPING is set. */
	if (!has_variable(c, span_of("NVSHMEM_HCA_LIST")) &&
	    !has_variable(c, span_of("NVSHMEM_HCA_PE_MAPPING"))) {
		put(a, c, span_of("NVSHMEM_ENABLE_NIC_PE_MAPPING"), span_of("1"));
		put(a, c, span_of("NVSHMEM_HCA_LIST"), span_of(devices));
	}
	/* Names the interface exactly. Without this variable NCCL may choose "net1", on which its
	 * peers may not listen. */
	put(a, c, span_of("NCCL_SOCKET_IFNAME"), span_of(exact));
	put(a, c, span_of("GLOO_SOCKET_IFNAME"), span_of(p->primary));
}

void nri_adjust(const struct nri_container *c, const struct rails_list *rails,
		const struct nri_policy *p, struct nri_adjustment *ret)
{
	struct nri_adjustment a = {0};
	bool ib = p->nccl_net_ib || (c->nccl_net && strcmp(c->nccl_net, "IB") == 0);

	if (nri_has_rdma(c)) {
		a.memlock = has_memlock(c, p->memlock) ? 0 : p->memlock;
		if (p->environment && rails->n > 0)
			put_environment(&a, c, rails, p);
		if (ib)
			put(&a, c, span_of("NCCL_NET"), span_of("IB"));
	}
	*ret = a;
}
