// Package jsonlines is how two of the tool's own processes speak over a pair of streams: one JSON object a line.
//
// It must not know what is said.
package jsonlines

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// MaxLine bounds a line, in bytes: room for the largest of any of the protocols.
const MaxLine = 4 << 20

// Writer writes whole lines, from several goroutines.
type Writer struct {
	mu sync.Mutex
	w  io.Writer
}

// NewWriter writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes v as one line.
func (l *Writer) Write(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding a line: %w", err)
	}
	return l.WriteBytes(append(b, '\n'))
}

// WriteBytes writes a line that is encoded already, with its end.
func (l *Writer) WriteBytes(b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.w.Write(b); err != nil {
		return fmt.Errorf("writing to the other side: %w", err)
	}
	return nil
}

// Read hands each line of r to obey, until r ends (nil) or a line cannot be read, decoded or obeyed. Empty lines are passed over.
func Read[T any](r io.Reader, obey func(T) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), MaxLine)
	for s.Scan() {
		if len(s.Bytes()) == 0 {
			continue
		}
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			if s.Err() != nil {
				return s.Err() // it cut this line
			}
			return fmt.Errorf("not a line of the protocol: %.200q", s.Text())
		}
		if err := obey(v); err != nil {
			return err
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line is longer than %d bytes", MaxLine)
	}
	return s.Err()
}
