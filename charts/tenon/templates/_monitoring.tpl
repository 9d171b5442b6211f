{{/* The endpoint of a PodMonitor or ServiceMonitor: (list interval). */}}
{{- define "tenon.scrape" -}}
- port: admin
  path: /metrics
  interval: {{ index . 0 }}
  # Series about a Worker have the namespace of the Worker, not that of the node.
  honorLabels: true
  relabelings:
    # The labels that dashboards and alerts query, in addition to `namespace` and `pod`.
    - targetLabel: job
      replacement: tenon
    - sourceLabels: [__meta_kubernetes_pod_label_app_kubernetes_io_component]
      targetLabel: component
    - sourceLabels: [__meta_kubernetes_pod_label_tenon_dev_pool]
      targetLabel: pool
{{- end }}
