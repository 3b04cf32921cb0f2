package launch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/acphost/acphost/internal/panics"
)

const (
	lineMax   = 32 << 10 // bytes of a line that are kept; the rest is dropped
	tailLines = 20
	tailLine  = 500 // bytes of a line in the tail
)

// outputLogger logs the output of a handler and keeps its last lines. Lines in the format of slog's JSON handler (or of
// go-plugin's logger) keep their level, message and attributes; all others are logged unchanged. The handler is not
// trusted: no line can forge further records, or replace the host's own attributes.
type outputLogger struct {
	log *slog.Logger

	mu     sync.Mutex
	tail   []string
	fatal  string    // the first line of a Go runtime's crash report
	newest time.Time // the time of the newest line
}

// finalOutputWindow is the maximum age, at the end of a handler, of a line that is reported as the reason for the end.
const finalOutputWindow = 10 * time.Second

// copy logs the lines of r until it ends. from is "stderr" or "stdout".
func (l *outputLogger) copy(r io.Reader, from string) {
	reader := bufio.NewReaderSize(r, lineMax)
	for {
		line, err := reader.ReadSlice('\n')
		if len(line) > 0 {
			l.line(line, from, errors.Is(err, bufio.ErrBufferFull))
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = reader.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

func (l *outputLogger) line(line []byte, from string, cut bool) {
	line = bytes.TrimRight(line, "\r\n")
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	if r, ok := parseRecord(line); ok && !cut {
		l.remember(r.text(), false)
		l.log.LogAttrs(context.Background(), r.level, r.message, r.attrs...)
		return
	}
	text := strings.ToValidUTF8(string(line), "\uFFFD")
	level := slog.LevelInfo
	if from == "stderr" { // most languages write exceptions with their stacks there
		level = slog.LevelWarn
	}
	if l.remember(text, beginsCrash(text)) {
		level = slog.LevelError
	}
	attrs := []slog.Attr{slog.String("line", text)}
	if cut {
		attrs = append(attrs, slog.Bool("cut", true))
	}
	l.log.LogAttrs(context.Background(), level, "handler wrote to "+from, attrs...)
}

// beginsCrash reports whether a line is the first that a Go runtime prints before it ends a process: "panic: …", "fatal
// error: …", or the signal, "SIGSEGV: segmentation violation".
func beginsCrash(line string) bool {
	signal, what, named := strings.Cut(line, ": ")
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") ||
		named && what != "" && len(signal) <= len("SIGVTALRM") && strings.HasPrefix(signal, "SIG") && signal == strings.ToUpper(signal)
}

// remember adds a line to the tail and reports whether the line is part of a crash report.
func (l *outputLogger) remember(text string, fatal bool) bool {
	if len(text) > tailLine {
		text = strings.ToValidUTF8(text[:tailLine], "") + " …"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.newest) > finalOutputWindow {
		l.fatal = "" // the handler has continued to run
	}
	l.newest = now
	if fatal && l.fatal == "" {
		l.fatal = text
	}
	if len(l.tail) == tailLines {
		l.tail = slices.Delete(l.tail, 0, 1)
	}
	l.tail = append(l.tail, text)
	return l.fatal != ""
}

// last returns the line that best explains an end at this time: the first line of a crash report, else the newest line.
// Empty: there was no recent output.
func (l *outputLogger) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.newest) > finalOutputWindow {
		return ""
	}
	if l.fatal != "" {
		return l.fatal
	}
	if len(l.tail) == 0 {
		return ""
	}
	return l.tail[len(l.tail)-1]
}

func (l *outputLogger) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.tail)
}

// relayStdio logs the output of a Go handler after go-plugin's server has replaced its os.Stdout and os.Stderr. It must
// be read, because the handler would block when the pipe is full. relayStdio returns when the connection ends, or at
// once for a handler without that service.
func relayStdio(ctx context.Context, conn *grpc.ClientConn, to *outputLogger) {
	kind, err := protoregistry.GlobalTypes.FindMessageByName("plugin.StdioData")
	if err != nil {
		return
	}
	data := kind.Descriptor().Fields().ByName("data")
	channel := kind.Descriptor().Fields().ByName("channel")
	if data == nil || data.Kind() != protoreflect.BytesKind || channel == nil {
		return
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/plugin.GRPCStdio/StreamStdio")
	if err != nil || stream.SendMsg(&emptypb.Empty{}) != nil || stream.CloseSend() != nil {
		return
	}
	// One pipe for each, so that lines that arrive in pieces are reassembled.
	var copies sync.WaitGroup
	writers := map[protoreflect.EnumNumber]*io.PipeWriter{}
	for number, from := range map[protoreflect.EnumNumber]string{1: "stdout", 2: "stderr"} {
		r, w := io.Pipe()
		writers[number] = w
		copies.Go(panics.Guard(nil, "reading the output of a handler", func() { to.copy(r, from) }, func(err error) { _ = r.CloseWithError(err) }))
	}
	for {
		m := kind.New()
		if err := stream.RecvMsg(m.Interface()); err != nil {
			break
		}
		if w := writers[m.Get(channel).Enum()]; w != nil {
			_, _ = w.Write(m.Get(data).Bytes())
		}
	}
	for _, w := range writers {
		_ = w.Close()
	}
	copies.Wait()
}

// record is a parsed log line.
type record struct {
	level   slog.Level
	message string
	attrs   []slog.Attr
}

// text returns the record as one line, for the tail.
func (r record) text() string {
	for _, a := range r.attrs {
		if a.Key == "error" || a.Key == "err" {
			return r.message + ": " + a.Value.String()
		}
	}
	return r.message
}

// parseRecord parses a line of slog's JSON handler or of hclog ("@level", "@message"). ok is false for every other
// line.
func parseRecord(line []byte) (r record, ok bool) {
	if line[0] != '{' {
		return r, false
	}
	fields, ok := members(line)
	if !ok {
		return r, false
	}
	var level, message bool
	for _, f := range fields {
		switch f.name {
		case slog.LevelKey, "@level":
			level = !level && parseLevel(f.value, &r.level)
		case slog.MessageKey, "@message":
			message = !message && f.value[0] == '"' && json.Unmarshal(f.value, &r.message) == nil
		case slog.TimeKey, "@timestamp", "@module", "handler":
		default:
			r.attrs = append(r.attrs, attr(f, 0))
		}
	}
	return r, level && message
}

func parseLevel(value json.RawMessage, level *slog.Level) bool {
	var name string
	if value[0] != '"' || json.Unmarshal(value, &name) != nil {
		return false
	}
	if strings.EqualFold(name, "trace") {
		*level = slog.LevelDebug
		return true
	}
	return level.UnmarshalText([]byte(name)) == nil
}

type member struct {
	name  string
	value json.RawMessage
}

// members returns an object's members in their order.
func members(object []byte) ([]member, bool) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	var all []member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, false
		}
		all = append(all, member{name.(string), value})
	}
	if _, err := d.Token(); err != nil {
		return nil, false
	}
	_, err := d.Token()
	return all, errors.Is(err, io.EOF)
}

// attr converts a member to an attribute; objects become groups, up to a limited depth.
func attr(m member, depth int) slog.Attr {
	switch m.value[0] {
	case '"':
		var s string
		_ = json.Unmarshal(m.value, &s)
		return slog.String(m.name, s)
	case '{':
		if inner, ok := members(m.value); ok && depth < 3 {
			group := make([]any, 0, len(inner))
			for _, f := range inner {
				group = append(group, attr(f, depth+1))
			}
			return slog.Group(m.name, group...)
		}
	default: // a list, a number, true, false or null
		var n int64
		if json.Unmarshal(m.value, &n) == nil && m.value[0] != 'n' {
			return slog.Int64(m.name, n)
		}
	}
	return slog.String(m.name, string(m.value))
}
