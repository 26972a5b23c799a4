/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_SETTINGS_LAB_H
#define UNIRAIL_TESTS_SETTINGS_LAB_H

/* Checks for every table of settings. Include after cmocka. */

#include "server/settings.h"
#include "ipam_lab.h"

/* For settings_env.get: arg is a list of "NAME=value", ended by NULL. */
const char *settings_lab_env(void *arg, const char *name);
/* Returns the text of a file of the source tree, at most its first 65535 bytes. The caller
 * frees. */
char *settings_lab_text(const char *path);
/* Returns the content of the sample file `path`; fails the test unless the file has each key except
 * `config`, with its default. The caller frees. */
char *settings_lab_sample(const struct settings *s, const char *path);
/* Fails the test unless the generated reference has a row for each key, with its default, its
 * variables and whether it needs a restart. */
void settings_lab_reference(const struct settings *s);

#endif
