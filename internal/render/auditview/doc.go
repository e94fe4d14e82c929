// Package auditview turns an audit's report into something to read or to hand
// on: a table for the terminal, JSON, SARIF, JUnit and Markdown; and the rules'
// documentation into pages.
//
// It reads the report only; the same report gives the same bytes. Whatever a name or a message
// holds, no control character, no markup and no mention of it reaches the output.
//
// It must not know how a finding is made; of the project it imports finding.
package auditview

// Options say how to draw on a terminal. The zero value is plain text, DefaultWidth wide.
type Options struct {
	// Width is in columns; it is kept between 72 and 120, 0 is taken as DefaultWidth.
	Width int
	// Color allows colours; the caller honours NO_COLOR and what kind of output it has.
	Color bool
	// ASCII draws without block characters.
	ASCII bool
}

// DefaultWidth is that of the table, in columns.
const DefaultWidth = 96

func columns(width int) int {
	if width == 0 {
		return DefaultWidth
	}
	return min(max(width, 72), 120)
}
