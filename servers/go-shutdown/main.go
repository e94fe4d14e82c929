// Command go-shutdown is the server of go-plain with what net/http's documentation says of Server.Shutdown: on SIGTERM it
// takes no new connections, answers what it has, and the program waits for that.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	http.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(300 * time.Millisecond) // the work
		fmt.Fprintln(w, "done")
	})
	server := &http.Server{Addr: ":8080"}
	term, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ended := make(chan error)
	go func() {
		<-term.Done()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		ended <- server.Shutdown(ctx)
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	if err := <-ended; err != nil { // ListenAndServe returns when Shutdown begins, not when it is done
		log.Fatal(err)
	}
}
