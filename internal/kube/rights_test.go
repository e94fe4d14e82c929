package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/drainproof/drainproof/internal/testkit"
	"github.com/drainproof/drainproof/internal/trigger"
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
		case r.Need == NeedAgents:
			where = NamespaceAgents
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
	page := testkit.ReadPage(t, "../../docs/permissions.md")
	page.Put(t, tableBegin, tableEnd, table())
	page.Hold(t)
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

func TestMissingForTestAsksByKindAndTrigger(t *testing.T) {
	tests := []struct {
		ref        Ref
		trigger    string
		ask, spare []string
	}{
		{Ref{"Deployment", "shop", "web"}, "rollout", []string{"patch deployments.apps@shop", "list services@shop", "list nodes@"}, []string{"patch statefulsets.apps@shop", "delete pods@shop", "create namespaces@"}},
		{Ref{"StatefulSet", "shop", "db"}, "scale", []string{"patch statefulsets/scale.apps@shop"}, []string{"patch deployments/scale.apps@shop"}},
		{Ref{"DaemonSet", "shop", "agent"}, "delete", []string{"delete pods@shop"}, []string{"create pods@shop"}},
		{Ref{"Pod", "shop", "one"}, "delete", []string{"create pods@shop", "patch pods@shop"}, []string{"get deployments.apps@shop"}},
		{Ref{"Deployment", "shop", "web"}, "drain", []string{"patch nodes@", "create pods/eviction@", "list pods@", "list pods@shop"}, []string{"create pods@shop"}},
		{Ref{"Deployment", "shop", "web"}, "kill", []string{"patch namespaces@", "create pods/exec@"}, []string{"create pods/eviction@"}},
		{Ref{"Deployment", "shop", "web"}, "none", []string{"get deployments.apps@shop"}, []string{"delete pods@shop"}},
	}
	for _, tt := range tests {
		client := fake.NewClientset()
		var asked []string
		client.PrependReactor("create", "selfsubjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
			review := a.(ktesting.CreateAction).GetObject().(*authv1.SelfSubjectAccessReview)
			at := review.Spec.ResourceAttributes
			asked = append(asked, at.Verb+" "+Right{Group: at.Group, Resource: at.Resource, Subresource: at.Subresource}.Name()+"@"+at.Namespace)
			return true, review, nil // nothing is allowed
		})
		c := &Cluster{client: client}
		missing, err := c.MissingForTest(t.Context(), tt.ref, tt.trigger)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.ask {
			name, _, _ := strings.Cut(want, "@")
			if !slices.Contains(asked, want) || !slices.Contains(missing, name) {
				t.Errorf("%s of %s: never asked for %q", tt.trigger, tt.ref, want)
			}
		}
		for _, not := range tt.spare {
			if slices.Contains(asked, not) {
				t.Errorf("%s of %s: asked for %q", tt.trigger, tt.ref, not)
			}
		}
		asked = nil
		if _, err := c.MissingForWorkers(t.Context()); err != nil || !slices.Contains(asked, "create jobs.batch@") || slices.Contains(asked, "list services@") {
			t.Errorf("for workers: %v, asked %q", err, asked)
		}
	}
}

// Every trigger that changes something by itself has rights of its own, under the name that asks for them.
func TestEveryTriggerOfATestHasItsRights(t *testing.T) {
	needs := map[Need]bool{}
	for _, r := range Rights() {
		needs[r.Need] = true
	}
	for _, k := range trigger.KindsForTest() {
		if k != trigger.None && k != trigger.Rollout && !needs[Need("test --trigger "+string(k))] {
			t.Errorf("%s: no rights", k)
		}
	}
}
