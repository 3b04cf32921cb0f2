// Package yamlproto reads YAML into protobuf messages, strictly, and writes messages as YAML.
//
// A configuration file or a rule file is a message of a .proto file; this package is the only way from the text to the
// message. It decodes by descriptor, so it does not know any particular message or the meaning of values. The owner of
// a message checks the meaning, and reports mistakes with Document.Errorf, at the line and column of the value.
//
// The package is strict on purpose, because a setting that is silently ignored or misread is worse than a rejected one.
// A key is a field's name in snake_case or its JSON name. These are errors: unknown and repeated keys, values of
// another type, numbers out of range, merge keys, foreign tags, and a second document. Null is the same as an absent
// field. An empty file is an empty message. The package reports all errors of a file together.
package yamlproto

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/acphost/acphost/internal/lazyregexp"
)

const (
	// maxBytes is the limit of a file. Files written by hand are far smaller.
	maxBytes = 16 << 20
	// maxDepth limits the nesting of values, including aliases. It also ends an alias that contains itself.
	maxDepth = 100
	// maxAliased limits the values reached through aliases: nine lines of YAML can expand to a billion.
	maxAliased = 10_000
	// maxErrors limits the reported errors of one file.
	maxErrors = 50
)

// Unmarshal decodes the YAML document data into the message into, which is replaced as a whole on success and unchanged
// on error. file is only used for the positions of errors. The error joins one *Error for each mistake, in the order of
// the file.
func Unmarshal(file string, data []byte, into proto.Message) error {
	doc, err := Parse(file, data)
	if err != nil {
		return err
	}
	return doc.Decode(into)
}

// Document is a parsed YAML document with the position of every value. Safe for concurrent use.
type Document struct {
	file string
	root *yaml.Node // nil: the file is empty
}

// Parse parses data, which must hold at most one YAML document of at most 16 MiB in UTF-8. The error is an *Error.
func Parse(file string, data []byte) (doc *Document, err error) {
	if len(data) > maxBytes {
		return nil, &Error{File: file, Line: 1, Column: 1,
			Message: fmt.Sprintf("expected at most %d bytes, got %d", maxBytes, len(data))}
	}
	if !utf8.Valid(data) {
		line, column := firstInvalid(data)
		return nil, &Error{File: file, Line: line, Column: column, Message: "expected text in UTF-8, got other bytes"}
	}
	// The YAML package returns errors, but has panicked for rare input. Such a file is invalid; it must not end the
	// program.
	defer func() {
		if r := recover(); r != nil {
			doc, err = nil, &Error{File: file, Line: 1, Column: 1, Message: fmt.Sprintf("expected YAML, got %v", r)}
		}
	}()

	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first yaml.Node
	switch err := decoder.Decode(&first); {
	case errors.Is(err, io.EOF):
		return &Document{file: file}, nil
	case err != nil:
		return nil, syntaxError(file, data, err)
	}
	var second yaml.Node
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, &Error{File: file, Line: second.Line, Column: second.Column,
			Message: "expected one YAML document, got a second one"}
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(file, data, err)
	}
	doc = &Document{file: file}
	if len(first.Content) > 0 {
		doc.root = first.Content[0]
	}
	return doc, nil
}

// Empty reports whether the document has no content: no bytes, only comments, or null.
func (d *Document) Empty() bool { return d.root == nil || isNull(d.root) }

// Decode decodes the document into the message into, which is replaced as a whole on success and unchanged on error.
// The error joins one *Error for each mistake, in the order of the file; after 50 the others are omitted, and the last
// error reports the omission.
func (d *Document) Decode(into proto.Message) error {
	scratch := into.ProtoReflect().New().Interface()
	if err := d.DecodeWhatCanBe(scratch); err != nil {
		return err
	}
	proto.Reset(into)
	proto.Merge(into, scratch)
	return nil
}

// Meant maps wrong names of fields to suggestions: by the full name of the message, and the name in its simplest form
// ("allow" for Allow and al_low). A suggestion is a field, or a field with its value. Errors contain it.
type Meant map[protoreflect.FullName]map[string]string

func (m Meant) in(message protoreflect.MessageDescriptor, name string) string {
	return m[message.FullName()][strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))]
}

// DecodeWhatCanBe is Decode, but into gets all values that can be decoded even on error, so that the owner of the
// message can check their meaning and report all mistakes of a file at once (Join).
func (d *Document) DecodeWhatCanBe(into proto.Message) error { return d.DecodeMeant(into, nil) }

// DecodeMeant is DecodeWhatCanBe with suggestions for wrong names.
func (d *Document) DecodeMeant(into proto.Message, meant Meant) error {
	proto.Reset(into)
	if !d.Empty() {
		dec := &decoder{file: d.file, meant: meant}
		dec.message(d.root, into.ProtoReflect(), nil, 0)
		if err := dec.err(); err != nil {
			return err
		}
	}
	if err := proto.CheckInitialized(into); err != nil {
		return &Error{File: d.file, Line: 1, Column: 1, Message: err.Error()}
	}
	return nil
}

// Join joins the error of DecodeWhatCanBe with the mistakes that the message's owner found in the rest, in the order of
// the file. Mistakes in found are omitted if a field of the same message could not be decoded, because they may be a
// consequence; mistakes in sure are never omitted. Nil if there are none.
func Join(unread error, found []error, sure ...error) error {
	broken := parts(unread)
	all := slices.Clone(broken)
	for _, mistake := range found {
		if e, ok := errors.AsType[*Error](mistake); !ok || !slices.ContainsFunc(broken, e.within) {
			all = append(all, mistake)
		}
	}
	all = append(all, sure...)
	slices.SortStableFunc(all, func(a, b error) int {
		x, _ := errors.AsType[*Error](a)
		y, _ := errors.AsType[*Error](b)
		if x == nil || y == nil {
			return 0
		}
		return cmp.Or(cmp.Compare(x.Line, y.Line), cmp.Compare(x.Column, y.Column))
	})
	return errors.Join(all...)
}

// parts returns the errors that an error joins.
func parts(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// within reports whether e is about the message with another field that could not be decoded, or about something below
// it.
func (e *Error) within(unread error) bool {
	broken, ok := errors.AsType[*Error](unread)
	if !ok {
		return false
	}
	at := strings.LastIndexAny(broken.Field, ".[")
	if at < 0 {
		return e.Field == broken.Field
	}
	rest, ok := strings.CutPrefix(e.Field, broken.Field[:at])
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Errorf returns an *Error at the position of a field, for checks of meaning. field is a path in the form of this
// package's errors: names in snake_case joined by dots, list elements and map keys in brackets, "deny[0].path[1]" or
// `routes["fs/*"]` (a map key that is a plain name may also follow a dot: "handlers.fs"). If the field is not in the
// file, the position is that of the innermost part of the path that is.
func (d *Document) Errorf(field, format string, args ...any) error {
	line, column := d.Position(field)
	return &Error{File: d.file, Line: line, Column: column, Field: field, Message: fmt.Sprintf(format, args...)}
}

// Error is one mistake in a file.
type Error struct {
	// File is the name that the caller gave the file.
	File string
	// Line and Column are the position of the mistake, both counted from 1; columns count characters.
	Line, Column int
	// Field is the path of the field: "deny[0].path[1]". Empty if the mistake is not about a single field.
	Field string
	// Message describes the expected and the actual value.
	Message string
}

// Error formats the mistake as "FILE:LINE:COLUMN: FIELD: MESSAGE", in one line.
func (e *Error) Error() string {
	place := fmt.Sprintf("%s:%d:%d: ", e.File, e.Line, e.Column)
	if e.Field == "" {
		return place + e.Message
	}
	return place + e.Field + ": " + e.Message
}

var yamlErrorPattern = lazyregexp.New(`^yaml: (?:line (\d+): )?(?s:(.*))$`)

// syntaxError converts an error of the YAML package to an *Error. That package knows only the line, and not always
// that.
func syntaxError(file string, data []byte, err error) error {
	e := &Error{File: file, Line: 1, Column: 1, Message: "expected YAML: " + err.Error()}
	if m := yamlErrorPattern.FindStringSubmatch(err.Error()); m != nil {
		if line, err := strconv.Atoi(m[1]); err == nil && line > 0 {
			e.Line = line
		}
		e.Message = "expected YAML: " + m[2]
	}
	if strings.Contains(e.Message, "found character that cannot start any token") && startsWithTab(data, e.Line) {
		e.Message = "expected spaces at the beginning of the line, got a tab: YAML indents with spaces alone"
	}
	return e
}

// startsWithTab reports whether the indentation of a line, counted from 1, contains a tab.
func startsWithTab(data []byte, line int) bool {
	for i, text := range bytes.Split(data, []byte("\n")) {
		if i == line-1 {
			return bytes.ContainsRune(text[:len(text)-len(bytes.TrimLeft(text, " \t"))], '\t')
		}
	}
	return false
}

func firstInvalid(data []byte) (line, column int) {
	line, column = 1, 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			return line, column
		}
		if column++; r == '\n' {
			line, column = line+1, 1
		}
		data = data[size:]
	}
	return line, column
}
