package tests

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func TestInvalidValuesAreRefusedByName(t *testing.T) {
	for _, bad := range []struct{ values, field string }{
		{`operatr: {replicas: 2}`, "operatr"},
		{`operator: {replica: 2}`, "/operator.*replica"},
		{`operator: {replicas: two}`, "/operator/replicas"},
		{`operator: {replicas: -1}`, "/operator/replicas"},
		{`operator: {extraArgs: [more]}`, "/operator/extraArgs/0"},
		{`operator: {extraEnv: [{value: "1"}]}`, "/operator/extraEnv/0.*name"},
		{`operator: {podAnnotations: {a: 1}}`, "/operator/podAnnotations/a"},
		{`operator: {resources: {request: {}}}`, "/operator/resources.*request"},
		{`operator: {podDisruptionBudget: {maxUnavailable: most}}`, "/operator/podDisruptionBudget/maxUnavailable"},
		{`router: {threads: 0}`, "/router/threads"},
		{`router: {service: {type: ExternalName}}`, "/router/service/type"},
		{`router: {service: {nodePort: high}}`, "/router/service/nodePort"},
		{`router: {service: {externalTrafficPolicy: local}}`, "/router/service/externalTrafficPolicy"},
		{`router: {drain: {lingerSeconds: 5s}}`, "/router/drain/lingerSeconds"},
		{`router: {autoscaling: {enabled: "yes"}}`, "/router/autoscaling/enabled"},
		{`router: {autoscaling: {minReplicas: 9, maxReplicas: 3, enabled: true}}`, "router.autoscaling.maxReplicas"},
		{`runtimePool: {replicas: 20000}`, "/runtimePool/replicas"},
		{`runtimePool: {replicas: null}`, "runtimePool.replicas: missing"},
		{`router: {proxyProtocol: true}`, "router.trustedProxies: missing"},
		{`router: {http3: {enabled: true}}`, "router.https.secrets: missing"},
		{`router: {http3: {advertisedPort: 70000}}`, "/router/http3/advertisedPort"},
		{`runtimePool: {drainGraceSeconds: 3601}`, "/runtimePool/drainGraceSeconds"},
		{`runtimePool: {shardsPerNode: 65}`, "/runtimePool/shardsPerNode"},
		{`runtimePool: {lanes: 9}`, "/runtimePool/lanes"},
		{`runtimePool: {resources: {limits: {memory: 1 GB}}}`, "/runtimePool/resources/limits/memory"},
		{`runtimePool: {egress: {allow: [10.0.0.0/8]}}`, "/runtimePool/egress.*allow"},
		{`domain: Example.com`, "/domain"},
		{`domain: "*.example.com"`, "/domain"},
		{`image: {registry: ""}`, "/image/registry"},
		{`image: {tag: "v1 beta"}`, "/image/tag"},
		{`image: {pullPolicy: Sometimes}`, "/image/pullPolicy"},
		{`image: {pullSecrets: [{name: registry}]}`, "/image/pullSecrets/0"},
		{`image: {digests: {router: "sha256:short"}}`, "/image/digests/router"},
		{`log: {format: text}`, "/log/format"},
		{`log: {level: ""}`, "/log/level"},
		{`priorityClass: {create: true}`, "/priorityClass/name"},
		{`priorityClass: {create: true, name: some, value: 2000000000}`, "/priorityClass/value"},
		{`certificates: {mode: none}`, "/certificates/mode"},
		{`certificates: {mode: existingSecret}`, "/certificates/existingSecret/operator"},
		{`certificates: {mode: existingSecret, existingSecret: {operator: a, router: b}}`, "/certificates/existingSecret/runtimeNode"},
		{`certificates: {selfSigned: {certificateLifetime: 90}}`, "/certificates/selfSigned/certificateLifetime"},
		{`certificates: {selfSigned: {certificateLifetime: 89m}}`, "certificates.selfSigned.certificateLifetime: 89m is out of range"},
		{`certificates: {selfSigned: {authorityLifetime: 0d}}`, "certificates.selfSigned.authorityLifetime: 0d is out of range"},
		{`certificates: {selfSigned: {authorityLifetime: 0100d}}`, "/certificates/selfSigned/authorityLifetime"},
		{`certificates: {selfSigned: {authorityLifetime: 99999d}}`, "certificates.selfSigned.authorityLifetime: 99999d is out of range"},
		{`certificates: {certManager: {duration: 90d}}`, "/certificates/certManager/duration"},
		{`networkPolicy: {clientsFrom: [192.0.2.0/24]}`, "/networkPolicy/clientsFrom/0"},
		{`networkPolicy: {metricsFrom: [{ipBlock: {}}]}`, "/networkPolicy/metricsFrom/0/ipBlock.*cidr"},
		{`networkPolicy: {metricsFrom: [{}]}`, "/networkPolicy/metricsFrom/0"},
		{`rbac: {create: false}`, "/rbac.*create"},
		{`metrics: {podMonitor: {interval: often}}`, "/metrics/podMonitor/interval"},
		{`metrics: {dashboards: {labels: {grafana_dashboard: 1}}}`, "/metrics/dashboards/labels/grafana_dashboard"},
		{`tracing: {endpoint: "collector:4317"}`, "/tracing/endpoint"},
		{`tracing: {ratio: 2}`, "/tracing/ratio"},
		{`tracing: {attributes: {a: "b,c"}}`, "/tracing/attributes/a"},
		{`test: {timeoutSeconds: 0}`, "/test/timeoutSeconds"},
		{`global: {imageRegistry: "https://mirror.example.com"}`, "/global/imageRegistry"},
		{`commonLabels: {team: "two words"}`, "/commonLabels/team"},
		{`openshift: true`, "/openshift"},
		{`ipFamilyPolicy: DualStack`, "/ipFamilyPolicy"},
		{`ipFamilies: [ipv6]`, "/ipFamilies/0"},
		{`extraObjects: {kind: ConfigMap}`, "/extraObjects"},
		{`image: {repositories: {router: "Router"}}`, "/image/repositories/router"},
		{`image: {tags: {router: "v1 beta"}}`, "/image/tags/router"},
		{`image: {architectures: [linux/amd64]}`, "/image/architectures/0"},
		{`router: {maxSurge: 0}`, "/router/maxSurge"},
		{`router: {maxSurge: 0%}`, "/router/maxSurge"},
		{`router: {extraVolumes: [{emptyDir: {}}]}`, "/router/extraVolumes/0.*name"},
		{`router: {extraVolumeMounts: [{name: more}]}`, "/router/extraVolumeMounts/0.*mountPath"},
		{`runtimePool: {maxSurge: half}`, "/runtimePool/maxSurge"},
		{`metrics: {podMonitor: {enabled: true}, serviceMonitor: {enabled: true}}`, "metrics.serviceMonitor.enabled"},
	} {
		_, err := renderChart(load(t, platform), bad.values)
		if err == nil {
			t.Errorf("the values %s were accepted", bad.values)
		} else if !regexp.MustCompile(bad.field).MatchString(strings.ReplaceAll(err.Error(), "\n", " ")) {
			t.Errorf("%s: the error does not match %s: %v", bad.values, bad.field, err)
		}
	}
	if _, err := renderChart(load(t, crds), `keep: maybe`); err == nil || !strings.Contains(err.Error(), "/keep") {
		t.Errorf("tenon-crds: the error does not name the field: %v", err)
	}
}

// A process must start with every level that the chart accepts. A test of lifecycle/src/log.rs
// reads the same file.
func TestChartAcceptsTheLogLevelsOfTheProcesses(t *testing.T) {
	for _, line := range strings.Split(strings.TrimSpace(read(t, "testdata/log-levels.txt")), "\n") {
		verdict, level, _ := strings.Cut(line, " ")
		if verdict == "#" {
			continue
		}
		values, err := json.Marshal(map[string]any{"log": map[string]any{"level": level}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = renderChart(load(t, platform), string(values)); (err == nil) != (verdict == "accepted") {
			t.Errorf("the level %q was not %s: %v", level, verdict, err)
		}
	}
}

// The schema and values.yaml have the same values, and the schema refuses all others.
func TestSchemaCoversExactlyTheValues(t *testing.T) {
	for _, chart := range []string{platform, crds} {
		schema := schemaOf(t, chart)
		resolve := func(field any) map[string]any {
			if name, ok := at(field, "$ref").(string); ok {
				field = at(schema, "$defs", strings.TrimPrefix(name, "#/$defs/"))
			}
			fields, _ := field.(map[string]any)
			return fields
		}
		var leaves []string
		var visit func(path string, schema map[string]any)
		visit = func(path string, schema map[string]any) {
			fields, _ := schema["properties"].(map[string]any)
			if fields == nil && path == "global" {
				return
			}
			if fields == nil || whole.MatchString(path) {
				leaves = append(leaves, path)
				return
			}
			// Parent charts add further global values.
			if schema["additionalProperties"] != false && path != "global" {
				t.Errorf("%s: the schema accepts unknown values below %q", chart, path)
			}
			for name, field := range fields {
				visit(strings.TrimPrefix(path+"."+name, "."), resolve(field))
			}
		}
		visit("", schema)
		known := map[string]bool{}
		for _, value := range documented(t, chart) {
			known[value.path] = true
		}
		for _, leaf := range leaves {
			if !known[leaf] {
				t.Errorf("%s: values.yaml has no %s", chart, leaf)
			}
			delete(known, leaf)
		}
		for path := range known {
			t.Errorf("%s: the schema has no %s", chart, path)
		}
	}
}

func schemaOf(t *testing.T, chart string) map[string]any {
	t.Helper()
	var schema map[string]any
	if err := json.Unmarshal([]byte(read(t, chart+"/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestSchemaAcceptsTheChartsOwnValues(t *testing.T) {
	for name, values := range variety {
		if _, err := renderChart(load(t, platform), values); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Helm adds `global` when the chart is a subchart.
	if _, err := renderChart(load(t, platform), `global: {anything: true}`); err != nil {
		t.Error(fmt.Errorf("global values: %w", err))
	}
}
