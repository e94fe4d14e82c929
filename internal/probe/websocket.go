package probe

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drainproof/drainproof/internal/wire/websocket"
)

// sockets are the open WebSockets, which the HTTP server has let go of.
type sockets struct {
	serving sync.WaitGroup
	mu      sync.Mutex
	closed  bool // none may be added any more
	all     map[*socket]struct{}
}

// socket is one of them. Its owner reads; answers and the end from our side are written under mu.
type socket struct {
	net.Conn
	mu    sync.Mutex
	ended bool // a close frame was sent, nothing may follow it
}

// webSocket answers pings with pongs and echoes messages until either side ends it.
func (h *httpServer) webSocket(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Sec-WebSocket-Key")
	nonce, err := base64.StdEncoding.DecodeString(key)
	if !names(r, "Connection", "upgrade") || !names(r, "Upgrade", "websocket") || r.Header.Get("Sec-WebSocket-Version") != "13" || err != nil || len(nonce) != 16 {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Sec-WebSocket-Version", "13")
		plain(w, http.StatusUpgradeRequired, "this is a WebSocket, version 13\n")
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		plain(w, http.StatusBadRequest, "a WebSocket needs HTTP/1.1\n")
		return
	}
	s := &socket{Conn: conn}
	if !h.sockets.add(s) {
		_ = conn.Close()
		return
	}
	defer h.sockets.remove(s)
	_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n%s: %s\r\n%s: %s\r\n\r\n",
		websocket.AcceptKey(key), HeaderInstance, h.log.instance, HeaderPodUID, h.log.podUID)
	if err == nil {
		s.serve(websocket.NewReader(buffered, true))
	}
}

// names tells whether a header's list holds a token.
func names(r *http.Request, header, token string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(r.Header.Values(header), ","), ","), func(s string) bool {
		return strings.EqualFold(strings.TrimSpace(s), token)
	})
}

func (s *socket) serve(in *websocket.Reader) {
	for {
		op, payload, err := in.Next()
		switch violation, ok := errors.AsType[*websocket.Violation](err); {
		case ok:
			s.end(violation.Code)
			s.part()
			return
		case err != nil:
			return
		}
		switch op {
		case websocket.Ping:
			err = s.send(websocket.Pong, payload)
		case websocket.Text, websocket.Binary:
			err = s.send(op, payload)
		case websocket.Close:
			code, _ := websocket.CloseCode(payload)
			s.end(code)
			s.part()
			return
		}
		if err != nil {
			return
		}
	}
}

func (s *socket) send(op websocket.Opcode, payload []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	_, err := s.Write(websocket.AppendFrame(nil, op, payload))
	return err
}

// end sends a close frame, unless one was sent: then the other end's is its answer.
func (s *socket) end(code int) {
	var payload []byte
	if code != websocket.CloseNoStatus {
		payload = websocket.ClosePayload(code, "")
	}
	// Whoever does not read must not hold the end up. The deadline frees a write under way, too.
	_ = s.SetDeadline(time.Now().Add(goodbye))
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		_, _ = s.Write(websocket.AppendFrame(nil, websocket.Close, payload))
	}
}

// part sends the FIN and reads until the client's, so that no reset follows what was sent.
func (s *socket) part() {
	if tcp, ok := s.Conn.(*net.TCPConn); ok && tcp.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, onlyReader{s})
	}
}

func (s *sockets) add(one *socket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.all[one] = struct{}{}
	s.serving.Add(1)
	return true
}

func (s *sockets) remove(one *socket) {
	_ = one.Close()
	s.mu.Lock()
	delete(s.all, one)
	s.mu.Unlock()
	s.serving.Done()
}

// shut takes no further sockets, and gives those that are there.
func (s *sockets) shut() []*socket {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	out := make([]*socket, 0, len(s.all))
	for one := range s.all {
		out = append(out, one)
	}
	return out
}

// leave tells every client that the server goes away, and waits for their answers, at most goodbye long.
func (s *sockets) leave() {
	var telling sync.WaitGroup
	for _, one := range s.shut() {
		telling.Go(func() { one.end(websocket.CloseGoingAway) })
	}
	telling.Wait()
	s.serving.Wait()
}

// cut closes every socket, with a reset where reset is set.
func (s *sockets) cut(reset bool) (cut int) {
	for _, one := range s.shut() {
		if tcp, ok := one.Conn.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0)
			cut++
		}
		_ = one.Close()
	}
	return cut
}
