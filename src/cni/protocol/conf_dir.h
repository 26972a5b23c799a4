/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PROTOCOL_CONF_DIR_H
#define UNIRAIL_CNI_PROTOCOL_CONF_DIR_H

/*
 * Network configurations in CNI's folders: .conf, .json and .conflist, in the order of their names.
 * Where somebody else's files are looked through, those of Multus and unirail-cni themselves are
 * passed over, and what cannot be read is logged.
 */

#include "base/file.h"
#include "wire/json/json.h"

/* The first file of the folder whose network has this name. Kind ERR_CONF when there is none. */
int conf_dir_load(const struct root *r, const char *dir, const char *name, struct json_doc **ret,
		  struct err *e);
/* A file, or the first one of a folder. */
int conf_path_load(const struct root *r, const char *path, struct json_doc **ret, struct err *e);

#endif
