/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses for all rails in one call. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cni/attach/attach_private.h"

/* The IPAM's own arrays are by call, ours by rail. */
struct asked {
	struct cni_ipam_call *calls;
	size_t *rails; /* calls[i] is of rail rails[i] */
	size_t n;
};

static void asked_done(struct asked *s)
{
	free(s->calls);
	free(s->rails);
}

static void ask_all(const struct attach *a, struct asked *ret)
{
	size_t n = 0;

	ret->calls = xcalloc(a->n_rails, sizeof(*ret->calls));
	ret->rails = xcalloc(a->n_rails, sizeof(*ret->rails));
	for (size_t i = 0; i < a->n_rails; i++) {
		if (!rail_has_ipam(&a->rails[i]))
			continue;
		ret->calls[n] = a->rails[i].ipam;
		ret->rails[n++] = i;
	}
	ret->n = n;
}

static int undo_ipam(void *arg, struct err *e)
{
	struct attach *a = *(struct attach **)arg;
	__attribute__((cleanup(asked_done))) struct asked s = {0};

	ask_all(a, &s);
	return cni_ipam_del(s.calls, s.n, e);
}

static int take_addresses(struct rail *rail, struct cni_result *got,
			  const struct cni_ipam_flags *flags, struct err *e)
{
	cni_result_done(&rail->got);
	rail->got = *got;
	*got = (struct cni_result){0};
	rail->flags = *flags;
	if (!rail->got.n_ips) {
		err_kind(e, ERR_CONF, -ENODATA, "IPAM plugin returned missing IP config");
		return rail_err(rail, -ENODATA, e);
	}
	return 0;
}

static int take_all(struct attach *a, const struct asked *s, struct cni_result *got,
		    const struct cni_ipam_flags *flags, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (r >= 0)
			r = take_addresses(&a->rails[s->rails[i]], &got[i], &flags[i], e);
		cni_result_done(&got[i]);
	}
	return r;
}

static int ask(struct attach *a, const struct asked *s, bool again, struct err *e)
{
	auto_free struct cni_ipam_flags *flags = xcalloc(s->n, sizeof(*flags));
	auto_free struct cni_result *got = xcalloc(s->n, sizeof(*got));
	int r = cni_ipam_add(s->calls, s->n, got, flags, e);

	if (r < 0)
		return r;
	if (!again)
		undo_push(&a->undo, "give back addresses", undo_ipam, &a, sizeof(a));
	return take_all(a, s, got, flags, e);
}

int attach_ipam(struct attach *a, struct err *e)
{
	__attribute__((cleanup(asked_done))) struct asked s = {0};

	for (size_t i = 0; i < a->n_rails; i++)
		if (a->rails[i].given)
			cni_result_copy(&a->rails[i].got, a->rails[i].given);
	ask_all(a, &s);
	return s.n ? ask(a, &s, false, e) : 0;
}

int attach_ask_again(struct attach *a, size_t rail, struct err *e)
{
	struct asked s = {&a->rails[rail].ipam, &rail, 1};

	return ask(a, &s, true, e);
}
