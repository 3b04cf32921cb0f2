package audit

import (
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
	"google.golang.org/protobuf/proto"
)

// Redacted returns a copy of an action without values that look like secrets, as in a record.
func Redacted(a *permissionv1.Action) *permissionv1.Action {
	r := &supervisorv1.AuditRecord{Action: proto.CloneOf(a)}
	redact(r)
	return r.GetAction()
}

// redact removes values that look like secrets from a record: by their names, or by their form. It removes more than it
// must, and misses a secret that looks like ordinary text. The names of programs, options and files remain, because
// policies depend on them.
func redact(r *supervisorv1.AuditRecord) {
	r.Reason, r.Detail = secret.Text(r.GetReason()), secret.Text(r.GetDetail())
	a := r.GetAction()
	if a == nil {
		return
	}
	a.Title = secret.Text(a.GetTitle())
	if len(a.GetRawInput()) >= MaxLine {
		dropRawInput(a) // it would be too long
	}
	a.RawInput = secret.JSON(a.GetRawInput())
	secret.Command(a.GetCommand())
}
