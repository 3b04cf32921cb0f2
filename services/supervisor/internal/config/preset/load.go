package preset

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/kernel"
)

// The user's manifests, in the configuration folder. Of the same id the later one counts.
const (
	RegistryFile = "registry.json"
	AgentsFile   = "agents.json"
)

//go:embed builtin.json
var builtin []byte

// Load reads the manifests: the built-in one, then registry.json and agents.json in the user's configuration folder for
// acphost, each of which may be missing. env looks up environment variables, as os.Getenv does. A file that others could
// have written is refused. What is wrong in a file is a *ManifestError.
func Load(env func(string) string) (*Catalog, error) {
	agents := map[string]Agent{}
	first, err := parse("", builtin)
	if err != nil {
		return nil, fmt.Errorf("the built-in presets: %w", err)
	}
	merge(agents, first)
	if folder := config.Folder(env); folder != "" {
		for _, name := range []string{RegistryFile, AgentsFile} {
			file := filepath.Join(folder, name)
			data, err := config.ReadOwn(file)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("agents: %w", err)
			}
			more, err := parse(file, data)
			if err != nil {
				return nil, err
			}
			if name != AgentsFile { // what is trusted of an agent is for the user to say, not for a list from elsewhere
				for i := range more {
					more[i].Own.Dialect, more[i].Own.Hosts, more[i].Own.State = nil, nil, nil
					more[i].Own.Modes, more[i].Own.Tested, more[i].Own.TerminalTools = nil, nil, nil
					more[i].Own.Unneeded, more[i].Own.Caches = nil, nil
				}
			}
			merge(agents, more)
		}
	}
	c := &Catalog{env: env}
	for _, id := range slices.Sorted(maps.Keys(agents)) {
		c.agents = append(c.agents, agents[id])
	}
	return c, nil
}

// ManifestError is a mistake in a manifest.
type ManifestError struct {
	File string
	// Line and Column count from 1, the column in bytes.
	Line, Column int
	// Field is where it stands: "agents[2].distribution.npx.package". Empty: the file as a whole.
	Field string
	// Message says what was expected.
	Message string
}

// Error says it in the form FILE:LINE:COLUMN: FIELD: MESSAGE.
func (e *ManifestError) Error() string {
	at := fmt.Sprintf("%s:%d:%d: ", e.File, e.Line, e.Column)
	if e.Field != "" {
		at += e.Field + ": "
	}
	return at + e.Message
}

// parse reads a manifest.
func parse(file string, data []byte) ([]Agent, error) {
	p := parser{file: file, data: data}
	var m struct {
		Agents []Agent `json:"agents"`
	}
	if err := json.Unmarshal(data, &m, json.DefaultOptionsV2()); err != nil {
		return nil, p.unread(err)
	}
	if m.Agents == nil {
		return nil, p.problem("", `expected an object with "agents", a list, as the ACP registry has it`)
	}
	seen := map[string]bool{}
	for i := range m.Agents {
		a := &m.Agents[i]
		a.Source = file
		at := "/agents/" + strconv.Itoa(i)
		if seen[a.ID] {
			return nil, p.problem(at+"/id", "%q stands here twice", a.ID)
		}
		seen[a.ID] = true
		if err := p.agent(at, a); err != nil {
			return nil, err
		}
	}
	return m.Agents, nil
}

// parser knows where things stand in one manifest. Places are JSON pointers.
type parser struct {
	file string
	data []byte
}

func (p *parser) agent(at string, a *Agent) error {
	if !idForm.MatchString(a.ID) {
		return p.problem(at+"/id", "expected a-z, then a-z, 0-9 and \"-\", 64 at most, got %q", a.ID)
	}
	a.Name = cmp.Or(a.Name, a.ID)
	for i, alias := range a.Own.Aliases {
		if !idForm.MatchString(alias) {
			return p.problem(fmt.Sprintf("%s/acphost/aliases/%d", at, i), "expected a-z, then a-z, 0-9 and \"-\", 64 at most, got %q", alias)
		}
	}
	for member, list := range map[string][]string{"hosts": a.Own.Hosts, "unneeded_hosts": a.Own.Unneeded} {
		for i, text := range list {
			if _, err := hosts.ParsePattern(text); err != nil {
				return p.problem(fmt.Sprintf("%s/acphost/%s/%d", at, member, i), "expected a machine like api.example.com:443, got %q: %v", text, err)
			}
		}
	}
	for i, name := range a.Own.Caches {
		if !variableForm.MatchString(name) {
			return p.problem(fmt.Sprintf("%s/acphost/caches/%d", at, i), "expected the name of an environment variable that ends in _HOME or _DIR, got %q", name)
		}
	}
	for i, text := range a.Own.State {
		if why := kernel.CheckState(text); why != "" {
			return p.problem(fmt.Sprintf("%s/acphost/state/%d", at, i), "%s, got %q", why, text)
		}
	}
	if d := a.Own.Dialect; d != nil {
		if m := d.Check(); m != nil {
			return p.problem(at+"/acphost/dialect"+m.At, "%s", m.Message)
		}
	}
	login, defaults := at+"/acphost/login", at+"/acphost/defaults"
	if err := cmp.Or(p.arguments(login, a.Own.Login), p.variables(defaults, a.Own.Defaults)); err != nil {
		return err
	}
	at += "/distribution"
	for kind, pkg := range map[string]*Package{"npx": a.Distribution.NPX, "uvx": a.Distribution.UVX} {
		if pkg == nil {
			continue
		}
		if err := p.packaged(at+"/"+kind, pkg); err != nil {
			return err
		}
	}
	for _, platform := range slices.Sorted(maps.Keys(a.Distribution.Binary)) {
		b, at := a.Distribution.Binary[platform], at+"/binary/"+platform
		if b == nil || b.Cmd == "" || strings.ContainsRune(b.Cmd, 0) {
			return p.problem(at+"/cmd", "expected the program, relative to the archive or absolute")
		}
		if !filepath.IsAbs(b.Cmd) && !filepath.IsLocal(b.Cmd) {
			return p.problem(at+"/cmd", "expected a path that stays in the archive, or an absolute one, got %q", b.Cmd)
		}
		if err := p.process(at, b.Args, b.Env); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) packaged(at string, pkg *Package) error {
	// A leading dash would be a flag of npx or uvx; a slash out of place, or a colon, a folder or an address.
	if !packageForm.MatchString(pkg.Package) {
		return p.problem(at+"/package", "expected a package of the registry, with or without a version (\"@scope/name@1.2.3\"), got %q", pkg.Package)
	}
	if pkg.Cmd != "" && !commandForm.MatchString(pkg.Cmd) {
		return p.problem(at+"/cmd", "expected the name of a command in the package, got %q", pkg.Cmd)
	}
	return p.process(at, pkg.Args, pkg.Env)
}

func (p *parser) process(at string, args []string, env map[string]string) error {
	return cmp.Or(p.arguments(at+"/args", args), p.variables(at+"/env", env))
}

func (p *parser) variables(at string, env map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(env[name], 0) {
			return p.problem(at, "expected variables without \"=\" in their names and without NUL, got %q", name)
		}
	}
	return nil
}

func (p *parser) arguments(at string, args []string) error {
	for i, arg := range args {
		if strings.ContainsRune(arg, 0) {
			return p.problem(at+"/"+strconv.Itoa(i), "expected an argument without NUL, got %q", arg)
		}
	}
	return nil
}

var (
	idForm       = lazyregexp.New(`^[a-z][a-z0-9-]{0,63}$`)
	packageForm  = lazyregexp.New(`^(@[A-Za-z0-9_-][A-Za-z0-9._~-]*/)?[A-Za-z0-9_][A-Za-z0-9._~-]*(\[[A-Za-z0-9,._-]+\])?((@|==|~=|>=)[A-Za-z0-9][A-Za-z0-9.+!_-]*)?$`)
	variableForm = lazyregexp.New(`^[A-Z][A-Z0-9_]*_(HOME|DIR)$`)
	commandForm  = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
)

// unread says what is wrong with a manifest that cannot be read.
func (p *parser) unread(err error) error {
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok {
		if errors.Is(wrong, json.ErrUnknownName) {
			return p.at(int(wrong.ByteOffset), string(wrong.JSONPointer), "a dialect has no such member")
		}
		return p.at(int(wrong.ByteOffset), string(wrong.JSONPointer),
			fmt.Sprintf("expected %s, got %s", kindOf(wrong.GoType), cmp.Or(jsonKinds[wrong.JSONKind], "something else")))
	}
	if wrong, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return p.at(int(wrong.ByteOffset), string(wrong.JSONPointer), "expected JSON: "+wrong.Err.Error())
	}
	return p.at(0, "", "expected JSON: "+err.Error())
}

// problem is a mistake at a place, or, if nothing stands there, at the nearest around it.
func (p *parser) problem(pointer, format string, args ...any) error {
	around := pointer
	for {
		if offset, ok := p.offset(around); ok || around == "" {
			return p.at(offset, pointer, fmt.Sprintf(format, args...))
		}
		around = around[:strings.LastIndexByte(around, '/')]
	}
}

func (p *parser) at(offset int, pointer, message string) *ManifestError {
	before := p.data[:min(max(offset, 0), len(p.data))]
	// An offset may be that of the blank or the colon before a value.
	for len(before) < len(p.data) && strings.IndexByte(" \t\r\n:,", p.data[len(before)]) >= 0 {
		before = p.data[:len(before)+1]
	}
	return &ManifestError{
		File: p.file, Field: field(pointer), Message: message,
		Line: 1 + bytes.Count(before, []byte("\n")), Column: len(before) - bytes.LastIndexByte(before, '\n'),
	}
}

// offset finds the value at a pointer.
func (p *parser) offset(pointer string) (int, bool) {
	dec := jsontext.NewDecoder(bytes.NewReader(p.data))
	for {
		before := dec.InputOffset()
		if _, err := dec.ReadToken(); err != nil {
			if !errors.Is(err, io.EOF) {
				return 0, false
			}
			return 0, pointer == ""
		}
		kind, n := dec.StackIndex(dec.StackDepth())
		isName := kind == '{' && n%2 == 1
		if string(dec.StackPointer()) == pointer && !isName {
			return int(before), true
		}
	}
}

// field writes a JSON pointer as people write it.
func field(pointer string) string {
	var b strings.Builder
	for _, step := range strings.Split(pointer, "/")[min(1, len(pointer)):] {
		switch _, err := strconv.Atoi(step); {
		case step == "":
		case err == nil:
			b.WriteString("[" + step + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(step)
		}
	}
	return b.String()
}

func kindOf(t reflect.Type) string {
	if t == nil {
		return "another value"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	default:
		return "an object"
	}
}

var jsonKinds = map[jsontext.Kind]string{
	'"': "a string", '0': "a number", 't': "true or false", 'f': "true or false",
	'n': "null", '[': "a list", '{': "an object",
}
