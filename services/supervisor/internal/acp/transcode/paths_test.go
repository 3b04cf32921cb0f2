package transcode

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

// twin maps /here to /there, and keeps the commands that it is asked about.
type twin struct{ commands []Command }

func (*twin) SidecarPath(path string) (string, error) {
	if strings.HasPrefix(path, "/there") {
		return "", errors.New("no path of the client's")
	}
	return strings.Replace(path, "/here", "/there", 1), nil
}

func (*twin) ClientPath(path string) (string, error) {
	if strings.HasPrefix(path, "/here") {
		return "", errors.New("no path of the handler's")
	}
	return strings.Replace(path, "/there", "/here", 1), nil
}

func (*twin) ClientText(text string) string { return strings.ReplaceAll(text, "/there", "/here") }

func (m *twin) CheckCommand(c Command) error {
	m.commands = append(m.commands, c)
	return nil
}

// fill sets each string of a message, and of the messages in it, to a text that depends on its path option.
func fill(m protoreflect.Message, text func(acpv1.PathUse) string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		use, _ := pathUse(fd)
		switch {
		case fd.Kind() == protoreflect.StringKind && fd.IsList():
			m.Mutable(fd).List().Append(protoreflect.ValueOfString(text(use)))
		case fd.Kind() == protoreflect.StringKind && !fd.IsMap():
			m.Set(fd, protoreflect.ValueOfString(text(use)))
		case fd.Kind() == protoreflect.MessageKind && fd.IsList():
			v := m.Mutable(fd).List().NewElement()
			fill(v.Message(), text)
			m.Mutable(fd).List().Append(v)
		case fd.Kind() == protoreflect.MessageKind && !fd.IsMap():
			fill(m.Mutable(fd).Message(), text)
		}
	}
}

func TestPaths_MapsMarkedFieldsOnly(t *testing.T) {
	for _, m := range []proto.Message{
		&fsv1.ReadTextFileRequest{}, &fsv1.ReadTextFileResponse{}, &fsv1.WriteTextFileRequest{}, &fsv1.WriteTextFileResponse{},
		&fsv1.ListDirectoryRequest{}, &fsv1.ListDirectoryResponse{}, &fsv1.ResolveRequest{}, &fsv1.ResolveResponse{},
		&terminalv1.CreateRequest{}, &terminalv1.CreateResponse{}, &terminalv1.RunRequest{}, &terminalv1.RunResponse{},
		&terminalv1.ResolveCommandRequest{}, &terminalv1.ResolveCommandResponse{}, &terminalv1.ListResponse{},
		&pluginv1.CheckFoldersRequest{}, &pluginv1.CheckFoldersResponse{},
	} {
		name := m.ProtoReflect().Descriptor().Name()
		t.Run(string(name), func(t *testing.T) {
			where, err := PathsOf(m.ProtoReflect().Descriptor())
			if err != nil {
				t.Fatal(err)
			}
			if where == nil {
				if strings.HasSuffix(string(name), "Request") {
					t.Fatal("it has no paths")
				}
				return
			}
			from, to, apply := "/here", "/there", where.Request
			if strings.HasSuffix(string(name), "Response") {
				from, to, apply = to, from, where.Response
			}
			fill(m.ProtoReflect(), func(acpv1.PathUse) string { return from + "/x" })
			want := m.ProtoReflect().New()
			fill(want, func(use acpv1.PathUse) string {
				switch {
				case use == acpv1.PathUse_PATH_USE_PATH, use == acpv1.PathUse_PATH_USE_TEXT && from == "/there":
					return to + "/x"
				}
				return from + "/x"
			})
			wire, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			maps := &twin{}
			if wire, err = apply(maps, wire); err != nil {
				t.Fatal(err)
			}
			got := m.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(wire, got); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(want.Interface(), got) {
				t.Errorf("got %v, want %v", got, want)
			}
			if strings.Contains(string(name), "Create") && from == "/here" {
				if want := (Command{"/here/x", []string{"/here/x"}, []string{"/here/x"}, "/here/x"}); fmt.Sprint(maps.commands) != fmt.Sprint([]Command{want}) {
					t.Errorf("the command that was checked is %v", maps.commands)
				}
			}
		})
	}
}

// Every field of the contracts with the name of a path has an option about paths.
func TestPaths_ContractsMarkPathFields(t *testing.T) {
	known := map[string]bool{
		"path": true, "cwd": true, "git_dir": true, "resolved_path": true, "allowed_path": true, "program": true, "root": true,
		"paths": true, "directory": true,
	}
	for _, file := range []protoreflect.FileDescriptor{
		acpv1.File_acphost_acp_v1_context_proto, acpv1.File_acphost_acp_v1_program_proto, fsv1.File_acphost_fs_v1_fs_proto,
		terminalv1.File_acphost_terminal_v1_terminal_proto, pluginv1.File_acphost_plugin_v1_plugin_proto,
	} {
		for i := range file.Messages().Len() {
			fields := file.Messages().Get(i).Fields()
			for j := range fields.Len() {
				fd := fields.Get(j)
				if fd.Kind() != protoreflect.StringKind || !known[string(fd.Name())] {
					continue
				}
				if use, err := pathUse(fd); err != nil || use == acpv1.PathUse_PATH_USE_UNSPECIFIED {
					t.Errorf("%s has no option about paths (%v)", fd.FullName(), err)
				}
			}
		}
	}
}

func method(t testing.TB, file protoreflect.FileDescriptor, name protoreflect.Name) *Method {
	t.Helper()
	m, err := Compile(file.Services().Get(0).Methods().ByName(name))
	if err != nil || m == nil {
		t.Fatal(err)
	}
	return m
}

func TestPaths_RequestContentIsNotCopied(t *testing.T) {
	write := method(t, fsv1.File_acphost_fs_v1_fs_proto, "WriteTextFile")
	content := strings.Repeat("/here ", 1<<12)
	params := []byte(`{"sessionId":"s","path":"/here/a","content":"` + content + `"}`)
	frame, jerr := write.EncodeRequest(params, &acpv1.CallContext{Roots: []*acpv1.Root{{Path: "/here"}}, ResolvedPath: &acpv1.ResolvedPath{Path: "/here/b"}})
	if jerr != nil {
		t.Fatal(jerr)
	}
	there, err := frame.WithPaths(&twin{})
	if err != nil {
		t.Fatal(err)
	}
	if len(there.refs) == 0 || len(there.head) > 1<<10 {
		t.Errorf("the content was copied: %d bytes", len(there.head))
	}
	want := &fsv1.WriteTextFileRequest{SessionId: "s", Path: "/there/a", Content: content, Context: &acpv1.CallContext{
		Roots: []*acpv1.Root{{Path: "/there"}}, ResolvedPath: &acpv1.ResolvedPath{Path: "/there/b"},
	}}
	got := &fsv1.WriteTextFileRequest{}
	if err := proto.Unmarshal(there.buffers().Materialize(), got); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(want, got) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := proto.Unmarshal(frame.buffers().Materialize(), got); err != nil || got.GetPath() != "/here/a" {
		t.Errorf("the frame itself was changed: %v, %v", got.GetPath(), err)
	}
}

func TestPaths_ReplyInPieces(t *testing.T) {
	read := method(t, fsv1.File_acphost_fs_v1_fs_proto, "ReadTextFile")
	content := strings.Repeat("/there ", 1<<12)
	wire, err := proto.Marshal(&fsv1.ReadTextFileResponse{Content: content, Result: &acpv1.CallResult{
		ResolvedPath: "/there/b", Digest: "sha256:/there", Notes: []string{"written to /there/b"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	request, jerr := read.EncodeRequest([]byte(`{"sessionId":"s","path":"/here/a"}`), nil)
	if jerr != nil {
		t.Fatal(jerr)
	}
	for _, size := range []int{1, 7, 5000, len(wire)} {
		reply := &Frame{}
		for at := 0; at < len(wire); at += size {
			reply.received = append(reply.received, mem.SliceBuffer(wire[at:min(at+size, len(wire))]))
		}
		if err := request.ReplyPaths(&twin{}, reply); err != nil {
			t.Fatal(err)
		}
		line, result, err := read.DecodeReply([]byte("1"), reply)
		if err != nil {
			t.Fatal(err)
		}
		want := &acpv1.CallResult{ResolvedPath: "/here/b", Digest: "sha256:/there", Notes: []string{"written to /here/b"}}
		if !proto.Equal(want, result) {
			t.Errorf("pieces of %d: got %v, want %v", size, result, want)
		}
		joined := ""
		for _, piece := range line {
			joined += string(piece)
		}
		if !strings.Contains(joined, content) {
			t.Errorf("pieces of %d: the content was changed", size)
		}
		reply.Free()
	}
}

func TestPaths_UnmappableFailsCall(t *testing.T) {
	read := method(t, fsv1.File_acphost_fs_v1_fs_proto, "ReadTextFile")
	frame, jerr := read.EncodeRequest([]byte(`{"sessionId":"s","path":"/there/a"}`), nil)
	if jerr != nil {
		t.Fatal(jerr)
	}
	if _, err := frame.WithPaths(&twin{}); err == nil {
		t.Error("a path that the handler does not have was sent")
	}
	wire, _ := proto.Marshal(&fsv1.ReadTextFileResponse{Result: &acpv1.CallResult{ResolvedPath: "/here/x"}})
	for name, received := range map[string][]byte{"a path that the client does not have": wire, "a message that is cut off": wire[:len(wire)-1]} {
		reply := &Frame{received: mem.BufferSlice{mem.SliceBuffer(received)}}
		if err := frame.ReplyPaths(&twin{}, reply); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// BenchmarkRequestPaths compares a request to a handler without mapped paths with a request to a handler with mapped
// paths.
func BenchmarkRequestPaths(b *testing.B) {
	read := method(b, fsv1.File_acphost_fs_v1_fs_proto, "ReadTextFile")
	params := []byte(`{"sessionId":"0123456789abcdef","path":"/here/services/supervisor/internal/acp/transcode/paths.go"}`)
	cc := &acpv1.CallContext{SessionId: "0123456789abcdef", Scope: strings.Repeat("0", 32), Roots: []*acpv1.Root{{Path: "/here"}}, Agent: "claude", ProtocolVersion: 1}
	for _, mapped := range []bool{false, true} {
		b.Run(fmt.Sprintf("mapped=%v", mapped), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				frame, jerr := read.EncodeRequest(params, cc)
				if jerr != nil {
					b.Fatal(jerr)
				}
				if mapped {
					if _, err := frame.WithPaths(&twin{}); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
