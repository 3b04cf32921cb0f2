package delegation_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/acphost/acphost/internal/delegation"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func metadataOf(pairs []string) map[string][]string {
	m := map[string][]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = append(m[pairs[i]], pairs[i+1])
	}
	return m
}

func TestCaller_RoundTripsThroughMetadata(t *testing.T) {
	for _, name := range []string{"alice", "Alice of the build team", "Łucja 山田", "a%2Fb", "100%", "a/b?c#d;e,f", strings.Repeat("ü", delegation.MaxName)} {
		for _, role := range delegation.Roles() {
			want := delegation.Caller{Name: name, Role: role}
			pairs := want.Metadata()
			for _, value := range pairs {
				if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' }) {
					t.Errorf("%q: metadata cannot carry %q", name, value)
				}
			}
			if got, named, err := delegation.Read(metadataOf(pairs)); got != want || !named || err != nil {
				t.Errorf("got %+v, %v, %v, want %+v", got, named, err, want)
			}
		}
	}
	if got, named, err := delegation.Read(map[string][]string{"user-agent": {"x"}}); named || err != nil || got != (delegation.Caller{}) {
		t.Errorf("without a caller: %+v, %v, %v", got, named, err)
	}
}

func TestRead_RejectsAmbiguousMetadata(t *testing.T) {
	for name, c := range map[string]struct {
		metadata []string
		want     string
	}{
		"no role":               {[]string{delegation.CallerKey, "a"}, "go together"},
		"no name":               {[]string{delegation.RoleKey, "viewer"}, "go together"},
		"two names":             {[]string{delegation.CallerKey, "a", delegation.CallerKey, "b", delegation.RoleKey, "viewer"}, "go together"},
		"two roles":             {[]string{delegation.CallerKey, "a", delegation.RoleKey, "viewer", delegation.RoleKey, "operator"}, "go together"},
		"an unknown role":       {[]string{delegation.CallerKey, "a", delegation.RoleKey, "root"}, "expected viewer, approver, operator"},
		"roles in a list":       {[]string{delegation.CallerKey, "a", delegation.RoleKey, "viewer,operator"}, "expected viewer, approver, operator"},
		"a gateway's role":      {[]string{delegation.CallerKey, "a", delegation.RoleKey, "gateway"}, "expected viewer, approver, operator"},
		"capitals":              {[]string{delegation.CallerKey, "a", delegation.RoleKey, "Operator"}, "expected viewer, approver, operator"},
		"an empty name":         {[]string{delegation.CallerKey, "", delegation.RoleKey, "viewer"}, "it is empty"},
		"a name that is long":   {[]string{delegation.CallerKey, strings.Repeat("a", delegation.MaxName+1), delegation.RoleKey, "viewer"}, "more than 64"},
		"a line feed":           {[]string{delegation.CallerKey, "a%0Ab", delegation.RoleKey, "viewer"}, "can be seen"},
		"an escape":             {[]string{delegation.CallerKey, "a%1B[2Jb", delegation.RoleKey, "viewer"}, "can be seen"},
		"a change of direction": {[]string{delegation.CallerKey, "a%E2%80%AEb", delegation.RoleKey, "viewer"}, "can be seen"},
		"spaces alone":          {[]string{delegation.CallerKey, "%20", delegation.RoleKey, "viewer"}, "can be seen"},
		"no UTF-8":              {[]string{delegation.CallerKey, "a%FF", delegation.RoleKey, "viewer"}, "can be seen"},
		"half an escape":        {[]string{delegation.CallerKey, "a%2", delegation.RoleKey, "viewer"}, "percent-encoded"},
		"a key of their own":    {[]string{delegation.CallerKey, "a", delegation.RoleKey, "viewer", delegation.RoleKey + "-bin", "operator"}, "no such metadata"},
	} {
		got, named, err := delegation.Read(metadataOf(c.metadata))
		if err == nil || !named || got != (delegation.Caller{}) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v, %v; want %q", name, got, named, err, c.want)
		}
	}
}

func TestPresentable_CleansNames(t *testing.T) {
	for name, want := range map[string]string{
		"alice": "alice", " a\t b\n": "a b", "a\x1b[2Jb": "a[2Jb", "a\u202eb": "ab", "a\xffb": "ab", strings.Repeat("x", 100): strings.Repeat("x", 64), "\u200b": "",
	} {
		if got := delegation.Presentable(name, delegation.MaxName); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestNeedOf_MethodsOfSupervisor(t *testing.T) {
	file := supervisorv1.File_acphost_supervisor_v1_approval_proto
	methods := file.Services().ByName("ApprovalService").Methods()
	for name, want := range map[protoreflect.Name]delegation.Need{
		"ListApprovals": {Role: delegation.Viewer}, "AnswerApproval": {Role: delegation.Approver}, "WatchApprovals": {Role: delegation.Approver, Asks: true},
	} {
		if got := delegation.NeedOf(methods.ByName(name)); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	open := supervisorv1.File_acphost_supervisor_v1_gateway_proto.Services().ByName("GatewayService").Methods().ByName("OpenAgent")
	if got := delegation.NeedOf(open); got != (delegation.Need{Role: delegation.Gateway}) {
		t.Errorf("OpenAgent: got %+v", got)
	}
}
