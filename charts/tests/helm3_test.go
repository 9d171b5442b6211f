package tests

import (
	"maps"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

// values3 returns what templates see, and the chart, as Helm 3 loads them.
func values3(t *testing.T, folder, values string) (*chart.Chart, chartutil.Values, error) {
	t.Helper()
	var overrides map[string]any
	if err := yaml.Unmarshal([]byte(values), &overrides); err != nil {
		t.Fatal(err)
	}
	loaded, err := loader.LoadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	options := chartutil.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(loaded, overrides, options, chartutil.DefaultCapabilities)
	return loaded, all, err
}

// All other tests render with Helm 4.
func TestHelm3RendersTheSameObjects(t *testing.T) {
	for _, folder := range []string{platform, crds} {
		for name, values := range variety {
			if folder == crds && name != "defaults" {
				continue
			}
			loaded, all, err := values3(t, folder, values)
			if err != nil {
				t.Fatalf("%s with %s: %v", folder, name, err)
			}
			rendered, err := engine.Engine{Strict: true}.Render(loaded, all)
			if err != nil {
				t.Fatalf("%s with %s: %v", folder, name, err)
			}
			expected, err := renderChart(load(t, folder), values)
			if err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(rendered, expected) {
				t.Errorf("%s with %s: Helm 3 renders other objects than Helm 4", folder, name)
			}
			var overrides map[string]any
			if err := yaml.Unmarshal([]byte(values), &overrides); err != nil {
				t.Fatal(err)
			}
			for _, message := range lint.All(folder, overrides, namespace, true).Messages {
				if message.Severity > support.InfoSev {
					t.Errorf("%s with %s: %v", folder, name, message)
				}
			}
		}
	}
}

func TestHelm3RefusesInvalidValues(t *testing.T) {
	for _, values := range []string{`operatr: {}`, `router: {maxSurge: 0}`, `certificates: {mode: existingSecret}`, `openshift: true`} {
		if _, _, err := values3(t, platform, values); err == nil {
			t.Errorf("Helm 3 accepts the values %s", values)
		}
	}
}
