package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// shapeError: one value of a file is not what a record has in that place.
type shapeError struct {
	// Path such as events[3].t_ns; "" for the whole file.
	path string
	// found and want are words of JSON, such as a string.
	found, want string
}

func (e *shapeError) Error() string {
	if e.path == "" {
		return fmt.Sprintf("it is %s where %s belongs", e.found, e.want)
	}
	return fmt.Sprintf("%s is %s where %s belongs", e.path, e.found, e.want)
}

// inWords says what is wrong with data in words of the format, not of the program; other errors are given back as they are.
func inWords(err error, data []byte) error {
	if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &shapeError{path: pathAt(data, bad.Offset), found: foundWord(bad.Value), want: wantWord(bad.Type)}
	}
	var times struct {
		StartedAt json.RawMessage `json:"started_at"`
		Trigger   *struct {
			At json.RawMessage `json:"at"`
		} `json:"trigger"`
	}
	// It was read as JSON before, so what fails here has no times to look at.
	if json.Unmarshal(data, &times) != nil {
		return err
	}
	const want = "a time such as 2026-11-29T16:00:00Z"
	if !isTime(times.StartedAt) {
		return &shapeError{path: "started_at", found: foundWord(kindOf(times.StartedAt)), want: want}
	}
	if times.Trigger != nil && !isTime(times.Trigger.At) {
		return &shapeError{path: "trigger.at", found: foundWord(kindOf(times.Trigger.At)), want: want}
	}
	return err
}

func isTime(raw json.RawMessage) bool {
	return len(raw) == 0 || new(time.Time).UnmarshalJSON(raw) == nil
}

// kindOf names the kind of a whole JSON value as encoding/json does.
func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		return "string"
	case '[':
		return "array"
	case '{':
		return "object"
	case 't', 'f':
		return "bool"
	default:
		return "number"
	}
}

// foundWord turns encoding/json's word for a value, such as array or number 1.5, into a phrase. A number may be of any length.
func foundWord(value string) string {
	switch kind, number, _ := strings.Cut(value, " "); {
	case number != "":
		return fmt.Sprintf("the number %.40s", number)
	case kind == "array" || kind == "object":
		return "an " + kind
	case kind == "bool":
		return "true or false"
	default:
		return "a " + kind
	}
}

func wantWord(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0 on"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return "a string"
	}
}

// pathAt gives the path of the value that is being read where offset bytes of data are read.
func pathAt(data []byte, offset int64) string {
	type level struct {
		path string
		// index counts the elements of an array, -1 in an object.
		index int
		key   string
		// named: the next token of an object is a value.
		named bool
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var open []level
	here := ""
	for {
		tok, err := dec.Token()
		if err != nil {
			return here
		}
		if d, ok := tok.(json.Delim); ok && (d == ']' || d == '}') {
			open = open[:len(open)-1]
			continue
		}
		if n := len(open); n > 0 {
			top := &open[n-1]
			switch key, isText := tok.(string); {
			case top.index >= 0:
				here = fmt.Sprintf("%s[%d]", top.path, top.index)
				top.index++
			case isText && !top.named:
				top.key, top.named = key, true
				continue // a name; the value comes next
			default:
				here = strings.TrimPrefix(top.path+"."+top.key, ".")
				top.named = false
			}
		}
		// The offset lies at the end of a plain value, and behind the bracket that opens an array or object.
		if dec.InputOffset() >= offset {
			return here
		}
		switch tok {
		case json.Delim('['):
			open = append(open, level{path: here})
		case json.Delim('{'):
			open = append(open, level{path: here, index: -1})
		}
	}
}
