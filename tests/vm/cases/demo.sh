#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `unirail demo` with both plans on a distribution's kernel.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

unirail demo
unirail demo --rails 2 --plan exclusive
same "namespaces left" "$(ip netns list)" ""
