package manifest

import (
	"strconv"
	"strings"
)

// resolve gives the shape of a scalar without quotes, and its text. It reads the
// scalar as kubectl does, by YAML 1.1: yes and on are truth values there, and 010 is eight.
func resolve(s string) (Kind, string) {
	if s == "" {
		return Null, ""
	}
	switch c := s[0]; {
	case c >= '0' && c <= '9', c == '-', c == '+', c == '.':
		return number(s)
	case len(s) > 5 || strings.IndexByte("~nNtTfFyYoO", c) < 0:
		return String, s
	}
	switch s {
	case "~", "null", "Null", "NULL":
		return Null, ""
	case "true", "True", "TRUE", "yes", "Yes", "YES", "y", "Y", "on", "On", "ON",
		"false", "False", "FALSE", "no", "No", "NO", "n", "N", "off", "Off", "OFF":
		return Bool, s
	}
	return String, s
}

// isTrue tells which of a truth value's spellings mean true.
func isTrue(s string) bool {
	switch s[0] {
	case 't', 'T', 'y', 'Y':
		return true
	}
	return s[1:] == "n" || s[1:] == "N" // on; no is not
}

func number(s string) (Kind, string) {
	digits := strings.TrimPrefix(s, "-")
	plain := digits != "" && (digits[0] != '0' || len(s) == 1)
	for i := range len(digits) {
		c := digits[i]
		if c >= '0' && c <= '9' {
			continue
		}
		plain = false
		if strings.IndexByte("abcdefABCDEFxXoO_+-.", c) < 0 {
			return String, s // 100m, 5Gi, 1.2.3-alpine
		}
	}
	if plain {
		return Number, s
	}
	if s[0] == '.' {
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			return Number, s
		}
		return String, s
	}
	bare := strings.ReplaceAll(s, "_", "")
	if n, err := strconv.ParseInt(bare, 0, 64); err == nil {
		return Number, strconv.FormatInt(n, 10)
	}
	if n, err := strconv.ParseUint(bare, 0, 64); err == nil {
		return Number, strconv.FormatUint(n, 10)
	}
	if isFloat(bare) {
		if _, err := strconv.ParseFloat(bare, 64); err == nil {
			return Number, bare
		}
	}
	return String, s
}

// isFloat knows how YAML 1.1 writes a float that does not start with a point.
func isFloat(s string) bool {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		s = s[1:]
	}
	whole := skipDigits(s)
	rest, point := strings.CutPrefix(s[whole:], ".")
	part := skipDigits(rest)
	if whole == 0 && (!point || part == 0) {
		return false
	}
	rest = rest[part:]
	if rest == "" {
		return true
	}
	if rest[0] != 'e' && rest[0] != 'E' {
		return false
	}
	rest = rest[1:]
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		rest = rest[1:]
	}
	return rest != "" && skipDigits(rest) == len(rest)
}

func skipDigits(s string) int {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}
