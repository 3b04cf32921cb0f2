package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/yamlproto"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/filefeed"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
)

// Names of quirks of agents.
const (
	// QuirkNone, if it is the only one, disables the quirks that acphost knows of an agent.
	QuirkNone = "none"
	// QuirkCreateByReading means that the read of a missing file is answered with empty text.
	QuirkCreateByReading = "create_by_reading"
)

// maxSocketPath is the maximum length of a unix socket's path in bytes: sun_path has 108 with its NUL on Linux. Systems
// with a lower limit report an error when the socket is created.
const maxSocketPath = 107

// checker collects the errors of a configuration that is a valid message.
type checker struct {
	doc      *yamlproto.Document
	base     string // folder of the file, the base of relative paths
	home     string
	problems []error // each a *yamlproto.Error
}

func (v *checker) problem(p path, format string, args ...any) {
	v.problems = append(v.problems, v.doc.Errorf(string(p), format, args...))
}

// empty reports an error for a key with an empty value in the file, which would silently mean the default.
func (v *checker) empty(p path, is bool) {
	if is && v.doc.Given(string(p)) {
		v.problem(p, "expected a value, got an empty one; remove the key for the default")
	}
}

// err joins the problems in their order in the file.
func (v *checker) err() error { return yamlproto.Join(nil, v.problems) }

func (v *checker) config(c *configv1.Config) {
	for _, name := range slices.Sorted(maps.Keys(c.GetHandlers())) {
		v.handler(name, c.GetHandlers()[name])
	}
	v.routes(c)
	v.unused(c)
	v.agent(c.GetAgent())
	v.sandbox(c)
	v.workspace(c.GetWorkspace())
	v.mappedRoots(c)
	v.permission(c)
	v.limits(c.GetLimits())
	v.journal(c.GetJournal())
	v.oneOf(path("log.level"), c.GetLog().GetLevel(), "debug", "info", "warn", "error")
	v.oneOf(path("log.format"), c.GetLog().GetFormat(), "text", "json")
	v.admin(c.GetAdmin())
	if at := c.GetActivity().GetListen(); at != "" {
		if err := filefeed.CheckAddress(at); err != nil {
			v.problem(path("activity.listen"), "%v", err)
		}
	}
	v.serve(c.GetServe())
	v.telemetry(c.GetTelemetry())
}

// unused reports handlers that no route uses, and whose names resemble those of acphost's own handlers.
func (v *checker) unused(c *configv1.Config) {
	for _, name := range slices.Sorted(maps.Keys(c.GetHandlers())) {
		if Kind(name) != route.KindExtension || slices.Contains(slices.Collect(maps.Values(c.GetRoutes())), name) {
			continue
		}
		keys := slices.Sorted(maps.Keys(ownHandlers()))
		near := yamlproto.Nearest(name, keys)
		for key, own := range ownHandlers() {
			if name == own.program {
				near = key
			}
		}
		if near != "" {
			v.problem(path("handlers").to(name), "no route uses the handler %q, so that it would take no part: did you mean %q?", name, near)
		}
	}
}

// routes checks the spelling of methods and targets. Only a running handler can tell whether it declares a method.
func (v *checker) routes(c *configv1.Config) {
	good := true
	for _, name := range slices.Sorted(maps.Keys(c.GetRoutes())) {
		p, target := path("routes").to(name), c.GetRoutes()[name]
		_, configured := c.GetHandlers()[target]
		_, own := ownHandlers()[target]
		switch err := route.CheckName(name); {
		case err != nil:
			v.problem(p, "%v", err)
		case route.CheckLimited(name, target) != nil:
			v.problem(p, "%v", route.CheckLimited(name, target))
		case Kind(target) == route.KindPermission:
			v.problem(p, "the handler %q decides and answers no methods", target)
		case !route.IsWord(target) && !configured && !own:
			words := slices.Concat([]string{"handler", "front", "deny"}, slices.Sorted(maps.Keys(ownHandlers())), slices.Sorted(maps.Keys(c.GetHandlers())))
			v.problem(p, `expected "handler", "front", "deny" or the name of a handler, got %q%s`, target, yamlproto.DidYouMean(target, words))
		default:
			continue
		}
		good = false
	}
	if err := route.CheckAgreement(c.GetRoutes()); good && err != nil {
		v.problem(path("routes"), "%s", strings.TrimPrefix(err.Error(), "routes: "))
	}
}

func (v *checker) agent(a *configv1.Agent) {
	at := path("agent")
	v.agentName(at.to("name"), a.GetName())
	v.env(at.to("env"), a.GetEnv())
	if a.GetMaxRestarts() > 100 {
		v.problem(at.to("max_restarts"), "expected 0 to 100, got %d", a.GetMaxRestarts())
	}
	if _, err := proc.ParseCapabilities(a.GetCapabilities()); err != nil {
		v.problem(at.to("capabilities"), "%v", err)
	}
	if len(a.GetCapabilities()) > 0 && a.GetUser() != "" {
		v.problem(at.to("capabilities"), "an agent that runs as another user (agent.user) has none to keep: name one of the two")
	}
	for i, name := range a.GetUnreadable() {
		if p := at.to("unreadable", i); name == "" || filepath.Clean(name) == "/" {
			v.problem(p, "expected a file or a folder below /, got %q", name)
		} else if a.GetNoLandlock() {
			v.problem(p, "it is Landlock that closes files: leave out agent.no_landlock, or this")
		}
	}
	if strings.ContainsFunc(a.GetUser(), func(c rune) bool { return unicode.IsControl(c) || unicode.IsSpace(c) || c == ':' }) {
		v.problem(at.to("user"), "expected a user's name or numeric id, got %q", a.GetUser())
	}
	v.bound(at.to("initialize_timeout_seconds"), uint64(a.GetInitializeTimeoutSeconds()), 1, 3600)
	v.bound(at.to("stop_grace_ms"), uint64(a.GetStopGraceMs()), 1, 600000)
	for i, quirk := range a.GetQuirks() {
		p := at.to("quirks", i)
		switch {
		case quirk == QuirkNone && len(a.GetQuirks()) > 1:
			v.problem(p, `"none" stands alone or not at all`)
		case quirk != QuirkNone && quirk != QuirkCreateByReading:
			v.problem(p, "expected %q or %q, got %q%s", QuirkCreateByReading, QuirkNone, quirk, yamlproto.DidYouMean(quirk, []string{QuirkCreateByReading, QuirkNone}))
		case slices.Index(a.GetQuirks(), quirk) < i:
			v.problem(p, "%q stands here twice", quirk)
		}
	}
}

func (v *checker) workspace(w *configv1.Workspace) {
	seen := map[string]bool{}
	for i, root := range w.GetExtraRoots() {
		p := path("workspace.extra_roots").to(i, "path")
		dir, err := v.expand(root.GetPath())
		switch {
		case err != nil:
			v.problem(p, "%v", err)
		case seen[dir]:
			v.problem(p, "%s stands here twice", dir)
		}
		seen[dir] = true
	}
	v.oneOf(path("workspace.stale_writes"), w.GetStaleWrites(), "allow", "refuse")
}

func (v *checker) limits(l *configv1.Limits) {
	at := path("limits")
	v.bound(at.to("max_message_bytes"), l.GetMaxMessageBytes(), 65536, 1<<30)
	v.bound(at.to("max_queued_requests"), uint64(l.GetMaxQueuedRequests()), 1, 65536)
	v.bound(at.to("max_queued_bytes"), l.GetMaxQueuedBytes(), 1<<20, 1<<62)
	v.bound(at.to("max_concurrent_requests"), uint64(l.GetMaxConcurrentRequests()), 1, 4096)
	v.bound(at.to("turn_grace_ms"), uint64(l.GetTurnGraceMs()), 1, 60000)
}

// misplaced reports a field that is set although it applies only to something else.
func (v *checker) misplaced(p path, set bool, only string) {
	if set {
		v.problem(p, "it is for %s", only)
	}
}

// bound requires low ≤ n ≤ high. 0 means the default. high fits into an int64.
func (v *checker) bound(p path, n, low, high uint64) {
	if n != 0 && (n < low || n > high) {
		v.problem(p, "expected %d to %d, or 0 for the default, got %d", low, high, n)
	}
}

// oneOf requires one of a few words, or no value.
func (v *checker) oneOf(p path, got string, words ...string) {
	if got != "" && !slices.Contains(words, got) {
		last := len(words) - 1
		v.problem(p, `expected "%s" or %q, got %q%s`, strings.Join(words[:last], `", "`), words[last], got, yamlproto.DidYouMean(got, words))
	}
}

// socket requires an absolute path that fits into the address of a unix socket.
func (v *checker) socket(p path, name string) {
	switch {
	case !filepath.IsAbs(name) || strings.ContainsRune(name, 0):
		v.problem(p, "expected an absolute path, got %q", name)
	case len(name) > maxSocketPath:
		v.problem(p, "expected a path of at most %d bytes, got %d: that is all a unix socket's address holds", maxSocketPath, len(name))
	}
}

// expand returns an absolute path, with a leading "~" replaced by the home directory.
func (v *checker) expand(name string) (string, error) {
	if rest, ok := strings.CutPrefix(name, "~"); ok && (rest == "" || rest[0] == '/') {
		if !filepath.IsAbs(v.home) {
			return "", errors.New(`"~" needs $HOME, which is not set to an absolute path`)
		}
		name = filepath.Join(v.home, rest)
	}
	if !filepath.IsAbs(name) || strings.ContainsRune(name, 0) {
		return "", fmt.Errorf(`expected an absolute path, or one that begins with "~/", got %q`, name)
	}
	return filepath.Clean(name), nil
}

var (
	handlerName = lazyregexp.New(`^[a-z0-9_-]{1,64}$`)
	sha256Form  = lazyregexp.New(`^[0-9a-fA-F]{64}$`)
)
