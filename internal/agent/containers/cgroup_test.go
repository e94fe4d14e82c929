package containers

import (
	"strings"
	"testing"
)

const (
	podA     = "0f5ad5b6-3a1c-4a52-8f0e-9d3b7c1e2a44"
	podB     = "7c2f9a10-55d2-4b0e-9a63-0a1b2c3d4e5f"
	podHash  = "b3d1f0c2a4e5968778695a4b3c2d1e0f"
	sliceOfA = "pod0f5ad5b6_3a1c_4a52_8f0e_9d3b7c1e2a44.slice"
)

var (
	one = strings.Repeat("0123456789abcdef", 4)
	two = strings.Repeat("fedcba9876543210", 4)
)

func TestFromCgroup(t *testing.T) {
	for _, tt := range []struct{ name, text, pod, id string }{
		{"version 2, systemd, containerd, burstable", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-" + sliceOfA + "/cri-containerd-" + one + ".scope\n", podA, one},
		{"version 2, systemd, guaranteed", "0::/kubepods.slice/kubepods-" + sliceOfA + "/cri-containerd-" + one + ".scope\n", podA, one},
		{"version 2, cgroupfs, besteffort", "0::/kubepods/besteffort/pod" + podA + "/" + one + "\n", podA, one},
		{"version 2, cgroupfs, guaranteed", "0::/kubepods/pod" + podA + "/" + one, podA, one},
		{"a static Pod", "0::/kubepods/burstable/pod" + podHash + "/" + one + "\n", podHash, one},
		{"a static Pod, systemd", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + podHash + ".slice/cri-containerd-" + one + ".scope\n", podHash, one},
		{"CRI-O", "0::/kubepods.slice/kubepods-" + sliceOfA + "/crio-" + one + ".scope\n", podA, one},
		{"CRI-O, a group of the container's own", "0::/kubepods.slice/kubepods-" + sliceOfA + "/crio-" + one + ".scope/container\n", podA, one},
		{"CRI-O's guard", "0::/system.slice/crio-conmon-" + one + ".scope\n", "", ""},
		{"CRI-O's guard in the Pod's group", "0::/kubepods.slice/kubepods-" + sliceOfA + "/crio-conmon-" + one + ".scope\n", podA, ""},
		{"Docker", "0::/system.slice/docker-" + one + ".scope\n", "", one},
		{"Docker, in a Pod", "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-" + sliceOfA + "/docker-" + one + ".scope\n", podA, one},
		{"Docker, version 1", "12:pids:/docker/" + one + "\n1:name=systemd:/docker/" + one + "\n", "", one},
		{"version 1", "11:memory:/kubepods/burstable/pod" + podA + "/" + one + "\n5:cpu,cpuacct:/kubepods/burstable/pod" + podA + "/" + one + "\n", podA, one},
		{"version 1, not all controllers", "11:rdma:/\n5:cpu,cpuacct:/kubepods/burstable/pod" + podA + "/" + one + "\n0::/\n", podA, one},
		{"version 1, one line that tells less", "11:rdma:/docker/" + two + "\n5:cpu:/kubepods/pod" + podA + "/" + one + "\n0::/\n", podA, one},
		{"systemd's path without systemd", "0::/system.slice/containerd.service/kubepods-burstable-" + sliceOfA + ":cri-containerd:" + one + "\n", podA, one},
		{"from another cgroup namespace", "0::/../../kubepods-besteffort.slice/kubepods-besteffort-" + sliceOfA + "/cri-containerd-" + one + ".scope\n", podA, one},
		{"from another cgroup namespace, cgroupfs", "0::/../../pod" + podA + "/" + one + "\n", podA, one},
		{"from a container of the same Pod", "0::/../cri-containerd-" + one + ".scope\n", "", one},
		{"a node that is a container, seen from outside", "0::/system.slice/docker-" + two + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-" + sliceOfA +
			"/cri-containerd-" + one + ".scope\n", podA, one},
		{"a cluster in a Pod", "0::/kubepods/pod" + podA + "/" + one + "/kubelet/kubepods/pod" + podB + "/" + two + "\n", podA, one},
		{"a Docker in a Pod", "0::/kubepods/pod" + podA + "/" + one + "/docker/" + two + "\n", podA, one},
		{"a systemd in a container", "0::/kubepods/pod" + podA + "/" + one + "/init.scope\n", podA, one},
		{"the Pod's group itself", "0::/kubepods/pod" + podA + "\n", podA, ""},
		{"a process of the node", "0::/system.slice/kubelet.service\n", "", ""},
		{"a user's", "0::/user.slice/user-1000.slice/session-1.scope\n", "", ""},
		{"an id with more before it", "0::/kubepods/pod" + podA + "/ff" + one + "\n", podA, ""},
		{"an id in capitals", "0::/docker/" + strings.ToUpper(one) + "\n", "", ""},
		{"no UID", "0::/podman/pod-of-mine/podinfo.slice\n", "", ""},
		{"a UID that is none", "0::/kubepods/pod0f5ad5b6-3a1c-4a52-8f0e+9d3b7c1e2a44\n", "", ""},
		{"the root", "0::/\n", "", ""},
		{"nothing", "", "", ""},
		{"no path", "0:\n:\n\n", "", ""},
	} {
		if pod, id := FromCgroup([]byte(tt.text)); pod != tt.pod || id != tt.id {
			t.Errorf("%s: %q, %q; want %q, %q", tt.name, pod, id, tt.pod, tt.id)
		}
	}
}

func FuzzFromCgroup(f *testing.F) {
	f.Add("0::/kubepods.slice/kubepods-" + sliceOfA + "/cri-containerd-" + one + ".scope\n")
	f.Add("5:cpu,cpuacct:/kubepods/burstable/pod" + podA + "/" + one + "\n0::/\n")
	f.Fuzz(func(t *testing.T, text string) {
		pod, id := FromCgroup([]byte(text))
		if id != "" && (len(id) != idDigits || !isHex([]byte(id))) || pod != "" && !isUID([]byte(pod)) {
			t.Errorf("%q: %q, %q", text, pod, id)
		}
	})
}
