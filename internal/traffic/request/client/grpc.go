package client

import (
	"encoding/binary"
	"fmt"
	"net/url"
	"strconv"

	"golang.org/x/net/http2/hpack"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
)

// grpcFields is the header of a gRPC call, as the protocol's description orders it (PROTOCOL-HTTP2.md of grpc/grpc).
func grpcFields(p request.Plan) []hpack.HeaderField {
	fields := append(pseudoFields(p, "POST"), hpack.HeaderField{Name: "te", Value: "trailers"})
	if !p.Mode.Held() {
		fields = append(fields, hpack.HeaderField{Name: "grpc-timeout", Value: grpcTimeout(p.Limits.WholeNs)})
	}
	fields = append(fields, hpack.HeaderField{Name: "content-type", Value: "application/grpc"})
	return appendHeaders(fields, p.Target.Headers)
}

// grpcTimeout writes a duration in at most eight digits, as exactly as these allow and never shorter.
func grpcTimeout(ns int64) string {
	const most = 99_999_999
	for _, unit := range []struct {
		name string
		ns   int64
	}{{"n", 1}, {"u", 1e3}, {"m", 1e6}, {"S", 1e9}} {
		if n := (ns-1)/unit.ns + 1; n <= most {
			return strconv.FormatInt(n, 10) + unit.name
		}
	}
	return strconv.Itoa(most) + "S" // three years
}

// grpcMessage precedes one message with a flag (not compressed) and its length.
func grpcMessage(encoded []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(encoded))), encoded...)
}

// judgeStatus takes the gRPC status of a response that is whole; one without is no answer.
func judgeStatus(a *attempt, r *reply) {
	status, err := strconv.ParseUint(r.grpcStatus, 10, 31)
	if err != nil {
		a.Status = noGRPCStatus
		a.End = badAnswer(record.PhaseBody, fmt.Sprintf("HTTP status %d without a grpc-status", r.status))
		return
	}
	a.Status = int(status)
	message, err := url.PathUnescape(r.grpcMessage)
	if err != nil {
		message = r.grpcMessage
	}
	a.End.Message = brief(message)
}

// judgeUnary demands one whole message with the status OK as well.
func judgeUnary(a *attempt, r *reply) {
	judgeStatus(a, r)
	if a.End.Kind != request.EndAnswered || a.Status != 0 {
		return
	}
	if len(r.prefix) < prefixLen || r.data != prefixLen+int64(binary.BigEndian.Uint32(r.prefix[1:])) {
		a.End = badAnswer(record.PhaseBody, fmt.Sprintf("grpc-status 0 with %d bytes that are not one message", r.data))
	}
}
