#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two nodes, a small subnet for each rail and node, a router between: ping and RDMA on every rail, along the pod's routes.
# shellcheck source=tests/vm/lib_nodes.sh
. /tests/lib_nodes.sh

rails_on
for i in 0 1; do
	ip address add "172.16.$((i + 1)).$((32 * (node - 1) + 2))/27" dev rail$i
done
fabric 1/27 33/27
both ready
attach exclusive
# shellcheck disable=SC2086,SC2154 # three addresses
case $(nth 2 $mine) in
172.16.1.?|172.16.1.[12]?|172.16.1.3[01]) same "the node to whose subnet the address belongs" "$node" 1 ;;
172.16.1.3[2-9]|172.16.1.[45]?|172.16.1.6[0-3]) same "the node to whose subnet the address belongs" "$node" 2 ;;
*) fail "no node has the subnet of '$mine'" ;;
esac
ping_all
rdma_write
verify_rails
cm_ping
detach
rails_off
