package host

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/protobuf/types/known/structpb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/supervise"
)

// believed is which files a policy was to go by when a person had it started or loaded: those that its command line and its
// settings name. An agent can change files, and can have a handler end so that it reads them anew; a policy that was
// started again without a person's order is believed only where they are what they were. A handler that gives what it
// believes to be kept (permd) needs none of this. Safe for concurrent use.
type believed struct {
	handler  *supervise.Handler
	settings *structpb.Struct

	mu    sync.Mutex
	files map[string]string // a mark of each, as of mark
	known bool              // why is about the run
	run   uint64
	why   string
}

// newBelieved believes the files as they are now.
func newBelieved(handler *supervise.Handler) *believed {
	b := &believed{handler: handler, settings: handler.Configured().GetSettings(), files: map[string]string{}}
	b.believe(b.look(handler.Status().GetCommand()))
	return b
}

// look returns the marks of the files that count with a command.
func (b *believed) look(command []string) map[string]string {
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

// believe has files count as they were looked at.
func (b *believed) believe(marks map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(b.files, marks)
	b.known = false
}

// doubt says why what the policy said just now cannot be believed; empty: it can.
func (b *believed) doubt() string {
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
		b.why = fmt.Sprintf("the policy was started again, and %s is not as it was when it was loaded: "+
			"nothing is allowed by it before \"acphost policy reload\"", changed)
	}
	return b.why
}

// changedLocked names a file that is not as it was believed; empty: there is none.
func (b *believed) changedLocked(st *supervisorv1.HandlerStatus) string {
	var changed []string
	for path, m := range b.look(st.GetCommand()) {
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

// mark tells a file from what it was before. The time of its last change of any kind is in it, which nobody but root can
// set back: a file that was changed and put back is told, too. A folder may be what the policy is about, such as a
// workspace, and what is in it is not looked at.
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
