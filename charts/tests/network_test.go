package tests

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// podsByComponent returns the Pods of a release by component, and an unrelated Pod as "stranger".
func podsByComponent(t *testing.T, all objects) map[string]pod {
	t.Helper()
	pods := map[string]pod{"stranger": {owner: "stranger", labels: map[string]any{"app": "stranger"}}}
	for _, pod := range all.pods() {
		pods[fmt.Sprint(pod.labels["app.kubernetes.io/component"])] = pod
	}
	pods["runtime-node"] = nodePod(t)
	return pods
}

// nodePod returns the part of a node's Pod that the chart depends on. The operator creates the Pod,
// and a test of operator/src/pool/plan.rs compares the golden file with the Pod.
func nodePod(t *testing.T) pod {
	t.Helper()
	labels, ports := map[string]any{}, []any{}
	for line := range strings.Lines(read(t, "testdata/node-pod.txt")) {
		var kind, name, value string
		if _, err := fmt.Sscan(line, &kind, &name, &value); err != nil {
			t.Fatalf("node-pod.txt: %q: %v", line, err)
		}
		switch kind {
		case "label":
			labels[name] = value
		case "port":
			number, err := strconv.ParseInt(value, 10, 32)
			if err != nil {
				t.Fatalf("node-pod.txt: %q: %v", line, err)
			}
			ports = append(ports, map[string]any{"name": name, "containerPort": number})
		default:
			t.Fatalf("node-pod.txt: unknown kind %q", kind)
		}
	}
	return pod{
		owner:  "RuntimePool/default",
		labels: labels,
		spec:   map[string]any{"containers": []any{map[string]any{"ports": ports}}},
	}
}

// selects reports whether a label selector selects a Pod.
func selects(selector any, labels map[string]any) bool {
	matchLabels, _ := at(selector, "matchLabels").(map[string]any)
	for label, value := range matchLabels {
		if labels[label] != value {
			return false
		}
	}
	for _, expression := range items(at(selector, "matchExpressions")) {
		key, _ := at(expression, "key").(string)
		if at(expression, "operator") != "In" || !slices.Contains(items(at(expression, "values")), labels[key]) {
			return false
		}
	}
	return true
}

// number returns the number of the container port that a policy or a Service refers to by number or
// name, or 0 if the Pod has no such port.
func (p pod) number(port any) int64 {
	name, named := port.(string)
	for _, own := range items(p.container()["ports"]) {
		number := toInt(at(own, "containerPort"))
		if named && at(own, "name") == name || !named && number == toInt(port) {
			return number
		}
	}
	return 0
}

func toInt(value any) int64 {
	switch value := value.(type) {
	case int64:
		return value
	case float64:
		return int64(value)
	}
	return 0
}

// admits reports whether the policies allow a Pod of the namespace to reach a port of another Pod.
func admits(all objects, to pod, number int64, from pod) bool {
	selected := false
	for _, policy := range all.kind("NetworkPolicy") {
		if !selects(policy.at("spec", "podSelector"), to.labels) {
			continue
		}
		selected = true
		for _, rule := range items(policy.at("spec", "ingress")) {
			if matchesPort(to, rule, number) && matchesPeer(at(rule, "from"), from) {
				return true
			}
		}
	}
	return !selected
}

func matchesPort(to pod, rule any, number int64) bool {
	for _, port := range items(at(rule, "ports")) {
		first := to.number(at(port, "port"))
		last := max(first, toInt(at(port, "endPort")))
		if first <= number && number <= last {
			return true
		}
	}
	return false
}

func matchesPeer(peers any, from pod) bool {
	if peers == nil {
		return true
	}
	for _, peer := range items(peers) {
		if selector := at(peer, "podSelector"); selector != nil && selects(selector, from.labels) {
			return true
		}
	}
	return false
}

func TestEachPortAdmitsOnlyItsPeers(t *testing.T) {
	all := render(t, ``)
	pods := podsByComponent(t, all)
	ports := map[string]map[int64]string{
		"operator":     {7070: "router runtime-node", 9090: "all"},
		"router":       {8080: "all", 8081: "operator runtime-node", 9090: "all"},
		"runtime-node": {7100: "router", 7163: "router", 7171: "router", 9090: "all"},
	}
	for to, ports := range ports {
		for port, allowed := range ports {
			if pods[to].number(port) == 0 {
				t.Errorf("%s has no port %d", to, port)
			}
			for from, pod := range pods {
				want := allowed == "all" || slices.Contains(strings.Fields(allowed), from)
				if got := admits(all, pods[to], port, pod); got != want {
					t.Errorf("%s may reach port %d of %s: %v, want %v", from, port, to, got, want)
				}
			}
		}
	}
}

func TestPublicAndAdminPortsCanBeRestricted(t *testing.T) {
	all := render(t, `
networkPolicy:
  clientsFrom: [{podSelector: {matchLabels: {app: ingress}}}]
  metricsFrom: [{podSelector: {matchLabels: {app: prometheus}}}]`)
	pods := podsByComponent(t, all)
	pods["ingress"] = pod{labels: map[string]any{"app": "ingress"}}
	pods["prometheus"] = pod{labels: map[string]any{"app": "prometheus"}}
	for from, pod := range pods {
		// `helm test` is a client.
		if got := admits(all, pods["router"], 8080, pod); got != (from == "ingress" || from == "probe") {
			t.Errorf("%s may reach the public port: %v", from, got)
		}
		for _, to := range []string{"operator", "router", "runtime-node"} {
			if got := admits(all, pods[to], 9090, pod); got != (from == "prometheus") {
				t.Errorf("%s may reach the admin port of %s: %v", from, to, got)
			}
		}
	}
}

func TestNodeEgressIsOpenUnlessRestricted(t *testing.T) {
	policy := func(values string) object {
		return render(t, values).find(t, "NetworkPolicy/tenon-runtime-node")
	}
	expect(t, "the default policyTypes", policy(``).at("spec", "policyTypes"), `[Ingress]`)
	restricted := policy(`networkPolicy: {nodeEgress: {restrict: true, to: [{ipBlock: {cidr: 192.0.2.0/24}}]}}`)
	expect(t, "the restricted policyTypes", restricted.at("spec", "policyTypes"), `[Ingress, Egress]`)
	egress := items(restricted.at("spec", "egress"))
	if len(egress) != 4 {
		t.Fatalf("the policy has %d egress rules, want 4", len(egress))
	}
	expect(t, "the rule for DNS", egress[0], `
ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]`)
	all := render(t, ``)
	for i, to := range map[int]string{1: "operator", 2: "router"} {
		selector := at(egress[i], "to", 0, "podSelector")
		pod := all.pod(t, "Deployment/tenon-"+to)
		if !selects(selector, pod.labels) || pod.number(at(egress[i], "ports", 0, "port")) == 0 {
			t.Errorf("nodes cannot reach the %s: %v", to, egress[i])
		}
	}
	expect(t, "the rule for `to`", egress[3], `to: [{ipBlock: {cidr: 192.0.2.0/24}}]`)
}

func TestServicesTargetExistingPorts(t *testing.T) {
	for name, values := range variety {
		all := render(t, values)
		public, metrics := "Deployment/tenon-router:8080 ", ""
		if name == "everything" || name == "dual stack" {
			public += "Deployment/tenon-router:8443 "
		}
		if name == "everything" {
			public += "Deployment/tenon-router:8443/UDP "
		}
		if name == "a service monitor" {
			metrics = `
tenon-operator-metrics: "Deployment/tenon-operator:9090 "
tenon-router-metrics: "Deployment/tenon-router:9090 "
tenon-runtime-node-metrics: "RuntimePool/default:9090 "`
		}
		targets := map[string]string{}
		for _, service := range all.kind("Service") {
			for _, pod := range append(all.pods(), nodePod(t)) {
				if !selects(map[string]any{"matchLabels": service.at("spec", "selector")}, pod.labels) {
					continue
				}
				for _, port := range items(service.at("spec", "ports")) {
					protocol, _ := at(port, "protocol").(string)
					if protocol != "" {
						protocol = "/" + protocol
					}
					targets[service.GetName()] += fmt.Sprintf("%s:%d%s ", pod.owner, pod.number(at(port, "targetPort")), protocol)
				}
			}
		}
		expect(t, "the targets of Services", targets, fmt.Sprintf(`
tenon-operator: "Deployment/tenon-operator:7070 "
tenon-operator-starting: "Deployment/tenon-operator:7070 "
tenon-router: %q
tenon-router-inner: "Deployment/tenon-router:8081 "%s`, public, metrics))
	}
}

func TestInternalListenerIsNeverExposed(t *testing.T) {
	for _, kind := range []string{"NodePort", "LoadBalancer"} {
		all := render(t, fmt.Sprintf("router: {service: {type: %s, nodePort: 30080}}", kind))
		if got := all.find(t, "Service/tenon-router").at("spec", "type"); got != kind {
			t.Errorf("the public Service is of type %v, want %s", got, kind)
		}
		if got := toInt(all.find(t, "Service/tenon-router").at("spec", "ports", 0, "nodePort")); got != 30080 {
			t.Errorf("the node port is %v, want 30080", got)
		}
		if got := all.find(t, "Service/tenon-router-inner").at("spec", "type"); got != nil {
			t.Errorf("the internal Service is of type %v, want no type", got)
		}
	}
}
