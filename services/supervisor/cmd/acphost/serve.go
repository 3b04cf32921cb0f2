package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"

	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/host"
	"github.com/acphost/acphost/services/supervisor/internal/pid1"
)

const serveLong = `Run without an editor: programs start agents, hold sessions, prompt, watch and answer
over gRPC. The services are those of the admin socket; see "acphost ps" for where it
is, and grpcurl's "list" and "describe" for what there is.

    grpcurl -plaintext -unix SOCKET list

With --listen they are served over TCP too, only with mutual TLS: "acphost certs init"
makes the keys, and the role in a client's certificate says what it may do.

Agents are started when somebody asks for them; with --agent, or a command behind
"--", one is started at once, and one that cannot be started ends the program.

TERM ends it in order: no new turn is begun, turns under way have the time of --drain
to end and are then cancelled, and nothing that was started is left. As the first
process of a container it reaps what loses its parent. It needs neither HOME nor a
folder that can be written, but for one for its sockets ($TMPDIR, /tmp, /run or
/dev/shm); without a state folder nothing is recorded.`

const serveExit = `
Exit status:
  0   it was told to end, and did in order
  1   it could not start as configured, or not end in order
  2   it was called wrongly

Environment:
  ACPHOST_CONFIG   the configuration file, where --config is not given
  ACPHOST_LOG      the log level, where --log-level is not given
`

// readyTimeout is how long the handlers may take to answer at the start.
const readyTimeout = 30 * time.Second

// serveFlags are the flags of "serve".
type serveFlags struct {
	config, listen, tlsDir, socket string
	agents                         []string
	drain                          time.Duration
	log                            logFlags
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve [flags] [--agent NAME]… [-- COMMAND [ARGUMENT…]]",
		Short: "Run without an editor: agents and sessions over gRPC",
		Long:  serveLong,
		Example: `  acphost serve
  acphost serve --agent claude --agent gemini
  acphost serve --listen :7443 --tls-dir /etc/acphost/tls -- gemini --acp`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
				return wrongUse(cmd, "put \"--\" before an agent's command: acphost serve -- %s", strings.Join(args, " "))
			}
			if (f.listen == "") != (f.tlsDir == "") {
				return wrongUse(cmd, "--listen and --tls-dir go together")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.serve(cmd, &f, args) },
	}
	cmd.SetUsageTemplate(cmd.UsageTemplate() + serveExit)
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "the configuration `FILE`")
	flags.StringArrayVar(&f.agents, "agent", nil, "start the agent of this `NAME` at once; can be repeated")
	flags.StringVar(&f.socket, "socket", "", "the admin socket's `PATH`, absolute; default: a name of its own, by which \"acphost ps\" finds it")
	flags.StringVar(&f.listen, "listen", "", "serve over TCP too, at `HOST:PORT`")
	flags.StringVar(&f.tlsDir, "tls-dir", "", "the `FOLDER` with ca.crt, server.crt and server.key, as \"acphost certs init\" makes it")
	flags.DurationVar(&f.drain, "drain", 0, "how long turns may take to end after TERM; default: serve.drain_ms, else 10s")
	f.log.register(cmd)
	complete(cmd, "agent", a.completeAgents)
	return cmd
}

func (a *app) serve(cmd *cobra.Command, f *serveFlags, command []string) error {
	exe, err := executable()
	if err != nil {
		return err
	}
	if pid1.Needed() {
		a.status, err = pid1.Run(append([]string{exe}, os.Args[1:]...), a.stdin, a.stdout, a.stderr)
		return err
	}
	c, err := config.Load(f.config, a.env)
	if err != nil {
		return err
	}
	if err := f.override(cmd, c.Proto); err != nil {
		return err
	}
	logger, err := f.log.logger(cmd, a, c)
	if err != nil {
		return err
	}
	for _, warning := range c.Warnings {
		logger.Warn(warning)
	}
	s, err := a.programs.headless(cmd.Context(), host.Options{
		Config:     c,
		Env:        os.Environ(),
		Presets:    a.presets,
		Stderr:     a.stderr,
		Version:    buildVersion(),
		HandlerDir: filepath.Dir(exe),
		Admin:      !c.Proto.GetAdmin().GetDisabled(),
		Logger:     logger,
	})
	if err != nil {
		return err
	}
	defer s.Close()
	ready, cancel := context.WithTimeout(cmd.Context(), readyTimeout)
	err = s.Ready(ready)
	cancel()
	if err == nil {
		err = startAgents(cmd.Context(), s, starts(c.Effective().GetServe().GetAgents(), f.agents, command))
	}
	if cmd.Context().Err() != nil {
		return nil // it was told to end, which may have cut the start short
	}
	if err != nil {
		return err
	}
	for _, at := range s.Addresses() {
		fmt.Fprintf(a.stderr, "acphost: serving at %s\n", at)
	}
	<-cmd.Context().Done()
	drain, cancel := context.WithTimeout(context.Background(), time.Duration(c.Effective().GetServe().GetDrainMs())*time.Millisecond)
	defer cancel()
	return s.Drain(drain)
}

// override puts what flags say over what the configuration says.
func (f *serveFlags) override(cmd *cobra.Command, c *configv1.Config) error {
	if c.Admin == nil {
		c.Admin = &configv1.Admin{}
	}
	if f.socket != "" {
		if !filepath.IsAbs(f.socket) {
			return wrongUse(cmd, "--socket: %q is not an absolute path", f.socket)
		}
		c.Admin.Socket = f.socket
	}
	if f.listen != "" {
		dir, err := filepath.Abs(f.tlsDir)
		if err != nil {
			return err
		}
		c.Admin.Listen = f.listen
		c.Admin.Tls = &configv1.TLS{Ca: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "server.crt"), Key: filepath.Join(dir, "server.key")}
	}
	if cmd.Flags().Changed("drain") {
		if f.drain < 0 || f.drain > time.Hour {
			return wrongUse(cmd, "--drain: expected 0 to 1h, got %v", f.drain)
		}
		if c.Serve == nil {
			c.Serve = &configv1.Serve{}
		}
		ms := uint32(f.drain.Milliseconds())
		c.Serve.DrainMs = &ms
	}
	return nil
}

// presets returns what is to be run for the agent of a name.
func (a *app) presets(ctx context.Context, name string) (command, env []string, id string, err error) {
	r, err := a.preset(ctx, name)
	if err != nil {
		return nil, nil, "", err
	}
	return r.Command, r.Env, r.Agent.ID, nil
}

// starts are the agents that are started at once.
func starts(configured []*configv1.ServeAgent, names, command []string) []*supervisorv1.StartAgentRequest {
	var all []*supervisorv1.StartAgentRequest
	for _, c := range configured {
		req := &supervisorv1.StartAgentRequest{Preset: c.GetPreset(), Command: c.GetCommand(), Name: c.GetName(), Cwd: c.GetCwd()}
		for _, k := range slices.Sorted(maps.Keys(c.GetEnv())) {
			if req.Env == nil {
				req.Env = map[string]*supervisorv1.EnvValue{}
			}
			v := c.GetEnv()[k]
			if v.GetFile() != "" {
				req.Env[k] = &supervisorv1.EnvValue{Source: &supervisorv1.EnvValue_File{File: v.GetFile()}}
			} else {
				req.Env[k] = &supervisorv1.EnvValue{Source: &supervisorv1.EnvValue_Value{Value: v.GetValue()}}
			}
		}
		all = append(all, req)
	}
	for _, name := range names {
		all = append(all, &supervisorv1.StartAgentRequest{Preset: name})
	}
	if len(command) > 0 {
		all = append(all, &supervisorv1.StartAgentRequest{Command: command})
	}
	return all
}

// startAgents starts agents, all at once, and waits for them.
func startAgents(ctx context.Context, s *host.Supervisor, requests []*supervisorv1.StartAgentRequest) error {
	client := supervisorv1.NewAgentServiceClient(s.Conn())
	problems := make([]error, len(requests))
	var wg sync.WaitGroup
	for i, req := range requests {
		wg.Go(func() {
			if _, err := client.StartAgent(ctx, req); err != nil {
				message := status.Convert(err).Message()
				if !strings.HasPrefix(message, "start agent ") {
					message = fmt.Sprintf("start agent %q: %s", cmp.Or(req.GetPreset(), strings.Join(req.GetCommand(), " ")), message)
				}
				problems[i] = errors.New(message)
			}
		})
	}
	wg.Wait()
	return errors.Join(problems...)
}
