/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DOCTOR_REDACT_H
#define UNIRAIL_DOCTOR_REDACT_H

/*
 * What must not leave the host, taken out of its files: the value of each key whose name sounds
 * like a secret (token, password, secret, credential, private, auth, certificate ...), and each
 * value that looks like a PEM block or a JWT, becomes "(left out)".
 */

#include "base/buf.h"

#define REDACTED "(left out)"

bool redact_is_secret_key(struct span key);
bool redact_is_secret_value(struct span value);
/* A JSON document, printed anew; -EINVAL: it is none (and nothing of it is taken). */
int redact_json(struct span text, struct buf *b);
/* Lines of "key = value" or "key: value": the value goes up to the end of the line. */
void redact_lines(struct span text, struct buf *b);
/* "key=value" words with blanks between them, as on a kernel's command line. */
void redact_words(struct span text, struct buf *b);

#endif
