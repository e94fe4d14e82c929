package probe

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/drainproof/drainproof/internal/wire/websocket"
)

// webSocket is a client's end of one.
type webSocket struct {
	*kept
	in *websocket.Reader
}

func upgrade(t *testing.T, r *running) *webSocket {
	t.Helper()
	k := keep(t, r)
	const key = "dGhlIHNhbXBsZSBub25jZQ==" // of RFC 6455, 1.3, as is its answer
	if _, err := io.WriteString(k.c, "GET "+PathWS+" HTTP/1.1\r\nHost: probe\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "+key+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(k.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != 101 || res.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" || res.Header.Get(HeaderInstance) != "probe-a" || res.Header.Get(HeaderPodUID) != "uid-a" {
		t.Fatalf("handshake: %+v", res)
	}
	return &webSocket{kept: k, in: websocket.NewReader(k.r, false)}
}

func (w *webSocket) say(op websocket.Opcode, payload string) {
	w.t.Helper()
	if _, err := w.c.Write(websocket.AppendMasked(nil, op, [4]byte{1, 2, 3, 4}, []byte(payload))); err != nil {
		w.t.Fatal(err)
	}
}

func (w *webSocket) expect(op websocket.Opcode, payload string) {
	w.t.Helper()
	if got, b, err := w.in.Next(); err != nil || got != op || string(b) != payload {
		w.t.Fatalf("got %d %q %v, want %d %q", got, b, err, op, payload)
	}
}

func closeWith(code int) string { return string(websocket.ClosePayload(code, "")) }

func TestWebSocket(t *testing.T) {
	r := start(t, Config{Behaviour: Ignore})
	w := upgrade(t, r)
	w.say(websocket.Ping, "alive?")
	w.expect(websocket.Pong, "alive?")
	w.say(websocket.Text, "hello")
	w.expect(websocket.Text, "hello")
	long := string(bytes.Repeat([]byte("long "), 20000))
	w.say(websocket.Binary, long)
	w.expect(websocket.Binary, long)
	for _, code := range []int{websocket.CloseNormal, websocket.CloseNoStatus} {
		payload := closeWith(code)
		if code == websocket.CloseNoStatus {
			payload = ""
		}
		w := upgrade(t, r)
		w.say(websocket.Close, payload)
		w.expect(websocket.Close, payload)
		if _, _, err := w.in.Next(); err != io.EOF {
			t.Errorf("after the close: %v", err)
		}
	}
	if _, err := w.c.Write(websocket.AppendFrame(nil, websocket.Ping, nil)); err != nil { // without a mask
		t.Fatal(err)
	}
	w.expect(websocket.Close, closeWith(websocket.CloseProtocolError))
}

func TestWhatIsNoWebSocket(t *testing.T) {
	r := start(t, Config{Behaviour: Ignore})
	if code, _ := status(t, r, PathWS); code != 426 {
		t.Errorf("no handshake: %d", code)
	}
	k := keep(t, r)
	_, _ = io.WriteString(k.c, "GET "+PathWS+" HTTP/1.1\r\nHost: probe\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n\r\n")
	if res := k.hear(); res.StatusCode != 426 || res.Header.Get("Sec-WebSocket-Version") != "13" {
		t.Errorf("a bad key: %+v", res)
	}
}

func TestWebSocketsAreToldOfTheEnd(t *testing.T) {
	r := start(t, Config{Behaviour: Finish, Announce: true, DrainWindow: time.Minute})
	w, deaf := upgrade(t, r), upgrade(t, r)
	r.signals <- syscall.SIGTERM
	w.expect(websocket.Close, closeWith(websocket.CloseGoingAway))
	w.say(websocket.Close, closeWith(websocket.CloseGoingAway))
	if _, _, err := w.in.Next(); err != io.EOF {
		t.Errorf("after the close: %v", err)
	}
	deaf.expect(websocket.Close, closeWith(websocket.CloseGoingAway))
	<-r.exited // also though one does not answer
}

func TestWebSocketsAreCutWithoutAWord(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		want   error
	}{
		"finish": {Config{Behaviour: Finish, DrainWindow: time.Minute}, io.EOF},
		"drain":  {Config{Behaviour: Drain}, io.EOF},
		"exit":   {Config{Behaviour: Exit}, io.EOF},
		"reset":  {Config{Behaviour: Exit, ForceRST: true}, syscall.ECONNRESET},
	} {
		r := start(t, c.config)
		w := upgrade(t, r)
		r.signals <- syscall.SIGTERM
		if _, _, err := w.in.Next(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		<-r.exited
	}
}
