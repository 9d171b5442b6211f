package tests

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The tests on a control plane apply the golden file.
func TestPoliciesMatchTheGoldenFile(t *testing.T) {
	text := "# The policies that the chart renders to with its default values, made by `make charts`.\n"
	all := render(t, ``)
	for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
		for _, policy := range all.kind(kind) {
			policy.SetLabels(nil)
			object, err := yaml.Marshal(policy.Object)
			if err != nil {
				t.Fatal(err)
			}
			text += "---\n" + string(object)
		}
	}
	golden(t, "testdata/admission.yaml", text)
}

func TestEveryPolicyIsBoundAndDenies(t *testing.T) {
	for name, values := range variety {
		all := render(t, values)
		policies := all.kind("ValidatingAdmissionPolicy")
		if enabled := name != "minimal"; enabled != (len(policies) > 0) {
			t.Errorf("%s: there are %d policies", name, len(policies))
		}
		for _, policy := range policies {
			binding := all.find(t, "ValidatingAdmissionPolicyBinding/"+policy.GetName())
			expect(t, binding.String(), binding.at("spec", "policyName"), policy.GetName())
			expect(t, binding.String(), binding.at("spec", "validationActions"), "[Deny]")
			if has := binding.at("spec", "paramRef") != nil; has != (policy.at("spec", "paramKind") != nil) {
				t.Errorf("%s: %s has parameters: %v", name, binding, has)
			}
			for _, validation := range items(policy.at("spec", "validations")) {
				field, rest, ok := strings.Cut(fmt.Sprint(at(validation, "message")), ": ")
				if _, remedy, has := strings.Cut(rest, "; "); !ok || !has || remedy == "" || strings.Contains(field, " ") {
					t.Errorf("%s: the message names no field or no remedy: %v", policy, validation)
				}
			}
		}
	}
}

// A failure of a policy that only repeats a decision of the operator must not keep tenants from
// deploying.
func TestOnlyThePolicyOfTheOperatorFailsClosed(t *testing.T) {
	for _, policy := range render(t, ``).kind("ValidatingAdmissionPolicy") {
		want := "Ignore"
		if policy.GetName() == "tenon-operator-secrets" {
			want = "Fail"
		}
		expect(t, policy.String(), policy.at("spec", "failurePolicy"), want)
	}
}

func TestPoliciesNameTheDomainAndTheNamespace(t *testing.T) {
	all := render(t, `domain: workers.example.com`)
	for name, text := range map[string]string{
		"tenon-routes":           "'.workers.example.com'",
		"tenon-grants":           "'.workers.example.com'",
		"tenon-pools":            "request.namespace == '" + namespace + "'",
		"tenon-operator-secrets": "system:serviceaccount:" + namespace + ":tenon-operator",
	} {
		policy := all.find(t, "ValidatingAdmissionPolicy/"+name)
		if spec := fmt.Sprint(policy.at("spec")); !strings.Contains(spec, text) {
			t.Errorf("%s lacks %s: %s", policy, text, spec)
		}
	}
}

func TestOperatorsThatIssueNoCertificatesWriteNoSecrets(t *testing.T) {
	all := render(t, ownSecrets)
	if all.has("ValidatingAdmissionPolicy/tenon-operator-secrets") {
		t.Error("there is a policy for Secrets that the operator may not write")
	}
}
