package tests

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The program `validate` runs the API server's validation, and that of Pod Security admission.
func TestTheAPIServerWouldAcceptEveryObject(t *testing.T) {
	program := filepath.Join(t.TempDir(), "validate")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", program, "./validate")
	build.Dir, build.Env = "../../deploy/cluster/go", append(build.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	validate := func(objects ...object) (string, error) {
		var input strings.Builder
		for _, o := range objects {
			text, err := yaml.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			input.WriteString("---\n" + string(text))
		}
		command := exec.Command(program)
		command.Stdin = strings.NewReader(input.String())
		output, err := command.CombinedOutput()
		return string(output), err
	}
	for name, values := range variety {
		var own objects
		for _, o := range renderWithFiles(t, values) {
			if kinds[o.GetAPIVersion()+" "+o.GetKind()].new != nil {
				own = append(own, o)
			}
		}
		if output, err := validate(own...); err != nil || output != fmt.Sprintf("validate: %d objects\n", len(own)) {
			t.Errorf("%s: %v:\n%s", name, err, output)
		}
	}
	// The program must detect faults.
	deployment := render(t, ``).find(t, "Deployment/tenon-router")
	spec, _ := deployment.at("spec", "template", "spec").(map[string]any)
	spec["hostNetwork"], spec["restartPolicy"] = true, "Never"
	output, err := validate(deployment)
	for _, fault := range []string{"spec.template.spec.restartPolicy", "restricted: host namespaces"} {
		if err == nil || !strings.Contains(output, "Deployment/tenon-router: "+fault) {
			t.Errorf("%v: the output lacks %q:\n%s", err, fault, output)
		}
	}
}
