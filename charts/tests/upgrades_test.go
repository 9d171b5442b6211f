package tests

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Fields that the API server refuses to change, by kind.
var immutable = map[string][][]any{
	"Deployment":                       {{"spec", "selector", "matchLabels"}},
	"Service":                          {{"spec", "clusterIP"}},
	"ClusterRoleBinding":               {{"roleRef"}},
	"RoleBinding":                      {{"roleRef"}},
	"PriorityClass":                    {{"preemptionPolicy"}},
	"ValidatingAdmissionPolicyBinding": {{"spec", "policyName"}},
}

// `helm upgrade` from an earlier version keeps the objects whose names stay, and fails if an
// immutable field changes. `make charts` does not write testdata/identities.txt: a line that
// changes or disappears breaks upgrades, and a line that is new needs
// `go test -run TestNamesAndImmutableFieldsDoNotChange -update`.
func TestNamesAndImmutableFieldsDoNotChange(t *testing.T) {
	seen := map[string]bool{}
	for _, values := range variety {
		for _, o := range renderWithFiles(t, values) {
			line := o.GetAPIVersion() + " " + o.String()
			for _, field := range immutable[o.GetKind()] {
				text, err := json.Marshal(o.at(field...))
				if err != nil {
					t.Fatal(err)
				}
				line += fmt.Sprintf(" %v=%s", field[len(field)-1], text)
			}
			seen[line] = true
		}
	}
	var lines []string
	for line := range seen {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	golden(t, "testdata/identities.txt", strings.Join(lines, "\n")+"\n")
}
