package tests

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write golden and generated files instead of comparing with them")

// golden compares a file with its expected content. With -update, it writes the content to the file
// first.
func golden(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, file); got != want {
		t.Errorf("%s is stale: review the change and run `make charts`. Want\n%s", file, want)
	}
}

// value is a documented value of a chart.
type value struct {
	path string
	// The default, as JSON and as one line of YAML.
	preset, written string
	// The comment above the value.
	comment string
}

// Maps that are documented as one value, because the user or Kubernetes defines their keys.
var whole = regexp.MustCompile(`(^commonLabels|[lL]abels|[aA]nnotations|nodeSelector|affinity|resources|behavior|tracing\.attributes|runtimePool\.(limits|rateLimits|egress|allowedNamespaces))$`)

func documented(t *testing.T, chart string) []value {
	t.Helper()
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(read(t, chart+"/values.yaml")), &document); err != nil {
		t.Fatal(err)
	}
	var all []value
	var visit func(prefix string, node *yaml.Node)
	visit = func(prefix string, node *yaml.Node) {
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, field := node.Content[i], node.Content[i+1]
			path := strings.TrimPrefix(prefix+"."+key.Value, ".")
			if field.Kind == yaml.MappingNode && !whole.MatchString(path) {
				visit(path, field)
				continue
			}
			var lines []string
			for _, line := range strings.Split(key.HeadComment, "\n") {
				lines = append(lines, strings.TrimSpace(strings.TrimPrefix(line, "#")))
			}
			var preset any
			if err := field.Decode(&preset); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(preset)
			if err != nil {
				t.Fatal(err)
			}
			flow(field)
			written, err := yaml.Marshal(field)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, value{
				path:    path,
				preset:  string(text),
				written: strings.TrimSpace(string(written)),
				comment: strings.TrimSpace(strings.Join(lines, " ")),
			})
		}
	}
	visit("", document.Content[0])
	return all
}

// flow makes the encoder write a node on one line, without its comments.
func flow(node *yaml.Node) {
	node.HeadComment, node.LineComment, node.FootComment = "", "", ""
	if node.Kind != yaml.ScalarNode {
		node.Style = yaml.FlowStyle
	}
	for _, below := range node.Content {
		flow(below)
	}
}

func TestEveryValueIsDocumented(t *testing.T) {
	for _, chart := range []string{platform, crds} {
		for _, value := range documented(t, chart) {
			if !strings.HasSuffix(value.comment, ".") && !strings.HasSuffix(value.comment, ".)") {
				t.Errorf("%s: the comment above %s does not end with a full stop: %q", chart, value.path, value.comment)
			}
		}
	}
}

func TestEveryValueIsUsed(t *testing.T) {
	for _, chart := range []string{platform, crds} {
		text := ""
		err := filepath.WalkDir(chart+"/templates", func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				text += read(t, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		// Templates refer to a value by its path, or, within `with` or through a variable or an
		// argument, by a part of its path.
		words := map[string]bool{}
		for _, word := range regexp.MustCompile(`[A-Za-z][A-Za-z0-9]*`).FindAllString(text, -1) {
			words[word] = true
		}
		for _, value := range documented(t, chart) {
			for _, step := range strings.Split(value.path, ".") {
				if !words[step] {
					t.Errorf("%s: no template uses %s of %s", chart, step, value.path)
				}
			}
		}
	}
}

// The test sets each value to one that differs from its default, and compares the rendered objects.
func TestEveryValueChangesTheOutput(t *testing.T) {
	before := textOf(t, ``)
	for _, value := range documented(t, platform) {
		other, ok := others[value.path]
		if !ok {
			other, ok = others[value.path[strings.LastIndex(value.path, ".")+1:]]
		}
		if !ok {
			other, ok = another(value.preset)
		}
		if !ok {
			t.Errorf("%s: this test needs another value; add one to `others`", value.path)
			continue
		}
		context, base := contexts[value.path], before
		if context != "" {
			base = textOf(t, context)
		}
		changed := set(t, context, value.path, other)
		if textOf(t, changed) == base {
			t.Errorf("%s: the value %s does not change the output", value.path, other)
		}
	}
}

// another returns another value of the same type.
func another(preset string) (string, bool) {
	var number int
	switch {
	case preset == "true":
		return "false", true
	case preset == "false":
		return "true", true
	case preset == "{}":
		return "{a-key: a-value}", true
	case preset == `""`:
		return "something", true
	case json.Unmarshal([]byte(preset), &number) == nil:
		return fmt.Sprint(number + 3), true
	}
	return "", false
}

// Values that differ from the defaults, by path or by the last step of the path. A value has an
// entry if the schema does not accept every value of its type.
var others = map[string]string{
	"imageRegistry":                  "mirror.example.com:5000",
	"imagePullSecrets":               "[shared]",
	"openshift":                      "enabled",
	"ipFamilyPolicy":                 "PreferDualStack",
	"ipFamilies":                     "[IPv6]",
	"extraObjects":                   "[{apiVersion: v1, kind: ConfigMap, metadata: {name: more}}]",
	"architectures":                  "[amd64, arm64]",
	"image.repositories.operator":    "mirror/operator",
	"image.repositories.router":      "mirror/router",
	"image.repositories.runtimeNode": "mirror/runtime-node",
	"extraVolumes":                   "[{name: more, emptyDir: {}}]",
	"extraVolumeMounts":              "[{name: more, mountPath: /more}]",
	"domain":                         "workers.example.com",
	"registry":                       "registry.example.com",
	"allowed":                        "[registry.example.com]",
	"plainHTTP":                      "[registry.example.com]",
	"secrets":                        "[shop-tls]",
	"trustedProxies":                 "[192.0.2.0/24]",
	"hsts":                           "max-age=60; includeSubDomains",
	"gateway.enabled":                "never",
	"gateway.className":              "workers",
	"pullPolicy":                     "Always",
	"pullSecrets":                    "[registry]",
	"image.digests.operator":         "sha256:" + strings.Repeat("1", 64),
	"image.digests.router":           "sha256:" + strings.Repeat("2", 64),
	"image.digests.runtimeNode":      "sha256:" + strings.Repeat("3", 64),
	"level":                          "debug",
	"format":                         "pretty",
	"certificates.mode":              "certManager",
	"authorityLifetime":              "900d",
	"certificateLifetime":            "30d",
	"kind":                           "ClusterIssuer",
	"group":                          "example.com",
	"duration":                       "24h",
	"renewBefore":                    "1h",
	"resources":                      "{requests: {cpu: 3}}",
	"extraArgs":                      "[--more]",
	"extraEnv":                       "[{name: MORE}]",
	"tolerations":                    "[{operator: Exists}]",
	"topologySpreadConstraints":      "[{topologyKey: rack}]",
	"topologySpread":                 "[{topologyKey: rack}]",
	"type":                           "NodePort",
	"nodePort":                       "30080",
	"externalTrafficPolicy":          "Local",
	"loadBalancerSourceRanges":       "[192.0.2.0/24]",
	"runtimePool.limits":             "{max: {cpuMs: 1}}",
	"runtimePool.rateLimits":         "{namespace: {requestsPerSecond: 1}}",
	"runtimePool.egress":             "{denyCidrs: [192.0.2.0/24]}",
	"clientsFrom":                    "[{podSelector: {}}]",
	"metricsFrom":                    "[{podSelector: {}}]",
	"to":                             "[{podSelector: {}}]",
	"interval":                       "1m",
	"metrics.dashboards.labels":      `{grafana_dashboard: "2"}`,
	"test.pool":                      "another",
	"allowedNamespaces":              "{from: Same}",
	"tracing.endpoint":               "http://collector:4317",
	"tracing.ratio":                  "0.5",
	// This value affects only the grace period, and only if it is the largest of the three.
	"router.drain.requestGraceSeconds": "100",
}

// contexts has, for each value that has no effect by itself, the other values that must be set.
var contexts = map[string]string{
	"gateway.className":                                 "gateway: {enabled: always}",
	"router.proxyProtocol":                              `router: {trustedProxies: [192.0.2.0/24]}`,
	"priorityClass.create":                              `priorityClass: {name: some}`,
	"priorityClass.value":                               `priorityClass: {name: some, create: true}`,
	"certificates.certManager.issuerRef.name":           `certificates: {mode: certManager}`,
	"certificates.certManager.issuerRef.kind":           `certificates: {mode: certManager, certManager: {issuerRef: {name: some}}}`,
	"certificates.certManager.issuerRef.group":          `certificates: {mode: certManager, certManager: {issuerRef: {name: some}}}`,
	"certificates.certManager.duration":                 `certificates: {mode: certManager}`,
	"certificates.certManager.renewBefore":              `certificates: {mode: certManager}`,
	"certificates.existingSecret.operator":              ownSecrets,
	"certificates.existingSecret.router":                ownSecrets,
	"certificates.existingSecret.runtimeNode":           ownSecrets,
	"router.https.port":                                 `router: {https: {secrets: [shop-tls]}}`,
	"router.https.nodePort":                             `router: {service: {type: NodePort}, https: {secrets: [shop-tls]}}`,
	"router.https.redirect":                             `router: {https: {secrets: [shop-tls]}}`,
	"router.https.hsts":                                 `router: {https: {secrets: [shop-tls]}}`,
	"router.http3.enabled":                              `router: {https: {secrets: [shop-tls]}}`,
	"router.http3.advertisedPort":                       `router: {https: {secrets: [shop-tls]}, http3: {enabled: true}}`,
	"router.http3.nodePort":                             `router: {service: {type: NodePort}, https: {secrets: [shop-tls]}, http3: {enabled: true}}`,
	"router.service.nodePort":                           `router: {service: {type: NodePort}}`,
	"router.service.externalTrafficPolicy":              `router: {service: {type: NodePort}}`,
	"router.service.loadBalancerClass":                  `router: {service: {type: LoadBalancer}}`,
	"router.service.loadBalancerSourceRanges":           `router: {service: {type: LoadBalancer}}`,
	"router.autoscaling.minReplicas":                    `router: {autoscaling: {enabled: true}}`,
	"router.autoscaling.maxReplicas":                    `router: {autoscaling: {enabled: true}}`,
	"router.autoscaling.targetCPUUtilizationPercentage": `router: {autoscaling: {enabled: true}}`,
	"router.autoscaling.behavior":                       `router: {autoscaling: {enabled: true}}`,
	"networkPolicy.nodeEgress.to":                       `networkPolicy: {nodeEgress: {restrict: true}}`,
	"metrics.podMonitor.interval":                       `metrics: {podMonitor: {enabled: true}}`,
	"metrics.podMonitor.labels":                         `metrics: {podMonitor: {enabled: true}}`,
	"metrics.serviceMonitor.interval":                   `metrics: {serviceMonitor: {enabled: true}}`,
	"metrics.serviceMonitor.labels":                     `metrics: {serviceMonitor: {enabled: true}}`,
	"metrics.prometheusRule.labels":                     `metrics: {prometheusRule: {enabled: true}}`,
	"tracing.ratio":                                     traced,
	"tracing.errors":                                    traced,
	"tracing.attributes":                                traced,
}

const traced = `tracing: {endpoint: "http://collector:4317"}`

const ownSecrets = `certificates: {mode: existingSecret, existingSecret: {operator: a, router: b, runtimeNode: c}}`

// set returns `values` with the value at a path replaced or added.
func set(t *testing.T, values, path, to string) string {
	t.Helper()
	var root map[string]any
	if err := yaml.Unmarshal([]byte(values), &root); err != nil {
		t.Fatal(err)
	}
	if root == nil {
		root = map[string]any{}
	}
	steps := strings.Split(path, ".")
	fields := root
	for _, step := range steps[:len(steps)-1] {
		if _, ok := fields[step].(map[string]any); !ok {
			fields[step] = map[string]any{}
		}
		fields = fields[step].(map[string]any)
	}
	var value any
	if err := yaml.Unmarshal([]byte(to), &value); err != nil {
		t.Fatal(err)
	}
	fields[steps[len(steps)-1]] = value
	text, err := yaml.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// textOf returns, as text, all objects that the chart renders with the given values.
func textOf(t *testing.T, values string) string {
	t.Helper()
	text := ""
	for _, o := range renderWithFiles(t, values) {
		object, err := json.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		text += string(object) + "\n"
	}
	return text
}

const tableBegins, tableEnds = "<!-- values, made by `make charts` -->\n", "<!-- end of values -->"

func TestReadmeListsEveryValue(t *testing.T) {
	for _, chart := range []string{platform, crds} {
		table := "| value | meaning | default |\n| --- | --- | --- |\n"
		for _, value := range documented(t, chart) {
			preset := ""
			if value.written != `""` && value.written != "null" {
				preset = "`" + value.written + "`"
			}
			table += fmt.Sprintf("| `%s` | %s | %s |\n", value.path, value.comment, preset)
		}
		file := chart + "/README.md"
		head, rest, begins := strings.Cut(read(t, file), tableBegins)
		_, tail, ends := strings.Cut(rest, tableEnds)
		if !begins || !ends {
			t.Fatalf("%s has no markers for the table", file)
		}
		golden(t, file, head+tableBegins+table+tableEnds+tail)
	}
}
