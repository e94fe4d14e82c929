package request

import "github.com/drainproof/drainproof/internal/record"

// Classify turns a raw end into an outcome. Pure and total; it says no more than the facts do.
func Classify(m Mode, expect []StatusRange, e End, status int) record.RequestOutcome {
	began := e.Phase == record.PhaseBody
	switch e.Kind {
	case EndAnswered:
		switch {
		case m == WebSocket && status != 0 && status != switching:
			return record.HTTPError // in place of the switch of protocols
		case m.Held() && m != GRPCStream, Expected(expect, status):
			return record.OK
		}
		if m == GRPC || m == GRPCStream {
			return record.GRPCError
		}
		return record.HTTPError
	case EndErrno:
		return ofErrno(e)
	case EndEOF:
		switch {
		case e.Phase == record.PhaseTLS:
			return record.TLSFailure
		case began:
			return record.Truncated
		default:
			return record.EOFBeforeResponse
		}
	case EndTimeout:
		switch e.Phase {
		case record.PhaseDNS:
			return record.DNSFailure
		case record.PhaseConnect:
			return record.ConnectTimeout
		case record.PhaseTLS:
			return record.TLSFailure
		default:
			return record.ResponseTimeout
		}
	case EndNoName:
		return record.DNSFailure
	case EndBadTLS:
		return record.TLSFailure
	case EndGoaway:
		return record.GoawayUnprocessed
	case EndStreamReset:
		if began {
			return record.ResetMidResponse
		}
		return record.ResetBeforeResponse
	case EndBadAnswer:
		return record.ProtocolError
	default:
		return record.ClientLimited
	}
}

// switching is the status that opens a WebSocket (RFC 6455, 4.2.2).
const switching = 101

func ofErrno(e End) record.RequestOutcome {
	if e.Phase == record.PhaseDNS && ofServer(e.Errno) {
		return record.DNSFailure // the name server's end, not the workload's
	}
	switch e.Errno {
	case "ECONNREFUSED":
		return record.Refused
	case "ECONNRESET", "EPIPE", "ECONNABORTED", "ENETRESET":
		switch e.Phase {
		case record.PhaseConnect:
			return record.Refused // a RST for the SYN, seen late
		case record.PhaseTLS:
			return record.TLSFailure
		case record.PhaseBody:
			return record.ResetMidResponse
		default:
			return record.ResetBeforeResponse
		}
	case "EHOSTUNREACH", "ENETUNREACH", "EHOSTDOWN", "ENETDOWN", "EACCES", "ENOPROTOOPT", "ENONET", "EPROTO":
		// As ip(7) and the kernel's icmp_err_convert and icmpv6_err_convert have ICMP's codes.
		return record.Unreachable
	case "ETIMEDOUT":
		switch e.Phase {
		case record.PhaseConnect:
			return record.ConnectTimeout
		case record.PhaseTLS:
			return record.TLSFailure
		}
		return record.ResponseTimeout
	default:
		// EMFILE, ENFILE, EADDRNOTAVAIL, ENOBUFS, ENOMEM, EPERM and the like: nothing that the workload did.
		return record.ClientLimited
	}
}

// ofServer reports whether an errno speaks of the other side or the way to it, and not of this machine.
func ofServer(errno string) bool {
	switch errno {
	case "ECONNREFUSED", "ECONNRESET", "EPIPE", "ECONNABORTED", "ENETRESET", "EHOSTUNREACH", "ENETUNREACH", "EHOSTDOWN", "ENETDOWN", "ETIMEDOUT",
		"EACCES", "ENOPROTOOPT", "ENONET", "EPROTO":
		return true
	}
	return false
}

// Expected reports whether the status lies in one of the ranges.
func Expected(ranges []StatusRange, status int) bool {
	for _, r := range ranges {
		if status >= r.From && status <= r.To {
			return true
		}
	}
	return false
}

// Retryable reports whether a client may send such a request again without asking its user: nothing of a response had
// come, and either the server said that it had not taken it on, or the connection was a kept one that the
// server closed (RFC 9110, 9.2.2 allows it for idempotent methods), or none was established.
func Retryable(o record.RequestOutcome, k EndKind, reused, idempotent bool) bool {
	switch o {
	case record.Refused, record.Unreachable, record.ConnectTimeout, record.GoawayUnprocessed:
		return true
	case record.EOFBeforeResponse, record.ResetBeforeResponse:
		return reused && idempotent && k != EndStreamReset // that one broke no connection
	default:
		return false
	}
}

// Idempotent reports whether the method is (RFC 9110, 9.2.2).
func Idempotent(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return true
	}
	return false
}
