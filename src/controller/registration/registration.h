/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_REGISTRATION_REGISTRATION_H
#define UNIRAIL_CONTROLLER_REGISTRATION_REGISTRATION_H

/*
 * Registers the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration, both named
 * "unirail-controller". The leader creates and watches them, reverts changes by others, and writes
 * only when something differs. The table of webhooks is in registration.c.
 *
 * While no replica replies, requests for unirail's objects are rejected (failurePolicy Fail) and
 * pods are admitted, unless a setting changes this. The API server sends pods of namespaces in
 * scope. If it supports matchConditions (1.28), it sends only pods that have a requesting
 * annotation or whose namespace may have one (match_condition.h). An older server drops that field
 * silently and sends all pods in scope.
 *
 * deploy/controller.yaml creates both without webhooks, and the service account may only update
 * them. If they are missing and cannot be created, this is logged once and reported by readiness,
 * and the registration continues when they appear. An account with the permission creates them.
 *
 * They stay when the controller stops, so that an upgrade leaves no gap, and are deleted with the
 * manifest.
 *
 * Content of other writers stays: labels, annotations, and the caBundle if cert-manager injects it
 * (annotations cert-manager.io/inject-ca-from, -from-secret, inject-apiserver-ca).
 */

#include "controller/injection/inject.h"
#include "kube/client.h"

#define REGISTRATION_NAME "unirail-controller"

/* --- the table of webhooks --- */

enum { WEBHOOK_CREATE = 1, WEBHOOK_UPDATE = 2, WEBHOOK_DELETE = 4 };

/* handler that answers: DEFAULT sets defaults, CHECK validates, INJECT injects networks into
 * pods */
enum webhook_by { WEBHOOK_DEFAULT, WEBHOOK_CHECK, WEBHOOK_INJECT };

struct webhook {
	const char *name, *path;
	const char *group, *version, *kind, *resource;
	unsigned int operations;
	/* handler that answers; WEBHOOK_CHECK: the webhook is in the validating configuration,
	 * otherwise in the mutating one */
	enum webhook_by by;
};

extern const struct webhook registration_table[];
extern const size_t registration_count;

/* --- encoding and comparison of webhooks --- */

struct registration_form {
	const char *url;	  /* used instead of the service: "https://h:5722"; NULL: none */
	const char *ns, *service; /* the controller's Service */
	int port;
	const char *token; /* first element of the path */
	const char *ca;	   /* PEM; NULL: the API server uses its default trust store */
	const struct inject_scope *scope;
	bool pods;	       /* register the webhook for pods */
	bool pods_fail_closed; /* reject pods while no replica replies */
	/* Condition for pods in CEL; NULL: none. */
	const char *condition;
};

/* Writes the field `webhooks`, an array. */
void registration_write(const struct registration_form *f, bool validating, struct json_out *o);
/* Describes the first difference between `have` and `want`, arrays of webhooks:
 * "spiderippool.spiderpool.spidernet.io: failurePolicy"; "": none. Keys that only `have`
 * contains do not count, except matchConditions. `conditions`: the server supports
 * matchConditions. */
void registration_differ(const struct json *have, const struct json *want, bool conditions,
			 struct buf *ret);

/* --- registration --- */

struct registration_conf {
	struct kube *kube;
	/* token, ca and condition are copied; the other strings are borrowed. */
	struct registration_form form;
};

struct registration;

struct registration *registration_new(const struct registration_conf *c);
void registration_free(struct registration *h); /* accepts NULL */
/* Updates the configurations after a change of the form. */
void registration_update(struct registration *h, const struct registration_form *f);
/* Returns whether the API server has both configurations, with this CA in them. */
bool registration_trusts(const struct registration *h, const char *ca);
/* Returns whether the API server has both configurations, with this token in them. */
bool registration_has(const struct registration *h, const char *token);
/* Returns whether the API server has both configurations, with webhooks in them. */
bool registration_complete(const struct registration *h);
/* Returns the kind of a configuration that does not exist and that the account may not create:
 * "mutatingwebhookconfiguration" or "validatingwebhookconfiguration"; NULL: none. */
const char *registration_missing(const struct registration *h);
/* Returns the number of changes by other writers that were reverted. */
uint64_t registration_restored(const struct registration *h);

#endif
