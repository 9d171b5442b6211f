{{/* Fails if the cluster has a newer version of a CRD: (list $ "workers.tenon.dev"). Neither
`helm template`, which sees no cluster, nor `helm rollback`, which renders nothing, fails here. */}}
{{- define "tenon-crds.refuseDowngrade" -}}
{{- $ := index . 0 -}}
{{- $name := index . 1 -}}
{{- $known := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name | dig "metadata" "annotations" "tenon.dev/version" "" -}}
{{- if and $known (gt ((semver $known).Compare (semver $.Chart.Version)) 0) -}}
{{- fail (printf "%s: the cluster has version %s, and %s would drop fields of stored objects; install the chart tenon-crds of version %s or later, with which an older tenon works, too" $name $known $.Chart.Version $known) -}}
{{- end -}}
{{- end }}
