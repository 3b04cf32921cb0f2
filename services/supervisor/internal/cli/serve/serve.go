// Package serve implements "acphost serve": runs a supervisor without an editor, for programs that use gRPC.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/activation"
	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/panics"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/sdk/launch"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/agentcmd"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/hosting"
	"github.com/acphost/acphost/services/supervisor/internal/host"
	"github.com/acphost/acphost/services/supervisor/internal/host/pid1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
)

const serveLong = `Run without an editor: programs start agents, open sessions, send prompts, watch
events and answer questions over gRPC. "acphost ps --json" shows the addresses:
"socket" is read-only, "control" accepts all calls. grpcurl's "list" and "describe"
show the services.

    grpcurl -plaintext -unix SOCKET list
    grpcurl -plaintext CONTROL list

With --listen, acphost also serves over TCP, only with mutual TLS. "acphost certs
init" creates the keys, and the role in a client's certificate determines its
rights. acphost does not serve over TCP if agents can read a client's or the
authority's key beside the server's keys. A socket that a service manager has opened
(LISTEN_FDS of systemd) replaces --listen.

Programs start agents by calls. --agent, or a command after "--", starts an agent at
once; if it cannot be started, acphost ends.

Without a policy (--policy, or permission.policy in the configuration), agents'
commands run without a question.

After TERM or Ctrl-C, no new turn starts. Running turns have the time of --drain to
end, and are then cancelled. acphost ends all processes that it has started. Without
--drain this takes a second at most; a second signal ends everything at once.

As the first process of a container, acphost reaps orphaned processes. Without a
policy it needs only a writable folder for its sockets ($XDG_RUNTIME_DIR, $TMPDIR,
/tmp, /run or /dev/shm); without a state folder it records no sessions. With a
policy it also needs a place for the audit log: HOME, XDG_STATE_HOME or
permission.audit.file, unless permission.audit.disabled is set.`

const serveExit = `
Exit status:
  0   a signal (SIGTERM, Ctrl-C) or a program ended it, without an error
  1   an error at the start or the end
  2   wrong usage

Environment:
  ACPHOST_CONFIG   the configuration file, if --config is not given
  ACPHOST_LOG      the log level, if --log-level is not given
`

// readyTimeout limits the start of the handlers. It is slightly longer than the start of one handler, so that its error
// is returned.
const readyTimeout = launch.ChildTimeout + 5*time.Second

// serveFlags are the flags of "serve".
type serveFlags struct {
	hosting.Flags
	listen, tlsDir, socket string
	agents                 []string
	agentsMayUseKeys       bool
	drain                  time.Duration
}

// New returns the command "serve".
func New(call *command.Call, start hosting.Starter) *cobra.Command {
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
				return command.UsageErrorf(cmd, "put \"--\" before an agent's command: acphost serve -- %s", strings.Join(args, " "))
			}
			if (f.listen == "") != (f.tlsDir == "") && os.Getenv("LISTEN_FDS") == "" {
				return command.UsageErrorf(cmd, "--listen and --tls-dir go together")
			}
			if f.agentsMayUseKeys && f.listen == "" {
				return command.UsageErrorf(cmd, "--agents-may-use-keys is for --listen")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return serve(cmd, call, start, &f, args) },
	}
	cmd.Annotations = map[string]string{command.Sections: serveExit}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.agents, "agent", nil, "start the agent of this `NAME` at once; can be repeated")
	flags.StringVar(&f.socket, "socket", "",
		"the admin socket's `PATH`, absolute; default: a unique name that \"acphost ps\" finds")
	flags.StringVar(&f.listen, "listen", "", "serve over TCP too, at `HOST:PORT`")
	flags.StringVar(&f.tlsDir, "tls-dir", "", "the `FOLDER` with ca.crt, server.crt and server.key, as \"acphost certs init\" makes it: its folder server")
	flags.BoolVar(&f.agentsMayUseKeys, "agents-may-use-keys", false,
		"serve although agents can read callers' keys beside the server's, and so have their rights; for tests")
	flags.DurationVar(&f.drain, "drain", 0, "the time that turns have to end after TERM; default: serve.drain_ms, else 0")
	f.Register(cmd)
	f.RegisterActivity(cmd)
	cliflag.Complete(cmd, "agent", cliflag.Agents(call.Env))
	return cmd
}

func serve(cmd *cobra.Command, call *command.Call, start hosting.Starter, f *serveFlags, argv []string) error {
	call.HandleSignals()
	if pid1.Needed() {
		exe, err := command.Executable()
		if err != nil {
			return err
		}
		call.Status, err = pid1.Run(append([]string{exe}, os.Args[1:]...), call.Stdin, call.Stdout, call.Stderr)
		return err
	}
	passed, err := activation.TCP()
	if err != nil {
		return err
	}
	if passed != nil {
		defer passed.Close()
		if f.listen != "" || f.tlsDir == "" {
			return command.UsageErrorf(cmd, "the service manager has passed a socket at %s (LISTEN_FDS): give --tls-dir, and no --listen", passed.Addr())
		}
		f.listen = passed.Addr().String()
	}
	o, err := f.Options(cmd, call, call.Stderr, func(c *configv1.Config) error { return f.override(cmd, c) })
	if err != nil {
		return err
	}
	if line := cliflag.NoRulesNotice(o.Config, "", true); line != "" {
		call.Notice("%s", line)
	}
	o.Listener = passed
	o.Env, o.Stderr, o.Presets = os.Environ(), call.Stderr, agentcmd.Presets(call)
	hurry := hosting.NewKillTimer(cmd.Context())
	defer hurry.Stop()
	grace, drainTime := hosting.EndGrace(o.Config), time.Duration(o.Config.Effective().GetServe().GetDrainMs())*time.Millisecond
	defer context.AfterFunc(cmd.Context(), func() { hurry.After(drainTime + grace) })()
	o.Kill = hurry.Context()
	s, err := start(cmd.Context(), o)
	if err != nil {
		return err
	}
	defer func() {
		if cmd.Context().Err() != nil { // no turn is active, or its time is over
			hurry.After(grace)
		}
		s.Close()
	}()
	ready, cancel := context.WithTimeout(cmd.Context(), readyTimeout)
	err = s.Ready(ready)
	cancel()
	if err == nil {
		err = startAgents(cmd.Context(), s, starts(o.Config.Effective().GetServe().GetAgents(), f.agents, argv))
	}
	if cmd.Context().Err() != nil {
		return nil // it was asked to end, which may have interrupted the start
	}
	if err != nil {
		return err
	}
	for _, at := range s.Addresses() {
		call.Notice("serving at %s", at)
	}
	<-cmd.Context().Done()
	drain, cancel := context.WithTimeout(hurry.Context(), drainTime)
	defer cancel()
	return s.Drain(drain)
}

func isThere(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// override overrides the configuration by flags.
func (f *serveFlags) override(cmd *cobra.Command, c *configv1.Config) error {
	if c.Admin == nil {
		c.Admin = &configv1.Admin{}
	}
	if f.socket != "" {
		if !filepath.IsAbs(f.socket) {
			return command.UsageErrorf(cmd, "--socket: %q is not an absolute path", f.socket)
		}
		c.Admin.Socket = f.socket
	}
	if f.listen != "" {
		dir, err := filepath.Abs(f.tlsDir)
		if err != nil {
			return err
		}
		c.Admin.Listen = f.listen
		files := certs.ServerFiles(dir)
		if below := certs.ServerFiles(filepath.Join(dir, certs.ServerDir)); !isThere(files.Cert) && isThere(below.Cert) {
			return command.UsageErrorf(cmd, "--tls-dir: the server's files are in %s; take that folder to where nothing else of %s lies, and name it", filepath.Dir(below.Cert), dir)
		}
		c.Admin.Tls = &configv1.TLS{Ca: files.CA, Cert: files.Cert, Key: files.Key}
		c.Admin.AgentsMayUseKeys = f.agentsMayUseKeys
	}
	if cmd.Flags().Changed("drain") {
		if f.drain < 0 || f.drain > time.Hour {
			return command.UsageErrorf(cmd, "--drain: expected 0 to 1h, got %v", f.drain)
		}
		if c.Serve == nil {
			c.Serve = &configv1.Serve{}
		}
		ms := uint32(f.drain.Milliseconds())
		c.Serve.DrainMs = &ms
	}
	return nil
}

// starts returns the agents that are started at once.
func starts(configured []*configv1.ServeAgent, names, argv []string) []*supervisorv1.StartAgentRequest {
	var all []*supervisorv1.StartAgentRequest
	for _, c := range configured {
		all = append(all, host.StartRequest(c))
	}
	for _, name := range names {
		all = append(all, &supervisorv1.StartAgentRequest{Preset: name})
	}
	if len(argv) > 0 {
		all = append(all, &supervisorv1.StartAgentRequest{Command: argv})
	}
	return all
}

// startAgents starts agents concurrently, and waits for them.
func startAgents(ctx context.Context, s *host.Supervisor, requests []*supervisorv1.StartAgentRequest) error {
	agents := client.New(s.Conn()).Agents
	problems := make([]error, len(requests))
	var wg sync.WaitGroup
	for i, req := range requests {
		wg.Go(func() {
			defer panics.Recover(nil, "starting an agent", func(err error) { problems[i] = err })
			if _, err := agents.StartAgent(ctx, req); err != nil {
				message := err.Error()
				if !strings.HasPrefix(message, "start agent ") {
					message = fmt.Sprintf("start agent %q: %s", cmp.Or(req.GetPreset(), strings.Join(secret.RedactedArgv(req.GetCommand()), " ")), message)
				}
				problems[i] = errors.New(message)
			}
		})
	}
	wg.Wait()
	return errors.Join(problems...)
}
