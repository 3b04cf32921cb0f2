package main

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/conformance"
	"github.com/acphost/acphost/sdk/handler"
	"github.com/acphost/acphost/sdk/handlertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	allow = permissionv1.Verdict_VERDICT_ALLOW
	ask   = permissionv1.Verdict_VERDICT_ASK
	deny  = permissionv1.Verdict_VERDICT_DENY
)

// at is a time in the week that begins on Monday, 6 January 2025.
func at(day time.Weekday, hour, minute int) func() time.Time {
	return func() time.Time { return time.Date(2025, 1, 5+(int(day)+6)%7+1, hour, minute, 0, 0, time.UTC) }
}

// configured is the policy as these settings make it.
func configured(t *testing.T, now func() time.Time) *policy {
	t.Helper()
	p := &policy{now: now}
	s, err := structpb.NewStruct(map[string]any{"paths": []any{"/office/src", "/office/docs/"}, "from": 9, "until": 17})
	if err == nil {
		_, err = p.settings.Configure(t.Context(), &pluginv1.ConfigureRequest{Settings: s})
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// of is an action of a kind on paths that lie inside the session's roots.
func of(kind string, paths ...string) *permissionv1.Action {
	a := &permissionv1.Action{Kind: kind, Agent: "agent", Roots: []string{"/office"}}
	for _, path := range paths {
		a.Paths = append(a.Paths, &permissionv1.PathAccess{Path: path, ResolvedPath: path, InsideRoots: true})
	}
	return a
}

func but(a *permissionv1.Action, change func(*permissionv1.Action)) *permissionv1.Action {
	change(a)
	return a
}

func TestDecide(t *testing.T) {
	noon := at(time.Wednesday, 12, 0)
	for name, c := range map[string]struct {
		now    func() time.Time
		action *permissionv1.Action
		want   permissionv1.Verdict
		rule   string
	}{
		"an edit at noon":                   {noon, of("fs.write", "/office/src/a.go"), allow, "configured-paths"},
		"an edit that the agent announces":  {noon, of("tool.edit", "/office/docs/a.md"), allow, "configured-paths"},
		"several files":                     {noon, of("tool.edit", "/office/src/a", "/office/docs/b"), allow, "configured-paths"},
		"a minute before the office opens":  {at(time.Monday, 8, 59), of("fs.write", "/office/src/a"), ask, "after-hours"},
		"when it opens":                     {at(time.Monday, 9, 0), of("fs.write", "/office/src/a"), allow, "configured-paths"},
		"its last minute":                   {at(time.Friday, 16, 59), of("fs.write", "/office/src/a"), allow, "configured-paths"},
		"when it closes":                    {at(time.Friday, 17, 0), of("fs.write", "/office/src/a"), ask, "after-hours"},
		"on Saturday":                       {at(time.Saturday, 12, 0), of("fs.write", "/office/src/a"), ask, "after-hours"},
		"on Sunday":                         {at(time.Sunday, 12, 0), of("fs.write", "/office/src/a"), ask, "after-hours"},
		"reading on Sunday":                 {at(time.Sunday, 12, 0), of("fs.read", "/office/src/a"), allow, "configured-paths"},
		"listing at night":                  {at(time.Monday, 3, 0), of("fs.list", "/office/src/a"), allow, "configured-paths"},
		"another folder":                    {noon, of("fs.write", "/office/other/a"), deny, "elsewhere"},
		"another folder at night":           {at(time.Monday, 3, 0), of("fs.write", "/office/other/a"), deny, "elsewhere"},
		"a folder whose name begins alike":  {noon, of("fs.write", "/office/srcs/a"), deny, "elsewhere"},
		"one file of two":                   {noon, of("fs.write", "/office/src/a", "/etc/passwd"), deny, "elsewhere"},
		"no file":                           {noon, of("fs.write"), deny, "elsewhere"},
		"a command":                         {noon, of("terminal.create"), deny, "elsewhere"},
		"removing a file":                   {noon, of("tool.delete", "/office/src/a"), deny, "elsewhere"},
		"an unknown kind":                   {noon, of("_acme.com/x", "/office/src/a"), deny, "elsewhere"},
		"nothing":                           {noon, nil, deny, "elsewhere"},
		"a link that leads out of the root": {noon, but(of("fs.write", "/office/src/a"), func(a *permissionv1.Action) { a.Paths[0].InsideRoots = false }), deny, "elsewhere"},
		"a link that leads elsewhere":       {noon, but(of("fs.write", "/office/src/a"), func(a *permissionv1.Action) { a.Paths[0].ResolvedPath = "/office/.git/config" }), deny, "elsewhere"},
		"a path that was not resolved":      {noon, but(of("fs.write", "/office/src/a"), func(a *permissionv1.Action) { a.Paths[0].ResolvedPath = "" }), deny, "elsewhere"},
		"an edit that runs a command":       {noon, but(of("tool.edit", "/office/src/a"), func(a *permissionv1.Action) { a.Command = &permissionv1.Command{Text: "rm -rf /"} }), deny, "elsewhere"},
		"an edit that is not understood":    {noon, but(of("tool.edit", "/office/src/a"), func(a *permissionv1.Action) { a.Unparsed = "no paths" }), deny, "elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := configured(t, c.now).Decide(t.Context(), &permissionv1.DecideRequest{Action: c.action})
			if err != nil || got.GetVerdict() != c.want || got.GetRule() != c.rule {
				t.Errorf("on %s: %v, %v; want %v by %s", c.now().Format("Monday 15:04"), got, err, c.want, c.rule)
			}
			if got.GetVerdict() != allow && got.GetReason() == "" {
				t.Error("no reason is given")
			}
		})
	}
}

func TestDecide_DeniesEverythingWithoutSettings(t *testing.T) {
	p := &policy{now: at(time.Wednesday, 12, 0)}
	got, err := p.Decide(t.Context(), &permissionv1.DecideRequest{Action: of("fs.write", "/office/src/a")})
	if err != nil || got.GetVerdict() != deny {
		t.Errorf("Decide = %v, %v; want deny", got, err)
	}
}

func TestSettings_RejectMisspeltNames(t *testing.T) {
	p := configured(t, at(time.Wednesday, 12, 0))
	s, err := structpb.NewStruct(map[string]any{"pahts": []any{"/"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.settings.Configure(t.Context(), &pluginv1.ConfigureRequest{Settings: s}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("Configure = %v, want INVALID_ARGUMENT", err)
	}
	got, err := p.Decide(t.Context(), &permissionv1.DecideRequest{Action: of("fs.write", "/office/src/a")})
	if err != nil || got.GetVerdict() != allow {
		t.Errorf("Decide = %v, %v; want allow by the old settings", got, err)
	}
}

func TestConformance(t *testing.T) {
	p := &policy{now: at(time.Wednesday, 12, 0)}
	handlertest.Run(t, conformance.KindPermission, handler.Handler{
		Name: "businesshours", Version: "1.0.0", Configure: p.settings.Configure,
		Register: func(r grpc.ServiceRegistrar) { permissionv1.RegisterPermissionServiceServer(r, p) },
	})
}
