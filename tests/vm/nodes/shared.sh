#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two nodes, one shared subnet per rail: the nodes' pods reach each other on every rail, by ping and by RDMA.
# shellcheck source=tests/vm/lib_nodes.sh
. /tests/lib_nodes.sh

rails_on
for i in 0 1; do
	ip address add "172.16.$((i + 1)).$((node + 1))/24" dev rail$i
done
fabric 1/24
both ready
attach shared
ping_all
rdma_write
verify_rails
cm_ping
detach
rails_off
