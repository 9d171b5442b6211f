package tests

import (
	"strings"
	"testing"

	engine3 "helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"
)

// A cluster has the CRDs of Tenon, annotated with this version unless it is empty.
type cluster string

func (version cluster) GetClientFor(_, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	var known []runtime.Object
	for _, name := range []string{"workers", "workerrevisions", "runtimepools", "hostgrants"} {
		crd := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1",
			"kind":       kind,
			"metadata":   map[string]any{"name": name + ".tenon.dev"},
		}}
		if version != "" {
			crd.SetAnnotations(map[string]string{"tenon.dev/version": string(version)})
		}
		known = append(known, crd)
	}
	resource := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	return fake.NewSimpleDynamicClient(runtime.NewScheme(), known...).Resource(resource), false, nil
}

// installOn renders a chart of a version for a cluster, with Helm 4 and Helm 3, and returns both
// errors.
func installOn(t *testing.T, folder, version, known string) []error {
	t.Helper()
	chart := load(t, folder)
	metadata := *chart.Metadata
	metadata.Version, chart.Metadata = version, &metadata
	all, err := chartutil.ToRenderValues(chart, nil, common.ReleaseOptions{Name: release, Namespace: namespace}, common.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	_, with4 := engine.RenderWithClientProvider(chart, all, cluster(known))
	chart3, all3, err := values3(t, folder, ``)
	if err != nil {
		t.Fatal(err)
	}
	chart3.Metadata.Version = version
	_, with3 := engine3.RenderWithClientProvider(chart3, all3, cluster(known))
	return []error{with4, with3}
}

func TestNewerCRDsAreNotReplaced(t *testing.T) {
	for _, test := range []struct {
		version, known string
		refused        bool
	}{
		{"0.2.0", "", false},
		{"0.2.0", "0.1.9", false},
		{"0.2.0", "0.2.0", false},
		{"0.2.0", "0.2.0-rc.1", false},
		{"0.2.0", "0.2.1", true},
		{"0.2.0", "0.10.0", true},
		{"0.2.0-rc.1", "0.2.0-rc.2", true},
		{"0.2.0-rc.1", "0.2.0", true},
	} {
		for _, err := range installOn(t, crds, test.version, test.known) {
			if (err != nil) != test.refused {
				t.Errorf("version %s over %q: %v", test.version, test.known, err)
			}
			if err != nil && !strings.Contains(err.Error(), "install the chart tenon-crds of version "+test.known+" or later") {
				t.Errorf("the error names no remedy: %v", err)
			}
		}
	}
}

func TestAPlatformNeedsCRDsThatAreNotOlder(t *testing.T) {
	for known, refused := range map[string]bool{"": false, "0.3.0": false, "0.2.0": false, "0.1.9": true, "0.2.0-rc.1": true} {
		for _, err := range installOn(t, platform, "0.2.0", known) {
			if (err != nil) != refused {
				t.Errorf("version 0.2.0 with CRDs of %q: %v", known, err)
			}
			if err != nil && !strings.Contains(err.Error(), "upgrade the chart tenon-crds first") {
				t.Errorf("the error names no remedy: %v", err)
			}
		}
	}
}

func TestCRDsHaveTheVersionOfTheirChart(t *testing.T) {
	rendered, err := renderChart(load(t, crds), ``)
	if err != nil {
		t.Fatal(err)
	}
	version := load(t, crds).Metadata.Version
	for _, crd := range parse(t, rendered) {
		expect(t, crd.String(), crd.GetAnnotations()["tenon.dev/version"], version)
	}
}

// Artifact Hub reads these annotations.
func TestArtifactHubKnowsTheImagesAndTheCRDs(t *testing.T) {
	annotation := func(folder, name string) []map[string]any {
		var list []map[string]any
		if err := yaml.UnmarshalStrict([]byte(load(t, folder).Metadata.Annotations["artifacthub.io/"+name]), &list); err != nil || len(list) == 0 {
			t.Errorf("%s: artifacthub.io/%s: %v %v", folder, name, list, err)
		}
		return list
	}
	all := render(t, ``)
	used := strings.Join(all.pod(t, "Deployment/tenon-operator").args(), " ")
	for _, pod := range all.pods() {
		used += " " + at(pod.container(), "image").(string)
	}
	for _, image := range annotation(platform, "images") {
		if name, _ := image["image"].(string); !strings.Contains(used, name) {
			t.Errorf("no Pod has the image %s: %s", name, used)
		}
	}
	rendered, err := renderChart(load(t, crds), ``)
	if err != nil {
		t.Fatal(err)
	}
	definitions := parse(t, rendered)
	listed := annotation(crds, "crds")
	if len(listed) != len(definitions) {
		t.Errorf("%d CRDs are listed, and %d exist", len(listed), len(definitions))
	}
	for _, crd := range listed {
		definition := definitions.find(t, "CustomResourceDefinition/"+crd["name"].(string))
		expect(t, "the kind", crd["kind"], definition.at("spec", "names", "kind").(string))
		expect(t, "the version", crd["version"], definition.at("spec", "versions", 0, "name").(string))
	}
	for _, example := range annotation(crds, "crdsExamples") {
		for _, definition := range definitions {
			if definition.at("spec", "names", "kind") == example["kind"] {
				schema := definition.at("spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec")
				if found := faults("spec", example["spec"], schema); len(found) > 0 {
					t.Errorf("the example of %s: %v", example["kind"], found)
				}
			}
		}
	}
	for _, folder := range []string{platform, crds} {
		annotation(folder, "changes")
		annotation(folder, "links")
		if metadata := load(t, folder).Metadata; metadata.Icon == "" || metadata.Home == "" || len(metadata.Maintainers) == 0 || len(metadata.Sources) == 0 {
			t.Errorf("%s/Chart.yaml is incomplete: %v", folder, metadata)
		}
	}
}
