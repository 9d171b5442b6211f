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

{{/* The labels of the nodes' Pods, which the operator creates from RuntimePools:
operator/src/pool/plan.rs. */}}
{{- define "tenon.nodes" -}}
app.kubernetes.io/name: tenon-runtime-node
app.kubernetes.io/component: runtime-node
{{- end }}

{{/* The reference of an image: (list $ "tenon-router" digest). */}}
{{- define "tenon.image" -}}
{{- $ := index . 0 -}}
{{- $reference := printf "%s/%s" $.Values.image.registry (index . 1) -}}
{{- with index . 2 -}}
{{ $reference }}@{{ . }}
{{- else -}}
{{ $reference }}:{{ $.Values.image.tag | default $.Chart.AppVersion }}
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
{{- with $.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $.Values.priorityClass.name }}
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
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
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
runAsUser: 65532
runAsGroup: 65532
# This group may read the certificates.
fsGroup: 65532
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
