package held

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drainproof/drainproof/internal/record"
	"github.com/drainproof/drainproof/internal/traffic/request"
	"github.com/drainproof/drainproof/internal/wire/websocket"
)

// maxHandshake bounds the head of the answer to a handshake.
const maxHandshake = 64 << 10

// goodCodes end a WebSocket in order: the server is done, goes away, restarts or
// wants to be asked again later. No code at all says nothing against it either.
var goodCodes = []int{
	websocket.CloseNormal, websocket.CloseGoingAway, websocket.CloseNoStatus, websocket.CloseServiceRestart, websocket.CloseTryAgainLater,
}

type webSocket struct {
	plan request.Plan
	// before and after stand around the key in the handshake's request.
	before, after string
}

func newWebSocket(p request.Plan) *webSocket {
	host := cmp.Or(p.Target.Authority, net.JoinHostPort(p.Target.Host, strconv.Itoa(int(p.Target.Port))))
	var b strings.Builder
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n", p.Target.Path, host)
	for _, h := range p.Target.Headers {
		fmt.Fprintf(&b, "%s: %s\r\n", h.Name, h.Value)
	}
	return &webSocket{plan: p, before: b.String() + "Sec-WebSocket-Key: ", after: "\r\n\r\n"}
}

// greet does the handshake (RFC 6455, 4.1).
func (w *webSocket) greet(ctx context.Context, c *conn) *request.End {
	unwatch := context.AfterFunc(ctx, func() { _ = c.nc.SetDeadline(time.Unix(1, 0)) })
	defer unwatch()
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails (crypto/rand)
	key := base64.StdEncoding.EncodeToString(nonce[:])
	fail := func(phase record.RequestPhase, err error) *request.End {
		end := c.u.e.endOf(err, phase, request.EndBadAnswer)
		return &end
	}
	if _, err := io.WriteString(c.nc, w.before+key+w.after); err != nil {
		return fail(record.PhaseSend, err)
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(time.Duration(w.plan.Limits.FirstByteNs)))
	if ctx.Err() != nil { // it ended before the deadline was set, which has undone what AfterFunc did
		return fail(record.PhaseFirstByte, ctx.Err())
	}
	head := &io.LimitedReader{R: c, N: maxHandshake}
	c.in = bufio.NewReader(head)
	if _, err := c.in.Peek(1); err != nil {
		return fail(record.PhaseFirstByte, err)
	}
	res, err := http.ReadResponse(c.in, &http.Request{Method: http.MethodGet})
	if err != nil {
		end := fail(record.PhaseBody, err)
		switch { // in our words: the library's repeat what the server sent
		case head.N <= 0:
			end.Kind, end.Message = request.EndBadAnswer, "the head of the handshake's answer is over 64 KiB"
		case end.Kind == request.EndBadAnswer:
			end.Message = "the handshake's answer is no HTTP"
		}
		return end
	}
	// A body, which no switch of protocols has, is not read: the connection ends with it.
	if bad := w.judge(c, res, key); bad != "" {
		if c.status != 0 {
			return &request.End{Kind: request.EndAnswered, Phase: record.PhaseDone, Message: bad} // by HTTP, whole as far as it matters
		}
		return &request.End{Kind: request.EndBadAnswer, Phase: record.PhaseBody, Message: bad}
	}
	head.N = math.MaxInt64
	if !unwatch() {
		return fail(record.PhaseBody, ctx.Err())
	}
	_ = c.nc.SetDeadline(time.Time{})
	return nil
}

// judge says what is wrong with the answer to a handshake (RFC 6455, 4.1), "" for nothing.
func (w *webSocket) judge(c *conn, res *http.Response, key string) string {
	has := func(field, token string) bool {
		return slices.ContainsFunc(strings.Split(strings.Join(res.Header.Values(field), ","), ","), func(s string) bool {
			return strings.EqualFold(strings.TrimSpace(s), token)
		})
	}
	if w.plan.InstanceHeader != "" {
		c.instance = res.Header.Get(w.plan.InstanceHeader)
	}
	switch {
	case res.StatusCode != http.StatusSwitchingProtocols:
		c.status = res.StatusCode
		return fmt.Sprintf("the handshake was answered with status %d", res.StatusCode)
	case !has("Upgrade", "websocket"), !has("Connection", "upgrade"):
		return "the handshake's answer switches to no WebSocket"
	case res.Header.Get("Sec-WebSocket-Accept") != websocket.AcceptKey(key):
		return "the handshake's answer has a wrong Sec-WebSocket-Accept"
	case res.Header.Get("Sec-WebSocket-Extensions") != "":
		return "the handshake's answer names an extension that was not offered"
	}
	return ""
}

// ask is a ping with the number of its exchange.
func (w *webSocket) ask(x *exchange) []byte {
	return masked(websocket.Ping, binary.BigEndian.AppendUint64(nil, x.seq))
}

func masked(op websocket.Opcode, payload []byte) []byte {
	var key [4]byte
	_, _ = rand.Read(key[:])
	return websocket.AppendMasked(nil, op, key, payload)
}

func (w *webSocket) hear(c *conn) {
	in := websocket.NewReader(c.in, false)
	for {
		op, payload, err := in.Next()
		if violation, ok := errors.AsType[*websocket.Violation](err); ok {
			c.lose(request.End{Kind: request.EndBadAnswer, Phase: record.PhaseFirstByte, Message: violation.Why})
			c.part(violation.Code)
			return
		}
		if err != nil {
			c.lose(c.u.e.endOf(err, record.PhaseFirstByte, request.EndBadAnswer))
			return
		}
		switch op {
		case websocket.Ping:
			c.u.mu.Lock()
			c.pong = masked(websocket.Pong, payload)
			c.u.mu.Unlock()
			c.poke()
		case websocket.Pong:
			if len(payload) == 8 {
				seq := binary.BigEndian.Uint64(payload)
				c.answer(func(asked []*exchange, _ int64) []*exchange { return upTo(asked, seq) })
			}
		case websocket.Close:
			code, _ := websocket.CloseCode(payload)
			if slices.Contains(goodCodes, code) {
				c.announced()
			} else {
				c.lose(request.End{Kind: request.EndStreamReset, Phase: record.PhaseFirstByte, Message: fmt.Sprintf("close %d", code)})
			}
			c.part(code)
			return
		}
	}
}

// upTo are the exchanges that a pong for seq answers: its own and those that were asked before. None where seq is not under way, such as when its time had run out.
func upTo(asked []*exchange, seq uint64) []*exchange {
	return asked[:1+slices.IndexFunc(asked, func(x *exchange) bool { return x.seq == seq })]
}

// part answers a close frame, or sends the first one, and gives the server a moment to close the connection, as it should do first (RFC 6455, 7.1.1).
func (c *conn) part(code int) {
	var payload []byte
	if code != websocket.CloseNoStatus {
		payload = websocket.ClosePayload(code, "")
	}
	c.u.mu.Lock()
	c.bye = masked(websocket.Close, payload)
	c.u.mu.Unlock()
	c.poke()
	_ = c.nc.SetReadDeadline(time.Now().Add(goodbye))
	_, _ = io.Copy(io.Discard, c.in) // ends with the server's FIN, an error or the deadline: all the same now
}

// leave closes with 1000. The reader takes the server's answer, and part sends nothing twice.
func (w *webSocket) leave(c *conn) {
	c.bye = masked(websocket.Close, websocket.ClosePayload(websocket.CloseNormal, ""))
	c.poke()
	_ = c.nc.SetReadDeadline(time.Now().Add(goodbye))
}
