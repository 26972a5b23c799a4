/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_PLUGIN_MESSAGE_H
#define UNIRAIL_DEVICE_PLUGIN_MESSAGE_H

/*
 * The kubelet's messages as plain structs: v1beta1 and pluginregistration v1. Decoders return
 * -EBADMSG (ERR_DECODE) for bytes that are not a valid message and for a message that exceeds the
 * limits of plugin.h (length of an id, number of devices or containers); *ret is unchanged then.
 * Encoders append to a buffer; the caller checks that the buffer is not over its ceiling.
 */

#include "device/plugin/plugin.h"

struct message_ids {
	char **v;
	size_t n;
};

/* One container of an AllocateRequest, PreferredAllocationRequest or PreStartContainerRequest. */
struct message_container {
	/* devices_ids of an AllocateRequest or a PreStartContainerRequest; available_deviceIDs
	 * of a PreferredAllocationRequest */
	struct message_ids ids;
	struct message_ids must; /* must_include_deviceIDs */
	int64_t size;		 /* allocation_size */
};

struct message_request {
	struct message_container *v;
	size_t n;
};

void message_request_done(struct message_request *r);
#define auto_message_request __attribute__((cleanup(message_request_done)))

int message_allocate_decode(struct span m, struct message_request *ret, struct err *e);
int message_preferred_decode(struct span m, struct message_request *ret, struct err *e);
/* Decodes a PreStartContainer request; *ret has one container with its ids. */
int message_prestart_decode(struct span m, struct message_request *ret, struct err *e);
/* Decodes NotifyRegistrationStatus: *registered: whether the kubelet has accepted the registration;
 * *error: the reason why it has not; the caller frees it. */
int message_status_decode(struct span m, bool *registered, char **error, struct err *e);

void message_options_encode(bool prestart, bool preferred, struct buf *b);
void message_register_encode(const char *endpoint, const char *resource, bool prestart,
			     bool preferred, struct buf *b);
void message_info_encode(const char *resource, const char *endpoint, struct buf *b);
void message_list_encode(const struct device_plugin_list *l, struct buf *b);
/* Encodes one response per container, in the order of the request. */
void message_allocation_encode(const struct device_plugin_allocation *v, size_t n, struct buf *b);
void message_preferred_encode(const struct message_ids *v, size_t n, struct buf *b);

#endif
