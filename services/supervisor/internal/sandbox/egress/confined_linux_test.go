package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/sandbox"
)

func init() { play = client }

// client plays two roles: "client" gets a URL as a program does that knows the variables for proxies; "direct" tries to reach an address past
// the proxy in several ways.
func client(role string, args []string) int {
	tell := func(name string, err error) {
		if err == nil {
			fmt.Println(name)
		}
	}
	if role == "client" {
		resp, err := http.Get(args[0])
		if err != nil {
			fmt.Println(err)
			return 1
		}
		defer resp.Body.Close()
		_, _ = io.Copy(os.Stdout, resp.Body)
		return 0
	}
	for _, network := range []string{"tcp4", "tcp6", "udp4", "udp6"} {
		for _, address := range args {
			conn, err := net.DialTimeout(network, address, time.Second)
			if err == nil {
				_, err = conn.Write([]byte("x"))
			}
			tell(network+" "+address, err)
		}
	}
	var d net.Dialer
	d.SetMultipathTCP(true)
	_, err := d.DialContext(context.Background(), "tcp", args[0])
	tell("multipath "+args[0], err)
	return 0
}

// confined is a command in the sandbox that reaches only the proxy.
func (r *rig) confined(t *testing.T, command ...string) *exec.Cmd {
	t.Helper()
	if err := sandbox.Supported(); err != nil {
		t.Skipf("no sandbox here: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{sandbox.Command, "--write", "/", "--proxy", r.Address().String(), "--"}, command...)...)
	cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), r.Env()...)
	return cmd
}

func TestSandbox_ReachesOnlyProxy(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Options{})
	port := echo(t, "tcp4")
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "reached") }), ReadHeaderTimeout: time.Minute}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	_, web, _ := net.SplitHostPort(l.Addr().String())

	node := `const http = require("http"), at = new URL(process.env.HTTP_PROXY);
http.get({host: at.hostname, port: at.port, path: process.argv[1], headers: {"Proxy-Authorization": "Basic " + btoa(at.username + ":" + at.password)}},
 r => r.on("data", d => process.stdout.write(d)))`
	for name, command := range map[string][]string{
		"curl":        {"curl", "-sS"},
		"curl -p":     {"curl", "-sSp"}, // with CONNECT
		"node":        {"node", "-e", node, "--"},
		"a Go client": {self},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(command[0]); err != nil {
				t.Skipf("there is no %s", command[0])
			}
			for host, want := range map[string]string{"allowed.test": "reached", "denied.test": "refused"} {
				cmd := r.confined(t, append(command, "http://"+host+":"+web+"/")...)
				cmd.Env = append(cmd.Env, roleVar+"=client")
				got, err := cmd.CombinedOutput()
				if name == "curl -p" && host == "denied.test" {
					want = "403"
				}
				if !strings.Contains(string(got), want) {
					t.Errorf("%s: got %q, %v, want %q", host, got, err, want)
				}
			}
		})
	}
	direct := func(r *rig) string {
		cmd := r.confined(t, self, "127.0.0.1:"+web, "[::ffff:127.0.0.1]:"+web, "[::1]:"+web, "127.0.0.1:"+port, "localhost:"+web)
		cmd.Env = append(cmd.Env, roleVar+"=direct")
		got, err := cmd.CombinedOutput()
		if exit, failed := errors.AsType[*exec.ExitError](err); failed {
			t.Errorf("got %q, %v", got, exit)
		}
		return string(got)
	}
	t.Run("not past it", func(t *testing.T) {
		refusing := newRig(t, Options{Decide: func(context.Context, Target) Decision { return Decision{Reason: "no"} }})
		if got := direct(refusing); got != "" {
			t.Errorf("reached %q", got)
		}
	})
	t.Run("through it", func(t *testing.T) {
		if got, want := direct(r), "tcp4 127.0.0.1:"+web+"\n"; !strings.HasPrefix(got, want) || strings.Contains(got, "udp") {
			t.Errorf("reached %q, want %q first, and nothing by UDP", got, want)
		}
	})
	t.Run("the test reaches them", func(t *testing.T) { // else it could not fail
		cmd := exec.Command(self, "127.0.0.1:"+web)
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", roleVar+"=direct")
		if got, err := cmd.Output(); err != nil || !strings.Contains(string(got), "tcp4 127.0.0.1") || !strings.Contains(string(got), "udp4 ") || !strings.Contains(string(got), "multipath ") {
			t.Errorf("got %q, %v", got, err)
		}
	})
}
