package main

import (
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// specials are the Go types whose JSON or protobuf form is their own; the README says which.
var specials = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():                                  "time",
	reflect.TypeFor[metav1.MicroTime]():                             "microtime",
	reflect.TypeFor[metav1.Duration]():                              "duration",
	reflect.TypeFor[resource.Quantity]():                            "quantity",
	reflect.TypeFor[intstr.IntOrString]():                           "intorstring",
	reflect.TypeFor[runtime.RawExtension]():                         "object",
	reflect.TypeFor[metav1.FieldsV1]():                              "fields",
	reflect.TypeFor[apiextensionsv1.JSON]():                         "any",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():        "schemaorbool",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():       "schemaorarray",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray](): "schemaorstrings",
}

// metaKinds are served by every group, or are not stored at all.
var metaKinds = []any{
	metav1.Status{}, metav1.WatchEvent{}, metav1.List{},
	metav1.Table{}, metav1.PartialObjectMetadata{}, metav1.PartialObjectMetadataList{},
	metav1.APIGroup{}, metav1.APIGroupList{}, metav1.APIResourceList{}, metav1.APIVersions{},
	metav1.ListOptions{}, metav1.GetOptions{}, metav1.DeleteOptions{}, metav1.TableOptions{},
	metav1.CreateOptions{}, metav1.UpdateOptions{}, metav1.PatchOptions{}, metav1.Condition{},
	apidiscoveryv2.APIGroupDiscoveryList{},
}

// Field is one field of a struct type. What is left out is what most fields have.
type Field struct {
	Name     string   `json:"name,omitempty"`
	Inline   bool     `json:"inline,omitempty"`
	Type     string   `json:"type"`
	Pointer  bool     `json:"ptr,omitempty"`
	Omit     string   `json:"omit,omitempty"`
	Number   int      `json:"pb,omitempty"`
	List     string   `json:"list,omitempty"`
	Keys     []string `json:"keys,omitempty"`
	Map      string   `json:"map,omitempty"`
	Patch    string   `json:"patch,omitempty"`
	MergeKey string   `json:"mergeKey,omitempty"`
	Required bool     `json:"required,omitempty"`
	Enum     []string `json:"enum,omitempty"`
	Default  any      `json:"default,omitempty"`
	Declared any      `json:"declared,omitempty"`

	index int
	gotyp reflect.Type
}

// Type is one struct type.
type Type struct {
	Atomic bool
	Unions any
	Fields []*Field
}

type table struct {
	types    map[string]*Type
	packages map[string]string
	openapi  map[string]common.OpenAPIDefinition
}

func newTable() *table {
	ref := func(path string) spec.Ref { return spec.MustCreateRef(path) }
	return &table{
		types:    map[string]*Type{},
		packages: map[string]string{},
		openapi:  openapi.GetOpenAPIDefinitions(ref),
	}
}

// typeName shortens a Go package path to its last two elements, which are unique here.
func typeName(t reflect.Type) string {
	parts := strings.Split(t.PkgPath(), "/")
	return strings.Join(parts[len(parts)-2:], ".") + "." + t.Name()
}

// add describes a struct type and everything that it reaches.
func (tab *table) add(t reflect.Type) {
	name := typeName(t)
	if _, known := tab.types[name]; known {
		return
	}
	entry := &Type{Fields: []*Field{}}
	tab.types[name] = entry
	schema := tab.schema(t)
	pkg := name[:strings.LastIndex(name, ".")]
	model := modelName(t)
	must(model != "", "%s has no OpenAPI name", name)
	tab.packages[pkg] = strings.TrimSuffix(model, "."+t.Name())
	if value, ok := schema.Extensions.GetString("x-kubernetes-map-type"); ok {
		entry.Atomic = value == "atomic"
	}
	entry.Unions = schema.Extensions["x-kubernetes-unions"]
	for i := range t.NumField() {
		if field := tab.field(t, t.Field(i), schema); field != nil {
			field.index = i
			entry.Fields = append(entry.Fields, field)
		}
	}
}

func modelName(t reflect.Type) string {
	if namer, ok := reflect.Zero(t).Interface().(interface{ OpenAPIModelName() string }); ok {
		return namer.OpenAPIModelName()
	}
	return ""
}

func (tab *table) schema(t reflect.Type) spec.Schema {
	definition, ok := tab.openapi[modelName(t)]
	must(ok, "%s is not in upstream's OpenAPI", t)
	return definition.Schema
}

func (tab *table) field(owner reflect.Type, field reflect.StructField, schema spec.Schema) *Field {
	tag, tagged := field.Tag.Lookup("json")
	options := strings.Split(tag, ",")
	if tag == "-" || !field.IsExported() || (!tagged && !field.Anonymous) {
		return nil
	}
	out := &Field{Name: options[0], Patch: field.Tag.Get("patchStrategy"), gotyp: field.Type}
	out.MergeKey = field.Tag.Get("patchMergeKey")
	out.Inline = out.Name == "" && field.Anonymous
	must(out.Inline || out.Name != "", "%s.%s has no JSON name", owner, field.Name)
	if !out.Inline {
		out.Omit = omission(options[1:])
	}
	gotype := field.Type
	if gotype.Kind() == reflect.Pointer {
		out.Pointer, gotype = true, gotype.Elem()
	}
	pb := strings.Split(field.Tag.Get("protobuf"), ",")
	out.Type = tab.expression(gotype)
	out.Number = protobufNumber(owner, field.Name, pb)
	if !out.Inline {
		property, ok := schema.Properties[out.Name]
		must(ok, "%s.%s is not in upstream's OpenAPI", owner, out.Name)
		out.fromOpenAPI(property)
		for _, name := range schema.Required {
			out.Required = out.Required || name == out.Name
		}
	}
	return out
}

// omission: most fields are left out when they are empty, so that is not written down.
func omission(options []string) string {
	empty, zero := false, false
	for _, option := range options {
		empty, zero = empty || option == "omitempty", zero || option == "omitzero"
	}
	switch {
	case zero:
		return "zero"
	case empty:
		return ""
	}
	return "never"
}

func (out *Field) fromOpenAPI(property spec.Schema) {
	out.List, _ = property.Extensions.GetString("x-kubernetes-list-type")
	out.Map, _ = property.Extensions.GetString("x-kubernetes-map-type")
	if keys, ok := property.Extensions["x-kubernetes-list-map-keys"].([]interface{}); ok {
		for _, key := range keys {
			out.Keys = append(out.Keys, key.(string))
		}
	}
	values := property.Enum
	if property.Items != nil && property.Items.Schema != nil {
		values = append(values, property.Items.Schema.Enum...)
	}
	if property.AdditionalProperties != nil && property.AdditionalProperties.Schema != nil {
		values = append(values, property.AdditionalProperties.Schema.Enum...)
	}
	for _, value := range values {
		out.Enum = append(out.Enum, fmt.Sprint(value))
	}
	sort.Strings(out.Enum)
	if !reflect.ValueOf(&property.Default).Elem().IsNil() {
		value := normal(property.Default)
		if !empty(value) {
			out.Default = value
		}
		if !empty(value) || !out.zeroIsDeclared() {
			out.Declared = value
		}
	}
}

// zeroIsDeclared: OpenAPI declares the zero value of every struct and of every scalar that is always
// written, unless they are pointers.
func (out *Field) zeroIsDeclared() bool {
	switch out.Type {
	case "string", "bool", "int32", "int64", "double":
		return !out.Pointer && out.Omit == "never"
	}
	return !out.Pointer && strings.Contains(out.Type, ".") && !strings.ContainsAny(out.Type, "[]")
}

// empty: OpenAPI gives every mandatory field the empty value as its default, which says nothing.
func empty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return reflect.ValueOf(value).IsZero()
}

func (tab *table) expression(t reflect.Type) string {
	if name, ok := specials[t]; ok {
		return name
	}
	switch t.Kind() {
	case reflect.Pointer:
		return tab.expression(t.Elem())
	case reflect.Struct:
		tab.add(t)
		return typeName(t)
	case reflect.Slice:
		switch {
		case t.Elem().Kind() == reflect.Uint8:
			return "bytes"
		case t.Name() != "" && t.Elem().Kind() == reflect.String:
			// In protobuf a named list is a message of its own.
			return "strings"
		}
		return "[]" + tab.expression(t.Elem())
	case reflect.Map:
		must(t.Key().Kind() == reflect.String, "%s has keys that are no strings", t)
		return "map[string]" + tab.expression(t.Elem())
	case reflect.Interface:
		return "any"
	case reflect.Float64:
		return "double"
	case reflect.Bool, reflect.String, reflect.Int32, reflect.Int64, reflect.Uint64:
		return t.Kind().String()
	}
	must(false, "unknown type %s", t)
	return ""
}

// protobufNumber returns 0 for a field without one. The rest of the tag is not used:
// upstream's own generator ignores it, and some tags are wrong.
func protobufNumber(owner reflect.Type, name string, tag []string) int {
	if len(tag) < 3 {
		return 0
	}
	number, err := strconv.Atoi(tag[1])
	must(err == nil, "%s.%s: protobuf number %s", owner, name, tag[1])
	return number
}

// kinds adds every kind of the served groups and says which type each has.
func (tab *table) kinds(gvs []schema.GroupVersion) map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, gv := range gvs {
		kinds := map[string]string{}
		for kind, t := range schemeFor(gv.Group).KnownTypes(gv) {
			if strings.HasSuffix(t.PkgPath(), "/meta/v1") || strings.HasSuffix(t.PkgPath(), "/internalversion") {
				continue
			}
			tab.add(t)
			kinds[kind] = typeName(t)
		}
		out[gv.String()] = kinds
	}
	for _, kind := range metaKinds {
		tab.add(reflect.TypeOf(kind))
	}
	return out
}

func (tab *table) fieldAt(at [2]string) *Field {
	for _, field := range tab.types[at[0]].Fields {
		if field.Name == at[1] {
			return field
		}
	}
	must(false, "no field %s in %s", at[1], at[0])
	return nil
}
