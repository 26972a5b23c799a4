/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_REGISTRATION_HOOKS_H
#define UNIRAIL_CONTROLLER_REGISTRATION_HOOKS_H

/*
 * The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration, both named "unirail-controller",
 * kept by the leader as they are to be: made, watched, put right when somebody else changes them, and
 * written at no other time than when something differs. Which webhooks there are is in hooks_table.c.
 *
 * Objects are refused while nobody answers (failurePolicy Fail), pods are not, unless a setting says so.
 * Pods are sent of namespaces in scope; where the server has matchConditions (1.28), only those that ask
 * by an annotation, and those of namespaces that are not known to have none (match_condition.c). Where it has
 * not, it drops that field without a word, and all pods in scope are sent.
 *
 * deploy/controller.yaml brings them without webhooks: the account of it may change these two and make none.
 * Where they are missing and may not be made, one line of the log and the readiness say so, and it goes on when they
 * appear; an account that may make them makes them.
 *
 * They stay when the controller ends, so that an upgrade opens no gap, and go with the manifest.
 *
 * What is somebody else's in them stays: labels, annotations, and the caBundle where cert-manager puts it
 * in (annotations cert-manager.io/inject-ca-from, -from-secret, inject-apiserver-ca).
 */

#include "controller/injection/inject.h"
#include "kube/client.h"

#define HOOKS_NAME "unirail-controller"

/* --- which there are --- */

enum { HOOK_CREATE = 1, HOOK_UPDATE = 2, HOOK_DELETE = 4 };

enum hook_by { HOOK_DEFAULT, HOOK_CHECK, HOOK_INJECT }; /* who answers */

struct hook {
	const char *name, *path;
	const char *group, *version, *kind, *resource;
	unsigned int operations;
	enum hook_by by; /* HOOK_CHECK: in the validating one */
};

extern const struct hook hooks_table[];
extern const size_t hooks_count;

/* --- as text --- */

struct hooks_form {
	const char *url;	  /* instead of the service: "https://h:5722"; NULL: none */
	const char *ns, *service; /* where the API server finds us */
	int port;
	const char *token; /* what the path begins with */
	const char *ca;	   /* PEM; NULL: the API server trusts what it trusts anyhow */
	const struct inject_scope *scope;
	bool pods;	       /* send any at all */
	bool pods_fail_closed; /* refused while nobody answers */
	/* Of the condition; NULL: none is written. */
	const char *condition;
};

/* The field `webhooks`, an array. */
void hooks_write(const struct hooks_form *f, bool validating, struct json_out *o);
/* What is put right: "spiderippool.spiderpool.spidernet.io: failurePolicy"; "" when `have` is as
 * `want` (arrays). `conditions`: the server keeps them. */
void hooks_differ(const struct json *have, const struct json *want, bool conditions,
		  struct buf *ret);

/* --- at the API server --- */

struct hooks_conf {
	struct kube *kube;
	struct hooks_form form; /* texts are borrowed until hooks_look() brings others */
};

struct hooks;

struct hooks *hooks_new(const struct hooks_conf *c);
void hooks_free(struct hooks *h); /* NULL is fine */
/* Something of the form is another one. */
void hooks_look(struct hooks *h, const struct hooks_form *f);
/* Whether the API server has them with this CA. */
bool hooks_trust(const struct hooks *h, const char *ca);
/* Whether it has them with this token. */
bool hooks_have(const struct hooks *h, const char *token);
/* Whether the API server has both, with webhooks in them. */
bool hooks_registered(const struct hooks *h);
/* "mutatingwebhookconfiguration": there is none, and our account may not make it; NULL: nothing like that. */
const char *hooks_missing(const struct hooks *h);
/* How often what somebody else had changed was put right. */
uint64_t hooks_healed(const struct hooks *h);

#endif
