package localcluster

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// The program that sleeps for ever: it holds a node's namespaces, and those of
// a Pod. It reaps no children, which matters only to Pods that share their
// process namespace.
var pauseCode = map[string]struct {
	machine uint16
	code    []byte
}{
	// mov eax, 34 (pause); syscall; jmp to the start
	"amd64": {62, []byte{0xb8, 34, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7}},
	// x8 = 73 (ppoll); x0..x4 = 0; svc; branch to the start
	"arm64": {183, words(0xd2800928, 0xd2800000, 0xd2800001, 0xd2800002, 0xd2800003, 0xd2800004, 0xd4000001, 0x17fffff9)},
}

func words(ws ...uint32) []byte {
	var b []byte
	for _, w := range ws {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// pauseELF gives the program for GOARCH arch: an ELF header, one segment, and the code.
func pauseELF(arch string) ([]byte, error) {
	c, ok := pauseCode[arch]
	if !ok {
		return nil, fmt.Errorf("a local cluster cannot run on %s, only on amd64 and arm64", arch)
	}
	const (
		base    = 0x400000
		headers = 64 + 56
	)
	size := uint64(headers + len(c.code))
	le := binary.LittleEndian
	b := []byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	b = le.AppendUint16(b, 2) // executable
	b = le.AppendUint16(b, c.machine)
	b = le.AppendUint32(b, 1)
	b = le.AppendUint64(b, base+headers) // entry
	b = le.AppendUint64(b, 64)           // program headers
	b = le.AppendUint64(b, 0)            // no section headers
	b = le.AppendUint32(b, 0)
	for _, v := range []uint16{64, 56, 1, 0, 0, 0} {
		b = le.AppendUint16(b, v)
	}
	b = le.AppendUint32(b, 1) // load
	b = le.AppendUint32(b, 5) // read, execute
	for _, v := range []uint64{0, base, base, size, size, 0x10000} {
		b = le.AppendUint64(b, v)
	}
	return slices.Concat(b, c.code), nil
}

// writePauseArchive writes the Pod sandbox's image.
func writePauseArchive(w io.Writer, arch string) error {
	elf, err := pauseELF(arch)
	if err != nil {
		return err
	}
	return writeArchive(w, pauseImage, arch, "pause", elf)
}

// writeArchive writes an image of one static program, in the format of `docker save`.
func writeArchive(w io.Writer, tag, arch, program string, binary []byte) error {
	layer, err := programLayer(program, binary)
	if err != nil {
		return fmt.Errorf("pack image %s: %w", tag, err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return fmt.Errorf("make image %s: %w", tag, err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return fmt.Errorf("describe image %s: %w", tag, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	config.Config = v1.Config{Entrypoint: []string{"/" + program}, User: "65535:65535"}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return fmt.Errorf("describe image %s: %w", tag, err)
	}
	ref, err := name.NewTag(tag)
	if err != nil {
		return fmt.Errorf("name image %s: %w", tag, err)
	}
	if err := tarball.Write(ref, img, w); err != nil {
		return fmt.Errorf("write image %s: %w", tag, err)
	}
	return nil
}

func programLayer(program string, binary []byte) (v1.Layer, error) {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	if err := tw.WriteHeader(&tar.Header{Name: program, Mode: 0o755, Size: int64(len(binary))}); err != nil {
		return nil, err
	}
	if _, err := tw.Write(binary); err != nil {
		return nil, err
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())), nil
	})
}
