{{- define "kafka-features-operator.chartName" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "kafka-features-operator.name" -}}
{{- $chart := include "kafka-features-operator.chartName" . -}}
{{- $release := ternary .Release.Name (printf "%s-%s" .Release.Name $chart) (contains $chart .Release.Name) -}}
{{- default $release .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "kafka-features-operator.selector" -}}
app.kubernetes.io/name: {{ include "kafka-features-operator.chartName" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "kafka-features-operator.testSelector" -}}
app.kubernetes.io/name: {{ include "kafka-features-operator.chartName" . }}-test
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- /* Mappings, given as a list, in one: where two have a key, the later one counts. Strict readers of YAML refuse a key that is there twice. */ -}}
{{- define "kafka-features-operator.merged" -}}
{{- $all := dict -}}
{{- range . -}}
{{- $all = mergeOverwrite $all (deepCopy (default dict .)) -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{- define "kafka-features-operator.labels" -}}
{{ include "kafka-features-operator.labelsWith" (list . dict) }}
{{- end -}}

{{- /* Labels of an object, given (list $ "more labels"); those of the user never replace the selector's. */ -}}
{{- define "kafka-features-operator.labelsWith" -}}
{{- $more := last . -}}
{{- with first . -}}
{{- $ours := dict
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version)
-}}
{{- include "kafka-features-operator.merged" (list $ours .Values.commonLabels $more (include "kafka-features-operator.selector" . | fromYaml)) -}}
{{- end -}}
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

{{- define "kafka-features-operator.approveRole" -}}
{{ include "kafka-features-operator.name" . }}-approve-{{ .Release.Namespace }}
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

{{- /* Of a pod, given (list $ "group of its volumes"), which is 0 where none is to be set. */ -}}
{{- define "kafka-features-operator.podSecurity" -}}
{{- $ours := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- with last . -}}
{{- /* OnRootMismatch: not file by file at each start, and the modes of what is there stay as they are. */ -}}
{{- $ours = merge $ours (dict "fsGroup" (int .) "fsGroupChangePolicy" "OnRootMismatch") -}}
{{- end -}}
{{- include "kafka-features-operator.merged" (list $ours (first .).Values.podSecurityContext) -}}
{{- end -}}

{{- define "kafka-features-operator.containerSecurity" -}}
{{- $ours := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{- include "kafka-features-operator.merged" (list $ours .Values.securityContext) -}}
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
priorityClassName: {{ . | quote }}
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

{{- define "kafka-features-operator.bytes" -}}
{{- $units := dict "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- mulf (regexFind "^[0-9.]+" .) (get $units (regexFind "[a-zA-Z]+$" .)) -}}
{{- end -}}

{{- /* What the operator would exit at, or fill the volume with, is refused before it is installed. */ -}}
{{- define "kafka-features-operator.checked" -}}
{{- $sizes := list
  (list "memory.perCluster" .Values.memory.perCluster "memory.allClusters" .Values.memory.allClusters)
  (list "recorder.perCluster" .Values.recorder.perCluster "recorder.allClusters" .Values.recorder.allClusters)
-}}
{{- range $sizes -}}
{{- if lt (include "kafka-features-operator.bytes" (index . 1) | float64) (include "kafka-features-operator.bytes" "32Mi" | float64) -}}
{{- fail (printf "%s is %s: the operator needs 32Mi or more" (index . 0) (index . 1)) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.recorder.enabled (not .Values.recorder.existingClaim) -}}
{{- $sizes = append $sizes (list "recorder.allClusters" .Values.recorder.allClusters "recorder.size" .Values.recorder.size) -}}
{{- end -}}
{{- range $sizes -}}
{{- if gt (include "kafka-features-operator.bytes" (index . 1) | float64) (include "kafka-features-operator.bytes" (index . 3) | float64) -}}
{{- fail (printf "%s (%s) is more than %s (%s): lower the first or raise the second" (index . 0) (index . 1) (index . 2) (index . 3)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
