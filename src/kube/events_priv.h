/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_EVENTS_PRIV_H
#define UNIRAIL_KUBE_EVENTS_PRIV_H

/* What events.c and events.c share; not for other folders. */

#include "kube/events.h"

enum { KUBE_EVENTS_SEEN = 256, KUBE_EVENTS_WAITING = 64 };

#endif
