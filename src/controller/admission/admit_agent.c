/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent's account may write of pools: as deploy/policies/agent.yaml, for API servers that have no such policies. */
#include <string.h>

#include "base/cleanup.h"
#include "controller/admission/admit_priv.h"
#include "spec/auto_pool.h"
#include "ipam/pool/pool_kube.h"

#define ACCOUNT "system:serviceaccount:"
#define AGENT	":unirail-agent"

bool admit_is_agent(const char *user)
{
	const char *name = user && strncmp(user, ACCOUNT, strlen(ACCOUNT)) == 0
				   ? strchr(user + strlen(ACCOUNT), ':')
				   : NULL;

	return name && strcmp(name, AGENT) == 0;
}

/* Of an application: its labels say which. */
static bool is_made(const struct json *pool)
{
	static const char *const keys[] = {AUTO_POOL_OWNER,	AUTO_POOL_API,	AUTO_POOL_KIND,
					   AUTO_POOL_NAMESPACE, AUTO_POOL_NAME, AUTO_POOL_UID};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (!json_get(admit_meta(pool, "labels"), keys[i]))
			return false;
	return true;
}

static bool stays(const struct admit_ask *q, const char *key)
{
	return json_same(admit_meta(q->object, key), admit_meta(q->old, key));
}

static bool may_change(const struct admit_ask *q, const char *note)
{
	if (strcmp(note, POOL_BLOCK_PREFIX_NOTE) == 0)
		return !admit_note(q->old, note);
	return strcmp(note, AUTO_POOL_NUMBER) == 0 && is_made(q->object);
}

static bool notes_are_allowed(const struct admit_ask *q)
{
	const struct json *is = admit_meta(q->object, "annotations");
	const struct json *was = admit_meta(q->old, "annotations");
	auto_json_index struct json_index before = json_index_of(was), after = json_index_of(is);
	struct json_walk w = json_walk_start(is), old = json_walk_start(was);
	const struct json *v, *x;
	const char *key;

	while ((v = json_walk_next(&w, &key))) {
		x = json_index_get(&before, key);
		if (!(x && json_same(v, x)) && !may_change(q, key))
			return false;
	}
	while (json_walk_next(&old, &key))
		if (!json_index_get(&after, key))
			return false;
	return true;
}

int admit_check_agent(struct admit *a)
{
	const struct admit_ask *q = a->ask;

	if (!admit_is_agent(q->user) || strcmp(q->kind, "SpiderIPPool") != 0)
		return 0;
	if (q->operation == ADMIT_DELETE)
		return admit_forbid(a, "an agent's account may not delete a pool");
	if (q->operation == ADMIT_CREATE &&
	    (!is_made(q->object) || json_len(json_get(json_get(q->object, "spec"), "ips"))))
		return admit_forbid(
			a,
			"an agent's account may make pools for applications only (labels " AUTO_POOL_GROUP
			"owner-*), without addresses (spec.ips)");
	if (q->operation == ADMIT_UPDATE &&
	    !(json_same(json_get(q->object, "spec"), json_get(q->old, "spec")) &&
	      stays(q, "labels") && stays(q, "finalizers") && stays(q, "ownerReferences") &&
	      notes_are_allowed(q)))
		return admit_forbid(
			a,
			"an agent's account may change nothing of a pool but the annotation " POOL_BLOCK_PREFIX_NOTE
			", where there is none, and " AUTO_POOL_NUMBER
			" of a pool that was made for an application");
	return 0;
}
