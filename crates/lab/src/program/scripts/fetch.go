// Prints the page of a URL, or what comes back when a file is sent there, with Go's net/http. Built without cgo it is a
// static program: it reads resolv.conf, sends its own queries and makes its own system calls.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	if err := fetch(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func fetch(words []string) error {
	var answer *http.Response
	var err error
	if len(words) > 1 {
		body, problem := os.ReadFile(words[1])
		if problem != nil {
			return problem
		}
		answer, err = http.Post(words[0], "application/octet-stream", bytes.NewReader(body))
	} else {
		answer, err = http.Get(words[0])
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}
