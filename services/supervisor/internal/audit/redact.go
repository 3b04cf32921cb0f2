package audit

import (
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/secret"
	"google.golang.org/protobuf/proto"
)

// Redacted returns a copy of an action without what looks like a secret, as a record has it.
func Redacted(a *permissionv1.Action) *permissionv1.Action {
	r := &supervisorv1.AuditRecord{Action: proto.CloneOf(a)}
	redact(r)
	return r.GetAction()
}

// redact takes out of a record what looks like a secret: by the name that it has, or by its own form. It goes by looks,
// so it takes more than it must and cannot know a secret that looks like nothing. What names a command, its options and
// its files stays: a policy judges by that.
func redact(r *supervisorv1.AuditRecord) {
	r.Reason, r.Detail = secret.Text(r.GetReason()), secret.Text(r.GetDetail())
	a := r.GetAction()
	if a == nil {
		return
	}
	a.Title = secret.Text(a.GetTitle())
	if len(a.GetRawInput()) >= MaxLine {
		dropRawInput(a) // it would not fit
	}
	a.RawInput = secret.JSON(a.GetRawInput())
	secret.Command(a.GetCommand())
}
