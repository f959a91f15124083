// A peer by quic-go: quic_go client CASE URL BYTES CERTIFICATE, or quic_go server CASE PORT FOLDER CERTIFICATE KEY.
// A client says nothing and ends with 0 if all came as it should. quic-go changes its keys after a hundred packets by itself.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

const requests = 1000

// A connection, once it is there.
type client struct {
	transport *http3.Transport
	used      *quic.Conn
}

func open(sessions tls.ClientSessionCache) *client {
	made := &client{}
	made.transport = &http3.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ClientSessionCache: sessions},
		Dial: func(ctx context.Context, address string, t *tls.Config, q *quic.Config) (*quic.Conn, error) {
			var err error
			made.used, err = quic.DialAddrEarly(ctx, address, t, q)
			return made.used, err
		},
	}
	return made
}

func (c *client) fetch(method, url string, bytes int64) error {
	request, err := http.NewRequest(method, url, nil)
	if err != nil {
		return err
	}
	answer, err := c.transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	came, err := io.Copy(io.Discard, answer.Body)
	if err == nil && (answer.StatusCode != 200 || came != bytes) {
		err = fmt.Errorf("status %d, %d of %d bytes", answer.StatusCode, came, bytes)
	}
	return err
}

// The second connection sends its request with its first packet.
func early(url string, bytes int64) error {
	sessions := tls.NewLRUClientSessionCache(8)
	first := open(sessions)
	if err := first.fetch(http.MethodGet, url, bytes); err != nil {
		return err
	}
	// The ticket comes when the server likes.
	time.Sleep(200 * time.Millisecond)
	first.transport.Close()
	second := open(sessions)
	defer second.transport.Close()
	if err := second.fetch(http3.MethodGet0RTT, url, bytes); err != nil {
		return err
	}
	if !second.used.ConnectionState().Used0RTT {
		return errors.New("the request was not taken with the first packet")
	}
	return nil
}

func fetched(word, url string, bytes int64) error {
	if word == "0-rtt" {
		return early(url, bytes)
	}
	c := open(nil)
	defer c.transport.Close()
	if word != "requests" {
		return c.fetch(http.MethodGet, url, bytes)
	}
	// Ten at a time, as a page has.
	results := make(chan error, requests)
	turns := make(chan struct{}, 10)
	for range requests {
		go func() {
			turns <- struct{}{}
			results <- c.fetch(http.MethodGet, url, bytes)
			<-turns
		}()
	}
	for range requests {
		if err := <-results; err != nil {
			return err
		}
	}
	return nil
}

func serve(word, port, folder, certificate, key string) error {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: number})
	if err != nil {
		return err
	}
	retries := func(net.Addr) bool { return word == "retry" }
	transport := &quic.Transport{Conn: socket, VerifySourceAddress: retries}
	config := http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{pair}})
	listener, err := transport.ListenEarly(config, &quic.Config{Allow0RTT: true})
	if err != nil {
		return err
	}
	server := &http3.Server{
		Handler: http.FileServer(http.Dir(folder)),
		ConnContext: func(ctx context.Context, c *quic.Conn) context.Context {
			context.AfterFunc(c.Context(), func() {
				var closed *quic.ApplicationError
				if errors.As(context.Cause(c.Context()), &closed) && closed.Remote {
					fmt.Printf("closed %d\n", closed.ErrorCode)
				}
			})
			return ctx
		},
	}
	return server.ServeListener(listener)
}

func main() {
	arguments := os.Args[1:]
	var err error
	if arguments[0] == "client" {
		var bytes int64
		if bytes, err = strconv.ParseInt(arguments[3], 10, 64); err == nil {
			err = fetched(arguments[1], arguments[2], bytes)
		}
	} else {
		err = serve(arguments[1], arguments[2], arguments[3], arguments[4], arguments[5])
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
