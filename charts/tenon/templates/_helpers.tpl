{{/* Definitions that all processes share. Names are fixed, because RuntimePools are cluster-scoped
and a cluster therefore has one Tenon. */}}

{{/* The labels by which Services, budgets and policies select the Pods of a component:
(list $ "router"). They never change. */}}
{{- define "tenon.selector" -}}
{{- $ := index . 0 -}}
{{- $component := index . 1 -}}
app.kubernetes.io/name: tenon-{{ $component }}
app.kubernetes.io/instance: {{ $.Release.Name }}
app.kubernetes.io/component: {{ $component }}
{{- end }}

{{/* The labels of an object of a component, and custom labels that do not override them:
(list $ "router" labels…). */}}
{{- define "tenon.labels" -}}
{{- $ := index . 0 -}}
{{- $labels := include "tenon.selector" . | fromYaml -}}
{{- $_ := set $labels "app.kubernetes.io/part-of" "tenon" -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $.Release.Service -}}
{{- $_ := set $labels "app.kubernetes.io/version" $.Chart.AppVersion -}}
{{- range slice . 2 }}{{ $labels = merge $labels . }}{{ end -}}
{{- merge $labels $.Values.commonLabels | toYaml -}}
{{- end }}

{{/* The annotations of an object, after its labels: common ones, which do not override custom ones:
(list $ annotations…). Empty if there are none. */}}
{{- define "tenon.annotations" -}}
{{- $ := index . 0 -}}
{{- $annotations := dict -}}
{{- range slice . 1 }}{{ $annotations = merge $annotations . }}{{ end -}}
{{- with merge $annotations $.Values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
{{- end -}}
{{- end }}

{{/* The labels of the nodes' Pods, which the operator creates from RuntimePools:
operator/src/pool/plan.rs. */}}
{{- define "tenon.nodes" -}}
app.kubernetes.io/name: tenon-runtime-node
app.kubernetes.io/component: runtime-node
{{- end }}

{{/* The reference of an image: (list $ "runtimeNode"). */}}
{{- define "tenon.image" -}}
{{- $ := index . 0 -}}
{{- $image := $.Values.image -}}
{{- $registry := $image.registry -}}
{{- with $.Values.global.imageRegistry -}}
{{- /* The path in the registry stays. */ -}}
{{- $registry = regexReplaceAll "^[^/]+" $registry . -}}
{{- end -}}
{{- $reference := printf "%s/%s" $registry (index $image.repositories (index . 1)) -}}
{{- $tag := index $image.tags (index . 1) -}}
{{- with index $image.digests (index . 1) -}}
{{ $reference }}@{{ . }}
{{- else -}}
{{ $reference }}:{{ coalesce $tag $image.tag $.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The names of the Secrets for pulling images, as JSON. */}}
{{- define "tenon.pullSecrets" -}}
{{- concat .Values.image.pullSecrets .Values.global.imagePullSecrets | uniq | toJson -}}
{{- end }}

{{/* Not empty on OpenShift. */}}
{{- define "tenon.openshift" -}}
{{- $detected := .Capabilities.APIVersions.Has "security.openshift.io/v1" -}}
{{- if or (eq .Values.openshift "enabled") (and (eq .Values.openshift "auto") $detected) -}}
true
{{- end -}}
{{- end }}

{{/* Not empty if processes must also accept connections over IPv6. */}}
{{- define "tenon.ipv6" -}}
{{- if or (has "IPv6" .Values.ipFamilies) (hasSuffix "DualStack" .Values.ipFamilyPolicy) -}}
true
{{- end -}}
{{- end }}

{{/* The families of a Service, within its spec. Empty by default. */}}
{{- define "tenon.families" -}}
{{- with .Values.ipFamilyPolicy }}
  ipFamilyPolicy: {{ . }}
{{- end -}}
{{- with .Values.ipFamilies }}
  ipFamilies:
    {{- toYaml . | nindent 4 }}
{{- end -}}
{{- end }}

{{/* The affinity of Pods: that of a component, restricted to the architectures of the images:
(list $ affinity). A Kubernetes node has to match only one term of the affinity, so each term gets
the restriction. Empty if there is no affinity. */}}
{{- define "tenon.affinity" -}}
{{- $ := index . 0 -}}
{{- $affinity := deepCopy (index . 1) -}}
{{- with $.Values.image.architectures -}}
{{- $arch := dict "key" "kubernetes.io/arch" "operator" "In" "values" . -}}
{{- $nodes := get $affinity "nodeAffinity" | default dict -}}
{{- $required := get $nodes "requiredDuringSchedulingIgnoredDuringExecution" | default dict -}}
{{- $terms := list -}}
{{- range get $required "nodeSelectorTerms" | default (list dict) -}}
{{- $expressions := append (get . "matchExpressions" | default list) $arch -}}
{{- $terms = append $terms (merge (dict "matchExpressions" $expressions) .) -}}
{{- end -}}
{{- $required = dict "nodeSelectorTerms" $terms -}}
{{- $_ := set $nodes "requiredDuringSchedulingIgnoredDuringExecution" $required -}}
{{- $_ := set $affinity "nodeAffinity" $nodes -}}
{{- end -}}
{{- with $affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end }}

{{/* Fails if the cluster's CRDs are older than this chart, because its operator would write fields
that such CRDs drop. `helm template` sees no cluster, so it skips the check. */}}
{{- define "tenon.requireCRDs" -}}
{{- $known := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "runtimepools.tenon.dev" | dig "metadata" "annotations" "tenon.dev/version" "" -}}
{{- if and $known (lt ((semver $known).Compare (semver .Chart.Version)) 0) -}}
{{- fail (printf "runtimepools.tenon.dev: the cluster has version %s of the CRDs, which lacks fields of version %s; upgrade the chart tenon-crds first" $known .Chart.Version) -}}
{{- end -}}
{{- end }}

{{/* The Secret with the certificate of a role: (list $ "runtime-node" "runtimeNode"). */}}
{{- define "tenon.certificate" -}}
{{- $certificates := (index . 0).Values.certificates -}}
{{- if eq $certificates.mode "existingSecret" -}}
{{ index $certificates.existingSecret (index . 2) }}
{{- else -}}
tenon-{{ index . 1 }}-tls
{{- end -}}
{{- end }}

{{/* A lifetime within the bounds of operator/src/config.rs: (list $ "authorityLifetime"). */}}
{{- define "tenon.lifetime" -}}
{{- $lifetime := index (index . 0).Values.certificates.selfSigned (index . 1) -}}
{{- $unit := regexFind ".$" $lifetime -}}
{{- $seconds := trimSuffix $unit $lifetime | int64 | mul (get (dict "s" 1 "m" 60 "h" 3600 "d" 86400) $unit) -}}
{{- if or (lt $seconds 5400) (gt $seconds 3155760000) -}}
{{- fail (printf "certificates.selfSigned.%s: %s is out of range; set 90m to 36525d" (index . 1) $lifetime) -}}
{{- end -}}
{{- $lifetime -}}
{{- end }}

{{/* The common part of Pod specs: (list $ "router" .Values.router). */}}
{{- define "tenon.pod" -}}
{{- $ := index . 0 -}}
{{- $component := index . 1 -}}
{{- $values := index . 2 -}}
serviceAccountName: tenon-{{ $component }}
enableServiceLinks: false
{{- with include "tenon.pullSecrets" $ | fromJsonArray }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $values.priorityClassName | default $.Values.priorityClass.name }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  {{- include "tenon.podSecurity" $ | nindent 2 }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- include "tenon.affinity" (list $ $values.affinity) }}
topologySpreadConstraints:
  {{- with $values.topologySpreadConstraints }}
  {{- toYaml . | nindent 2 }}
  {{- else }}
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "tenon.selector" (list $ $component) | nindent 8 }}
    # Only Pods of the same ReplicaSet are counted, so that old Pods do not count during a rollout.
    matchLabelKeys: [pod-template-hash]
  {{- end }}
  {{- end }}
{{- end }}

{{/* The restricted profile of the Pod Security Standards, for a Pod and for its container. */}}
{{- define "tenon.podSecurity" -}}
runAsNonRoot: true
{{- if not (include "tenon.openshift" .) }}
runAsUser: 65532
runAsGroup: 65532
# This group may read the certificates.
fsGroup: 65532
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "tenon.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* A separate thread of each process answers probes, so a busy process still answers. */}}
{{- define "tenon.probes" -}}
livenessProbe:
  httpGet:
    path: /livez
    port: admin
  periodSeconds: 5
readinessProbe:
  httpGet:
    path: /readyz
    port: admin
  periodSeconds: 5
{{- end }}

{{/* The arguments for logging. */}}
{{- define "tenon.log" -}}
- {{ printf "--log-level=%s" .Values.log.level | quote }}
- --log-format={{ .Values.log.format }}
{{- end }}
