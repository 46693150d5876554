package main

import (
	"encoding/json"
	"reflect"
	"strings"
)

// Rule is a default that depends on other fields of the same struct. The struct is every one of a
// type, or the one at a path of a kind. A condition names a field and the values that it may have;
// null stands for unset and "*" for set, and `none` asks that no field of the type is set. `set` is
// merged into what is unset, `copy` takes the value of another field.
type Rule struct {
	Type string            `json:"type,omitempty"`
	Kind string            `json:"kind,omitempty"`
	Path string            `json:"path,omitempty"`
	When map[string][]any  `json:"when,omitempty"`
	None bool              `json:"none,omitempty"`
	Set  map[string]any    `json:"set,omitempty"`
	Copy map[string]string `json:"copy,omitempty"`
	// Clear names fields that upstream removes, although the user may have set them.
	Clear []string `json:"clear,omitempty"`
}

// Code is a default that only code can tell; a person writes it from the note.
type Code struct {
	Type  string `json:"type,omitempty"`
	Kind  string `json:"kind,omitempty"`
	Path  string `json:"path,omitempty"`
	Field string `json:"field"`
	Note  string `json:"note"`
}

type obj = map[string]any

// rules were written by hand from what the probes showed; `check` holds them to upstream.
var rules = []Rule{
	{Type: "apps.v1.DeploymentStrategy", When: is("type", "RollingUpdate"),
		Set: obj{"rollingUpdate": obj{"maxSurge": "25%", "maxUnavailable": "25%"}}},
	{Type: "apps.v1.DaemonSetUpdateStrategy", When: is("type", "RollingUpdate"),
		Set: obj{"rollingUpdate": obj{"maxSurge": 0, "maxUnavailable": 1}}},
	{Type: "apps.v1.StatefulSetUpdateStrategy", When: is("type", nil),
		Set: obj{"type": "RollingUpdate", "rollingUpdate": obj{"partition": 0}}},
	// Unlike its siblings, a type that the user wrote does not make the struct.
	{Type: "apps.v1.StatefulSetUpdateStrategy",
		When: map[string][]any{"type": {"RollingUpdate"}, "rollingUpdate": {"*"}},
		Set:  obj{"rollingUpdate": obj{"partition": 0}}},
	{Type: "core.v1.VolumeSource", None: true, Set: obj{"emptyDir": obj{}}},
	{Type: "core.v1.ServiceSpec", When: is("type", "LoadBalancer"),
		Set: obj{"allocateLoadBalancerNodePorts": true}},
	{Type: "core.v1.ServiceSpec", When: is("type", "LoadBalancer", "NodePort"),
		Set: obj{"externalTrafficPolicy": "Cluster"}},
	{Type: "core.v1.ServiceSpec",
		When: map[string][]any{"type": {"ClusterIP"}, "externalIPs": {"*"}},
		Set:  obj{"externalTrafficPolicy": "Cluster"}},
	{Type: "core.v1.ServiceSpec", When: is("type", "ClusterIP", "LoadBalancer", "NodePort"),
		Set: obj{"internalTrafficPolicy": "Cluster"}},
	{Type: "core.v1.ServiceSpec", When: is("sessionAffinity", "ClientIP"),
		Set: obj{"sessionAffinityConfig": obj{"clientIP": obj{"timeoutSeconds": 10800}}}},
	{Type: "core.v1.ServiceSpec", When: is("sessionAffinity", "None"),
		Clear: []string{"sessionAffinityConfig"}},
	{Type: "core.v1.ServicePort", Copy: map[string]string{"targetPort": "port"}},
	{Type: "core.v1.NodeStatus", Copy: map[string]string{"allocatable": "capacity"}},
	{Type: "resource.v1.ExactDeviceRequest", When: is("allocationMode", "ExactCount"),
		Set: obj{"count": 1}},
	{Type: "resource.v1.DeviceSubRequest", When: is("allocationMode", "ExactCount"),
		Set: obj{"count": 1}},
	{Type: "rbac.v1.Subject", When: is("kind", "User", "Group"),
		Set: obj{"apiGroup": "rbac.authorization.k8s.io"}},
	{Type: "networking.v1.NetworkPolicySpec", When: is("egress", "*"),
		Set: obj{"policyTypes": []any{"Ingress", "Egress"}}},
	{Type: "networking.v1.NetworkPolicySpec", Set: obj{"policyTypes": []any{"Ingress"}}},
	{Type: "apiextensions.v1.CustomResourceDefinitionSpec", When: is("conversion", nil),
		Set: obj{"conversion": obj{"strategy": "None"}}},
	{Kind: "batch/v1 Job", Path: "spec",
		When: map[string][]any{"completions": {nil}, "parallelism": {nil}},
		Set:  obj{"completions": 1}},
	{Kind: "batch/v1 Job", Path: "spec", Set: obj{"parallelism": 1}},
	{Kind: "batch/v1 Job", Path: "spec", When: is("backoffLimitPerIndex", "*"),
		Set: obj{"backoffLimit": 2147483647}},
	{Kind: "batch/v1 Job", Path: "spec", Set: obj{"backoffLimit": 6}},
	{Kind: "batch/v1 Job", Path: "spec", When: is("podFailurePolicy", "*"),
		Set: obj{"podReplacementPolicy": "Failed"}},
	{Kind: "batch/v1 Job", Path: "spec", Set: obj{"podReplacementPolicy": "TerminatingOrFailed"}},
}

const (
	pullPolicy = "Always if the image's tag is latest or absent and it has no digest, else IfNotPresent"
	requests   = "for each name in limits that requests lack, the limit; only in Pods, not in templates"
)

var codes = []Code{
	{Type: "core.v1.Container", Field: "imagePullPolicy", Note: pullPolicy},
	{Type: "core.v1.EphemeralContainerCommon", Field: "imagePullPolicy", Note: pullPolicy},
	{Type: "core.v1.ImageVolumeSource", Field: "pullPolicy", Note: pullPolicy},
	{Type: "core.v1.ContainerPort", Field: "hostPort",
		Note: "containerPort, if the pod has hostNetwork; in templates as well"},
	{Type: "resource.v1.DeviceTaint", Field: "timeAdded", Note: "the time of the request, to the second"},
	{Type: "apiextensions.v1.CustomResourceDefinitionNames", Field: "singular", Note: "lower case of kind; in spec only"},
	{Type: "apiextensions.v1.CustomResourceDefinitionNames", Field: "listKind", Note: "kind with List appended, if kind is set; in spec only"},
	{Kind: "apiextensions.k8s.io/v1 CustomResourceDefinition", Path: "status", Field: "storedVersions",
		Note: "if empty, the names of the versions whose storage is true"},
	{Kind: "batch/v1 Job", Path: "metadata", Field: "labels", Note: "if empty, the labels of spec.template"},
	{Kind: "v1 ReplicationController", Path: "metadata", Field: "labels",
		Note: "if empty, the labels of spec.template"},
	{Kind: "v1 ReplicationController", Path: "spec", Field: "selector",
		Note: "if empty, the labels of spec.template"},
	{Kind: "v1 Namespace", Path: "metadata", Field: "labels",
		Note: "kubernetes.io/metadata.name is set to the name, if there is one"},
	{Kind: "v1 Pod", Path: "spec.containers[].resources", Field: "requests", Note: requests},
	{Kind: "v1 Pod", Path: "spec.initContainers[].resources", Field: "requests", Note: requests},
	{Kind: "v1 Pod", Path: "spec.resources", Field: "requests", Note: requests},
}

func is(field string, values ...any) map[string][]any {
	return map[string][]any{field: values}
}

// model is what the file says about defaults, applied the way its README tells the reader to.
type model struct {
	tab   *table
	kinds map[string]map[string]any
}

func (m *model) apply(kind, path, name string, object map[string]any) {
	entry := m.tab.types[name]
	for _, field := range entry.Fields {
		here := strings.TrimPrefix(path+"."+field.Name, ".")
		if value, ok := m.kinds[kind][here]; ok && !field.Inline && object[field.Name] == nil {
			object[field.Name] = normal(value)
		} else if field.Default != nil && object[field.Name] == nil {
			object[field.Name] = normal(field.Default)
		}
	}
	for _, rule := range rules {
		if rule.Type == name || rule.Kind == kind && rule.Path == path {
			rule.apply(entry, object)
		}
	}
	for _, field := range entry.Fields {
		m.children(kind, path, field, object)
	}
}

func (m *model) children(kind, path string, field *Field, object map[string]any) {
	inner, list, ok := child(field.gotyp)
	here := strings.TrimPrefix(path+"."+field.Name, ".")
	switch value := object[field.Name].(type) {
	case nil:
		if ok && field.Inline && inner.Name() != "TypeMeta" {
			m.apply(kind, path, typeName(inner), object)
		} else if ok && !field.Inline && !list && !field.Pointer {
			made := map[string]any{}
			if m.apply(kind, here, typeName(inner), made); len(made) > 0 {
				object[field.Name] = made
			}
		}
	case map[string]any:
		if ok && !list {
			m.apply(kind, here, typeName(inner), value)
		}
	case []any:
		for _, item := range value {
			if item, isObject := item.(map[string]any); ok && isObject {
				m.apply(kind, here+"[]", typeName(inner), item)
			}
		}
	}
}

func (rule *Rule) apply(entry *Type, object map[string]any) {
	if rule.None {
		for _, field := range entry.Fields {
			if object[field.Name] != nil {
				return
			}
		}
	}
	for name, allowed := range rule.When {
		if !holds(object[name], allowed) {
			return
		}
	}
	merge(object, normal(rule.Set))
	for _, name := range rule.Clear {
		delete(object, name)
	}
	for to, from := range rule.Copy {
		if object[to] == nil && object[from] != nil {
			object[to] = normal(object[from])
		}
	}
}

func holds(value any, allowed []any) bool {
	for _, want := range allowed {
		if value == nil && want == nil || value != nil && want == "*" || value != nil && value == want {
			return true
		}
	}
	return false
}

func merge(into map[string]any, from any) {
	more, _ := from.(map[string]any)
	for name, value := range more {
		if object, ok := into[name].(map[string]any); ok {
			merge(object, value)
		} else if into[name] == nil {
			into[name] = value
		}
	}
}

// prune removes what only code can tell, so that the rest can be compared.
func (m *model) prune(kind, path, name string, object map[string]any) {
	for _, code := range codes {
		if code.Type == name || code.Kind == kind && code.Path == path {
			delete(object, code.Field)
		}
	}
	for _, field := range m.tab.types[name].Fields {
		inner, _, ok := child(field.gotyp)
		here := strings.TrimPrefix(path+"."+field.Name, ".")
		if !ok {
			continue
		}
		if field.Inline {
			m.prune(kind, path, typeName(inner), object)
			continue
		}
		switch value := object[field.Name].(type) {
		case map[string]any:
			m.prune(kind, here, typeName(inner), value)
			if len(value) == 0 && !field.Pointer {
				delete(object, field.Name)
			}
		case []any:
			for _, item := range value {
				if item, isObject := item.(map[string]any); isObject {
					m.prune(kind, here+"[]", typeName(inner), item)
				}
			}
		}
	}
}

// check compares the model with upstream on one object.
func (m *model) check(kind, name string, before, after map[string]any) (got, want string, ok bool) {
	mine := normal(before).(map[string]any)
	theirs := normal(after).(map[string]any)
	m.apply(kind, "", name, mine)
	m.prune(kind, "", name, mine)
	m.prune(kind, "", name, theirs)
	if reflect.DeepEqual(mine, theirs) {
		return "", "", true
	}
	a, _ := json.Marshal(mine)
	b, _ := json.Marshal(theirs)
	return string(a), string(b), false
}
