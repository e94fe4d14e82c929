package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/drainproof/drainproof/internal/fault"
	"github.com/drainproof/drainproof/internal/record"
)

// version is set at link time by the Makefile.
var version = "dev"

func versionString() string { return version }

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version, the Go version and the platform", Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintf(a.Out, "drainproof %s %s %s/%s\n", versionString(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}

// ownFile is the running program's file. On Linux it is the very bytes that
// run, also after another build has taken the file's place.
func ownFile() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self, nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", fault.Measuref(err, "", "finding this program's own file")
	}
	return path, nil
}

// tool describes the running program, digest included, for the record.
func tool() (record.Tool, error) {
	path, err := ownFile()
	if err != nil {
		return record.Tool{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return record.Tool{}, fault.Measuref(err, "", "opening this program's own file")
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return record.Tool{}, fault.Measuref(err, "", "reading this program's own file")
	}
	return record.Tool{Name: "drainproof", Version: versionString(), Sha256: hex.EncodeToString(h.Sum(nil)), Go: runtime.Version()}, nil
}
