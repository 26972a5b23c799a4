/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_WEBHOOK_REVIEW_PRIV_H
#define UNIRAIL_CONTROLLER_WEBHOOK_REVIEW_PRIV_H

/* Between review.c, review.c and reviews.c. */

#include "controller/webhook/review.h"

enum { REVIEW_TEXT_MAX = 2048 };

struct review_cause {
	enum review_fault fault;
	char *field, *text;
};

#endif
