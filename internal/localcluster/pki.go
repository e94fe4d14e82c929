package localcluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// certLife is far longer than any local cluster lives.
const certLife = 10 * 365 * 24 * time.Hour

// identity is one key pair of the cluster; File is its name below pki/.
type identity struct {
	File   string
	User   string // common name
	Groups []string
	Addrs  []netip.Addr
	Names  []string
}

// identities lists who exists in a cluster. The users are those to which
// Kubernetes binds its default roles.
func identities(p plan) []identity {
	cp := p.Nodes[0]
	loopback := netip.MustParseAddr("127.0.0.1")
	ids := []identity{
		{File: "apiserver", User: "kube-apiserver",
			Addrs: []netip.Addr{cp.Addr, p.apiService(), loopback},
			Names: []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost", cp.Name}},
		{File: "apiserver-kubelet-client", User: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}},
		{File: "admin", User: "kubernetes-admin", Groups: []string{"system:masters"}},
		{File: "controller-manager", User: "system:kube-controller-manager"},
		{File: "scheduler", User: "system:kube-scheduler"},
		{File: "proxy", User: "system:kube-proxy"},
	}
	for _, n := range p.Nodes {
		ids = append(ids, identity{File: "kubelet-" + n.Short, User: "system:node:" + n.Name,
			Groups: []string{"system:nodes"}, Addrs: []netip.Addr{n.Addr}, Names: []string{n.Name}})
	}
	return ids
}

// writePKI makes the cluster's authority, every identity and the key that
// signs ServiceAccount tokens.
func writePKI(p plan, now time.Time) error {
	if err := os.MkdirAll(filepath.Join(p.Dir, "pki"), 0o700); err != nil {
		return fmt.Errorf("make the folder of the keys: %w", err)
	}
	ca, err := newAuthority(p.Name, now)
	if err != nil {
		return err
	}
	if err := writePair(p, "ca", ca.der, ca.key); err != nil {
		return err
	}
	for _, id := range identities(p) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return fmt.Errorf("make the key of %s: %w", id.User, err)
		}
		der, err := ca.sign(id, &key.PublicKey, now)
		if err != nil {
			return err
		}
		if err := writePair(p, id.File, der, key); err != nil {
			return err
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the key of ServiceAccount tokens: %w", err)
	}
	return writeKey(p.pki("sa.key"), key)
}

type authority struct {
	cert *x509.Certificate
	der  []byte
	key  *ecdsa.PrivateKey
}

func newAuthority(name string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of the authority: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "drainproof local cluster " + name},
		NotBefore:    now.Add(-time.Hour), NotAfter: now.Add(certLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:     true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("sign the authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	return &authority{cert: cert, der: der, key: key}, nil
}

func (a *authority) sign(id identity, pub *ecdsa.PublicKey, now time.Time) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("number the certificate of %s: %w", id.User, err)
	}
	t := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: id.User, Organization: id.Groups},
		NotBefore:    now.Add(-time.Hour), NotAfter: now.Add(certLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		DNSNames:    id.Names,
	}
	for _, a := range id.Addrs {
		t.IPAddresses = append(t.IPAddresses, net.IP(a.AsSlice()))
	}
	if len(id.Addrs) > 0 {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, pub, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", id.User, err)
	}
	return der, nil
}

func writePair(p plan, file string, der []byte, key *ecdsa.PrivateKey) error {
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := writeFile(p.pki(file+".crt"), block, 0o600); err != nil {
		return err
	}
	return writeKey(p.pki(file+".key"), key)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return writeFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

// writeFile is for files that only a finished step makes meaningful; they need no fsync.
func writeFile(path string, data []byte, mode os.FileMode) error {
	if err := os.WriteFile(path, data, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
