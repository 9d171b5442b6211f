package tests

import (
	"encoding/json"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"sigs.k8s.io/yaml"
)

func TestEveryServingPodIsScraped(t *testing.T) {
	all := render(t, `metrics: {podMonitor: {enabled: true, interval: 1m, labels: {release: some}}}`)
	monitor := all.find(t, "PodMonitor/tenon")
	if monitor.GetLabels()["release"] != "some" {
		t.Errorf("no Prometheus selects the PodMonitor: %v", monitor.GetLabels())
	}
	pods := podsByComponent(t, all)
	for component, pod := range pods {
		got := selects(monitor.at("spec", "selector"), pod.labels)
		if serves := component != "probe" && component != "stranger"; got != serves {
			t.Errorf("%s is scraped: %v, want %v", component, got, serves)
		} else if serves && pod.number(monitor.at("spec", "podMetricsEndpoints", 0, "port")) != 9090 {
			t.Errorf("%s has no port 9090", component)
		}
	}
}

// The queries in deploy/dashboards use these labels.
func TestScrapedSeriesHaveTheLabelsOfTheDashboards(t *testing.T) {
	endpoint := at(render(t, `metrics: {podMonitor: {enabled: true}}`).find(t, "PodMonitor/tenon").at("spec", "podMetricsEndpoints"), 0)
	if at(endpoint, "honorLabels") != true {
		t.Error("honorLabels is not true, so the namespace of a Worker is overwritten")
	}
	expect(t, "the labels", at(endpoint, "relabelings"), `
- {targetLabel: job, replacement: tenon}
- {sourceLabels: [__meta_kubernetes_pod_label_app_kubernetes_io_component], targetLabel: component}
- {sourceLabels: [__meta_kubernetes_pod_label_tenon_dev_pool], targetLabel: pool}`)
}

func TestAlertsAreInstalledUnchanged(t *testing.T) {
	rule := renderWithFiles(t, `metrics: {prometheusRule: {enabled: true}}`).find(t, "PrometheusRule/tenon")
	var want any
	if err := yaml.Unmarshal([]byte(rules), &want); err != nil {
		t.Fatal(err)
	}
	text, _ := yaml.Marshal(want)
	expect(t, "the PrometheusRule", rule.at("spec"), string(text))
}

func TestDashboardsAreInstalledUnchanged(t *testing.T) {
	dashboard := renderWithFiles(t, ``).find(t, "ConfigMap/tenon-dashboard-some")
	if dashboard.GetLabels()["grafana_dashboard"] != "1" {
		t.Errorf("no sidecar finds the dashboard: %v", dashboard.GetLabels())
	}
	text, _ := dashboard.at("data", "tenon-some.json").(string)
	if strings.TrimSpace(text) != `{"title": "{{ Grafana syntax }}"}` {
		t.Errorf("the dashboard is %q", text)
	}
}

func TestMissingDashboardsAndAlertsCreateNoObjects(t *testing.T) {
	bare := load(t, platform)
	bare.Files = without(bare.Files, "dashboards/", "rules/")
	rendered, err := renderChart(bare, `metrics: {prometheusRule: {enabled: true}}`)
	if err != nil {
		t.Fatal(err)
	}
	all := parse(t, rendered)
	if found := append(all.kind("ConfigMap"), all.kind("PrometheusRule")...); len(found) != 0 {
		t.Errorf("the chart creates the unexpected objects %v", found)
	}
}

// Each dashboard of the chart must fit into a ConfigMap, and all of them together must fit into a
// Helm release.
func TestDashboardsFitIntoConfigMapsAndRelease(t *testing.T) {
	size := 0
	for _, file := range load(t, platform).Files {
		if !strings.HasPrefix(file.Name, "dashboards/") {
			continue
		}
		size += len(file.Data)
		checkDashboard(t, file)
	}
	// Helm compresses the chart and the objects to about a tenth, and stores them in one Secret of
	// at most 1 MiB.
	if size > 4<<20 {
		t.Errorf("the dashboards have %d bytes, want at most 4 MiB", size)
	}
}

func checkDashboard(t *testing.T, file *common.File) {
	t.Helper()
	name := strings.TrimSuffix(strings.TrimPrefix(file.Name, "dashboards/"), ".json")
	if strings.ToLower(name) != name || strings.ContainsAny(name, " _/") {
		t.Errorf("%s is not a valid object name", name)
	}
	if len(file.Data) > 1<<19 || !json.Valid(file.Data) {
		t.Errorf("%s is not valid JSON of at most 512 KiB", file.Name)
	}
}

func TestAServiceMonitorScrapesTheSamePods(t *testing.T) {
	all := render(t, `metrics: {serviceMonitor: {enabled: true, interval: 1m, labels: {release: some}}}`)
	monitor := all.find(t, "ServiceMonitor/tenon")
	expect(t, "the label", monitor.GetLabels()["release"], "some")
	scraped := map[string]int64{}
	for _, service := range all.kind("Service") {
		labels := map[string]any{}
		for label, value := range service.GetLabels() {
			labels[label] = value
		}
		if !selects(monitor.at("spec", "selector"), labels) {
			continue
		}
		expect(t, service.String(), service.at("spec", "clusterIP"), "None")
		expect(t, service.String(), service.at("spec", "ports", 0, "name"), "admin")
		for component, pod := range podsByComponent(t, all) {
			if selects(map[string]any{"matchLabels": service.at("spec", "selector")}, pod.labels) {
				scraped[component] += pod.number(service.at("spec", "ports", 0, "targetPort"))
			}
		}
	}
	expect(t, "the scraped ports", scraped, `{operator: 9090, router: 9090, runtime-node: 9090}`)
	endpoint := at(monitor.at("spec", "endpoints"), 0)
	expect(t, "the interval", at(endpoint, "interval"), "1m")
	pods := render(t, `metrics: {podMonitor: {enabled: true, interval: 1m}}`).find(t, "PodMonitor/tenon")
	same, _ := yaml.Marshal(at(pods.at("spec", "podMetricsEndpoints"), 0))
	expect(t, "the endpoint", endpoint, string(same))
}
