package fix

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/drainproof/drainproof/internal/audit/manifest"
)

func TestStepsOf(t *testing.T) {
	for path, want := range map[string][]step{
		"":                           nil,
		"spec.replicas":              {{key: "spec"}, {key: "replicas"}},
		"a[0][12].b":                 {{key: "a"}, {index: 0}, {index: 12}, {key: "b"}},
		`metadata.labels["a.b/c"].d`: {{key: "metadata"}, {key: "labels"}, {key: "a.b/c"}, {key: "d"}},
		`metadata.labels["a\"]"]`:    {{key: "metadata"}, {key: "labels"}, {key: `a"]`}},
	} {
		got, err := stepsOf(path)
		if err != nil {
			t.Errorf("%q: %v", path, err)
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(step{})); d != "" {
			t.Errorf("%q: -want +got:\n%s", path, d)
		}
	}
	for _, path := range []string{"a..b", "a[", "a[-1]", "a[x]", `a["b`, "."} {
		if got, err := stepsOf(path); err == nil {
			t.Errorf("%q is taken for %v", path, got)
		}
	}
}

// TestTreesAreReadAsTheyAreWritten: block and flow style, with any text in it, mean the tree.
func TestTreesAreReadAsTheyAreWritten(t *testing.T) {
	leaf := rapid.OneOf(
		rapid.Map(rapid.String(), word),
		rapid.Map(rapid.SampledFrom([]string{"yes", "null", "~", "1", "1e3", "0x1", "-", "- a", "a: b", "a #b", "", " a", "a ", "{}", "*a", "é", "\u2028", "0b1", ".5", "a\nb"}), word),
		rapid.Map(rapid.Int64(), whole),
		rapid.Just(nothing()),
		rapid.Map(rapid.SliceOfN(rapid.StringMatching(`[ -~]{0,6}`), 0, 3), func(ss []string) tree { return words(ss...) }),
	)
	key := rapid.StringMatching(`[a-z./-]{1,8}|yes|"a: b"|\*`)
	maps := func(below *rapid.Generator[tree]) *rapid.Generator[tree] {
		return rapid.Custom(func(t *rapid.T) tree {
			m := mapping()
			for _, k := range rapid.SliceOfNDistinct(key, 0, 4, rapid.ID).Draw(t, "keys") {
				m.put(k, below.Draw(t, k))
			}
			return m
		})
	}
	inner := maps(leaf)
	lists := rapid.Map(rapid.SliceOfN(inner.Filter(func(m tree) bool { return len(m.keys) > 0 }), 1, 3), func(ms []tree) tree { return list(ms...) })
	rapid.Check(t, func(t *rapid.T) {
		object := mapping(field{"apiVersion", word("apps/v1")}, field{"kind", word("Deployment")}, field{"spec", maps(rapid.OneOf(leaf, inner, lists)).Draw(t, "spec")})
		step := rapid.IntRange(1, 4).Draw(t, "step")
		for _, text := range []string{object.block(0, step, "\n"), object.block(0, step, "\r\n"), object.flow(false), object.flow(true)} {
			read, err := manifest.Parse("x.yaml", []byte(text))
			if err != nil || len(read) != 1 {
				t.Fatalf("%v:\n%s", err, text)
			}
			if where, bad := object.differs(treeOf(read[0].Root), ""); bad {
				t.Fatalf("%s is read differently:\n%s", where, text)
			}
		}
	})
}

func TestDiffers(t *testing.T) {
	a := mapping(field{"a", whole(1)}, field{"b", list(whole(1), mapping(field{"c", word("x")}))})
	for where, b := range map[string]tree{
		"a":      mapping(field{"a", word("1")}, field{"b", a.items[1]}),
		"b[1].c": mapping(field{"b", list(whole(1), mapping(field{"c", word("y")}))}, field{"a", whole(1)}),
		"b":      mapping(field{"a", whole(1)}, field{"b", list(whole(1))}),
	} {
		if got, bad := a.differs(b, ""); !bad || got != where {
			t.Errorf("differs at %q (%v), want %q", got, bad, where)
		}
	}
	if where, bad := a.differs(mapping(field{"b", a.items[1]}, field{"a", whole(1)}), ""); bad {
		t.Errorf("the order of fields matters at %s", where)
	}
}
