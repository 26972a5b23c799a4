/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SPEC_SUBNET_ANNOTATION_H
#define UNIRAIL_SPEC_SUBNET_ANNOTATION_H

/*
 * Pools created from a SpiderSubnet for the pods of one application, by annotations of its pod
 * template:
 *
 *	ipam.spidernet.io/subnet	{"ipv4":["s4"],"ipv6":["s6"],"interface":"eth0"}
 *	ipam.spidernet.io/subnets	[{"interface":"net1","ipv4":["s4"],"ipv6":["s6"]}, ...]
 *	ipam.spidernet.io/ippool-ip-number	"5": this number; "+2": in addition to the pods' number
 *	ipam.spidernet.io/ippool-reclaim	"false": the pool remains when the application is deleted
 *
 * `subnets` overrides `subnet`, whose pool serves any interface. Of a list of subnets the first is
 * used.
 */

#include <stdint.h>

#include "spec/pod.h"
#include "wire/json/json.h"

#define AUTO_POOL_GROUP	  "ipam.spidernet.io/"
#define AUTO_POOL_SUBNET  AUTO_POOL_GROUP "subnet"
#define AUTO_POOL_SUBNETS AUTO_POOL_GROUP "subnets"
#define AUTO_POOL_NUMBER  AUTO_POOL_GROUP "ippool-ip-number"
#define AUTO_POOL_RECLAIM AUTO_POOL_GROUP "ippool-reclaim" /* a label of the pool, too */

/* Labels of such a pool. */
#define AUTO_POOL_OWNER	    AUTO_POOL_GROUP "owner-spider-subnet"
#define AUTO_POOL_API	    AUTO_POOL_GROUP "owner-application-gv" /* "apps_v1" */
#define AUTO_POOL_KIND	    AUTO_POOL_GROUP "owner-application-kind"
#define AUTO_POOL_NAMESPACE AUTO_POOL_GROUP "owner-application-namespace"
#define AUTO_POOL_NAME	    AUTO_POOL_GROUP "owner-application-name"
#define AUTO_POOL_UID	    AUTO_POOL_GROUP "owner-application-uid"
#define AUTO_POOL_IFNAME    AUTO_POOL_GROUP "interface"
#define AUTO_POOL_VERSION   AUTO_POOL_GROUP "ip-version" /* "IPv4", "IPv6" */
#define AUTO_POOL_CIDR	    AUTO_POOL_GROUP "ippool-cidr"

/* The pods' top-level owner: the Deployment, not its ReplicaSet. Ownership of strings as
 * documented. */
struct app_id {
	char *api; /* "apps/v1", "v1" */
	char *kind, *ns, *name, *uid;
};
void app_id_copy(const struct app_id *a, struct app_id *ret);
void app_id_done(struct app_id *a);
bool app_id_same(const struct app_id *a, const struct app_id *b); /* but for the UID */
/* "apps_v1_Deployment_default_web", as a SpiderSubnet's status has it. */
char *app_id_text(const struct app_id *a);
/* Of a kind whose size is known: Deployment, StatefulSet ... Others have to say a number. */
bool app_id_is_known(const struct app_id *a);
/* The labels that the pool's podAffinity wants of the application's pods, onto l. */
void app_id_labels(const struct app_id *a, struct labels *l);

struct auto_nic {
	char *ifname;
	char *subnet4, *subnet6; /* NULL: none of that family */
};

struct auto_pool_request {
	bool single; /* of `subnet` */
	struct auto_nic *v;
	size_t n;
	bool fixed; /* so many addresses; else beyond the pods' number */
	uint32_t number;
	bool reclaim;
};

/* 1: there is one; 0: no such annotation. Kind ERR_CONF; *ret is left alone then. `more`: addresses
 * beyond the pods' number where nothing is said. */
int auto_pool_request_read(const struct labels *annotations, uint32_t more,
			   struct auto_pool_request *ret, struct err *e);
void auto_pool_request_done(struct auto_pool_request *w);

enum { AUTO_POOL_NAME_MAX = 253 };
/* "auto4-web-eth0-2b6c1" */
void auto_pool_name(const struct app_id *a, const char *ifname, uint8_t family,
		    char ret[static AUTO_POOL_NAME_MAX + 1]);
/*
 * The labels of the pool that is made for it of a subnet, and its annotations. A name longer than a label's
 * value may be is cut there and in app_id_labels(), with its digest (block_label()); whole it is an
 * annotation then, of the label's name.
 */
void auto_pool_labels(const struct app_id *a, const char *subnet, const char *cidr,
		      const char *ifname, bool reclaim, struct labels *l);
void auto_pool_put_annotations(const struct app_id *a, const char *number, struct json_out *o);
/* Whether a label's value stands for the name. */
bool auto_pool_label_is(const char *label, const char *name);
/* As a label's value: first three '.', first seven ':', first '/' become '-'. */
char *auto_pool_cidr_label(const char *cidr);
/* What a pool with these labels is for: "subnet/uid/interface"; NULL: not made so. */
char *auto_pool_key(const struct labels *l);
char *auto_pool_key_of(const char *subnet, const char *uid, const char *ifname);
/* "apps/v1" of "apps_v1" */
char *auto_pool_api(const char *label);

#endif
