//go:build amd64 || arm64

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

const (
	whyNoRights = "not permitted: needs the capabilities BPF and PERFMON, or SYS_ADMIN, in the first user namespace, and no lockdown of the kernel for confidentiality"
	whyNoFentry = "not permitted: this machine lets programs observe tracepoints, but not functions (fentry)"
	whyNoBTF    = "this kernel has no type information (/sys/kernel/btf/vmlinux, CONFIG_DEBUG_INFO_BTF)"
)

// errLeftOut is what Options.without answers.
var errLeftOut = errors.New("left out")

// why puts into words why a program is not attached to its hook ("raw_tp/tcp_send_reset", "fentry/nf_ct_delete"). others tells whether any
// other program is: then it is not for want of rights.
func why(hook string, err error, others bool) string {
	kind, name, _ := strings.Cut(hook, "/")
	tracepoint, function := kind == "raw_tp", kind == "fentry"
	switch {
	case errors.Is(err, errLeftOut):
		return hook + ": left out"
	case errors.Is(err, unix.EPERM) && function && others:
		return whyNoFentry
	case errors.Is(err, unix.EPERM):
		return whyNoRights
	case function && errors.Is(err, btf.ErrNotFound):
		return fmt.Sprintf("this kernel has no function %s that can be traced, or the module that has it is not loaded", name)
	case tracepoint && errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("this kernel has no tracepoint %s", name)
	case tracepoint && errors.Is(err, unix.EINVAL) && !isRefused(err):
		return fmt.Sprintf("tracepoint %s has fewer arguments in this kernel", name)
	case function && errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Sprintf("this kernel cannot trace functions (%s): it needs CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS, and on arm64 Linux 6.0", name)
	}
	return fmt.Sprintf("%s: %v", hook, err)
}

// isRefused tells an error of the verifier, which has its own words, from one of attaching.
func isRefused(err error) bool {
	_, ok := errors.AsType[*ebpf.VerifierError](err)
	return ok
}
