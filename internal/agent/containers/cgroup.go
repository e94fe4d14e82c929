package containers

import "bytes"

// FromCgroup reads the text of a /proc/PID/cgroup: the UID of the Pod and the id of the container that the process is in. Either may be
// empty; both are for a process of the node.
//
// Where containers nest (a Docker in a Pod), it is the outermost of the Pod, or of all if there is no Pod. A Pod's UID is missing from
// the path where the reader is in a container of the same Pod, in a cgroup namespace of its own.
func FromCgroup(text []byte) (podUID, id string) {
	// A controller of version 1 may be left to the node's root while others are in use: the line that tells most counts.
	told := 0
	for line := range bytes.Lines(text) {
		// hierarchy:controllers:path; in version 2 there is one line, 0::path.
		_, path, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(":"))
		_, path, _ = bytes.Cut(path, []byte(":"))
		pod, container := fromPath(path)
		tells := 0
		if container != "" {
			tells++
		}
		if pod != "" {
			tells += 2
		}
		if tells > told {
			podUID, id, told = pod, container, tells
		}
	}
	return podUID, id
}

// fromPath reads one path. runc that is given a path for systemd, but does not use systemd, joins its parts with colons.
func fromPath(path []byte) (podUID, id string) {
	for len(path) > 0 {
		var element []byte
		if i := bytes.IndexAny(path, "/:"); i >= 0 {
			element, path = path[:i], path[i+1:]
		} else {
			element, path = path, nil
		}
		if uid, ok := podOf(element); ok && podUID == "" {
			// A container that the whole Pod is in is a node that is itself one (kind).
			podUID, id = uid, ""
		} else if container, ok := containerOf(element); ok && id == "" {
			id = container
		}
	}
	return podUID, id
}

// idDigits is the length of a container's id, as containerd, CRI-O and Docker make them.
const idDigits = 64

// containerOf reads an element of a path that is a container's own: ID (cgroupfs), or cri-containerd-ID.scope, crio-ID.scope, docker-ID.scope,
// libpod-ID.scope (systemd). crio-conmon-ID.scope is that of the container's guard, which is a process of the node.
func containerOf(element []byte) (string, bool) {
	name := bytes.TrimSuffix(element, []byte(".scope"))
	if len(name) < idDigits {
		return "", false
	}
	prefix, id := name[:len(name)-idDigits], name[len(name)-idDigits:]
	if !isHex(id) || len(prefix) > 0 && prefix[len(prefix)-1] != '-' || bytes.HasSuffix(prefix, []byte("conmon-")) {
		return "", false
	}
	return string(id), true
}

// podOf reads an element that is a Pod's: podUID (cgroupfs), or kubepods-QOS-podUID.slice (systemd), where kubepods may follow the name of
// the kubelet's own root and the UID has underscores for its dashes, which systemd takes for steps of the path.
func podOf(element []byte) (string, bool) {
	name, systemd := bytes.CutSuffix(element, []byte(".slice"))
	if systemd {
		name = name[bytes.LastIndexByte(name, '-')+1:]
	}
	uid, ok := bytes.CutPrefix(name, []byte("pod"))
	if !ok {
		return "", false
	}
	if systemd {
		uid = bytes.ReplaceAll(uid, []byte("_"), []byte("-"))
	}
	if !isUID(uid) {
		return "", false
	}
	return string(uid), true
}

// isUID accepts the UUIDs of the API and the bare MD5 sums of static Pods.
func isUID(b []byte) bool {
	switch len(b) {
	case 32:
		return isHex(b)
	case 36:
		return b[8] == '-' && b[13] == '-' && b[18] == '-' && b[23] == '-' &&
			isHex(b[:8]) && isHex(b[9:13]) && isHex(b[14:18]) && isHex(b[19:23]) && isHex(b[24:])
	}
	return false
}

func isHex(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
