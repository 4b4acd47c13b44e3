{{- /*
SPDX-FileCopyrightText: 2026 The Manta authors
SPDX-License-Identifier: Apache-2.0
*/ -}}
{{- define "manta.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "manta.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "manta.modelsVolume" -}}
{{- if .Values.models.sample -}}
configMap:
  name: {{ include "manta.fullname" . }}-models
  items:
  - {key: add_sub.config.pbtxt, path: add_sub/config.pbtxt}
  - {key: add_sub.model.py, path: add_sub/1/model.py}
{{- else if .Values.models.claim.enabled -}}
persistentVolumeClaim: {claimName: {{ include "manta.fullname" . }}-models, readOnly: true}
{{- else if .Values.models.volume -}}
{{ toYaml .Values.models.volume }}
{{- else -}}
emptyDir: {sizeLimit: 1Mi}
{{- end -}}
{{- end -}}

{{- define "manta.volumes" -}}
- {name: tmp, emptyDir: {sizeLimit: {{ .Values.volumes.tmpSize }}}}
- {name: shm, emptyDir: {medium: Memory, sizeLimit: {{ .Values.volumes.sharedMemorySize }}}}
- name: models
  {{- include "manta.modelsVolume" . | nindent 2 }}
- {name: tls, secret: {secretName: {{ .Values.tls.secretName }}, optional: {{ not .Values.tls.enabled }}}}
- {name: credentials, secret: {secretName: {{ .Values.credentials.filesSecret }}, optional: true}}
{{- end -}}

{{- define "manta.mounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: shm, mountPath: /dev/shm}
- {name: models, mountPath: /models, readOnly: true}
- {name: tls, mountPath: /etc/manta/tls, readOnly: true}
- {name: credentials, mountPath: /etc/manta/credentials, readOnly: true}
{{- end -}}

{{- define "manta.envData" -}}
HOME: /tmp
RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO: "1"
RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S: {{ .Values.ray.drainTimeoutSecs | quote }}
RAY_SERVE_FORCE_STOP_UNHEALTHY_REPLICAS: "1"
{{- if .Values.ray.forkServer }}
RAY_START_HOOK: manta.fork_server.begin
{{- end }}
RAY_START_ULIMIT_OPEN_FILES: "65536"
RAY_worker_niceness: "0"
{{- if .Values.credentials.useFile }}
TRITON_CLOUD_CREDENTIAL_PATH: /etc/manta/credentials/credentials.json
{{- end }}
{{- range $name, $value := .Values.env }}
{{ $name }}: {{ $value | quote }}
{{- end }}
{{- end -}}

{{- /* A pod of Ray. Takes root, component, group and isHead. */ -}}
{{- define "manta.rayTemplate" -}}
{{- $root := .root -}}
{{- $selector := dict "app.kubernetes.io/name" (include "manta.fullname" $root) "app.kubernetes.io/part-of" "manta" "app.kubernetes.io/component" .component -}}
metadata:
  labels:
    {{- toYaml (merge (dict) $root.Values.podLabels $selector) | nindent 4 }}
  annotations:
    {{- /* Changed environment: a new cluster, into which KubeRay moves the traffic. */}}
    manta-serve/environment: {{ include "manta.envData" $root | sha256sum | trunc 16 | quote }}
    {{- with $root.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "manta.fullname" $root }}
  enableServiceLinks: false
  {{- if not .isHead }}
  automountServiceAccountToken: false
  {{- end }}
  {{- if and $root.Values.priorityClasses (or .isHead .group.entry) }}
  priorityClassName: {{ include "manta.fullname" $root }}-{{ ternary "head" "entry" .isHead }}
  {{- end }}
  terminationGracePeriodSeconds: {{ $root.Values.ray.terminationGracePeriodSeconds }}
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .group.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .group.tolerations }}
  tolerations: {{- toYaml . | nindent 2 }}
  {{- end }}
  securityContext: {{- include "manta.podSecurity" $root | nindent 4 }}
  {{- if .group.entry }}
  topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- toYaml $selector | nindent 8 }}
  {{- end }}
  {{- end }}
  volumes: {{- include "manta.volumes" $root | nindent 2 }}
  containers:
  - name: ray
    image: {{ include "manta.image" $root }}
    {{- if ne $root.Values.image.pullPolicy "IfNotPresent" }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    {{- end }}
    envFrom:
    - configMapRef: {name: {{ include "manta.fullname" $root }}-env}
    - secretRef: {name: {{ $root.Values.credentials.environmentSecret }}, optional: true}
    securityContext: {{- include "manta.restricted" $root | nindent 6 }}
    ports:
    - {name: serve, containerPort: 8000}
    - {name: serve-grpc, containerPort: 8001}
    - {name: serve-metrics, containerPort: 8002}
    - {name: metrics, containerPort: 8080}
    {{- if .isHead }}
    - {name: dashboard, containerPort: 8265}
    - {name: gcs-server, containerPort: 6379}
    - {name: dash-metrics, containerPort: 44227}
    {{- if $root.Values.autoscaling.enabled }}
    - {name: as-metrics, containerPort: 44217}
    {{- end }}
    {{- end }}
    resources: {{- toYaml .group.resources | nindent 6 }}
    volumeMounts: {{- include "manta.mounts" $root | nindent 4 }}
    {{- if not .isHead }}
    readinessProbe:
      httpGet: {path: /-/healthz, port: serve, scheme: {{ ternary "HTTPS" "HTTP" $root.Values.tls.enabled }}}
      periodSeconds: 2
      timeoutSeconds: 2
      failureThreshold: 2
    livenessProbe:
      httpGet: {path: /api/healthz, port: 52365}
      initialDelaySeconds: 30
      periodSeconds: 5
      timeoutSeconds: 5
      failureThreshold: 24
    {{- end }}
{{- end -}}
