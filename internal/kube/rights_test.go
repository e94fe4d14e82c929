package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/drainproof/drainproof/internal/testkit"
)

const (
	tableBegin = "<!-- rights: kept by internal/kube, go test ./internal/kube -update -->\n"
	tableEnd   = "<!-- end of rights -->"
)

// table is the list of rights as the documentation shows it.
func table() string {
	var b strings.Builder
	b.WriteString("| Needed for | Object | Verbs | Where | Why |\n|---|---|---|---|---|\n")
	for _, r := range Rights() {
		where := "the trial's namespace"
		switch {
		case r.Need == NeedOptional:
			where = "kube-system"
		case r.Cluster:
			where = "the cluster"
		case strings.HasPrefix(string(r.Need), "test --trigger"), r.Need == NeedTest:
			where = "the workload's namespace"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s |\n", r.Need, r.Name(), strings.Join(r.Verbs, ", "), where, r.Why)
	}
	return b.String()
}

func TestPermissionsAreDocumented(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "permissions.md")
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(doc), tableBegin)
	old, tail, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks of the table", path)
	}
	if testkit.Updating() {
		if err := os.WriteFile(path, []byte(head+tableBegin+table()+tableEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(old, table()); d != "" {
		t.Errorf("%s differs from the code; run the test with -update (-document +code):\n%s", path, d)
	}
}

func TestMissingAsksForWhatTheTriggerNeeds(t *testing.T) {
	client := fake.NewClientset()
	var asked []string
	client.PrependReactor("create", "selfsubjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		review := a.(ktesting.CreateAction).GetObject().(*authv1.SelfSubjectAccessReview)
		at := review.Spec.ResourceAttributes
		name := at.Verb + " " + Right{Group: at.Group, Resource: at.Resource, Subresource: at.Subresource}.Name()
		asked = append(asked, name+"@"+at.Namespace)
		review.Status.Allowed = name != "create pods/exec" && name != "patch deployments/scale.apps"
		return true, review, nil
	})
	c := &Cluster{client: client}
	got, err := c.Missing(t.Context(), "fresh", "scale")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"create pods/exec", "patch deployments/scale.apps"}, got); d != "" {
		t.Error(d)
	}
	for _, want := range []string{"create namespaces@", "watch pods@fresh", "list nodes@"} {
		if !slices.Contains(asked, want) {
			t.Errorf("never asked for %q", want)
		}
	}
	if slices.Contains(asked, "create pods/eviction@fresh") {
		t.Error("asked for eviction, which scale does not need")
	}
}
