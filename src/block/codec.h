/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BLOCK_CODEC_H
#define UNIRAIL_BLOCK_CODEC_H

/*
 * Blocks and requests about them as the API server's JSON (deploy/crd.yaml). Names of
 * nodes and pools are labels as well, so that a node watches its own blocks only; a name that is too
 * long for a label's value is cut and has its hash.
 *
 * No text of a patch is empty: API servers up to 1.20 at least take "" for null. A block that is
 * nobody's has the node and claim "-" and no label of a node.
 */

#include "block/op.h"
#include "wire/json/json.h"

#define BLOCK_PATH	 "/apis/unirail.io/v1/spideripblocks"
#define BLOCK_NODE_LABEL "unirail.io/node"
/* An annotation: when the owner's agent saw that the API server's data was set back. */
#define BLOCK_SET_BACK_NOTE "unirail.io/set-back"
#define BLOCK_POOL_LABEL    "unirail.io/pool"
enum { BLOCK_LABEL_MAX = 64 };

const char *block_label(const char *name, char ret[static BLOCK_LABEL_MAX]);

/* A SpiderIPBlock; what is wrong names the field, kind ERR_CONF. Entries that no release of this
 * format wrote are an error: to go on without one could hand its address out twice. */
int block_object_read(const struct json *v, struct block_object *ret, struct err *e);

struct block_request {
	const char *method; /* "POST" "PATCH" "DELETE" "GET" */
	const char *type;   /* of the body; NULL: none */
	struct buf path, body;
};
/* node_uid: of the Node object. Both buffers are made here, for block_request_done(). */
void block_request(const struct block_op *op, const char *node, const char *node_uid,
		   struct block_request *ret);
void block_request_done(struct block_request *q);
/* What an answer's status means for the request; 0: none came. A 404 without the object's name in its
 * details is about the kind, not the object: pass 0. */
enum block_outcome block_outcome_of(enum block_op_kind kind, int status);

#endif
