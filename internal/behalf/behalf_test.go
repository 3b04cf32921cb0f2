package behalf_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/acphost/acphost/internal/behalf"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func metadataOf(pairs []string) map[string][]string {
	m := map[string][]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = append(m[pairs[i]], pairs[i+1])
	}
	return m
}

func TestACallerIsReadAsItWasWritten(t *testing.T) {
	for _, name := range []string{"alice", "Alice of the build team", "Łucja 山田", "a%2Fb", "100%", "a/b?c#d;e,f", strings.Repeat("ü", behalf.MaxName)} {
		for _, role := range behalf.Roles() {
			want := behalf.Caller{Name: name, Role: role}
			pairs := want.Metadata()
			for _, value := range pairs {
				if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' }) {
					t.Errorf("%q: metadata cannot carry %q", name, value)
				}
			}
			if got, named, err := behalf.Read(metadataOf(pairs)); got != want || !named || err != nil {
				t.Errorf("got %+v, %v, %v, want %+v", got, named, err, want)
			}
		}
	}
	if got, named, err := behalf.Read(map[string][]string{"user-agent": {"x"}}); named || err != nil || got != (behalf.Caller{}) {
		t.Errorf("without a caller: %+v, %v, %v", got, named, err)
	}
}

func TestMetadataThatIsNotClearIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		metadata []string
		want     string
	}{
		"no role":               {[]string{behalf.CallerKey, "a"}, "go together"},
		"no name":               {[]string{behalf.RoleKey, "viewer"}, "go together"},
		"two names":             {[]string{behalf.CallerKey, "a", behalf.CallerKey, "b", behalf.RoleKey, "viewer"}, "go together"},
		"two roles":             {[]string{behalf.CallerKey, "a", behalf.RoleKey, "viewer", behalf.RoleKey, "operator"}, "go together"},
		"an unknown role":       {[]string{behalf.CallerKey, "a", behalf.RoleKey, "root"}, "expected viewer, approver, operator"},
		"roles in a list":       {[]string{behalf.CallerKey, "a", behalf.RoleKey, "viewer,operator"}, "expected viewer, approver, operator"},
		"a gateway's role":      {[]string{behalf.CallerKey, "a", behalf.RoleKey, "gateway"}, "expected viewer, approver, operator"},
		"capitals":              {[]string{behalf.CallerKey, "a", behalf.RoleKey, "Operator"}, "expected viewer, approver, operator"},
		"an empty name":         {[]string{behalf.CallerKey, "", behalf.RoleKey, "viewer"}, "it is empty"},
		"a name that is long":   {[]string{behalf.CallerKey, strings.Repeat("a", behalf.MaxName+1), behalf.RoleKey, "viewer"}, "more than 64"},
		"a line feed":           {[]string{behalf.CallerKey, "a%0Ab", behalf.RoleKey, "viewer"}, "can be seen"},
		"an escape":             {[]string{behalf.CallerKey, "a%1B[2Jb", behalf.RoleKey, "viewer"}, "can be seen"},
		"a change of direction": {[]string{behalf.CallerKey, "a%E2%80%AEb", behalf.RoleKey, "viewer"}, "can be seen"},
		"spaces alone":          {[]string{behalf.CallerKey, "%20", behalf.RoleKey, "viewer"}, "can be seen"},
		"no UTF-8":              {[]string{behalf.CallerKey, "a%FF", behalf.RoleKey, "viewer"}, "can be seen"},
		"half an escape":        {[]string{behalf.CallerKey, "a%2", behalf.RoleKey, "viewer"}, "percent-encoded"},
		"a key of their own":    {[]string{behalf.CallerKey, "a", behalf.RoleKey, "viewer", behalf.RoleKey + "-bin", "operator"}, "no such metadata"},
	} {
		got, named, err := behalf.Read(metadataOf(c.metadata))
		if err == nil || !named || got != (behalf.Caller{}) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v, %v; want %q", name, got, named, err, c.want)
		}
	}
}

func TestNamesBecomePresentable(t *testing.T) {
	for name, want := range map[string]string{
		"alice": "alice", " a\t b\n": "a b", "a\x1b[2Jb": "a[2Jb", "a\u202eb": "ab", "a\xffb": "ab", strings.Repeat("x", 100): strings.Repeat("x", 64), "\u200b": "",
	} {
		if got := behalf.Presentable(name, behalf.MaxName); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestEveryMethodTakesARole(t *testing.T) {
	file := supervisorv1.File_acphost_supervisor_v1_approval_proto
	methods := file.Services().ByName("ApprovalService").Methods()
	for name, want := range map[protoreflect.Name]behalf.Need{
		"ListApprovals": {Role: behalf.Viewer}, "AnswerApproval": {Role: behalf.Approver}, "WatchApprovals": {Role: behalf.Approver, Asks: true},
	} {
		if got := behalf.NeedOf(methods.ByName(name)); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	open := supervisorv1.File_acphost_supervisor_v1_gateway_proto.Services().ByName("GatewayService").Methods().ByName("OpenAgent")
	if got := behalf.NeedOf(open); got != (behalf.Need{Role: behalf.Gateway}) {
		t.Errorf("OpenAgent: got %+v", got)
	}
}
