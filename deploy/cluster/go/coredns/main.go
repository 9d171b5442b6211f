// Command coredns is CoreDNS with the plugins for the names of a cluster. No plugin forwards
// queries: a name outside of the cluster is refused immediately, because the outside network is
// unreachable.
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
	// This is the order in which plugins process a query.
	dnsserver.Directives = []string{"health", "ready", "prometheus", "errors", "cache", "loadbalance", "kubernetes"}
	coremain.Run()
}
