package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAppendRequest(t *testing.T) {
	for _, c := range []struct {
		name, method, path, host string
		headers                  []Header
		body                     string
		close                    bool
		want                     string
	}{
		{
			name: "plain", method: "GET", path: "/", host: "a.example",
			want: "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
		},
		{
			name: "close", method: "HEAD", path: "/x?y=1", host: "10.0.0.1:8080", close: true,
			want: "HEAD /x?y=1 HTTP/1.1\r\nHost: 10.0.0.1:8080\r\nConnection: close\r\n\r\n",
		},
		{
			name: "body", method: "POST", path: "/", host: "a", headers: []Header{{"Content-Type", "text/plain"}}, body: "hello",
			want: "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello",
		},
		{
			name: "a method that demands a length", method: "PUT", path: "/", host: "a",
			want: "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
		},
		{
			name: "headers that say the same", method: "GET", path: "/", host: "a",
			headers: []Header{{"host", "b"}, {"CONNECTION", "upgrade"}, {"content-length", "7"}, {"Transfer-Encoding", "chunked"}, {"X-User", "1"}},
			want:    "GET / HTTP/1.1\r\nHost: a\r\nX-User: 1\r\n\r\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := AppendRequest(nil, c.method, c.path, c.host, c.headers, []byte(c.body), c.close)
			if diff := cmp.Diff(c.want, string(b)); diff != "" {
				t.Error(diff)
			}
			r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(r.Body)
			if err != nil || r.Method != c.method || r.RequestURI != c.path || r.Host != c.host || r.Close != c.close || string(body) != c.body {
				t.Errorf("net/http reads %s %s of %s, close %v, body %q, error %v", r.Method, r.RequestURI, r.Host, r.Close, body, err)
			}
		})
	}
}
