package yamlproto

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// jsonName returns protobuf's default JSON name of a field: fs_read becomes fsRead.
func jsonName(name string) string {
	if !strings.Contains(name, "_") {
		return name
	}
	var b strings.Builder
	upper := false
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_':
			upper = true
			continue
		case upper && 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		}
		upper = false
		b.WriteByte(c)
	}
	return b.String()
}

// findField finds a field by its name or its JSON name.
func findField(fields protoreflect.FieldDescriptors, name string) protoreflect.FieldDescriptor {
	if fd := fields.ByTextName(name); fd != nil {
		return fd
	}
	return fields.ByJSONName(name)
}

// unknownField describes an unknown field for an error: the field that was probably meant, or all fields.
func unknownField(fields protoreflect.FieldDescriptors, got, meant string) string {
	if meant != "" {
		return fmt.Sprintf("expected a known field, got %s (did you mean %q?)", quoted(got), meant)
	}
	names := make([]string, fields.Len())
	for i := range names {
		fd := fields.Get(i)
		names[i] = fd.TextName()
		if fd.Message() != nil && !fd.IsMap() && !fd.IsList() && wellKnown(fd.Message()) == nil && findField(fd.Message().Fields(), got) != nil {
			return fmt.Sprintf("expected a known field, got %s (did you mean %q below %q?)", quoted(got), got, names[i])
		}
	}
	if near := DidYouMean(got, names); near != "" {
		return fmt.Sprintf("expected a known field, got %s%s", quoted(got), near)
	}
	if len(names) == 0 {
		return fmt.Sprintf("expected no fields, got %s", quoted(got))
	}
	return fmt.Sprintf("expected one of %s, got %s", strings.Join(names, ", "), quoted(got))
}

// DidYouMean returns a suggestion for a mistyped name, for the end of an error: ` (did you mean "info"?)`. Empty if no
// name is similar.
func DidYouMean(got string, names []string) string {
	if near := Nearest(got, names); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}

// Nearest returns the name that is most similar to got, or "" if none is similar.
func Nearest(got string, names []string) string {
	if len(got) > 64 {
		return ""
	}
	fold := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
	}
	best, bestDistance := "", 1+max(1, len(got)/3)
	for _, name := range names {
		if d := distance(fold(got), fold(name)); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// distance returns the number of letters to insert, remove, replace or swap with their neighbour to get from a to b.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	beforeLast, last, row := rows[0], rows[1], rows[2]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], beforeLast[j-2]+1)
			}
		}
		beforeLast, last, row = last, row, beforeLast
	}
	return last[len(b)]
}

// enumValue finds a value by its full name or, in either case, by its name without the enum's prefix: VERDICT_ASK, ASK
// and ask are equal.
func enumValue(ed protoreflect.EnumDescriptor, name string) protoreflect.EnumValueDescriptor {
	values := ed.Values()
	if v := values.ByName(protoreflect.Name(name)); v != nil {
		return v
	}
	prefix := enumPrefix(ed)
	for i := range values.Len() {
		v := values.Get(i)
		short := strings.TrimPrefix(string(v.Name()), prefix)
		if name == short || name == strings.ToLower(short) {
			return v
		}
	}
	return nil
}

// enumNames lists an enum's values in their short form.
func enumNames(ed protoreflect.EnumDescriptor) []string {
	prefix := enumPrefix(ed)
	names := make([]string, ed.Values().Len())
	for i := range names {
		names[i] = strings.TrimPrefix(string(ed.Values().Get(i).Name()), prefix)
		if prefix != "" {
			names[i] = strings.ToLower(names[i])
		}
	}
	return names
}

// enumPrefix returns the common prefix of the enum's values, DOOR_ for the enum Door; empty unless all values have it.
func enumPrefix(ed protoreflect.EnumDescriptor) string {
	var b strings.Builder
	name := string(ed.Name())
	for i := range len(name) {
		c := name[i]
		startsWord := i > 0 && isUpper(c) && (!isUpper(name[i-1]) || (i+1 < len(name) && isLower(name[i+1])))
		if startsWord && name[i-1] != '_' {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToUpper(string(c)))
	}
	prefix := b.String() + "_"
	for i := range ed.Values().Len() {
		if value := string(ed.Values().Get(i).Name()); !strings.HasPrefix(value, prefix) || value == prefix {
			return ""
		}
	}
	return prefix
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
