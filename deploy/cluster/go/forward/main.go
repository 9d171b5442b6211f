// Command forward forwards a TCP port of this network namespace to an address in another namespace
// that has no route to this one.
//
//	forward LISTEN NAMESPACE TARGET ADDRESS_FILE
//
// NAMESPACE is a file such as /proc/PID/ns/net. LISTEN may have port 0: forward writes the bound
// address to ADDRESS_FILE when it accepts connections.
package main

import (
	"io"
	"log"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 5 {
		log.Fatal("usage: forward LISTEN NAMESPACE TARGET ADDRESS_FILE")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		log.Fatalf("forward: %v", err)
	}
}

func run(listen, namespace, target, addressFile string) error {
	namespaceFile, err := os.Open(namespace)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	if err := os.WriteFile(addressFile, []byte(listener.Addr().String()), 0o644); err != nil {
		return err
	}
	dials := make(chan chan net.Conn)
	go dialFrom(namespaceFile, target, dials)
	for {
		client, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			dialed := make(chan net.Conn)
			dials <- dialed
			if server := <-dialed; server != nil {
				join(client, server)
			} else {
				client.Close()
			}
		}()
	}
}

// dialFrom opens connections on a thread in the other namespace. A namespace belongs to a thread,
// and Go moves goroutines between threads, so this goroutine is locked to its thread. A failed dial
// yields a nil connection.
func dialFrom(namespace *os.File, target string, dials <-chan chan net.Conn) {
	runtime.LockOSThread()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		log.Fatalf("forward: cannot enter %s: %v", namespace.Name(), err)
	}
	for dialed := range dials {
		conn, err := net.DialTimeout("tcp", target, 5*time.Second)
		if err != nil {
			log.Printf("forward: %v", err)
			dialed <- nil
			continue
		}
		dialed <- conn
	}
}

// join copies data in both directions, and passes half-closes on, until both sides are done.
func join(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	done := make(chan struct{})
	go func() {
		copyUntilEOF(server, client)
		close(done)
	}()
	copyUntilEOF(client, server)
	<-done
}

// copyUntilEOF copies data in one direction, and then closes that direction.
func copyUntilEOF(to, from net.Conn) {
	io.Copy(to, from)
	to.(*net.TCPConn).CloseWrite()
}
