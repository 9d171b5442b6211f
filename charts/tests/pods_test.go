package tests

import (
	"fmt"
	"strings"
	"testing"
)

func TestEveryPodMeetsTheRestrictedProfile(t *testing.T) {
	fixed := `
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532`
	for name, values := range variety {
		user := fixed
		if name == "openshift" {
			user = ""
		}
		pods := render(t, values).pods()
		if len(pods) != 3 {
			t.Fatalf("the chart has %d Pods, want 3", len(pods))
		}
		for _, pod := range pods {
			expect(t, "the security context of "+pod.owner, pod.spec["securityContext"], `
runAsNonRoot: true
seccompProfile: {type: RuntimeDefault}`+user)
			for _, container := range items(pod.spec["containers"]) {
				expect(t, "the security context of the container of "+pod.owner, at(container, "securityContext"), `
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}`)
			}
			for _, field := range []string{"hostNetwork", "hostPID", "hostIPC", "initContainers"} {
				if pod.spec[field] != nil {
					t.Errorf("%s has %s", pod.owner, field)
				}
			}
			for _, volume := range items(pod.spec["volumes"]) {
				limited := at(volume, "emptyDir", "sizeLimit") != nil
				if at(volume, "secret") == nil && at(volume, "configMap") == nil && !limited {
					t.Errorf("%s has a volume that is neither a Secret, a ConfigMap nor limited in size: %v", pod.owner, volume)
				}
			}
		}
	}
}

func TestOnlyClientsOfTheAPIServerMountAToken(t *testing.T) {
	all := render(t, ``)
	for _, account := range all.kind("ServiceAccount") {
		if account.at("automountServiceAccountToken") != false {
			t.Errorf("%s mounts its token by default", account)
		}
	}
	has := map[string]any{}
	for _, pod := range all.pods() {
		has[pod.owner] = pod.spec["automountServiceAccountToken"]
		account := "ServiceAccount/" + fmt.Sprint(pod.spec["serviceAccountName"])
		if !all.has(account) {
			t.Errorf("%s has the account %s, which does not exist", pod.owner, account)
		}
	}
	expect(t, "the Pods with a token", has, `
Deployment/tenon-operator: true
Deployment/tenon-router: false
Pod/tenon-probe: true`)
	// The operator's arguments name the account of the nodes, so the account must exist.
	all.find(t, "ServiceAccount/tenon-runtime-node")
}

func TestImagesAreReferencedByTagOrDigest(t *testing.T) {
	version := load(t, platform).Metadata.AppVersion
	images := func(values string) string {
		all := render(t, values)
		var images []string
		for _, owner := range []string{"Deployment/tenon-operator", "Deployment/tenon-router", "Pod/tenon-probe"} {
			images = append(images, fmt.Sprint(all.pod(t, owner).container()["image"]))
		}
		for _, arg := range all.pod(t, "Deployment/tenon-operator").args() {
			if image, ok := strings.CutPrefix(arg, "--node-image="); ok {
				images = append(images, image)
			}
		}
		return strings.Join(images, " ")
	}
	at := "ghcr.io/tenon-dev/"
	if got, want := images(``), at+"tenon-operator:"+version+" "+at+"tenon-router:"+version+" "+
		at+"tenon-operator:"+version+" "+at+"tenon-runtime-node:"+version; got != want {
		t.Errorf("the images are %s, want %s", got, want)
	}
	if got, want := images(`image: {registry: "localhost:5000", tag: e2e}`), "localhost:5000/tenon-operator:e2e "+
		"localhost:5000/tenon-router:e2e localhost:5000/tenon-operator:e2e localhost:5000/tenon-runtime-node:e2e"; got != want {
		t.Errorf("the images are %s, want %s", got, want)
	}
	if got, want := images(`{image: {tags: {router: v2}, repositories: {runtimeNode: nodes/v8}}, global: {imageRegistry: "mirror:5000"}}`),
		"mirror:5000/tenon-dev/tenon-operator:"+version+" mirror:5000/tenon-dev/tenon-router:v2 "+
			"mirror:5000/tenon-dev/tenon-operator:"+version+" mirror:5000/tenon-dev/nodes/v8:"+version; got != want {
		t.Errorf("the images are %s, want %s", got, want)
	}
	digest := "sha256:" + strings.Repeat("5a", 32)
	values := fmt.Sprintf("image: {digests: {operator: %[1]q, router: %[1]q, runtimeNode: %[1]q}}", digest)
	if got, want := images(values), at+"tenon-operator@"+digest+" "+at+"tenon-router@"+digest+" "+
		at+"tenon-operator@"+digest+" "+at+"tenon-runtime-node@"+digest; got != want {
		t.Errorf("the images are %s, want %s", got, want)
	}
}

func TestGracePeriodsCoverTheDrain(t *testing.T) {
	for _, test := range []struct {
		values string
		router int
	}{
		{``, 5 + 30 + 5},
		{`router: {drain: {lingerSeconds: 20, tunnelGraceSeconds: 600}}`, 20 + 600 + 5},
		{`router: {drain: {lingerSeconds: 0, tunnelGraceSeconds: 0, requestGraceSeconds: 0}}`, 5},
	} {
		router := render(t, test.values).pod(t, "Deployment/tenon-router")
		if got := fmt.Sprint(router.spec["terminationGracePeriodSeconds"]); got != fmt.Sprint(test.router) {
			t.Errorf("%s: the grace period of routers is %s s, want %d s", test.values, got, test.router)
		}
	}
	router := render(t, `router: {body: {graceSeconds: 9, bytesPerSecond: 10}, drain: {lingerSeconds: 7, tunnelGraceSeconds: 8}}`).pod(t, "Deployment/tenon-router")
	for _, arg := range []string{"--body-grace=9", "--body-rate=10", "--drain-linger=7", "--tunnel-grace=8"} {
		if !contains(router.args(), arg) {
			t.Errorf("routers lack the argument %s: %v", arg, router.args())
		}
	}
	operator := render(t, `operator: {preStopSleepSeconds: 7, drainGraceSeconds: 40}`).pod(t, "Deployment/tenon-operator")
	if got := fmt.Sprint(operator.spec["terminationGracePeriodSeconds"]); got != "52" {
		t.Errorf("the grace period of operators is %s s, want 52 s", got)
	}
	expect(t, "the lifecycle of operators", at(operator.container(), "lifecycle"), `preStop: {sleep: {seconds: 7}}`)
}

func TestRolloutsAddPodsBeforeTheyRemoveAny(t *testing.T) {
	all := render(t, ``)
	for _, name := range []string{"Deployment/tenon-operator", "Deployment/tenon-router"} {
		deployment := all.find(t, name)
		expect(t, "the strategy of "+name, deployment.at("spec", "strategy"), `
type: RollingUpdate
rollingUpdate: {maxSurge: 1, maxUnavailable: 0}`)
		expect(t, "the readiness of "+name, at(all.pod(t, name).container(), "readinessProbe"), `
httpGet: {path: /readyz, port: admin}
periodSeconds: 5`)
	}
}

func TestRouterReplicasHaveOneOwner(t *testing.T) {
	fixed := render(t, `router: {replicas: 7}`)
	if got := fmt.Sprint(fixed.find(t, "Deployment/tenon-router").at("spec", "replicas")); got != "7" {
		t.Errorf("the Deployment has %s replicas, want 7", got)
	}
	if fixed.has("HorizontalPodAutoscaler/tenon-router") {
		t.Error("there is an autoscaler, although it is not enabled")
	}
	scaled := render(t, `router: {autoscaling: {enabled: true, minReplicas: 3}}`)
	if got := scaled.find(t, "Deployment/tenon-router").at("spec", "replicas"); got != nil {
		t.Errorf("the Deployment has %v replicas, want none", got)
	}
	expect(t, "the target of the autoscaler", scaled.find(t, "HorizontalPodAutoscaler/tenon-router").at("spec", "scaleTargetRef"), `
{apiVersion: apps/v1, kind: Deployment, name: tenon-router}`)
}

func TestAutoscaledPoolOmitsReplicas(t *testing.T) {
	pool := render(t, `runtimePool: {autoscaled: true, replicas: 7}`).find(t, "RuntimePool/default")
	if replicas := pool.at("spec", "replicas"); replicas != nil {
		t.Errorf("the RuntimePool has %v replicas, want none", replicas)
	}
	pool = render(t, `runtimePool: {replicas: 0}`).find(t, "RuntimePool/default")
	if got := fmt.Sprint(pool.at("spec", "replicas")); got != "0" {
		t.Errorf("the RuntimePool has %s replicas, want 0", got)
	}
}

func TestPodsAreSpreadIfPossible(t *testing.T) {
	all := render(t, ``)
	for _, owner := range []string{"Deployment/tenon-operator", "Deployment/tenon-router"} {
		pod := all.pod(t, owner)
		constraints := items(pod.spec["topologySpreadConstraints"])
		if len(constraints) != 2 {
			t.Errorf("%s has %d constraints, want 2", owner, len(constraints))
		}
		for _, constraint := range constraints {
			if at(constraint, "whenUnsatisfiable") != "ScheduleAnyway" || !selects(at(constraint, "labelSelector"), pod.labels) {
				t.Errorf("%s has the constraint %v", owner, constraint)
			}
		}
	}
}

func TestDisruptionBudgetsSelectTheirPods(t *testing.T) {
	all := render(t, ``)
	budgets := all.kind("PodDisruptionBudget")
	if len(budgets) != 2 {
		t.Fatalf("the chart has the budgets %v, want 2", budgets)
	}
	for _, budget := range budgets {
		pod := all.pod(t, "Deployment/"+budget.GetName())
		if !selects(budget.at("spec", "selector"), pod.labels) {
			t.Errorf("%s does not select %v", budget, pod.labels)
		}
	}
}

func TestPodsAndNodesHaveThePriorityClass(t *testing.T) {
	all := render(t, `priorityClass: {name: system-cluster-critical}`)
	if len(all.kind("PriorityClass")) != 0 {
		t.Error("the chart creates a PriorityClass that must exist already")
	}
	for _, owner := range []string{"Deployment/tenon-operator", "Deployment/tenon-router"} {
		if got := all.pod(t, owner).spec["priorityClassName"]; got != "system-cluster-critical" {
			t.Errorf("%s has the PriorityClass %v", owner, got)
		}
	}
	if args := all.pod(t, "Deployment/tenon-operator").args(); !contains(args, "--node-priority-class=system-cluster-critical") {
		t.Errorf("nodes have no PriorityClass: %v", args)
	}
	created := render(t, `priorityClass: {create: true, name: tenants}`).find(t, "PriorityClass/tenants")
	if got := toInt(created.at("value")); got != 1_000_000 {
		t.Errorf("the priority is %d, want 1000000", got)
	}
}

func TestPodsRunOnTheArchitecturesOfTheImages(t *testing.T) {
	arch := func(names string) string {
		return fmt.Sprintf("{key: kubernetes.io/arch, operator: In, values: [%s]}", names)
	}
	all := render(t, ``)
	for _, owner := range []string{"Deployment/tenon-operator", "Deployment/tenon-router", "Pod/tenon-probe"} {
		expect(t, "the affinity of "+owner, all.pod(t, owner).spec["affinity"], fmt.Sprintf(`
nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [%s]}]}}`, arch("amd64")))
	}
	if args := all.pod(t, "Deployment/tenon-operator").args(); !contains(args, "--node-architecture=amd64") {
		t.Errorf("nodes run on any architecture: %v", args)
	}
	// A Pod may run where one of the terms holds, so each of them needs the restriction.
	both := render(t, `
image: {architectures: [amd64, arm64]}
router:
  affinity:
    podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}
    nodeAffinity:
      preferredDuringSchedulingIgnoredDuringExecution: []
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}, {matchFields: [{key: b}]}]`)
	expect(t, "the affinity of routers", both.pod(t, "Deployment/tenon-router").spec["affinity"], fmt.Sprintf(`
podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}
nodeAffinity:
  preferredDuringSchedulingIgnoredDuringExecution: []
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - {matchExpressions: [{key: a, operator: Exists}, %[1]s]}
      - {matchFields: [{key: b}], matchExpressions: [%[1]s]}`, arch("amd64, arm64")))
	if any := render(t, `image: {architectures: []}`).pod(t, "Deployment/tenon-router").spec["affinity"]; any != nil {
		t.Errorf("routers have the affinity %v, want none", any)
	}
}

func TestPodsOfNodesGetLabelsAndAnnotations(t *testing.T) {
	args := render(t, variety["everything"]).pod(t, "Deployment/tenon-operator").args()
	for _, arg := range []string{"--node-label=a=label", "--node-label=team=platform", "--node-annotation=an=annotation=1, 2"} {
		if !contains(args, arg) {
			t.Errorf("the operator lacks the argument %s: %v", arg, args)
		}
	}
}

func TestAComponentMayHaveItsOwnPriorityClass(t *testing.T) {
	all := render(t, `{priorityClass: {name: tenants}, router: {priorityClassName: front}, runtimeNode: {priorityClassName: nodes}}`)
	expect(t, "the PriorityClass of operators", all.pod(t, "Deployment/tenon-operator").spec["priorityClassName"], "tenants")
	expect(t, "the PriorityClass of routers", all.pod(t, "Deployment/tenon-router").spec["priorityClassName"], "front")
	if args := all.pod(t, "Deployment/tenon-operator").args(); !contains(args, "--node-priority-class=nodes") {
		t.Errorf("nodes have another PriorityClass: %v", args)
	}
}
