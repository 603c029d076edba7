{{- define "node-drainer-handover.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* The full name, short enough for the suffix -surges within 63 characters. */}}
{{- define "node-drainer-handover.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "node-drainer-handover.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "node-drainer-handover.selectorLabels" -}}
app.kubernetes.io/name: {{ include "node-drainer-handover.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "node-drainer-handover.labels" -}}
{{ include "node-drainer-handover.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/* The address of the repository's files in the chart's version. */}}
{{- define "node-drainer-handover.pages" -}}
{{- printf "%s/blob/v%s" .Chart.Home .Chart.AppVersion -}}
{{- end -}}

{{/* The labels and annotations of an object, which override the common ones. */}}
{{- define "node-drainer-handover.metadata" -}}
{{- $labels := include "node-drainer-handover.labels" .root | fromYaml -}}
{{- include "node-drainer-handover.withCommon" (dict "root" .root "labels" $labels "annotations" .annotations) -}}
{{- end -}}

{{/*
The labels and annotations of the pod. Those of the chart override podLabels and podAnnotations, and these the common
ones. The pod asks for a hand-over itself: its own Service answers that it leaves its node after the pods that hand over.
*/}}
{{- define "node-drainer-handover.podMetadata" -}}
{{- $labels := merge (include "node-drainer-handover.selectorLabels" . | fromYaml) .Values.podLabels -}}
{{- $own := dict "node-drainer.io/hand-over" "http" "node-drainer.io/hand-over-service" (include "node-drainer-handover.fullname" .) -}}
{{- $annotations := merge $own .Values.podAnnotations -}}
{{- include "node-drainer-handover.withCommon" (dict "root" . "labels" $labels "annotations" $annotations) -}}
{{- end -}}

{{- define "node-drainer-handover.withCommon" -}}
labels:
  {{- merge dict .labels .root.Values.commonLabels | toYaml | nindent 2 }}
{{- with merge dict (default dict .annotations) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "node-drainer-handover.serviceAccount" -}}
{{- default (include "node-drainer-handover.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{/* The name of the ConfigMap that surges are recorded in. */}}
{{- define "node-drainer-handover.surges" -}}
{{- include "node-drainer-handover.fullname" . -}}-surges
{{- end -}}

{{/* The image, by digest if one is set. */}}
{{- define "node-drainer-handover.image" -}}
{{- with .Values.image -}}
{{ .registry }}/{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "node-drainer-handover.ipFamilies" -}}
{{- with .Values.service.ipFamilyPolicy }}
ipFamilyPolicy: {{ . }}
{{- end }}
{{- with .Values.service.ipFamilies }}
ipFamilies:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* 90 % of the container's memory limit: memory that the Go runtime does not count needs the rest. All of it if its
unit is a rare one. */}}
{{- define "node-drainer-handover.memoryLimit" -}}
{{- with (.limits).memory -}}
{{- $number := regexFind "^[0-9.]+(e[+]?[0-9]+)?" (toString .) -}}
{{- $bytes := get (dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824) (trimPrefix $number (toString .)) }}
- name: GOMEMLIMIT
{{- if $bytes }}
  value: {{ mulf (float64 $number) $bytes 0.9 | int64 | quote }}
{{- else }}
  valueFrom: { resourceFieldRef: { resource: limits.memory } }
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Refuses missing values, and combinations that would do harm. values.schema.json checks each value by itself. All mistakes
are reported at once.
*/}}
{{- define "node-drainer-handover.check" -}}
{{- $wrong := list -}}
{{- if not .Values.image.registry -}}
{{- $wrong = append $wrong "image.registry is required: the registry of the image, such as registry.example.com. Without it the container runtime pulls from a public registry, where anyone can publish an image of that name" -}}
{{- end -}}
{{- with .Values.serviceAccount -}}
{{- if and (not .create) (not .name) -}}
{{- $wrong = append $wrong "serviceAccount.create is false: set serviceAccount.name to an existing ServiceAccount" -}}
{{- end -}}
{{- if and (not .create) .annotations -}}
{{- $wrong = append $wrong "serviceAccount.create is false: annotations apply only to a ServiceAccount that the chart creates" -}}
{{- end -}}
{{- end -}}
{{- range $i, $t := .Values.tolerations -}}
{{- if not $t.key -}}
{{- $wrong = append $wrong (printf "tolerations[%d] has no key, so it tolerates every taint, including that of terminating nodes: set a key" $i) -}}
{{- else if eq $t.key "node-drainer.io/terminating" -}}
{{- $wrong = append $wrong (printf "tolerations[%d] tolerates the taint of terminating nodes: the pod could start on one" $i) -}}
{{- end -}}
{{- end -}}
{{- with $wrong -}}
{{- fail (printf "\n\n  %s\n" (join "\n  " .)) -}}
{{- end -}}
{{- end -}}
