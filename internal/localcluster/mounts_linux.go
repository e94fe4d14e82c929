package localcluster

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mount is one line of mountinfo.
type mount struct {
	Point, Type, SuperOptions string
}

func readMounts(path string) ([]mount, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("list the mounts: %w", err)
	}
	return parseMounts(string(b)), nil
}

// parseMounts reads mountinfo (proc(5)), in the order of mounting.
func parseMounts(text string) []mount {
	var ms []mount
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 {
			continue
		}
		ms = append(ms, mount{Point: unescapeMount(l[4]), Type: r[0], SuperOptions: r[2]})
	}
	return ms
}

// unescapeMount undoes the octal escapes of blanks and backslashes.
func unescapeMount(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// under says whether path is dir or below it.
func under(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// detachBelow detaches every mount strictly below the folders, in the mount
// namespace of the calling thread, last mounted first.
func detachBelow(dirs ...string) error {
	ms, err := readMounts("/proc/thread-self/mountinfo")
	if err != nil {
		return err
	}
	slices.Reverse(ms)
	var errs []error
	for _, m := range ms {
		for _, d := range dirs {
			if m.Point == d || !under(m.Point, d) {
				continue
			}
			// EINVAL: went with the mount that it was on.
			if err := unix.Unmount(m.Point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
				errs = append(errs, fmt.Errorf("unmount %s: %w", m.Point, err))
			}
			break
		}
	}
	return errors.Join(errs...)
}
