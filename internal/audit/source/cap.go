package source

import (
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/drainproof/drainproof/internal/fault"
)

// largest bounds one text, in bytes. Manifests are far below it; what is not is a mistake, such as a device or a
// program that never ends, and would take all memory. Only tests change it.
var largest int64 = 256 << 20

// errLarge says that a text is larger than that.
var errLarge = errors.New("too large")

func tooLarge(what string) error {
	return fault.Usagef("check that it is manifests; give them in several files", "%s is larger than %d MiB", what, largest>>20)
}

// capped reads all of a text whose size may be known.
func capped(r io.Reader, size int64) ([]byte, error) {
	var text bytes.Buffer
	if size > 0 {
		text.Grow(int(min(size, largest)) + bytes.MinRead)
	}
	n, err := text.ReadFrom(io.LimitReader(r, largest+1))
	if n > largest {
		return nil, errLarge
	}
	return text.Bytes(), err
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	size := int64(0)
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		if size = info.Size(); size > largest {
			return nil, errLarge
		}
	}
	return capped(f, size)
}

// output keeps what a program prints, and ends the program when that is too much.
type output struct {
	text bytes.Buffer
	over bool
	end  func()
}

func (o *output) Write(b []byte) (int, error) {
	if int64(o.text.Len())+int64(len(b)) > largest {
		o.over = true
		o.end()
		return 0, errLarge
	}
	return o.text.Write(b)
}
