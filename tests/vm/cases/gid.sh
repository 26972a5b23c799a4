#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A macvlan rail in shared mode: the NIC's RDMA device has a GID of the rail's address until DEL.
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

ip link add rail0 type veth peer name sw0
ip link set rail0 up
ip link set sw0 up
rdma link add rxe0 type rxe netdev rail0
ip netns add pod
conf='{"cniVersion": "1.0.0", "name": "net", "type": "macvlan", "master": "rail0", "mode": "bridge",
	"ipam": {"type": "static", "addresses": [{"address": "172.16.1.20/24"}]}}'
has_no_gid rxe0 172.16.1.20 || fail "the GID exists before ADD"
add macvlan pod net1 "$conf"
until_true has_gid rxe0 172.16.1.20
ip netns exec pod ibv_devinfo -d rxe0 -v | grep -i gid
ip netns exec pod unirail rdma list
same "GIDs" "$(unirail rdma list -o json | jq '.[0].ports[0].gids')" \
	"$(ibv_devinfo -d rxe0 -v | grep -c 'GID\[')"
delete macvlan pod net1 "$conf"
until_true has_no_gid rxe0 172.16.1.20
rdma link del rxe0
ip link del rail0
