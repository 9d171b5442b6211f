package tests

import (
	"fmt"
	"strings"
	"testing"
)

const scc = "security.openshift.io/v1"

func TestOpenShiftIsDetected(t *testing.T) {
	for _, test := range []struct {
		values    string
		apis      []string
		openshift bool
	}{
		{``, nil, false},
		{``, []string{scc}, true},
		{`openshift: enabled`, nil, true},
		{`openshift: disabled`, []string{scc}, false},
	} {
		rendered, err := renderOn(load(t, platform), test.values, test.apis...)
		if err != nil {
			t.Fatal(err)
		}
		all := parse(t, rendered)
		operator := all.pod(t, "Deployment/tenon-operator")
		if got := contains(operator.args(), "--node-user-assigned"); got != test.openshift {
			t.Errorf("%q with the APIs %v: the cluster assigns the users of nodes: %v", test.values, test.apis, got)
		}
		for _, pod := range all.pods() {
			for _, field := range []string{"runAsUser", "runAsGroup", "fsGroup"} {
				if got := at(pod.spec, "securityContext", field) == nil; got != test.openshift {
					t.Errorf("%q with the APIs %v: %s has no %s: %v", test.values, test.apis, pod.owner, field, got)
				}
			}
		}
		rules := fmt.Sprint(all.find(t, "ClusterRole/tenon-operator").at("rules"))
		if got := strings.Contains(rules, "workers/finalizers"); got != test.openshift {
			t.Errorf("%q with the APIs %v: the operator has rights on finalizers: %v", test.values, test.apis, got)
		}
	}
}

// OpenShift's DNS Pods listen on 5353, not on their Service's 53. A network policy applies to the
// Pods' port.
func TestRestrictedNodesReachTheDNSOfOpenShift(t *testing.T) {
	egress := render(t, variety["openshift"]).find(t, "NetworkPolicy/tenon-runtime-node").at("spec", "egress", 0)
	expect(t, "the rule for DNS", egress, `
ports:
  - {port: 53, protocol: UDP}
  - {port: 53, protocol: TCP}
  - {port: 5353, protocol: UDP}
  - {port: 5353, protocol: TCP}`)
}

func TestEveryServiceWithClientsHasTheFamilies(t *testing.T) {
	all := render(t, `{ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv6, IPv4], metrics: {serviceMonitor: {enabled: true}}}`)
	services := all.kind("Service")
	if len(services) != 7 {
		t.Fatalf("got the Services %v, want 7", services)
	}
	for _, service := range services {
		// With two families, Prometheus would scrape each Pod twice, once at each address.
		if strings.HasSuffix(service.GetName(), "-metrics") {
			expect(t, service.String(), service.at("spec", "ipFamilyPolicy"), "null")
			continue
		}
		expect(t, service.String(), service.at("spec", "ipFamilyPolicy"), "PreferDualStack")
		expect(t, service.String(), service.at("spec", "ipFamilies"), "[IPv6, IPv4]")
	}
	args := all.pod(t, "Deployment/tenon-operator").args()
	for _, arg := range []string{"--front-ip-family-policy=PreferDualStack", "--front-ip-families=IPv6,IPv4"} {
		if !contains(args, arg) {
			t.Errorf("the Services of fronts lack %s: %v", arg, args)
		}
	}
	for _, service := range render(t, ``).kind("Service") {
		if service.at("spec", "ipFamilyPolicy") != nil || service.at("spec", "ipFamilies") != nil {
			t.Errorf("%s has families, although none are set", service)
		}
	}
}

func TestProcessesListenOnIPv6IfServicesMayHaveIt(t *testing.T) {
	for values, want := range map[string]bool{
		``: false, `ipFamilies: [IPv4]`: false, `ipFamilyPolicy: SingleStack`: false,
		`ipFamilies: [IPv6]`: true, `ipFamilyPolicy: PreferDualStack`: true, `ipFamilyPolicy: RequireDualStack`: true,
	} {
		all := render(t, set(t, values, "router.https.secrets", "[shop-tls]"))
		for component, ports := range map[string]string{"operator": "7070 9090", "router": "8080 8443 8081 9090"} {
			pod := all.pod(t, "Deployment/tenon-"+component)
			for _, port := range strings.Fields(ports) {
				if got := contains(pod.args(), `--[a-z-]*listen=\[::\]:`+port); got != want {
					t.Errorf("%q: %s listens on IPv6 at port %s: %v, want %v", values, component, port, got, want)
				}
			}
		}
		if got := contains(all.pod(t, "Deployment/tenon-operator").args(), "--node-listen-ip=::"); got != want {
			t.Errorf("%q: nodes listen on IPv6: %v, want %v", values, got, want)
		}
	}
}

func TestExtraObjectsAreTemplates(t *testing.T) {
	all := render(t, `
extraObjects:
  - apiVersion: v1
    kind: ConfigMap
    metadata: {name: "{{ .Release.Name }}-map", namespace: "{{ .Release.Namespace }}"}
  - |
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: text
      labels:
        {{- include "tenon.labels" (list $ "operator") | nindent 4 }}`)
	expanded := all.find(t, "ConfigMap/"+release+"-map")
	expect(t, "the namespace", expanded.GetNamespace(), namespace)
	text := all.find(t, "ConfigMap/text")
	expect(t, "the label", text.GetLabels()["app.kubernetes.io/part-of"], "tenon")
}
