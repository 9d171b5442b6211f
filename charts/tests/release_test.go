package tests

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"sigs.k8s.io/yaml"
)

func TestHelmLintPasses(t *testing.T) {
	for _, chart := range []string{platform, crds} {
		for name, values := range variety {
			if chart == crds && name != "defaults" {
				continue
			}
			var overrides map[string]any
			if err := yaml.Unmarshal([]byte(values), &overrides); err != nil {
				t.Fatal(err)
			}
			for _, message := range lint.RunAll(chart, overrides, namespace).Messages {
				if message.Severity > support.InfoSev {
					t.Errorf("%s with %s: %v", chart, name, message)
				}
			}
		}
	}
}

func TestChartsHaveTheSameVersion(t *testing.T) {
	one, other := load(t, platform).Metadata, load(t, crds).Metadata
	if one.Version != other.Version || one.AppVersion != other.AppVersion || one.KubeVersion != other.KubeVersion {
		t.Errorf("the charts differ: %v and %v", one, other)
	}
	workspace := regexp.MustCompile(`(?m)^version = "(.*)"$`).FindStringSubmatch(read(t, "../../Cargo.toml"))
	if workspace == nil || workspace[1] != one.AppVersion || workspace[1] != one.Version {
		t.Errorf("the version in Cargo.toml is %v, the charts' version is %s and appVersion is %s", workspace, one.Version, one.AppVersion)
	}
}

// packer builds the program whose source is in ./pack, and returns a function that runs it.
func packer(t *testing.T) func(args ...string) (string, error) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "pack")
	if output, err := exec.Command("go", "build", "-o", program, "./pack").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return func(args ...string) (string, error) {
		command := exec.Command(program, args...)
		command.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1000000000")
		output, err := command.CombinedOutput()
		return string(output), err
	}
}

func TestPackedChartsRenderAsTheirFolders(t *testing.T) {
	run, out := packer(t), t.TempDir()
	for _, folder := range []string{platform, crds} {
		whole := load(t, folder)
		version := whole.Metadata.Version
		pack := func() []byte {
			t.Helper()
			if output, err := run("--version", version, "--out", out, folder); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			return []byte(read(t, filepath.Join(out, whole.Name()+"-"+version+".tgz")))
		}
		first := pack()
		if !bytes.Equal(first, pack()) {
			t.Errorf("%s: two runs pack different bytes", folder)
		}
		packed, err := loader.LoadArchive(bytes.NewReader(first))
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range variety {
			if folder == crds && name != "defaults" {
				continue
			}
			expected, err := renderChart(whole, values)
			if err != nil {
				t.Fatal(err)
			}
			if rendered, err := renderChart(packed, values); err != nil || !maps.Equal(rendered, expected) {
				t.Errorf("%s with %s: the package renders other objects than the folder: %v", folder, name, err)
			}
		}
	}
}

func TestAChartOfAnotherVersionIsNotPacked(t *testing.T) {
	output, err := packer(t)("--version", "999.0.0", "--out", t.TempDir(), platform)
	if err == nil || !strings.Contains(output, "set both to 999.0.0") {
		t.Errorf("%v: %s", err, output)
	}
}

func TestNotesPrintTheNextCommands(t *testing.T) {
	notes := func(values string) string {
		rendered, err := renderChart(load(t, platform), values)
		if err != nil {
			t.Fatal(err)
		}
		return rendered["tenon/templates/NOTES.txt"]
	}
	for values, words := range map[string][]string{
		``: {"kubectl wait --for condition=Ready runtimepool/default", "helm test " + release + " --namespace " + namespace, "port-forward service/tenon-router 8080:80",
			"Host: hello.default.tenon.localhost"},
		`router: {service: {type: LoadBalancer}}`:              {"http://EXTERNAL-IP:80/"},
		`router: {service: {type: NodePort, nodePort: 30080}}`: {"http://ANY-KUBERNETES-NODE:30080/"},
		`{domain: example.com, runtimePool: {create: false}}`:  {"hello.default.example.com", "Create the pools"},
		`router: {service: {type: NodePort}}`:                  {"port-forward"},
	} {
		for _, word := range words {
			if text := notes(values); !strings.Contains(text, word) {
				t.Errorf("with the values %s, the notes lack %q:\n%s", values, word, text)
			}
		}
	}
	worker := regexp.MustCompile(`(?s)<<YAML\n(.*?)  YAML\n`).FindStringSubmatch(notes(``))
	var object map[string]any
	if worker == nil || yaml.UnmarshalStrict([]byte(worker[1]), &object) != nil || object["kind"] != "Worker" {
		t.Errorf("the notes contain no valid Worker: %v", worker)
	}
}

func TestHelmTestDeletesItsObjects(t *testing.T) {
	objects := 0
	for _, o := range render(t, ``) {
		annotations := o.GetAnnotations()
		if strings.Contains(o.template, "/tests/") != (annotations["helm.sh/hook"] == "test") {
			t.Errorf("%s of %s: wrong hook annotations %v", o, o.template, annotations)
		}
		if annotations["helm.sh/hook"] != "test" {
			continue
		}
		objects++
		if annotations["helm.sh/hook-delete-policy"] != "before-hook-creation,hook-succeeded,hook-failed" {
			t.Errorf("Helm does not delete %s: %v", o, annotations)
		}
	}
	if objects != 4 {
		t.Errorf("the test has %d objects, want 4", objects)
	}
	args := render(t, `{router: {service: {port: 8000}}, test: {timeoutSeconds: 7}}`).pod(t, "Pod/tenon-probe").args()
	want := "probe --worker-namespace=" + namespace + " --router=http://tenon-router:8000 --pool=default --timeout=7"
	if got := strings.Join(args, " "); got != want {
		t.Errorf("the arguments are %s, want %s", got, want)
	}
}

// A process that gets an unknown argument does not start.
func TestProcessesKnowTheirArguments(t *testing.T) {
	sources := map[string][]string{
		"Deployment/tenon-operator": {"operator/src/config.rs", "operator/src/config/pods.rs", "operator/src/config/artifacts.rs", "lifecycle/src/tls.rs", "lifecycle/src/log.rs", "lifecycle/src/admin.rs"},
		"Deployment/tenon-router":   {"router/src/main.rs", "router/src/args.rs", "router/spans/src/args.rs", "lifecycle/src/tls.rs", "lifecycle/src/log.rs", "lifecycle/src/admin.rs"},
		"Pod/tenon-probe":           {"operator/src/probe.rs"},
	}
	for _, pod := range render(t, strings.ReplaceAll(variety["everything"], "certManager", "selfSigned")).pods() {
		known := ""
		for _, source := range sources[pod.owner] {
			known += read(t, "../../"+source)
		}
		for _, arg := range pod.args() {
			name, ok := strings.CutPrefix(arg, "--")
			if name, _, _ = strings.Cut(name, "="); !ok || name == "extra" {
				continue
			}
			field := `(?m)^\s+(pub )?` + strings.ReplaceAll(name, "-", "_") + `: `
			if !regexp.MustCompile(field).MatchString(known) {
				t.Errorf("%s has the argument --%s, which none of %v defines", pod.owner, name, sources[pod.owner])
			}
		}
	}
}
