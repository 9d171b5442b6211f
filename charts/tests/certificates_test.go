package tests

import (
	"fmt"
	"strings"
	"testing"
)

// secrets returns the names of the Secrets with the processes' certificates, by component.
func secrets(t *testing.T, all objects) map[string]string {
	t.Helper()
	secretOf := map[string]string{}
	for _, component := range []string{"operator", "router"} {
		pod := all.pod(t, "Deployment/tenon-"+component)
		secret := named(pod.spec["volumes"], "tls", "secret", "secretName")
		if secret == nil {
			continue
		}
		secretOf[component] = fmt.Sprint(secret)
		mounted := named(pod.container()["volumeMounts"], "tls", "mountPath")
		if mounted != "/etc/tenon/tls" || !contains(pod.args(), "--tls-dir=/etc/tenon/tls") {
			t.Errorf("%s does not mount its certificate: %v", component, pod.args())
		}
	}
	for _, arg := range all.pod(t, "Deployment/tenon-operator").args() {
		if secret, ok := strings.CutPrefix(arg, "--node-tls-secret="); ok {
			secretOf["runtime-node"] = secret
		}
	}
	return secretOf
}

// named returns the value at a path in the item of that name, or nil.
func named(list any, name string, path ...any) any {
	for _, item := range items(list) {
		if at(item, "name") == name {
			return at(item, path...)
		}
	}
	return nil
}

func TestOperatorIssuesCertificates(t *testing.T) {
	all := render(t, ``)
	// The operator chooses the Secret of each pool.
	expect(t, "the Secrets of the certificates", secrets(t, all), `router: tenon-router-tls`)
	args := all.pod(t, "Deployment/tenon-operator").args()
	for _, arg := range []string{"--self-signed", "--deployment=tenon-operator", "--authority-lifetime=3650d", "--certificate-lifetime=90d"} {
		if !contains(args, arg) {
			t.Errorf("the operator lacks the argument %s: %v", arg, args)
		}
	}
}

func TestCertManagerIssuesCertificates(t *testing.T) {
	all := render(t, `certificates: {mode: certManager, certManager: {duration: 24h, renewBefore: 8h}}`)
	secretOf := secrets(t, all)
	expect(t, "the Secrets of the certificates", secretOf, `
operator: tenon-operator-tls
router: tenon-router-tls
runtime-node: tenon-runtime-node-tls`)
	if args := all.pod(t, "Deployment/tenon-operator").args(); contains(args, "--self-signed") {
		t.Errorf("the operator has the argument --self-signed: %v", args)
	}
	for role, secret := range secretOf {
		expect(t, "the certificate of "+role, all.find(t, "Certificate/tenon-"+role).at("spec"), fmt.Sprintf(`
secretName: %s
dnsNames: [%s.tenon.internal]
usages: [digital signature, server auth, client auth]
duration: 24h
renewBefore: 8h
privateKey: {algorithm: ECDSA, size: 256, encoding: PKCS8, rotationPolicy: Always}
issuerRef: {name: tenon-ca, kind: Issuer, group: cert-manager.io}`, secret, role))
	}
	// The chart's own authority: a self-signed issuer signs the certificate of the other issuer.
	authority := all.find(t, "Certificate/tenon-ca")
	all.find(t, "Issuer/"+fmt.Sprint(authority.at("spec", "issuerRef", "name")))
	expect(t, "the issuer", all.find(t, "Issuer/tenon-ca").at("spec", "ca", "secretName"), fmt.Sprint(authority.at("spec", "secretName")))
	if authority.at("spec", "isCA") != true {
		t.Error("the certificate of the authority is not a CA certificate")
	}
}

func TestExistingIssuerNeedsNoAuthority(t *testing.T) {
	all := render(t, variety["an issuer"])
	if issuers := all.kind("Issuer"); len(issuers) != 0 || all.has("Certificate/tenon-ca") {
		t.Errorf("an authority was created: %v", issuers)
	}
	for _, certificate := range all.kind("Certificate") {
		expect(t, "the issuer of "+certificate.String(), certificate.at("spec", "issuerRef"), `
{name: corporate, kind: ClusterIssuer, group: cert-manager.io}`)
	}
}

func TestExistingSecretsAreUsedUnchanged(t *testing.T) {
	all := render(t, variety["own secrets"])
	expect(t, "the Secrets of the certificates", secrets(t, all), `{operator: one, router: two, runtime-node: three}`)
	if args := all.pod(t, "Deployment/tenon-operator").args(); contains(args, "--self-signed") {
		t.Errorf("the operator has the argument --self-signed: %v", args)
	}
	for _, rule := range items(all.find(t, "Role/tenon-operator").at("rules")) {
		if fmt.Sprint(at(rule, "resources")) == "[secrets]" {
			t.Errorf("the operator may write Secrets: %v", rule)
		}
	}
}

func TestExistingSecretsOfNodesMayDifferByPool(t *testing.T) {
	all := render(t, set(t, ownSecrets, "certificates.existingSecret.runtimeNode", `"nodes-of-{pool}"`))
	expect(t, "the Secret of the nodes", secrets(t, all)["runtime-node"], `"nodes-of-{pool}"`)
}
