/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_CODEC_H
#define UNIRAIL_BLOCK_CODEC_H

/*
 * Blocks and requests about them as JSON of the API server (deploy/crd.yaml). Node and pool names
 * are also labels, so that a node watches only its own blocks. If a name is too long for a label
 * value, the label is its beginning and a hash of the whole name.
 *
 * No string in a patch is empty, because API servers up to at least 1.20 read "" as null. An orphan
 * (a block without an owner) has node and claim "-" and no node label.
 */

#include "block/op.h"
#include "wire/json/json.h"

#define BLOCK_PATH "/apis/unirail.io/v1/spideripblocks"
enum { BLOCK_LABEL_MAX = 64 };

const char *block_label(const char *name, char ret[static BLOCK_LABEL_MAX]);

/* Reads a SpiderIPBlock. Kind ERR_CONF: the message names the wrong field. An entry of
 * spec.released whose key is not an address or whose value is not a string is an error: if it
 * were ignored, its address could be assigned twice. */
int block_object_read(const struct json *v, struct block_object *ret, struct err *e);

struct block_request {
	const char *method; /* HTTP method, "POST" "PATCH" "DELETE" "GET" */
	bool is_merge;	    /* "PATCH": the body is a merge patch, not a JSON patch */
	struct buf path, body;
};
/* Builds the HTTP request of op. node_uid: UID of this node's Node object. block_request_done()
 * frees path and body of the request. */
void block_request(const struct block_op *op, const char *node, const char *node_uid,
		   struct block_request *ret);
void block_request_done(struct block_request *q);
/* Maps an HTTP status to the outcome of the request; status 0: no answer. The caller passes 0 for a
 * 404 whose details do not name the object: such a 404 means that the resource type is missing, not
 * the object. */
enum block_outcome block_outcome_of(enum block_op_kind kind, int status);

#endif
