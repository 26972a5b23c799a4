// SPDX-License-Identifier: Apache-2.0
// The gRPC client that a kubelet has, for tests/bench/device: every module by version, go.sum has their checksums.
module unirail/tests/bench/device_go

go 1.26.0

require (
	google.golang.org/grpc v1.79.3
	k8s.io/kubelet v0.34.9
)

require (
	golang.org/x/net v0.48.0 // indirect
	golang.org/x/sys v0.39.0 // indirect
	golang.org/x/text v0.32.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20251202230838-ff82c1b0f217 // indirect
	google.golang.org/protobuf v1.36.10 // indirect
)
