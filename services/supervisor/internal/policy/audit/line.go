package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// format returns a record as a line of JSON with a line feed.
func format(r *supervisorv1.AuditRecord) ([]byte, error) {
	spaced, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write a record as JSON: %w", err)
	}
	line := bytes.NewBuffer(make([]byte, 0, len(spaced)+1))
	if err := json.Compact(line, spaced); err != nil { // protojson inserts random spaces
		return nil, fmt.Errorf("write a record as JSON: %w", err)
	}
	line.WriteByte('\n')
	return line.Bytes(), nil
}

// Line returns a record as a line of the audit, without a line feed.
func Line(r *supervisorv1.AuditRecord) ([]byte, error) {
	line, err := format(r)
	return bytes.TrimSuffix(line, []byte{'\n'}), err
}

// parse parses a line.
func parse(line []byte) (*supervisorv1.AuditRecord, error) {
	r := &supervisorv1.AuditRecord{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(line, r); err != nil {
		return nil, err
	}
	if r.GetTime() == nil {
		return nil, errors.New("it has no time")
	}
	return r, nil
}

// fit returns the line of a record, shortened to limit bytes. It removes first the raw input, then parts of the command
// and of the paths, and at last everything but the decision. The record says what was omitted, and its action counts as
// not understood, so that the remaining text is not mistaken for the whole. It modifies r.
func fit(r *supervisorv1.AuditRecord, limit int) ([]byte, error) {
	// A record that is certainly too long is not formatted first: a text never becomes shorter in JSON.
	var line []byte
	var err error
	if proto.Size(r.GetAction()) < 2*limit {
		if line, err = format(r); err != nil || len(line) <= limit {
			return line, err
		}
	}
	for _, shorten := range []func(*supervisorv1.AuditRecord){
		func(r *supervisorv1.AuditRecord) { dropRawInput(r.GetAction()) },
		func(r *supervisorv1.AuditRecord) { cutAction(r.GetAction(), 4<<10, 50) },
		func(r *supervisorv1.AuditRecord) { cutAction(r.GetAction(), 512, 4); cutRest(r, 1<<10) },
		func(r *supervisorv1.AuditRecord) { r.Action = bare(r.GetAction()); cutRest(r, 128) },
	} {
		shorten(r)
		if proto.Size(r.GetAction()) >= 2*limit {
			continue
		}
		if line, err = format(r); err != nil || len(line) <= limit {
			return line, err
		}
	}
	return nil, fmt.Errorf("a record takes %d bytes, and a line has room for %d", len(line), limit)
}

func dropRawInput(a *permissionv1.Action) {
	if n := len(a.GetRawInput()); n > 0 {
		a.RawInput = fmt.Sprintf(`"[left out: %d bytes]"`, n) // it remains one JSON value
	}
}

const shortened = "shortened for the record"

// cutAction limits each text to text bytes and each list to a number of items.
func cutAction(a *permissionv1.Action, text, items int) {
	if a != nil && cutMessage(a.ProtoReflect(), text, items) {
		doubt(a)
	}
}

// cutMessage is cutAction for any message, including nested ones. It reports whether it removed something.
func cutMessage(m protoreflect.Message, text, items int) (cut bool) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList():
			list := m.Mutable(fd).List()
			if list.Len() > items {
				list.Truncate(items)
				cut = true
			}
			for i := range list.Len() {
				if fd.Message() != nil {
					cut = cutMessage(list.Get(i).Message(), text, items) || cut
				} else if s := list.Get(i); fd.Kind() == protoreflect.StringKind && len(s.String()) > text {
					list.Set(i, protoreflect.ValueOfString(cutText(s.String(), text)))
					cut = true
				}
			}
		case fd.Message() != nil:
			cut = cutMessage(v.Message(), text, items) || cut
		case fd.Kind() == protoreflect.StringKind && len(v.String()) > text:
			m.Set(fd, protoreflect.ValueOfString(cutText(v.String(), text)))
			cut = true
		}
		return true
	})
	return cut
}

// bare returns an action with its kind, and without its subject.
func bare(a *permissionv1.Action) *permissionv1.Action {
	if a == nil {
		return nil
	}
	b := &permissionv1.Action{
		Kind: cutText(a.GetKind(), 128), Agent: cutText(a.GetAgent(), 128), Mode: cutText(a.GetMode(), 128),
		SessionId: cutText(a.GetSessionId(), 128), ToolCallId: cutText(a.GetToolCallId(), 128),
		Title: cutText(a.GetTitle(), 512), Door: a.GetDoor(), Method: cutText(a.GetMethod(), 128), Done: a.GetDone(),
	}
	if c := a.GetCommand(); c != nil {
		b.Command = &permissionv1.Command{Text: cutText(c.GetText(), 1<<10), Unparsed: shortened}
	}
	doubt(b)
	return b
}

func doubt(a *permissionv1.Action) {
	switch a.GetUnparsed() {
	case "":
		a.Unparsed = shortened
	default:
		if !bytes.Contains([]byte(a.Unparsed), []byte(shortened)) {
			a.Unparsed += "; " + shortened
		}
	}
}

// cutRest shortens the members of a record other than its action.
func cutRest(r *supervisorv1.AuditRecord, text int) {
	for _, s := range []*string{&r.Id, &r.SessionId, &r.Agent, &r.Door, &r.Verdict, &r.Rule, &r.Reason, &r.Detail, &r.PolicyDigest,
		&r.Plugin, &r.AnsweredBy, &r.Outcome, &r.Option, &r.Note, &r.Place} {
		*s = cutText(*s, text)
	}
	if len(r.Grants) > 50 {
		r.Grants = append(r.Grants[:50:50], fmt.Sprintf("and %d more", len(r.Grants)-50))
	}
	for i := range r.Grants {
		r.Grants[i] = cutText(r.Grants[i], 64)
	}
}

// cutText returns the first n bytes of s, rounded down to whole characters, and says how many bytes are missing.
func cutText(s string, n int) string {
	kept, cut := safetext.Prefix(s, n)
	if !cut {
		return s
	}
	return fmt.Sprintf("%s[… %d bytes left out]", kept, len(s)-len(kept))
}
