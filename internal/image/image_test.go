package image

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/drainproof/drainproof/internal/fault"
)

// executable writes the smallest file that is an ELF executable for debug/elf.
func executable(t *testing.T, machine elf.Machine, kind elf.Type, progs ...elf.ProgType) string {
	t.Helper()
	var b bytes.Buffer
	h := elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(kind), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: uint16(len(progs)),
	}
	if err := binary.Write(&b, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	for _, p := range progs {
		if err := binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(p)}); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "bin")
	if err := os.WriteFile(path, b.Bytes(), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func static(t *testing.T) string { return executable(t, elf.EM_X86_64, elf.ET_EXEC, elf.PT_LOAD) }

func build(t *testing.T, s Spec) v1.Image {
	t.Helper()
	img, err := Build(s)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func digest(t *testing.T, img v1.Image) string {
	t.Helper()
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

func TestImageHoldsTheBinaryAndNothingElse(t *testing.T) {
	bin := static(t)
	img := build(t, Spec{Binary: bin, Version: "v0.1.0", Args: []string{"probe"}})
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{
		Entrypoint: []string{"/drainproof", "probe"}, User: "65532:65532", WorkingDir: "/",
		Labels: map[string]string{"org.opencontainers.image.title": "drainproof", "org.opencontainers.image.version": "v0.1.0"},
	}
	if d := cmp.Diff(want, cfg.Config); d != "" {
		t.Errorf("config (-want +got):\n%s", d)
	}
	if cfg.OS != "linux" || cfg.Architecture != "amd64" {
		t.Errorf("platform %s/%s, want linux/amd64", cfg.OS, cfg.Architecture)
	}
	content, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	files := mutate.Extract(img)
	defer files.Close()
	tr := tar.NewReader(files)
	h, err := tr.Next()
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(tr)
	if err != nil {
		t.Fatal(err)
	}
	if h.Name != "drainproof" || h.FileInfo().Mode().Perm() != 0o755 || !bytes.Equal(got, content) {
		t.Errorf("entry %s %v of %d bytes, want drainproof 0755 of %d bytes", h.Name, h.FileInfo().Mode(), len(got), len(content))
	}
	if _, err := tr.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("a second entry: %v", err)
	}
}

func TestSameBinarySameDigest(t *testing.T) {
	a, b := static(t), static(t)
	if err := os.Chmod(b, 0o600); err != nil { // neither the file's mode nor its times count
		t.Fatal(err)
	}
	s := Spec{Binary: a, Version: "v1"}
	first := digest(t, build(t, s))
	s.Binary = b
	if second := digest(t, build(t, s)); second != first {
		t.Errorf("two builds of the same bytes: %s and %s", first, second)
	}
	s.Version = "v2"
	if other := digest(t, build(t, s)); other == first {
		t.Error("another version has the same digest")
	}
}

func TestUnfitBinariesAreRefused(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, binary, arch, want string
	}{
		{"missing", filepath.Join(t.TempDir(), "none"), "", "no such file"},
		{"not ELF", script, "", "not a Linux (ELF) executable"},
		{"dynamic", executable(t, elf.EM_X86_64, elf.ET_DYN, elf.PT_INTERP), "", "linked dynamically"},
		{"object file", executable(t, elf.EM_X86_64, elf.ET_REL), "", "no executable"},
		{"other machine", executable(t, elf.EM_RISCV, elf.ET_EXEC), "", "EM_RISCV"},
		{"other architecture than asked", static(t), "arm64", "built for amd64, not for arm64"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Build(Spec{Binary: tt.binary, Arch: tt.arch})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want one with %q", err, tt.want)
			}
			if fault.CodeOf(err) != fault.Usage || !strings.Contains(fault.NextOf(err), "make build") {
				t.Errorf("code %d, next %q", fault.CodeOf(err), fault.NextOf(err))
			}
		})
	}
	if _, err := Build(Spec{Binary: executable(t, elf.EM_AARCH64, elf.ET_DYN, elf.PT_DYNAMIC), Arch: "arm64"}); err != nil {
		t.Errorf("a static PIE is fit: %v", err)
	}
}

func TestReferenceNamesTheBytes(t *testing.T) {
	bin := static(t)
	first, err := Reference("v0.1.0+dirty", bin)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(first, "drainproof.dev/drainproof:v0.1.0-dirty-") {
		t.Errorf("reference %s", first)
	}
	if _, err := name.NewTag(first); err != nil {
		t.Errorf("no valid tag: %v", err)
	}
	f, err := os.OpenFile(bin, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if second, err := Reference("v0.1.0+dirty", bin); err != nil || second == first {
		t.Errorf("another binary: %s, %v; want another reference than %s", second, err, first)
	}
}

func TestSaveRoundTrip(t *testing.T) {
	img := build(t, Spec{Binary: static(t)})
	dir := t.TempDir()
	path := filepath.Join(dir, "image.tar")
	const ref = "drainproof.dev/drainproof:t-0"
	if err := Save(t.Context(), img, ref, path, false); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	back, err := tarball.ImageFromPath(path, &tag)
	if err != nil {
		t.Fatal(err)
	}
	want, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := back.ConfigName(); err != nil || got != want {
		t.Errorf("image id %s, %v; want %s", got, err, want)
	}
	if err := Save(t.Context(), img, ref, path, false); fault.CodeOf(err) != fault.Usage {
		t.Errorf("an existing file: %v, want a usage fault", err)
	}
	if err := Save(t.Context(), img, ref, path, true); err != nil {
		t.Errorf("with force: %v", err)
	}
	onlyFile(t, dir, "image.tar")
}

func TestSaveLeavesNothingHalf(t *testing.T) {
	img := build(t, Spec{Binary: static(t)})
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Save(ctx, img, "a.example/b:c", filepath.Join(dir, "image.tar"), false); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	onlyFile(t, dir, "")
	err := Save(t.Context(), img, "a.example/b:c", filepath.Join(dir, "no", "image.tar"), false)
	if fault.CodeOf(err) != fault.Unmeasurable || fault.NextOf(err) == "" {
		t.Errorf("no such folder: %v", err)
	}
	if err := Save(t.Context(), img, "no reference!", filepath.Join(dir, "x"), false); fault.CodeOf(err) != fault.Usage {
		t.Errorf("bad reference: %v", err)
	}
}

func onlyFile(t *testing.T, dir, want string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("the folder holds %q, want %q", got, want)
	}
}

func TestPush(t *testing.T) {
	srv := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(srv.Close)
	img := build(t, Spec{Binary: static(t)})
	ref := strings.TrimPrefix(srv.URL, "http://") + "/drainproof:t"
	if err := Push(t.Context(), img, ref, true); err != nil {
		t.Fatal(err)
	}
	r, err := name.ParseReference(ref, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	d, err := remote.Head(r)
	if err != nil {
		t.Fatal(err)
	}
	if d.Digest.String() != digest(t, img) {
		t.Errorf("registry has %s, want %s", d.Digest, digest(t, img))
	}
	srv.Close()
	if err := Push(t.Context(), img, ref, true); fault.CodeOf(err) != fault.Unmeasurable || fault.NextOf(err) == "" {
		t.Errorf("no registry: %v", err)
	}
	if err := Push(t.Context(), img, "::", false); fault.CodeOf(err) != fault.Usage {
		t.Errorf("bad reference: %v", err)
	}
}
