// Package tests tests the charts with Helm's own library, without a cluster: each test renders a
// chart with some values and checks the objects.
package tests

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	platform = "../tenon"
	crds     = "../tenon-crds"
)

// The namespace and the name of every release. They differ from all defaults, so that a hard-coded
// default is detected.
const (
	namespace = "somewhere"
	release   = "some-release"
)

var loaded = map[string]*chart.Chart{}

// load returns a chart whose files may be replaced.
func load(t *testing.T, folder string) *chart.Chart {
	t.Helper()
	if loaded[folder] == nil {
		chart, err := loader.LoadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		loaded[folder] = chart
	}
	copied := *loaded[folder]
	return &copied
}

// render returns the objects of the chart `tenon` with values in YAML.
func render(t *testing.T, values string) objects {
	t.Helper()
	rendered, err := renderChart(load(t, platform), values)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, rendered)
}

// renderWithFiles does the same as render, with sample dashboards and alerts in place of the
// chart's own.
func renderWithFiles(t *testing.T, values string) objects {
	t.Helper()
	with := load(t, platform)
	with.Files = append(without(with.Files, "dashboards/", "rules/"),
		&common.File{Name: "dashboards/some.json", Data: []byte("{\"title\": \"{{ Grafana syntax }}\"}\n")},
		&common.File{Name: "rules/tenon.yaml", Data: []byte(rules)},
	)
	rendered, err := renderChart(with, values)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, rendered)
}

const rules = `# A comment.
groups:
  - name: some
    rules:
      - alert: Some
        expr: up == 0
        annotations: {summary: "{{ $labels.pod }} is down"}
`

func without(files []*common.File, folders ...string) []*common.File {
	return slices.DeleteFunc(slices.Clone(files), func(file *common.File) bool {
		return slices.ContainsFunc(folders, func(folder string) bool { return strings.HasPrefix(file.Name, folder) })
	})
}

// renderChart returns the text of each template, by its path.
func renderChart(target *chart.Chart, values string) (map[string]string, error) {
	return renderOn(target, values)
}

// renderOn does the same as renderChart, on a cluster that serves further versions of APIs.
func renderOn(target *chart.Chart, values string, apis ...string) (map[string]string, error) {
	var overrides map[string]any
	if err := yaml.Unmarshal([]byte(values), &overrides); err != nil {
		return nil, fmt.Errorf("cannot parse the values of the test: %w", err)
	}
	options := common.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}
	capabilities := *common.DefaultCapabilities
	capabilities.APIVersions = slices.Concat(capabilities.APIVersions, common.VersionSet(apis))
	all, err := chartutil.ToRenderValues(target, overrides, options, &capabilities)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.Render(target, all)
}

type object struct {
	unstructured.Unstructured
	template string
}

type objects []object

func parse(t *testing.T, rendered map[string]string) objects {
	t.Helper()
	var all objects
	for template, text := range rendered {
		if path.Ext(template) != ".yaml" {
			continue
		}
		documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			var fields map[string]any
			// Parsing is strict, because a duplicate key is a mistake.
			if err := errors.Join(err, yaml.UnmarshalStrict(document, &fields)); err != nil {
				t.Fatalf("%s: %v\n%s", template, err, text)
			}
			if len(fields) > 0 {
				all = append(all, object{unstructured.Unstructured{Object: fields}, template})
			}
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].String() < all[j].String() })
	return all
}

func (o object) String() string { return o.GetKind() + "/" + o.GetName() }

// at returns the value at a path of fields and indexes, or nil.
func (o object) at(steps ...any) any { return at(o.Object, steps...) }

func at(value any, steps ...any) any {
	for _, step := range steps {
		switch step := step.(type) {
		case string:
			fields, _ := value.(map[string]any)
			value = fields[step]
		case int:
			items, _ := value.([]any)
			if step >= len(items) {
				return nil
			}
			value = items[step]
		}
	}
	return value
}

func items(value any) []any {
	list, _ := value.([]any)
	return list
}

func (all objects) find(t *testing.T, name string) object {
	t.Helper()
	for _, o := range all {
		if o.String() == name {
			return o
		}
	}
	t.Fatalf("there is no object %s among %v", name, all)
	return object{}
}

func (all objects) has(name string) bool {
	for _, o := range all {
		if o.String() == name {
			return true
		}
	}
	return false
}

func (all objects) kind(kind string) objects {
	var some objects
	for _, o := range all {
		if o.GetKind() == kind {
			some = append(some, o)
		}
	}
	return some
}

// pod is a Pod of the chart, or a Pod template.
type pod struct {
	owner  string
	labels map[string]any
	spec   map[string]any
}

func (p pod) container() map[string]any {
	container, _ := at(p.spec, "containers", 0).(map[string]any)
	return container
}

func (p pod) args() []string {
	var args []string
	for _, arg := range items(p.container()["args"]) {
		args = append(args, fmt.Sprint(arg))
	}
	return args
}

func (all objects) pods() []pod {
	var pods []pod
	add := func(owner object, template any) {
		labels, _ := at(template, "metadata", "labels").(map[string]any)
		spec, _ := at(template, "spec").(map[string]any)
		pods = append(pods, pod{owner.String(), labels, spec})
	}
	for _, o := range all.kind("Deployment") {
		add(o, o.at("spec", "template"))
	}
	for _, o := range all.kind("Pod") {
		add(o, o.Object)
	}
	return pods
}

func (all objects) pod(t *testing.T, owner string) pod {
	t.Helper()
	for _, pod := range all.pods() {
		if pod.owner == owner {
			return pod
		}
	}
	t.Fatalf("there is no Pod of %s", owner)
	return pod{}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func mustRead(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// expect compares a value with the expected one, both as YAML.
func expect(t *testing.T, what string, got any, want string) {
	t.Helper()
	text, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var parsed any
	if err := yaml.Unmarshal([]byte(want), &parsed); err != nil {
		t.Fatal(err)
	}
	canonical, _ := yaml.Marshal(parsed)
	if !bytes.Equal(text, canonical) {
		t.Errorf("%s:\ngot\n%s\nwant\n%s", what, text, canonical)
	}
}

func contains(list []string, pattern string) bool {
	for _, item := range list {
		if regexp.MustCompile("^(?:" + pattern + ")$").MatchString(item) {
			return true
		}
	}
	return false
}
