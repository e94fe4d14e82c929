package images

import (
	"path"
	"slices"
	"strings"
)

// script is what can be told of a shell's -c text.
type script struct {
	argv      []string
	ending    Ending
	why       string
	redirects bool
}

// simple is one command of a list, with the operator that ends it.
type simple struct {
	words     []string
	operator  string // ; && || | & or "" at the end
	redirects bool
}

// compound words open or close a command that is more than one program.
var compound = []string{
	"if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "{", "}", "select", "function", "[[", "!",
}

// brief commands are over at once, so a server was started before them; idle
// ones wait for nothing but a signal.
var (
	brief = []string{"echo", "printf", "true", ":", "exit", "rm", "touch", "date", "kill", "return", "cat"}
	idle  = []string{"tail", "sleep", "wait", "read", "pause"}
)

// readScript says whether the shell stays while the script's program runs.
func readScript(text string) script {
	commands, ok := split(text)
	if !ok || len(commands) == 0 {
		return script{ending: Unreadable}
	}
	for _, c := range commands {
		switch {
		case c.words[0] == "trap":
			return script{ending: Handled}
		case len(c.words) > 2 && c.words[1] == "(" && c.words[2] == ")":
			return script{ending: Unreadable} // a function
		}
	}
	last := commands[len(commands)-1]
	first := last.words[0]
	inPipe := len(commands) > 1 && commands[len(commands)-2].operator == "|"
	switch {
	case slices.Contains(compound, first) || first == "(":
		// An exec inside may still put a program in the shell's place.
		for _, c := range commands {
			if slices.Contains(c.words, "exec") || strings.Contains(strings.Join(c.words, " "), "exec ") {
				return script{ending: Unreadable}
			}
		}
		s := script{argv: inner(commands), ending: Kept, why: "the script ends in a compound command"}
		if first == "(" && len(last.words) > 2 {
			s.argv = readScript(last.words[1]).argv
		}
		return s
	case inPipe:
		i := len(commands) - 1
		for i > 0 && commands[i-1].operator == "|" {
			i--
		}
		return script{argv: commands[i].words, ending: Kept, why: "the server stands in a pipeline"}
	case last.operator == "&":
		return script{ending: Unreadable}
	case first == "wait":
		for i := len(commands) - 2; i >= 0; i-- {
			if commands[i].operator == "&" {
				return script{argv: commands[i].words, ending: Kept, why: "the server runs in the background and the shell waits for it"}
			}
		}
		return script{ending: Unreadable}
	case slices.Contains(brief, path.Base(first)) || slices.Contains(idle, path.Base(first)):
		if len(commands) == 1 {
			return script{ending: Unreadable} // no server at all
		}
		before := commands[len(commands)-2]
		if slices.Contains(compound, before.words[0]) {
			return script{ending: Unreadable}
		}
		return script{argv: before.words, ending: Kept, why: "the script's last command is " + path.Base(first) + ", not the server"}
	}
	s := script{argv: last.words, redirects: last.redirects}
	switch {
	case first == "exec":
		s.ending = Replaced
		if len(last.words) < 2 {
			s.ending = Unreadable // exec 2>&1 only redirects
		}
	case len(commands) == 1:
		s.ending = Single
	default:
		s.ending = Last
	}
	return s
}

// inner gives the last program inside a compound command.
func inner(commands []simple) []string {
	for i := len(commands) - 1; i >= 0; i-- {
		words := commands[i].words
		for len(words) > 0 && (slices.Contains(compound, words[0]) || words[0] == "(") {
			words = words[1:]
		}
		if len(words) > 0 && !slices.Contains(idle, words[0]) && !slices.Contains(brief, words[0]) {
			return words
		}
	}
	return nil
}

// split cuts a script into its simple commands. It reads quotes, comments and
// redirections, and gives up (ok is false) on here-documents and unbalanced quotes.
func split(text string) (commands []simple, ok bool) {
	var current simple
	var word strings.Builder
	inWord := false
	endWord := func() {
		if inWord {
			current.words = append(current.words, word.String())
		}
		word.Reset()
		inWord = false
	}
	end := func(operator string) {
		endWord()
		if len(current.words) > 0 {
			current.operator = operator
			commands = append(commands, current)
		} else if n := len(commands); n > 0 && operator == "&" {
			commands[n-1].operator = operator
		}
		current = simple{}
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		next := byte(0)
		if i+1 < len(text) {
			next = text[i+1]
		}
		switch {
		case c == '\\':
			if next == '\n' {
				i++
				continue
			}
			if i+1 < len(text) {
				word.WriteByte(next)
				inWord = true
				i++
			}
		case c == '\'':
			j := strings.IndexByte(text[i+1:], '\'')
			if j < 0 {
				return nil, false
			}
			word.WriteString(text[i+1 : i+1+j])
			inWord = true
			i += j + 1
		case c == '"':
			j := i + 1
			for ; j < len(text) && text[j] != '"'; j++ {
				if text[j] == '\\' && j+1 < len(text) {
					j++
				}
				word.WriteByte(text[j])
			}
			if j >= len(text) {
				return nil, false
			}
			inWord = true
			i = j
		case c == '$' && next == '(', c == '`', c == '$' && next == '{':
			j := closing(text, i)
			if j < 0 {
				return nil, false
			}
			word.WriteString(text[i : j+1])
			inWord = true
			i = j
		case c == '#' && !inWord:
			j := strings.IndexByte(text[i:], '\n')
			if j < 0 {
				j = len(text) - i
			}
			i += j - 1
		case c == '<' && next == '<':
			return nil, false
		case c == '>' || c == '<' || c == '&' && next == '>':
			// 2>&1, >>file, &>file: a redirection, with its number and its target.
			if inWord && strings.Trim(word.String(), "0123456789") == "" {
				word.Reset()
				inWord = false
			}
			endWord()
			current.redirects = true
			for i+1 < len(text) && strings.IndexByte("<>&|", text[i+1]) >= 0 {
				i++
			}
			for i+1 < len(text) && (text[i+1] == ' ' || text[i+1] == '\t') {
				i++
			}
			for i+1 < len(text) && strings.IndexByte(" \t\n;&|", text[i+1]) < 0 {
				i++
			}
		case c == '&' && next == '&', c == '|' && next == '|':
			end(text[i : i+2])
			i++
		case c == '|':
			if next == '&' {
				i++
			}
			end("|")
		case c == ';' && next == ';':
			i++
			end(";")
		case c == ';', c == '\n', c == '\r':
			end(";")
		case c == '&':
			end("&")
		case c == '(':
			// A subshell, whose text is one word, or the parentheses of a function.
			j := bracket(text, i)
			if j < 0 {
				return nil, false
			}
			endWord()
			current.words = append(current.words, "(")
			if inside := strings.TrimSpace(text[i+1 : j]); inside != "" {
				current.words = append(current.words, inside)
			}
			current.words = append(current.words, ")")
			i = j
		case c == ')':
			endWord() // of a case's pattern
		case c == ' ' || c == '\t':
			endWord()
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	end("")
	return commands, true
}

// closing finds the end of $(...), ${...} or `...` that starts at i; -1 without one.
func closing(text string, i int) int {
	if text[i] != '`' {
		return bracket(text, i+1)
	}
	if j := strings.IndexByte(text[i+1:], '`'); j >= 0 {
		return i + 1 + j
	}
	return -1
}

// bracket finds the bracket that closes the one at i; -1 without one.
func bracket(text string, i int) int {
	open, shut := text[i], byte(')')
	if open == '{' {
		shut = '}'
	}
	depth := 0
	for j := i; j < len(text); j++ {
		switch text[j] {
		case open:
			depth++
		case shut:
			if depth--; depth == 0 {
				return j
			}
		}
	}
	return -1
}
