{{- define "node-drainer.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* The full name leaves room for the suffixes -trigger and -dashboard within 63 characters. */}}
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

{{/* The labels by which the agent's pods are found, and the trigger's are not. */}}
{{- define "node-drainer.agentLabels" -}}
{{ include "node-drainer.selectorLabels" . }}
app.kubernetes.io/component: agent
{{- end -}}

{{- define "node-drainer.triggerLabels" -}}
{{ include "node-drainer.selectorLabels" . }}
app.kubernetes.io/component: trigger
{{- end -}}

{{- define "node-drainer.labels" -}}
{{ include "node-drainer.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "node-drainer.serviceAccount" -}}
{{- default (include "node-drainer.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "node-drainer.triggerServiceAccount" -}}
{{- default (printf "%s-trigger" (include "node-drainer.fullname" .)) .Values.trigger.serviceAccount.name -}}
{{- end -}}

{{/* The annotations of a ServiceAccount, given as it stands in the values. */}}
{{- define "node-drainer.serviceAccountAnnotations" -}}
{{- $annotations := deepCopy .annotations -}}
{{- with .roleARN -}}
{{- $_ := set $annotations "eks.amazonaws.com/role-arn" . -}}
{{- end -}}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* One replica in a dry run: there is nothing to stand by for, and each would tell the same. */}}
{{- define "node-drainer.replicas" -}}
{{- ternary (min 1 .Values.replicas) .Values.replicas .Values.config.dryRun -}}
{{- end -}}

{{/* The image: by its digest, if there is one. */}}
{{- define "node-drainer.image" -}}
{{- with .Values.image -}}
{{ .registry }}/{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}
{{- end -}}

{{/* What the pods of agent and trigger have in common. It is what the Pod Security Standard "restricted" asks for. */}}
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
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- end -}}

{{- define "node-drainer.containerBasics" -}}
image: {{ include "node-drainer.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
{{- end -}}

{{/* What only Kubernetes knows, and the Region. */}}
{{- define "node-drainer.environment" -}}
- name: POD_NAMESPACE
  valueFrom: { fieldRef: { fieldPath: metadata.namespace } }
- name: POD_NAME
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
- name: NODE_NAME
  valueFrom: { fieldRef: { fieldPath: spec.nodeName } }
- name: GOMEMLIMIT
  valueFrom: { resourceFieldRef: { resource: limits.memory } }
{{- with .Values.aws.region }}
- name: AWS_REGION
  value: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* The configuration of the agent, as YAML. Each release has a Lease of its own. */}}
{{- define "node-drainer.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config.leader "leaseName" (include "node-drainer.leaseName" .) -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Whether the replicas elect a leader. A dry run does nothing that two must not do. */}}
{{- define "node-drainer.elects" -}}
{{- if and .Values.config.leader.election (not .Values.config.dryRun) -}}true{{- end -}}
{{- end -}}

{{- define "node-drainer.leaseName" -}}
{{- default (include "node-drainer.fullname" .) .Values.config.leader.leaseName -}}
{{- end -}}

{{/* The port that the agent listens on. */}}
{{- define "node-drainer.port" -}}
{{- .Values.config.listenAddress | splitList ":" | last -}}
{{- end -}}

{{/*
The variables that values stand for: drain.atDeadline stands for DRAIN_AT_DEADLINE. What is empty is left to
the default of the program.
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
Refuses values with which an agent would not start, or would harm. What is wrong with a single value is said by
values.schema.json; here is what takes two of them, or what is missing. All of it is told at once.
*/}}
{{- define "node-drainer.check" -}}
{{- $wrong := list -}}
{{- if not .Values.config.clusterName -}}
{{- $wrong = append $wrong "config.clusterName is required: the name of this cluster, as the tags of its Auto Scaling groups have it (kubernetes.io/cluster/NAME)" -}}
{{- end -}}
{{- if not .Values.config.queue.url -}}
{{- $wrong = append $wrong "config.queue.url is required: the URL of the SQS queue, as https://sqs.eu-central-1.amazonaws.com/123456789012/node-drainer" -}}
{{- end -}}
{{- if not .Values.image.registry -}}
{{- $wrong = append $wrong "image.registry is required: the registry that has the image, as registry.example.com. Without one the container runtime takes the image from a public registry, where anybody could have put it" -}}
{{- end -}}
{{- if and (gt (include "node-drainer.replicas" . | int) 1) (not .Values.config.leader.election) -}}
{{- $wrong = append $wrong "config.leader.election is false: with more than one of replicas, all would do the same work" -}}
{{- end -}}
{{- range $path, $account := dict "serviceAccount" .Values.serviceAccount "trigger.serviceAccount" .Values.trigger.serviceAccount -}}
{{- if and (not $account.create) (not $account.name) -}}
{{- $wrong = append $wrong (printf "%s.create is false, and %s.name does not say which ServiceAccount there is" $path $path) -}}
{{- end -}}
{{- if and (not $account.create) (or $account.roleARN $account.annotations) -}}
{{- $wrong = append $wrong (printf "%s.create is false: roleARN and annotations are only for a ServiceAccount that the chart makes" $path) -}}
{{- end -}}
{{- end -}}
{{- range $path, $tolerations := dict "tolerations" .Values.tolerations "trigger.tolerations" .Values.trigger.tolerations -}}
{{- range $i, $t := $tolerations -}}
{{- if not $t.key -}}
{{- $wrong = append $wrong (printf "%s[%d] has no key, so it tolerates every taint, also that of a node that is going: name a key" $path $i) -}}
{{- else if eq $t.key $.Values.config.node.taintKey -}}
{{- $wrong = append $wrong (printf "%s[%d] tolerates config.node.taintKey: the pod would be moved onto a node that is going" $path $i) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $job := ternary .Values.trigger.cronJobs dict .Values.trigger.enabled -}}
{{- $at := printf "trigger.cronJobs.%s.options" $name -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?$" $name) -}}
{{- $wrong = append $wrong (printf "trigger.cronJobs.%s: its name must be of lower-case letters, digits and hyphens, and no more than 20 of them" $name) -}}
{{- end -}}
{{- if not (or $job.options.asg $job.options.cluster $job.options.tag) -}}
{{- $wrong = append $wrong (printf "%s names no groups: set asg, cluster or tag" $at) -}}
{{- end -}}
{{- if and (has $job.options.taintOutdated (list "soft" "hard")) (not $.Values.trigger.taintNodes) -}}
{{- $wrong = append $wrong (printf "%s.taintOutdated needs trigger.taintNodes: true, which lets the trigger get and patch nodes" $at) -}}
{{- end -}}
{{- end -}}
{{- $alerts := list -}}
{{- range (fromYaml (.Files.Get "files/alerts.yaml")).groups -}}
{{- range .rules -}}
{{- $alerts = append $alerts .alert -}}
{{- end -}}
{{- end -}}
{{- range .Values.metrics.prometheusRule.disabled -}}
{{- if not (has . $alerts) -}}
{{- $wrong = append $wrong (printf "metrics.prometheusRule.disabled names %s, which is none of %s" . (join ", " $alerts)) -}}
{{- end -}}
{{- end -}}
{{- with $wrong -}}
{{- fail (printf "\n\n  %s\n" (join "\n  " .)) -}}
{{- end -}}
{{- end -}}
