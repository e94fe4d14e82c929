package model

import (
	"math"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

// TestResolveAsTheAPIDoes compares with the function that the controllers call.
func TestResolveAsTheAPIDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, of := rapid.IntRange(0, 300).Draw(t, "n"), rapid.IntRange(0, 5000).Draw(t, "of")
		up, percent := rapid.Bool().Draw(t, "up"), rapid.Bool().Draw(t, "percent")
		theirs := intstr.FromInt32(int32(n))
		if percent {
			theirs = intstr.FromString(strconv.Itoa(n) + "%")
		}
		want, err := intstr.GetScaledValueFromIntOrPercent(&theirs, of, up)
		if err != nil {
			t.Fatal(err)
		}
		if got := (IntOrPercent{N: int64(n), Percent: percent}).Resolve(int64(of), up); got != int64(want) {
			t.Fatalf("%s of %d, up %v: %d, the API says %d", theirs.String(), of, up, got, want)
		}
	})
	for _, n := range []int64{math.MinInt64, -7, 0, 7, math.MaxInt64} {
		for _, of := range []int64{math.MinInt64, 0, 10, math.MaxInt64} {
			down, up := IntOrPercent{N: n, Percent: true}.Resolve(of, false), IntOrPercent{N: n, Percent: true}.Resolve(of, true)
			if up-down != 0 && up-down != 1 {
				t.Errorf("%d%% of %d: %d or %d", n, of, down, up)
			}
		}
	}
}

func TestRollingUpdate(t *testing.T) {
	percent := func(n int64) IntOrPercent { return IntOrPercent{N: n, Percent: true} }
	number := func(n int64) IntOrPercent { return IntOrPercent{N: n} }
	tests := []struct {
		kind, strategy               string
		maxSurge, maxUnavailable     IntOrPercent
		replicas, surge, unavailable int64
	}{
		{"Deployment", "RollingUpdate", percent(25), percent(25), 1, 1, 0},
		{"Deployment", "RollingUpdate", percent(25), percent(25), 3, 1, 0},
		{"Deployment", "RollingUpdate", percent(25), percent(25), 10, 3, 2},
		{"Deployment", "RollingUpdate", number(0), percent(25), 3, 0, 1},
		{"Deployment", "RollingUpdate", number(0), number(0), 3, 0, 1},
		{"Deployment", "RollingUpdate", number(1), number(0), 3, 1, 0},
		{"Deployment", "Recreate", number(0), number(0), 3, 0, 0},
		{"Rollout", "Canary", percent(25), percent(25), 10, 3, 2},
		{"Rollout", "BlueGreen", number(0), percent(25), 10, 0, 0},
		{"StatefulSet", "RollingUpdate", number(0), number(1), 3, 0, 1},
		{"StatefulSet", "RollingUpdate", number(0), percent(10), 3, 0, 1},
		{"StatefulSet", "RollingUpdate", number(0), percent(50), 3, 0, 1},
		{"StatefulSet", "OnDelete", number(0), number(1), 3, 0, 0},
		{"DaemonSet", "RollingUpdate", number(0), percent(10), 3, 0, 1},
		{"DaemonSet", "RollingUpdate", number(0), percent(50), 3, 0, 2},
		{"DaemonSet", "RollingUpdate", percent(10), number(0), 3, 1, 0},
		{"DaemonSet", "RollingUpdate", number(0), number(0), 3, 0, 1},
		{"ReplicaSet", "", number(0), number(0), 3, 0, 0},
	}
	for _, test := range tests {
		w := &Workload{Object: &manifest.Object{Kind: test.kind}, Strategy: test.strategy, MaxSurge: test.maxSurge, MaxUnavailable: test.maxUnavailable}
		if surge, unavailable := w.RollingUpdate(test.replicas); surge != test.surge || unavailable != test.unavailable {
			t.Errorf("%+v: %d more, %d fewer", test, surge, unavailable)
		}
	}
}

// TestSelectorsAsTheAPIDoes compares with the selectors of the API machinery.
func TestSelectorsAsTheAPIDoes(t *testing.T) {
	keys, values := rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"1", "2", "3"})
	rapid.Check(t, func(t *rapid.T) {
		s := Selector{Set: true, Labels: rapid.MapOfN(keys, values, 0, 2).Draw(t, "labels")}
		theirs := &metav1.LabelSelector{MatchLabels: s.Labels}
		for range rapid.IntRange(0, 2).Draw(t, "expressions") {
			r := Requirement{Key: keys.Draw(t, "key"), Operator: rapid.SampledFrom([]string{"In", "NotIn", "Exists", "DoesNotExist"}).Draw(t, "operator")}
			if r.Operator == "In" || r.Operator == "NotIn" {
				r.Values = rapid.SliceOfN(values, 1, 2).Draw(t, "values")
			}
			s.Expressions = append(s.Expressions, r)
			theirs.MatchExpressions = append(theirs.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Operator), Values: r.Values,
			})
		}
		on := rapid.MapOfN(keys, values, 0, 3).Draw(t, "on")
		selector, err := metav1.LabelSelectorAsSelector(theirs)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := s.Matches(on), selector.Matches(labels.Set(on)); got != want {
			t.Fatalf("%+v on %v: %v, the API says %v", s, on, got, want)
		}
	})
	if (Selector{}).Matches(map[string]string{"a": "1"}) {
		t.Error("no selector matches something")
	}
	if !(Selector{Set: true}).Matches(nil) {
		t.Error("an empty selector does not match everything")
	}
	if (Selector{Set: true, Expressions: []Requirement{{Key: "a", Operator: "Near"}}}).Matches(map[string]string{"a": "1"}) {
		t.Error("an operator that does not exist matches")
	}
}
