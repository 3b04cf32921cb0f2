package reuse_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/acphost/acphost/internal/reuse"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

func reading() *permissionv1.Action {
	return &permissionv1.Action{Kind: "fs.read", Door: permissionv1.Door_DOOR_CALL, Roots: []string{"/w"}, ResolvedRoots: []string{"/w"},
		Paths: []*permissionv1.PathAccess{{Path: "/w/a", ResolvedPath: "/w/a", Access: permissionv1.Access_ACCESS_READ, InsideRoots: true}}}
}

// TestKey_CoversEveryFieldOfAction changes each field of an action and of its path. The changed action has another key
// or no name, unless an answer does not depend on the field. A new field of the contract fails this test until it is in
// one of the two groups.
func TestKey_CoversEveryFieldOfAction(t *testing.T) {
	free := map[protoreflect.Name]bool{"session_id": true, "tool_call_id": true, "title": true, "raw_input": true}
	before := reuse.Key(reading())
	check := func(field protoreflect.FieldDescriptor, a *permissionv1.Action, in protoreflect.Message) {
		change(in, field)
		_, named := reuse.Name(a)
		if same := named && reuse.Key(a) == before; same != free[field.Name()] {
			t.Errorf("%s: an answer holds if it differs: %v, want %v", field.FullName(), same, free[field.Name()])
		}
	}
	fields := reading().ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		a := reading()
		check(fields.Get(i), a, a.ProtoReflect())
	}
	fields = reading().GetPaths()[0].ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		a := reading()
		check(fields.Get(i), a, a.GetPaths()[0].ProtoReflect())
	}
}

// change gives a field another value.
func change(in protoreflect.Message, field protoreflect.FieldDescriptor) {
	value := in.NewField(field)
	switch {
	case field.IsList() && field.Kind() == protoreflect.MessageKind:
		value.List().Append(value.List().NewElement())
	case field.IsList() && field.Kind() == protoreflect.Uint32Kind:
		value.List().Append(protoreflect.ValueOfUint32(1))
	case field.IsList() && field.Kind() == protoreflect.EnumKind:
		value.List().Append(protoreflect.ValueOfEnum(1))
	case field.IsList():
		value.List().Append(protoreflect.ValueOfString("/x"))
	case field.Kind() == protoreflect.Uint32Kind:
		value = protoreflect.ValueOfUint32(uint32(in.Get(field).Uint()) + 1)
	case field.Kind() == protoreflect.StringKind:
		value = protoreflect.ValueOfString("/x/a")
	case field.Kind() == protoreflect.BoolKind:
		value = protoreflect.ValueOfBool(!in.Get(field).Bool())
	case field.Kind() == protoreflect.EnumKind:
		value = protoreflect.ValueOfEnum(in.Get(field).Enum()%2 + 1)
	}
	in.Set(field, value)
}

func TestKey_SeparatesLists(t *testing.T) {
	a, b := reading(), reading()
	a.Roots, a.ResolvedRoots = []string{"", "/w"}, nil
	b.Roots, b.ResolvedRoots = []string{""}, []string{"/w"}
	if reuse.Key(a) == reuse.Key(b) {
		t.Error("they have the same key")
	}
}

func TestName_ChangesByProcesses(t *testing.T) {
	change := func(door permissionv1.Door, access permissionv1.Access) *permissionv1.Action {
		a := reading()
		a.Kind, a.Door, a.Paths[0].Access = "fs.write", door, access
		return a
	}
	write := permissionv1.Access_ACCESS_WRITE
	if _, ok := reuse.Name(change(permissionv1.Door_DOOR_KERNEL, write)); !ok {
		t.Error("a change by a process has no name")
	}
	if _, ok := reuse.Name(change(permissionv1.Door_DOOR_CALL, write)); ok {
		t.Error("a change by a call has a name")
	}
	if _, ok := reuse.Name(change(permissionv1.Door_DOOR_KERNEL, permissionv1.Access_ACCESS_READ)); ok {
		t.Error("a change that only reads has a name")
	}
	a := reading()
	a.Door = permissionv1.Door_DOOR_KERNEL
	if reuse.Key(a) == reuse.Key(reading()) {
		t.Error("an answer about a call holds for a process")
	}
}

// starting is a process that starts a program.
func starting() *permissionv1.Action {
	return &permissionv1.Action{
		Kind: "terminal.create", Door: permissionv1.Door_DOOR_KERNEL, SessionId: "s", Title: "by /bin/sh", Roots: []string{"/w"},
		Command: &permissionv1.Command{Cwd: "/w", SubCommands: []*permissionv1.SubCommand{{Argv: []string{"git", "status"}}}},
	}
}

// TestKey_CoversEveryFieldOfProgram: an answer about a program holds only for an action with the same fields.
func TestKey_CoversEveryFieldOfProgram(t *testing.T) {
	before := reuse.Key(starting())
	same := func(a *permissionv1.Action) bool {
		_, ok := reuse.Name(a)
		return ok && reuse.Key(a) == before
	}
	if name, ok := reuse.Name(starting()); name != "" || !ok || !same(starting()) {
		t.Fatal("the same program is not the same")
	}
	each := func(in func(a *permissionv1.Action) protoreflect.Message) {
		fields := in(starting()).Descriptor().Fields()
		for i := range fields.Len() {
			a := starting()
			change(in(a), fields.Get(i))
			if same(a) {
				t.Errorf("an answer holds if %s differs", fields.Get(i).FullName())
			}
		}
	}
	each(func(a *permissionv1.Action) protoreflect.Message { return a.ProtoReflect() })
	each(func(a *permissionv1.Action) protoreflect.Message { return a.GetCommand().ProtoReflect() })
	each(func(a *permissionv1.Action) protoreflect.Message {
		return a.GetCommand().GetSubCommands()[0].ProtoReflect()
	})
	for name, tell := range map[string]func(a *permissionv1.Action){
		"a call":                 func(a *permissionv1.Action) { a.Door = permissionv1.Door_DOOR_CALL },
		"what was done":          func(a *permissionv1.Action) { a.Done = true },
		"more than is kept":      func(a *permissionv1.Action) { a.Command.Env = []string{strings.Repeat("x", 17<<10)} },
		"a text that is not one": func(a *permissionv1.Action) { a.Command.Cwd = "/\xff" },
		"no command":             func(a *permissionv1.Action) { a.Command = nil },
	} {
		a := starting()
		tell(a)
		if _, ok := reuse.Name(a); ok {
			t.Errorf("an answer is kept about %s", name)
		}
	}
}
