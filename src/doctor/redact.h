/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DOCTOR_REDACT_H
#define UNIRAIL_DOCTOR_REDACT_H

/*
 * Removes secrets from files of a snapshot: the value of each key whose name suggests a secret
 * (token, password, secret, credential, private, auth, certificate ...), and each value that looks
 * like a PEM block, a JWT or a URL with a password, becomes "(left out)". Booleans of JSON are
 * retained.
 */

#include "base/buf.h"

#define REDACTED "(left out)"

/* Prints a JSON document without its secrets. -EINVAL: it is not valid JSON or larger than 1
 * MiB, and nothing is written. */
int redact_json(struct span text, struct buf *b);
/*
 * Prints a text of lines "key = value" or "key: value", also within "name: {key: value}", without
 * its secrets. A value extends to the end of the line, or consists of the following lines that are
 * indented further than the key's line ("password: |" of YAML).
 */
void redact_lines(struct span text, struct buf *b);
/* Prints words "key=value", as of a kernel command line, without secrets; a value in double quotes
 * may have blanks. */
void redact_cmdline(struct span text, struct buf *b);

#endif
