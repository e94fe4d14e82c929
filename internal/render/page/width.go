package page

// Widths of terminal output, in columns.
const (
	DefaultWidth = 96
	MinWidth     = 72
	// maxWidth keeps a picture together on a very wide terminal.
	maxWidth = 120
)

// Columns is how wide to write where width was asked for: 0 is taken as DefaultWidth, and what is too narrow or too wide is not followed.
func Columns(width int) int {
	if width == 0 {
		return DefaultWidth
	}
	return min(max(width, MinWidth), maxWidth)
}
