package localcluster

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"slices"
	"testing"
	"time"
)

func TestPKI(t *testing.T) {
	p := testPlan(2)
	p.Dir = t.TempDir()
	now := time.Now()
	if err := writePKI(p, now); err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(p.pki("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	check := func(file, user string, groups, servesFor []string) {
		t.Helper()
		pair, err := tls.LoadX509KeyPair(p.pki(file+".crt"), p.pki(file+".key"))
		if err != nil {
			t.Fatal(err)
		}
		c := pair.Leaf
		if c.Subject.CommonName != user || !slices.Equal(c.Subject.Organization, groups) {
			t.Errorf("%s is %s of %v", file, c.Subject.CommonName, c.Subject.Organization)
		}
		usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		if len(servesFor) > 0 {
			usages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}
		for _, u := range usages {
			if _, err := c.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{u}, CurrentTime: now.Add(5 * 365 * 24 * time.Hour)}); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		for _, host := range servesFor {
			if err := c.VerifyHostname(host); err != nil {
				t.Error(err)
			}
		}
	}
	check("apiserver", "kube-apiserver", nil, []string{"198.18.32.2", "198.18.36.1", "127.0.0.1", "kubernetes.default.svc"})
	check("admin", "kubernetes-admin", []string{"system:masters"}, nil)
	check("controller-manager", "system:kube-controller-manager", nil, nil)
	check("scheduler", "system:kube-scheduler", nil, nil)
	check("proxy", "system:kube-proxy", nil, nil)
	check("kubelet-worker2", "system:node:blue-worker2", []string{"system:nodes"}, []string{"198.18.32.4", "blue-worker2"})
	for _, file := range []string{"ca.key", "sa.key", "admin.key"} {
		if st, err := os.Stat(p.pki(file)); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, st.Mode(), err)
		}
	}
}
