/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_MULTI_INTERNAL_H
#define UNIRAIL_CNI_MULTI_INTERNAL_H

/* Shared by the files of this directory. */

#include "cni/multi/multi.h"
#include "cni/protocol/chain.h"

/* Returns the call of an executed plugin of network i; prev may be NULL. */
struct chain_call multi_chain_call(const struct multi *x, size_t i, const struct multi_plugin *p,
				   const struct cni_result *prev);
/* Returns the call of an in-process plugin of network i; for GC and STATUS `a` has nothing open. */
struct chained_call multi_chained_call(const struct multi *x, const struct attach *a, size_t i,
				       const struct multi_plugin *p, bool has_prev);

/* When a plugin runs in an ADD; a DEL runs the plugins in reverse order. */
enum multi_place {
	MULTI_AHEAD,  /* before the plugin that creates the interface */
	MULTI_MAIN,   /* the plugin that creates the interface, if it is not a link driver */
	MULTI_BEFORE, /* before the coordinator */
	MULTI_AFTER,  /* after the coordinator */
	MULTI_PLACES,
};
struct multi_list {
	const struct multi_plugin *v;
	size_t n;
};
struct multi_list multi_plugins_at(const struct multi_net *net, enum multi_place place);

/* Calls fn for the plugins of a network that are neither link driver nor coordinator, in the
 * order of an ADD. A negative return of fn ends the iteration. */
typedef int (*multi_plugin_fn)(void *arg, size_t net, const struct multi_plugin *p, struct err *e);
int multi_each_plugin(const struct multi *x, size_t net, multi_plugin_fn fn, void *arg,
		      struct err *e);

/* --- cache entries that let a node return to Multus (cache.c); no-ops without conf.cniDir --- */

/* Writes the entry before any change, so that a DEL works after a crash; pushes its reverse onto
 * u. */
int multi_keep(const struct multi *x, struct undo *u, struct err *e);
/* Writes libcni's cache file, with the result, of each network. */
int multi_keep_results(const struct multi *x, struct err *e);
/* Removes the entry of the container. */
void multi_forget(const struct multi *x);
/* GC: removes the entries of containers that the runtime does not list as valid. */
void multi_forget_others(const struct multi *x);

#endif
