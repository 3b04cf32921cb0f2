package host

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/acphost/acphost/internal/reason"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/supervise"
)

// policyFiles records the state of a policy's files, which its command line and settings name, when a user last had the
// policy started or loaded. An agent can change these files, and can make a handler crash so that it reads them again.
// So a policy that was restarted without a user's order is trusted only if the files are unchanged. A handler whose
// policy is stored for it (permd) does not need this check. It is safe for concurrent use.
type policyFiles struct {
	handler  *supervise.Handler
	settings *structpb.Struct

	mu    sync.Mutex
	files map[string]string // path → mark
	known bool              // why applies to run
	run   uint64
	why   string
}

// newPolicyFiles records the current state of the files.
func newPolicyFiles(handler *supervise.Handler) *policyFiles {
	b := &policyFiles{handler: handler, settings: handler.Configured().GetSettings(), files: map[string]string{}}
	b.trust(b.marks(handler.Status().GetCommand()))
	return b
}

// marks returns the marks of the files that a command and the settings name.
func (b *policyFiles) marks(command []string) map[string]string {
	marks := map[string]string{}
	add := func(text string) {
		path, err := filepath.Abs(text)
		if text == "" || err != nil {
			return
		}
		if _, err := os.Lstat(path); err == nil || filepath.IsAbs(text) {
			marks[path] = mark(path)
		}
	}
	if len(command) > 1 { // the program itself is pinned
		for _, arg := range command[1:] {
			add(arg)
		}
	}
	eachString(structpb.NewStructValue(b.settings), add)
	return marks
}

// trust records marks as the trusted state.
func (b *policyFiles) trust(marks map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(b.files, marks)
	b.known = false
}

// distrustReason returns the reason why the policy's last answer cannot be trusted, or "".
func (b *policyFiles) distrustReason() string {
	st := b.handler.Status()
	if st.GetAddress() != "" || st.GetRestarts() == 0 || b.handler.Keeps() {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known && b.run == st.GetRestarts() {
		return b.why
	}
	b.known, b.run, b.why = true, st.GetRestarts(), ""
	if changed := b.changedLocked(st); changed != "" {
		b.why = reason.PolicyChanged.With(changed)
	}
	return b.why
}

// changedLocked returns a file that has changed since it was recorded, or "".
func (b *policyFiles) changedLocked(st *supervisorv1.HandlerStatus) string {
	var changed []string
	for path, m := range b.marks(st.GetCommand()) {
		if b.files[path] != m {
			changed = append(changed, path)
		}
	}
	if len(changed) == 0 {
		return ""
	}
	return slices.Min(changed)
}

// eachString calls do with every string in a value.
func eachString(v *structpb.Value, do func(string)) {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		do(kind.StringValue)
	case *structpb.Value_ListValue:
		for _, item := range kind.ListValue.GetValues() {
			eachString(item, do)
		}
	case *structpb.Value_StructValue:
		for _, item := range kind.StructValue.GetFields() {
			eachString(item, do)
		}
	}
}

// mark returns a string that changes when the file changes. It contains the time of the last change of any kind
// (ctime), which only root can set back, so that a file that was changed and restored also counts as changed. A folder,
// such as a workspace, may be an argument of the policy; its contents are not part of the mark.
func mark(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "cannot be found"
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return "cannot be found"
	case !info.Mode().IsRegular():
		return fmt.Sprintf("%s %v", real, info.Mode())
	}
	inode, changed := identity(info)
	return fmt.Sprintf("%s %v %d %d %d %d", real, info.Mode(), info.Size(), info.ModTime().UnixNano(), inode, changed)
}
