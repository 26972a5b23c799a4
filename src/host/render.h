/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_RENDER_H
#define UNIRAIL_HOST_RENDER_H

/* Plans and rows as text for people and as JSON. */

#include "host/model/kind.h"

/* Writes each step, then the notes:
 *	addr ens1f0: mtu 1500 -> mtu 4200 (interrupts traffic)
 *	    ip link set dev ens1f0 mtu 4200
 */
void host_render_plan(const struct host_plan *p, struct buf *b);
/* {"steps": [{kind, subject, current, desired, command, interrupts, effect, blocked, action,
 *  undo}], "notes": [{kind, subject, text}]}; "blocked" and "undo" only in steps that have them. */
void host_render_plan_json(const struct host_plan *p, struct buf *b);
void host_render_rows(const struct host_rows *r, struct buf *b);
void host_render_rows_json(const struct host_rows *r, struct buf *b);

#endif
