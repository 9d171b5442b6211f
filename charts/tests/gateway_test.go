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
	all := render(t, `
ipFamilies: [IPv6]
router:
  https: {gateways: true, redirect: true, hsts: max-age=60}
  http3: {enabled: true}
`)
	ports := fmt.Sprint(all.find(t, "Service/tenon-router").at("spec", "ports"))
	arguments := fmt.Sprint(all.find(t, "Deployment/tenon-router").at("spec", "template", "spec", "containers", 0, "args"))
	for _, port := range []string{"https", "http3"} {
		if !strings.Contains(ports, "name:"+port) {
			t.Errorf("the Service has no port %s: %s", port, ports)
		}
	}
	for _, argument := range []string{
		"--https-of-gateways", "--https-listen=[::]:8443", "--https-redirect=443", "--hsts=max-age=60", "--http3=443",
	} {
		if !strings.Contains(arguments, argument) {
			t.Errorf("routers have no argument %s: %s", argument, arguments)
		}
	}
	if strings.Contains(arguments, "--https-certificates") {
		t.Errorf("routers read certificates from files, but there are none: %s", arguments)
	}
}
