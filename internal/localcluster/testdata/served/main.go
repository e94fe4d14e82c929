// Program served answers every request with the name of its Pod, and ends at
// once when it is told to.
package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	fmt.Println("serving")
	err := http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, os.Getenv("HOSTNAME"))
	}))
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
