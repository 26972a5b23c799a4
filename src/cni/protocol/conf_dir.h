/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PROTOCOL_CONF_DIR_H
#define UNIRAIL_CNI_PROTOCOL_CONF_DIR_H

/*
 * Network configurations in CNI directories: .conf, .json and .conflist files, sorted by name. A
 * search of a directory skips the configurations of multus, multus-shim and unirail-cni. It logs
 * and skips files that cannot be read or parsed.
 */

#include "base/file.h"
#include "wire/json/json.h"

/* Loads the first file in the directory that has a network configuration of this name. Error
 * kind ERR_CONF if there is none. */
int conf_dir_load(const struct root *r, const char *dir, const char *name, struct json_doc **ret,
		  struct err *e);
/* Loads the file `path` or, if `path` is a directory, the first network configuration in it. */
int conf_path_load(const struct root *r, const char *path, struct json_doc **ret, struct err *e);

#endif
