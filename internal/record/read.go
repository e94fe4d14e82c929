package record

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

const (
	gzSuffix = ".gz"
	// MaxBytes bounds a record, uncompressed: some 200,000 flows with their events.
	MaxBytes = 256 << 20
)

// Read reads one record: a file, compressed by gzip or not, or a folder that holds
// FileName or FileName.gz. Fields that it does not know are passed over; another
// schema is a *SchemaError, a file beyond MaxBytes a *TooLargeError, a folder without a
// record a *NoRecordError, a path with nothing there a *NotFoundError.
func Read(path string) (Record, error) {
	info, err := stat(path)
	if err != nil {
		return Record{}, fmt.Errorf("reading record: %w", err)
	}
	if info.IsDir() {
		file, err := inFolder(path)
		if err != nil {
			return Record{}, err
		}
		path = file
		if info, err = stat(path); err != nil {
			return Record{}, fmt.Errorf("reading record: %w", err)
		}
	}
	if !info.Mode().IsRegular() {
		// A pipe or a device would be waited for, or read without end.
		return Record{}, fmt.Errorf("reading record: %s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return Record{}, fmt.Errorf("reading record: %w", err)
	}
	defer f.Close()
	return decode(f, path, MaxBytes)
}

// stat tells a path with nothing there from one that cannot be looked at.
func stat(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &NotFoundError{Path: path, Err: err}
	}
	return info, err
}

func inFolder(dir string) (string, error) {
	for _, name := range []string{FileName, FileName + gzSuffix} {
		p := filepath.Join(dir, name)
		if _, err := os.Stat(p); err == nil {
			return p, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("reading record: %w", err)
		}
	}
	return "", &NoRecordError{Path: dir}
}

// decode reads a record from r; path is for errors only.
func decode(r io.Reader, path string, limit int64) (Record, error) {
	plain, err := gunzip(bufio.NewReader(r))
	if err != nil {
		return Record{}, fmt.Errorf("reading %s: %w", path, err)
	}
	data, err := io.ReadAll(io.LimitReader(plain, limit+1))
	if err != nil {
		return Record{}, fmt.Errorf("reading %s: %w", path, err)
	}
	if int64(len(data)) > limit {
		return Record{}, &TooLargeError{Path: path, Limit: limit}
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return Record{}, &NotRecordError{Path: path, Err: inWords(err, data)}
	}
	if head.Schema != Schema {
		return Record{}, &SchemaError{Path: path, Found: head.Schema}
	}
	var rec Record
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // details keep their digits
	if err := dec.Decode(&rec); err != nil {
		return Record{}, &NotRecordError{Path: path, Err: inWords(err, data)}
	}
	return rec, nil
}

// gunzip tells compressed input by its first two bytes (RFC 1952, section 2.3.1).
func gunzip(r *bufio.Reader) (io.Reader, error) {
	magic, err := r.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return r, nil
	}
	return gzip.NewReader(r)
}

// HistoryDir is a folder that Find passes over: what an interruption left, kept
// beside the set that was measured anew.
const HistoryDir = "history"

// Find walks the folders dirs and gives the paths of all records in them, sorted. A dir may
// also be a record file itself. Each of dirs must be there, else a *NotFoundError, and hold
// one, else a *NoRecordError; where a folder holds both forms of a record, the uncompressed one counts.
func Find(dirs ...string) ([]string, error) {
	var found []string
	for _, dir := range dirs {
		paths, err := findIn(dir)
		if err != nil {
			return nil, err
		}
		if len(paths) == 0 {
			return nil, &NoRecordError{Path: dir}
		}
		found = append(found, paths...)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

func findIn(root string) ([]string, error) {
	info, err := stat(root)
	if err != nil {
		return nil, fmt.Errorf("looking for records: %w", err)
	}
	if !info.IsDir() {
		return []string{filepath.Clean(root)}, nil
	}
	var found []string
	// os.DirFS follows root itself when it is a link, but none below it.
	err = fs.WalkDir(os.DirFS(root), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == HistoryDir {
				return fs.SkipDir
			}
			return nil
		}
		switch full := filepath.Join(root, filepath.FromSlash(p)); d.Name() {
		case FileName:
			found = append(found, full)
		case FileName + gzSuffix:
			if _, err := os.Stat(full[:len(full)-len(gzSuffix)]); errors.Is(err, fs.ErrNotExist) {
				found = append(found, full)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking for records: %w", err)
	}
	return found, nil
}
