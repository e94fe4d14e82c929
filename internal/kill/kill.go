// Package kill ends a container's first process from the node that it runs on.
//
// It reads the node's /proc and sends one signal, and must not know Kubernetes: all that it is told is a container's id.
package kill

import (
	"regexp"
	"strings"

	"github.com/drainproof/drainproof/internal/fault"
)

// hexID is a container's id as containerd, CRI-O and Docker make them; shortened ones are not unique enough to kill by.
var hexID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// bareID takes the runtime off an id as Kubernetes writes it: containerd://ID.
func bareID(id string) (string, error) {
	bare := id
	if _, after, ok := strings.Cut(id, "://"); ok {
		bare = after
	}
	if !hexID.MatchString(bare) {
		return "", fault.Usagef("give the containerID of the Pod's status, 64 hexadecimal digits with or without containerd:// before them",
			"%q is no container's id", id)
	}
	return bare, nil
}
