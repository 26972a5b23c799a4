// SPDX-License-Identifier: Apache-2.0

// usage: device_go SOCKET COUNT ID...
// Allocate of the device plugin on SOCKET, COUNT times on one connection, one call at a time, by the client that a kubelet has:
// google.golang.org/grpc and k8s.io/kubelet's messages. Prints JSON: median and p99 in microseconds.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const warm = 100

func fail(err error) {
	fmt.Fprintln(os.Stderr, "device_go:", err)
	os.Exit(1)
}

func main() {
	if len(os.Args) < 4 {
		fail(fmt.Errorf("usage: device_go SOCKET COUNT ID..."))
	}
	count, err := strconv.Atoi(os.Args[2])
	if err != nil || count < 1 {
		fail(fmt.Errorf("COUNT is '%s', expected a positive number", os.Args[2]))
	}
	conn, err := grpc.NewClient("unix://"+os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"))
	if err != nil {
		fail(err)
	}
	defer conn.Close()
	client := v1beta1.NewDevicePluginClient(conn)
	request := &v1beta1.AllocateRequest{ContainerRequests: []*v1beta1.ContainerAllocateRequest{{DevicesIds: os.Args[3:]}}}
	took := make([]float64, 0, count)
	for i := range warm + count {
		began := time.Now()
		reply, err := client.Allocate(context.Background(), request)
		if err != nil {
			fail(err)
		}
		if len(reply.ContainerResponses) != 1 || len(reply.ContainerResponses[0].Devices) == 0 {
			fail(fmt.Errorf("Allocate has no device nodes: %v", reply))
		}
		if i >= warm {
			took = append(took, float64(time.Since(began).Nanoseconds())/1000)
		}
	}
	slices.Sort(took)
	fmt.Printf("{\"median\": %.1f, \"p99\": %.1f}\n", took[count/2], took[count*99/100])
}
