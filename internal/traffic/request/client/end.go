package client

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// firstPhase stands in the results of requests that never began.
const firstPhase = record.PhaseDNS

// endOf turns an error of a connection into a raw end.
func endOf(err error, phase record.RequestPhase) request.End {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return request.End{Kind: request.EndErrno, Phase: phase, Errno: request.Symbol(errno)}
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return request.End{Kind: request.EndTimeout, Phase: phase}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return request.End{Kind: request.EndEOF, Phase: phase}
	case errors.Is(err, net.ErrClosed), errors.Is(err, context.Canceled):
		return limitEnd(phase, "closed by the client")
	default:
		// Only crypto/tls has errors of other kinds: alerts, certificates, records that are none.
		return request.End{Kind: request.EndBadTLS, Phase: phase, Message: brief(err.Error())}
	}
}

func limitEnd(phase record.RequestPhase, why string) request.End {
	return request.End{Kind: request.EndClientLimit, Phase: phase, Message: brief(why)}
}

func badAnswer(phase record.RequestPhase, why string) request.End {
	return request.End{Kind: request.EndBadAnswer, Phase: phase, Message: brief(why)}
}

// briefLen bounds messages in bytes: a peer may say anything, and every failure is kept.
const briefLen = 200

// brief makes one short line of valid text of what a peer or a library said.
func brief(s string) string {
	if len(s) > briefLen {
		s = s[:briefLen]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}
