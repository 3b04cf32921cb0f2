package egress

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestTunnel_ServesProgramsWithoutProxySupport runs programs that connect by themselves, without the proxy of their
// environment.
func TestTunnel_ServesProgramsWithoutProxySupport(t *testing.T) {
	r := newRig(t, Options{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "reached") }), ReadHeaderTimeout: time.Minute}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	_, web, _ := net.SplitHostPort(l.Addr().String())
	speaksFirst, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer speaksFirst.Close()
	go func() {
		for {
			conn, err := speaksFirst.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "reached, and more\n")
			_ = conn.Close()
		}
	}()
	_, banner, _ := net.SplitHostPort(speaksFirst.Addr().String())

	fetch := `fetch("http://HOST:PORT/").then(r => r.text()).then(t => console.log(t), e => { console.error(e.cause.code); process.exit(1) })`
	socket := `import socket; print(socket.create_connection(("HOST", PORT), 30).makefile().readline())`
	for name, c := range map[string]struct {
		command []string
		port    string
	}{
		"curl":          {[]string{"curl", "-sS", "--noproxy", "*", "http://HOST:PORT/"}, web},
		"curl of IPv6":  {[]string{"curl", "-sS", "--noproxy", "*", "http://[::ffff:127.0.0.1]:PORT/"}, web},
		"node":          {[]string{"node", "-e", fetch}, web},
		"python banner": {[]string{"python3", "-c", socket}, banner},
		"bash":          {[]string{"bash", "-c", `exec 3<>/dev/tcp/HOST/PORT && cat <&3`}, banner},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(c.command[0]); err != nil {
				t.Skipf("there is no %s", c.command[0])
			}
			for host, reached := range map[string]bool{"allowed.test": true, "denied.test": false, "asked.test": false, "metadata.test": false} {
				if name == "curl of IPv6" && host != "allowed.test" {
					continue
				}
				var args []string
				for _, a := range c.command {
					args = append(args, strings.NewReplacer("HOST", host, "PORT", c.port).Replace(a))
				}
				got, err := r.confined(t, args...).CombinedOutput()
				if strings.Contains(string(got), "reached") != reached {
					t.Errorf("%s: got %q, %v, want reached %t", host, got, err, reached)
				}
			}
		})
	}
	if saw := fmt.Sprint(r.decider.saw); !strings.Contains(saw, "allowed.test[127.0.0.1]") || strings.Contains(saw, "198.18.") {
		t.Errorf("decided on %s", saw)
	}
}
