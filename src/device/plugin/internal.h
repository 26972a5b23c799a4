/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_PLUGIN_INTERNAL_H
#define UNIRAIL_DEVICE_PLUGIN_INTERNAL_H

/* One plugin: its calls (calls.c), its socket and registration (plugin.c). */

#include <sys/stat.h>

#include "base/backoff.h"
#include "device/plugin/plugin.h"
#include "wire/http/grpc.h"
#include "wire/http/grpc_server.h"

/* PLUGIN_WAITING_MAX: GetPreferredAllocation calls; the kubelet has one at a time. */
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
	/* the socket; fd -1: none */
	int fd;
	char path[PLUGIN_PATH_MAX];
	dev_t dev;
	ino_t ino;
	bool in_registry;
	struct grpc_server *server;
	/* the list */
	struct grpc_in *streams[PLUGIN_STREAMS_MAX];
	size_t n_streams;
	struct device_plugin_list list; /* as sent last, sorted by id */
	struct buf message;		/* the same, encoded */
	struct loop_timer *changed;
	/* calls that wait for plugin_prepared(), with their requests */
	struct {
		struct grpc_in *call;
		struct buf request;
	} waiting[PLUGIN_WAITING_MAX];
	size_t n_waiting;
	/* the registration */
	struct grpc_async *registering;
	struct loop_timer *retry;
	struct backoff backoff;
	struct stat kubelet; /* kubelet.sock when it was registered; st_ino 0: it was not */
	bool was_reported;   /* ops->registered(true) */
	char sync_error[ERR_TEXT_MAX];
	struct device_plugin *next;
};

extern const struct grpc_method plugin_methods[];

/* Reads the resource's list; true: it differs from the last one. */
bool plugin_list_update(struct device_plugin *p);
/* NotifyRegistrationStatus, or the answer of Register; error "": the kubelet took it. */
void plugin_on_status(struct device_plugin *p, const char *error);
/* A ListAndWatch has begun, or the last one has ended. */
void plugin_on_stream(struct device_plugin *p);

#endif
