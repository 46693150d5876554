package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// What the person at the other end of standard input changes while the server is away: `own0` is
// deleted, `own1` labelled, and so many made after it.
const (
	before = 10
	after  = 200
)

// expiries counts how often a watch was told that its revision is forgotten, on the wire: client-go
// itself only lists again and says nothing.
type expiries struct {
	next  http.RoundTripper
	count atomic.Int64
}

func (e *expiries) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := e.next.RoundTrip(request)
	if err == nil && request.URL.Query().Get("watch") != "" {
		response.Body = &counted{ReadCloser: response.Body, count: &e.count}
	}
	return response, err
}

// counted looks for the reason of a 410 in what is read, also where two reads meet within it.
type counted struct {
	io.ReadCloser
	count *atomic.Int64
	tail  []byte
}

func (c *counted) Read(into []byte) (int, error) {
	read, err := c.ReadCloser.Read(into)
	reason := []byte(`"reason":"Expired"`)
	text := append(c.tail, into[:read]...)
	c.count.Add(int64(bytes.Count(text, reason)))
	c.tail = slices.Clone(text[max(0, len(text)-len(reason)+1):])
	return read, err
}

// expired checks that an informer whose revision was forgotten while it was away gets a 410, and
// that its handlers then hear of each change that it missed once.
func (r *run) expired(ctx context.Context, kubeconfig string) error {
	var seen expiries
	wrap := func(next http.RoundTripper) http.RoundTripper {
		seen.next = next
		return &seen
	}
	if err := r.connect(kubeconfig, wrap); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	factory := informers.NewSharedInformerFactory(r.typed, 0)
	maps := factory.Core().V1().ConfigMaps()
	if err := r.seen.watch("map", maps.Informer()); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	client := r.typed.CoreV1().ConfigMaps("default")
	create := func(name string) error {
		labels := map[string]string{"at": "1"}
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		_, err := client.Create(ctx, made, metav1.CreateOptions{})
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if !cache.WaitForCacheSync(waiting.Done(), maps.Informer().HasSynced) {
		return fmt.Errorf("the informer never synced")
	}
	// A watch that ends before it has told anything is not resumed: client-go lists again.
	if err := create(fmt.Sprintf("own%d", before-1)); err != nil {
		return fmt.Errorf("create a ConfigMap: %w", err)
	}
	expected := make([]string, 0, before+after+3)
	for at := range before {
		expected = append(expected, fmt.Sprintf("add own%d 1", at))
	}
	if err := r.seen.untilSorted("map ", expected); err != nil {
		return err
	}
	if count := seen.count.Load(); count != 0 {
		return fmt.Errorf("%d watches expired before the history was forgotten", count)
	}
	// Now it is the other's turn.
	fmt.Println("synced")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return fmt.Errorf("nobody says that the server is back: %w", err)
	}
	expected = append(expected, "delete own0 1", "update own1 2")
	for at := range after {
		expected = append(expected, fmt.Sprintf("add own%d 1", before+at))
	}
	if err := r.seen.untilSorted("map ", expected); err != nil {
		return err
	}
	if seen.count.Load() == 0 {
		return fmt.Errorf("no watch was told that its revision is forgotten")
	}
	// The new watch goes on where the new list ended.
	if err := create("own-last"); err != nil {
		return fmt.Errorf("create a ConfigMap: %w", err)
	}
	if err := r.seen.untilSorted("map ", append(expected, "add own-last 1")); err != nil {
		return err
	}
	stored, err := maps.Lister().ConfigMaps("default").List(labels.Everything())
	if err != nil {
		return err
	}
	listed, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if a, b := revisions(stored), listedRevisions(listed); !slices.Equal(a, b) {
		return fmt.Errorf("the store holds %q, the server %q", a, b)
	}
	log.Printf("%s: %d watches expired; %d events, each once", r.name(), seen.count.Load(), len(expected)+1)
	return nil
}

func revisions(maps []*corev1.ConfigMap) []string {
	var out []string
	for _, each := range maps {
		out = append(out, each.Name+" "+each.ResourceVersion)
	}
	slices.Sort(out)
	return out
}

func listedRevisions(list *corev1.ConfigMapList) []string {
	var pointers []*corev1.ConfigMap
	for at := range list.Items {
		pointers = append(pointers, &list.Items[at])
	}
	return revisions(pointers)
}
