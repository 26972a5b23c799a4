/* SPDX-License-Identifier: Apache-2.0 */
/* Who uses an RDMA device, for the words of an error. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/device/rdma_move.h"
#include "kern/rdma/rdma_res.h"

static const struct {
	enum rdma_res_kind kind;
	size_t offset;
	const char *one, *many;
} counted[] = {
	{RDMA_RES_QP, offsetof(struct rdma_holder, qps), "QP", "QPs"},
	{RDMA_RES_CQ, offsetof(struct rdma_holder, cqs), "CQ", "CQs"},
	{RDMA_RES_MR, offsetof(struct rdma_holder, mrs), "MR", "MRs"},
	{RDMA_RES_CTX, offsetof(struct rdma_holder, contexts), "context", "contexts"},
};

static uint32_t *count_of(const struct rdma_holder *h, size_t i)
{
	return (uint32_t *)((char *)h + counted[i].offset);
}

/* Each port has a QP 1 of ib_core, which no move minds. */
static bool is_core(const struct rdma_res *res)
{
	return strcmp(res->owner, "ib_core") == 0;
}

static struct rdma_holder *holder_of(struct rdma_holder **list, size_t *n,
				     const struct rdma_res *res)
{
	struct rdma_holder *h;

	for (size_t i = 0; i < *n; i++)
		if ((*list)[i].pid == res->pid && strcmp((*list)[i].owner, res->owner) == 0)
			return &(*list)[i];
	h = &VEC_PUSH(*list, *n);
	h->pid = res->pid;
	str_copy(h->owner, sizeof(h->owner), res->owner);
	return h;
}

static void read_comm(const struct root *r, struct rdma_holder *h)
{
	char path[64];

	if (!h->pid)
		return;
	snprintf(path, sizeof(path), "/proc/%u/comm", h->pid);
	if (file_read_line(r, path, h->comm, sizeof(h->comm), NULL) < 0)
		h->comm[0] = '\0';
}

/* A kind that the kernel does not list is left out: the others tell enough. */
int rdma_holders(struct nl_wire *w, const struct root *r, uint32_t index, struct rdma_holder **ret,
		 size_t *n, struct err *e)
{
	struct rdma_holder *list = NULL;
	size_t count = 0;
	int failed = 0;

	for (size_t i = 0; i < ARRAY_LEN(counted); i++) {
		auto_free struct rdma_res *res = NULL;
		size_t n_res = 0;
		int code = rdma_nl_res_list(w, index, counted[i].kind, &res, &n_res,
					    failed < 0 ? NULL : e);

		failed = failed < 0 ? failed : code;
		for (size_t k = 0; code >= 0 && k < n_res; k++)
			if (!is_core(&res[k]))
				++*count_of(holder_of(&list, &count, &res[k]), i);
	}
	if (!count && failed < 0) {
		free(list);
		return failed;
	}
	for (size_t i = 0; i < count; i++)
		read_comm(r, &list[i]);
	*ret = list;
	*n = count;
	return 0;
}

static void put_counts(const struct rdma_holder *h, struct buf *b)
{
	const char *sep = "";

	for (size_t i = 0; i < ARRAY_LEN(counted); i++) {
		uint32_t n = *count_of(h, i);

		if (!n)
			continue;
		buf_printf(b, "%s%u %s", sep, n, n == 1 ? counted[i].one : counted[i].many);
		sep = ", ";
	}
}

void rdma_holders_text(const struct rdma_holder *list, size_t n, struct buf *b)
{
	for (size_t i = 0; i < n; i++) {
		const struct rdma_holder *h = &list[i];

		buf_str(b, i ? ", " : "");
		if (h->owner[0])
			buf_printf(b, "module %s (", h->owner);
		else if (h->pid)
			buf_printf(b, "%s (pid %u: ", h->comm[0] ? h->comm : "a process", h->pid);
		else
			buf_str(b, "a process of another PID namespace (");
		put_counts(h, b);
		buf_char(b, ')');
	}
}
