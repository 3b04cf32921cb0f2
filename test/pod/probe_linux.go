package pod

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/testkit"
)

// ask asks a probe once.
func (r *Running) ask(ctx context.Context, probe *Probe) error {
	r.mu.Lock()
	pid := r.pid
	r.mu.Unlock()
	if pid == 0 {
		return errors.New("it does not run")
	}
	// The timeout of the manifest, longer on a machine that is busy with other tests.
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(probe.TimeoutSeconds, 1))*time.Second*(testkit.Timeout()/time.Minute))
	defer cancel()
	if probe.HTTPGet != nil {
		return r.request(ctx, probe)
	}
	out, err := r.execIn(ctx, pid, probe.Exec.Command).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// request requests the page of a probe. As a kubelet, it does not verify the certificate.
func (r *Running) request(ctx context.Context, probe *Probe) error {
	port := probe.HTTPGet.Port
	for _, p := range r.spec.Ports {
		if p["name"] == port {
			port = fmt.Sprint(p["containerPort"])
		}
	}
	transport := &http.Transport{
		DialContext:     r.pod.Dial,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // as a kubelet does it
	}
	defer transport.CloseIdleConnections()
	url := strings.ToLower(cmp.Or(probe.HTTPGet.Scheme, "http")) + "://127.0.0.1:" + port + probe.HTTPGet.Path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	_ = res.Body.Close()
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s: %s %s", url, res.Status, text)
	}
	return nil
}

// await waits until a probe succeeds. It asks more often than a kubelet, and waits as long at least.
func (r *Running) await(probe *Probe, state string) {
	r.pod.t.Helper()
	if probe == nil {
		return
	}
	patience := max(time.Duration(cmp.Or(probe.FailureThreshold, 3)*cmp.Or(probe.PeriodSeconds, 10))*time.Second, testkit.Timeout())
	ctx, cancel := context.WithTimeout(r.pod.t.Context(), patience)
	defer cancel()
	for {
		err := r.ask(ctx, probe)
		if err == nil {
			r.mu.Lock()
			r.ready = true
			r.mu.Unlock()
			return
		}
		if os.Getenv("POD_LOG") != "" {
			fmt.Fprintln(os.Stderr, err)
		}
		if n := r.Starts(); n > crashes {
			r.pod.t.Fatalf("the container %s ends again and again, and is not %s: %v\n%s", r.spec.Name, state, err, r.Log())
		}
		select {
		case <-ctx.Done():
			r.pod.t.Fatalf("the container %s is not %s: %v\n%s", r.spec.Name, state, err, r.Log())
		case <-r.over:
			r.pod.t.Fatalf("the container %s has ended before it was %s: %v\n%s", r.spec.Name, state, err, r.Log())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Ready waits until the container runs and its probes succeed.
func (r *Running) Ready() {
	r.pod.t.Helper()
	r.PID()
	r.await(r.spec.StartupProbe, "started")
	r.await(r.spec.ReadinessProbe, "ready")
}

// keepAsking asks how the container is for as long as it runs, and kills it if it does not answer, as a kubelet does.
func (r *Running) keepAsking() {
	probe := r.spec.LivenessProbe
	if probe == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stopAsks = cancel
	go func() {
		failed := 0
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(cmp.Or(probe.PeriodSeconds, 10)) * time.Second):
			}
			r.mu.Lock()
			pid := r.pid
			r.mu.Unlock()
			if pid == 0 || r.ask(ctx, probe) == nil {
				failed = 0
				continue
			}
			if failed++; failed >= cmp.Or(probe.FailureThreshold, 3) && ctx.Err() == nil {
				failed = 0
				fmt.Fprintf(&r.log, "harness: the container does not answer its liveness probe, and is ended\n")
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}()
}
