/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SPEC_SUBNET_ANNOTATION_H
#define UNIRAIL_SPEC_SUBNET_ANNOTATION_H

/*
 * Pools created from a SpiderSubnet for the pods of one application, by annotations of its pod
 * template:
 *
 *	ipam.spidernet.io/subnet	{"ipv4":["s4"],"ipv6":["s6"],"interface":"eth0"}
 *	ipam.spidernet.io/subnets	[{"interface":"net1","ipv4":["s4"],"ipv6":["s6"]}, ...]
 *	ipam.spidernet.io/ippool-ip-number	"5": 5 addresses; "+2": 2 more than there are pods
 *	ipam.spidernet.io/ippool-reclaim	"false": the pool remains when the application is deleted
 *
 * `subnets` overrides `subnet`. The pools of `subnet` serve every interface. Of the subnets in a
 * list "ipv4" or "ipv6" only the first is used.
 */

#include <stdint.h>

#include "spec/pod.h"
#include "wire/json/json.h"

/* The top-level owner of the pods: the Deployment, not its ReplicaSet. */
struct app_id {
	char *api; /* "apps/v1", "v1" */
	char *kind, *ns, *name, *uid;
};
void app_id_copy(const struct app_id *a, struct app_id *ret);
void app_id_done(struct app_id *a);
bool app_id_same(const struct app_id *a, const struct app_id *b); /* ignores the UID */
/* Returns "apps_v1_Deployment_default_web", the form in the status of a SpiderSubnet; the caller
 * frees it. */
char *app_id_text(const struct app_id *a);
/* Returns whether the number of pods can be determined for this kind of application (Deployment,
 * StatefulSet, ...). The pod template of any other kind must request a fixed number of
 * addresses. */
bool app_id_is_known(const struct app_id *a);
/* Adds to l the labels that identify the application in the pool's podAffinity. */
void app_id_labels(const struct app_id *a, struct labels *l);

struct auto_nic {
	char *ifname;
	char *subnet4, *subnet6; /* names of the subnets; NULL: no subnet of that family */
};

struct auto_pool_request {
	/* the only entry is v[0], of the annotation `subnet`; it applies to every interface */
	bool single;
	struct auto_nic *v;
	size_t n;
	/* true: `number` is the total of addresses; false: in addition to the number of pods */
	bool fixed;
	uint32_t number;
	bool reclaim;
};

/* Reads the annotations. Returns 1 if they request pools, 0 if there is no such annotation;
 * negative (kind ERR_CONF): *ret is unchanged. `more`: default number of addresses in addition to
 * the number of pods. */
int auto_pool_request_read(const struct labels *annotations, uint32_t more,
			   struct auto_pool_request *ret, struct err *e);
void auto_pool_request_done(struct auto_pool_request *w);

enum { AUTO_POOL_NAME_MAX = 253 };
/* Writes the pool's name, for example "auto4-web-eth0-2b6c1", into ret. */
void auto_pool_name(const struct app_id *a, const char *ifname, uint8_t family,
		    char ret[static AUTO_POOL_NAME_MAX + 1]);
/*
 * auto_pool_labels() adds the labels of the pool created from a subnet for the application, and
 * auto_pool_put_annotations() writes the annotations of the pool. auto_pool_labels() and
 * app_id_labels() shorten a name that is too long for a label, and append a digest of the whole
 * name (block_label()). For a shortened name of the application, an annotation with the key of the
 * label has the full name.
 */
void auto_pool_labels(const struct app_id *a, const char *subnet, const char *cidr,
		      const char *ifname, bool reclaim, struct labels *l);
void auto_pool_put_annotations(const struct app_id *a, const char *number, struct json_out *o);
/* Returns whether a label value is the (possibly shortened) name. */
bool auto_pool_label_is(const char *label, const char *name);
/* Returns the CIDR as a label value, as Spiderpool does: the first three '.', the first seven ':'
 * and the first '/' become '-'. The caller frees it. */
char *auto_pool_cidr_label(const char *cidr);
/* Returns the key of a pool with these labels: "subnet/uid/interface"; NULL: it is not an automatic
 * pool. */
char *auto_pool_key(const struct labels *l);
char *auto_pool_key_of(const char *subnet, const char *uid, const char *ifname);
/* Converts "apps_v1" to "apps/v1". */
char *auto_pool_api(const char *label);

#endif
