// Command clients is a program as people write them on client-go: shared informers over built-in
// kinds and over a custom one. It changes objects and ends well only if its informers saw each
// change once and in order; it ends with 1 and says what was missing otherwise. With --expired it
// does so across a loss of the server's history.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/features"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const within = 60 * time.Second

var widgets = schema.GroupVersionResource{Group: "clients.test", Version: "v1", Resource: "widgets"}

// seen is what the informers of one run told, in their order.
type seen struct {
	mutex sync.Mutex
	lines []string
}

func (s *seen) add(format string, arguments ...any) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, arguments...))
}

func (s *seen) of(prefix string) []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var out []string
	for _, line := range s.lines {
		if strings.HasPrefix(line, prefix) {
			out = append(out, strings.TrimPrefix(line, prefix))
		}
	}
	return out
}

// until waits for exactly these lines of one informer.
func (s *seen) until(prefix string, expected ...string) error {
	began := time.Now()
	for !slices.Equal(s.of(prefix), expected) {
		if time.Since(began) > within {
			return fmt.Errorf("%s: saw %q, not %q", prefix, s.of(prefix), expected)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

// untilSorted waits for these lines of one informer, each as often as it stands here, in any order:
// a new list tells what it brings in none.
func (s *seen) untilSorted(prefix string, expected []string) error {
	expected = slices.Sorted(slices.Values(expected))
	began := time.Now()
	for {
		seen := slices.Sorted(slices.Values(s.of(prefix)))
		if slices.Equal(seen, expected) {
			return nil
		}
		if time.Since(began) > within {
			return fmt.Errorf("%s: saw %q, not %q", prefix, seen, expected)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// watch writes down what an informer says of the objects whose names begin with `own`.
func (s *seen) watch(kind string, informer cache.SharedIndexInformer) error {
	tell := func(verb string, object any) {
		if last, is := object.(cache.DeletedFinalStateUnknown); is {
			object = last.Obj
		}
		meta := object.(metav1.Object)
		if strings.HasPrefix(meta.GetName(), "own") {
			s.add("%s %s %s %s", kind, verb, meta.GetName(), meta.GetLabels()["at"])
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { tell("add", object) },
		UpdateFunc: func(old, object any) {
			// A new list gives the same objects again.
			if old.(metav1.Object).GetResourceVersion() != object.(metav1.Object).GetResourceVersion() {
				tell("update", object)
			}
		},
		DeleteFunc: func(object any) { tell("delete", object) },
	})
	return err
}

// traffic counts what the informers ask and what they get.
type traffic struct {
	next      http.RoundTripper
	streaming atomic.Int64
	lists     atomic.Int64
	protobuf  atomic.Int64
	json      atomic.Int64
}

func (t *traffic) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	configMaps := strings.HasSuffix(request.URL.Path, "/configmaps")
	watching := query.Get("watch") != ""
	initial := query.Get("sendInitialEvents") == "true"
	if request.Method == http.MethodGet && configMaps {
		switch {
		case initial:
			t.streaming.Add(1)
		case !watching:
			t.lists.Add(1)
		}
	}
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	if strings.Contains(response.Header.Get("Content-Type"), "protobuf") {
		t.protobuf.Add(1)
	} else {
		t.json.Add(1)
	}
	return response, err
}

type run struct {
	watchList, protobuf bool
	seen                seen
	traffic             traffic
	typed               *kubernetes.Clientset
	dynamic             *dynamic.DynamicClient
}

func (r *run) name() string {
	return fmt.Sprintf("watch-list=%t protobuf=%t", r.watchList, r.protobuf)
}

func (r *run) connect(kubeconfig string, wrap func(http.RoundTripper) http.RoundTripper) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 500, 500
	if r.protobuf {
		config.ContentType = "application/vnd.kubernetes.protobuf"
		// Nothing else, or our server would rather send the JSON that it keeps.
		config.AcceptContentTypes = "application/vnd.kubernetes.protobuf"
	}
	config.Wrap(wrap)
	if r.typed, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	// Speaks JSON, whatever the configuration says.
	r.dynamic, err = dynamic.NewForConfig(rest.CopyConfig(config))
	return err
}

func (r *run) check(ctx context.Context, kubeconfig string) error {
	wrap := func(next http.RoundTripper) http.RoundTripper {
		r.traffic.next = next
		return &r.traffic
	}
	if err := r.connect(kubeconfig, wrap); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	factory := informers.NewSharedInformerFactory(r.typed, 0)
	custom := dynamicinformer.NewDynamicSharedInformerFactory(r.dynamic, 0)
	for kind, informer := range map[string]cache.SharedIndexInformer{
		"pod":    factory.Core().V1().Pods().Informer(),
		"map":    factory.Core().V1().ConfigMaps().Informer(),
		"widget": custom.ForResource(widgets).Informer(),
	} {
		if err := r.seen.watch(kind, informer); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	custom.Start(ctx.Done())
	waiting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for kind, synced := range factory.WaitForCacheSync(waiting.Done()) {
		if !synced {
			return fmt.Errorf("the informer of %s never synced", kind)
		}
	}
	for kind, synced := range custom.WaitForCacheSync(waiting.Done()) {
		if !synced {
			return fmt.Errorf("the informer of %s never synced", kind)
		}
	}
	if err := r.change(ctx); err != nil {
		return err
	}
	return r.asked()
}

// asked checks that the informers used the way that this run is about.
func (r *run) asked() error {
	streaming, lists := r.traffic.streaming.Load(), r.traffic.lists.Load()
	if r.watchList != (streaming > 0) || r.watchList == (lists > 0) {
		return fmt.Errorf("%d streaming lists and %d lists", streaming, lists)
	}
	if r.protobuf != (r.traffic.protobuf.Load() > 0) {
		return fmt.Errorf("%d answers in protobuf", r.traffic.protobuf.Load())
	}
	log.Printf("%s: %d streaming lists, %d lists, %d answers in protobuf, %d in JSON",
		r.name(), streaming, lists, r.traffic.protobuf.Load(), r.traffic.json.Load())
	return nil
}

func (r *run) change(ctx context.Context) error {
	patch := []byte(`{"metadata":{"labels":{"at":"2"}}}`)
	zero := int64(0)
	now := metav1.DeleteOptions{GracePeriodSeconds: &zero}
	named := metav1.ObjectMeta{Name: "own", Labels: map[string]string{"at": "1"}}
	containers := []corev1.Container{{Name: "c", Image: "registry.example/c"}}
	pods := r.typed.CoreV1().Pods("default")
	maps := r.typed.CoreV1().ConfigMaps("default")
	custom := r.dynamic.Resource(widgets).Namespace("default")

	pod := &corev1.Pod{ObjectMeta: named, Spec: corev1.PodSpec{Containers: containers}}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create a pod: %w", err)
	}
	configMap := &corev1.ConfigMap{ObjectMeta: named, BinaryData: map[string][]byte{"b": {0, 255}}}
	made, err := maps.Create(ctx, configMap, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create a ConfigMap: %w", err)
	}
	if !slices.Equal(made.BinaryData["b"], []byte{0, 255}) {
		return fmt.Errorf("bytes came back as %v", made.BinaryData["b"])
	}
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "clients.test/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "own", "labels": map[string]any{"at": "1"}},
		"spec":     map[string]any{"size": int64(1 << 53)},
	}}
	if _, err := custom.Create(ctx, widget, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create a Widget: %w", err)
	}
	for _, kind := range []string{"pod ", "map ", "widget "} {
		if err := r.seen.until(kind, "add own 1"); err != nil {
			return err
		}
	}
	if _, err := pods.Patch(ctx, "own", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch a pod: %w", err)
	}
	made.Labels["at"] = "2"
	if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update a ConfigMap: %w", err)
	}
	if _, err := custom.Patch(ctx, "own", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch a Widget: %w", err)
	}
	for _, kind := range []string{"pod ", "map ", "widget "} {
		if err := r.seen.until(kind, "add own 1", "update own 2"); err != nil {
			return err
		}
	}
	if err := pods.Delete(ctx, "own", now); err != nil {
		return fmt.Errorf("delete a pod: %w", err)
	}
	if err := maps.Delete(ctx, "own", now); err != nil {
		return fmt.Errorf("delete a ConfigMap: %w", err)
	}
	if err := custom.Delete(ctx, "own", now); err != nil {
		return fmt.Errorf("delete a Widget: %w", err)
	}
	// A pod is seen to end before it is gone.
	if err := r.seen.until("pod ", "add own 1", "update own 2", "update own 2", "delete own 2"); err != nil {
		return err
	}
	for _, kind := range []string{"map ", "widget "} {
		if err := r.seen.until(kind, "add own 1", "update own 2", "delete own 2"); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	log.SetFlags(0)
	kubeconfig := flag.String("kubeconfig", "", "of an administrator")
	watchList := flag.Bool("watch-list", false, "stream the initial list")
	expired := flag.Bool("expired", false, "outlive a server that forgets its history")
	protobuf := flag.Bool("protobuf", false, "take typed objects in protobuf alone")
	flag.Parse()
	gates := features.FeatureGates()
	setter, able := gates.(interface {
		Set(features.Feature, bool) error
	})
	if !able {
		log.Fatal("client-go's feature gates cannot be set")
	}
	if err := setter.Set(features.WatchListClient, *watchList); err != nil {
		log.Fatal(err)
	}
	one := &run{watchList: *watchList, protobuf: *protobuf}
	check := one.check
	if *expired {
		check = one.expired
	}
	if err := check(context.Background(), *kubeconfig); err != nil {
		log.Printf("%s: %v", one.name(), err)
		os.Exit(1)
	}
}
