/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_PLUGIN_INTERNAL_H
#define UNIRAIL_DEVICE_PLUGIN_INTERNAL_H

/* One device plugin: its calls (calls.c), its socket and registration (plugin.c). */

#include <sys/stat.h>

#include "base/backoff.h"
#include "device/plugin/plugin.h"
#include "wire/http/grpc.h"
#include "wire/http/grpc_server.h"

/* PLUGIN_WAITING_MAX: limit of GetPreferredAllocation calls that wait for plugin_prepared();
 * further ones are answered at once. A kubelet sends one at a time. */
enum {
	PLUGIN_STREAMS_MAX = 8,
	PLUGIN_WAITING_MAX = 16,
	PLUGIN_NAME_MAX = 80,
	PLUGIN_PATH_MAX = 108
};

struct device_plugin {
	struct device_plugins *set;
	char *resource, name[PLUGIN_NAME_MAX];
	const struct device_plugin_ops *ops;
	void *arg;
	/* descriptor of the listening socket; -1: none */
	int fd;
	char path[PLUGIN_PATH_MAX];
	dev_t dev;
	ino_t ino;
	bool in_registry;
	struct grpc_server *server;
	/* open ListAndWatch calls */
	struct grpc_in *streams[PLUGIN_STREAMS_MAX];
	size_t n_streams;
	struct device_plugin_list list; /* list as last read, sorted by id */
	struct buf message;		/* `list` as an encoded message */
	struct loop_alarm changed;
	/* calls that wait for plugin_prepared(), with their requests */
	struct {
		struct grpc_in *call;
		struct buf request;
	} waiting[PLUGIN_WAITING_MAX];
	size_t n_waiting;
	/* registration in flight; NULL: none */
	struct grpc_async *registering;
	struct loop_timer *retry;
	struct backoff backoff;
	/* stat(2) of kubelet.sock at the last Register; st_ino 0: no Register was sent, or the
	 * last Register failed */
	struct stat kubelet;
	bool was_reported; /* the last call of ops->registered() was with true */
	char sync_error[ERR_TEXT_MAX];
	struct device_plugin *next;
};

extern const struct grpc_method plugin_methods[];

/* Reads the resource's list; returns whether it differs from the last one. A list of more than
 * DEVICE_PLUGIN_DEVICES_MAX devices or GRPC_MESSAGE_MAX bytes is logged and ignored (false). */
bool plugin_list_update(struct device_plugin *p);
/* Handles NotifyRegistrationStatus or the response of Register; error "": the kubelet has accepted
 * the registration. */
void plugin_on_status(struct device_plugin *p, const char *error);
/* Called when a ListAndWatch has begun or ended. */
void plugin_on_stream(struct device_plugin *p);

#endif
