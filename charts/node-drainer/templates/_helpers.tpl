{{- define "node-drainer.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* The full name, short enough for the suffixes -trigger and -dashboard within 63 characters. */}}
{{- define "node-drainer.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "node-drainer.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "node-drainer.selectorLabels" -}}
app.kubernetes.io/name: {{ include "node-drainer.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The labels that select the agent's pods, but not the trigger's. */}}
{{- define "node-drainer.agentLabels" -}}
{{ include "node-drainer.selectorLabels" . }}
app.kubernetes.io/component: agent
{{- end -}}

{{- define "node-drainer.triggerLabels" -}}
{{ include "node-drainer.selectorLabels" . }}
app.kubernetes.io/component: trigger
{{- end -}}

{{- define "node-drainer.watchLabels" -}}
{{ include "node-drainer.selectorLabels" . }}
app.kubernetes.io/component: watch
{{- end -}}

{{- define "node-drainer.labels" -}}
{{ include "node-drainer.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/*
The address of the repository's files in the chart's version. The files of this folder have those of main.
*/}}
{{- define "node-drainer.pages" -}}
{{- printf "%s/blob/v%s" .Chart.Home .Chart.AppVersion -}}
{{- end -}}

{{- define "node-drainer.pagesOfMain" -}}
{{- printf "%s/blob/main" .Chart.Home -}}
{{- end -}}

{{/*
The labels and annotations of an object. The values for this object, in labels and annotations, override the chart's
labels, and these the common ones.
*/}}
{{- define "node-drainer.metadata" -}}
{{- $own := include "node-drainer.labels" .root | fromYaml -}}
{{- with .component -}}
{{- $_ := set $own "app.kubernetes.io/component" . -}}
{{- end -}}
{{- $labels := merge dict (default dict .labels) $own -}}
{{- include "node-drainer.withCommon" (dict "root" .root "labels" $labels "annotations" .annotations) -}}
{{- end -}}

{{/*
The labels and annotations of pods. Those in selector and annotations override podLabels and podAnnotations of values,
and these the common ones.
*/}}
{{- define "node-drainer.podMetadata" -}}
{{- $labels := merge (fromYaml .selector) .values.podLabels -}}
{{- $annotations := merge (default dict .annotations) .values.podAnnotations -}}
{{- include "node-drainer.withCommon" (dict "root" .root "labels" $labels "annotations" $annotations) -}}
{{- end -}}

{{- define "node-drainer.withCommon" -}}
labels:
  {{- merge dict .labels .root.Values.commonLabels | toYaml | nindent 2 }}
{{- with merge dict (default dict .annotations) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "node-drainer.serviceAccount" -}}
{{- default (include "node-drainer.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "node-drainer.triggerServiceAccount" -}}
{{- default (printf "%s-trigger" (include "node-drainer.fullname" .)) .Values.trigger.serviceAccount.name -}}
{{- end -}}

{{/* The name of the objects of trigger watch, and of its Lease. */}}
{{- define "node-drainer.watchName" -}}
{{- include "node-drainer.fullname" . -}}-watch
{{- end -}}

{{- define "node-drainer.watchServiceAccount" -}}
{{- default (include "node-drainer.watchName" .) .Values.watch.serviceAccount.name -}}
{{- end -}}

{{/* The rules of the trigger's ClusterRole; the argument is whether it taints nodes. */}}
{{- define "node-drainer.triggerRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list]
{{- if . }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, patch]
{{- end }}
{{- end -}}

{{/* The annotations of a ServiceAccount, which is given as in the values. */}}
{{- define "node-drainer.serviceAccountAnnotations" -}}
{{- $annotations := deepCopy .annotations -}}
{{- with .roleARN -}}
{{- $_ := set $annotations "eks.amazonaws.com/role-arn" . -}}
{{- end -}}
{{- toYaml $annotations -}}
{{- end -}}

{{/* A dry run has one replica: several would log the same, and there is nothing to take over. */}}
{{- define "node-drainer.replicas" -}}
{{- ternary (min 1 .Values.replicas) .Values.replicas .Values.config.dryRun -}}
{{- end -}}

{{/* The image, by digest if one is set. */}}
{{- define "node-drainer.image" -}}
{{- with .Values.image -}}
{{ .registry }}/{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}
{{- end -}}

{{/* The part that the agent's and the trigger's pods share. It satisfies the Pod Security Standard "restricted",
unless hostNetwork is true. */}}
{{- define "node-drainer.podBasics" -}}
automountServiceAccountToken: true
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.hostNetwork }}
hostNetwork: true
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- end -}}

{{- define "node-drainer.containerBasics" -}}
image: {{ include "node-drainer.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
{{- end -}}

{{- define "node-drainer.ipFamilies" -}}
{{- with .Values.service.ipFamilyPolicy }}
ipFamilyPolicy: {{ . }}
{{- end }}
{{- with .Values.service.ipFamilies }}
ipFamilies:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* 90 % of a container's memory limit: memory that the Go runtime does not count needs the rest. All of
it if its unit is a rare one. */}}
{{- define "node-drainer.memoryLimit" -}}
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

{{/* The variables from the downward API, and the Region. */}}
{{- define "node-drainer.environment" -}}
- name: POD_NAMESPACE
  valueFrom: { fieldRef: { fieldPath: metadata.namespace } }
- name: POD_NAME
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
- name: NODE_NAME
  valueFrom: { fieldRef: { fieldPath: spec.nodeName } }
{{- with .Values.aws.region }}
- name: AWS_REGION
  value: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* The environment of the agent's container. */}}
{{- define "node-drainer.agentEnvironment" -}}
env:
  {{- include "node-drainer.environment" . | nindent 2 }}
  {{- include "node-drainer.memoryLimit" .Values.resources | trim | nindent 2 }}
  {{- include "node-drainer.variables" (dict "prefix" "" "values" (include "node-drainer.config" . | fromYaml)) | trim | nindent 2 }}
  {{- if include "node-drainer.keepsHistory" . }}
  - name: HISTORY_CONFIGMAP
    value: {{ include "node-drainer.historyName" . | quote }}
  {{- end }}
  {{- include "node-drainer.notify" . | trim | nindent 2 }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The configuration of the agent, as YAML. Each release has a separate Lease. */}}
{{- define "node-drainer.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config.leader "leaseName" (include "node-drainer.leaseName" .) -}}
{{- if and .Values.notify.existingSecret.name .Values.notify.existingSecret.templateKey -}}
{{- $_ := unset $config.notify "template" -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* The variables from the Secret for messages about drains. */}}
{{- define "node-drainer.notify" -}}
{{- with .Values.notify.existingSecret }}
{{- $secret := .name }}
{{- if $secret }}
{{- range $name, $key := dict "NOTIFY_URL" .key "NOTIFY_HEADERS" .headersKey "NOTIFY_TEMPLATE" .templateKey }}
{{- with $key }}
- name: {{ $name }}
  valueFrom: { secretKeyRef: { name: {{ $secret | quote }}, key: {{ . | quote }} } }
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Whether the replicas elect a leader. A dry run needs none, because it changes nothing. */}}
{{- define "node-drainer.elects" -}}
{{- if and .Values.config.leader.election (not .Values.config.dryRun) -}}true{{- end -}}
{{- end -}}

{{/* Whether the agent keeps records of drains. A dry run drains nothing. */}}
{{- define "node-drainer.keepsHistory" -}}
{{- if and .Values.history.enabled (not .Values.config.dryRun) -}}true{{- end -}}
{{- end -}}

{{- define "node-drainer.historyName" -}}
{{- include "node-drainer.fullname" . -}}-history
{{- end -}}

{{- define "node-drainer.leaseName" -}}
{{- default (include "node-drainer.fullname" .) .Values.config.leader.leaseName -}}
{{- end -}}

{{/* The port that the agent listens on. */}}
{{- define "node-drainer.port" -}}
{{- .Values.config.listenAddress | splitList ":" | last -}}
{{- end -}}

{{/* The port that the watch listens on. */}}
{{- define "node-drainer.watchPort" -}}
{{- .Values.watch.listenAddress | splitList ":" | last -}}
{{- end -}}

{{/*
The environment variables for values: DRAIN_AT_DEADLINE for drain.atDeadline. Empty values are omitted, so that the
program's defaults apply.
*/}}
{{- define "node-drainer.variables" -}}
{{- range $key, $value := .values }}
{{- $name := printf "%s%s" $.prefix ($key | snakecase | upper) }}
{{- if kindIs "map" $value }}
{{- include "node-drainer.variables" (dict "prefix" (printf "%s_" $name) "values" $value) }}
{{- else if kindIs "slice" $value }}
{{- with $value }}
- name: {{ $name }}
  value: {{ join "," . | quote }}
{{- end }}
{{- else if ne (toString $value) "" }}
- name: {{ $name }}
  value: {{ ternary (int64 $value) $value (kindIs "float64" $value) | toString | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
Refuses missing values, and combinations with which an agent would not start or would do harm. values.schema.json
checks each value by itself. All mistakes are reported at once.
*/}}
{{- define "node-drainer.check" -}}
{{- $wrong := list -}}
{{- if not .Values.config.clusterName -}}
{{- $wrong = append $wrong "config.clusterName is required: the name of this cluster, as the tags of its Auto Scaling groups have it (kubernetes.io/cluster/NAME)" -}}
{{- end -}}
{{- if not .Values.config.queue.url -}}
{{- $wrong = append $wrong "config.queue.url is required: the URL of the SQS queue, such as https://sqs.eu-central-1.amazonaws.com/123456789012/node-drainer" -}}
{{- end -}}
{{- if not .Values.image.registry -}}
{{- $wrong = append $wrong "image.registry is required: the registry of the image, such as registry.example.com. Without it the container runtime pulls from a public registry, where anyone can publish an image of that name" -}}
{{- end -}}
{{- if and (gt (include "node-drainer.replicas" . | int) 1) (not .Values.config.leader.election) -}}
{{- $wrong = append $wrong "config.leader.election is false, and replicas is more than 1: all replicas would do the same work" -}}
{{- end -}}
{{- range $path, $account := dict "serviceAccount" .Values.serviceAccount "trigger.serviceAccount" .Values.trigger.serviceAccount "watch.serviceAccount" .Values.watch.serviceAccount -}}
{{- if and (not $account.create) (not $account.name) -}}
{{- $wrong = append $wrong (printf "%s.create is false: set %s.name to an existing ServiceAccount" $path $path) -}}
{{- end -}}
{{- if and (not $account.create) (or $account.roleARN $account.annotations) -}}
{{- $wrong = append $wrong (printf "%s.create is false: roleARN and annotations apply only to a ServiceAccount that the chart creates" $path) -}}
{{- end -}}
{{- end -}}
{{- range $path, $tolerations := dict "tolerations" .Values.tolerations "trigger.tolerations" .Values.trigger.tolerations "watch.tolerations" .Values.watch.tolerations -}}
{{- range $i, $t := $tolerations -}}
{{- if not $t.key -}}
{{- $wrong = append $wrong (printf "%s[%d] has no key, so it tolerates every taint, including that of terminating nodes: set a key" $path $i) -}}
{{- else if eq $t.key $.Values.config.node.taintKey -}}
{{- $wrong = append $wrong (printf "%s[%d] tolerates config.node.taintKey: the pod could start on a terminating node" $path $i) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $runs := list -}}
{{- range $name, $job := ternary .Values.trigger.cronJobs dict .Values.trigger.enabled -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?$" $name) -}}
{{- $wrong = append $wrong (printf "trigger.cronJobs.%s: the name must consist of at most 20 lower-case letters, digits and hyphens" $name) -}}
{{- end -}}
{{- $runs = append $runs (dict "at" (printf "trigger.cronJobs.%s.options" $name) "options" $job.options "by" "trigger") -}}
{{- end -}}
{{- if .Values.watch.enabled -}}
{{- $runs = append $runs (dict "at" "watch.options" "options" .Values.watch.options "by" "watch") -}}
{{- end -}}
{{- range $run := $runs -}}
{{- $options := default dict $run.options -}}
{{- if not (or $options.asg $options.cluster $options.tag) -}}
{{- $wrong = append $wrong (printf "%s selects no groups: set asg, cluster or tag" $run.at) -}}
{{- end -}}
{{- if and $options.pauseAutoscaler (ne $options.pauseAutoscaler $.Values.config.autoscalerDeployment) -}}
{{- $wrong = append $wrong (printf "%s.pauseAutoscaler requires the same config.autoscalerDeployment, which permits agent, trigger and watch to get and patch it" $run.at) -}}
{{- end -}}
{{- $changing := list -}}
{{- if has $options.taintOutdated (list "soft" "hard") -}}{{- $changing = append $changing "taintOutdated" -}}{{- end -}}
{{- if has $options.then (list "stop" "keep") -}}{{- $changing = append $changing "then" -}}{{- end -}}
{{- range $option := ternary list $changing (get $.Values $run.by).taintNodes -}}
{{- $wrong = append $wrong (printf "%s.%s requires %s.taintNodes: true, which permits the %s to get and patch nodes" $run.at $option $run.by $run.by) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.hostNetwork .Values.watch.enabled (eq (include "node-drainer.port" .) (include "node-drainer.watchPort" .)) -}}
{{- $wrong = append $wrong "hostNetwork is true, and config.listenAddress and watch.listenAddress have the same port: pods of agent and watch could not share a node" -}}
{{- end -}}
{{- $alerts := list -}}
{{- range (fromYaml (.Files.Get "files/alerts.yaml")).groups -}}
{{- range .rules -}}
{{- $alerts = append $alerts .alert -}}
{{- end -}}
{{- end -}}
{{- range .Values.metrics.prometheusRule.disabled -}}
{{- if not (has . $alerts) -}}
{{- $wrong = append $wrong (printf "metrics.prometheusRule.disabled: unknown alert %s; the alerts are %s" . (join ", " $alerts)) -}}
{{- end -}}
{{- end -}}
{{- with $wrong -}}
{{- fail (printf "\n\n  %s\n" (join "\n  " .)) -}}
{{- end -}}
{{- end -}}
