// Package cmdline reads what a container's manifest writes of its command line
// and of its settings: which program it names, and the value of a flag or of a
// Java property.
//
// It reads text as a person would, without a shell: what a script, an image's own
// entrypoint or a configuration file sets it cannot see. It must not know what a flag means.
package cmdline

import (
	"path"
	"slices"
	"strings"
)

// Line is a command line, word by word.
type Line []string

// Of gives the words of command and args. An element that holds blanks, such as the text
// behind "sh -c", counts as the words in it.
func Of(command, args []string) Line {
	var line Line
	for _, element := range slices.Concat(command, args) {
		line = append(line, Words(element)...)
	}
	return line
}

// Words splits one text at its blanks and takes quotes off.
func Words(text string) Line {
	var line Line
	for _, word := range strings.Fields(text) {
		if word = strings.Trim(word, `"';`); word != "" {
			line = append(line, word)
		}
	}
	return line
}

// Runs says whether a word names the program, with or without its folder. A word
// that follows a long flag is taken for the flag's value ("--user gunicorn").
func (l Line) Runs(program string) bool {
	for i, word := range l {
		if path.Base(word) != program {
			continue
		}
		if i > 0 && len(l[i-1]) > 2 && strings.HasPrefix(l[i-1], "--") && !strings.Contains(l[i-1], "=") {
			continue
		}
		return true
	}
	return false
}

// Flag gives the value of a flag that is written "--name value" or "--name=value".
// The last one counts, as it does for most programs.
func (l Line) Flag(names ...string) (value string, ok bool) {
	for i, word := range l {
		for _, name := range names {
			switch {
			case word == name && i+1 < len(l):
				value, ok = l[i+1], true
			case strings.HasPrefix(word, name+"="):
				value, ok = word[len(name)+1:], true
			}
		}
	}
	return strings.Trim(value, `"'`), ok
}

// javaOptions are the variables whose text is options for a Java machine: the first two by
// its own reading, the last by the start scripts of most images.
var javaOptions = []string{"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_OPTS"}

// Setting is a property that a container sets, with the place where it does.
type Setting struct {
	Value string
	// Env is the variable, Flag the word of the command line; one of them is "".
	Env, Flag string
}

// Property looks a Spring property up, e.g. server.shutdown: as an argument
// (--server.shutdown=graceful), as a Java option (-Dserver.shutdown=graceful), as
// a variable (SERVER_SHUTDOWN). They count in this order, which is Spring's own.
func Property(env map[string]string, line Line, name string) (Setting, bool) {
	for _, prefix := range []string{"--", "-D"} {
		for _, word := range line {
			if value, ok := cutProperty(word, prefix, name); ok {
				return Setting{Value: value, Flag: word}, true
			}
		}
	}
	for _, variable := range javaOptions {
		for _, word := range Words(env[variable]) {
			if value, ok := cutProperty(word, "-D", name); ok {
				return Setting{Value: value, Env: variable}, true
			}
		}
	}
	want := Plain(name)
	for _, key := range Sorted(env) {
		if Plain(key) == want {
			return Setting{Value: env[key], Env: key}, true
		}
	}
	return Setting{}, false
}

func cutProperty(word, prefix, name string) (value string, ok bool) {
	key, value, ok := strings.Cut(word, "=")
	if !ok || !strings.HasPrefix(key, prefix) || Plain(key[len(prefix):]) != Plain(name) {
		return "", false
	}
	return value, true
}

// plain drops what separates the parts of a name.
var plain = strings.NewReplacer("-", "", "_", "", ".", "")

// Plain makes names comparable that are one setting in different dress:
// server.tomcat.keep-alive-timeout, SERVER_TOMCAT_KEEPALIVETIMEOUT, SERVER_TOMCAT_KEEP_ALIVE_TIMEOUT.
func Plain(name string) string { return strings.ToLower(plain.Replace(name)) }

// Sorted gives the names of variables in order, so that what is found first is always the same.
func Sorted(env map[string]string) []string {
	keys := make([]string, 0, len(env))
	for key := range env {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
