// Command coredns is CoreDNS with the plugins that a cluster's own names need. There is none that forwards: a name outside
// the cluster is refused at once, because nothing in here reaches the network outside.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	// The order in which a query passes through the plugins.
	dnsserver.Directives = []string{"health", "ready", "prometheus", "errors", "cache", "loadbalance", "kubernetes"}
	coremain.Run()
}
