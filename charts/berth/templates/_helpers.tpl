{{- /* Names and labels, as `helm create` makes them. */ -}}

{{- define "berth.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "berth.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "berth.selectorLabels" -}}
app.kubernetes.io/name: {{ include "berth.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "berth.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "berth.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: berth
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* The labels of every object and those of one kind, which win: (list $ labels). */ -}}
{{- define "berth.labelsWith" -}}
{{- toYaml (merge (dict) (default dict (last .)) (include "berth.labels" (first .) | fromYaml)) -}}
{{- end -}}

{{- define "berth.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "berth.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: name the account that exists, or set serviceAccount.create to true" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "berth.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- /* The Service by which the API server finds the leader's explanations, and the objects around it. */ -}}
{{- define "berth.explainName" -}}
{{- printf "%s-explain" (include "berth.fullname" . | trunc 55 | trimSuffix "-") -}}
{{- end -}}

{{- /* The Service by which the API server finds the leader's webhook, and the objects around it. */ -}}
{{- define "berth.webhookName" -}}
{{- printf "%s-webhook" (include "berth.fullname" . | trunc 55 | trimSuffix "-") -}}
{{- end -}}

{{- /* The file that `berth run --config` reads. */ -}}
{{- define "berth.configuration" -}}
apiVersion: berth.dev/v1alpha1
kind: BerthConfiguration
standalone: {{ not .Values.leaderElection.enabled }}
{{- if .Values.leaderElection.enabled }}
peeringName: {{ .Values.leaderElection.peeringName | quote }}
peeringLifetimeSeconds: {{ .Values.leaderElection.lifetimeSeconds }}
installation: {{ include "berth.installation" . | quote }}
{{- end }}
httpsAddress: {{ printf "%s:%d" .Values.https.bindAddress (int .Values.https.port) | quote }}
{{- if .Values.tls.secretName }}
tlsCertFile: /etc/berth/tls/tls.crt
tlsPrivateKeyFile: /etc/berth/tls/tls.key
{{- end }}
{{- if .Values.explanations.enabled }}
explainAddress: {{ printf "%s:%d" .Values.https.bindAddress (int .Values.explanations.port) | quote }}
explainService: {{ printf "%s/%s" .Release.Namespace (include "berth.explainName" .) | quote }}
rememberedDecisions: {{ int .Values.explanations.rememberedDecisions }}
{{- if .Values.explanations.tls.secretName }}
explainTlsCertFile: /etc/berth/explain-tls/tls.crt
explainTlsPrivateKeyFile: /etc/berth/explain-tls/tls.key
{{- end }}
{{- end }}
{{- if .Values.webhook.enabled }}
webhookAddress: {{ printf "%s:%d" .Values.https.bindAddress (int .Values.webhook.port) | quote }}
webhookService: {{ printf "%s/%s" .Release.Namespace (include "berth.webhookName" .) | quote }}
{{- if .Values.webhook.tls.secretName }}
webhookTlsCertFile: /etc/berth/webhook-tls/tls.crt
webhookTlsPrivateKeyFile: /etc/berth/webhook-tls/tls.key
{{- end }}
{{- end }}
{{- with .Values.config }}
logLevel: {{ .logLevel }}
logFormat: {{ .logFormat }}
resyncSeconds: {{ int .resyncSeconds }}
builtInPolicy: {{ .builtInPolicy }}
{{- if not (kindIs "invalid" .seed) }}
seed: {{ int64 .seed }}
{{- end }}
debugEndpoints: {{ .debugEndpoints }}
{{- range $key := list "reservedSchedulerNames" "protectedNamespaces" "trustedPolicies" "extenderHosts" "extenderNetworks" }}
{{ $key }}: {{ index $.Values.config $key | toJson }}
{{- end }}
{{- $gates := deepCopy .featureGates }}
{{- if not $.Values.rbac.preemption }}
{{- if $gates.Preemption }}
{{- fail "config.featureGates.Preemption: needs the right to delete pods; set rbac.preemption to true, or leave it out" }}
{{- end }}
{{- $_ := set $gates "Preemption" false }}
{{- end }}
{{- if not $.Values.explanations.enabled }}
{{- if $gates.Explanations }}
{{- fail "config.featureGates.Explanations: needs the API; set explanations.enabled to true, or leave it out" }}
{{- end }}
{{- $_ := set $gates "Explanations" false }}
{{- end }}
{{- with $gates }}
featureGates:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* By these helm knows the release's own objects, also those that it has not made itself. */ -}}
{{- define "berth.ownership" -}}
meta.helm.sh/release-name: {{ .Release.Name }}
meta.helm.sh/release-namespace: {{ .Release.Namespace }}
{{- end -}}

{{- /* Which installation the replicas belong to: their records in the peering object begin with it. */ -}}
{{- define "berth.installation" -}}
{{- printf "%s/%s" .Release.Namespace .Release.Name -}}
{{- end -}}

{{- /* Fails where another release uses the same peering object: the object is that release's, or one of its replicas has
       renewed its record there within a minute. Only helm that talks to a cluster can see that. */ -}}
{{- define "berth.checkPeering" -}}
{{- if and .Values.leaderElection.enabled (.Capabilities.APIVersions.Has "kopf.dev/v1/ClusterKopfPeering") -}}
{{- $name := .Values.leaderElection.peeringName -}}
{{- $ours := include "berth.installation" . -}}
{{- $object := lookup "kopf.dev/v1" "ClusterKopfPeering" "" $name -}}
{{- $advice := "replicas of two releases must not meet: set leaderElection.peeringName to another name" -}}
{{- $notes := default dict (default dict $object.metadata).annotations -}}
{{- $release := index $notes "meta.helm.sh/release-name" -}}
{{- if $release -}}
{{- $owner := printf "%s/%s" (index $notes "meta.helm.sh/release-namespace") $release -}}
{{- if ne $owner $ours -}}
{{- fail (printf "leaderElection.peeringName: ClusterKopfPeering %s belongs to the release %s; %s" $name $owner $advice) -}}
{{- end -}}
{{- end -}}
{{- range $identity, $record := default dict $object.status -}}
{{- if and (contains "/" $identity) (not (hasPrefix (printf "%s/" $ours) $identity)) (kindIs "map" $record) -}}
{{- $seen := default "" $record.lastseen | toString | trunc 19 | toDate "2006-01-02T15:04:05" | unixEpoch | int64 -}}
{{- if gt $seen (sub (now | unixEpoch | int64) 60) -}}
{{- fail (printf "leaderElection.peeringName: replica %s of another release has its record in ClusterKopfPeering %s; %s" $identity $name $advice) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Fails where another release has registered the API of explanations, of which there is one in a cluster. */ -}}
{{- define "berth.checkExplanations" -}}
{{- if .Values.explanations.enabled -}}
{{- $name := "v1alpha1.explain.berth.dev" -}}
{{- $object := lookup "apiregistration.k8s.io/v1" "APIService" "" $name -}}
{{- $notes := default dict (default dict $object.metadata).annotations -}}
{{- $release := index $notes "meta.helm.sh/release-name" -}}
{{- if $release -}}
{{- $owner := printf "%s/%s" (index $notes "meta.helm.sh/release-namespace") $release -}}
{{- if ne $owner (include "berth.installation" .) -}}
{{- fail (printf "explanations.enabled: APIService %s belongs to the release %s; one release of a cluster can serve explanations: set it to false here" $name $owner) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Whether helm can make SchedulingPolicies now: not in the step that defines the kind, as it looks every kind up before
       it makes anything. Where others define it, they have done so, or helm says that they have not. */ -}}
{{- define "berth.policiesServed" -}}
{{- if or (not .Values.crds.install) (.Capabilities.APIVersions.Has "berth.dev/v1alpha1/SchedulingPolicy") -}}
yes
{{- end -}}
{{- end -}}

{{- /* Every policy by name, as YAML. Without the right to delete pods none may ask for preemption. */ -}}
{{- define "berth.policies" -}}
{{- $policies := deepCopy .Values.policies -}}
{{- with .Values.defaultPolicy -}}
{{- if .enabled -}}
{{- if hasKey $policies .name -}}
{{- fail (printf "policies.%s: defaultPolicy has the same name; give one of them another" .name) -}}
{{- end -}}
{{- $_ := set $policies .name (dict "schedulerName" .schedulerName) -}}
{{- end -}}
{{- end -}}
{{- range $name, $spec := $policies -}}
{{- $reserved := has $spec.schedulerName $.Values.config.reservedSchedulerNames -}}
{{- if and $reserved (ne (default "Active" $spec.mode) "Shadow") (not (has $name $.Values.config.trustedPolicies)) -}}
{{- fail (printf "policies.%s.schedulerName: %s is reserved (config.reservedSchedulerNames); add %s to config.trustedPolicies, or choose another name" $name $spec.schedulerName $name) -}}
{{- end -}}
{{- end -}}
{{- if not .Values.rbac.preemption -}}
{{- range $name, $spec := $policies -}}
{{- if (default dict $spec.preemption).enabled -}}
{{- fail (printf "policies.%s.preemption.enabled: needs the right to delete pods; set rbac.preemption to true, or switch preemption off" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $policies -}}
{{- end -}}
