package tests

import (
	"fmt"
	"strings"
	"testing"
)

func TestTheGatewayClassIsThatOfTheRouters(t *testing.T) {
	class := render(t, `gateway: {enabled: always, className: workers}`).find(t, "GatewayClass/workers")
	expect(t, "the controller", class.at("spec", "controllerName"), "tenon.dev/router")
	for _, values := range []string{``, `gateway: {enabled: never}`, `gateway: {enabled: always, className: ""}`} {
		if classes := render(t, values).kind("GatewayClass"); len(classes) != 0 {
			t.Errorf("with %q, there is a GatewayClass, but its kind may not exist", values)
		}
	}
}

func TestOperatorsServeGatewaysUnlessTheyAreDisabled(t *testing.T) {
	for values, want := range map[string]bool{``: true, `gateway: {enabled: always}`: true, `gateway: {enabled: never}`: false} {
		all := render(t, values)
		arguments := fmt.Sprint(all.find(t, "Deployment/tenon-operator").at("spec", "template", "spec", "containers", 0, "args"))
		rights := fmt.Sprint(all.find(t, "ClusterRole/tenon-operator").at("rules"))
		if strings.Contains(arguments, "--gateway-service=tenon-router") != want {
			t.Errorf("with %q, the operator's arguments are %s", values, arguments)
		}
		if strings.Contains(rights, "httproutes") != want {
			t.Errorf("with %q, the operator's rights are %s", values, rights)
		}
	}
}

func TestRoutersServeTheCertificatesOfGatewaysOnRequest(t *testing.T) {
	all := render(t, `router: {https: {gateways: true}}`)
	ports := fmt.Sprint(all.find(t, "Service/tenon-router").at("spec", "ports"))
	arguments := fmt.Sprint(all.find(t, "Deployment/tenon-router").at("spec", "template", "spec", "containers", 0, "args"))
	if !strings.Contains(ports, "https") || !strings.Contains(arguments, "--https-of-gateways") {
		t.Errorf("routers do not serve TLS: %s %s", ports, arguments)
	}
}
