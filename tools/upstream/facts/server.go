package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Group is one API group as discovery lists it; the order of both lists is the server's.
type Group struct {
	Name     string   `json:"name"`
	Versions []string `json:"versions"`
}

// Resource is what a running server says of one resource, and what its storage is.
type Resource struct {
	Kind         string                 `json:"kind"`
	Singular     string                 `json:"singular"`
	Namespaced   bool                   `json:"namespaced,omitempty"`
	Verbs        []string               `json:"verbs"`
	ShortNames   []string               `json:"shortNames,omitempty"`
	Categories   []string               `json:"categories,omitempty"`
	Storage      string                 `json:"storage,omitempty"`
	Selectors    []string               `json:"selectors,omitempty"`
	Columns      []Column               `json:"columns,omitempty"`
	Subresources map[string]Subresource `json:"subresources,omitempty"`
}

// Subresource names the kind that it answers with if that is not the resource's own.
type Subresource struct {
	Kind     string   `json:"kind,omitempty"`
	Accepted []string `json:"accepted,omitempty"`
	Verbs    []string `json:"verbs"`
}

// Column is one column of the table form.
type Column struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Format   string `json:"format,omitempty"`
	Priority int32  `json:"priority,omitempty"`
}

type server struct {
	client *http.Client
	url    string
	tab    *table
	kinds  map[string]map[string]string
}

func newServer(kubeconfig string, tab *table, kinds map[string]map[string]string) *server {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(err == nil, "cannot read the kubeconfig %s: %v", kubeconfig, err)
	client, err := rest.HTTPClientFor(config)
	must(err == nil, "cannot use the kubeconfig %s: %v", kubeconfig, err)
	return &server{client, strings.TrimSuffix(config.Host, "/"), tab, kinds}
}

func (s *server) get(path, accept string, into any) {
	request, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	must(err == nil, "%s: %v", path, err)
	request.Header.Set("Accept", accept)
	response, err := s.client.Do(request)
	must(err == nil, "GET %s: %v", path, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(err == nil && response.StatusCode == 200, "GET %s: %s %v", path, response.Status, err)
	must(json.Unmarshal(body, into) == nil, "GET %s: this is no %T: %s", path, into, body)
}

func (s *server) version() string {
	var version struct{ GitVersion string }
	s.get("/version", "application/json", &version)
	return version.GitVersion
}

// resources reads discovery, and the table form of every resource that can be listed.
func (s *server) resources() ([]Group, map[string]map[string]Resource) {
	groups, out := []Group{}, map[string]map[string]Resource{}
	for _, root := range []string{"/api", "/apis"} {
		var list apidiscovery.APIGroupDiscoveryList
		s.get(root, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", &list)
		for _, found := range list.Items {
			group := Group{Name: found.Name}
			for _, version := range found.Versions {
				gv := schema.GroupVersion{Group: found.Name, Version: version.Version}
				must(s.kinds[gv.String()] != nil, "%s is served; add it to the list of groups", gv)
				group.Versions = append(group.Versions, version.Version)
				out[gv.String()] = s.resourcesOf(gv, version.Resources)
			}
			groups = append(groups, group)
		}
	}
	return groups, out
}

func (s *server) resourcesOf(gv schema.GroupVersion, found []apidiscovery.APIResourceDiscovery) map[string]Resource {
	path := "/apis/" + gv.String()
	if gv.Group == "" {
		path = "/api/" + gv.Version
	}
	var legacy metav1.APIResourceList
	s.get(path, "application/json", &legacy)
	hashes := map[string]string{}
	for _, resource := range legacy.APIResources {
		hashes[resource.Name] = resource.StorageVersionHash
	}
	out := map[string]Resource{}
	for _, resource := range found {
		kind := resource.ResponseKind.Kind
		entry := Resource{
			Kind: kind, Singular: resource.SingularResource, Verbs: resource.Verbs,
			Namespaced: resource.Scope == apidiscovery.ScopeNamespace,
			ShortNames: resource.ShortNames, Categories: resource.Categories,
			Storage:      s.storage(kind, hashes[resource.Resource]),
			Subresources: subresources(resource),
		}
		if slices.Contains(resource.Verbs, "list") {
			entry.Columns = s.columns(path + "/" + resource.Resource)
			entry.Selectors = s.selectors(gv.WithKind(kind))
		}
		out[resource.Resource] = entry
	}
	return out
}

func subresources(resource apidiscovery.APIResourceDiscovery) map[string]Subresource {
	out := map[string]Subresource{}
	for _, found := range resource.Subresources {
		entry := Subresource{Verbs: found.Verbs}
		if kind := found.ResponseKind; kind != nil && *kind != *resource.ResponseKind {
			entry.Kind = kindName(*kind)
		}
		for _, kind := range found.AcceptedTypes {
			entry.Accepted = append(entry.Accepted, kindName(kind))
		}
		out[found.Subresource] = entry
	}
	return out
}

func kindName(kind metav1.GroupVersionKind) string {
	gv := schema.GroupVersion{Group: kind.Group, Version: kind.Version}
	return gv.String() + " " + kind.Kind
}

// storage finds the version that objects are stored in: discovery publishes only its hash.
func (s *server) storage(kind, hash string) string {
	if hash == "" {
		return ""
	}
	var candidates []schema.GroupVersion
	for _, group := range []string{"", "apiextensions.k8s.io", "apiregistration.k8s.io"} {
		candidates = append(candidates, schemeFor(group).PrioritizedVersionsAllGroups()...)
	}
	for _, gv := range candidates {
		sum := sha256.Sum256([]byte(gv.Group + "/" + gv.Version + "/" + kind))
		if base64.StdEncoding.EncodeToString(sum[:8]) == hash {
			return gv.String()
		}
	}
	must(false, "%s is stored in a version that upstream does not know", kind)
	return ""
}

func (s *server) columns(path string) []Column {
	var table metav1.Table
	s.get(path+"?limit=1", "application/json;as=Table;v=v1;g=meta.k8s.io", &table)
	out := []Column{}
	for _, column := range table.ColumnDefinitions {
		out = append(out, Column{column.Name, column.Type, column.Format, column.Priority})
	}
	return out
}

// selectors asks upstream's scheme about every path of a kind. Name and namespace work for all
// kinds and are left out.
func (s *server) selectors(gvk schema.GroupVersionKind) []string {
	scheme := schemeFor(gvk.Group)
	// The last ones are labels that are no path of the object.
	paths := []string{"status.successful", "source", "name"}
	var walk func(path string, t reflect.Type, depth int)
	walk = func(path string, t reflect.Type, depth int) {
		for _, field := range s.tab.types[typeName(t)].Fields {
			inner, list, ok := child(field.gotyp)
			here := path
			if !field.Inline {
				here = strings.TrimPrefix(path+"."+field.Name, ".")
				paths = append(paths, here)
			}
			if ok && !list && depth > 0 {
				walk(here, inner, depth-1)
			}
		}
	}
	walk("", scheme.KnownTypes(gvk.GroupVersion())[gvk.Kind], 3)
	slices.Sort(paths)
	out := []string{}
	for _, path := range slices.Compact(paths) {
		_, _, err := scheme.ConvertFieldLabel(gvk, path, "")
		if err == nil && path != "metadata.name" && path != "metadata.namespace" {
			out = append(out, path)
		}
	}
	return out
}
