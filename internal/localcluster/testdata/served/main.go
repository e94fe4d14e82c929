// Program served answers every request with the name of its Pod, or, asked
// with ?get=URL, with what that URL answers to the Pod.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	fmt.Println("serving")
	err := http.ListenAndServe(":8080", http.HandlerFunc(answer))
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func answer(w http.ResponseWriter, r *http.Request) {
	url := r.URL.Query().Get("get")
	if url == "" {
		fmt.Fprintln(w, os.Getenv("HOSTNAME"))
		return
	}
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}
