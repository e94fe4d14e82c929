package experiment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// decode reads one YAML document into a struct whose fields are tagged yaml. It knows the types that a file
// is made of, and says of each mistake where it is and what belongs there.
func decode(text []byte, into any) error {
	if several(text) {
		return errors.New("it holds more than one YAML document, and only the first would count")
	}
	b, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return notYAML(err)
	}
	var written any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber() // a number is kept as it is written
	if err := d.Decode(&written); err != nil {
		return notYAML(err)
	}
	if written == nil {
		return errors.New("it is empty")
	}
	return fill("", written, reflect.ValueOf(into).Elem())
}

// several says whether a text holds more than one YAML document with something in it. A line that begins
// with three hyphens or three dots parts documents wherever it stands (YAML 1.2.2, 9.1): no text inside a document can hold one.
func several(text []byte) bool {
	documents, inside := 0, false
	for line := range bytes.Lines(text) {
		rest, begins := bytes.CutPrefix(line, []byte("---"))
		if !begins {
			rest, begins = bytes.CutPrefix(line, []byte("..."))
		}
		if begins && len(bytes.TrimLeft(rest, " \t\r\n")) < len(rest) || begins && len(rest) == 0 {
			inside, line = false, rest // what follows on the line belongs to the document
		}
		line = bytes.TrimSpace(line)
		if inside || len(line) == 0 || line[0] == '#' || line[0] == '%' {
			continue
		}
		inside = true
		documents++
	}
	return documents > 1
}

// notYAML puts the library's words about a text that is no YAML into a sentence for its writer.
func notYAML(err error) error {
	what := strings.TrimPrefix(err.Error(), "yaml: ")
	if list, ok := strings.CutPrefix(what, "unmarshal errors:\n"); ok {
		// Of a document that is read as it is, only keys that stand there twice are listed.
		first, _, _ := strings.Cut(strings.TrimSpace(list), "\n")
		return errors.New(strings.Replace(first, "already set in map", "is there twice", 1))
	}
	if strings.HasPrefix(what, "json: ") || strings.HasPrefix(what, "unsupported map key") || strings.HasPrefix(what, "invalid map key") {
		return errors.New("it holds a key that is no text, or a number that is none (.nan, .inf)")
	}
	return fmt.Errorf("it is no YAML: %s", what)
}

// fill puts a value as it was written into a field. at is the field's path, "" for the whole.
func fill(at string, written any, into reflect.Value) error {
	mistake := func(want string) error {
		if at == "" {
			return fmt.Errorf("%s is needed, not %s", want, described(written))
		}
		return fmt.Errorf("%s: %s is needed, not %s", at, want, described(written))
	}
	if written == nil {
		return nil // null is as good as left out
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return fill(at, written, into.Elem())
	case reflect.Struct:
		fields, ok := written.(map[string]any)
		if !ok {
			return mistake("a mapping of fields")
		}
		return fillFields(at, fields, into)
	case reflect.Slice:
		list, ok := written.([]any)
		if !ok {
			return mistake("a list")
		}
		into.Set(reflect.MakeSlice(into.Type(), len(list), len(list)))
		for i, v := range list {
			if err := fill(fmt.Sprintf("%s[%d]", at, i), v, into.Index(i)); err != nil {
				return err
			}
		}
	case reflect.String:
		// A number is a text, too: a status 200, a share of 1.
		switch v := written.(type) {
		case string:
			into.SetString(v)
		case json.Number:
			into.SetString(v.String())
		default:
			return mistake("a text")
		}
	case reflect.Bool:
		v, ok := written.(bool)
		if !ok {
			return mistake("true or false")
		}
		into.SetBool(v)
	case reflect.Int:
		number, ok := written.(json.Number)
		v, err := strconv.Atoi(number.String())
		if !ok || err != nil {
			return mistake("a whole number")
		}
		into.SetInt(int64(v))
	case reflect.Float64:
		number, ok := written.(json.Number)
		v, err := strconv.ParseFloat(number.String(), 64)
		if !ok || err != nil {
			return mistake("a number")
		}
		into.SetFloat(v)
	default:
		return fmt.Errorf("%s: a field of this kind cannot be read", at)
	}
	return nil
}

func fillFields(at string, written map[string]any, into reflect.Value) error {
	known := map[string][]int{}
	for _, f := range reflect.VisibleFields(into.Type()) {
		if name := f.Tag.Get("yaml"); name != "" {
			known[name] = f.Index
		}
	}
	for _, key := range slices.Sorted(maps.Keys(written)) {
		path := strings.TrimPrefix(at+"."+key, ".")
		index, ok := known[key]
		if !ok {
			return fmt.Errorf("there is no field %s; %s", shortened(path), insteadOf(key, slices.Sorted(maps.Keys(known))))
		}
		if err := fill(path, written[key], into.FieldByIndex(index)); err != nil {
			return err
		}
	}
	return nil
}

// insteadOf says which field was meant, or which there are.
func insteadOf(key string, known []string) string {
	if i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, key) }); i >= 0 {
		return "it is written " + known[i]
	}
	return "here are " + strings.Join(known, ", ")
}

// described is a value in a few words, for a sentence that refuses it.
func described(written any) string {
	switch v := written.(type) {
	case string:
		return strconv.Quote(shortened(v))
	case json.Number:
		return shortened(v.String())
	case bool:
		return strconv.FormatBool(v)
	case []any:
		return "a list"
	default:
		return "a mapping"
	}
}

// shortened keeps the begin of a text that somebody wrote, so that a message stays one line.
func shortened(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	for s = s[:most]; !utf8.ValidString(s); {
		s = s[:len(s)-1]
	}
	return s + "..."
}
