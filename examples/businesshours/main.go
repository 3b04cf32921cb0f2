// Command businesshours is a permission policy: files below the configured folders may be read, and edited in office
// hours; out of hours a person is asked about edits; everything else is denied.
package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/sdk/handler"
	"google.golang.org/grpc"
)

type settings struct {
	Paths []string `json:"paths"` // folders, by their real paths
	From  int      `json:"from"`  // the hour from which edits are allowed, Monday to Friday
	Until int      `json:"until"` // the hour at which that ends
}

type policy struct {
	permissionv1.UnimplementedPermissionServiceServer
	settings handler.Settings[settings]
	now      func() time.Time
}

func (p *policy) Decide(_ context.Context, r *permissionv1.DecideRequest) (*permissionv1.DecideResponse, error) {
	action, s, now := r.GetAction(), p.settings.Load(), p.now()
	outside := func(path *permissionv1.PathAccess) bool {
		below := func(dir string) bool {
			return strings.HasPrefix(path.GetResolvedPath(), strings.TrimRight(dir, "/")+"/")
		}
		return !path.GetInsideRoots() || !slices.ContainsFunc(s.Paths, below)
	}
	edit := slices.Contains([]string{"fs.write", "tool.edit"}, action.GetKind())
	read := slices.Contains([]string{"fs.read", "fs.list", "tool.read"}, action.GetKind())
	understood := action.GetUnparsed() == "" && action.GetCommand() == nil && len(action.GetPaths()) > 0
	weekend := now.Weekday() == time.Saturday || now.Weekday() == time.Sunday
	d := &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ALLOW, Rule: "configured-paths"}
	switch {
	case !edit && !read || !understood || slices.ContainsFunc(action.GetPaths(), outside):
		d.Verdict, d.Rule = permissionv1.Verdict_VERDICT_DENY, "elsewhere"
		d.Reason = fmt.Sprintf("only files below %q may be read and edited", s.Paths)
	case edit && (weekend || now.Hour() < s.From || now.Hour() >= s.Until):
		d.Verdict, d.Rule, d.Reason = permissionv1.Verdict_VERDICT_ASK, "after-hours", "the office is closed"
	}
	return d, nil
}

func main() {
	p := &policy{now: time.Now}
	handler.Main(handler.Handler{
		Name: "businesshours", Version: "1.0.0", Configure: p.settings.Configure,
		Register: func(server grpc.ServiceRegistrar) { permissionv1.RegisterPermissionServiceServer(server, p) },
	})
}
