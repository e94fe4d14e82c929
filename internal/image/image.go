// Package image makes a container image of one static binary, without Docker:
// the product's own image, that the probe and the worker run from.
//
// It must not know clusters or trials; it ends at a file or a registry.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/drainproof/drainproof/internal/fault"
)

// Repository is where the product's image would live; no node ever pulls it
// from there unless somebody has pushed it.
const Repository = "drainproof.dev/drainproof"

// User is whom the image runs as: not root, so that Pod Security restricted admits it.
const User = "65532:65532"

// Spec is one image.
type Spec struct {
	// Binary is the path of a static Linux executable on this machine.
	Binary string
	// Arch is a Go architecture (amd64, arm64); empty means the binary's own.
	Arch string
	// Name is the binary's name in the image's root and the image's title; drainproof when empty.
	Name string
	// Version goes into the image's labels.
	Version string
	// Args follow the binary in the entrypoint.
	Args []string
}

// Build makes the image in memory. The same binary and spec give the same
// digest, on any machine. Errors are faults.
func Build(s Spec) (v1.Image, error) {
	if s.Name == "" {
		s.Name = "drainproof"
	}
	arch, err := checkStatic(s.Binary, s.Arch)
	if err != nil {
		return nil, err
	}
	blob, err := packLayer(s.Binary, s.Name)
	if err != nil {
		return nil, fault.Measuref(err, "check that the file can be read", "packing %s into an image", s.Binary)
	}
	img, err := assemble(s, arch, blob)
	if err != nil {
		return nil, fault.Measuref(err, "", "making an image of %s", s.Binary)
	}
	return img, nil
}

func assemble(s Spec, arch string, blob []byte) (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(blob)), nil
	})
	if err != nil {
		return nil, err
	}
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		return nil, err
	}
	if img, err = mutate.AppendLayers(img, layer); err != nil {
		return nil, err
	}
	img, err = mutate.Config(img, v1.Config{
		Entrypoint: append([]string{path.Join("/", s.Name)}, s.Args...),
		User:       User,
		WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":   s.Name,
			"org.opencontainers.image.version": s.Version,
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.CreatedAt(img, v1.Time{Time: epoch})
}

// epoch is every time in the image, for reproducible digests.
var epoch = time.Unix(0, 0).UTC()

// packLayer is the compressed layer. It is held in memory: it is small, and is read several times.
func packLayer(binary, name string) ([]byte, error) {
	f, err := os.Open(binary)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	gz, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	tw := tar.NewWriter(gz)
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: 0o755,
		ModTime: epoch, Format: tar.FormatPAX,
	}
	if err := tw.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := io.Copy(tw, f); err != nil {
		return nil, err
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	if err := gz.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

var notInTag = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// Reference names the image of one binary: its version and the start of its
// SHA-256, so that a node that keeps images cannot serve an older binary under the same name.
func Reference(version, binary string) (string, error) {
	f, err := os.Open(binary)
	if err != nil {
		return "", fault.Usagef("give the path of a Linux build of drainproof", "reading %s: %v", binary, err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return "", fault.Usagef("give the path of a Linux build of drainproof", "%s is not a file", binary)
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fault.Measuref(err, "check the disk", "reading %s", binary)
	}
	if version == "" {
		version = "dev"
	}
	tag := notInTag.ReplaceAllString(version, "-")
	tag = tag[:min(len(tag), 100)] // a tag holds 128 characters
	return fmt.Sprintf("%s:%s-%s", Repository, tag, hex.EncodeToString(h.Sum(nil))[:12]), nil
}
