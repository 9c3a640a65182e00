// Brokers of franz-go's kfake, one process in memory, until standard input ends; their addresses.
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	nodes, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(nodes), kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(1),
	)
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
	io.Copy(io.Discard, os.Stdin)
}
