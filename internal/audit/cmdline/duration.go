package cmdline

import (
	"strconv"
	"strings"
	"time"
)

// Duration reads a length of time as servers' flags write them: a Go duration
// ("25s", "1m30s"), an ISO 8601 one as Spring takes it ("PT30S"), or a bare number in the
// given unit. With unit 0 a bare number is refused, because its unit is not known.
func Duration(text string, unit time.Duration) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		if unit == 0 || n < 0 || n > float64(1<<62)/float64(unit) || n != n {
			return 0, false
		}
		return time.Duration(n * float64(unit)), true
	}
	lower := strings.ToLower(text)
	if rest, iso := strings.CutPrefix(lower, "pt"); iso {
		lower = rest
	}
	d, err := time.ParseDuration(lower)
	return d, err == nil && d >= 0
}
