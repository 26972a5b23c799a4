/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PROTOCOL_ERROR_H
#define UNIRAIL_CNI_PROTOCOL_ERROR_H

#include "base/err.h"

/*
 * Sets in e the CNI code that another plugin returned; cni_code() returns it again (999 for a code
 * above 65535). A code with an error class of unirail becomes that class, so that callers can test
 * for it.
 */
void cni_code_set(struct err *e, unsigned int code);

#endif
