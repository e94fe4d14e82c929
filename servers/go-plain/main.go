// Command go-plain is a web server as many begin: net/http, and nothing that knows of signals.
package main

import (
	"fmt"
	"log"
	"net/http"
	"time"
)

func main() {
	http.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(300 * time.Millisecond) // the work
		fmt.Fprintln(w, "done")
	})
	log.Fatal(http.ListenAndServe(":8080", nil))
}
