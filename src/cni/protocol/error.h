/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PROTOCOL_ERROR_H
#define UNIRAIL_CNI_PROTOCOL_ERROR_H

#include "base/err.h"

/*
 * Gives e the CNI code that another plugin answered with: cni_code() returns it again. Codes we
 * have a kind for become that kind, so those who look at kinds see them too.
 */
void cni_code_set(struct err *e, unsigned int code);

#endif
