package http1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// seen is what a parser told of one response.
type seen struct {
	Status    int
	KeepAlive bool
	Instance  string
	Left      string // what was not consumed
	Done      bool
	EOFDone   bool
}

// feed gives the pieces to a parser until it is done; what follows is left.
func feed(p *Parser, method string, pieces ...string) (seen, error) {
	p.Reset(method)
	left, done := "", false
	for _, piece := range pieces {
		n, d, err := p.Feed([]byte(piece))
		if err != nil {
			return seen{}, err
		}
		left, done = left+piece[n:], d
	}
	return seen{Status: p.Status, KeepAlive: p.KeepAlive, Instance: string(p.Instance), Left: left, Done: done, EOFDone: p.EOF()}, nil
}

type response struct {
	name, method, text string
	want               seen
}

func whole200(status int, keep bool) seen {
	return seen{Status: status, KeepAlive: keep, Done: true, EOFDone: true}
}

func responses() []response {
	named := whole200(200, true)
	named.Instance = "web-1"
	rest := seen{Status: 200, EOFDone: true}
	return []response{
		{"length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", whole200(200, true)},
		{"no body", "GET", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", whole200(503, true)},
		{"no reason", "GET", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", whole200(200, true)},
		{"empty reason", "GET", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", whole200(200, true)},
		{"line feeds alone", "GET", "HTTP/1.1 200 OK\nContent-Length: 2\n\nab", whole200(200, true)},
		{"equal lengths", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\nContent-Length: 2\r\n\r\nab", whole200(200, true)},
		{"instance", "GET", "HTTP/1.1 200 OK\r\nX-INSTANCE: \t web-1 \r\nContent-Length: 0\r\n\r\n", named},
		{"close", "GET", "HTTP/1.1 200 OK\r\nConnection: foo , Close\r\nContent-Length: 2\r\n\r\nab", whole200(200, false)},
		{"HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab", whole200(200, false)},
		{"HTTP/1.0 kept", "GET", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nab", whole200(200, true)},
		{"until close", "GET", "HTTP/1.1 200 OK\r\nServer: x\r\n\r\nhello", rest},
		{"another coding until close", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello", rest},
		{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", whole200(200, true)},
		{"HEAD chunked", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", whole200(200, true)},
		{"204", "DELETE", "HTTP/1.1 204 No Content\r\n\r\n", whole200(204, true)},
		{"304 with a length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", whole200(304, true)},
		{"chunked", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n00A;x=\"y;\"\r\n0123456789\r\n0\r\n\r\n", whole200(200, true)},
		{"trailers", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: CHUNKED\r\nTrailer: A\r\n\r\n1\r\nx\r\n0\r\nA: b\r\nX-Instance: not-me\r\n\r\n", whole200(200, true)},
		{"chunked beside a length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", whole200(200, true)},
		{"chunked last", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: , chunked\r\n\r\n0\r\n\r\n", whole200(200, true)},
		{"chunked of HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", whole200(200, false)},
		{"interim", "POST", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nConnection: close\r\nX-Instance: hint\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx", whole200(201, true)},
		{"no field value", "GET", "HTTP/1.1 200 OK\r\nX-Instance:\r\nContent-Length: 0\r\n\r\n", whole200(200, true)},
	}
}

// TestResponsesAtEverySplit gives every sample whole, byte by byte, and in two and three pieces at every place.
func TestResponsesAtEverySplit(t *testing.T) {
	p := NewParser("x-Instance")
	for _, c := range responses() {
		t.Run(c.name, func(t *testing.T) {
			check := func(pieces ...string) {
				t.Helper()
				got, err := feed(p, c.method, pieces...)
				if err != nil {
					t.Fatalf("%q: %v", pieces, err)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Fatalf("%q: %s", pieces, diff)
				}
				if p.Bytes != int64(len(c.text)) {
					t.Fatalf("%q: %d bytes counted of %d", pieces, p.Bytes, len(c.text))
				}
			}
			check(c.text)
			check(strings.Split(c.text, "")...)
			for i := range len(c.text) {
				check(c.text[:i], c.text[i:])
				for j := i; j < len(c.text); j += 7 {
					check(c.text[:i], c.text[i:j], c.text[j:])
				}
			}
			for i := range len(c.text) - 1 {
				if got, _ := feed(p, c.method, c.text[:i]); got.Done {
					t.Fatalf("%q counts as whole", c.text[:i])
				}
			}
		})
	}
}

// TestWhatFollowsIsLeft: bytes after a response are somebody else's.
func TestWhatFollowsIsLeft(t *testing.T) {
	p := NewParser("")
	for _, c := range responses() {
		if !c.want.Done {
			continue
		}
		got, err := feed(p, c.method, c.text+"HTTP/1.1 408 ", "Request Timeout\r\n")
		if err != nil || !got.Done || got.Left != "HTTP/1.1 408 Request Timeout\r\n" {
			t.Errorf("%s: left %q, done %v, error %v", c.name, got.Left, got.Done, err)
		}
	}
}

func TestEOFInside(t *testing.T) {
	p := NewParser("")
	for name, text := range map[string]string{
		"nothing": "", "status": "HTTP/1.1 20", "header": "HTTP/1.1 200 OK\r\nServer: x\r\n", "body": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
		"chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe", "between chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n",
		"trailer": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "after an interim response": "HTTP/1.1 100 Continue\r\n\r\n",
	} {
		got, err := feed(p, "GET", text)
		if err != nil || got.Done || got.EOFDone {
			t.Errorf("%s: %+v, error %v", name, got, err)
		}
	}
}

func TestMalformed(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	const chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
	for name, text := range map[string]string{
		"another protocol":        "SSH-2.0-OpenSSH_9.9",
		"a TLS alert":             "\x15\x03\x01\x00\x02",
		"an empty line":           "\r\nHTTP/1.1 200 OK\r\n",
		"HTTP/2":                  "HTTP/2 200\r\n",
		"HTTP/1.2":                "HTTP/1.2 200 OK\r\n",
		"no status":               "HTTP/1.1 OK\r\n",
		"status of two digits":    "HTTP/1.1 99 \r\n",
		"status of four digits":   "HTTP/1.1 2000 OK\r\n",
		"status below 100":        "HTTP/1.1 099 OK\r\n",
		"two spaces":              "HTTP/1.1  200 OK\r\n",
		"NUL in the reason":       "HTTP/1.1 200 O\x00K\r\n",
		"switching protocols":     "HTTP/1.1 101 Switching Protocols\r\n",
		"folded field":            ok + "A: b\r\n c\r\n",
		"folded first field":      ok + " A: b\r\n",
		"space before the colon":  ok + "A : b\r\n",
		"no colon":                ok + "A\r\n",
		"no name":                 ok + ": b\r\n",
		"CR in a value":           ok + "A: b\rc\r\n",
		"NUL in a value":          ok + "A: b\x00\r\n",
		"folded interim field":    "HTTP/1.1 103 Hints\r\nA: b\r\n c\r\n",
		"negative length":         ok + "Content-Length: -1\r\n",
		"signed length":           ok + "Content-Length: +1\r\n",
		"empty length":            ok + "Content-Length:\r\n",
		"length beyond 63 bits":   ok + "Content-Length: 9223372036854775808\r\n",
		"conflicting lengths":     ok + "Content-Length: 1\r\nContent-Length: 2\r\n",
		"conflict in one field":   ok + "Content-Length: 1, 2\r\n",
		"chunk without a size":    chunked + "\r\n",
		"chunk size not hex":      chunked + "g\r\n",
		"chunk size signed":       chunked + "-1\r\n",
		"chunk beyond 63 bits":    chunked + "8000000000000000\r\n",
		"chunk longer than said":  chunked + "1\r\nab\r\n",
		"NUL in an extension":     chunked + "1;\x00\r\n",
		"folded trailer":          chunked + "0\r\nA: b\r\n c\r\n",
		"header too large":        ok + "A: " + strings.Repeat("b", maxHeader) + "\r\n",
		"header of many fields":   ok + strings.Repeat("A: b\r\n", maxHeader/6+1),
		"line without an end":     ok + strings.Repeat("a", maxHeader),
		"interims without an end": strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", maxHeader/27+1),
		"extension too large":     chunked + "1;" + strings.Repeat("a", maxHeader),
		"trailer too large":       chunked + "0\r\n" + strings.Repeat("A: b\r\n", maxHeader/6+1),
	} {
		t.Run(name, func(t *testing.T) {
			p := NewParser("")
			for _, pieces := range [][]string{{text}, strings.Split(text, "")} {
				_, err := feed(p, "GET", pieces...)
				if !errors.Is(err, ErrMalformed) {
					t.Fatalf("%d pieces: error %v", len(pieces), err)
				}
				if n, done, again := p.Feed([]byte("x")); n != 0 || done || again != err {
					t.Fatalf("fed again: %d, %v, %v", n, done, again)
				}
			}
		})
	}
}

// TestLargestHeader: exactly 64 KiB is read.
func TestLargestHeader(t *testing.T) {
	const around = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: \r\n\r\n"
	text := strings.Replace(around, "A: ", "A: "+strings.Repeat("b", maxHeader-len(around)), 1)
	p := NewParser("")
	for _, pieces := range [][]string{{text}, strings.Split(text, "")} {
		if got, err := feed(p, "GET", pieces...); err != nil || !got.Done {
			t.Errorf("%d pieces: %+v, %v", len(pieces), got, err)
		}
	}
	if _, err := feed(p, "GET", strings.Replace(text, "A: ", "A: b", 1)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a byte more: error %v", err)
	}
}

// TestAgainstNetHTTP compares status, length of the body and keep-alive with Go's own reader.
func TestAgainstNetHTTP(t *testing.T) {
	p := NewParser("")
	// Go reads the first until the connection ends, and refuses the others.
	apart := []string{"chunked of HTTP/1.0", "equal lengths", "another coding until close", "chunked last"}
	for _, c := range responses() {
		if slices.Contains(apart, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			in := bufio.NewReader(strings.NewReader(c.text))
			var r *http.Response
			for r == nil || r.StatusCode < 200 {
				var err error
				if r, err = http.ReadResponse(in, &http.Request{Method: c.method}); err != nil {
					t.Fatal(err)
				}
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Fatal(err)
			}
			length := bodyBytes(p, c.method, c.text)
			// Go's Close is false where only the missing length ends the connection.
			keep := !r.Close && (r.ContentLength >= 0 || len(r.TransferEncoding) > 0 || c.method == "HEAD" || r.StatusCode == 204 || r.StatusCode == 304)
			if p.Status != r.StatusCode || p.KeepAlive != keep || length != len(body) {
				t.Errorf("%d, keep %v, %d bytes; net/http: %d, keep %v, %d bytes", p.Status, p.KeepAlive, length, r.StatusCode, keep, len(body))
			}
		})
	}
}

// bodyBytes counts the bytes of a body, as the parser's states tell them.
func bodyBytes(p *Parser, method, text string) (n int) {
	p.Reset(method)
	for _, b := range []byte(text) {
		before := p.state
		_, _, _ = p.Feed([]byte{b})
		if before == inLength || before == inChunk || before == inRest {
			n++
		}
	}
	return n
}

func TestNoAllocations(t *testing.T) {
	p := NewParser("X-Instance")
	texts := [][]byte{
		[]byte("HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2035 00:00:00 GMT\r\nX-Instance: web-1\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello"),
		[]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
	}
	read := func() {
		for _, text := range texts {
			p.Reset("GET")
			half := len(text) / 2
			_, _, err := p.Feed(text[:half])
			_, done, err2 := p.Feed(text[half:])
			if err != nil || err2 != nil || !done {
				t.Fatal(done, err, err2)
			}
		}
	}
	read()
	if n := testing.AllocsPerRun(100, read); n != 0 {
		t.Errorf("%v allocations for two responses", n)
	}
	request := make([]byte, 0, 512)
	headers := []Header{{"Accept", "*/*"}}
	if n := testing.AllocsPerRun(100, func() { request = AppendRequest(request[:0], "GET", "/", "host", headers, nil, true) }); n != 0 {
		t.Errorf("%v allocations for a request", n)
	}
}

// TestLargeLinesAreLetGo: a large header must not stay with a kept connection.
func TestLargeLinesAreLetGo(t *testing.T) {
	p := NewParser("")
	text := "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("b", 2*keptLine) + "\r\nContent-Length: 0\r\n\r\n"
	if got, err := feed(p, "GET", strings.Split(text, "")...); err != nil || !got.Done {
		t.Fatalf("%+v, %v", got, err)
	}
	p.Reset("GET")
	if cap(p.line) > keptLine {
		t.Errorf("%d bytes are kept", cap(p.line))
	}
}

// FuzzParser: whatever comes, in one piece or in two, is read to the same end, within its bounds.
func FuzzParser(f *testing.F) {
	for _, c := range responses() {
		f.Add([]byte(c.text), c.method == "HEAD", len(c.text)/2)
	}
	f.Add([]byte("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n"), false, 20)
	f.Add([]byte("\x15\x03\x01\x00\x02\x02\x28"), false, 1)
	f.Fuzz(func(t *testing.T, text []byte, head bool, at int) {
		method := "GET"
		if head {
			method = "HEAD"
		}
		at = max(0, min(at, len(text)))
		end := func(pieces ...[]byte) string {
			p := NewParser("X-Instance")
			p.Reset(method)
			left, done := 0, false
			var err error
			for _, piece := range pieces {
				var n int
				if n, done, err = p.Feed(piece); n < 0 || n > len(piece) {
					t.Fatalf("%d bytes taken of %d", n, len(piece))
				}
				left += len(piece) - n
			}
			if err != nil {
				if done || !errors.Is(err, ErrMalformed) {
					t.Fatalf("done %v, error %v", done, err)
				}
				return err.Error()
			}
			if done && (!p.HeaderDone || p.Status < 200 || p.Status > 999) {
				t.Fatalf("whole with status %d", p.Status)
			}
			if p.Bytes != int64(len(text)-left) {
				t.Fatalf("%d bytes counted, %d left of %d", p.Bytes, left, len(text))
			}
			return fmt.Sprint(p.Status, p.HeaderDone, p.KeepAlive, p.Bytes, string(p.Instance), left, done, p.EOF())
		}
		one, two := end(text), end(text[:at], text[at:])
		if one != two {
			t.Errorf("in one piece %s, in two %s", one, two)
		}
		if three := end(bytes.SplitAfter(text, []byte{'\n'})...); three != one {
			t.Errorf("in one piece %s, by lines %s", one, three)
		}
	})
}
