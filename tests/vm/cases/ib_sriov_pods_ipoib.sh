#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The case ib_sriov on a kernel that creates the netdev of an RDMA device in the namespace of the RDMA device (Linux 6.17 and later).
# shellcheck source=tests/vm/lib.sh
. /tests/lib.sh

pods_ipoib
# shellcheck source=tests/vm/cases/ib_sriov.sh
. /tests/cases/ib_sriov.sh
