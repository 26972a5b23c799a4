{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{/*
Applies rules.yaml to the plain manifests below files/, as `unirail manifests` does (src/cli/manifests/render.h).
unirail.render gives JSON: {text: the documents, notes: [values without an effect]}.
*/}}

{{/* (values, path) -> {"v": the value}, or {} if there is none. */}}
{{- define "unirail.value" -}}
{{- $v := index . 0 }}
{{- $found := true }}
{{- range splitList "." (index . 1) }}
{{- if and $found (kindIs "map" $v) }}
{{- $found = hasKey $v . }}
{{- if $found }}{{ $v = index $v . }}{{ end }}
{{- else }}{{ $found = false }}{{ end }}
{{- end }}
{{- if and $found (not (kindIs "invalid" $v)) }}{{ dict "v" $v | toJson }}{{ else }}{}{{ end }}
{{- end }}

{{/* (text, value, whether a string is plain text) -> the text with % replaced by the value, and %{key} by a member of it. */}}
{{- define "unirail.fill" -}}
{{- $text := index . 0 }}
{{- $value := index . 1 }}
{{- $members := dict }}
{{- $parts := regexFindAll "%\\{[A-Za-z]+:?\\}" $text -1 }}
{{- if kindIs "map" $value }}{{ $members = $value }}{{ end }}
{{- range $parts }}
{{- $key := . | trimPrefix "%{" | trimSuffix "}" }}
{{- if eq $key "base:" }}
{{- $text = replace . (last (splitList "/" $value)) $text }}
{{- else if hasSuffix ":" $key }}
{{- $text = replace . (get $members (trimSuffix ":" $key) | toString) $text }}
{{- else }}
{{- $text = replace . (hasKey $members $key | ternary (get $members $key | toJson) "null") $text }}
{{- end }}
{{- end }}
{{- if $parts }}{{ $text }}
{{- else if and (index . 2) (kindIs "string" $value) }}{{ replace "%" $value $text }}{{ else }}{{ replace "%" (toJson $value) $text }}{{ end }}
{{- end }}

{{/* (rule, value) -> lines of settings, each as "agent/LINE" for the file agent.conf. */}}
{{- define "unirail.settings" -}}
{{- $rule := index . 0 }}
{{- $value := index . 1 }}
{{- $lines := list }}
{{- $text := toJson $value }}
{{- if kindIs "string" $value }}{{ $text = $value }}{{ end }}
{{- if kindIs "slice" $value }}{{ $text = join ", " $value }}{{ end }}
{{- if kindIs "bool" $value }}{{ $text = ternary "yes" "no" $value }}{{ end }}
{{- range $rule.conf }}
{{- if contains "=" . }}{{ $lines = append $lines (replace "=" " = " .) }}
{{- else }}{{ $lines = append $lines (printf "%s = %s%s" . $text (default "" $rule.unit) | trimSuffix " ") }}{{ end }}
{{- end }}
{{- dict "lines" $lines | toJson }}
{{- end }}

{{- define "unirail.render" -}}
{{- $rules := .Files.Get "rules.yaml" | fromYaml }}
{{- $values := .Values.AsMap }}
{{- $notes := list }}
{{- $errors := list }}
{{- $names := list }}

{{- /* Definitions that another owner created are not changed. */}}
{{- if .Values.crds.install }}
{{- range $path, $_ := .Files.Glob "files/crds/*.yaml" }}{{ $names = append $names (trimPrefix "files/" $path) }}{{ end }}
{{- $names = append $names "crd.yaml" }}
{{- end }}
{{- $kept := list }}
{{- range $names }}
{{- $name := ($.Files.Get (printf "files/%s" .) | fromYaml).metadata.name }}
{{- $there := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name }}
{{- if $there }}
{{- $owner := get (default dict $there.metadata.annotations) "meta.helm.sh/release-name" | default "" }}
{{- $place := get (default dict $there.metadata.annotations) "meta.helm.sh/release-namespace" | default "" }}
{{- if and $.Values.crds.keepExisting (not (and (eq $owner $.Release.Name) (eq $place $.Release.Namespace))) }}
{{- $kept = append $kept . }}
{{- $whose := ternary (printf "release '%s' in namespace '%s' owns it" $owner $place) "it was created without Helm" (ne $owner "") }}
{{- $notes = append $notes (printf "definition %s is unchanged, since %s; to upgrade it with this release: helm upgrade --take-ownership --set crds.keepExisting=false" $name $whose) }}
{{- end }}
{{- end }}
{{- end }}
{{- $names = concat $names (list "agent.yaml" "controller.yaml") }}
{{- range $kept }}{{ $names = without $names . }}{{ end }}

{{- /* The values that differ from their defaults. */}}
{{- $changed := list }}
{{- range $rule := $rules.rules }}
{{- $given := include "unirail.value" (list $values $rule.v) | fromJson }}
{{- $has := hasKey $given "v" }}
{{- $differs := and $has (ne (toJson $given.v) (toJson $rule.d)) }}
{{- if and $has $rule.now }}
{{- $errors = append $errors (printf "%s is now %s" $rule.v $rule.now) }}
{{- else if and $differs $rule.note }}
{{- $notes = append $notes (printf "%s has no effect: %s" $rule.v $rule.note) }}
{{- else if or $differs $rule.always }}
{{- $on := true }}
{{- if $rule.if }}{{ $on = (include "unirail.value" (list $values $rule.if) | fromJson).v | default false }}{{ end }}
{{- if $on }}
{{- $value := $rule.d }}
{{- if $differs }}{{ $value = $given.v }}{{ end }}
{{- $changed = append $changed (dict "rule" $rule "value" $value) }}
{{- range $rule.file }}
{{- if kindIs "string" . }}{{ $names = append $names . }}
{{- else if eq .when (toString $value) }}{{ $names = append $names .name }}{{ end }}
{{- end }}
{{- else if $differs }}
{{- $notes = append $notes (printf "%s has no effect without %s" $rule.v $rule.if) }}
{{- end }}
{{- end }}
{{- end }}
{{- if $errors }}{{ fail (printf "\n%s" (join "\n" $errors)) }}{{ end }}

{{- $image := default "unirail" .Values.image.repository }}
{{- with default .Values.image.registry .Values.global.imageRegistryOverride }}{{ $image = printf "%s/%s" . $image }}{{ end }}
{{- if .Values.image.digest }}{{ $image = printf "%s@%s" $image .Values.image.digest }}{{ else }}{{ $image = printf "%s:%s" $image (default "latest" .Values.image.tag) }}{{ end }}

{{- /* The manifests with the changes. */}}
{{- $texts := list }}
{{- range $name := uniq $names }}
{{- $text := $.Files.Get (printf "files/%s" $name) }}
{{- range list "unirail" "unirail-host" }}
{{- $text = replace (printf "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n---\n" .) "" $text }}
{{- end }}
{{- $text = replace "image: unirail:latest" (printf "image: %s" $image) $text }}
{{- range $changed }}
{{- $rule := .rule }}
{{- $value := .value }}
{{- range (include "unirail.settings" (list $rule $value) | fromJson).lines }}
{{- $line := printf "    %s\n" (splitList "/" . | rest | join "/") }}
{{- if and (eq $name (printf "%s.yaml" (splitList "/" . | first))) (not (contains $line $text)) }}
{{- $text = replace "    log-format = json\n" (printf "    log-format = json\n%s" $line) $text }}
{{- end }}
{{- end }}
{{- range $edit := $rule.edit }}
{{- $hit := hasPrefix (default "" $edit.in) $name }}
{{- if and $hit (hasKey $edit "when") }}{{ $hit = eq (toJson $edit.when) (toJson $value) }}{{ end }}
{{- if $hit }}
{{- $items := list }}
{{- if not $edit.each }}{{ $items = list $value }}
{{- else if kindIs "map" $value }}{{ range $k := keys $value | sortAlpha }}{{ $items = append $items (dict "key" $k "value" (get $value $k)) }}{{ end }}
{{- else }}{{ $items = $value }}{{ end }}
{{- $new := "" }}
{{- range $items }}
{{- $new = printf "%s%s" $new (include "unirail.fill" (list (hasKey $edit "add" | ternary $edit.add $edit.put) . (not (or $rule.json $edit.each)))) }}
{{- end }}
{{- if hasKey $edit "add" }}{{ $new = printf "%s%s" $edit.find $new }}{{ end }}
{{- $text = replace $edit.find $new $text }}
{{- end }}
{{- end }}
{{- end }}
{{- range $rules.namespace }}{{ $text = replace .find (replace "%" $.Release.Namespace .put) $text }}{{ end }}
{{- $texts = append $texts $text }}
{{- end }}
{{- dict "text" (join "---\n" $texts) "notes" $notes | toJson }}
{{- end }}
