package manifest

import (
	"fmt"
	"strings"
	"testing"
)

// benchText makes n documents of the kinds that repositories hold, workloads first.
func benchText(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString("---\n")
		}
		switch i % 5 {
		case 0, 1:
			fmt.Fprintf(&b, `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-%d
  namespace: shop
  labels:
    app.kubernetes.io/name: web-%d
spec:
  replicas: 3
  selector:
    matchLabels: {app: web-%d}
  template:
    metadata:
      labels:
        app: web-%d
    spec:
      terminationGracePeriodSeconds: 45
      containers:
      - name: web
        image: "registry.example.com/web:v1.%d"
        command: ["/bin/server", "--port=8080"]
        ports:
        - name: http
          containerPort: 8080
          protocol: TCP
        env:
        - name: LOG_LEVEL
          value: info
        - name: POD_IP
          valueFrom:
            fieldRef:
              fieldPath: status.podIP
        readinessProbe:
          httpGet:
            path: /ready
            port: http
          periodSeconds: 5
        lifecycle:
          preStop:
            exec:
              command:
              - /bin/sh
              - -c
              - sleep 10
        resources:
          requests: {cpu: 100m, memory: 128Mi}
          limits:
            memory: 256Mi
`, i, i, i, i, i)
		case 2:
			fmt.Fprintf(&b, "apiVersion: v1\nkind: Service\nmetadata:\n  name: web-%d\n  namespace: shop\nspec:\n  type: ClusterIP\n  selector:\n    app: web-%d\n  ports:\n  - name: http\n    port: 80\n    targetPort: http\n", i, i-1)
		case 3:
			fmt.Fprintf(&b, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: conf-%d\n  namespace: shop\ndata:\n  app.conf: |\n    listen = 8080\n\n    [log]\n    level = info\n  other: a text that goes on\n    on another line\n", i)
		default:
			fmt.Fprintf(&b, "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata:\n  name: web-%d\n  namespace: shop\nspec:\n  maxUnavailable: 1\n  selector:\n    matchLabels:\n      app: web-%d\n", i, i)
		}
	}
	return b.String()
}

// BenchmarkParse reads a text of 1,000 documents: as they are mostly written, with something
// in each that only the whole YAML parser knows, and as one JSON List.
func BenchmarkParse(b *testing.B) {
	const docs = 1000
	text := benchText(docs)
	for _, c := range []struct{ name, text string }{
		{"plain", text},
		{"whole", strings.ReplaceAll(text, "kind: ", "kind: !!str ")},
		{"json", asJSON(b, text)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(c.text)))
			for b.Loop() {
				objects, err := Parse("bench.yaml", []byte(c.text))
				if err != nil || len(objects) != docs {
					b.Fatal(len(objects), err)
				}
			}
			b.ReportMetric(docs*float64(b.N)/b.Elapsed().Seconds(), "docs/s")
		})
	}
}

// asJSON writes objects as kubectl does. ConfigMaps come out without their data.
func asJSON(tb testing.TB, text string) string {
	objects, err := Parse("bench.yaml", []byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n")
	for i, o := range objects {
		if i > 0 {
			b.WriteString(",\n")
		}
		b.WriteString("        ")
		writeJSON(&b, o.Root, "\n        ")
	}
	b.WriteString("\n    ],\n    \"kind\": \"List\"\n}\n")
	return b.String()
}

func writeJSON(b *strings.Builder, v Value, newline string) {
	switch v.Kind() {
	case Map:
		sep := "{"
		for key, c := range v.Fields() {
			fmt.Fprintf(b, "%s%s    %q: ", sep, newline, key)
			writeJSON(b, c, newline+"    ")
			sep = ","
		}
		if sep == "{" {
			b.WriteString(sep)
		}
		b.WriteString(newline + "}")
	case List:
		sep := "["
		for _, c := range v.Items() {
			b.WriteString(sep + newline + "    ")
			writeJSON(b, c, newline+"    ")
			sep = ","
		}
		if sep == "[" {
			b.WriteString(sep)
		}
		b.WriteString(newline + "]")
	case String:
		fmt.Fprintf(b, "%q", v.Text())
	case Null, Absent:
		b.WriteString("null")
	default:
		b.WriteString(v.Text())
	}
}

// TestFormsAgree reads the same objects from YAML, by either way, and from JSON.
func TestFormsAgree(t *testing.T) {
	text := benchText(25)
	want := mustParse(t, text)
	for name, form := range map[string]string{"whole": strings.ReplaceAll(text, "kind: ", "kind: !!str "), "JSON": asJSON(t, text)} {
		got := mustParse(t, form)
		if len(got) != len(want) {
			t.Fatalf("%s: %d objects, want %d", name, len(got), len(want))
		}
		for i := range want {
			var a, b strings.Builder
			writeJSON(&a, want[i].Root, "\n")
			writeJSON(&b, got[i].Root, "\n")
			if a.String() != b.String() {
				t.Errorf("%s: object %d differs:\n%s\n%s", name, i, a.String(), b.String())
			}
		}
	}
}
