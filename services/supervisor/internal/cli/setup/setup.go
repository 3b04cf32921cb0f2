// Package setup implements "acphost setup": changes an editor's settings so that the editor starts agents through
// acphost, and undoes this.
package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/config/preset"
)

// backupSuffix is the suffix of the file with the previous content.
const backupSuffix = ".before-acphost"

// New returns the command "setup".
func New(call *command.Call) *cobra.Command {
	var agents []string
	var file string
	var show, undo bool
	cmd := &cobra.Command{
		Use:   "setup EDITOR [-- FLAG...]",
		Short: "Configure an editor to start its agents through acphost",
		Long: `Configure an editor to start its agents through acphost, by entries in the editor's
settings. EDITOR is zed, jetbrains, neovim (the plugin CodeCompanion) or emacs (the
package agent-shell).

Without --agent, the command adds the installed agents ("acphost agents list"). npx
downloads an agent that is not installed when the editor starts it. FLAGs are flags
of "acphost run", for example "-- --policy workspace".

An agent keeps its id in the editor, and so its history. Comments and other settings do
not change. The previous settings are saved as FILE` + backupSuffix + `; --undo
restores them, and keeps your later changes.`,
		Example: `  acphost setup zed
  acphost setup zed --agent claude -- --policy workspace
  acphost setup jetbrains --agent gemini --print
  acphost setup zed --undo`,
		Args: func(cmd *cobra.Command, args []string) error {
			n := len(args)
			if at := cmd.ArgsLenAtDash(); at >= 0 {
				n = at
			}
			if n != 1 {
				return command.UsageErrorf(cmd, "expected an editor: %s", strings.Join(names(), ", "))
			}
			if _, ok := find(args[0]); !ok {
				return command.UsageErrorf(cmd, "acphost does not know an editor %q, only %s; \"acphost setup jetbrains --print\" shows what most others take", args[0], strings.Join(names(), ", "))
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return names(), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			e, _ := find(args[0])
			if file == "" {
				file = e.file(call.Env)
			}
			file, err := resolveLinks(file)
			if err != nil {
				return err
			}
			if undo {
				return e.undo(call, file)
			}
			entries, err := e.entries(call, agents, args[1:])
			if err != nil {
				return err
			}
			if show {
				text, err := e.form.merge(nil, entries)
				if err == nil {
					_, err = call.Stdout.Write(text)
				}
				return err
			}
			return e.setUp(call, file, entries)
		},
	}
	cmd.Flags().StringArrayVar(&agents, "agent", nil, "an agent's `NAME`; may be repeated (default: all that are installed)")
	cmd.Flags().StringVar(&file, "file", "", "the editor's settings are in this `FILE` (default: where the editor has them)")
	cmd.Flags().BoolVar(&show, "print", false, "print the entries, and change nothing")
	cmd.Flags().BoolVar(&undo, "undo", false, "remove acphost's entries")
	cmd.MarkFlagsMutuallyExclusive("print", "undo")
	cmd.MarkFlagsMutuallyExclusive("agent", "undo")
	cliflag.Complete(cmd, "agent", cliflag.Words())
	return cmd
}

// entries returns the entries of the named agents, or of all installed agents if names is empty.
func (e editor) entries(call *command.Call, names, flags []string) ([]entry, error) {
	catalog, err := preset.Load(call.Env)
	if err != nil {
		return nil, err
	}
	var agents []preset.Agent
	for _, n := range names {
		a, err := catalog.Find(n)
		if err != nil {
			return nil, err
		}
		if e.id(a) == "" {
			return nil, fmt.Errorf("%s has no place for the agent %s that acphost knows", e.title, a.ID)
		}
		agents = append(agents, a)
	}
	if len(names) == 0 {
		for _, a := range catalog.Agents() {
			if r, err := catalog.Resolve(a.ID); err == nil && r.Found != "" && e.id(a) != "" {
				agents = append(agents, a)
			}
		}
	}
	if len(agents) == 0 {
		return nil, errors.New("no agent is installed that the editor knows: name one with --agent, which is then fetched when the editor starts it; " +
			"\"acphost agents list\" has their names")
	}
	exe, err := program(call)
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, a := range agents {
		all = append(all, entry{
			id: e.id(a), others: append([]string{a.ID, a.Name}, a.Own.Aliases...),
			command: slices.Concat([]string{exe, "run"}, flags, []string{"--agent", a.ID, "--"}),
		})
	}
	for _, w := range append([]string{exe}, flags...) {
		if strings.ContainsFunc(w, unicode.IsControl) {
			return nil, fmt.Errorf("%q has a control character, which settings of editors cannot hold", w)
		}
	}
	return all, nil
}

// program returns the path by which editors start acphost: the path on PATH, which is stable across updates, if it
// leads to this program.
func program(call *command.Call) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find out where acphost is: %w", err)
	}
	own, err := os.Stat(exe)
	if err != nil {
		return "", fmt.Errorf("find out where acphost is: %w", err)
	}
	for _, dir := range filepath.SplitList(call.Env("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		path, err := exec.LookPath(filepath.Join(dir, "acphost"))
		if err != nil {
			continue
		}
		if info, err := os.Stat(path); err == nil && os.SameFile(info, own) {
			return path, nil
		}
	}
	return exe, nil
}

// setUp writes the entries.
func (e editor) setUp(call *command.Call, file string, entries []entry) error {
	text, err := read(file)
	if err != nil {
		return err
	}
	merged, err := e.form.merge(text, entries)
	if err != nil {
		return fmt.Errorf("%s: %w; nothing was changed", file, err)
	}
	var ids []string
	for _, x := range entries {
		ids = append(ids, x.id)
	}
	what := strings.Join(ids, ", ")
	if bytes.Equal(text, merged) {
		_, err := fmt.Fprintf(call.Stdout, "%s runs through acphost already: %s\n", what, file)
		return err
	}
	if backup := file + backupSuffix; !exists(backup) {
		if err := write(backup, text, file); err != nil {
			return err
		}
	}
	if err := write(file, merged, file); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(call.Stdout, "%s starts these through acphost now: %s\nwritten: %s\nkept as it was: %s\n", e.title, what, file, file+backupSuffix); err != nil {
		return err
	}
	if e.then != "" {
		_, err = fmt.Fprintf(call.Stdout, "\n%s\n", e.then)
	}
	return err
}

// undo removes the entries.
func (e editor) undo(call *command.Call, file string) error {
	backup := file + backupSuffix
	if !exists(file) || !exists(backup) {
		return fmt.Errorf("%s was not written by \"acphost setup\" on this machine: there is no %s", file, backup)
	}
	text, err := read(file)
	if err != nil {
		return err
	}
	before, err := read(backup)
	if err != nil {
		return err
	}
	rest, err := e.form.remove(text, before)
	if err != nil {
		return fmt.Errorf("%s: %w; nothing was changed", file, err)
	}
	if len(rest) == 0 && len(before) == 0 {
		err = os.Remove(file)
	} else {
		err = write(file, rest, file)
	}
	if err == nil {
		err = os.Remove(backup)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(call.Stdout, "%s starts its agents without acphost again: %s\n", e.title, file)
	return err
}

// resolveLinks returns the target of a file's symbolic links, because users keep settings elsewhere.
func resolveLinks(file string) (string, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return file, nil
	case err != nil:
		return "", err
	}
	return real, nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// read returns a file's text, or none if it does not exist.
func read(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// write writes a file atomically, with the permissions of the file like, if that exists.
func write(file string, text []byte, like string) (err error) {
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(like); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(file), ".acphost-setup-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	_, err = out.Write(text)
	if err := errors.Join(err, out.Chmod(mode), out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), file)
}
