package tests

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"sigs.k8s.io/yaml"
)

// Sets of values that together exercise every part of every template.
var variety = map[string]string{
	"defaults":         ``,
	"highly available": mustRead(platform + "/values-ha.yaml"),
	"everything": `
domain: workers.example.com
commonLabels: {team: platform}
gateway: {enabled: always, className: workers}
commonAnnotations: {owner: platform}
openshift: disabled
ipFamilyPolicy: PreferDualStack
ipFamilies: [IPv6, IPv4]
global: {imageRegistry: "mirror.example.com:5000", imagePullSecrets: [shared]}
image:
  registry: registry.example.com/tenon
  repositories: {operator: control/operator}
  tag: v9
  tags: {operator: v9.1}
  architectures: [amd64, arm64]
  pullPolicy: Always
  pullSecrets: [registry, another]
  digests: {router: "sha256:` + strings.Repeat("0a", 32) + `"}
log: {level: "warn,tenon_router=debug", format: pretty}
tracing:
  endpoint: https://collector.example.com:4317
  ratio: 0.05
  errors: false
  attributes: {k8s.cluster.name: east, deployment.environment.name: production}
  headersSecret: collector
  caConfigMap: collector-ca
priorityClass: {create: true, name: tenants, value: 1000000000}
certificates: {mode: certManager}
operator: &component
  replicas: 2
  extraArgs: [--extra]
  extraEnv: [{name: ONE, value: "1"}]
  extraVolumes: [{name: more, emptyDir: {sizeLimit: 1Mi}}]
  extraVolumeMounts: [{name: more, mountPath: /more}]
  priorityClassName: system-cluster-critical
  podAnnotations: {an: annotation}
  podLabels: {a: label, app.kubernetes.io/name: no-other}
  nodeSelector: {disk: fast}
  tolerations: [{key: tenants, operator: Exists}]
  affinity:
    podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: Exists}]}, {matchFields: []}]
  topologySpreadConstraints:
    - {topologyKey: zone, maxSkew: 2, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: label}}}
  serviceAccount: {annotations: {an: annotation}}
  podDisruptionBudget: {maxUnavailable: 25%}
router:
  <<: *component
  service:
    type: LoadBalancer
    port: 8080
    nodePort: 30080
    annotations: {an: annotation}
    externalTrafficPolicy: Local
    loadBalancerClass: example.com/balancer
    loadBalancerSourceRanges: [192.0.2.0/24]
  https: {secrets: [shop-tls, api-tls], gateways: true, port: 8443, nodePort: 30443, redirect: true, hsts: max-age=60}
  http3: {enabled: true, advertisedPort: 443, nodePort: 30444}
  trustedProxies: [10.0.0.0/8, "fd00::/8"]
  accessLog: true
  debugHeaders: true
  compression: false
  maxSurge: 25%
  autoscaling: {enabled: true, behavior: {scaleDown: {stabilizationWindowSeconds: 60}}}
runtimeNode:
  serviceAccount: {annotations: {an: annotation}}
  podAnnotations: {an: "annotation=1, 2"}
  podLabels: {a: label}
runtimePool:
  maxSurge: 25%
  limits: {default: {cpuMs: 10}, max: {cpuMs: 100}}
  rateLimits: {namespace: {requestsPerSecond: 1000, burst: 2000}}
  egress: {allowCidrs: [10.0.0.0/8], proxy: {url: "http://proxy.example.com:3128"}}
  allowedNamespaces: {from: Selector, selector: {matchLabels: {tier: gold}}}
  runtimeClassName: gvisor
  nodeSelector: {disk: fast}
  tolerations: [{key: tenants, operator: Exists}]
  topologySpread: [{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]
networkPolicy:
  clientsFrom: [{ipBlock: {cidr: 192.0.2.0/24}}]
  metricsFrom: [{namespaceSelector: {matchLabels: {name: monitoring}}}]
  nodeEgress: {restrict: true}
rbac: {ownerReferencesPermissionEnforcement: true}
hosts: {requireGrant: true}
metrics:
  podMonitor: {enabled: true, labels: {release: prometheus}}
  prometheusRule: {enabled: true, labels: {release: prometheus}}
  dashboards: {namespace: monitoring, annotations: {grafana_folder: Tenon}}
test: {pool: another, timeoutSeconds: 5}
`,
	"an issuer": `certificates: {mode: certManager, certManager: {issuerRef: {name: corporate, kind: ClusterIssuer}}}`,
	"own secrets": `
certificates: {mode: existingSecret, existingSecret: {operator: one, router: two, runtimeNode: three}}`,
	"a node port": `router: {service: {type: NodePort}}`,
	"openshift":   `{openshift: enabled, networkPolicy: {nodeEgress: {restrict: true}}}`,
	"dual stack": `
ipFamilyPolicy: RequireDualStack
ipFamilies: [IPv4, IPv6]
router: {https: {secrets: [shop-tls]}}`,
	"a service monitor": `
metrics: {serviceMonitor: {enabled: true, labels: {release: prometheus}}, prometheusRule: {enabled: true}}`,
	"minimal": `
operator: {podDisruptionBudget: {enabled: false}}
router: {podDisruptionBudget: {enabled: false}}
runtimePool: {create: false}
networkPolicy: {enabled: false}
admissionPolicies: {enabled: false}
rbac: {aggregateToDefaultRoles: false}
metrics: {dashboards: {enabled: false}}`,
}

// The known kinds. Each has the Go type if the kind is one of Kubernetes' own, and whether the kind
// is namespaced.
var kinds = map[string]struct {
	new        func() any
	namespaced bool
}{
	"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy":        {func() any { return new(admissionv1.ValidatingAdmissionPolicy) }, false},
	"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding": {func() any { return new(admissionv1.ValidatingAdmissionPolicyBinding) }, false},
	"apps/v1 Deployment":                              {func() any { return new(appsv1.Deployment) }, true},
	"autoscaling/v2 HorizontalPodAutoscaler":          {func() any { return new(autoscalingv2.HorizontalPodAutoscaler) }, true},
	"coordination.k8s.io/v1 Lease":                    {func() any { return new(coordinationv1.Lease) }, true},
	"networking.k8s.io/v1 NetworkPolicy":              {func() any { return new(networkingv1.NetworkPolicy) }, true},
	"policy/v1 PodDisruptionBudget":                   {func() any { return new(policyv1.PodDisruptionBudget) }, true},
	"rbac.authorization.k8s.io/v1 ClusterRole":        {func() any { return new(rbacv1.ClusterRole) }, false},
	"rbac.authorization.k8s.io/v1 ClusterRoleBinding": {func() any { return new(rbacv1.ClusterRoleBinding) }, false},
	"rbac.authorization.k8s.io/v1 Role":               {func() any { return new(rbacv1.Role) }, true},
	"rbac.authorization.k8s.io/v1 RoleBinding":        {func() any { return new(rbacv1.RoleBinding) }, true},
	"scheduling.k8s.io/v1 PriorityClass":              {func() any { return new(schedulingv1.PriorityClass) }, false},
	"v1 ConfigMap":                                    {func() any { return new(corev1.ConfigMap) }, true},
	"v1 Pod":                                          {func() any { return new(corev1.Pod) }, true},
	"v1 Service":                                      {func() any { return new(corev1.Service) }, true},
	"v1 ServiceAccount":                               {func() any { return new(corev1.ServiceAccount) }, true},
	// Kinds of other projects, whose fields are not checked.
	"cert-manager.io/v1 Certificate":            {nil, true},
	"cert-manager.io/v1 Issuer":                 {nil, true},
	"gateway.networking.k8s.io/v1 GatewayClass": {nil, false},
	"monitoring.coreos.com/v1 PodMonitor":       {nil, true},
	"monitoring.coreos.com/v1 PrometheusRule":   {nil, true},
	"monitoring.coreos.com/v1 ServiceMonitor":   {nil, true},
}

func TestEveryObjectFitsItsSchema(t *testing.T) {
	seen := map[string]bool{}
	for name, values := range variety {
		for _, o := range renderWithFiles(t, values) {
			kind := o.GetAPIVersion() + " " + o.GetKind()
			if kind == "tenon.dev/v1alpha1 RuntimePool" {
				checkPool(t, o)
				continue
			}
			known, ok := kinds[kind]
			if !ok {
				t.Fatalf("%s: unknown kind %s", name, kind)
			}
			seen[kind] = true
			in := namespace
			if o.GetKind() == "ConfigMap" && name == "everything" {
				in = "monitoring"
			}
			if !known.namespaced {
				in = ""
			}
			if o.GetNamespace() != in {
				t.Errorf("%s: %s is in the namespace %q, want %q", name, o, o.GetNamespace(), in)
			}
			if known.new == nil {
				continue
			}
			text, err := yaml.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict(text, known.new()); err != nil {
				t.Errorf("%s: %s: %v", name, o, err)
			}
		}
	}
	for kind := range kinds {
		if !seen[kind] {
			t.Errorf("no values of these tests create a %s", kind)
		}
	}
}

func TestObjectNamesAreUnique(t *testing.T) {
	for name, values := range variety {
		seen := map[string]bool{}
		for _, o := range renderWithFiles(t, values) {
			if seen[o.String()] {
				t.Errorf("%s: duplicate object %s", name, o)
			}
			seen[o.String()] = true
		}
	}
}

func TestEveryObjectHasTheStandardLabels(t *testing.T) {
	for name, values := range variety {
		for _, o := range renderWithFiles(t, values) {
			labels := o.GetLabels()
			component := labels["app.kubernetes.io/component"]
			want := map[string]string{
				"app.kubernetes.io/name":       "tenon-" + component,
				"app.kubernetes.io/instance":   release,
				"app.kubernetes.io/part-of":    "tenon",
				"app.kubernetes.io/managed-by": "Helm",
				"app.kubernetes.io/version":    load(t, platform).Metadata.AppVersion,
			}
			if name == "everything" {
				want["team"] = "platform"
				if o.GetAnnotations()["owner"] != "platform" {
					t.Errorf("%s lacks the common annotation: %v", o, o.GetAnnotations())
				}
			}
			for label, value := range want {
				if labels[label] != value {
					t.Errorf("%s: %s has %s=%s, want %s", name, o, label, labels[label], value)
				}
			}
			switch component {
			case "operator", "router", "runtime-node", "probe":
			default:
				t.Errorf("%s: %s has the unknown component %q", name, o, component)
			}
		}
	}
}

// checkPool compares a RuntimePool with the CRD's schema. An unknown field is a fault, although the
// API server would only warn about it.
func checkPool(t *testing.T, pool object) {
	t.Helper()
	var crd map[string]any
	if err := yaml.Unmarshal([]byte(read(t, crds+"/templates/runtimepools.yaml")), &crd); err != nil {
		t.Fatal(err)
	}
	schema := at(crd, "spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec")
	for _, fault := range faults("spec", pool.at("spec"), schema) {
		t.Errorf("RuntimePool: %s", fault)
	}
}

// faults describes the fields of a value that a schema does not have, and the values of a wrong
// type. It checks nothing else, such as required fields and patterns.
func faults(path string, value, schema any) []string {
	var found []string
	fault := func(format string, args ...any) {
		found = append(found, path+": "+fmt.Sprintf(format, args...))
	}
	switch value := value.(type) {
	case map[string]any:
		fields, known := at(schema, "properties").(map[string]any)
		others := at(schema, "additionalProperties")
		for name, field := range value {
			switch {
			case known && fields[name] != nil:
				found = append(found, faults(path+"."+name, field, fields[name])...)
			case others != nil:
				found = append(found, faults(path+"."+name, field, others)...)
			default:
				fault("unknown field %s", name)
			}
		}
	case []any:
		for i, item := range value {
			found = append(found, faults(fmt.Sprintf("%s[%d]", path, i), item, at(schema, "items"))...)
		}
	default:
		typeName, _ := at(schema, "type").(string)
		types := map[string]bool{}
		switch value.(type) {
		case string:
			types["string"] = true
		case bool:
			types["boolean"] = true
		case float64, int64, json.Number:
			types["integer"], types["number"] = true, true
		}
		isIntOrString := at(schema, "x-kubernetes-int-or-string") == true
		if !types[typeName] && !(isIntOrString && (types["integer"] || types["string"])) {
			fault("%v is not of type %s", value, typeName)
		}
	}
	return found
}
