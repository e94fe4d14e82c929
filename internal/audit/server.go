package audit

import (
	"fmt"
	"regexp"
	"strconv"
)

// Server is a Kubernetes version, as far as features depend on it.
type Server struct {
	Minor int
	// Text is the version as it was given.
	Text string
}

// DefaultServer is assumed where nobody says which version runs: the oldest that was
// supported upstream when this was written (v1.34, the first with preStop.sleep as a stable feature).
var DefaultServer = Server{Minor: 34, Text: "v1.34"}

// oldest is the oldest minor version that is judged. What is below it is mostly 1.30 that was read
// as the number 1.3.
const oldest = 16

func (s Server) String() string { return s.Text }

var serverVersion = regexp.MustCompile(`^v?1\.(\d{1,3})(\.\d+)?([-+].*)?$`)

// ParseServer reads v1.34, 1.34 or v1.34.4-gke.100.
func ParseServer(text string) (Server, error) {
	m := serverVersion.FindStringSubmatch(text)
	if m == nil {
		return Server{}, fmt.Errorf("%q is not a Kubernetes version such as v1.34", text)
	}
	minor, err := strconv.Atoi(m[1])
	if err != nil {
		return Server{}, fmt.Errorf("%q is not a Kubernetes version such as v1.34: %w", text, err)
	}
	if minor < oldest {
		hint := ""
		if minor > 1 && minor < 10 {
			hint = fmt.Sprintf("; 1.%d0 becomes 1.%d where YAML takes it for a number: write it in quotes", minor, minor)
		}
		return Server{}, fmt.Errorf("%q is older than v1.%d, the oldest that is judged%s", text, oldest, hint)
	}
	return Server{Minor: minor, Text: text}, nil
}
