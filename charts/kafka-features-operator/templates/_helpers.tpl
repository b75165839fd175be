{{- define "kafka-features-operator.chartName" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "kafka-features-operator.name" -}}
{{- $chart := include "kafka-features-operator.chartName" . -}}
{{- $release := ternary .Release.Name (printf "%s-%s" .Release.Name $chart) (contains $chart .Release.Name) -}}
{{- default $release .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "kafka-features-operator.selector" -}}
app.kubernetes.io/name: {{ include "kafka-features-operator.chartName" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kafka-features-operator.labels" -}}
{{ include "kafka-features-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* The namespaces to watch, as JSON; empty: all of them, which only watchAllNamespaces asks for. */ -}}
{{- define "kafka-features-operator.watched" -}}
{{- if not .Values.watchAllNamespaces -}}
{{- default (list .Release.Namespace) .Values.watchNamespaces | toJson -}}
{{- else if .Values.watchNamespaces -}}
{{- fail "watchAllNamespaces is true, but watchNamespaces lists namespaces: set only one of the two" -}}
{{- else -}}
[]
{{- end -}}
{{- end -}}

{{- define "kafka-features-operator.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "kafka-features-operator.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "kafka-features-operator.image" -}}
{{ include "kafka-features-operator.reference" (list $ "image" .Values.image) }}
{{- end -}}

{{- /* Of an image, given (list $ "path of its values" its values): where a digest is set, that alone decides. */ -}}
{{- define "kafka-features-operator.reference" -}}
{{- $image := last . -}}
{{- if not (or $image.registry (contains "/" $image.repository)) -}}
{{- fail (printf "%s.registry is not set: set it to the registry to which you pushed %s (no image is published), for example --set %s.registry=registry.example:5000" (index . 1) $image.repository (index . 1)) -}}
{{- end -}}
{{- with $image.registry }}{{ . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default (first .).Chart.AppVersion $image.tag }}{{ end -}}
{{- end -}}

{{- define "kafka-features-operator.recordingsClaim" -}}
{{- default (printf "%s-recordings" (include "kafka-features-operator.name" .)) .Values.recorder.existingClaim -}}
{{- end -}}

{{- define "kafka-features-operator.podSecurity" -}}
{{- $ours := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- mergeOverwrite $ours (deepCopy .Values.podSecurityContext) | toYaml }}
{{- end -}}

{{- define "kafka-features-operator.containerSecurity" -}}
{{- $ours := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{- mergeOverwrite $ours (deepCopy .Values.securityContext) | toYaml }}
{{- end -}}

{{- define "kafka-features-operator.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
