package fix

import (
	"fmt"
	"strings"
	"testing"
)

const graceText = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: %s
      containers:
        - name: web
          image: nginx:1.29
          ports: [{containerPort: 80}]
          readinessProbe: {httpGet: {path: /, port: 80}}
          lifecycle: {preStop: %s}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  selector: {app: web}
  ports: [{port: 80}]
`

// TestGraceIsNeverLowered: nor where it is not understood.
func TestGraceIsNeverLowered(t *testing.T) {
	for _, grace := range []string{"2147483647", "2147483648", "3000000000", "9223372036854775807", "99999999999999999999", "1e3", "60.5", "soon", "[60]", "{a: 1}"} {
		text := fmt.Sprintf(graceText, grace, `{exec: {command: [sleep, "1"]}}`)
		a := audit(t, "web.yaml", []byte(text))
		plan, unread := a.plan(), 0
		for _, c := range plan {
			if c.Skipped == "" && strings.HasSuffix(c.Path, "terminationGracePeriodSeconds") {
				t.Errorf("%s: %s", grace, c.What)
			}
			if strings.Contains(c.Skipped, "which is no number of seconds") {
				unread++
			}
		}
		if read := len(grace) == 10 || grace == "9223372036854775807"; read == (unread > 0) {
			t.Errorf("%s: %d findings are skipped because it cannot be read", grace, unread)
		}
		files, err := Apply(map[string][]byte{"web.yaml": []byte(text)}, plan)
		if err != nil {
			t.Fatal(grace, err)
		}
		want := "terminationGracePeriodSeconds: " + grace
		if got := string(cmpOr(files["web.yaml"], []byte(text))); !strings.Contains(got, want+"\n") {
			t.Errorf("%s is not there any more:\n%s", want, got)
		}
	}
}

// TestRestIsRoundedUp: a hook of half a second leaves the application 59.5 s, which whole seconds must hold.
func TestRestIsRoundedUp(t *testing.T) {
	for hook, want := range map[string]string{"0.5": "65 s", "1": "64 s", "1.5": "64 s"} {
		var whats []string
		for _, c := range audit(t, "web.yaml", fmt.Appendf(nil, graceText, "60", `{exec: {command: [sleep, "`+hook+`"]}}`)).plan() {
			if strings.HasSuffix(c.Path, "terminationGracePeriodSeconds") {
				whats = append(whats, c.What)
			}
		}
		if len(whats) != 1 || !strings.Contains(whats[0], "from 60 s to "+want) {
			t.Errorf("after a hook of %s s: %q, want %s", hook, whats, want)
		}
	}
}
