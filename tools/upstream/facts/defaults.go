package main

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A defaulter runs upstream's own defaulting on many small objects of one kind and notes, for
// every field that was not set before, what it is afterwards.
type defaulter struct {
	tab *table
	// seen: kind -> path of the field -> the values it got; "" when it stayed unset.
	seen map[string]map[string]map[string]bool
	// at: path of a field -> the type and the name of the field.
	at map[string][2]string
	// each is called with every object before and after; the second round checks with it.
	each func(kind, name string, before, after map[string]any)
}

const unset = ""

// step goes from one Go value to one inside it.
type step struct {
	field int
	list  bool
}

// reach returns the value at a path and makes what is missing on the way.
func reach(value reflect.Value, path []step) reflect.Value {
	value = settled(value)
	for _, step := range path {
		value = settled(value.Field(step.field))
		if step.list {
			if value.Len() == 0 {
				value.Set(reflect.MakeSlice(value.Type(), 1, 1))
			}
			value = settled(value.Index(0))
		}
	}
	return value
}

func settled(value reflect.Value) reflect.Value {
	for value.Kind() == reflect.Pointer {
		if value.IsNil() {
			value.Set(reflect.New(value.Type().Elem()))
		}
		value = value.Elem()
	}
	return value
}

// child says whether a field holds structs of ours, directly or in a list.
func child(t reflect.Type) (inner reflect.Type, list, ok bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if _, special := specials[t]; special {
		return nil, false, false
	}
	if t.Kind() == reflect.Slice {
		inner, _, ok := child(t.Elem())
		return inner, true, ok
	}
	return t, false, t.Kind() == reflect.Struct
}

// probe tries every struct that a kind can hold: alone, with its children, and with each of its
// plain fields set to each of a few values.
func (d *defaulter) probe(gvk schema.GroupVersionKind, root reflect.Type) {
	scheme := schemeFor(gvk.Group)
	kind := gvk.GroupVersion().String() + " " + gvk.Kind
	try := func(path []step, change func(reflect.Value)) {
		object := reflect.New(root)
		change(reach(object, path))
		before := d.encode(object.Elem())
		scheme.Default(object.Interface().(runtime.Object))
		d.each(kind, typeName(root), before, d.encode(object.Elem()))
	}
	var visit func(t reflect.Type, path []step, open map[reflect.Type]bool)
	visit = func(t reflect.Type, path []step, open map[reflect.Type]bool) {
		if open[t] {
			return
		}
		open[t] = true
		defer delete(open, t)
		try(path, func(reflect.Value) {})
		try(path, populate)
		for _, field := range d.tab.types[typeName(t)].Fields {
			for _, sample := range samples(t.Field(field.index).Type, field) {
				set := func(value reflect.Value) { value.Field(field.index).Set(sample) }
				try(path, set)
				try(path, func(value reflect.Value) { populate(value); set(value) })
			}
			if inner, list, ok := child(t.Field(field.index).Type); ok {
				next := append(append([]step{}, path...), step{field.index, list})
				visit(inner, next, open)
			}
		}
	}
	visit(root, nil, map[reflect.Type]bool{})
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		try(nil, func(value reflect.Value) { d.scatter(value, random, 7) })
	}
}

// populate makes every child of a struct, empty.
func populate(value reflect.Value) {
	for i := range value.NumField() {
		if _, list, ok := child(value.Type().Field(i).Type); ok && value.Field(i).CanSet() {
			reach(value, []step{{i, list}})
		}
	}
}

// scatter fills a struct at random, so that combinations which nobody thought of are checked too.
func (d *defaulter) scatter(value reflect.Value, random *rand.Rand, depth int) {
	for _, field := range d.tab.types[typeName(value.Type())].Fields {
		inner := value.Field(field.index)
		values := samples(inner.Type(), field)
		if len(values) > 0 && random.IntN(3) == 0 {
			inner.Set(values[random.IntN(len(values))])
		}
		if _, list, ok := child(inner.Type()); ok && depth > 0 && random.IntN(2) == 0 {
			d.scatter(reach(value, []step{{field.index, list}}), random, depth-1)
		}
	}
}

// samples are values for a plain field: some of every sort, so that defaults which depend on it
// show themselves.
func samples(t reflect.Type, field *Field) []reflect.Value {
	if t.Kind() == reflect.Pointer {
		var out []reflect.Value
		for _, sample := range samples(t.Elem(), field) {
			pointer := reflect.New(t.Elem())
			pointer.Elem().Set(sample)
			out = append(out, pointer)
		}
		return out
	}
	of := func(values ...any) (out []reflect.Value) {
		for _, value := range values {
			out = append(out, reflect.ValueOf(value).Convert(t))
		}
		return out
	}
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		return of(resource.MustParse("1"))
	case t == reflect.TypeFor[intstr.IntOrString]():
		return of(intstr.FromInt32(1), intstr.FromString("10%"))
	case t.Kind() == reflect.String:
		values := append([]string{"x", "x:v1"}, field.Enum...)
		for _, value := range words[field.Name] {
			values = append(values, value)
		}
		var out []any
		for _, value := range values {
			out = append(out, value)
		}
		return of(out...)
	case t.Kind() == reflect.Bool:
		return of(true, false)
	case t.Kind() == reflect.Int32 || t.Kind() == reflect.Int64:
		return of(0, 1, 7)
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		var out []reflect.Value
		for _, sample := range samples(t.Elem(), field) {
			made := reflect.MakeMap(t)
			made.SetMapIndex(reflect.ValueOf("cpu").Convert(t.Key()), sample)
			out = append(out, made)
		}
		return out
	case t.Kind() == reflect.Slice:
		if _, _, ok := child(t); ok || t.Elem().Kind() == reflect.Uint8 {
			return nil
		}
		var out []reflect.Value
		for _, sample := range samples(t.Elem(), field) {
			out = append(out, reflect.Append(reflect.MakeSlice(t, 0, 1), sample))
		}
		return out
	}
	return nil
}

// encode writes a value as JSON without anything that counts as unset: nil, and the zero value of
// a field that is no pointer.
func (d *defaulter) encode(value reflect.Value) map[string]any {
	out := map[string]any{}
	for _, field := range d.tab.types[typeName(value.Type())].Fields {
		inner := value.Field(field.index)
		if field.Inline {
			for name, value := range d.encode(inner) {
				out[name] = value
			}
		} else if encoded := d.encodeField(inner); encoded != nil {
			out[field.Name] = encoded
		}
	}
	return out
}

func (d *defaulter) encodeField(value reflect.Value) any {
	if value.Kind() == reflect.Pointer {
		if value.IsNil() {
			return nil
		}
		return d.encodeValue(value.Elem())
	}
	if value.IsZero() || (value.Kind() == reflect.Slice || value.Kind() == reflect.Map) && value.Len() == 0 {
		return nil
	}
	encoded := d.encodeValue(value)
	if object, ok := encoded.(map[string]any); ok && len(object) == 0 {
		return nil
	}
	return encoded
}

func (d *defaulter) encodeValue(value reflect.Value) any {
	inner, list, ok := child(value.Type())
	switch {
	case ok && list:
		out := []any{}
		for i := range value.Len() {
			out = append(out, d.encodeValue(value.Index(i)))
		}
		return out
	case ok && value.Kind() == reflect.Pointer:
		return d.encodeValue(value.Elem())
	case ok && inner == value.Type():
		return d.encode(value)
	}
	return normal(value.Interface())
}

// compare notes the fields of one struct that were unset, and goes on into its children. A struct
// that is no pointer is always there, if only as a place for defaults.
func (d *defaulter) compare(kind, path, name string, before, after map[string]any) {
	for _, field := range d.tab.types[name].Fields {
		inner, list, ok := child(field.gotyp)
		if field.Inline {
			if ok && inner.Name() != "TypeMeta" {
				d.compare(kind, path, typeName(inner), before, after)
			}
			continue
		}
		here := strings.TrimPrefix(path+"."+field.Name, ".")
		was, is := before[field.Name], after[field.Name]
		if was == nil && (!ok || list || field.Pointer) {
			d.note(kind, here, name, field.Name, is, ok && !list)
		}
		switch {
		case !ok:
		case list:
			old, _ := was.([]any)
			for i, item := range asList(is) {
				if i < len(old) {
					d.compare(kind, here+"[]", typeName(inner), old[i].(map[string]any), item.(map[string]any))
				}
			}
		case is != nil || !field.Pointer:
			old, _ := was.(map[string]any)
			now, _ := is.(map[string]any)
			d.compare(kind, here, typeName(inner), old, now)
		}
	}
}

func asList(value any) []any {
	list, _ := value.([]any)
	return list
}

func (d *defaulter) note(kind, path, owner, field string, value any, structure bool) {
	text := unset
	if value != nil {
		if structure {
			// Its fields are noted one by one.
			value = map[string]any{}
		}
		bytes, err := json.Marshal(value)
		must(err == nil, "%s: %v", path, err)
		text = string(bytes)
	}
	if d.seen[kind] == nil {
		d.seen[kind] = map[string]map[string]bool{}
	}
	if d.seen[kind][path] == nil {
		d.seen[kind][path] = map[string]bool{}
	}
	d.seen[kind][path][text] = true
	d.at[kind+" "+path] = [2]string{owner, field}
}

// defaults sorts what was seen: a value that a field always gets goes to the field's entry, one that
// it gets only in some kinds to the kinds' paths; the rest depends on something and is returned.
func (d *defaulter) defaults() (kinds map[string]map[string]any, rest []string) {
	kinds = map[string]map[string]any{}
	everywhere := map[[2]string]map[string]bool{}
	for kind, paths := range d.seen {
		for path, values := range paths {
			at := d.at[kind+" "+path]
			for value := range values {
				insert(everywhere, at, value, true)
			}
		}
	}
	for _, kind := range keys(d.seen) {
		for _, path := range keys(d.seen[kind]) {
			values, at := d.seen[kind][path], d.at[kind+" "+path]
			switch {
			case values[unset] && len(values) == 1:
			case d.tab.known(kind, path, at):
			case len(everywhere[at]) == 1:
				d.tab.fieldAt(at).Default = parse(keys(values)[0])
			case len(values) == 1:
				insert(kinds, kind, path, parse(keys(values)[0]))
			default:
				rest = append(rest, kind+" "+path+": "+strings.Join(keys(values), " or "))
			}
		}
	}
	return kinds, rest
}

// known says whether a rule or a note speaks of a field.
func (tab *table) known(kind, path string, at [2]string) bool {
	parent := strings.TrimSuffix(strings.TrimSuffix(path, at[1]), ".")
	for _, code := range codes {
		if code.Field == at[1] && (code.Type == at[0] || code.Kind == kind && code.Path == parent) {
			return true
		}
	}
	for _, rule := range rules {
		if rule.Kind == kind && rule.Path == parent && rule.Set[at[1]] != nil ||
			rule.Type == at[0] && rule.Copy[at[1]] != "" || tab.covers(rule.Type, rule.Set, at) {
			return true
		}
	}
	return false
}

// covers says whether a rule sets a field, in its own type or in a struct that it makes there.
func (tab *table) covers(name string, set map[string]any, at [2]string) bool {
	if tab.types[name] == nil {
		return false
	}
	for field, value := range set {
		if name == at[0] && field == at[1] {
			return true
		}
		inner, isObject := value.(map[string]any)
		if isObject && tab.covers(tab.fieldAt([2]string{name, field}).Type, inner, at) {
			return true
		}
	}
	return false
}

func parse(text string) (value any) {
	must(json.Unmarshal([]byte(text), &value) == nil, "not JSON: %s", text)
	return value
}

func insert[K comparable, V any](into map[K]map[string]V, a K, b string, value V) {
	if into[a] == nil {
		into[a] = map[string]V{}
	}
	into[a][b] = value
}

func keys[V any](values map[string]V) []string {
	return slices.Sorted(maps.Keys(values))
}

// words are values that upstream's defaulting looks for in string fields, by field name.
var words = map[string][]string{
	"type": {
		"ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "RollingUpdate", "Recreate",
		"OnDelete", "Utilization", "Resource", "Queue", "Limited", "Exempt", "Localhost",
	},
	"restartPolicy":         {"Always", "OnFailure", "Never"},
	"completionMode":        {"Indexed", "NonIndexed"},
	"sessionAffinity":       {"ClientIP", "None"},
	"externalTrafficPolicy": {"Local", "Cluster"},
	"internalTrafficPolicy": {"Local", "Cluster"},
	"protocol":              {"TCP", "UDP", "SCTP"},
	"image":                 {"x:latest", "x@sha256:0"},
	"operator":              {"Equal", "Exists"},
	"policyTypes":           {"Ingress", "Egress"},
	"allocationMode":        {"ExactCount", "All"},
	"scheme":                {"HTTP", "HTTPS"},
	"kind":                  {"User", "Group", "ServiceAccount"},
	"strategy":              {"None", "Webhook"},
	"podManagementPolicy":   {"OrderedReady", "Parallel"},
	"updateMode":            {"Auto"},
}
