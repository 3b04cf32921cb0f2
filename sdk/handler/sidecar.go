package handler

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/acphost/acphost/internal/yamlproto"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

// connectTime limits the TLS and HTTP/2 handshakes of a new connection.
const connectTime = 10 * time.Second

// serveSidecar serves on an address until it gets a signal.
func serveSidecar(h Handler, o options) error {
	c, err := newCore(h, true)
	if err != nil {
		return err
	}
	opts, err := o.credentials(h.Logger)
	if err != nil {
		return err
	}
	opts = append(opts, grpc.ConnectionTimeout(connectTime))
	listener, err := o.open(h.Logger)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	clearHandshakeEnv()
	// From here on the handler may have resources.
	defer c.close()
	c.self.reload = c.ownSettings(o)
	if err := c.self.readOwn(context.Background()); err != nil {
		return err
	}
	server := c.server(opts...)

	term, again, release := endSignals(syscall.SIGHUP, os.Interrupt)
	defer release()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	h.Logger.Info(h.Name+" serves as a sidecar", "version", h.Version, "address", o.listen,
		"mutual_tls", o.tlsCA != "", "secret", o.secretFile != "", "allowed_uids", o.allowUIDs.String())
	select {
	case err := <-served:
		return err
	case <-term.Done():
		h.Logger.Info(h.Name + " ends: it was asked to")
		ctx, cancel := context.WithTimeout(again, drainTime)
		defer cancel()
		server.Stop(ctx)
		return <-served
	}
}

// ownSettings returns a function that configures the handler with the settings from its file and with a host that the
// sidecar determines itself: terminals inherit its environment, and its own files are protected from agents. The
// function returns the handler's notes.
func (c *core) ownSettings(o options) func(context.Context) ([]string, error) {
	host := &pluginv1.Host{Environment: os.Environ(), ProtectedPaths: o.ownFiles(), Instance: newInstance()}
	return func(ctx context.Context) ([]string, error) {
		settings := &structpb.Struct{}
		if o.settings != "" {
			data, err := os.ReadFile(o.settings)
			if err != nil {
				return nil, fmt.Errorf("read the settings: %w", err)
			}
			if err := yamlproto.Unmarshal(o.settings, data, settings); err != nil {
				return nil, fmt.Errorf("read the settings: %w", err)
			}
		}
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		notes, err := c.self.configure(ctx, &pluginv1.ConfigureRequest{Settings: settings, Host: host})
		if err != nil {
			return nil, fmt.Errorf("configure: %w", err)
		}
		for _, note := range notes {
			c.h.Logger.Info(note)
		}
		return notes, nil
	}
}

// ownFiles returns the files that this sidecar uses.
func (o options) ownFiles() []string {
	var files []string
	for _, file := range []string{o.settings, o.tlsCA, o.tlsCert, o.tlsKey, o.secretFile} {
		if file == "" {
			continue
		}
		if absolute, err := filepath.Abs(file); err == nil {
			files = append(files, absolute)
		}
	}
	if network, path, err := o.address(); err == nil && network == "unix" {
		files = append(files, path)
	}
	return files
}

func newInstance() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}
