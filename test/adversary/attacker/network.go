//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/test/adversary/orders"
)

func init() {
	deeds["variable"] = variable
	deeds["get"] = get
	deeds["proxy"] = proxyRaw
	deeds["direct"] = direct
	deeds["sockets"] = sockets
	deeds["proxy-connections"] = proxyConnections
}

// networkPatience is longer than a look-up or a connection may take.
const networkPatience = 30 * time.Second

// variable NAME tells an environment variable.
func variable(args []string) ([]orders.Try, error) {
	value, set := os.LookupEnv(args[0])
	if !set {
		return []orders.Try{{What: args[0], Err: "unset"}}, nil
	}
	return []orders.Try{{What: args[0], Got: value}}, nil
}

// get URL… gets each as a program does that knows the variables for proxies.
func get(args []string) ([]orders.Try, error) {
	client := &http.Client{Transport: &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return url.Parse(os.Getenv("HTTP_PROXY")) },
		DisableKeepAlives: true}, Timeout: networkPatience}
	var all []orders.Try
	for _, to := range args {
		resp, err := client.Get(to)
		t := tried("get "+to, err)
		if err == nil {
			body, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
			_ = resp.Body.Close()
			t.Got = string(body)
			if resp.StatusCode != http.StatusOK {
				t.Err = resp.Status
			}
		}
		all = append(all, t)
	}
	return all, nil
}

// proxyRaw REQUEST… says each to the proxy, on a connection of its own. SECRET is the header that the proxy wants. What worked was
// answered with 200.
func proxyRaw(args []string) ([]orders.Try, error) {
	proxy, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	if err != nil || proxy.Host == "" {
		return nil, fmt.Errorf("HTTPS_PROXY names no proxy: %w", err)
	}
	secret := "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(proxy.User.String()))
	var all []orders.Try
	for _, request := range args {
		conn, err := net.Dial("tcp", proxy.Host)
		if err != nil {
			return nil, err
		}
		_ = conn.SetDeadline(time.Now().Add(networkPatience))
		_, _ = io.WriteString(conn, strings.ReplaceAll(request, "SECRET", secret))
		in := bufio.NewReader(conn)
		status, err := in.ReadString('\n')
		t := tried(request, err)
		if err == nil {
			t.Got = strings.TrimSpace(status)
			if !strings.HasPrefix(status, "HTTP/1.1 200 ") {
				t.Err = "refused"
			}
		}
		_ = conn.Close()
		all = append(all, t)
	}
	return all, nil
}

// sockets PATH… connects to a unix socket by each path, as a stream. If there is a socket of the name PATH.datagrams,
// it also sends there.
func sockets(args []string) ([]orders.Try, error) {
	var all []orders.Try
	for _, path := range args {
		conn, err := net.DialTimeout("unix", path, networkPatience)
		if err == nil {
			_ = conn.Close()
		}
		all = append(all, tried("connect "+path, err))
		if _, err := os.Stat(path + ".datagrams"); err != nil {
			continue
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		all = append(all, tried("send to "+path, unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrUnix{Name: path + ".datagrams"})))
		_ = unix.Close(fd)
	}
	return all, nil
}

// direct ADDRESS… tries to reach each past the proxy, and to look up a name.
func direct(args []string) ([]orders.Try, error) {
	var all []orders.Try
	for _, network := range []string{"tcp4", "tcp6", "udp4", "udp6"} {
		for _, address := range args {
			conn, err := net.DialTimeout(network, address, 2*time.Second)
			if err == nil {
				_, err = conn.Write([]byte("x"))
				_ = conn.Close()
			}
			var no *net.AddrError
			if errors.As(err, &no) {
				continue // an address of the other family
			}
			all = append(all, tried(network+" "+address, err))
		}
	}
	var d net.Dialer
	d.SetMultipathTCP(true)
	conn, err := d.DialContext(context.Background(), "tcp", args[0])
	if err == nil {
		_ = conn.Close()
	}
	all = append(all, tried("multipath "+args[0], err))
	server := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return d.DialContext(ctx, network, args[0])
	}}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err = server.LookupHost(ctx, "name.example.")
	all = append(all, tried("look up a name", err))
	for name, domain := range map[string]int{"a raw socket": unix.SOCK_RAW, "a datagram socket": unix.SOCK_DGRAM} {
		fd, err := unix.Socket(unix.AF_INET, domain, unix.IPPROTO_UDP)
		if err == nil {
			_ = unix.Close(fd)
		}
		all = append(all, tried(name, err))
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	// A source route leads packets elsewhere than the address that was allowed.
	err = unix.SetsockoptString(fd, unix.IPPROTO_IP, unix.IP_OPTIONS, "\x83\x07\x04\x08\x08\x08\x08\x01")
	return append(all, tried("a source route", err)), nil
}

// proxyConnections N makes N connections to the proxy, each with half a header, and closes them.
func proxyConnections(args []string) ([]orders.Try, error) {
	proxy, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var held []net.Conn
	var all sync.WaitGroup
	for range number(args[0]) {
		all.Go(func() {
			conn, err := net.DialTimeout("tcp", proxy.Host, 5*time.Second)
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "CONNECT a.example:443 HTTP/1.1\r\nX: ")
			mu.Lock()
			defer mu.Unlock()
			held = append(held, conn)
		})
	}
	all.Wait()
	defer func() {
		for _, conn := range held {
			_ = conn.Close()
		}
	}()
	return []orders.Try{{What: "hold", Got: fmt.Sprint(len(held))}}, nil
}
