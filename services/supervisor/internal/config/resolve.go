package config

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/yamlproto"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/ownhandler"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
)

// resolve makes the paths of a valid configuration absolute.
func (v *checker) resolve(c *configv1.Config) {
	for _, h := range slices.Concat(slices.Collect(maps.Values(c.GetHandlers())), c.GetPermission().GetChain()) {
		v.program(h.GetCommand())
		h.Sha256 = strings.ToLower(h.GetSha256())
		v.resolveTLS(h.GetTls())
		if h.GetSecretFile() != "" {
			h.SecretFile = v.absolute(h.GetSecretFile())
		}
	}
	for i, name := range c.GetAgent().GetUnreadable() {
		c.Agent.Unreadable[i] = v.absolute(name)
	}
	v.resolveServe(c)
	for _, root := range c.GetWorkspace().GetExtraRoots() {
		if dir, err := v.expand(root.GetPath()); err == nil {
			root.Path = dir
		}
	}
	if c.GetJournal() != nil {
		clean(&c.Journal.Dir)
	}
	if p := c.GetPermission(); p != nil {
		v.program(p.GetCommand())
		if p.GetPolicy() != "" {
			p.Policy = v.rules(p.GetPolicy())
		}
		clean(&p.AdminPolicy)
		if p.GetGrants() != nil {
			clean(&p.Grants.File)
		}
		if p.GetAudit() != nil {
			clean(&p.Audit.File)
		}
	}
}

func (v *checker) resolveTLS(t *configv1.TLS) {
	for _, file := range tlsFiles(t) {
		*file = v.absolute(*file)
	}
}

// program makes the program of a command absolute, unless it is a bare name.
func (v *checker) program(command []string) {
	if len(command) > 0 && strings.ContainsRune(command[0], filepath.Separator) {
		command[0] = v.absolute(command[0])
	}
}

func clean(name *string) {
	if *name != "" {
		*name = filepath.Clean(*name)
	}
}

// absolute resolves a path relative to the file's folder.
func (v *checker) absolute(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(v.base, name)
}

// CheckFiles returns an error for every missing file that the configuration names: programs (own locates bare names),
// the rule file, and keys. Load does not check them, because they may be created later. CheckFiles also checks the
// agents' user. The error joins one *yamlproto.Error for each problem.
func (c *Config) CheckFiles(own ownhandler.Programs) error {
	v := checker{doc: c.doc}
	for _, name := range slices.Sorted(maps.Keys(c.Proto.GetHandlers())) {
		v.handlerFiles(path("handlers").to(name), c.Proto.GetHandlers()[name], own)
	}
	v.checkServeFiles(c.Proto)
	p, at := c.Proto.GetPermission(), path("permission")
	v.handlerFiles(at, &configv1.Handler{Command: p.GetCommand()}, own)
	for i, h := range p.GetChain() {
		v.handlerFiles(at.to("chain", i), h, own)
	}
	if policy := p.GetPolicy(); policy != "" && !IsReadyPolicy(policy) {
		v.ruleFile(at.to("policy"), policy)
	}
	if c.adminPolicy {
		v.regular(at.to("admin_policy"), c.Permd().GetAdminPolicy(), 0)
	}
	// the user of the check may differ from the user that runs acphost
	if _, err := c.AgentUser(); err != nil && !errors.Is(err, proc.ErrNotRoot) {
		v.problem(path("agent.user"), "%v", errors.Unwrap(err))
	}
	return v.err()
}

func (v *checker) handlerFiles(at path, h *configv1.Handler, own ownhandler.Programs) {
	if len(h.GetCommand()) > 0 {
		v.regular(at.to("command", 0), own.Command(h.GetCommand())[0], 0o111)
	}
	v.regularTLS(at.to("tls"), h.GetTls())
	if file := h.GetSecretFile(); file != "" {
		v.regular(at.to("secret_file"), file, 0)
	}
}

func (v *checker) regularTLS(at path, t *configv1.TLS) {
	for field, file := range tlsFiles(t) {
		v.regular(at.to(field), *file, 0)
	}
}

// ruleFile requires a rule file. If the file is missing, its name may be a misspelled name of a ready policy.
func (v *checker) ruleFile(p path, name string) {
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) || filepath.Ext(name) != "" {
		v.regular(p, name, 0)
		return
	}
	base := filepath.Base(name)
	v.problem(p, "there is no file %s, nor is %q the name of a ready policy: these are %s%s", name, base, strings.Join(readyPolicies, ", "),
		yamlproto.DidYouMean(base, readyPolicies))
}

// regular requires a regular file with one of the given mode bits, if mode is not 0.
func (v *checker) regular(p path, name string, mode os.FileMode) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		v.problem(p, "%v", err)
	case !info.Mode().IsRegular():
		v.problem(p, "%s is not a regular file", name)
	case mode != 0 && info.Mode().Perm()&mode == 0:
		v.problem(p, "%s is not executable; chmod +x %s", name, name)
	}
}

// ProtectedPaths returns the files and folders that agents must not access, sorted: acphost's configuration folder and
// its state folder (even if missing, because a file in them is used from the next start on), the configuration file,
// rule files, the programs of policies, stored answers, the records of decisions and of sessions, keys, files with the
// values of agents' environment variables, sockets of sidecars and of the supervisor, and the paths in more, such as
// the folder of the admin socket. If a path contains symbolic links, the result contains the resolved path, too. Rule
// files of workspaces are not included, because they depend on the session.
func (c *Config) ProtectedPaths(more ...string) []string {
	e := c.Effective()
	p := e.GetPermission()
	own := append([]string{c.folder, c.state, c.File, filepath.Dir(DefaultAdminPolicy), p.GetAdminPolicy(), p.GetGrants().GetFile(), e.GetJournal().GetDir(), e.GetAdmin().GetSocket()}, more...)
	own = append(own, auditFiles(p.GetAudit())...)
	own = append(own, serveFiles(e)...)
	if policy := p.GetPolicy(); !IsReadyPolicy(policy) {
		own = append(own, policy)
	}
	for name, h := range e.GetHandlers() {
		setting := func(name string) string { return h.GetSettings().GetFields()[name].GetStringValue() }
		own = append(own, h.GetTls().GetCa(), h.GetTls().GetCert(), h.GetTls().GetKey(), h.GetSecretFile(),
			setting("policy"), setting("admin_policy"), setting("trust"))
		if socket, ok := strings.CutPrefix(h.GetAddress(), "unix://"); ok {
			own = append(own, socket)
		}
		if Kind(name) == route.KindPermission {
			own = append(own, programFiles(h.GetCommand())...)
		}
	}
	var protected []string
	for _, p := range own {
		if filepath.IsAbs(p) {
			protected = append(protected, filepath.Clean(p), paths.Real(filepath.Clean(p)))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(protected)))
}

// programFiles returns the files that a command names by absolute paths: the program, or the script that its
// interpreter runs. An agent that can write them can replace the policy.
func programFiles(command []string) []string {
	var files []string
	for _, arg := range command {
		if info, err := os.Stat(arg); filepath.IsAbs(arg) && err == nil && info.Mode().IsRegular() {
			files = append(files, arg)
		}
	}
	return files
}

// auditFiles returns the file of the record of decisions and its rotated files.
func auditFiles(a *configv1.Audit) []string {
	files := []string{a.GetFile()}
	for i := range a.GetKeep() {
		if a.GetFile() != "" {
			files = append(files, a.GetFile()+"."+strconv.Itoa(int(i)+1))
		}
	}
	return files
}

func isThere(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
