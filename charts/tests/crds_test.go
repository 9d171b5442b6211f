package tests

import (
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestCRDsAreKeptByDefault(t *testing.T) {
	for values, keeps := range map[string]bool{``: true, `keep: true`: true, `keep: false`: false} {
		rendered, err := renderChart(load(t, crds), values)
		if err != nil {
			t.Fatal(err)
		}
		all := parse(t, rendered)
		if len(all) != 4 {
			t.Fatalf("want 4 CRDs, got %v", all)
		}
		for _, crd := range all {
			if _, got := crd.GetAnnotations()["helm.sh/resource-policy"]; got != keeps {
				t.Errorf("with the values %q, %s is kept: %v, want %v", values, crd, got, keeps)
			}
		}
	}
}

// The templates are also plain YAML, so that `kubectl apply -f` can apply them.
func TestCRDsAreTheSameWithAndWithoutHelm(t *testing.T) {
	files, err := filepath.Glob(crds + "/templates/*.yaml")
	if err != nil || len(files) != 4 {
		t.Fatalf("got the files %v, want 4: %v", files, err)
	}
	rendered, err := renderChart(load(t, crds), ``)
	if err != nil {
		t.Fatal(err)
	}
	all := parse(t, rendered)
	for _, file := range files {
		var plain map[string]any
		if err := yaml.UnmarshalStrict([]byte(read(t, file)), &plain); err != nil {
			t.Fatal(file, err)
		}
		name, _ := at(plain, "metadata", "name").(string)
		want, err := yaml.Marshal(plain)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, file, all.find(t, "CustomResourceDefinition/"+name).Object, string(want))
	}
}
