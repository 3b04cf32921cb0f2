package decisions

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/secretfile"
	sandboxv1 "github.com/acphost/acphost/proto/acphost/sandbox/v1"
)

// judge is a Judge that tells the test what it was asked.
type judge struct {
	mu      sync.Mutex
	asked   []Asked
	refused []string
	says    func(ctx context.Context, a Asked) (bool, string)
}

func (j *judge) Judge(ctx context.Context, a Asked) Answer {
	j.mu.Lock()
	j.asked = append(j.asked, a)
	j.mu.Unlock()
	allowed, why := j.says(ctx, a)
	return Answer{Allowed: allowed, Why: why}
}

func (j *judge) Started(int, uint64) {}

func (j *judge) Refused(_ int, _, what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.refused = append(j.refused, what)
}

// joined is a client whose server is a judge. served is closed when Serve has returned.
func joined(t *testing.T, j *judge, began func(Began)) (c *client, ours net.Conn, served chan error) {
	t.Helper()
	ours, theirs := net.Pipe()
	c = newClient(theirs, answerTimeout)
	served = make(chan error, 1)
	go func() { served <- Serve(ours, j, began, nil) }()
	return c, ours, served
}

func TestClient_QuestionArrivesUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &judge{says: func(_ context.Context, a Asked) (bool, string) { return a.Path != "/w/.env", "rule env" }}
		var begun []Began
		c, _, served := joined(t, j, func(b Began) { begun = append(begun, b) })
		c.Began(7, proc.Restrictions{Landlock: true, Notes: []string{"no x"}}, nil)
		e := sandbox.Event{
			Operation: sandbox.Execute, PID: 12, Path: "/bin/\xff", Args: []string{"a", "", "\xfe"}, Dir: "/w", Env: []string{"A=\xff"},
			Address: sandbox.Address{Network: "tcp", Host: "127.0.0.1", Port: 65535},
		}
		if !c.Allows(e) {
			t.Error("it was refused")
		}
		c.Refused(12, "a mount")
		if c.Allows(sandbox.Event{Operation: sandbox.Write, Path: "/w/.env", PID: 7}) {
			t.Error("it was allowed")
		}
		_ = c.conn.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		got := j.asked[0]
		if got.Path != e.Path || !slices.Equal(got.Args, e.Args) || got.Dir != e.Dir || !slices.Equal(got.Env, e.Env) || got.Address != e.Address || got.PID != 12 || got.Cut {
			t.Errorf("got %+v, want %+v", got, e)
		}
		if len(begun) != 1 || begun[0].PID != 7 || !begun[0].Walls.Landlock || begun[0].Walls.Seccomp || len(begun[0].Walls.Notes) != 1 {
			t.Errorf("got %+v", begun)
		}
		if !slices.Equal(j.refused, []string{"a mount"}) {
			t.Errorf("got %q", j.refused)
		}
	})
}

func TestQuestion_JudgesInspectedFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &judge{says: func(context.Context, Asked) (bool, string) { return true, "" }}
		c, _, served := joined(t, j, nil)
		public := []byte("registry=https://registry.example.org/\n")
		for name, tt := range map[string]struct {
			path      string
			inspected bool
			content   []byte
			want      bool
		}{
			"without a token":   {"/w/.npmrc", true, public, true},
			"with a token":      {"/w/.npmrc", true, []byte("_authToken=x\n"), false},
			"too long":          {"/w/.npmrc", true, bytes.Repeat([]byte("a=b\n"), secretfile.MaxContent/4+1), false},
			"another name":      {"/w/.env", true, public, false},
			"content not known": {"/w/.npmrc", false, public, false},
		} {
			c.Allows(sandbox.Event{Operation: sandbox.Read, Path: tt.path, Inspected: tt.inspected, Content: tt.content})
			got := j.asked[len(j.asked)-1]
			if got.Public != tt.want || got.Inspected != tt.inspected || tt.inspected && len(got.Content) > 0 {
				t.Errorf("%s: got public %t, inspected %t and %d bytes, want public %t",
					name, got.Public, got.Inspected, len(got.Content), tt.want)
			}
		}
		if n := c.Inspects("/w/.npmrc"); n != secretfile.MaxContent+1 || c.Inspects("/w/.env") != 0 || c.Inspects("/w/main.go") != 0 {
			t.Errorf("got %d, %d and %d bytes of .npmrc, .env and main.go", n, c.Inspects("/w/.env"), c.Inspects("/w/main.go"))
		}
		_ = c.conn.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func TestQuestion_CarriesContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &judge{says: func(context.Context, Asked) (bool, string) { return true, "" }}
		c, _, served := joined(t, j, nil)
		events := []sandbox.Event{
			{Operation: sandbox.Move, Path: "/w/.git/config", Others: []string{"/w/.git/config.lock"}, Placed: true, Content: bytes.Repeat([]byte("\xff"), sandbox.MaxContent)},
			{Operation: sandbox.Move, Path: "/w/.git/config", Placed: true},
			{Operation: sandbox.Write, Path: "/w/x", Leaves: sandbox.LeavesFolder, Made: true},
			{Operation: sandbox.Write, Path: "/w/x", Leaves: sandbox.LeavesNothing},
			{Operation: sandbox.Write, Path: "/w/x", Leaves: sandbox.LeavesContent},
		}
		for i, e := range events {
			if !c.Allows(e) {
				t.Error("it was rejected")
			}
			if got := j.asked[i]; got.Placed != e.Placed || got.Made != e.Made || !bytes.Equal(got.Content, e.Content) || got.Leaves != e.Leaves {
				t.Errorf("question %d: got placed %t, %d bytes, leaves %q", i, got.Placed, len(got.Content), got.Leaves)
			}
		}
		_ = c.conn.Close()
		<-served
	})
}

func TestContentFor_ShortensIndexes(t *testing.T) {
	index := append([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00UNTR\x00\x60\x00\x00"), make([]byte, 6<<20+20)...)
	strange := bytes.Replace(index, []byte("UNTR"), []byte("link"), 1)
	for name, c := range map[string]struct {
		path    string
		content []byte
		placed  bool
		sent    int
	}{
		"a large index":                      {"/w/.git/index", index, true, 0},
		"a large index that is not so":       {"/w/.git/index", strange, false, 0},
		"an index that is not one":           {"/w/.git/index", []byte("x"), true, 1},
		"a large configuration":              {"/w/.git/config", index, false, 0},
		"an index in a configuration":        {"/w/.git/config", index[:12], true, 12},
		"an index that belongs to no folder": {"/w/index", index[:12], true, 12},
	} {
		placed, content := contentFor(sandbox.Event{Operation: sandbox.Move, Path: c.path, Placed: true, Content: c.content})
		if placed != c.placed || len(content) != c.sent {
			t.Errorf("%s: got placed %t, %d bytes, want %t, %d", name, placed, len(content), c.placed, c.sent)
		}
	}
	if placed, _ := contentFor(sandbox.Event{Operation: sandbox.Write, Path: "/w/.git/index"}); placed {
		t.Error("an index whose content is not known counts as placed")
	}
}

func TestClient_PlacesGitConfigurations(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "bare", "refs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		".git/config": true, ".git/modules/x/config": true, "bare/config": true, ".git/config.worktree": true, ".git/index": true,
		".git/config.lock": false, ".git/hooks/x": false, "config": false, "bare/x": false,
	} {
		if got := newClient(nil, answerTimeout).Places(filepath.Join(dir, name)); got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
}

func TestClient_AllowsStartOfOwnProgram(t *testing.T) {
	c := newClient(nil, answerTimeout)
	if !c.Allows(sandbox.Event{Operation: sandbox.Execute, Path: "/bin/agent", Start: true}) {
		t.Error("it was refused")
	}
}

func TestClient_CutsLongQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &judge{says: func(context.Context, Asked) (bool, string) { return true, "" }}
		c, ours, served := joined(t, j, nil)
		long := strings.Repeat("x", 100<<10)
		if !c.Allows(sandbox.Event{Operation: sandbox.Execute, Args: slices.Repeat([]string{long}, 30)}) {
			t.Error("it was refused")
		}
		if got := j.asked[0]; !got.Cut || len(got.Args) < 5 || len(got.Args) > 10 {
			t.Errorf("got cut %t and %d arguments", got.Cut, len(got.Args))
		}
		_ = ours.Close()
		<-served
	})
}

func TestClient_DeniesWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		ended := make(chan struct{})
		j := &judge{says: func(ctx context.Context, a Asked) (bool, string) {
			if a.Path == "/late" {
				<-release
				return true, ""
			}
			<-ctx.Done()
			close(ended)
			return true, ""
		}}
		c, ours, served := joined(t, j, nil)
		began := time.Now()
		if c.Allows(sandbox.Event{Operation: sandbox.Write, Path: "/late"}) {
			t.Error("it was allowed, although nobody had answered")
		}
		if took := time.Since(began); took != answerTimeout {
			t.Errorf("it took %v, want %v", took, answerTimeout)
		}
		close(release)
		synctest.Wait() // the late answer is for nobody
		waits := make(chan bool, 1)
		go func() { waits <- c.Allows(sandbox.Event{Operation: sandbox.Write, Path: "/gone"}) }()
		synctest.Wait()
		_ = ours.Close()
		if <-waits {
			t.Error("it was allowed, although who decides is gone")
		}
		<-ended
		<-served
		if c.Allows(sandbox.Event{Operation: sandbox.Write, Path: "/after"}) {
			t.Error("it was allowed, although who decides is gone")
		}
	})
}

func TestClient_SlowSupervisorDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		c := newClient(theirs, answerTimeout)
		if c.Allows(sandbox.Event{Operation: sandbox.Write, Path: "/x"}) {
			t.Error("it was allowed")
		}
		_ = ours.Close()
	})
}

func TestServe_EndsAtUnknownMessage(t *testing.T) {
	began := func(id int64) []byte {
		b, err := proto.Marshal(&sandboxv1.Told{What: &sandboxv1.Told_Began{Began: &sandboxv1.Began{Pid: id}}})
		if err != nil {
			t.Fatal(err)
		}
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	}
	for name, c := range map[string]struct {
		said []byte
		want string
	}{
		"nothing":            {nil, ""},
		"half a frame":       {[]byte{0, 0, 0, 9, 1}, ""},
		"a frame too long":   {[]byte{0xff, 0, 0, 0}, "too long"},
		"no message":         {[]byte{0, 0, 0, 1, 0xff}, "proto"},
		"an empty message":   {[]byte{0, 0, 0, 0}, "not known"},
		"a second beginning": {append(began(1), began(2)...), "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = theirs.Write(c.said)
				_ = theirs.Close()
			}()
			err := Serve(ours, &judge{}, func(Began) {}, nil)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestRead_LimitsFrames(t *testing.T) {
	tooLong := string(binary.BigEndian.AppendUint32(nil, maxFrame+1))
	if err := read(strings.NewReader(tooLong), &sandboxv1.Told{}); !errors.Is(err, errFrame) {
		t.Errorf("got %v", err)
	}
	if err := write(io.Discard, &sandboxv1.Told{What: &sandboxv1.Told_Refusal{Refusal: &sandboxv1.Refusal{What: strings.Repeat("x", maxFrame)}}}); !errors.Is(err, errFrame) {
		t.Errorf("got %v", err)
	}
}

func TestClient_AllowsDevices(t *testing.T) {
	c := newClient(nil, answerTimeout) // there is nobody
	if !c.Allows(sandbox.Event{Operation: sandbox.Write, Path: "/dev/null", PID: 7}) {
		t.Error("it was refused")
	}
}
