package tests

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The golden file has one line for each resource of each rule, so that a review shows which rights
// change.
func TestRightsMatchTheGoldenFile(t *testing.T) {
	table := ""
	for _, name := range []string{"defaults", "everything"} {
		all := render(t, variety[name])
		table += "# With the values \"" + name + "\".\n"
		for _, kind := range []string{"ClusterRole", "Role"} {
			for _, role := range all.kind(kind) {
				for _, rule := range items(role.at("rules")) {
					for _, resource := range items(at(rule, "resources")) {
						group := fmt.Sprint(at(rule, "apiGroups", 0))
						names := ""
						if some := items(at(rule, "resourceNames")); some != nil {
							names = " " + fmt.Sprint(some)
						}
						table += strings.TrimSpace(fmt.Sprintf("%s: %v.%s%s: %v", role, resource, group, names, at(rule, "verbs"))) + "\n"
					}
				}
			}
		}
	}
	golden(t, "testdata/rbac.txt", table)
}

func TestNoRuleHasAWildcard(t *testing.T) {
	for _, values := range variety {
		for _, role := range append(render(t, values).kind("ClusterRole"), render(t, values).kind("Role")...) {
			for _, rule := range items(role.at("rules")) {
				for _, field := range []string{"apiGroups", "resources", "verbs"} {
					if strings.Contains(fmt.Sprint(at(rule, field)), "*") {
						t.Errorf("%s has a rule with a wildcard: %v", role, rule)
					}
				}
				if groups := items(at(rule, "apiGroups")); len(groups) != 1 {
					t.Errorf("%s has a rule with %d API groups, want 1: %v", role, len(groups), rule)
				}
			}
		}
	}
}

func TestEveryOperatorRuleNamesTheFileThatNeedsIt(t *testing.T) {
	file := regexp.MustCompile(`operator/src/[a-z_/]+\.rs`)
	named := false
	for _, line := range strings.Split(read(t, platform+"/templates/operator/rbac.yaml"), "\n") {
		switch line = strings.TrimSpace(line); {
		case line == "rules:":
			named = false
		case strings.HasPrefix(line, "#"):
			// A comment applies to all rules up to the next comment.
			paths := file.FindAllString(line, -1)
			named = len(paths) > 0
			for _, path := range paths {
				if _, err := os.Stat("../../" + path); err != nil {
					t.Errorf("a comment names %s, which does not exist", path)
				}
			}
		case strings.HasPrefix(line, "- apiGroups") && !named:
			t.Errorf("the comment above a rule names no file: %s", line)
		}
	}
}

func TestBindingsBindTheirOwnServiceAccount(t *testing.T) {
	for _, values := range variety {
		all := render(t, values)
		for _, binding := range append(all.kind("ClusterRoleBinding"), all.kind("RoleBinding")...) {
			all.find(t, fmt.Sprintf("%v/%v", binding.at("roleRef", "kind"), binding.at("roleRef", "name")))
			expect(t, "the subjects of "+binding.String(), binding.at("subjects"), fmt.Sprintf(
				"[{kind: ServiceAccount, name: %s, namespace: %s}]", binding.GetName(), namespace))
		}
	}
}

func TestRoutersAndNodesHaveNoRights(t *testing.T) {
	all := render(t, ``)
	for _, binding := range append(all.kind("ClusterRoleBinding"), all.kind("RoleBinding")...) {
		for _, subject := range items(binding.at("subjects")) {
			if name := at(subject, "name"); name == "tenon-router" || name == "tenon-runtime-node" {
				t.Errorf("%s gives rights to %v", binding, name)
			}
		}
	}
}
