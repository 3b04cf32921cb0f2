// Package nulmsg encodes and decodes messages between acphost's own small processes: lists of entries "NAME=VALUE",
// each terminated by a NUL, and an empty entry at the end. An unset value has no entry; a list has an entry for each of
// its values. Values cannot contain a NUL, and neither can arguments, variables and paths.
//
// encoding/json would add at least 0.1 MB of memory to each process that uses it, and such a process may run beside
// each agent and each command. The package does not know the messages.
package nulmsg

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
)

// A Message passes each of its fields to a Codec, always in the same order.
type Message interface{ Exchange(c *Codec) }

// Marshal returns the encoded message. It returns an error if a value contains a NUL.
func Marshal(m Message) ([]byte, error) {
	c := &Codec{}
	m.Exchange(c)
	return append(c.out, 0), c.err
}

// Read decodes a message into m, which must be empty. It returns the errors of r, and an error if the message is
// malformed.
func Read(r *bufio.Reader, m Message) error {
	c := &Codec{in: map[string][]string{}}
	for {
		text, err := r.ReadString(0)
		if err != nil {
			return err
		}
		name, value, ok := strings.Cut(text[:len(text)-1], "=")
		if !ok {
			break
		}
		c.in[name] = append(c.in[name], value)
	}
	m.Exchange(c)
	return c.err
}

// Codec writes the values of a message to out, or sets them from in.
type Codec struct {
	in  map[string][]string // nil when encoding
	out []byte
	err error // the first value that cannot be encoded or decoded
}

func (c *Codec) fail(name string, err error) {
	if c.err == nil {
		c.err = fmt.Errorf("%s: %w", name, err)
	}
}

// Texts encodes or decodes a list of texts.
func (c *Codec) Texts(name string, list *[]string) {
	if c.in != nil {
		*list = c.in[name]
		return
	}
	for _, value := range *list {
		if strings.IndexByte(value, 0) >= 0 {
			c.fail(name, fmt.Errorf("%q has a NUL, which ends an argument, a path or a variable", value))
		}
		c.out = append(append(append(append(c.out, name...), '='), value...), 0)
	}
}

// Text encodes or decodes a text. An empty text has no entry.
func (c *Codec) Text(name string, value *string) {
	var list []string
	if *value != "" {
		list = []string{*value}
	}
	if c.Texts(name, &list); len(list) > 0 {
		*value = list[0]
	}
}

// Flag encodes or decodes a flag.
func (c *Codec) Flag(name string, value *bool) {
	var set string
	if *value {
		set = "1"
	}
	c.Text(name, &set)
	*value = set != ""
}

// Optional returns the value at p when encoding, or the encoded value when decoding; nil if none exists.
func Optional[T any](c *Codec, name string, p **T) *T {
	there := *p != nil
	if c.Flag(name, &there); there && *p == nil {
		*p = new(T)
	}
	return *p
}

type integer interface {
	~int | ~int64 | ~uint | ~uint16 | ~uint32
}

// Number encodes or decodes a number. 0 has an entry, too.
func Number[T integer](c *Codec, name string, value *T) {
	list := []T{*value}
	if Numbers(c, name, &list); len(list) > 0 {
		*value = list[0]
	}
}

// Numbers encodes or decodes a list of numbers.
func Numbers[T integer](c *Codec, name string, list *[]T) {
	var texts []string
	for _, n := range *list {
		texts = append(texts, strconv.FormatInt(int64(n), 10))
	}
	c.Texts(name, &texts)
	if c.in == nil {
		return
	}
	*list = nil
	for _, text := range texts {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			c.fail(name, err)
		}
		*list = append(*list, T(n)) // #nosec G115 -- the other end is this program, too, and wrote a T
	}
}
