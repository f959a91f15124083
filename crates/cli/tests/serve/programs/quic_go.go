// Fetches a URL over HTTP/3 by quic-go, each time over a new connection: client TIMES URL. Says how often nothing came.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/quic-go/quic-go/http3"
)

func fetch(url string) error {
	transport := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

func main() {
	times, _ := strconv.Atoi(os.Args[1])
	for n := range times {
		if err := fetch(os.Args[2]); err != nil {
			fmt.Printf("connection %d: %v\n", n, err)
			os.Exit(1)
		}
	}
	fmt.Printf("%d of %d\n", times, times)
}
