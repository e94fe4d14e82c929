package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Encode gives the bytes of a record file: indented JSON, lists and maps never null.
func Encode(r Record) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(filled(r)); err != nil {
		return nil, fmt.Errorf("encoding record %s: %w", r.ID, err)
	}
	return b.Bytes(), nil
}

// Write puts r into the folder dir, which it makes if need be, as FileName, and returns the
// file's path. The file appears whole or not at all: a temporary one in the same folder is
// written, synced and renamed. An existing record, compressed or not, is an *ExistsError
// unless force is set; a full disk is a *FullDiskError.
func Write(dir string, r Record, force bool) (path string, err error) {
	data, err := Encode(r)
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, FileName)
	return path, fullDisk(path, writeWhole(dir, path, data, force))
}

// fullDisk gives want of space its own type.
func fullDisk(path string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &FullDiskError{Path: path, Err: err}
	}
	return err
}

func writeWhole(dir, path string, data []byte, force bool) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the record's folder: %w", err)
	}
	if !force {
		for _, p := range []string{path, path + gzSuffix} {
			if _, err := os.Lstat(p); err == nil {
				return &ExistsError{Path: p}
			} else if !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("looking for an earlier record: %w", err)
			}
		}
	}
	f, err := os.CreateTemp(dir, ".record-*.tmp")
	if err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	tmp := f.Name()
	defer func() {
		// After a rename there is nothing left to remove.
		if rmErr := os.Remove(tmp); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) && err == nil {
			err = fmt.Errorf("removing the temporary file: %w", rmErr)
		}
	}()
	if err := fill(f, data); err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	if err := publish(tmp, path, force); err != nil {
		return err
	}
	return syncDir(dir)
}

// fill writes, syncs and closes f.
func fill(f *os.File, data []byte) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// publish gives the finished temporary file its name. Without force it links, which,
// unlike a rename, never replaces what another process has put there meanwhile.
func publish(tmp, path string, force bool) error {
	if !force {
		err := os.Link(tmp, path)
		if errors.Is(err, fs.ErrExist) {
			return &ExistsError{Path: path}
		}
		if err == nil {
			return nil
		}
		// Some file systems know no hard links; the look before has to do there.
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("naming the record: %w", err)
	}
	if err := os.Remove(path + gzSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the earlier, compressed record: %w", err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("syncing the record's folder: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("syncing the record's folder: %w", err)
	}
	return nil
}
