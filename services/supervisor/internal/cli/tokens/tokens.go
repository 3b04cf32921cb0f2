// Package tokens implements "acphost tokens": manages the tokens that authenticate clients of a gateway.
package tokens

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/ownfile"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/tokens"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
)

const (
	// defaultLifetime is the default lifetime of a token.
	defaultLifetime = 30 * 24 * time.Hour
	// maxLifetime limits the lifetime of a token.
	maxLifetime = 3650 * 24 * time.Hour
	// maxName limits the characters of a token's name.
	maxName = 64
	// maxTokens limits the tokens of a file.
	maxTokens = 10_000
)

// New returns the command "tokens".
func New(call *command.Call) *cobra.Command {
	return command.Group("tokens", "Create, list or revoke the tokens of a gateway's clients",
		`Create, list or revoke the tokens by which a gateway (gatewayd) authenticates
clients. The file contains their hashes; a token itself is shown once, when it is
created. The role determines the rights of its owner:

  viewer     reads all state
  approver   also answers questions
  operator   also sends prompts`,
		newCreate(call), newList(call), newRevoke(call))
}

// rejectAgents rejects agents. On systems that do not identify the caller, such as macOS, only the modes of the files
// protect the tokens.
func rejectAgents(cmd *cobra.Command, call *command.Call) error {
	err := call.RejectAgents(cmd)
	if errors.Is(err, proc.ErrUnsupported) {
		return nil
	}
	return err
}

func newCreate(call *command.Call) *cobra.Command {
	var name, role, file string
	var lifetime time.Duration
	cmd := &cobra.Command{
		Use:   "create --role ROLE",
		Short: "Create a token and print it",
		Long: `Create a token and print it to standard output. It is not shown again.

An agent that can read a token has the rights of its role: store it where no agent
can read it. Agents, and processes that they have started, cannot create tokens.`,
		Example: `  acphost tokens create --role operator --name laptop --expires 720h
  (umask 077; acphost tokens create --role operator > ~/acp.token)`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case !slices.Contains(tokens.Roles(), role):
				return command.UsageErrorf(cmd, "--role: expected one of %s, got %q", strings.Join(tokens.Roles(), ", "), role)
			case lifetime < time.Second || lifetime > maxLifetime:
				return command.UsageErrorf(cmd, "--expires: expected 1s to %s, got %s", maxLifetime, lifetime)
			case len([]rune(name)) > maxName || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }):
				return command.UsageErrorf(cmd, "--name: expected at most %d characters, without control characters", maxName)
			}
			if err := rejectAgents(cmd, call); err != nil {
				return err
			}
			t, secret, err := tokens.New(name, role, time.Now(), lifetime)
			if err != nil {
				return err
			}
			path, err := change(call, file, func(all tokens.Set) (tokens.Set, error) {
				all = slices.DeleteFunc(all, func(t tokens.Token) bool { return time.Since(t.Expires) > defaultLifetime })
				if len(all) >= maxTokens {
					return nil, fmt.Errorf("there are %d tokens already: revoke some", len(all))
				}
				return append(all, t), nil
			})
			if err != nil {
				return err
			}
			call.Notice("made token %s with the role %s, until %s; gatewayd --tokens %s takes it", t.ID, t.Role, t.Expires.Local().Format(time.DateTime), path)
			_, err = fmt.Fprintln(call.Stdout, secret)
			return err
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "the `ROLE` of its owner: viewer, approver or operator")
	cmd.Flags().DurationVar(&lifetime, "expires", defaultLifetime, "how long it is valid")
	cmd.Flags().StringVar(&name, "name", "", "a `NAME` for the list")
	fileFlag(cmd, &file)
	cliflag.Complete(cmd, "role", cliflag.Words(tokens.Roles()...))
	return cmd
}

func newList(call *command.Call) *cobra.Command {
	var asJSON bool
	var file string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the tokens",
		Long:    `List the tokens, oldest first. The list does not contain the tokens themselves.`,
		Example: `  acphost tokens list`,
		Args:    command.NoArguments,
		RunE: func(_ *cobra.Command, _ []string) error {
			path, err := pathOf(call, file)
			if err != nil {
				return err
			}
			all, err := tokens.Read(path)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if asJSON {
				list := make([]listed, len(all))
				for i, t := range all {
					list[i] = listed{t.ID, t.Name, t.Role, t.Created, t.Expires}
				}
				return output.PrintLines(call, list)
			}
			return output.PrintTable(call, table(all, time.Now()))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON lines")
	fileFlag(cmd, &file)
	return cmd
}

// listed is a token in JSON output.
type listed struct {
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"`
	Role    string    `json:"role"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

func table(all tokens.Set, now time.Time) *output.Table {
	t := output.NewTable("there are no tokens", "ID", "ROLE", "MADE", "ENDS", "NAME").Long("NAME")
	for _, token := range all {
		ends := token.Expires.Local().Format(time.DateTime)
		if !now.Before(token.Expires) {
			ends = "expired"
		}
		t.Add(token.ID, token.Role, token.Created, ends, token.Name)
	}
	return t
}

func newRevoke(call *command.Call) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "revoke ID...",
		Short: "Revoke tokens",
		Long: `Revoke tokens. A gateway refuses them from now on, and closes their connections
within seconds. If one of the ids is not known, nothing is revoked.

Only a person can: an agent, and what an agent started, is refused.`,
		Example: `  acphost tokens revoke 1f0c9a2b77de`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.UsageErrorf(cmd, "the id of a token is missing; \"acphost tokens list\" shows them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := rejectAgents(cmd, call); err != nil {
				return err
			}
			_, err := change(call, file, func(all tokens.Set) (tokens.Set, error) {
				for _, id := range args {
					if !slices.ContainsFunc(all, func(t tokens.Token) bool { return t.ID == id }) {
						return nil, fmt.Errorf("there is no token %q; \"acphost tokens list\" shows them", id)
					}
				}
				return slices.DeleteFunc(all, func(t tokens.Token) bool { return slices.Contains(args, t.ID) }), nil
			})
			if err != nil {
				return err
			}
			for _, id := range args {
				if _, err := fmt.Fprintf(call.Stdout, "revoked %s\n", id); err != nil {
					return err
				}
			}
			return nil
		},
	}
	fileFlag(cmd, &file)
	return cmd
}

func fileFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "file", "", "the `FILE` of tokens; default: tokens.json in the user's state folder for acphost")
}

// pathOf returns the path of the file of tokens.
func pathOf(call *command.Call, file string) (string, error) {
	if file != "" {
		return filepath.Abs(file)
	}
	dir := ownfile.StateDir(call.Env)
	if dir == "" {
		return "", errors.New("the file of the tokens is unknown: neither XDG_STATE_HOME nor HOME is set; set one, or give --file")
	}
	return filepath.Join(dir, tokens.FileName), nil
}

// change replaces the tokens of a file, which it creates if it is missing. A lock excludes concurrent changes.
func change(call *command.Call, file string, f func(tokens.Set) (tokens.Set, error)) (path string, err error) {
	if path, err = pathOf(call, file); err != nil {
		return "", err
	}
	lock, err := ownfile.Append(path + ".lock")
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	if err := ownfile.Lock(lock, time.Now().Add(ownfile.LockTimeout)); err != nil {
		return "", err
	}
	all, err := tokens.Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if all, err = f(all); err != nil {
		return "", err
	}
	text, err := tokens.Encode(all)
	if err != nil {
		return "", err
	}
	return path, ownfile.Write(path, true, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
