package parts

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/drainproof/drainproof/internal/fault"
)

// oldestMinor is the oldest Kubernetes 1.x that Get accepts: nothing older is tried by the project.
const oldestMinor = 32

var versionForm = regexp.MustCompile(`^v?1\.(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})$`)

// version is a released Kubernetes 1.x.
type version struct{ minor, patch int }

// String gives the form of Kubernetes's own tags, such as v1.37.2.
func (v version) String() string { return fmt.Sprintf("v1.%d.%d", v.minor, v.patch) }

// staging gives the version under which Kubernetes publishes its libraries, such as v0.37.2.
func (v version) staging() string { return fmt.Sprintf("v0.%d.%d", v.minor, v.patch) }

// parseVersion accepts v1.37.2 and 1.37.2.
func parseVersion(s string) (version, error) {
	m := versionForm.FindStringSubmatch(s)
	if m == nil {
		return version{}, fault.Usagef("give a release such as "+DefaultVersion,
			"%q is not a Kubernetes version", s)
	}
	minor, _ := strconv.Atoi(m[1]) // the form allows digits only
	patch, _ := strconv.Atoi(m[2])
	v := version{minor, patch}
	if minor < oldestMinor {
		return version{}, fault.Usagef(fmt.Sprintf("choose v1.%d or newer", oldestMinor),
			"kubernetes %s is too old: local clusters were never tested with versions before v1.%d", v, oldestMinor)
	}
	return v, nil
}
