package probe

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2c is a client that speaks HTTP/2 without TLS by prior knowledge.
func h2c(t *testing.T) *http.Client {
	t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestHTTP2(t *testing.T) {
	r := start(t, Config{Behaviour: Ignore})
	res, err := h2c(t).Get("http://" + r.http + PathWho)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.ProtoMajor != 2 || res.StatusCode != 200 || !strings.Contains(string(b), "probe-a") || res.Header.Get(HeaderInstance) != "probe-a" {
		t.Errorf("%+v %s %v", res, b, err)
	}
}

func TestGRPC(t *testing.T) {
	r := start(t, Config{Behaviour: Ignore})
	client := h2c(t)
	call := func(path string) (*http.Response, []byte) {
		t.Helper()
		res, err := client.Post("http://"+r.http+path, "application/grpc", bytes.NewReader([]byte{0, 0, 0, 0, 0}))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, b
	}
	res, b := call(PathCheck)
	if !bytes.Equal(b, []byte{0, 0, 0, 0, 2, 8, 1}) || res.Trailer.Get("Grpc-Status") != "0" || res.Header.Get("Content-Type") != "application/grpc" || res.Header.Get(HeaderInstance) != "probe-a" {
		t.Errorf("check: %+v % x", res, b)
	}
	res, b = call("/other.Service/Method")
	if len(b) != 0 || res.StatusCode != 200 || res.Header.Get("Grpc-Status") != "12" {
		t.Errorf("an unknown method: %+v % x", res, b)
	}
}

// watcher holds a Watch stream on a bare HTTP/2 connection.
type watcher struct {
	*kept
	frames *http2.Framer
}

func watch(t *testing.T, r *running) *watcher {
	t.Helper()
	k := keep(t, r)
	w := &watcher{kept: k, frames: http2.NewFramer(k.c, k.r)}
	w.frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "probe"}, {":path", PathWatch}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		if err := enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(k.c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := w.frames.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if err := w.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	if head := w.next(http2.FrameHeaders).(*http2.MetaHeadersFrame); head.PseudoValue("status") != "200" || head.StreamEnded() {
		t.Fatalf("the stream begins with %v", head)
	}
	if data := w.next(http2.FrameData).(*http2.DataFrame); !bytes.Equal(data.Data(), serving) || data.StreamEnded() {
		t.Fatalf("the stream says %v", data)
	}
	return w
}

// next is the next frame that is not about the connection's housekeeping; it must be of a kind.
func (w *watcher) next(kind http2.FrameType) http2.Frame {
	w.t.Helper()
	for {
		f, err := w.frames.ReadFrame()
		if err != nil {
			w.t.Fatalf("waiting for %v: %v", kind, err)
		}
		switch f.Header().Type {
		case http2.FrameSettings, http2.FrameWindowUpdate, http2.FramePing:
		case kind:
			return f
		default:
			w.t.Fatalf("waiting for %v: %v", kind, f)
		}
	}
}

func TestAWatchIsEndedAfterTheGoaway(t *testing.T) {
	r := start(t, Config{Behaviour: Finish, Announce: true, DrainWindow: time.Minute})
	w := watch(t, r)
	r.signals <- syscall.SIGTERM
	if g := w.next(http2.FrameGoAway).(*http2.GoAwayFrame); g.LastStreamID != 1 || g.ErrCode != http2.ErrCodeNo {
		t.Errorf("%v", g)
	}
	trailers := w.next(http2.FrameHeaders).(*http2.MetaHeadersFrame)
	if !trailers.StreamEnded() || !slices.ContainsFunc(trailers.Fields, func(f hpack.HeaderField) bool { return f.Name == "grpc-status" && f.Value == "14" }) {
		t.Errorf("the stream ends with %v", trailers)
	}
	_ = w.c.Close()
	<-r.exited
}

func TestStreamsAreCutWithoutAWord(t *testing.T) {
	for name, c := range map[string]Config{
		"finish": {Behaviour: Finish, DrainWindow: time.Minute},
		"exit":   {Behaviour: Exit},
	} {
		r := start(t, c)
		w := watch(t, r)
		r.signals <- syscall.SIGTERM
		for {
			f, err := w.frames.ReadFrame()
			if err != nil {
				if err != io.EOF {
					t.Errorf("%s: the connection ended with %v", name, err)
				}
				break
			}
			switch f.Header().Type {
			case http2.FrameSettings, http2.FrameWindowUpdate:
			default:
				t.Errorf("%s: got %v", name, f)
			}
		}
		<-r.exited
	}
}
