/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DOCTOR_OBJECTS_H
#define UNIRAIL_DOCTOR_OBJECTS_H

/*
 * Kubernetes objects of manifests: YAML with several documents ("---"), JSON, and Lists of objects.
 * Each object has the file and the line where its YAML document begins, for messages.
 */

#include "base/buf.h"
#include "base/err.h"
#include "wire/json/json.h"

enum { OBJECTS_TEXT_MAX = 16 << 20, OBJECTS_MAX = 1 << 16 };

struct object {
	/* file and line such as "pools.yaml:12"; in a List "pools.yaml:1 items[3]" */
	char *origin;
	const struct json *v; /* borrowed from objects.docs */
	/* never NULL. ns: the namespace in the manifest, otherwise default_ns of objects_read(); ""
	 * for cluster-wide kinds */
	const char *kind, *ns, *name;
};

struct objects {
	/* objects in the order of the files; after objects_sort() sorted by kind, ns and name */
	struct object *v;
	size_t n;
	struct json_doc **docs;
	size_t n_docs;
};

/*
 * Adds the objects of a text. `name`: name of the file; default_ns: namespace of namespaced objects
 * that have none. An error of kind ERR_DECODE names file and line: "pools.yaml:3:14: ...". Objects
 * that were read before the error stay.
 */
int objects_read(struct objects *l, const char *name, const char *default_ns, struct span text,
		 struct err *e);
void objects_sort(struct objects *l);
/* Binary search in a sorted list; ns "" for cluster-wide kinds. NULL: there is none. */
const struct object *objects_find(const struct objects *l, const char *kind, const char *ns,
				  const char *name);
/* Returns the first object of one kind in a sorted list (NULL: there is none), and sets *n to
 * the number of objects of this kind, which follow each other. */
const struct object *objects_kind(const struct objects *l, const char *kind, size_t *n);
void objects_done(struct objects *l);
#define auto_objects __attribute__((cleanup(objects_done)))

#endif
