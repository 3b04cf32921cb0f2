package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/yamlproto"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
)

const (
	// DefaultAdminPolicy is the default path of the administrator's rule file.
	DefaultAdminPolicy = "/etc/acphost/policy.yaml"
	// WorkspacePolicy is the path of a repository's own rule file, below a root of a session.
	WorkspacePolicy = ".acphost/policy.yaml"

	userPolicyName = "policy.yaml" // in the folder of the user's configuration
	trustName      = "trust.json"  // in the state folder, as are the next two
	grantsName     = "grants.jsonl"
	auditName      = "audit.jsonl"
)

const (
	maxChain           = 8
	maxDecideTimeoutMS = 5000
)

// IsReadyPolicy reports whether a name is the name of a rule file that permd contains, and not of a file.
func IsReadyPolicy(name string) bool {
	return slices.Contains(readyPolicies, name)
}

// readyPolicies are the rule files that permd contains.
var readyPolicies = []string{"ask", "workspace", "readonly", "headless"}

// ReadyPolicies returns the names of the ready policies.
func ReadyPolicies() []string { return slices.Clone(readyPolicies) }

// PolicySet reports whether a policy was chosen: a rule file (in the configuration, or the user's or the
// administrator's at its default path), or a program other than acphost's own permd. Without a policy, questions go to
// the client unchanged, and calls are only counted.
func (c *Config) PolicySet() bool {
	if c.adminPolicy {
		return true
	}
	for _, h := range c.permissionHandlers() {
		if !isPermd(h) || h.GetSettings().GetFields()["policy"].GetStringValue() != "" {
			return true
		}
	}
	return false
}

// PolicyCount returns the number of policies, at least 1.
func (c *Config) PolicyCount() int { return len(c.permissionHandlers()) }

// Permd returns the effective settings of acphost's own permd with absolute paths, or nil if it is not used.
func (c *Config) Permd() *permissionv1.Settings {
	for _, h := range c.permissionHandlers() {
		if isPermd(h) {
			field := func(name string) string { return h.GetSettings().GetFields()[name].GetStringValue() }
			return &permissionv1.Settings{
				Policy: field("policy"), AdminPolicy: field("admin_policy"),
				WorkspacePolicy: field("workspace_policy"), Trust: field("trust"),
			}
		}
	}
	return nil
}

// permissionHandlers returns copies of the policies in their order, with every default filled in. There is at least
// one.
func (c *Config) permissionHandlers() []*configv1.Handler {
	p := c.Proto.GetPermission()
	var all []*configv1.Handler
	switch own := c.Proto.GetHandlers()[route.KindPermission]; {
	case len(p.GetChain()) > 0:
		for _, h := range p.GetChain() {
			all = append(all, proto.CloneOf(h))
		}
	case len(p.GetCommand()) > 0:
		all = append(all, &configv1.Handler{Command: slices.Clone(p.GetCommand())})
	case p.GetAddress() != "":
		all = append(all, &configv1.Handler{Address: p.GetAddress()})
	case own != nil:
		all = append(all, proto.CloneOf(own))
	default:
		all = append(all, &configv1.Handler{})
	}
	for _, h := range all {
		orDefault(&h.DecideTimeoutMs, maxDecideTimeoutMS)
		if isPermd(h) {
			if len(h.GetCommand()) == 0 {
				h.Command = []string{ownHandlers()[route.KindPermission].program}
			}
			h.Settings = c.permdSettings(h.GetSettings())
		}
	}
	return all
}

// permdSettings fills in the defaults of permd's settings.
func (c *Config) permdSettings(given *structpb.Struct) *structpb.Struct {
	settings := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for name, value := range given.GetFields() {
		settings.Fields[settingName(name)] = value
	}
	fill := func(name, value string) {
		if settings.Fields[name] == nil && value != "" {
			settings.Fields[name] = structpb.NewStringValue(value)
		}
	}
	p := c.Proto.GetPermission()
	fill("policy", p.GetPolicy())
	fill("policy", c.userPolicy)
	fill("admin_policy", p.GetAdminPolicy())
	fill("admin_policy", DefaultAdminPolicy)
	if p.GetWorkspacePolicy() != "ignore" {
		fill("workspace_policy", WorkspacePolicy)
	}
	fill("trust", c.stateFile(trustName))
	return settings
}

// settingName returns the snake_case name of a setting of permd for its JSON name.
func settingName(name string) string {
	if fd := (&permissionv1.Settings{}).ProtoReflect().Descriptor().Fields().ByJSONName(name); fd != nil {
		return fd.TextName()
	}
	return name
}

// permissionName returns the name of the handler at an index of the chain: "permission", "permission-2", and so on.
func permissionName(i int) string {
	if i == 0 {
		return route.KindPermission
	}
	return route.KindPermission + "-" + strconv.Itoa(i+1)
}

var furtherPermission = lazyregexp.New(`^` + route.KindPermission + `-[0-9]+$`)

// isPermd reports whether a permission handler is acphost's own.
func isPermd(h *configv1.Handler) bool { return isOwn(route.KindPermission, h) }

// effectivePermission fills in the defaults of all fields except the policies.
func (c *Config) effectivePermission(p *configv1.Permission) {
	for i := range p.GetChain() {
		p.Chain[i] = c.permissionHandlers()[i]
	}
	if permd := c.Permd(); permd != nil {
		orDefault(&p.Policy, permd.GetPolicy())
		orDefault(&p.AdminPolicy, permd.GetAdminPolicy())
		orDefault(&p.WorkspacePolicy, "tighten")
	}
	if len(p.GetGate()) == 0 {
		p.Gate = []string{"fs/*", "terminal/create", "terminal/run"}
	}
	orDefault(&p.TimeoutSeconds, 120)
	orDefault(&p.OnUnasked, "report")
	p.Grants = orNew(p.Grants)
	orDefault(&p.Grants.File, c.stateFile(grantsName))
	orDefault(&p.Grants.Days, 90)
	p.Audit = orNew(p.Audit)
	orDefault(&p.Audit.File, c.stateFile(auditName))
	orDefault(&p.Audit.MaxBytes, 16<<20)
	orDefault(&p.Audit.Keep, 8)
	orDefault(&p.Audit.OnFailure, "deny")
}

// findRuleFiles finds the rule files that are used because they exist, and adds warnings about them. A file that cannot
// be examined counts as existing, so that permd reports its error.
func (c *Config) findRuleFiles() {
	there := func(name string) bool {
		_, err := os.Lstat(name)
		return name != "" && !os.IsNotExist(err)
	}
	permd := c.Permd()
	p := c.Proto.GetPermission()
	if name := filepath.Join(c.folder, userPolicyName); c.folder != "" && permd != nil && p.GetPolicy() == "" && there(name) {
		c.userPolicy = name
	}
	if permd == nil {
		if admin := cmp.Or(p.GetAdminPolicy(), DefaultAdminPolicy); there(admin) {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s does not count, since another policy stands in place of permd; "+
				"permission: [YOURS, permd] asks both", admin))
		}
	} else {
		c.adminPolicy = there(permd.GetAdminPolicy())
		if name := p.GetAdminPolicy(); name != "" && name != DefaultAdminPolicy && !c.adminPolicy {
			c.Warnings = append(c.Warnings, fmt.Sprintf("permission.admin_policy names %s, which is not there", name))
		}
	}
	if kept := c.keptInMemory(); c.state == "" && c.PolicySet() && len(kept) > 0 {
		verb := "are"
		if len(kept) == 1 && kept[0] == theRecord {
			verb = "is"
		}
		c.Warnings = append(c.Warnings, fmt.Sprintf("neither $XDG_STATE_HOME nor $HOME is an absolute path: %s %s kept in no file",
			strings.Join(kept, " and "), verb))
	}
}

// theRecord is the name of the audit in warnings.
const theRecord = "the record of decisions"

// keptInMemory names the data that would be stored in the state folder, that is not disabled, and whose file is not
// configured.
func (c *Config) keptInMemory() (kept []string) {
	p := c.Proto.GetPermission()
	if g := p.GetGrants(); !g.GetDisabled() && g.GetFile() == "" {
		kept = append(kept, "remembered answers")
	}
	if a := p.GetAudit(); !a.GetDisabled() && a.GetFile() == "" {
		kept = append(kept, theRecord)
	}
	return kept
}

// stateFile returns the path of a file in the state folder, or "" without a folder.
func (c *Config) stateFile(name string) string {
	if c.state == "" {
		return ""
	}
	return filepath.Join(c.state, name)
}

// expandPermission expands the short forms of the permission settings.
func expandPermission(doc *yamlproto.Document) {
	doc.ExpandList("permission", "chain")
	doc.ExpandTexts("permission.chain", "command")
}

func (v *checker) permission(c *configv1.Config) {
	p, at := c.GetPermission(), path("permission")
	v.empty(at.to("policy"), p.GetPolicy() == "")
	v.empty(at.to("command"), len(p.GetCommand()) == 0)
	v.empty(at.to("address"), p.GetAddress() == "")
	v.empty(at.to("chain"), len(p.GetChain()) == 0)
	v.empty(at.to("admin_policy"), p.GetAdminPolicy() == "")
	v.empty(at.to("workspace_policy"), p.GetWorkspacePolicy() == "")
	v.deciders(c)
	v.policy(c)
	v.absoluteFile(at.to("admin_policy"), p.GetAdminPolicy())
	v.oneOf(at.to("workspace_policy"), p.GetWorkspacePolicy(), "tighten", "ignore")
	for i, name := range p.GetGate() {
		place := at.to("gate", i)
		if err := route.CheckName(name); err != nil {
			v.problem(place, "%s", strings.Replace(err.Error(), "cannot be routed", "cannot be decided here", 1))
		} else if slices.Index(p.GetGate(), name) < i {
			v.problem(place, "%q stands here twice", name)
		}
	}
	v.bound(at.to("timeout_seconds"), uint64(p.GetTimeoutSeconds()), 1, 86400)
	v.oneOf(at.to("on_unasked"), p.GetOnUnasked(), "report", "cancel")
	v.absoluteFile(at.to("grants", "file"), p.GetGrants().GetFile())
	v.bound(at.to("grants", "days"), uint64(p.GetGrants().GetDays()), 1, 3650)
	audit := at.to("audit")
	v.absoluteFile(audit.to("file"), p.GetAudit().GetFile())
	if file := p.GetAudit().GetFile(); file != "" && filepath.Clean(file) == filepath.Clean(p.GetGrants().GetFile()) {
		v.problem(audit.to("file"), "permission.grants.file is the same file; each needs its own")
	}
	v.bound(audit.to("max_bytes"), p.GetAudit().GetMaxBytes(), 65536, 1<<62)
	v.bound(audit.to("keep"), uint64(p.GetAudit().GetKeep()), 1, 1000)
	v.oneOf(audit.to("on_failure"), p.GetAudit().GetOnFailure(), "deny", "allow")
}

// deciders checks that at most one of the four settings for policies is used.
func (v *checker) deciders(c *configv1.Config) {
	p, at := c.GetPermission(), path("permission")
	ways := []struct {
		name  string
		at    path
		given bool
	}{
		{"permission.command", at.to("command"), len(p.GetCommand()) > 0},
		{"permission.address", at.to("address"), p.GetAddress() != ""},
		{"permission.chain", at.to("chain"), len(p.GetChain()) > 0},
		{"handlers.permission", path("handlers").to(route.KindPermission), c.GetHandlers()[route.KindPermission] != nil},
	}
	first := ""
	for _, way := range ways {
		switch {
		case way.given && first != "":
			v.problem(way.at, "%s says already who decides; one of them is enough", first)
		case way.given:
			first = way.name
		}
	}
	if len(p.GetCommand()) > 0 {
		v.command(at, &configv1.Handler{Command: p.GetCommand()})
	}
	if address := p.GetAddress(); strings.HasPrefix(address, "tcp://") {
		v.problem(at.to("address"), "tcp needs mutual TLS: write {address: %s, tls: {ca, cert, key}} as the one element of a list in permission", address)
	} else if address != "" {
		v.problem(at.to("address"), "a sidecar must know acphost from whoever else can connect: write {address: %s, secret_file: FILE} as the one element of a list in permission", address)
	}
	if n := len(p.GetChain()); n > maxChain {
		v.problem(at.to("chain", maxChain), "expected at most %d policies, got %d", maxChain, n)
	}
	own := 0
	for i, h := range p.GetChain() {
		place := at.to("chain", i)
		if len(h.GetCommand()) == 0 && h.GetAddress() == "" {
			v.problem(place, "expected command or address, got neither")
			continue
		}
		v.entry(place, route.KindPermission, h)
		if isPermd(h) {
			if own++; own == 2 {
				v.problem(place, "permd stands here twice; its rule files are layers of one policy")
			}
		}
	}
}

// policy checks that there is a permd for the rule file, and that no other setting contradicts it.
func (v *checker) policy(c *configv1.Config) {
	p, at := c.GetPermission(), path("permission.policy")
	if strings.ContainsRune(p.GetPolicy(), 0) {
		v.problem(at, "expected a file or the name of a ready policy, got %q", p.GetPolicy())
		return
	}
	handlers := (&Config{Proto: c}).permissionHandlers()
	i := slices.IndexFunc(handlers, isPermd)
	if p.GetPolicy() != "" && i < 0 {
		v.problem(at, "it is for acphost's own permd, in whose place another policy stands; put permd beside it, "+
			"permission: [YOURS, permd], or leave this out")
	}
	if i < 0 {
		return
	}
	var given *structpb.Struct
	switch {
	case len(p.GetChain()) > 0:
		given = p.GetChain()[i].GetSettings()
	case len(p.GetCommand()) == 0:
		given = c.GetHandlers()[route.KindPermission].GetSettings()
	}
	for name, setting := range given.GetFields() {
		got := setting.GetStringValue()
		switch name := settingName(name); {
		case name == "policy" && p.GetPolicy() != "" && got != v.rules(p.GetPolicy()),
			name == "admin_policy" && p.GetAdminPolicy() != "" && got != filepath.Clean(p.GetAdminPolicy()):
			v.problem(path("permission").to(name), "permd's settings name another one; one of them is enough")
		case name == "workspace_policy" && p.GetWorkspacePolicy() == "ignore" && got != "":
			v.problem(path("permission").to(name), "permd's settings name a file; one of them is meant")
		}
	}
}

// rules returns a rule file in the form for permd: the name of a ready policy, or an absolute path.
func (v *checker) rules(policy string) string {
	if IsReadyPolicy(policy) {
		return policy
	}
	return v.absolute(policy)
}

func (v *checker) absoluteFile(p path, name string) {
	if name != "" && (!filepath.IsAbs(name) || strings.ContainsRune(name, 0)) {
		v.problem(p, "expected an absolute path, got %q", name)
	}
}
