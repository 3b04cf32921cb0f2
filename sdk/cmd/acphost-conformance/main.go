// Command acphost-conformance runs the conformance cases against a handler: a program that it starts as acphost would,
// or a sidecar at an address. It prints a line for each case. The exit status is 0 if no case failed, 1 if a case
// failed, and 2 if the cases could not run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/acphost/acphost/internal/yamlproto"
	"github.com/acphost/acphost/sdk/conformance"
	"github.com/acphost/acphost/sdk/launch"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

const usage = `usage: acphost-conformance --kind KIND [flags] -- COMMAND [ARGS...]
       acphost-conformance --kind KIND [flags] --address ADDRESS

Flags:
`

// options are the options of the command line.
type options struct {
	kind     string
	spec     launch.Spec
	settings *structpb.Struct
	impure   bool
	noTTY    bool
	run      *regexp.Regexp
	timeout  time.Duration
	verbose  bool
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	o, err := parse(args, errs)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		_, _ = fmt.Fprintf(errs, "acphost-conformance: %v\n", err)
		return 2
	}
	o.spec.Logger = slog.New(slog.DiscardHandler)
	if o.verbose {
		o.spec.Logger = slog.New(slog.NewTextHandler(errs, nil))
	}
	instance, err := launch.Start(ctx, o.spec)
	if err != nil {
		_, _ = fmt.Fprintf(errs, "acphost-conformance: %v\n", err)
		return 2
	}
	if err := workAs(instance, o.spec.UID); err != nil {
		_, _ = fmt.Fprintf(errs, "acphost-conformance: %v\n", err)
		_ = instance.Stop(ctx)
		return 2
	}
	failed := check(ctx, o, instance, out)

	// The handler must be ended even if the run was interrupted.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := instance.Stop(ending); err != nil {
		_, _ = fmt.Fprintf(out, "FAIL  the handler ends when it is asked to: %v\n", err)
		failed = true
	}
	if ctx.Err() != nil {
		_, _ = fmt.Fprintln(errs, "acphost-conformance: interrupted")
		failed = true
	}
	if failed {
		return 1
	}
	return 0
}

// check runs the cases and reports whether one failed.
func check(ctx context.Context, o options, instance *launch.Instance, out io.Writer) (failed bool) {
	suite := conformance.Suite{
		Conn: instance, Kind: o.kind, Sidecar: instance.Sidecar(), Timeout: o.timeout, Settings: o.settings, Impure: o.impure, NoTTY: o.noTTY,
	}
	cases := conformance.Cases(o.kind)
	if !instance.Sidecar() {
		suite.Program = &conformance.Program{Command: o.spec.Command, Env: o.spec.Env, NoTLS: o.spec.NoTLS}
		cases = append(cases, conformance.ChildCases()...)
	}
	var passes, failures, skips int
	for _, c := range cases {
		if !o.run.MatchString(c.Name) || ctx.Err() != nil {
			continue
		}
		switch err := suite.RunCase(ctx, c); {
		case err == nil:
			passes++
			_, _ = fmt.Fprintf(out, "ok    %s\n", c.Name)
		case errors.Is(err, conformance.ErrSkipped):
			skips++
			_, _ = fmt.Fprintf(out, "skip  %s: %v\n", c.Name, err)
		default:
			failures++
			_, _ = fmt.Fprintf(out, "FAIL  %s: %s\n", c.Name, strings.ReplaceAll(err.Error(), "\n", "\n      "))
		}
	}
	skipped := ""
	if skips > 0 {
		skipped = fmt.Sprintf(", %d skipped", skips)
	}
	_, _ = fmt.Fprintf(out, "%d passed, %d failed%s\n", passes, failures, skipped)
	return failures > 0 || passes == 0
}

func parse(args []string, errs io.Writer) (options, error) {
	var (
		o   options
		tls launch.TLSFiles
		uid int64
		env []string
	)
	set := flag.NewFlagSet("acphost-conformance", flag.ContinueOnError)
	set.SetOutput(errs)
	set.Usage = func() {
		_, _ = io.WriteString(errs, usage)
		set.PrintDefaults()
	}
	set.StringVar(&o.kind, "kind", "", "the handler's `KIND`: "+strings.Join(conformance.Kinds(), ", "))
	set.StringVar(&o.spec.Address, "address", "", "a sidecar's `ADDRESS`: unix:///PATH or tcp://HOST:PORT")
	set.StringVar(&tls.CA, "tls-ca", "", "PEM `FILE`: who signed the sidecar's certificate")
	set.StringVar(&tls.Cert, "tls-cert", "", "PEM `FILE`: the certificate to show a sidecar")
	set.StringVar(&tls.Key, "tls-key", "", "PEM `FILE`: its private key")
	set.StringVar(&o.spec.SecretFile, "secret-file", "", "the `FILE` with the secret of a sidecar on a unix socket")
	set.Int64Var(&uid, "uid", -1, "the `ID` of the user that must run the sidecar; root then runs the cases as that user (default: your own)")
	set.BoolVar(&o.spec.NoTLS, "no-tls", false, "the command cannot do mutual TLS")
	set.Func("env", "`NAME=VALUE` for the command; repeatable", func(v string) error {
		env = append(env, v)
		return nil
	})
	settings := set.String("settings", "", "YAML `FILE`: the handler's settings, as in acphost's configuration")
	set.BoolVar(&o.impure, "impure", false, "decisions depend on more than the action: do not ask for the same one twice")
	set.BoolVar(&o.noTTY, "no-tty", false, "commands write to pipes: skip what demands a pseudo-terminal")
	pattern := set.String("run", "", "only cases whose names match this regular `EXPRESSION`")
	set.DurationVar(&o.timeout, "timeout", conformance.DefaultTimeout, "how long a case may take")
	set.BoolVar(&o.verbose, "v", false, "show the handler's log")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if !slices.Contains(conformance.Kinds(), o.kind) {
		return o, fmt.Errorf("--kind %q is none of %s", o.kind, strings.Join(conformance.Kinds(), ", "))
	}
	var err error
	if o.run, err = regexp.Compile(*pattern); err != nil {
		return o, fmt.Errorf("--run: %w", err)
	}
	if *settings != "" {
		data, err := os.ReadFile(*settings)
		if err != nil {
			return o, fmt.Errorf("--settings: %w", err)
		}
		o.settings = &structpb.Struct{}
		if err := yamlproto.Unmarshal(*settings, data, o.settings); err != nil {
			return o, fmt.Errorf("--settings: %w", err)
		}
	}
	if tls != (launch.TLSFiles{}) {
		o.spec.TLS = &tls
	}
	if uid >= 0 {
		id := uint32(uid)
		o.spec.UID = &id
	}
	o.spec.Name, o.spec.Env, o.spec.Command = "handler", env, set.Args()
	if len(o.spec.Command) > 0 {
		// A handler is found by its absolute path; a user may type a relative path.
		if o.spec.Command[0], err = filepath.Abs(o.spec.Command[0]); err != nil {
			return o, fmt.Errorf("the command's path: %w", err)
		}
	}
	return o, nil
}
