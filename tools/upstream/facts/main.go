// Facts writes down what upstream Kubernetes knows about its own kinds, as data: names, numbers and
// values, none of its sentences.
//
// It reads three sources and trusts none alone. The registered Go types give field names,
// protobuf numbers, pointers and patch tags; upstream's OpenAPI definitions give list types, enums and
// mandatory fields, and every field must be in both. Upstream's defaulting functions are run on many
// small objects to see what each unset field becomes; what was seen is then applied to the same
// objects again, and to random ones, and must give what upstream gives. A running kube-apiserver gives
// discovery and table columns.
//
// It deliberately does not know: validation, admission, what a resource's strategy sets or drops on
// writes, and the values of table cells.
//
// The shape of the file is described in crates/apiserver/facts/README.md. `cargo xtask facts` runs it.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/authorization/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

var groupVersions = []string{
	"v1", "admissionregistration.k8s.io/v1", "apiextensions.k8s.io/v1", "apiregistration.k8s.io/v1",
	"apps/v1", "authentication.k8s.io/v1", "authorization.k8s.io/v1", "autoscaling/v1",
	"autoscaling/v2", "batch/v1", "certificates.k8s.io/v1", "coordination.k8s.io/v1",
	"discovery.k8s.io/v1", "events.k8s.io/v1", "flowcontrol.apiserver.k8s.io/v1",
	"networking.k8s.io/v1", "node.k8s.io/v1", "policy/v1", "rbac.authorization.k8s.io/v1",
	"resource.k8s.io/v1", "scheduling.k8s.io/v1", "storage.k8s.io/v1",
}

func schemeFor(group string) *runtime.Scheme {
	switch group {
	case "apiextensions.k8s.io":
		return apiextensions.Scheme
	case "apiregistration.k8s.io":
		return aggregator.Scheme
	}
	return legacyscheme.Scheme
}

func main() {
	out := flag.String("o", "/dev/stdout", "the file to write")
	kubeconfig := flag.String("kubeconfig", "", "how to reach a kube-apiserver of the same version")
	flag.Parse()
	must(*kubeconfig != "", "-kubeconfig is missing; `cargo xtask facts` gives it")
	var gvs []schema.GroupVersion
	for _, text := range groupVersions {
		gv, err := schema.ParseGroupVersion(text)
		must(err == nil, "%s: %v", text, err)
		gvs = append(gvs, gv)
	}
	tab := newTable()
	kinds := tab.kinds(gvs)
	server := newServer(*kubeconfig, tab, kinds)
	groups, resources := server.resources()
	kindDefaults := defaults(tab, gvs, kinds)

	file := &writer{}
	file.raw("{\n\"version\": %s", text(server.version()))
	file.list("groups", len(groups), func(i int) any { return groups[i] })
	resourceSection(file, resources)
	section(file, "packages", tab.packages)
	section(file, "kinds", kinds)
	typeSection(file, tab.types)
	section(file, "kindDefaults", kindDefaults)
	file.list("rules", len(rules), func(i int) any { return rules[i] })
	file.list("code", len(codes), func(i int) any { return codes[i] })
	file.raw("\n}\n")
	must(json.Valid(file.Bytes()), "the file is not JSON")
	err := os.WriteFile(*out, file.Bytes(), 0o644)
	must(err == nil, "cannot write %s: %v", *out, err)
}

// defaults finds out what upstream's defaulting does, and then proves that what is written down does
// the same.
func defaults(
	tab *table, gvs []schema.GroupVersion, kinds map[string]map[string]string,
) map[string]map[string]any {
	d := &defaulter{tab: tab, seen: map[string]map[string]map[string]bool{}, at: map[string][2]string{}}
	round := func(each func(kind, name string, before, after map[string]any)) {
		d.each = each
		for _, gv := range gvs {
			for _, kind := range keys(kinds[gv.String()]) {
				if !strings.HasSuffix(kind, "List") {
					d.probe(gv.WithKind(kind), schemeFor(gv.Group).KnownTypes(gv)[kind])
				}
			}
		}
	}
	round(func(kind, name string, before, after map[string]any) {
		d.compare(kind, "", name, before, after)
	})
	found, rest := d.defaults()
	must(len(rest) == 0, "neither a rule nor a note speaks of these:\n%s", strings.Join(rest, "\n"))
	m := &model{tab, found}
	objects, wrong := 0, map[string]string{}
	round(func(kind, name string, before, after map[string]any) {
		objects++
		if got, want, ok := m.check(kind, name, before, after); !ok && wrong[kind] == "" {
			wrong[kind] = fmt.Sprintf("%s\n  ours %s\n  upstream's %s", kind, got, want)
		}
	})
	fmt.Fprintf(os.Stderr, "facts: %d objects defaulted as upstream does it, %d kinds wrong\n",
		objects, len(wrong))
	for _, kind := range keys(wrong) {
		fmt.Fprintln(os.Stderr, wrong[kind])
	}
	must(len(wrong) == 0, "the defaults written down are not upstream's")
	return found
}

// writer writes JSON in which a line is a thing, so that a diff of two releases can be read.
type writer struct{ bytes.Buffer }

func (w *writer) raw(format string, args ...any) { fmt.Fprintf(w, format, args...) }

func (w *writer) list(name string, length int, item func(int) any) {
	w.raw(",\n%s: [", text(name))
	for i := range length {
		w.raw("%s\n%s", comma(i), text(item(i)))
	}
	w.raw("\n]")
}

func section[V any](w *writer, name string, values map[string]V) {
	w.raw(",\n%s: {", text(name))
	for i, key := range keys(values) {
		w.raw("%s\n%s: %s", comma(i), text(key), text(values[key]))
	}
	w.raw("\n}")
}

func resourceSection(w *writer, resources map[string]map[string]Resource) {
	w.raw(",\n\"resources\": {")
	for i, gv := range keys(resources) {
		w.raw("%s\n%s: {", comma(i), text(gv))
		for i, name := range keys(resources[gv]) {
			w.raw("%s\n %s: %s", comma(i), text(name), text(resources[gv][name]))
		}
		w.raw("\n}")
	}
	w.raw("\n}")
}

func typeSection(w *writer, types map[string]*Type) {
	w.raw(",\n\"types\": {")
	for i, name := range keys(types) {
		w.raw("%s\n%s: {\"atomic\":%t,", comma(i), text(name), types[name].Atomic)
		if types[name].Unions != nil {
			w.raw("\"unions\":%s,", text(types[name].Unions))
		}
		w.raw("\"fields\":[")
		for i, field := range types[name].Fields {
			w.raw("%s\n %s", comma(i), text(field))
		}
		w.raw("]}")
	}
	w.raw("\n}")
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

func text(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	must(err == nil, "%v", err)
	return strings.TrimSpace(out.String())
}

// normal turns a value into the one that reading its JSON gives.
func normal(value any) any {
	var out any
	must(json.Unmarshal([]byte(text(value)), &out) == nil, "not JSON: %v", value)
	return out
}

func must(ok bool, format string, args ...any) {
	if !ok {
		fmt.Fprintf(os.Stderr, "facts: "+format+"\n", args...)
		os.Exit(1)
	}
}
