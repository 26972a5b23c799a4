/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's handling of control groups and queue pairs of a pod, for a guest without a kubelet
 * and an API server.
 *
 *	rdma-use limit UID DEVICE HANDLES OBJECTS
 *		sets the limits of a pod to which one id of a resource of DEVICE is allocated
 *	rdma-use queue-pair UID DEVICE
 *		prints "present", "none: REASON" or "unknown: REASON"
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device/qp_inspect.h"
#include "agent/device/rdma_limits.h"
#include "base/alloc.h"

static void on_device(void *arg, const char *resource, const char *id, rdma_limits_device_fn each,
		      void *each_arg)
{
	(void)resource, (void)id;
	each(each_arg, ((char **)arg)[1]);
}

static const char *on_uid(void *arg, const char *ns, const char *name)
{
	(void)ns, (void)name;
	return ((char **)arg)[0];
}

static int limit(const struct root *root, char **args, struct err *e)
{
	char *ids[] = {(char[]){"0"}}, name[] = "x";
	struct podres_devices d = {.resource = name, .ids = ids, .n_ids = 1};
	struct podres_container c = {.name = name, .devices = &d, .n_devices = 1};
	struct podres_pod p = {.name = name, .ns = name, .containers = &c, .n_containers = 1};
	const struct podres_list list = {&p, 1};
	const struct rdma_limits_conf conf = {.root = root,
					      .per_id = {(uint32_t)atoi(args[2]),
							 (uint32_t)atoi(args[3])},
					      .devices = on_device,
					      .uid = on_uid,
					      .arg = args};

	return rdma_limits_apply(&conf, &list, e) ? -1 : 0;
}

static int queue_pair(const struct root *root, char **args, struct err *e)
{
	static const char *const states[] = {"unknown", "present", "none"};
	const char *devices[] = {args[1]};
	struct qp_target t = {.uid = args[0], .devices = devices, .n_devices = 1};
	auto_nl struct nl_wire *w = NULL;
	int r = nl_open(&w, NL_RDMA, -1, e);

	if (r == 0)
		r = qp_inspect(w, root, &t, 1, e);
	if (r == 0)
		printf("%s%s%s\n", states[t.state], t.reason[0] ? ": " : "", t.reason);
	return r;
}

int main(int argc, char **argv)
{
	struct err e = ERR_INIT;
	struct root root;
	int r = root_open(&root, NULL, &e);

	if (r == 0 && argc == 6 && strcmp(argv[1], "limit") == 0)
		r = limit(&root, argv + 2, &e);
	else if (r == 0 && argc == 4 && strcmp(argv[1], "queue-pair") == 0)
		r = queue_pair(&root, argv + 2, &e);
	else if (r == 0)
		r = err_set(&e, -1,
			    "expected limit UID DEVICE HANDLES OBJECTS, or queue-pair UID DEVICE");
	if (r < 0)
		fprintf(stderr, "rdma-use: %s\n", e.text);
	return r < 0;
}
